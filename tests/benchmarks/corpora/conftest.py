"""Small corpora."""

from pathlib import Path

import pytest

from tests.datasets.conftest import real_data, serve  # noqa: F401

TRAIN = (
    b"NUM:dist How far is it from Denver to Aspen ?\n"
    b"LOC:city Which city has a sister\xf0city in Japan ?\n"
    b"NUM:dist How far is the moon ?\n"
)
TEST = b"LOC:city What is the capital of Japan ?\n"


@pytest.fixture
def trec_root(tmp_path: Path) -> Path:
    (tmp_path / "train_5500.label").write_bytes(TRAIN)
    (tmp_path / "TREC_10.label").write_bytes(TEST)
    return tmp_path
