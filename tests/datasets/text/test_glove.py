"""Word vectors in GloVe's text format."""

import gzip
from pathlib import Path

import pytest
import torch

from pyg_kernels.datasets.text import Vocabulary, find_glove, read_glove

LINES = "the 0.5 -1 2e-1\n. . . 1 2 3\n<unk> 9 9 9\n<pad> 9 9 9\nnaïve 4 5 6\n\u2028 7 8 9\n"
VOCABULARY = Vocabulary(["naïve", "absent", "the", ". . ."])


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
def test_reads_the_vectors_of_a_vocabulary(tmp_path: Path, name: str) -> None:
    content = LINES.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    vectors, found = read_glove(tmp_path / name, VOCABULARY)
    expected = [[0, 0, 0], [0, 0, 0], [4, 5, 6], [0, 0, 0], [0.5, -1, 0.2], [1, 2, 3]]
    torch.testing.assert_close(vectors, torch.tensor(expected, dtype=torch.float32))
    assert found.tolist() == [False, False, True, False, True, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("the\n", "at line 1: it has 0 numbers, not 2"),
        ("the 1 2\nnaïve 1\n", "at line 2: it has 1 numbers, not 2"),
        ("the 1 2\nnaïve 1 x\n", "at line 2: could not convert"),
        ("the 1 nan\n", "at line 1: a number of it is not finite"),
        ("the 1 2 3\nbad x y z\n", "at line 2: could not convert string to float: 'x'"),
        ("the 1 2 3\nthe 1 y 3\n", "at line 2: could not convert string to float: 'y'"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "glove.txt").write_text(text)
    with pytest.raises(ValueError, match=f"glove.txt .*{said}"):
        read_glove(tmp_path / "glove.txt", VOCABULARY)


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(LINES.encode() * 500)[:60])
    (tmp_path / "latin.txt").write_bytes(LINES.encode("utf-8") + "é 1 2 3".encode("latin-1"))
    for name in ("cut.txt.gz", "latin.txt"):
        with pytest.raises(ValueError, match=f"{name} is not in GloVe's text format"):
            read_glove(tmp_path / name, VOCABULARY)
    with pytest.raises(FileNotFoundError):
        read_glove(tmp_path / "nowhere.txt", VOCABULARY)


def test_finds_a_file_in_or_beside_the_root(tmp_path: Path) -> None:
    root, glove = tmp_path / "trec", tmp_path / "glove"
    root.mkdir()
    assert find_glove(root) is None
    glove.mkdir()
    for name in ("glove.6B.300d.txt", "glove.6B.100d.txt.gz", "notes.txt"):
        (glove / name).touch()
    assert find_glove(root) == glove / "glove.6B.100d.txt.gz"
    (root / "glove.folder.txt").mkdir()
    (root / "glove.mine.txt").touch()
    assert find_glove(root) == root / "glove.mine.txt"
