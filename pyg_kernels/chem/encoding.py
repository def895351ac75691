"""RDKit molecules to integer codes, many at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase

from pyg_kernels.chem.codes import InvalidRow, InvalidSmiles, MolCodeStore, pointers
from pyg_kernels.chem.features import ATOM_FEATURES, BOND_FEATURES, Feature

BOND_NUMBER = {bond_type: int(bond_type) for bond_type in Chem.BondType.values.values()}


def encode_chunk(
    chunk: tuple[int, Sequence[str]], new_reader: Callable[[], CodeReader]
) -> tuple[MolCodeStore, list[InvalidRow]]:
    """Encodes consecutive SMILES, given with the position of the first of them."""
    first, smiles = chunk
    reader = new_reader()
    positions: list[int] = []
    invalid: list[InvalidRow] = []
    with rdBase.BlockLogs():
        for position, text in enumerate(smiles, start=first):
            mol = _molecule(text)
            reason = _why_invalid(text) if mol is None else reader.refusal(mol)
            if mol is None or reason:
                invalid.append(InvalidRow(position, text, reason))
            else:
                reader.read(mol, text)
                positions.append(position)
    return reader.store(positions), invalid


def parse(smiles: str) -> Chem.Mol:
    """The molecule of a SMILES string; raises InvalidSmiles where there is none."""
    with rdBase.BlockLogs():
        mol = _molecule(smiles)
        if mol is None:
            raise InvalidSmiles(smiles, _why_invalid(smiles))
    return mol


def sanitized(molecule: str | Chem.Mol) -> Chem.Mol:
    """The molecule of a SMILES string, or a sanitised copy of a molecule.

    Raises:
        InvalidSmiles: if RDKit cannot read the string, or finds no atoms.
        TypeError: if the molecule is neither a string nor an RDKit molecule.
    """
    if isinstance(molecule, str):
        return parse(molecule)
    if not isinstance(molecule, Chem.Mol):
        raise TypeError(f"a molecule must be a SMILES string or an RDKit Mol, not {molecule!r}")
    mol = Chem.Mol(molecule)
    with rdBase.BlockLogs():
        if mol.GetNumAtoms() == 0:
            raise InvalidSmiles("", "it has no atoms")
        try:
            Chem.SanitizeMol(mol)
        except Chem.MolSanitizeException as error:
            raise InvalidSmiles(Chem.MolToSmiles(molecule), str(error)) from error
    return mol


def _molecule(smiles: str, sanitize: bool = True) -> Chem.Mol | None:
    """The molecule, if there is one and it has atoms."""
    try:
        mol = Chem.MolFromSmiles(smiles.strip(), sanitize=sanitize)
    except UnicodeEncodeError:  # a lone surrogate, which has no UTF-8, RDKit's encoding
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


class CodeReader(ABC):
    """Collects atoms and bonds of molecules in flat lists, then encodes them all at once.

    A subclass says which properties of atoms and bonds are read, and how they become codes.
    """

    def __init__(self) -> None:
        self._num_atoms: list[int] = []
        self._num_bonds: list[int] = []
        self._begin: list[int] = []
        self._end: list[int] = []

    def refusal(self, mol: Chem.Mol) -> str:
        """Why a sanitised molecule has no codes; empty where it has."""
        return ""

    @abstractmethod
    def read_atoms(self, atoms: list[Any]) -> None:
        """Appends the atoms of one molecule."""

    @abstractmethod
    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends its bonds, each once."""

    @abstractmethod
    def atom_codes(self) -> NDArray[np.uint8]:
        """The codes of all atoms so far, a row each."""

    @abstractmethod
    def bond_codes(self) -> NDArray[np.uint8]:
        """The codes of all bonds so far, a row each."""

    def read(self, mol: Chem.Mol, smiles: str | None = None) -> None:
        """Appends one sanitised molecule that is not refused, and its SMILES if it was one."""
        # By their numbers atoms and bonds are listed in half the time of GetAtoms and GetBonds.
        atoms: list[Any] = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
        self.read_atoms(atoms)
        self._num_atoms.append(len(atoms))
        bonds: list[Any] = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
        self.read_bonds(bonds)
        self._begin.extend(map(Chem.Bond.GetBeginAtomIdx, bonds))
        self._end.extend(map(Chem.Bond.GetEndAtomIdx, bonds))
        self._num_bonds.append(len(bonds))

    def bond_ends(self) -> NDArray[np.int64]:
        """``(2, bonds)``: the atoms that each joins, counted through all molecules."""
        shift = np.repeat(pointers(self._num_atoms)[:-1], self._num_bonds)
        return np.array([self._begin, self._end], dtype=np.int64) + shift

    def store(self, positions: Sequence[int]) -> MolCodeStore:
        """The molecules read so far, which came from these positions."""
        atom_ptr = pointers(self._num_atoms)
        bond_ptr = pointers(self._num_bonds)
        begin, end = self.bond_ends()
        bonds = self.bond_codes()
        return MolCodeStore.of_directed_bonds(
            atoms=self.atom_codes(),
            source=np.concatenate([begin, end]),
            target=np.concatenate([end, begin]),
            bonds=np.concatenate([bonds, bonds]),
            atom_ptr=atom_ptr,
            edge_ptr=2 * bond_ptr,
            positions=np.array(positions, dtype=np.int64),
        )


class MolReader(CodeReader):
    """Reads the properties of :data:`ATOM_FEATURES` and :data:`BOND_FEATURES`.

    Calls into RDKit are nearly the whole cost, so each property is mapped over atoms or bonds that
    were listed once. An atom's implicit valence is the number of its implicit
    hydrogens: asked for as such, it is the same in every RDKit, without a deprecation warning.
    """

    def __init__(self) -> None:
        super().__init__()
        self._atoms: tuple[list[int], ...] = ([], [], [], [], [])
        self._bonds: tuple[list[int], ...] = ([], [], [])

    def read_atoms(self, atoms: list[Any]) -> None:
        """Appends the atoms of one molecule."""
        element, degree, hydrogens, valence, aromatic = self._atoms
        element.extend(map(Chem.Atom.GetAtomicNum, atoms))
        degree.extend(map(Chem.Atom.GetDegree, atoms))
        hydrogens.extend(map(Chem.Atom.GetTotalNumHs, atoms))
        valence.extend(map(Chem.Atom.GetNumImplicitHs, atoms))
        aromatic.extend(map(Chem.Atom.GetIsAromatic, atoms))

    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends its bonds, each once."""
        bond_type, conjugated, in_ring = self._bonds
        bond_type.extend(map(BOND_NUMBER.__getitem__, map(Chem.Bond.GetBondType, bonds)))
        conjugated.extend(map(Chem.Bond.GetIsConjugated, bonds))
        in_ring.extend(map(Chem.Bond.IsInRing, bonds))

    def atom_codes(self) -> NDArray[np.uint8]:
        """The codes of all atoms so far, a row each."""
        return encoded(ATOM_FEATURES, self._atoms)

    def bond_codes(self) -> NDArray[np.uint8]:
        """The codes of all bonds so far, a row each."""
        return encoded(BOND_FEATURES, self._bonds)


def encoded(features: Sequence[Feature], columns: Sequence[Any]) -> NDArray[np.uint8]:
    """``(n, len(features))`` codes of n atoms or bonds, from their values feature by feature."""
    codes = np.empty((len(columns[0]), len(features)), dtype=np.uint8)
    for k, (feature, values) in enumerate(zip(features, columns, strict=True)):
        codes[:, k] = feature.encode(values)
    return codes
