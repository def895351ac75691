"""What is learned from the columns of a table, and which rows have molecules."""

import numpy as np
import pandas as pd
import pytest

from pyg_kernels.molecules.training_data import read_rows, read_targets
from pyg_kernels.tables import FileError


def table(**columns: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    frame.index = range(2, 2 + len(frame))
    return frame


def test_targets_are_numbers_or_classes() -> None:
    frame = table(
        number=["1", "NA", "-2e3", "0"],
        binary=["0", "1", "", "1"],
        truth=["True", "FALSE", "nan", "true"],
        word=["toxic", "safe", " safe", ""],
        rank=["10", "2", "2.0", "1"],
    )
    found, classes = read_targets(frame, ["number", "binary"], None, "m.csv")
    assert classes is None
    np.testing.assert_array_equal(found, [[1, 0], [np.nan, 1], [-2000, np.nan], [0, 1]])
    found, classes = read_targets(frame, ["truth", "word"], None, "m.csv")
    assert classes == [["false", "true"], ["safe", "toxic"]]
    assert found["truth"].fillna("").tolist() == ["true", "false", "", "true"]
    assert found["word"].fillna("").tolist() == ["toxic", "safe", "safe", ""]
    found, classes = read_targets(frame, ["rank", "binary"], "classification", "m.csv")
    assert classes == [["1", "2", "10"], ["0", "1"]]
    assert found["rank"].tolist() == ["10", "2", "2", "1"]
    frame = table(  # names keep their digits and case
        code=["1000001", "1000002", "1000002.0", "NaN", "0.5"], kind=["None", "Ki", "NA", "", "Ki"]
    )
    found, classes = read_targets(frame, ["code", "kind"], "classification", "m.csv")
    assert classes == [["0.5", "1000001", "1000002"], ["Ki", "None"]]
    assert found["code"].fillna("").tolist() == ["1000001", "1000002", "1000002", "", "0.5"]
    assert found["kind"].fillna("").tolist() == ["None", "Ki", "", "", "Ki"]


def test_wrong_targets() -> None:
    for cells, task, expected in (
        (["1", "x", "2"], None, "line 3: 'x'"),
        (["1", "inf", "2"], None, "line 3: 'inf'"),
        (["low", "high", "low"], "regression", "line 2: 'low'"),
        (["", "", ""], None, "no value"),
        (["1", "1", "1"], "classification", "one class"),
    ):
        with pytest.raises(FileError, match=expected):
            read_targets(table(y=cells), ["y"], task, "m.csv")


def test_doubtful_targets_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyg_kernels.molecules")
    doubts = ["warning: none is a class of y: empty cells are missing ones"]
    doubts.append("warning: classes of y differ in case only: High, high, none")
    numbers = ["all targets are 0 or 1: for classes, --task classification"]
    for words, task, classes, said in (
        ("0 1", None, None, numbers),
        ("0 1", "regression", None, []),
        ("0 1", "classification", [["0", "1"]], []),
        ("none high High", None, [["High", "high", "none"]], doubts),
    ):
        caplog.clear()
        assert read_targets(table(y=words.split() * 9), ["y"], task, "m.csv")[1] == classes
        assert caplog.messages == said


def test_invalid_smiles_are_listed_with_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyg_kernels.molecules")
    frame = table(smiles=["C", "C(", "", "CCO"])
    with pytest.raises(FileError, match=r"2 invalid SMILES \(line 3: .*; line 4: .*--skip-invalid"):
        read_rows(frame, "smiles", "m.csv", False)
    molecules, known = read_rows(frame, "smiles", "m.csv", True)
    assert (molecules.smiles, list(known.index)) == (["C", "CCO"], [2, 5])
    assert caplog.messages == ["warning: m.csv: 2 invalid SMILES left out, lines 3, 4"]
