"""Molecules before learning: they are standardized, duplicates and scaffolds are found."""

import numpy as np
import pandas
import pytest
import torch
from rdkit import Chem

from pyg_kernels.chem import (
    DuplicateMolecule,
    InvalidSmiles,
    StandardizedRow,
    canonical_smiles,
    find_duplicates,
    merge_duplicates,
    murcko_scaffolds,
    standardize,
    standardize_many,
)
from pyg_kernels.datasets import Split
from tests.pages import code_blocks, run

# What a SMILES becomes, and by which steps: written by hand.
KNOWN = {
    "CC(=O)[O-].[Na+]": ("CC(=O)O", ("fragment", "charge")),
    "CC(=O)O[Na]": ("CC(=O)O", ("cleanup", "fragment", "charge")),
    "CC[NH3+].[Cl-]": ("CCN", ("fragment", "charge")),
    "C[N+](C)(C)C.[Cl-]": ("C[N+](C)(C)C", ("fragment",)),
    "CCO.O": ("CCO", ("fragment",)),
    "C[C@H]([NH3+])C(=O)[O-]": ("C[C@H](N)C(=O)O", ("charge",)),
    "CS(C)=O": ("C[S+](C)[O-]", ("cleanup",)),
    "C[N+](C)(C)CC(C(=O)[O-])OP(=O)([O-])[O-]": (  # it takes two rounds
        "C[N+](C)(C)CC(OP(=O)([O-])O)C(=O)O",
        ("cleanup", "charge"),
    ),
    "F[P-](F)(F)(F)(F)F.[K+]": ("F[P-](F)(F)(F)(F)F", ("fragment",)),  # PF5 has no place for H
    "F/C=C/F": ("F/C=C/F", ()),
    "OCC": ("CCO", ()),
    "*C": ("*C", ()),
}


@pytest.mark.parametrize("smiles", KNOWN)
def test_standardized(smiles: str) -> None:
    after, steps = KNOWN[smiles]
    assert standardize(smiles) == standardize(after) == after
    mol = Chem.MolFromSmiles(smiles)
    assert Chem.MolToSmiles(standardize(mol)) == after
    assert Chem.MolToSmiles(mol) == Chem.CanonSmiles(smiles)  # the given molecule is unchanged
    changes = [StandardizedRow(0, smiles, after, steps)] if steps else []
    assert standardize_many([smiles]) == ([after if steps else smiles], changes)


def test_many_at_once_on_two_processes(capfd: pytest.CaptureFixture[str]) -> None:
    smiles = ["C(C", *KNOWN, ""] * 43  # two chunks
    changed = [k for k, text in enumerate(smiles) if text in KNOWN and KNOWN[text][1]]
    expected = [KNOWN[text][0] if k in changed else text for k, text in enumerate(smiles)]
    found, changes = standardize_many(smiles, num_workers=2)
    assert (found, [change.row for change in changes]) == (expected, changed)
    assert capfd.readouterr() == ("", "")
    assert standardize_many([]) == ([], [])


SMILES = ["CCO", "C", "OCC", "C[C@H](N)O", "C[C@@H](N)O", "N[C@H](C)O", "C", "N", "C(O)C"]
NAN = np.nan


def test_canonical_smiles_are_those_of_rdkit() -> None:
    assert canonical_smiles(["OCC", "c1ccccc1", "[2H]C"]) == ["CCO", "c1ccccc1", "[2H]C"]
    assert canonical_smiles(["OCC"] * 1100, num_workers=2) == ["CCO"] * 1100
    assert canonical_smiles(["[CH3:7]O", "C[OH:1]", "C:1:C:C:C:C:C:1"]) == ["CO", "CO", "c1ccccc1"]
    assert canonical_smiles(["[CH3:1][C@H](O)[CH3:2]", "C[C@H:3](O)F"]) == ["CC(C)O", "C[C@H](O)F"]


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
    masks = [np.isin(np.arange(len(SMILES)), part) for part in split]
    assert find_duplicates(SMILES, masks) == found


def test_merging_takes_the_mean_of_what_was_measured() -> None:
    """The rows of a series are taken by position, whatever its index is."""
    smiles = ["CCO", "C", "OCC", "N", "C(O)C"]
    y = [[1, NAN, 2], [3, 4, NAN], [2, NAN, NAN], [NAN, 0, 1], [6, 5, NAN]]
    merged = merge_duplicates(smiles, y)
    assert merged.smiles == ["CCO", "C", "N"]
    assert merged.positions == [[0, 2, 4], [1], [3]]
    np.testing.assert_array_equal(merged.y, [[3, 5, 2], [3, 4, NAN], [NAN, 0, 1]])
    np.testing.assert_array_equal(merge_duplicates(smiles, np.arange(5)).y, [2, 1, 3])
    assert merge_duplicates([], []).smiles == []
    smiles = pandas.Series(["C", "CC", "CCC", "C"], index=[1, 2, 0, 7])
    merged = merge_duplicates(smiles, pandas.Series([1.0, 2.0, 3.0, 5.0], index=smiles.index))
    assert (merged.smiles, merged.y.tolist()) == (["C", "CC", "CCC"], [3.0, 2.0, 3.0])


def test_scaffolds() -> None:
    smiles = ["Cc1ccccc1", "c1ccccc1CCc1ccncc1O", "CCO", "C[C@H]1CCCCN1", "[Na+].[O-]C(=O)C1CC1"]
    expected = ["c1ccccc1", "c1ccc(CCc2ccncc2)cc1", "", "C1CCNCC1", "C1CC1"]
    assert murcko_scaffolds(smiles) == expected


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) or \(2, T\).*not \(1,\)"):
        merge_duplicates(["C", "N"], [1])
    for parts, said in (
        ([[0], [1]], r"parts\[1\] has positions outside 0 .. 0"),
        ([[-1]], r"parts\[0\] has positions outside 0 .. 0"),
        ([[0], [0]], r"parts\[1\] has positions of an earlier part"),
        ([[0.5]], r"parts\[0\]: expected positions, or a mask of 1"),
    ):
        with pytest.raises(ValueError, match=said):
            find_duplicates(["C"], parts)
    with pytest.raises(TypeError, match="not 3"):
        standardize(3)  # type: ignore[call-overload]
    for call in (find_duplicates, murcko_scaffolds, lambda smiles: standardize(smiles[1])):
        with pytest.raises(InvalidSmiles, match=r"C\(C"):
            call(["C", "C(C"])
    for call in (standardize_many, murcko_scaffolds):
        assert list(call(text for text in ["CC"])) == list(call(["CC"]))
        for smiles, said in (("CC", "not the string 'CC'"), (["C", None], r"smiles\[1\] must be")):
            with pytest.raises(TypeError, match=said):
                call(smiles)  # type: ignore[arg-type]


def test_the_page() -> None:
    (block,) = (block for block in code_blocks("molecules.rst") if "standardize_many" in block)
    names = run(block)
    assert names["changes"][0].steps == ("fragment", "charge")
    assert names["twice"][0].is_across
    assert names["positions"] == [[0, 1], [2], [3], [4]]
    assert names["is_far"].tolist() == [False, True]
