import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; skips where PYG_KERNELS_DATA does not name one."""
    folder = os.environ.get("PYG_KERNELS_DATA")
    if not folder:
        pytest.skip("PYG_KERNELS_DATA is not set to a folder of real data")
    if not (Path(folder) / "molecules").is_dir():
        pytest.skip(f"PYG_KERNELS_DATA={folder} has no folder molecules")
    return Path(folder)
