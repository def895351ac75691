"""Which molecules the default features tell apart, and that the order of atoms is none of it."""

import random

import numpy as np
import pytest
import torch
from rdkit import Chem
from torch import Tensor

from pyg_kernels.chem import DefaultFeaturizer, default_featurizer
from pyg_kernels.chem.default_featurizer import DEFAULT_ATOM_FEATURES, DEFAULT_BOND_FEATURES

from .nci import readable_nci_smiles

featurizer = DefaultFeaturizer()
ATOM_STARTS = np.cumsum([0, *(f.width for f in DEFAULT_ATOM_FEATURES)])
STEREO_SMILES = [
    "C[C@]12CC[C@H]3[C@@H](CC[C@@H]4C[C@@H](O)CC[C@]34C)[C@@H]1CC[C@@H]2O",
    "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C/C=C/C(=O)/C=C\\C[C@@H](N)C(=O)O",
    "C[C@H]1CC[C@@H](C)CC1",
    "C[S@](=O)CC",
    "C/C=C/[C@H](O)/C=C\\C",
    "[O-][N+](=O)c1ccc(cc1)[C@@H](C)[N+](C)(C)C",
    "Cl[Pt@SP1](Cl)(N)N",
    "*C",
]


def rows_of(smiles: str) -> list[tuple[list[int], list[list[int]]]]:
    """What an atom is and which bonds it has, for every atom, in an order of no meaning."""
    codes = featurizer.encode(smiles)
    bonds = [codes.bonds[codes.edge_index[1] == atom].tolist() for atom in range(codes.num_atoms)]
    return sorted(zip(codes.atoms.tolist(), map(sorted, bonds), strict=True))


def test_different_molecules_have_different_features() -> None:
    for one, other in (
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),  # enantiomers
        ("C[C@H](N)C(=O)O", "CC(N)C(=O)O"),  # one enantiomer, and unspecified
        ("O[C@H](C)[C@H](O)C(=O)O", "O[C@H](C)[C@@H](O)C(=O)O"),  # diastereomers
        ("C[C@H]1CC[C@H](C)CC1", "C[C@H]1CC[C@@H](C)CC1"),  # pseudoasymmetric centers
        ("C[S@](=O)CC", "C[S@@](=O)CC"),  # sulfoxides
        ("Cl[Pt@SP1](Cl)(N)N", "Cl[Pt](Cl)(N)N"),  # stereo without a label
        ("F/C=C/F", "F/C=C\\F"),
        ("F/C=C/F", "FC=CF"),
        ("[O-]", "[O]"),
        ("[OH]", "[OH-]"),
        ("[CH3]", "[CH3+]"),
        ("C[CH]C", "CCC"),
        ("[CH2]", "[CH3]"),
        ("*C", "[U]C"),
        ("*", "[U]"),
        ("[Fe+2]", "[Fe+3]"),
        ("[Ti+4]", "[Ti]"),
        ("N->[Pt]", "N[Pt]"),
        ("C1CC1", "CC=C"),
        ("c1ccccc1", "C1CCCCC1"),
    ):
        assert rows_of(one) != rows_of(other), (one, other)
    assert rows_of("CCC |^1:1|") == rows_of("C[CH]C")  # an extension behind the SMILES


def values_of(row: Tensor) -> list[object]:
    """What an atom's columns say, None for unknown."""
    values: list[object] = []
    for feature, start in zip(DEFAULT_ATOM_FEATURES, ATOM_STARTS, strict=False):
        columns = row[start : start + feature.width]
        if feature.is_indicator:
            values.append(int(columns[0]))
        else:
            (slot,) = columns.nonzero().flatten().tolist()
            values.append([*feature.choices, None][slot])
    return values


# Element, degree, hydrogens, charge, radical electrons, chirality, aromatic, in ring: by hand.
KNOWN = {
    "C[C@H](N)[O-]": [
        ["C", 1, 3, 0, 0, "none", 0, 0],
        ["C", 3, 1, 0, 0, "R", 0, 0],
        ["N", 1, 2, 0, 0, "none", 0, 0],
        ["O", 1, 0, -1, 0, "none", 0, 0],
    ],
    "C1CC1": [["C", 2, 2, 0, 0, "none", 0, 1]] * 3,
    "c1cc[nH]c1": [["C", 2, 1, 0, 0, "none", 1, 1]] * 3
    + [["N", 2, 1, 0, 0, "none", 1, 1], ["C", 2, 1, 0, 0, "none", 1, 1]],
    "[Zr+5]": [["Zr", 0, 0, None, 0, "none", 0, 0]],
    "*[CH2]": [["*", 1, 0, 0, 0, "none", 0, 0], ["C", 1, 2, 0, 1, "none", 0, 0]],
    "[Og]": [[None, 0, 0, 0, 0, "none", 0, 0]],
    "[P-3]": [["P", 0, 0, None, 0, "none", 0, 0]],
}


