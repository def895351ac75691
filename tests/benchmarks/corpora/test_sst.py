"""The Stanford Sentiment Treebank with the labelled phrases of its sentences."""

import gzip
from pathlib import Path

import pytest

from benchmarks.corpora.sst import SST

FILES = {
    "stsa.fine.train": "3 a Fine film\n0 dull .\n2 a film\n4 superb\n1 no\n",
    "stsa.fine.dev": "1 no film\n",
    "stsa.fine.test": "4 yes , superb\n",
}
PHRASES = "3 a Fine film\n3 Fine film\n3 Fine\n0 dull .\n0 dull\n2 .\n4 superb\n1 no\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_phrases_take_the_place_of_the_training_sentences(root: Path) -> None:
    for phrases in (False, None):
        corpus = SST(root, phrases=phrases)
        assert (len(corpus.parts["train"]), corpus.phrases) == (5, False)
        assert corpus.split == "official parts"
    (root / "raw").mkdir()
    (root / "raw" / "stsa.fine.phrases.train.gz").write_bytes(gzip.compress(PHRASES.encode()))
    assert len(SST(root).parts["train"]) == 5
    for phrases in (True, None):
        corpus = SST(root, phrases=phrases)
        assert corpus.phrases
        assert corpus.split == "official parts, training on phrases too"
        assert corpus.part("train")[1:3] == [["fine", "film"], ["fine"]]
        assert corpus.labels[corpus.parts["train"]].tolist() == [3, 3, 3, 0, 0, 2, 4, 1]
        assert corpus.part("valid") == [["no", "film"]]
        assert corpus.part("test") == [["yes", ",", "superb"]]


def test_phrases_that_are_not_there(root: Path) -> None:
    said = r"has no file stsa.fine.phrases.train, of the sentences and their phrases"
    with pytest.raises(FileNotFoundError, match=said):
        SST(root, phrases=True)


@pytest.mark.parametrize(
    "name",
    ["stsa.fine.train", "stsa.fine.dev", "stsa.fine.test", "stsa.fine.phrases.train"],
)
def test_an_empty_file_is_named(root: Path, name: str) -> None:
    (root / name).write_text("")
    with pytest.raises(ValueError, match=rf"{name} has no texts$"):
        SST(root, phrases=None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5 fine", r"a class and a sentence: the class must be from 0 to 4, got 5"),
        ("-1 fine", r"a class and a sentence: the class must be from 0 to 4, got -1"),
        ("good film", r"a class and a sentence$"),
        ("3 ", r"a class and a sentence$"),
        ("", r"a class and a sentence$"),
    ],
)
def test_a_bad_line_is_named(root: Path, line: str, said: str) -> None:
    (root / "stsa.fine.dev").write_text(f"1 no\n{line}\n")
    with pytest.raises(ValueError, match=rf"^line 2 of .*stsa.fine.dev is not {said}"):
        SST(root)
