"""Word vectors in GloVe's and word2vec's text formats through one reader."""

import gzip
from pathlib import Path

import pytest
import torch

from pyg_kernels.datasets.text import Vocabulary, find_glove, read_word_vectors

VOCABULARY = Vocabulary(["naïve", "absent", "3", ". . ."])
EXPECTED = [[0, 0, 0], [0, 0, 0], [4, 5, 6], [0, 0, 0], [0.5, -1, 0.2], [1, 2, 3]]
LINES = "3 0.5 -1 2e-1\n. . . 1 2 3\n<unk> 9 9 9\n<pad> 9 9 9\nnaïve 4 5 6\n\u2028 7 8 9\n"


@pytest.mark.parametrize("header", ["", "6 3\n"], ids=["glove", "word2vec"])
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.vec.gz"])
def test_reads_both_formats(tmp_path: Path, header: str, name: str) -> None:
    # word2vec's own program writes a space behind the last number.
    content = (header + (LINES.replace("\n", " \n") if header else LINES)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    vectors, found = read_word_vectors(tmp_path / name, VOCABULARY)
    torch.testing.assert_close(vectors, torch.tensor(EXPECTED, dtype=torch.float32))
    assert found.tolist() == [False, False, True, False, True, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("the\n", "at line 1: it has 0 numbers, not 2"),
        ("3 nan 1\n", "at line 1: a number of it is not finite"),
        ("the 1 2\na 1 2 3\n", "GloVe's text format, at line 2: it has more than 2 numbers"),
        ("the 1 2\na 1\n", "GloVe's text format, at line 2: it has 1 numbers, not 2"),
        ("2 2\nthe 1 2\na 1 2 3\n", "word2vec's text format, at line 3: it has more than 2 numb"),
        ("2 2\nthe 1 2\na 1\n", "word2vec's text format, at line 3: it has 1 numbers, not 2"),
        ("3 2\nthe 1 2\na 1 2\n", "at line 3: the file ends with 2 words, its first line says 3"),
        ("1 2\nabsent 1 x\n", "at line 2: could not convert"),
        ("1 0\nthe\n", "at line 1: it announces 0 numbers a word"),
        ("the 1 2 3\nbad 1 y z\nof 1 2 3\n", "at line 2: could not convert string to float: 'z'"),
        ("bad x y 3\nof 1 2 3\n", "at line 1: could not convert string to float: 'x'"),
        ("2 3\nthe 1 2 3\nbad x 2 3\n", "word2vec's text format, at line 3: could not convert"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(ValueError, match=f"vectors.txt .*{said}"):
        read_word_vectors(tmp_path / "vectors.txt", VOCABULARY)


def test_words_may_end_in_what_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("the 1 2\nto nan 3 4\n. . 5 6\n")
    vectors, found = read_word_vectors(tmp_path / "vectors.txt", Vocabulary(["to nan", ". ."]))
    assert vectors[2:].tolist() == [[3, 4], [5, 6]]
    assert found.tolist() == [False, False, True, True]


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(LINES.encode() * 500)[:60])
    (tmp_path / "latin.txt").write_bytes(LINES.encode("utf-8") + "é 1 2 3".encode("latin-1"))
    for name in ("cut.txt.gz", "latin.txt"):
        with pytest.raises(ValueError, match=f"{name} is not in GloVe's text format"):
            read_word_vectors(tmp_path / name, VOCABULARY)
    with pytest.raises(FileNotFoundError):
        read_word_vectors(tmp_path / "nowhere.txt", VOCABULARY)


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
