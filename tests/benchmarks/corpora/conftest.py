"""Small corpora, and what urlopen gives in a test without a network."""

import io
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.datasets.conftest import real_data  # noqa: F401

TRAIN = (
    b"NUM:dist How far is it from Denver to Aspen ?\n"
    b"LOC:city Which city has a sister\xf0city in Japan ?\n"
    b"NUM:dist How far is the moon ?\n"
)
TEST = b"LOC:city What is the capital of Japan ?\n"


class Response(io.BytesIO):
    """What urlopen returns."""


@pytest.fixture
def trec_root(tmp_path: Path) -> Path:
    (tmp_path / "train_5500.label").write_bytes(TRAIN)
    (tmp_path / "TREC_10.label").write_bytes(TEST)
    return tmp_path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], list[str]]:
    """Makes these addresses give these contents; returns the list of what will be asked for."""

    def start(contents: dict[str, bytes]) -> list[str]:
        asked: list[str] = []

        def urlopen(url: str, timeout: float) -> Response:
            asked.append(url)
            if url not in contents:
                raise urllib.error.URLError("no route")
            return Response(contents[url])

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        return asked

    return start
