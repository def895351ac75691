"""RDKit molecules to integer codes, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase

from pyg_kernels.chem.codes import InvalidRow, InvalidSmiles, MolCodeStore
from pyg_kernels.chem.features import Feature
from pyg_kernels.chem.processes import map_chunks

Result = TypeVar("Result")

_ELEMENT, _TYPE = Chem.Atom.GetAtomicNum, Chem.Bond.GetBondType
_BOND_NUMBER = {bond_type: int(bond_type) for bond_type in Chem.BondType.values.values()}
# Reading a bond's order takes a fifth of the time of its type. It tells the type of all bonds of
# SMILES but dative ones: those have a sign of their own, or an atom of a metal.
_TYPE_OF_ORDER = {
    1.0: int(Chem.BondType.SINGLE),
    2.0: int(Chem.BondType.DOUBLE),
    3.0: int(Chem.BondType.TRIPLE),
    1.5: int(Chem.BondType.AROMATIC),
}
_SIGNS_OF_TYPES = frozenset("<>|$")
_LINE_BREAKS = frozenset("\r\n")
# Of elements that need no brackets. With another valence, atoms with hydrogens do need them.
_USUAL_VALENCE = {5: 3, 6: 4, 7: 3, 8: 2, 9: 1, 15: 3, 16: 2, 17: 1, 35: 1, 53: 1}
_NO_METALS = frozenset((1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 34, 35, 53))


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


def map_molecules(
    function: Callable[[Chem.Mol], Result], smiles: Iterable[str], num_workers: int | None
) -> list[Result]:
    """``function(molecule)`` of each SMILES string, on several processes."""
    of_chunk = partial(_map_chunk, function=function)
    chunks = map_chunks(of_chunk, checked_strings(smiles), num_workers)
    return [found for chunk in chunks for found in chunk]


def _map_chunk(
    chunk: tuple[int, Sequence[str]], function: Callable[[Chem.Mol], Result]
) -> list[Result]:
    with rdBase.BlockLogs():
        return [function(parse(text)) for text in chunk[1]]


def checked_strings(smiles: Iterable[str]) -> list[str]:
    """The SMILES as a list."""
    if isinstance(smiles, str):
        raise TypeError(f"smiles must be a sequence of strings, not the string {smiles!r}")
    strings = list(smiles)
    for position, text in enumerate(strings):
        if not isinstance(text, str):
            raise TypeError(f"smiles[{position}] must be a string, not {text!r}")
    return strings


def sanitized(molecule: str | Chem.Mol) -> Chem.Mol:
    """The molecule of a SMILES string, or a sanitised copy of a molecule."""
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
        _clear_maps(mol)
    Chem.AssignStereochemistry(mol, cleanIt=True)
    return mol


def atoms_and_bonds(mol: Chem.Mol) -> tuple[list[Any], list[Any]]:
    """All atoms and bonds, by their indices: this takes half the time of GetAtoms and GetBonds."""
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))
    return list(atoms), list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))


def _molecule(smiles: str, sanitize: bool = True) -> Chem.Mol | None:
    """The molecule, if there is one and it has atoms."""
    text = smiles.strip()
    if not _LINE_BREAKS.isdisjoint(text):  # RDKit would read what follows a break as a name
        return None
    try:
        mol = Chem.MolFromSmiles(text, sanitize=sanitize)
    except UnicodeEncodeError:  # a lone surrogate, which RDKit's encoding, UTF-8, does not have
        return None
    if mol is None or mol.GetNumAtoms() == 0:
        return None
    if sanitize and ":" in text:
        _clear_maps(mol)
    return mol


def _clear_maps(mol: Chem.Mol) -> None:
    """Removes atom map numbers, by which equal molecules would differ.

    It also removes the brackets that the numbers need, in which hydrogens are explicit, and the
    marks of stereo centers whose neighbors differ by their numbers alone.
    """
    mapped = [atom for atom in mol.GetAtoms() if atom.GetAtomMapNum()]
    if not mapped:
        return
    for atom in mapped:
        atom.SetAtomMapNum(0)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    for atom in mapped:
        others = atom.GetFormalCharge(), atom.GetIsotope(), atom.GetNumRadicalElectrons()
        chiral = atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED
        hydrogens = atom.GetTotalNumHs()
        usual = _USUAL_VALENCE.get(atom.GetAtomicNum())
        if atom.GetTotalValence() != usual or any(others) or chiral:
            continue
        for explicit in (False, True):  # explicit only where the implicit number would differ
            atom.SetNumExplicitHs(hydrogens * explicit)
            atom.SetNoImplicit(explicit)
            atom.UpdatePropertyCache()
            if atom.GetTotalNumHs() == hydrogens:
                break


def _why_invalid(smiles: str) -> str:
    if not smiles.strip():
        return "it is empty"
    mol = _molecule(smiles, sanitize=False)
    if mol is None:
        return "it is not well-formed SMILES"
    problems = Chem.DetectChemistryProblems(mol)
    return problems[0].Message().strip() if problems else "RDKit cannot sanitise it"


class CodeReader:
    """Collects atoms and bonds of molecules in flat lists, then encodes them all at once.

    Calls into RDKit are nearly the whole cost, so each property is mapped over atoms or bonds that
    were listed once. A subclass can refuse molecules that have no codes, or read in another way.
    """

    def __init__(self, atom_features: Sequence[Feature], bond_features: Sequence[Feature]) -> None:
        if not atom_features or not bond_features:
            raise ValueError("a featurizer needs at least one feature of atoms and one of bonds")
        self.atom_features, self.bond_features = atom_features, bond_features
        self.atoms: list[list[int]] = [[] for _ in atom_features]
        self.bonds: list[list[int]] = [[] for _ in bond_features]
        self._num_atoms: list[int] = []
        self._num_bonds: list[int] = []
        self._begin: list[int] = []
        self._end: list[int] = []

    def refusal(self, mol: Chem.Mol) -> str:
        """Why a sanitised molecule has no codes; empty if it has codes."""
        return ""

    def read(self, mol: Chem.Mol, smiles: str | None = None) -> None:
        """Appends one sanitised molecule that is not refused; `smiles` is what it was read from."""
        atoms, bonds = atoms_and_bonds(mol)
        elements = list(map(Chem.Atom.GetAtomicNum, atoms))
        self.read_atoms(atoms, elements)
        self._num_atoms.append(len(atoms))
        self._begin.extend(map(Chem.Bond.GetBeginAtomIdx, bonds))
        self._end.extend(map(Chem.Bond.GetEndAtomIdx, bonds))
        has_orders = smiles is not None and _SIGNS_OF_TYPES.isdisjoint(smiles)
        first = self.bond_features[0]
        if first.read is not _TYPE and (first.read or first.name != "type"):
            self.bonds[0].extend(_mapped(first, bonds))
        elif has_orders and _NO_METALS.issuperset(elements):
            orders = map(Chem.Bond.GetBondTypeAsDouble, bonds)
            self.bonds[0].extend(map(_TYPE_OF_ORDER.get, orders, repeat(0)))
        else:
            self.bonds[0].extend(map(_BOND_NUMBER.__getitem__, map(_TYPE, bonds)))
        self.read_bonds(bonds)
        self._num_bonds.append(len(bonds))

    def read_atoms(self, atoms: list[Any], elements: list[int]) -> None:
        """Appends the properties of the atoms of one molecule."""
        for column, feature in zip(self.atoms, self.atom_features, strict=True):
            column.extend(elements if feature.read is _ELEMENT else _mapped(feature, atoms))

    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends all properties but the first of the bonds of one molecule, each bond once."""
        for column, feature in zip(self.bonds[1:], self.bond_features[1:], strict=True):
            column.extend(_mapped(feature, bonds))

    def store(self, positions: Sequence[int]) -> MolCodeStore:
        """The molecules read so far, which came from these positions."""
        return MolCodeStore.of_bonds(
            atoms=encoded(self.atom_features, self.atoms, sum(self._num_atoms)),
            ends=np.array([self._begin, self._end], dtype=np.int64),
            bonds=encoded(self.bond_features, self.bonds, sum(self._num_bonds)),
            num_atoms=self._num_atoms,
            num_bonds=self._num_bonds,
            positions=positions,
        )


def _mapped(feature: Feature, items: list[Any]) -> Iterable[int]:
    return [] if feature.read is None else map(feature.read, items)


def encoded(features: Sequence[Feature], columns: Sequence[Any], n: int) -> NDArray[np.uint8]:
    """``(n, len(features))`` codes of n atoms or bonds, from their values feature by feature."""
    codes = np.empty((n, len(features)), dtype=np.uint8)
    for k, (feature, values) in enumerate(zip(features, columns, strict=True)):
        if len(values) != n:
            raise ValueError(f"the feature {feature.name!r} has no read and no reader")
        codes[:, k] = feature.encode(values)
    return codes
