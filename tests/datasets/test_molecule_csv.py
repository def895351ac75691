from pathlib import Path

import pandas as pd
import pytest

from pyg_kernels.datasets import InvalidMolecules, MoleculeCSV, column_split

TEXT = """id,smiles,y,part
a,CCO,1.5,train
b,C(C,2.5,train
c,[Na+].[Cl-],,valid
d,FF(F),3.5,test
e,c1ccccc1,4.5,test
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "molecules.csv"
    path.write_text(TEXT)
    return path


def test_unreadable_smiles_stop_it(path: Path) -> None:
    with pytest.raises(InvalidMolecules) as error:
        MoleculeCSV(path)
    message = str(error.value)
    assert message.startswith(
        "2 of 5 SMILES in molecules.csv cannot be read, on lines 3, 5; correct them, or leave them "
        "out with skip_invalid=True. Reasons: line 3 'C(C' ("
    )
    assert "line 5 'FF(F)'" in message
    assert "\n" not in message
    assert [row.row for row in error.value.rows] == [3, 5]


def test_or_are_skipped_and_listed(path: Path) -> None:
    molecules = MoleculeCSV(path, split_column="part", skip_invalid=True)
    assert molecules.smiles == ["CCO", "[Na+].[Cl-]", "c1ccccc1"]
    assert molecules.row_numbers == [2, 4, 6]
    assert molecules.target_names == ["y"]
    assert molecules.targets.nan_to_num(-1).tolist() == [[1.5], [-1], [4.5]]
    assert molecules.split_values == ["train", "valid", "test"]
    assert [(row.row, row.smiles) for row in molecules.skipped] == [(3, "C(C"), (5, "FF(F)")]
    assert molecules.batch([0, 1, 2]).y.isnan().tolist() == [[False], [True], [False]]
    split = column_split(molecules.split_values)
    assert [part.tolist() for part in split] == [[0], [1], [2]]
    view = molecules[1:]
    assert (view.row_numbers, view.split_values) == ([4, 6], ["valid", "test"])
    molecules = MoleculeCSV(str(path), target_columns=(), skip_invalid=True)  # to predict
    assert molecules.num_tasks == 0
    assert molecules.batch([0, 2]).x.shape == (9, 65)


def test_an_empty_cell_of_parquet_is_no_molecule(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    pd.DataFrame({"smiles": ["CCO", None, "CC"], "y": [1, 2, 3]}).to_parquet(path)
    with pytest.raises(InvalidMolecules, match="line 2 ''"):
        MoleculeCSV(path)
    molecules = MoleculeCSV(path, skip_invalid=True)
    assert molecules.smiles == ["CCO", "CC"] and [row.row for row in molecules.skipped] == [2]
