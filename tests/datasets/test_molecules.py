"""Batches assembled at once, against PyTorch Geometric's batches of single molecules."""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.chem import Featurizer, MolFeaturizer, OGBFeaturizer
from pyg_kernels.datasets import InvalidMolecules, MoleculeCSV, MoleculeDataset, column_split
from tests.chem.nci import readable_nci_smiles

# Odd molecules among ordinary ones: single atoms, salts, no bonds at all, a wildcard.
SMILES = ["C", "[Na+].[Cl-]", "CCO", "c1ccccc1", "*", "O", *readable_nci_smiles()[:40], "[He]"]
TARGETS = torch.randn(len(SMILES), 3, generator=torch.Generator().manual_seed(0))
TARGETS[::5, 1] = torch.nan

molecules = MoleculeDataset.from_smiles(SMILES, TARGETS, ["a", "b", "c"])


def assert_same_graphs(batch: Batch, expected: Batch) -> None:
    """Compares every attribute and its type, and the single graphs of both batches."""
    assert isinstance(batch, Batch)
    assert isinstance(batch, Data)
    assert set(batch.keys()) == set(expected.keys())
    assert batch.num_graphs == expected.num_graphs
    for key in expected.keys():  # noqa: SIM118
        if isinstance(expected[key], Tensor):
            assert batch[key].dtype == expected[key].dtype, key
            assert torch.equal(batch[key].nan_to_num(7.5), expected[key].nan_to_num(7.5)), key
        else:
            assert batch[key] == expected[key], key
    for one, other in zip(batch.to_data_list(), expected.to_data_list(), strict=True):
        assert one.smiles == other.smiles
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x, other.x)
    last = batch.get_example(-1)
    assert (last.num_nodes, last.num_edges) == (one.num_nodes, one.num_edges)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-len(SMILES), len(SMILES) - 1), min_size=1, max_size=12),
    st.sampled_from([list, torch.tensor, np.array, tuple]),
)
def test_batch_equals_that_of_single_molecules(indices: list[int], kind: type) -> None:
    expected = Batch.from_data_list([molecules[i] for i in indices])
    assert_same_graphs(molecules.batch(kind(indices)), expected)


@pytest.mark.parametrize("featurizer", [MolFeaturizer(), OGBFeaturizer()], ids=lambda f: f.name)
def test_molecules_are_what_the_featurizer_gives_and_not_changed_with_it(
    featurizer: Featurizer,
) -> None:
    named = MoleculeDataset.from_smiles(SMILES, TARGETS, [*"abc"], featurizer=featurizer.name)
    assert (repr(named), named.target_names) == (f"MoleculeDataset({len(SMILES)})", ["a", "b", "c"])
    assert torch.equal(named.y.nan_to_num(9), TARGETS.nan_to_num(9))
    assert named.split_values is None
    for _ in range(2):
        for data, smiles, y in zip(named, SMILES, TARGETS, strict=True):
            expected = featurizer(smiles)
            assert data.smiles == smiles and data.validate()
            for key in ("x", "edge_index", "edge_attr"):
                assert torch.equal(data[key], expected[key])
                data[key].fill_(5)
            assert torch.equal(data.y.nan_to_num(9), y.nan_to_num(9)[None])
            data.y.fill_(5)
        named.batch([2]).y.fill_(5)


def test_a_view_shows_its_own_molecules() -> None:
    order = [7, 3, 3, 0, -1]
    view = molecules[order]
    assert view.smiles == [SMILES[i] for i in order]
    assert view.row_numbers == [7, 3, 3, 0, len(SMILES) - 1]
    assert torch.equal(view.targets.nan_to_num(1), TARGETS[order].nan_to_num(1))
    assert_same_graphs(view.batch([0, -1, 2]), molecules.batch([7, -1, 3]))
    again = view[1:][torch.tensor([True, False, True, False])]
    assert again.smiles == [SMILES[3], SMILES[0]]
    assert_same_graphs(again.batch([0, 1]), molecules.batch([3, 0]))
    assert molecules.copy([1, 2]).smiles == SMILES[1:3]
    assert molecules[[k in (2, 4) for k in range(len(SMILES))]].smiles == [SMILES[2], SMILES[4]]
    every = range(len(SMILES))
    assert_same_graphs(molecules.copy().batch(every), molecules.batch(every))
    again = pickle.loads(pickle.dumps(view))
    assert_same_graphs(again.batch([3, 1]), molecules.batch([0, 3]))
    with pytest.raises(IndexError, match="index 5 is out of range for 5 molecules"):
        view.batch([5])


