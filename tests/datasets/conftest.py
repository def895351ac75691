import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def present(path: Path) -> Path:
    """A folder or file of the real data; skips where it is not there."""
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], list[str]]:
    """Makes addresses give contents without a network; returns the list of requested addresses."""
    pooch = pytest.importorskip("pooch", reason="downloads need the extra 'mol' or 'bench'")

    def start(contents: dict[str, bytes]) -> list[str]:
        asked: list[str] = []

        def download(_: Any, url: str, file: str, *__: Any) -> None:
            asked.append(url)
            if url not in contents:
                raise OSError("no route")
            Path(file).write_bytes(contents[url])

        monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
        return asked

    return start
