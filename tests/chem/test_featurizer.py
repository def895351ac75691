"""The features against RDKit, atom by atom."""

import pickle
import random
from typing import Any

import pytest
import torch
from rdkit import Chem

from pyg_kernels.chem import BOND_FEATURES, Feature, Featurizer, InvalidSmiles, MolFeaturizer

from .nci import readable_nci_smiles

# fmt: off
ELEMENTS = [
    "C", "N", "O", "S", "F", "Si", "P", "Cl", "Br", "Mg", "Na", "Ca", "Fe", "As", "Al", "I", "B",
    "V", "K", "Tl", "Yb", "Sb", "Sn", "Ag", "Pd", "Co", "Se", "Ti", "Zn", "H", "Li", "Ge", "Cu",
    "Au", "Ni", "Cd", "In", "Mn", "Zr", "Cr", "Pt", "Hg", "Pb",
]
# fmt: on
BOND_TYPES = [getattr(Chem.BondType, name) for name in ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")]

# Salts, isotopes, unknown elements, degrees, hydrogens and bonds, atoms without bonds.
ODD = [
    *("CCO", "CC#N", "C1CC1", "c1cc[nH]c1", "[Na+].[Cl-]", "C", "[13CH4]", "[2H]O[2H]", "*C"),
    *("[U]", "N->[Pt]", "C$C", "FS(F)(F)(F)(F)F", "[BiH5]"),
]
featurizer = MolFeaturizer()


def one_hot_or_unknown(value: Any, choices: list[Any]) -> list[float]:
    return [float(value == choice) for choice in choices] + [float(value not in choices)]


def atom_row(atom: Chem.Atom) -> list[float]:
    return [
        *one_hot_or_unknown(atom.GetSymbol(), ELEMENTS),
        *one_hot_or_unknown(atom.GetDegree(), [0, 1, 2, 3, 4, 5]),
        *one_hot_or_unknown(atom.GetTotalNumHs(), [0, 1, 2, 3, 4]),
        *one_hot_or_unknown(atom.GetNumImplicitHs(), [0, 1, 2, 3, 4, 5]),
        float(atom.GetIsAromatic()),
    ]


def bond_row(bond: Chem.Bond) -> list[float]:
    return [
        *one_hot_or_unknown(bond.GetBondType(), BOND_TYPES),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
    ]


def test_equals_rdkit_on_nci_molecules() -> None:
    shuffle = random.Random(0)
    for number, smiles in enumerate([*ODD, *readable_nci_smiles()[::23]]):
        mol = Chem.MolFromSmiles(smiles)
        data = featurizer(smiles)
        assert data.smiles == smiles
        if number % 9 == 0:  # in another order of atoms
            order = shuffle.sample(range(mol.GetNumAtoms()), mol.GetNumAtoms())
            mol = Chem.RenumberAtoms(mol, order)
            data = featurizer(mol)
        assert data.x.tolist() == [atom_row(atom) for atom in mol.GetAtoms()]
        pairs = [
            (u.GetIdx(), v.GetIdx())
            for v in mol.GetAtoms()
            for u in sorted(v.GetNeighbors(), key=Chem.Atom.GetIdx)
        ]
        assert [tuple(pair) for pair in data.edge_index.T.tolist()] == pairs
        rows = [bond_row(mol.GetBondBetweenAtoms(u, v)) for u, v in pairs]
        assert data.edge_attr.tolist() == rows
        assert (data.edge_index.shape, data.edge_attr.shape) == ((2, len(pairs)), (len(pairs), 7))


def test_takes_rdkit_molecules() -> None:
    assert featurizer(Chem.AddHs(Chem.MolFromSmiles("C"))).num_nodes == 5
    for mol, reason in (
        (Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False), "valence"),
        (Chem.Mol(), "no atoms"),
    ):
        with pytest.raises(InvalidSmiles, match=reason):
            featurizer(mol)


def test_invalid_smiles() -> None:
    for smiles, reason in (
        ("  ", "empty"),
        ("C1CC", "not well-formed"),
        ("FF(F)", "valence"),
        ("c1cccc1", "kekulize"),
        ("é", "not well-formed"),
        ("CC\nO", "not well-formed"),
        ("\ud800", "not well-formed"),
        ("(" * 30000, "not well-formed"),
    ):
        with pytest.raises(InvalidSmiles, match=reason) as caught:
            featurizer.encode(smiles)
        assert isinstance(caught.value, ValueError)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 200
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.smiles, str(again)) == (smiles, str(caught.value))
    for text in (" CCO", "CCO ", "CCO ethanol", "CCO\t17"):
        assert featurizer.encode(text).num_atoms == 3


def test_features_of_ones_own() -> None:
    """Values without a slot have none, and the first feature of bonds is what it reads."""
    halogen = Feature("halogen", ("F", "Cl"), (9, 17), False, read=Chem.Atom.GetAtomicNum)
    degree = Feature("degree", (1, 2), (1, 2), True, read=Chem.Atom.GetDegree)
    ring = Feature("ring", (False, True), (0, 1), False, read=Chem.Bond.IsInRing)

    class Own(Featurizer):
        name, version = "own", 1
        atom_features, bond_features = (halogen, degree, halogen), (ring, *BOND_FEATURES)

    found = Own()("ClC1CC1")
    expected = [[0, 1, 1, 0, 0, 0, 1], *[[0, 0, 0, 0, 1, 0, 0]] * 3]
    expected[2:] = [[0, 0, 0, 1, 0, 0, 0]] * 2
    assert found.x.tolist() == expected
    assert found.edge_attr[:, 0].tolist() == [0.0, 0.0, *[1.0] * 6]
    assert torch.equal(found.edge_attr[:, 1:], MolFeaturizer()("ClC1CC1").edge_attr)
    single = Feature("type", ("SINGLE",), (1,), True)  # which is read without saying how
    found = type("Types", (Own,), {"bond_features": (single,)})()("CC=C")
    assert found.edge_attr.tolist() == [*[[1.0, 0.0]] * 2, *[[0.0, 1.0]] * 2]
    for name in ("atom_features", "bond_features"):
        with pytest.raises(ValueError, match="at least one feature of atoms and one of bonds"):
            type("None", (Own,), {name: ()})()("C")


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="SMILES string or an RDKit Mol, not 3"):
        featurizer.encode(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"smiles\[1\] must be a string, not nan"):
        featurizer.encode_many(["C", float("nan")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not the string 'CCO'"):
        featurizer.encode_many("CCO")
    with pytest.raises(ValueError, match="num_workers"):
        featurizer.encode_many(["C"], num_workers=-1)
    with pytest.raises(ValueError, match=r"\(n, 5\).*element, degree.*not \(4, 3\)"):
        featurizer.expand_atoms(torch.zeros(4, 3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        featurizer.expand_bonds(torch.zeros(3, dtype=torch.uint8))


def test_rdkit_is_quiet_while_reading_and_progress_is_shown_on_request(
    capfd: pytest.CaptureFixture[str],
) -> None:
    featurizer.encode_many(["FF(F)", "C(C", *readable_nci_smiles()[:200]])
    with pytest.raises(InvalidSmiles):
        featurizer("c1cccc1")
    assert capfd.readouterr() == ("", "")
    Chem.MolFromSmiles("FF(F)")
    assert "valence" in capfd.readouterr().err
    featurizer.encode_many(["C"] * 700, progress=True)
    assert "700/700" in capfd.readouterr().err
