"""Texts with ratings, classes or numbers: BeerAdvocate, and the user's own files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

from benchmarks.corpora.annotated_texts import AnnotatedTexts
from benchmarks.corpora.beer_advocate import BeerAdvocate
from tests.benchmarks.small_data import write_file

RATED = "reviews.aspect1.train.txt.gz"
TRAIN = "0.8 0.6 0.5 0.4 1.0\tpours a dark brown\n0 .25 0.5 0.75 1\tno head .\n"
HELDOUT = "0.5 0.5 0.5 0.5 0.5\tsmells of malt\n"
SPANS = {"0": [[0, 3]], "1": [[4, 5], [0, 1]], "2": [], "3": [[2, 2]], "4": [[0, 5]]}
REVIEW = {"x": ["a", "nice", "head", "and", "smell"], "y": [0.7, 0.6, 0.5, 0.4, 1], **SPANS}
REVIEW["raw"] = "A nice head and smell"
ANNOTATED = [REVIEW, {**REVIEW, "x": ["flat"], **{str(k): [] for k in range(5)}, "0": [[0, 1]]}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_file(tmp_path / RATED, TRAIN)
    write_file(tmp_path / "reviews.aspect1.heldout.txt.gz", HELDOUT)
    lines = "".join(json.dumps(review) + "\n" for review in ANNOTATED)
    (tmp_path / "annotations.json").write_text(lines)
    return tmp_path


def test_reads_the_published_form(root: Path) -> None:
    corpus = BeerAdvocate(root, aspect=1)
    assert corpus.part("train") == [["pours", "a", "dark", "brown"], ["no", "head", "."]]
    assert corpus.part("valid") == [["smells", "of", "malt"]]
    assert corpus.part("test") == [REVIEW["x"], ["flat"]]
    assert corpus.y.tolist() == [0.6, 0.25, 0.5, 0.6, 0.6]
    assert corpus.evidence[:3] == [None, None, None]
    assert [marks.int().tolist() for marks in corpus.evidence[3:]] == [[1, 0, 0, 0, 1], [0]]
    with pytest.raises(FileNotFoundError, match=r"aspect0.train.txt or .* is not in .*; http://"):
        BeerAdvocate(root)
    assert BeerAdvocate(root, aspect=1).digest() == corpus.digest()
    digests = {corpus.digest()}
    for name, content in (
        ("reviews.aspect1.heldout.txt.gz", HELDOUT.replace("0.5", "0.6")),
        ("annotations.json", "\n".join(json.dumps({**one, "1": [[0, 1]]}) for one in ANNOTATED)),
    ):
        write_file(root / name, content)
        digests.add(BeerAdvocate(root, aspect=1).digest())
    assert len(digests) == 3


NOT_FIVE, NO_REVIEW = "expected 5 ratings from 0 to 1, got ", "is no annotated review"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("0.1 0.2 0.3 0.4 0.5 words", NOT_FIVE),
        ("0.1 0.2 0.3 0.4 0.5\t ", "expected words, got"),
        *((f"0 0 0 {rating}\twords", NOT_FIVE) for rating in ("0", "0 five", "0 1.5", "0 nan")),
        ([1], NO_REVIEW),
        ({k: v for k, v in REVIEW.items() if k != "1"}, f"{NO_REVIEW}: '1'"),
        ({**REVIEW, "1": 4}, NO_REVIEW),
        *(({**REVIEW, "1": [span]}, "not within 5 words") for span in ([1, 6], [-1, 2], [3, 2])),
        ({**REVIEW, "1": [[1, 2, 3]]}, f"{NO_REVIEW}: too many values"),
        ({**REVIEW, "x": ["a", "b", "c", "d", 1]}, "expected words, got"),
        ({**REVIEW, "y": [0, 0, 0, 0, "x"]}, NOT_FIVE),
    ],
)
def test_a_bad_line_is_named(root: Path, bad: Any, said: str) -> None:
    if isinstance(bad, str):
        write_file(root / RATED, f"{TRAIN}{bad}\n")
        place = "line 3 of .*reviews.aspect1.train.txt"
    else:
        (root / "annotations.json").write_text(f"{json.dumps(REVIEW)}\n{json.dumps(bad)}\n")
        place = "line 2 of .*annotations.json"
    with pytest.raises(ValueError, match=f"{place}.*{said}"):
        BeerAdvocate(root, aspect=1)


LETTERS = ["a", "b"] * 20
FEW, MANY = ([str(k) for k in range(number)] for number in (20, 21))  # different whole numbers


def write(path: Path, targets: Sequence[str]) -> Path:
    rows = [(f"text {k}", target, "") for k, target in enumerate(targets)]
    pandas.DataFrame(rows, columns=["text", "target", "why"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("targets", "task", "classes"),
    [
        (LETTERS, None, ("a", "b")),
        (["None", "null"] * 20, None, ("None", "null")),
        (FEW * 15, None, tuple(sorted(FEW))),
        (FEW * 15, "regression", ()),
        ([*FEW, "0.5"] * 2, None, ()),
        (MANY * 2, None, ()),
        (MANY * 15, "classification", tuple(sorted(MANY))),
    ],
)
def test_targets_are_classes_or_numbers(tmp_path: Path, targets, task, classes) -> None:
    corpus = AnnotatedTexts(write(tmp_path / "own.csv", targets), evidence_column="why", task=task)
    assert corpus.classes == classes
    expected = [classes.index(each) if classes else float(each) for each in targets]
    assert corpus.y.tolist() == expected
    assert corpus.evidence == [None] * len(targets)


@pytest.mark.parametrize(
    ("targets", "tested", "options", "said"),
    [
        (["a", "b", "a"], None, {}, "3 texts are too few: the valid part has none"),
        (LETTERS, ["c", "a"], {}, "no training text has the class 'c'"),
        (["a"] * 9, None, {}, "own.csv, column 'target': all texts have 'a'; two classes"),
        (["1.5", "inf"], None, {}, "own.csv, line 3: the target 'inf' is no finite number"),
        (["1", "nan"], None, {"task": "regression"}, "line 3: the target 'nan' is no finite"),
        (["1", "2", "NA"], None, {}, "own.csv, line 4: the target 'NA' is no finite number"),
        (["1", "x", "2"], None, {}, "own.csv, line 3: the target 'x' is no number, as most"),
        (LETTERS, None, {"text_columns": ["why"]}, "own.csv, line 2: no text"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, targets: list[str], tested: list[str] | None, options: Any, said: str
) -> None:
    test = None if tested is None else write(tmp_path / "test.csv", tested)
    with pytest.raises(ValueError, match=said):
        AnnotatedTexts(write(tmp_path / "own.csv", targets), test, **options)
