import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; skips where PYG_KERNELS_DATA does not name one.

    Its folders ``molecules`` and ``text`` may be missing.
    """
    folder = os.environ.get("PYG_KERNELS_DATA")
    if not folder:
        pytest.skip("PYG_KERNELS_DATA is not set to a folder of real data")
    if not Path(folder).is_dir():
        pytest.skip(f"PYG_KERNELS_DATA={folder} is not a folder")
    return Path(folder)
