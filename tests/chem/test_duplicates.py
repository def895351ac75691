import numpy as np
import pandas
import pytest
import torch

from pyg_kernels.chem import (
    DuplicateMolecule,
    InvalidSmiles,
    canonical_smiles,
    find_duplicates,
    merge_duplicates,
)
from pyg_kernels.datasets import Split

SMILES = ["CCO", "C", "OCC", "C[C@H](N)O", "C[C@@H](N)O", "N[C@H](C)O", "C", "N", "C(O)C"]
NAN = np.nan


def test_canonical_smiles_are_those_of_rdkit() -> None:
    assert canonical_smiles(["OCC", "c1ccccc1", "[2H]C"]) == ["CCO", "c1ccccc1", "[2H]C"]
    assert canonical_smiles(["OCC"] * 1100, num_workers=2) == ["CCO"] * 1100


def test_duplicates_within_and_across_parts() -> None:
    split = Split(torch.tensor([0, 2, 3]), torch.tensor([4, 1]), torch.tensor([5, 6, 7]))
    found = find_duplicates(SMILES, split)
    assert found == [
        DuplicateMolecule("CCO", [0, 2, 8], [0, 0, -1]),
        DuplicateMolecule("C", [1, 6], [1, 2]),
        DuplicateMolecule("C[C@@H](N)O", [4, 5], [1, 2]),
    ]
    assert [molecule.is_across for molecule in found] == [False, True, True]
    assert find_duplicates(SMILES)[0].parts == [-1, -1, -1]
    assert find_duplicates(["C", "N"]) == []


def test_merging_takes_the_mean_of_what_was_measured() -> None:
    smiles = ["CCO", "C", "OCC", "N", "C(O)C"]
    y = [[1, NAN, 2], [3, 4, NAN], [2, NAN, NAN], [NAN, 0, 1], [6, 5, NAN]]
    merged = merge_duplicates(smiles, y)
    assert merged.smiles == ["CCO", "C", "N"]
    assert merged.positions == [[0, 2, 4], [1], [3]]
    np.testing.assert_array_equal(merged.y, [[3, 5, 2], [3, 4, NAN], [NAN, 0, 1]])
    np.testing.assert_array_equal(merge_duplicates(smiles, np.arange(5)).y, [2, 1, 3])
    assert merge_duplicates([], []).smiles == []


def test_series_are_read_by_position() -> None:
    smiles = pandas.Series(["C", "CC", "CCC", "C"], index=[1, 2, 0, 7])
    merged = merge_duplicates(smiles, pandas.Series([1.0, 2.0, 3.0, 5.0], index=smiles.index))
    assert merged.smiles == ["C", "CC", "CCC"]
    assert merged.y.tolist() == [3.0, 2.0, 3.0]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) or \(2, T\).*not \(1,\)"):
        merge_duplicates(["C", "N"], [1])
    with pytest.raises(ValueError, match=r"parts\[1\]"):
        find_duplicates(["C"], [[0], [1]])
    with pytest.raises(InvalidSmiles, match=r"C\(C"):
        find_duplicates(["C(C"])
