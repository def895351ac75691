import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pyg_kernels.datasets.table import find_columns, read_molecule_table, stream_molecule_rows

Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "molecules.csv"
        path.write_text(text)
        return path

    return write


def test_every_other_column_of_numbers_is_a_target(written: Write) -> None:
    table = read_molecule_table(
        written("name,smiles,a,note,b\nx,CCO,1.5,,2\ny, C ,,text,-3e2\nz,CC,nan,,\n")
    )
    assert table.smiles == ["CCO", "C", "CC"]
    assert table.target_names == ["a", "b"]
    assert table.row_numbers == [2, 3, 4]
    assert table.split_values is None
    rows = [[None if math.isnan(v) else v for v in row] for row in table.targets.tolist()]
    assert rows == [[1.5, 2], [None, -300], [None, None]]


def test_named_columns(written: Write) -> None:
    path = written("mol,a,b,part\nC,1,2,train\nCC,3,4, test\n")
    table = read_molecule_table(path, "mol", ["b"], "part")
    assert (table.target_names, table.targets.tolist()) == (["b"], [[2], [4]])
    assert table.split_values == ["train", "test"]
    assert read_molecule_table(path, "mol", ["b", "a"]).targets.tolist() == [[2, 1], [4, 3]]
    assert read_molecule_table(path, "mol", "a").target_names == ["a"]
    assert read_molecule_table(path, "mol", ()).targets.shape == (2, 0)
    assert read_molecule_table(path, "mol").target_names == ["a", "b"]


def test_targets_may_be_missing_and_keep_the_precision_of_the_file(written: Write) -> None:
    missing = ["", " ", "nan", "NaN", "NA", "n/a", "null", "None"]
    numbers = ["-100000000.25", "1e-45", "0.1"]
    rows = "".join(f"C,{value}\n" for value in (*missing, *numbers))
    targets = read_molecule_table(written(f"smiles,y\n{rows}")).targets.flatten()
    assert targets.dtype == torch.float64
    assert targets[:8].isnan().all()
    assert targets[8:].tolist() == [float(number) for number in numbers]


def test_a_column_without_a_name_is_a_target_only_if_asked_for(written: Write) -> None:
    path = written(",smiles,y, \n0,C,5,7\n1,CC,6,8\n")
    assert read_molecule_table(path).target_names == ["y"]
    table = read_molecule_table(written(",smiles\n3,C\n"), target_columns=[""])
    assert table.targets.tolist() == [[3]]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("smiles,y\n", {}, "no molecules below it"),
        ("SMILES,y\nC,1\n", {}, "no column named 'smiles'.*its columns are 'SMILES', 'y'"),
        ("smiles,y\nC,1\n", {"target_columns": ["z"]}, r"no column named 'z' \(target_columns\)"),
        ("smiles,y\nC,1\n", {"split_column": "s"}, r"no column named 's' \(split_column\)"),
        ("smiles,y,y\nC,1,2\n", {}, "2 columns named 'y'"),
        ("smiles,y\nC,1\nCC,abc\n", {"target_columns": ["y"]}, "line 3: .*'y'.*finite.*not 'abc'"),
        ("smiles,y\nC,1\n\nCC,inf\n", {}, "line 4: .*not 'inf'"),
        ("smiles,y\nC,1_0\nCC,1\n", {}, "line 2: .*not '1_0'"),
        ("smiles,y\nC,high\n", {}, "no column of numbers"),
        ("smiles\nC\n", {}, "no column of numbers"),
        (",smiles, \n0,C,7\n", {"target_columns": [""]}, "2 columns named ''"),
        ("smiles,y\nC,\n", {"target_columns": ["y"]}, "molecules.csv: .* 'y' has no values"),
        ("smiles,y\nC\n", {}, "molecules.csv, line 2: it has 1 cells, the first row 2"),
    ],
)
def test_bad_files_are_one_clear_line(
    written: Write, text: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_molecule_table(written(text), **arguments)
    assert "\n" not in str(error.value)


def test_some_rows_at_a_time(written: Write) -> None:
    path = written('part,a,smiles,note,b\nx,1,C,"a\nb",\n\ny,,CC,text,2\nx,3, CO ,,-1\n')
    frames = list(stream_molecule_rows(path, 2))
    assert [frame.index.tolist() for frame in frames] == [[2, 5], [6]]
    columns = find_columns(path, iter(frames), split_column="part")
    assert (columns.targets, columns.smiles) == (["a", "b"], "smiles")
    assert (columns.split, columns.num_rows) == ("part", 3)
    table = columns.table(frames[0])
    assert (table.smiles, table.row_numbers) == (["C", "CC"], [2, 5])
    assert table.targets.nan_to_num(9).tolist() == [[1, 9], [9, 2]]
    assert table.split_values == ["x", "y"]
