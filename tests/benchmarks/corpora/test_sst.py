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
        assert len(corpus.parts["train"]) == 5
        assert corpus.split == "official parts"
    with pytest.raises(FileNotFoundError, match=r"no file stsa.fine.phrases.train, of the sent"):
        SST(root, phrases=True)
    (root / "raw").mkdir()
    (root / "raw" / "stsa.fine.phrases.train.gz").write_bytes(gzip.compress(PHRASES.encode()))
    assert len(SST(root).parts["train"]) == 5
    for phrases in (True, None):
        corpus = SST(root, phrases=phrases)
        assert corpus.split == "official parts, training on phrases too"
        assert corpus.part("train")[1:3] == [["fine", "film"], ["fine"]]
        assert corpus.labels[corpus.parts["train"]].tolist() == [3, 3, 3, 0, 0, 2, 4, 1]
        assert corpus.part("valid") == [["no", "film"]]
        assert corpus.part("test") == [["yes", ",", "superb"]]


NO_CLASS = r"^line 2 of .*stsa.fine.dev is not a class from 0 to 4 and a sentence$"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        *((name, "", rf"{name} has no texts$") for name in [*FILES, "stsa.fine.phrases.train"]),
        *(
            ("stsa.fine.dev", f"1 no\n{line}\n", NO_CLASS)
            for line in ("5 fine", "-1 fine", "good film", "3 ", "")
        ),
    ],
)
def test_a_bad_file_is_named(root: Path, name: str, text: str, said: str) -> None:
    (root / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        SST(root, phrases=None)
