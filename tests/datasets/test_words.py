"""Running text to words, words to numbers and back, and word vectors in both text formats."""

import gzip
from pathlib import Path

import pytest
import torch

from pyg_kernels.datasets.text import Vocabulary, find_glove, read_word_vectors, tokenize

TEXTS = [["b", "a", "b"], ["c", "a"], ["b", "<unk>"]]
VOCABULARY = Vocabulary(["naïve", "absent", "3", ". . ."])
EXPECTED = [[0, 0, 0], [0, 0, 0], [4, 5, 6], [0, 0, 0], [0.5, -1, 0.2], [1, 2, 3]]
LINES = "3 0.5 -1 2e-1\n. . . 1 2 3\n<unk> 9 9 9\n<pad> 9 9 9\nnaïve 4 5 6\n\u2028 7 8 9\n"


def test_words_and_punctuation() -> None:
    for text, words in (
        ("Long-term (see [2])", "long - term ( see [ 2 ] )"),
        ("Don't say it's ours; they\u2019ve won't", "do n't say it 's ours ; they 've wo n't"),
        ("The U.S. lost $1,000.50, 3rd time.", "the u.s. lost $ 1,000.50 , 3rd time ."),
        ("'quoted' o'clock, ain't", "' quoted ' o ' clock , ai n't"),
        ("Zürich\n\t雨 _x_ \u00a0", "zürich 雨 _x_"),
        (" \n", ""),
    ):
        assert tokenize(text) == words.split()
    assert tokenize("DON'T", lower=False) == ["DO", "N'T"]


def test_orders_by_frequency_and_then_by_occurrence() -> None:
    vocabulary = Vocabulary.build(TEXTS)
    assert vocabulary.words == ["<pad>", "<unk>", "b", "a", "c"]
    assert (vocabulary.padding, vocabulary.unknown, len(vocabulary)) == (0, 1, 5)
    assert [vocabulary[word] for word in ("b", "c", "z", "<unk>")] == [2, 4, 1, 1]
    assert "c" in vocabulary and "z" not in vocabulary
    assert repr(vocabulary) == "Vocabulary(5 words)"
    assert Vocabulary.build(TEXTS, min_count=2).words[2:] == ["b", "a"]
    assert Vocabulary.build(TEXTS, max_size=3).words[2:] == ["b"]
    ended = Vocabulary.build(TEXTS, max_size=4, specials=["</s>"])
    assert ended.words == ["<pad>", "<unk>", "</s>", "b"]
    longer = Vocabulary(["a"], specials=["</s>"])
    extended = longer.extended(["b", "a", "<pad>", "b", "c"])
    assert extended.words == ["<pad>", "<unk>", "</s>", "a", "b", "c"]
    assert len(longer) == 4


def test_wrong_vocabularies_are_refused() -> None:
    for name, least in (("min_count", 1), ("max_size", 2)):
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {least - 1}"):
            Vocabulary.build(TEXTS, **{name: least - 1})
    with pytest.raises(ValueError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])
    for call in (Vocabulary.build, Vocabulary(["a"]).encode):
        with pytest.raises(TypeError, match="sequence of words, got the string 'how far'"):
            call([["a"], "how far"])


def test_encodes_texts_of_any_length() -> None:
    vocabulary = Vocabulary(["a", "b"])
    ids, ptr = vocabulary.encode([["b", "z"], [], ["a"]])
    assert ids.tolist() == [3, 1, 2]
    assert ptr.tolist() == [0, 2, 2, 3]
    assert vocabulary.decode(ids) == ["b", "<unk>", "a"]
    ids, ptr = vocabulary.encode([])
    assert (ids.tolist(), ptr.tolist()) == ([], [0])
    assert ids.dtype == ptr.dtype == torch.long


@pytest.mark.parametrize("header", ["", "6 3\n"], ids=["glove", "word2vec"])
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.vec.gz"])
def test_reads_both_formats(tmp_path: Path, header: str, name: str) -> None:
    # word2vec's own program writes a space behind the last number.
    content = (header + (LINES.replace("\n", " \n") if header else LINES)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    vectors, found = read_word_vectors(tmp_path / name, VOCABULARY)
    torch.testing.assert_close(vectors, torch.tensor(EXPECTED, dtype=torch.float32))
    assert found.tolist() == [False, False, True, False, True, True]


def test_words_may_end_in_what_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("the 1 2\nto nan 3 4\n. . 5 6\n")
    vectors, found = read_word_vectors(tmp_path / "vectors.txt", Vocabulary(["to nan", ". ."]))
    assert vectors[2:].tolist() == [[3, 4], [5, 6]]
    assert found.tolist() == [False, False, True, True]


def test_a_bad_file_is_named_with_its_line(tmp_path: Path) -> None:
    for content, said in (
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
        (LINES.encode() + "é 1 2 3".encode("latin-1"), "is not in GloVe's text format"),
        (gzip.compress(LINES.encode() * 500)[:60], "is not in GloVe's text format"),
    ):
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / ("vectors.txt.gz" if data.startswith(b"\x1f\x8b") else "vectors.txt")
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{path.name} .*{said}"):
            read_word_vectors(path, VOCABULARY)
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
