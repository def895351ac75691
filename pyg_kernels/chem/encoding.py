"""RDKit molecules to integer codes, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rdkit import Chem, rdBase

from pyg_kernels.chem.codes import InvalidRow, InvalidSmiles, MolCodeStore, pointers
from pyg_kernels.chem.features import ATOM_FEATURES, BOND_FEATURES, Feature

_BOND_NUMBER = {bond_type: int(bond_type) for bond_type in Chem.BondType.values.values()}


def encode_chunk(chunk: tuple[int, Sequence[str]]) -> tuple[MolCodeStore, list[InvalidRow]]:
    """Encodes consecutive SMILES, given with the position of the first of them."""
    first, smiles = chunk
    reader = MolReader()
    positions: list[int] = []
    invalid: list[InvalidRow] = []
    with rdBase.BlockLogs():
        for position, text in enumerate(smiles, start=first):
            mol = _molecule(text)
            if mol is None:
                invalid.append(InvalidRow(position, text, _why_invalid(text)))
            else:
                reader.read(mol)
                positions.append(position)
    return reader.store(positions), invalid


def parse(smiles: str) -> Chem.Mol:
    """The molecule of a SMILES string; raises InvalidSmiles where there is none."""
    with rdBase.BlockLogs():
        mol = _molecule(smiles)
        if mol is None:
            raise InvalidSmiles(smiles, _why_invalid(smiles))
    return mol


def _molecule(smiles: str, sanitize: bool = True) -> Chem.Mol | None:
    """The molecule, if there is one and it has atoms."""
    try:
        mol = Chem.MolFromSmiles(smiles.strip(), sanitize=sanitize)
    except UnicodeEncodeError:  # half a character: RDKit takes UTF-8
        return None
    return mol if mol is not None and mol.GetNumAtoms() > 0 else None


def _why_invalid(smiles: str) -> str:
    if not smiles.strip():
        return "it is empty"
    mol = _molecule(smiles, sanitize=False)
    if mol is None:
        return "it is not well-formed SMILES"
    problems = Chem.DetectChemistryProblems(mol)
    return problems[0].Message().strip() if problems else "RDKit cannot sanitise it"


class MolReader:
    """Collects what RDKit says of atoms and bonds in flat lists, then encodes them all at once.

    Calls into RDKit are nearly the whole cost, so each property is one list comprehension over
    atoms or bonds that were listed once. An atom's implicit valence is the number of its implicit
    hydrogens: asked for as such, it is the same in every RDKit, without a deprecation warning.
    """

    def __init__(self) -> None:
        self._num_atoms: list[int] = []
        self._num_bonds: list[int] = []
        self._atoms: tuple[list[int], ...] = ([], [], [], [], [])
        self._bonds: tuple[list[int], ...] = ([], [], [])
        self._begin: list[int] = []
        self._end: list[int] = []

    def read(self, mol: Chem.Mol) -> None:
        """Appends one sanitised molecule."""
        atoms: list[Any] = list(mol.GetAtoms())
        element, degree, hydrogens, valence, aromatic = self._atoms
        element += [atom.GetAtomicNum() for atom in atoms]
        degree += [atom.GetDegree() for atom in atoms]
        hydrogens += [atom.GetTotalNumHs() for atom in atoms]
        valence += [atom.GetNumImplicitHs() for atom in atoms]
        aromatic += [atom.GetIsAromatic() for atom in atoms]
        self._num_atoms.append(len(atoms))

        bonds: list[Any] = list(mol.GetBonds())
        bond_type, conjugated, in_ring = self._bonds
        bond_type += [_BOND_NUMBER[bond.GetBondType()] for bond in bonds]
        conjugated += [bond.GetIsConjugated() for bond in bonds]
        in_ring += [bond.IsInRing() for bond in bonds]
        self._begin += [bond.GetBeginAtomIdx() for bond in bonds]
        self._end += [bond.GetEndAtomIdx() for bond in bonds]
        self._num_bonds.append(len(bonds))

    def store(self, positions: Sequence[int]) -> MolCodeStore:
        """The molecules read so far, which came from these positions."""
        atom_ptr = pointers(self._num_atoms)
        bond_ptr = pointers(self._num_bonds)
        shift = np.repeat(atom_ptr[:-1], np.diff(bond_ptr))
        begin = np.array(self._begin, dtype=np.int64) + shift
        end = np.array(self._end, dtype=np.int64) + shift
        source, target = np.concatenate([begin, end]), np.concatenate([end, begin])
        # Atoms of later molecules have larger numbers: one sort orders the bonds of each molecule
        # by target and source, and leaves the molecules in their order.
        order = np.argsort(target * atom_ptr[-1] + source)
        edge_shift = np.repeat(shift, 2)
        edge_index = np.stack([source[order], target[order]]) - edge_shift
        return MolCodeStore(
            atoms=_encoded(ATOM_FEATURES, self._atoms),
            edge_index=edge_index.astype(np.int32),
            bonds=_encoded(BOND_FEATURES, self._bonds)[order % max(len(begin), 1)],
            atom_ptr=atom_ptr,
            edge_ptr=2 * bond_ptr,
            positions=np.array(positions, dtype=np.int64),
        )


def _encoded(features: Sequence[Feature], columns: Sequence[Sequence[int]]) -> np.ndarray:
    codes = np.empty((len(columns[0]), len(features)), dtype=np.uint8)
    for k, (feature, values) in enumerate(zip(features, columns, strict=True)):
        codes[:, k] = feature.encode(values)
    return codes