def test_atoms_of_known_molecules() -> None:
    assert {s: [values_of(row) for row in featurizer(s).x] for s in KNOWN} == KNOWN


def test_bonds_of_known_molecules() -> None:
    """Type, stereo, conjugated, in ring, of the first bond; angelic and tiglic acid are last."""
    for smiles, columns in (
        ("CC", "100000 1000 0 0"),
        ("C=C", "010000 1000 0 0"),
        ("CC#N", "100000 1000 0 0"),
        ("C=CC=C", "010000 1000 1 0"),
        ("C1CC1", "100000 1000 0 1"),
        ("C#N", "001000 1000 0 0"),
        ("c1ccccc1", "000100 1000 1 1"),
        ("N->[Pt]", "000010 1000 0 0"),
        ("C$C", "000001 1000 0 0"),
        ("C(/F)=C/F", "100000 1000 0 0"),
    ):
        data = featurizer(smiles)
        first = (data.edge_index < 2).all(0)
        rows = {"".join(str(int(value)) for value in row) for row in data.edge_attr[first]}
        assert rows == {columns.replace(" ", "")}, smiles
    stereo = DEFAULT_BOND_FEATURES[1]
    for smiles, label in (
        ("F/C=C/F", "E"),
        ("F\\C=C/F", "Z"),
        ("C/C(F)=C(/Cl)C", "Z"),
        ("FC=CF", "none"),
        ("C/C=C(/C)C(=O)O", "Z"),
        ("C/C=C(\\C)C(=O)O", "E"),
    ):
        codes = featurizer.encode(smiles).bonds
        assert {stereo.choices[code] for code in codes[codes[:, 0] == 1][:, 1][:2]} == {label}


def test_equals_rdkit_on_nci_molecules() -> None:
    for smiles in readable_nci_smiles()[::23]:
        mol, codes = Chem.MolFromSmiles(smiles), featurizer.encode(smiles)
        for atom, row in zip(mol.GetAtoms(), codes.atoms.tolist(), strict=True):
            expected = (
                atom.GetSymbol(), atom.GetDegree(), atom.GetTotalNumHs(), atom.GetFormalCharge(),
                atom.GetNumRadicalElectrons(), "none", atom.GetIsAromatic(), atom.IsInRing(),
            )  # fmt: skip
            for feature, value, code in zip(DEFAULT_ATOM_FEATURES, expected, row, strict=True):
                known = value in feature.choices
                assert code == (feature.choices.index(value) if known else len(feature.choices))


def test_the_order_of_atoms_does_not_matter() -> None:
    shuffle = random.Random(0)
    for smiles in [*STEREO_SMILES, *readable_nci_smiles()[::499]]:
        mol = Chem.MolFromSmiles(smiles)
        for _ in range(4):
            order = shuffle.sample(range(mol.GetNumAtoms()), mol.GetNumAtoms())
            moved = Chem.RenumberAtoms(mol, order)
            before, after = featurizer(mol), featurizer(moved)
            assert torch.equal(before.x[order], after.x)
            assert rows_of(smiles) == rows_of(Chem.MolToSmiles(moved, canonical=False))


def test_a_mirror_image_exchanges_r_and_s() -> None:
    chirality = DEFAULT_ATOM_FEATURES[5]
    swap = {"none": "none", "R": "S", "S": "R", "r": "r", "s": "s"}
    for smiles in STEREO_SMILES[:6]:
        mirrored = smiles.replace("@@", "%").replace("@", "@@").replace("%", "@")
        one, other = featurizer.encode(smiles).atoms[:, 5], featurizer.encode(mirrored).atoms[:, 5]
        names = [str(chirality.choices[code]) for code in one]
        assert [chirality.choices[code] for code in other] == [swap[name] for name in names]


def test_a_molecule_too_hard_to_label_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_featurizer, "_MOST_COMPARISONS", 1)
    codes = featurizer.encode(STEREO_SMILES[0])
    chiral = [a.GetChiralTag() != 0 for a in Chem.MolFromSmiles(STEREO_SMILES[0]).GetAtoms()]
    assert codes.atoms[:, 5].tolist() == [5 * is_chiral for is_chiral in chiral]
