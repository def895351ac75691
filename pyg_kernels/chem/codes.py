"""Molecules as small integer codes, one at a time and in one ragged store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.tables import shortened


class InvalidSmiles(ValueError):  # noqa: N818
    """A SMILES string that RDKit cannot read as a molecule with at least one atom.

    Attributes:
        smiles: the string.
        reason: what RDKit finds wrong with it.

    Example:
        >>> from pyg_kernels.chem import InvalidSmiles, MolFeaturizer
        >>> try:
        ...     data = MolFeaturizer()("c1ccc")
        ... except InvalidSmiles as error:
        ...     print(error.smiles, error.reason, sep=": ")
        c1ccc: it is not well-formed SMILES

    See Also:
        :class:`InvalidRow`; :class:`~pyg_kernels.datasets.InvalidMolecules`, many of them.
    """

    def __init__(self, smiles: str, reason: str) -> None:
        super().__init__(f"cannot read the SMILES {shortened(smiles)!r}: {reason}")
        self.smiles = smiles
        self.reason = reason

    def __reduce__(self) -> tuple[type[InvalidSmiles], tuple[str, str]]:
        return type(self), (self.smiles, self.reason)


class InvalidRow(NamedTuple):
    """A SMILES string that cannot be read, and where it stands.

    Attributes:
        row: its position in the sequence that was encoded, from 0; in a dataset that was read
            from a file, its line there.
        smiles: the string.
        reason: what RDKit finds wrong with it.
    """

    row: int
    smiles: str
    reason: str


@dataclass(frozen=True)
class MolCodes:
    """One molecule of N atoms and E directed bonds as integer codes.

    Attributes:
        atoms: ``(N, C)`` uint8, a column for each atom feature of the featuriser.
        edge_index: ``(2, E)`` int32, every bond in both directions, sorted by target and then by
            source.
        bonds: ``(E, B)`` uint8, a column for each bond feature of the featuriser.
    """

    atoms: NDArray[np.uint8]
    edge_index: NDArray[np.int32]
    bonds: NDArray[np.uint8]


@dataclass(frozen=True)
class MolCodeStore:
    """M molecules as integer codes, one after the other in flat arrays.

    ``store[i]`` is the i-th molecule as :class:`MolCodes`, ``len(store)`` is M.

    Attributes:
        atoms: ``(sum of N, C)`` uint8, as in :class:`MolCodes`.
        edge_index: ``(2, sum of E)`` int32; atoms are counted from 0 within each molecule.
        bonds: ``(sum of E, B)`` uint8.
        atom_ptr: ``(M + 1,)`` int64: the atoms of molecule i are ``atom_ptr[i] : atom_ptr[i+1]``.
        edge_ptr: ``(M + 1,)`` int64, the same for the directed bonds.
        positions: ``(M,)`` int64, the position of each molecule in the sequence of SMILES that
            was encoded (those that cannot be read are not in the store).
    """

    atoms: NDArray[np.uint8]
    edge_index: NDArray[np.int32]
    bonds: NDArray[np.uint8]
    atom_ptr: NDArray[np.int64]
    edge_ptr: NDArray[np.int64]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> MolCodes:
        index = range(len(self))[index]
        atoms = slice(self.atom_ptr[index], self.atom_ptr[index + 1])
        edges = slice(self.edge_ptr[index], self.edge_ptr[index + 1])
        return MolCodes(self.atoms[atoms], self.edge_index[:, edges], self.bonds[edges])

    @classmethod
    def of_bonds(
        cls,
        atoms: NDArray[np.uint8],
        ends: NDArray[np.int64],
        bonds: NDArray[np.uint8],
        num_atoms: NDArray[np.int64] | Sequence[int],
        num_bonds: NDArray[np.int64] | Sequence[int],
        positions: Sequence[int] | None = None,
    ) -> MolCodeStore:
        """Makes the store of molecules whose bonds are each given once.

        Args:
            atoms: ``(sum of N, C)`` codes.
            ends: ``(2, bonds)``, the atoms that each bond joins, counted from 0 within each
                molecule.
            bonds: ``(bonds, B)`` codes.
            num_atoms: the number of atoms of each of M molecules.
            num_bonds: the number of bonds of each of M molecules.
            positions: the position of each of M molecules; 0, 1, ... by default.
        """
        atom_ptr = pointers(num_atoms)
        ends = np.concatenate([ends, ends[::-1]], axis=1)  # in both directions
        source, target = ends + np.tile(np.repeat(atom_ptr[:-1], num_bonds), 2)
        # Atoms of later molecules have larger numbers: one sort orders the bonds of each molecule
        # by target and source, and leaves the molecules in their order.
        order = np.argsort(target * len(atoms) + source)
        return cls(
            atoms=atoms,
            edge_index=ends[:, order].astype(np.int32),
            bonds=np.tile(bonds, (2, 1))[order],
            atom_ptr=atom_ptr,
            edge_ptr=2 * pointers(num_bonds),
            positions=np.array(range(len(num_atoms)) if positions is None else positions, np.int64),
        )

    @classmethod
    def concatenate(cls, stores: Sequence[MolCodeStore]) -> MolCodeStore:
        """Joins stores (at least one); ``positions`` are taken as they are."""
        return cls(
            atoms=np.concatenate([store.atoms for store in stores]),
            edge_index=np.concatenate([store.edge_index for store in stores], axis=1),
            bonds=np.concatenate([store.bonds for store in stores]),
            atom_ptr=pointers(np.concatenate([np.diff(store.atom_ptr) for store in stores])),
            edge_ptr=pointers(np.concatenate([np.diff(store.edge_ptr) for store in stores])),
            positions=np.concatenate([store.positions for store in stores]),
        )


def pointers(counts: NDArray[np.int64] | Sequence[int]) -> NDArray[np.int64]:
    """``(M + 1,)`` starts of M consecutive segments of these lengths, and the last one's end."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr
