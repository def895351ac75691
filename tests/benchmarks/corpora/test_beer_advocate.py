"""Reviews with ratings: files of the published form."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.corpora.beer_advocate import BeerAdvocate
from tests.benchmarks.small_data import write_file

TRAIN = "0.8 0.6 0.5 0.4 1.0\tpours a dark brown\n0 .25 0.5 0.75 1\tno head .\n"
HELDOUT = "0.5 0.5 0.5 0.5 0.5\tsmells of malt\n"
REVIEW: dict[str, Any] = {
    "x": ["a", "nice", "head", "and", "smell"],
    "y": [0.7, 0.6, 0.5, 0.4, 1],
    "0": [[0, 3]],
    "1": [[4, 5], [0, 1]],
    "2": [],
    "3": [[2, 2]],
    "4": [[0, 5]],
    "raw": "A nice head and smell",
}
ANNOTATED = [REVIEW, {**REVIEW, "x": ["flat"], **{str(k): [] for k in range(5)}, "0": [[0, 1]]}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_file(tmp_path / "reviews.aspect1.train.txt.gz", TRAIN)
    write_file(tmp_path / "reviews.aspect1.heldout.txt.gz", HELDOUT)
    lines = "".join(json.dumps(review) + "\n" for review in ANNOTATED)
    (tmp_path / "annotations.json").write_text(lines)
    return tmp_path


def test_reads_the_published_form(root: Path) -> None:
    corpus = BeerAdvocate(root, aspect=1)
    assert corpus.part("train") == [["pours", "a", "dark", "brown"], ["no", "head", "."]]
    assert corpus.part("valid") == [["smells", "of", "malt"]]
    assert corpus.part("test") == [REVIEW["x"], ["flat"]]
    assert corpus.ratings.dtype == torch.float32
    rows = [[0.8, 0.6, 0.5, 0.4, 1.0], [0, 0.25, 0.5, 0.75, 1], [0.5] * 5, *[REVIEW["y"]] * 2]
    assert torch.equal(corpus.ratings, torch.tensor(rows))
    assert corpus.split == "published parts, annotated reviews to test on"
    evidence = corpus.evidence
    assert evidence[:3] == [None, None, None]
    assert [marks.int().tolist() for marks in evidence[3:]] == [[1, 0, 0, 0, 1], [0]]


def test_the_digest_is_of_all_that_is_read(root: Path) -> None:
    digests = [BeerAdvocate(root, aspect=1).digest() for _ in range(2)]
    write_file(root / "reviews.aspect1.heldout.txt.gz", HELDOUT.replace("0.5 ", "0.6 ", 1))
    digests.append(BeerAdvocate(root, aspect=1).digest())
    (root / "annotations.json").write_text(json.dumps({**REVIEW, "0": [[0, 2]]}))
    digests.append(BeerAdvocate(root, aspect=1).digest())
    assert digests[0] == digests[1] and len(set(digests)) == 3


def test_a_file_that_is_not_there(root: Path) -> None:
    said = r"reviews.aspect0.train.txt or .* is not in .*; http://people.csail.mit.edu/taolei/beer"
    with pytest.raises(FileNotFoundError, match=said):
        BeerAdvocate(root)


NOT_FIVE = "expected 5 ratings from 0 to 1, got "
BAD_REVIEWS = [
    ("0.1 0.2 0.3 0.4 0.5 words", "is not 'y1 y2 y3 y4 y5 <tab> words'"),
    ("0.1 0.2 0.3 0.4 0.5\t ", "is not 'y1 y2 y3 y4 y5 <tab> words'"),
    *((f"0 0 0 {rating}\twords", NOT_FIVE) for rating in ("0", "0 five", "0 1.5", "0 nan")),
]
BAD_ANNOTATIONS: list[tuple[Any, str]] = [
    ("{", "is no annotated review: Expecting property name"),
    ([1], "is no annotated review"),
    ({k: v for k, v in REVIEW.items() if k != "3"}, "is no annotated review: '3'"),
    ({**REVIEW, "2": 4}, "is no annotated review"),
    *(({**REVIEW, "2": [span]}, "is not within 5 words") for span in ([1, 6], [-1, 2], [3, 2])),
    ({**REVIEW, "2": [[1, 2, 3]]}, "is no annotated review: too many values"),
    ({**REVIEW, "x": ["a", "b", "c", "d", 1]}, "expected words, got"),
    ({**REVIEW, "y": [0, 0, 0, 0, "x"]}, NOT_FIVE),
]


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        *(("reviews.aspect1.train.txt", *row) for row in BAD_REVIEWS),
        *(("annotations.json", *row) for row in BAD_ANNOTATIONS),
    ],
)
def test_a_bad_line_is_named(root: Path, name: str, bad: Any, said: str) -> None:
    line = bad if isinstance(bad, str) else json.dumps(bad)
    if name == "annotations.json":
        (root / name).write_text(f"{json.dumps(REVIEW)}\n{line}\n")
        number = 2
    else:
        write_file(root / f"{name}.gz", f"{TRAIN}{line}\n")
        number = 3
    with pytest.raises(ValueError, match=rf"line {number} of .*{name}.*{said}"):
        BeerAdvocate(root, aspect=1)
