"""Texts of one's own with a class or a number each: what is read of them, what is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

from benchmarks.corpora.annotated_texts import AnnotatedTexts

LETTERS = ["a", "b"] * 20
FEW, MANY = ([str(k) for k in range(number)] for number in (20, 21))  # whole numbers that differ


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
        (["a"] * 9, None, {}, "own.csv, column 'target': all texts have the class 'a'; two are"),
        (["1.5", "inf"], None, {}, "own.csv, column 'target': a target is no finite number"),
        (["1", "nan"], None, {"task": "regression"}, "line 3: no target, where the others are n"),
        (["1.5", "2", "NA"], None, {}, "own.csv, line 4: no target, where the others are numbers"),
        (["1", "x"], None, {"task": "regression"}, "column 'target': could not convert .* 'x'"),
        (["a", " "], None, {}, "own.csv, line 3: no target"),
        (LETTERS, None, {"text_columns": ["why"]}, "own.csv, line 2: no text"),
        (LETTERS, None, {"evidence_column": "target"}, "line 2: its text .* the words 'a'"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, targets: list[str], tested: list[str] | None, options: Any, said: str
) -> None:
    test = None if tested is None else write(tmp_path / "test.csv", tested)
    with pytest.raises(ValueError, match=said):
        AnnotatedTexts(write(tmp_path / "own.csv", targets), test, **options)