def test_targets_are_float64_and_y_is_theirs_rounded() -> None:
    fine = [-1e8 + 0.25, 1e-60, 0.1]
    precise = MoleculeDataset.from_smiles(["C", "CC", "CO"], fine)
    assert precise.targets.dtype == precise[1:].targets.dtype == torch.float64
    assert precise.targets.flatten().tolist() == fine
    assert torch.equal(precise[1:].targets, precise.targets[1:])
    assert precise.batch([0, 2]).y.flatten().tolist() == torch.tensor([fine[0], 0.1]).tolist()
    assert precise[2].y.dtype == precise.batch([0]).y.dtype == torch.float32

    bare = MoleculeDataset.from_smiles(["CCO", "C"])  # no targets
    assert bare.targets.shape == (2, 0)
    assert bare.batch([1, 0]).y.shape == (2, 0)
    assert bare[0].y.shape == (1, 0)


def test_a_transform_reaches_batches() -> None:
    def add_num_bonds(data: Data) -> Data:
        data.num_bonds = torch.tensor([data.num_edges // 2])
        return data

    counted = MoleculeDataset.from_smiles(SMILES[:6], transform=add_num_bonds)
    assert counted.batch([2, 3, 0]).num_bonds.tolist() == [2, 6, 0]


def test_invalid_molecules_stop_it_or_are_listed() -> None:
    smiles, rows = [*["C(" * 500] * 19, "C", "C("], [*range(19), 20]
    with pytest.raises(InvalidMolecules, match=r"20 of 21.* on lines 0, 1, .*first 5") as error:
        MoleculeDataset.from_smiles(smiles)
    said = str(error.value)
    assert "\n" not in said and len(said) < 700 and said.count("'C(") == 5
    assert str(pickle.loads(pickle.dumps(error.value))) == said
    kept = MoleculeDataset.from_smiles(smiles, range(21), skip_invalid=True)
    assert (kept.smiles, kept.targets.tolist(), kept.row_numbers) == (["C"], [[19]], [19])
    assert [row.row for row in kept.skipped] == [row.row for row in error.value.rows] == rows
    with pytest.raises(ValueError, match="no molecule that can be read"):
        MoleculeDataset.from_smiles(["C(C"], skip_invalid=True)


MADE = MoleculeDataset.from_smiles


def test_refused() -> None:
    for call, arguments, error, message in (
        (molecules.batch, ([],), ValueError, "indices is empty"),
        (molecules.batch, ([0.5],), ValueError, "vector of integers"),
        (molecules.batch, ([[0, 1]],), ValueError, r"shape \(1, 2\)"),
        (molecules.batch, ([True, False],), ValueError, "mask"),
        (molecules.batch, ([len(SMILES)],), IndexError, "out of range"),
        (molecules.batch, ([-len(SMILES) - 1],), IndexError, "out of range"),
        (molecules.__getitem__, ((True, False),), ValueError, f"mask has {len(SMILES)} booleans"),
        (molecules.__getitem__, (torch.ones(99).bool(),), ValueError, r"not the shape \(99,\)"),
        (MADE, (["C", "CC"], [1.0]), ValueError, "targets must have 2 rows"),
        (MADE, (["C"], [1.0], ["a", "b"]), ValueError, "target_names must have 1 names"),
        (MADE, (["C"], torch.zeros(1, 1, 1)), ValueError, r"\(M, T\)"),
        (MADE, (["C"], [-1e60]), ValueError, r"range of float32 or NaN, not -1e\+60"),
        (MADE, ("CCO",), TypeError, "not the string"),
    ):
        with pytest.raises(error, match=message):
            call(*arguments)
    assert len(molecules[torch.zeros(len(SMILES)).bool()]) == 0


# Molecules of a table

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


def test_unreadable_lines_stop_it_or_are_skipped_and_listed(path: Path) -> None:
    with pytest.raises(InvalidMolecules) as error:
        MoleculeCSV(path)
    message = str(error.value)
    assert message.startswith(
        "2 of 5 SMILES in molecules.csv cannot be read, on lines 3, 5; correct them, or leave them "
        "out with skip_invalid=True. Reasons: line 3 'C(C' ("
    )
    assert "line 5 'FF(F)'" in message and "\n" not in message
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
    molecules = MoleculeCSV(str(path), target_columns=(), skip_invalid=True)  # as for prediction
    assert molecules.targets.shape == (3, 0)
    assert molecules.batch([0, 2]).x.shape == (9, 65)


def test_an_empty_cell_of_parquet_is_no_molecule(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame({"smiles": ["CCO", None, "CC"], "y": [1, 2, 3], "tested": [True] * 3})
    frame.to_parquet(path)
    assert MoleculeCSV(path, skip_invalid=True).target_names == ["y"]
    with pytest.raises(InvalidMolecules, match=r"on line 2; .* line 2 ''"):
        MoleculeCSV(path)
    molecules = MoleculeCSV(path, skip_invalid=True)
    assert molecules.smiles == ["CCO", "CC"] and [row.row for row in molecules.skipped] == [2]


def test_columns_and_what_is_missing(path: Path) -> None:
    """Numbers also keep the precision of the file."""
    mol: dict[str, Any] = {"smiles_column": "mol"}
    four = "mol,a,b,part\nC,1,2,train\nCC,3,4, test\n"
    texts = "name,smiles,a,note,b\nx,CCO,1.5,,2\ny, C ,,text,-3e2\nz,CC,nan,,\n"
    empty = ["", " ", "nan", "NaN", "NA", "n/a", "null", "None"]
    numbers = ["-100000000.25", "1e-45", "0.1"]
    for text, how, names, rows in (
        (texts, {}, ["a", "b"], [[1.5, 2], [None, -300], [None, None]]),
        (four, mol, ["a", "b"], [[1, 2], [3, 4]]),
        (four, {**mol, "target_columns": ["b", "a"]}, ["b", "a"], [[2, 1], [4, 3]]),
        (four, {**mol, "target_columns": "a"}, ["a"], [[1], [3]]),
        (four, {**mol, "target_columns": ()}, [], [[], []]),
        # A column without a name is a target only if it is asked for.
        (",smiles,y, \n0,C,5,7\n1,CC,6,8\n", {}, ["y"], [[5], [6]]),
        (",smiles\n3,C\n", {"target_columns": [""]}, [""], [[3]]),
        (
            "\nC,".join(["smiles,y", *empty, *numbers]),
            {},
            ["y"],
            [*[[None]] * len(empty), *([float(number)] for number in numbers)],
        ),
    ):
        path.write_text(text)
        molecules = MoleculeCSV(path, **how)
        found = [[None if math.isnan(y) else y for y in row] for row in molecules.targets.tolist()]
        assert (molecules.target_names, found) == (names, rows)
    path.write_text(texts)
    molecules = MoleculeCSV(path, split_column="note")
    assert (molecules.smiles, molecules.row_numbers) == (["CCO", "C", "CC"], [2, 3, 4])
    assert molecules.split_values == ["", "text", ""]


def test_bad_files_are_one_clear_line(path: Path) -> None:
    for text, arguments, message in (
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
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message) as error:
            MoleculeCSV(path, **arguments)
        assert "\n" not in str(error.value)
