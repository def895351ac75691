"""Reviews with ratings: files of the published form, and picking by the definition."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.corpora.beer_advocate import BeerAdvocate, decorrelated

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


def write(root: Path, name: str, text: str) -> None:
    (root / f"{name}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "reviews.aspect1.train.txt", TRAIN)
    write(tmp_path, "reviews.aspect1.heldout.txt", HELDOUT)
    lines = "".join(json.dumps(review) + "\n" for review in ANNOTATED)
    (tmp_path / "annotations.json").write_text(lines)
    return tmp_path


def test_reads_the_published_form(root: Path) -> None:
    corpus = BeerAdvocate(root, aspect=1)
    assert repr(corpus) == "BeerAdvocate(5 texts, train=2, valid=1, test=2)"
    assert corpus.part("train") == [["pours", "a", "dark", "brown"], ["no", "head", "."]]
    assert corpus.part("valid") == [["smells", "of", "malt"]]
    assert corpus.part("test") == [REVIEW["x"], ["flat"]]
    assert corpus.ratings.dtype == torch.float32
    rows = [[0.8, 0.6, 0.5, 0.4, 1.0], [0, 0.25, 0.5, 0.75, 1], [0.5] * 5, *[REVIEW["y"]] * 2]
    assert torch.equal(corpus.ratings, torch.tensor(rows))
    assert corpus.split == "published parts, annotated reviews to test on"
    first, second = corpus.annotations
    marks = ["11100", "10001", "00000", "00000", "11111"]
    assert ["".join(map(str, row)) for row in first.int().tolist()] == marks
    assert second.int().tolist() == [[1], [0], [0], [0], [0]]
    evidence = corpus.evidence
    assert evidence[:3] == [None, None, None]
    assert [marks.int().tolist() for marks in evidence[3:]] == [[1, 0, 0, 0, 1], [0]]


def test_the_digest_is_of_all_that_is_read(root: Path) -> None:
    digest = BeerAdvocate(root, aspect=1).digest()
    assert BeerAdvocate(root, aspect=1).digest() == digest
    write(root, "reviews.aspect1.heldout.txt", HELDOUT.replace("0.5 ", "0.6 ", 1))
    changed = BeerAdvocate(root, aspect=1).digest()
    assert changed != digest
    review = {**REVIEW, "0": [[0, 2]]}
    (root / "annotations.json").write_text(json.dumps(review))
    assert BeerAdvocate(root, aspect=1).digest() not in (digest, changed)


def random_ratings(number: int, seed: int = 0) -> Tensor:
    """Ratings that an overall impression makes similar."""
    generator = torch.Generator().manual_seed(seed)
    impression = 0.12 * torch.randn(number, 1, generator=generator, dtype=torch.double)
    noise = 0.1 * torch.randn(number, 5, generator=generator, dtype=torch.double)
    return ((0.7 + impression + noise).clamp(0, 1) * 40).round() / 40


def picked_by_definition(ratings: np.ndarray, aspect: int, limit: float) -> list[int]:
    """The most of the largest errors without a correlation above the limit, each number tried."""
    others = np.delete(ratings, aspect, axis=1)
    y = ratings[:, aspect]
    inputs = np.column_stack([others, np.ones(len(y))])
    errors = np.abs(y - inputs @ np.linalg.pinv(inputs) @ y)
    order = np.argsort(-errors.round(12), kind="stable")
    for number in range(len(y), 1, -1):
        rows = order[:number]
        if y[rows].std() > 1e-9 and all(others[rows].std(axis=0) > 1e-9):
            largest = max(abs(np.corrcoef(y[rows], column)[0, 1]) for column in others[rows].T)
            if largest <= limit:
                return rows.tolist()
    return []


@pytest.mark.parametrize(("aspect", "limit", "seed"), [(0, 0.45, 0), (2, 0.5, 0), (4, 0.5, 1)])
def test_picks_the_largest_errors_while_correlations_are_low(
    aspect: int, limit: float, seed: int
) -> None:
    ratings = random_ratings(230, seed)
    expected = picked_by_definition(ratings.numpy(), aspect, limit)
    picked = decorrelated(ratings, aspect, limit)
    assert 1 < len(expected) < 230
    assert sorted(picked.tolist()) == sorted(expected)
    grid = torch.tensor([[a, b] for a in (0.0, 0.5, 1.0) for b in (0.0, 0.5, 1.0)])
    assert sorted(decorrelated(grid, 0, limit=0.1).tolist()) == list(range(9))


def test_a_corpus_keeps_what_is_picked(root: Path) -> None:
    ratings = random_ratings(100)
    lines = [" ".join(map(str, row)) + f"\treview {k}" for k, row in enumerate(ratings.tolist())]
    write(root, "reviews.aspect1.train.txt", "\n".join(lines))
    corpus = BeerAdvocate(root, aspect=1)
    digest = corpus.digest()
    corpus.decorrelate(limit=0.4)
    picked = decorrelated(ratings.float(), 1, 0.4)
    assert corpus.parts["train"].tolist() == sorted(picked.tolist())
    assert [len(corpus.parts[part]) for part in ("valid", "test")] == [1, 2]
    assert corpus.part("test")[1] == ["flat"]
    assert corpus.digest() != digest
    assert corpus.split.endswith(f", {len(picked)} of 100 to train on with correlations up to 0.4")


@pytest.mark.parametrize(
    ("ratings", "limit", "said"),
    [
        (torch.rand(5, 2), 0, "limit must be above 0 and at most 1, got 0"),
        (torch.rand(5, 2), 1.1, "limit must be above 0 and at most 1, got 1.1"),
        (torch.full((5, 2), 0.5), 0.5, "no two or more of the 5 reviews have correlations"),
        (torch.arange(6.0).repeat(2, 1).T / 6, 0.5, "no two or more of the 6 reviews"),
        (torch.rand(1, 2), 0.5, "no two or more of the 1 reviews"),
    ],
)
def test_what_cannot_be_picked(ratings: Tensor, limit: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decorrelated(ratings, 0, limit)


def test_a_file_that_is_not_there(root: Path) -> None:
    said = r"reviews.aspect0.train.txt or .* is not in .*; http://people.csail.mit.edu/taolei/beer"
    with pytest.raises(FileNotFoundError, match=said):
        BeerAdvocate(root)
    with pytest.raises(ValueError, match="aspect must be from 0 to 4, got 5"):
        BeerAdvocate(root, aspect=5)
    (root / "annotations.json").write_text("")
    with pytest.raises(ValueError, match=r"annotations.json has no texts"):
        BeerAdvocate(root, aspect=1)


BAD_REVIEWS = [
    ("0.1 0.2 0.3 0.4 0.5 words", "is not 'y1 y2 y3 y4 y5 <tab> words': it has no tab"),
    ("0.1 0.2 0.3 0.4\twords", "has 4 ratings, expected 5"),
    ("0.1 0.2 0.3 0.4 five\twords", "a rating must be a number from 0 to 1, got 'five'"),
    ("0.1 0.2 0.3 0.4 1.5\twords", "a rating must be a number from 0 to 1, got '1.5'"),
    ("0.1 0.2 0.3 0.4 nan\twords", "a rating must be a number from 0 to 1, got 'nan'"),
    ("0.1 0.2 0.3 0.4 0.5\t ", "has no words"),
]
WITHIN = r"2' must have \[start, end\] within 5 words"
BAD_ANNOTATIONS: list[tuple[Any, str]] = [
    ("{", "is not JSON: Expecting property name"),
    ([1], "is not a JSON object"),
    ({**REVIEW, "x": []}, "has no words"),
    ({**REVIEW, "x": "a nice head"}, "'x' must be a list of words"),
    ({**REVIEW, "x": ["a", 1]}, "a word must be a string, got 1"),
    ({k: v for k, v in REVIEW.items() if k != "y"}, "has no 'y'"),
    ({**REVIEW, "y": 0.5}, "'y' must be a list of ratings"),
    ({**REVIEW, "y": [0, 0, 0, 0, True]}, "a rating must be .* got True"),
    ({k: v for k, v in REVIEW.items() if k != "3"}, "has no '3'"),
    ({**REVIEW, "2": 4}, r"2' must be a list of \[start, end\], got 4"),
    *(({**REVIEW, "2": [span]}, WITHIN) for span in ([1, 6], [-1, 2], [3, 2], [1, 2, 3], [0.5, 2])),
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
        said = f"line 2 of .*{name}:? '?{said}"
    else:
        write(root, name, f"{TRAIN}{line}\n")
        said = f"^line 3 of .*{name}.gz:? {said}$"
    with pytest.raises(ValueError, match=said):
        BeerAdvocate(root, aspect=1)
