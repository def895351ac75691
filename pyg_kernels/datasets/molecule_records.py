"""Molecules as compact byte records, packed and unpacked many at a time.

The record of a molecule with N atoms and B bonds is

========================== ====================================================================
bytes                      what
========================== ====================================================================
1                          the width W: 1 byte a number, or 2 or 4 where a number is above 255
                           or 65,535
2 W                        N, B
W (N + 3 B)                the kind of each atom; the lower atom of each bond; the higher; its
                           kind
the rest                   the SMILES in UTF-8
========================== ====================================================================

Every bond is there once, ordered by its higher and then by its lower atom. A kind is the number of
a row of codes in a :class:`KindTable`. The numbers of a group lie byte by byte: first the lowest
byte of each, then (W > 1) the next byte of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.chem import MolCodeStore
from pyg_kernels.chem.codes import pointers
from pyg_kernels.chem.features import Feature

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# No byte of UTF-8: what stands between SMILES.
SEPARATOR = 0xFF


class KindTable:
    """The different rows of codes that atoms (or bonds) have had so far, numbered from 0.

    Args:
        features: the properties that the codes stand for, a column each.
        rows: the rows so far.
    """

    def __init__(self, features: Sequence[Feature], rows: Sequence[Sequence[int]] = ()) -> None:
        # An unlisted value has the code len(choices).
        self._sizes = [len(feature.choices) + 1 for feature in features]
        self.rows: list[list[int]] = []
        self._number: dict[int, int] = {}
        for row in rows:
            self._append([int(code) for code in row])

    @property
    def codes(self) -> Bytes:
        """``(K, C)``: the codes of each kind."""
        return np.array(self.rows, dtype=np.uint8).reshape(len(self.rows), len(self._sizes))

    def numbers(self, codes: Bytes) -> Integers:
        """``(N,)``: the kind of each row of ``(N, C)`` codes; new ones, the commonest first."""
        packed = self._packed(codes)
        found, first, kind, count = np.unique(
            packed, return_index=True, return_inverse=True, return_counts=True
        )
        for k in np.argsort(-count, kind="stable").tolist():
            if int(found[k]) not in self._number:
                self._append(codes[first[k]].tolist())
        numbers = np.array([self._number[int(value)] for value in found], dtype=np.int64)
        return numbers[kind.reshape(-1)]

    def _append(self, row: list[int]) -> None:
        packed = self._packed(np.array([row], dtype=np.uint8).reshape(1, len(self._sizes)))
        self._number[int(packed[0])] = len(self.rows)
        self.rows.append(row)

    def _packed(self, codes: Bytes) -> Integers:
        packed = np.zeros(len(codes), dtype=np.int64)
        for column, size in enumerate(self._sizes):
            packed = packed * size + codes[:, column]
        return packed


class Graphs(NamedTuple):
    """B molecules, one after the other; atoms are counted through all of them.

    Attributes:
        atoms: (N,) the kind of each atom.
        edge_index: (2, E), every bond in both directions, sorted by target and then by source.
        bonds: (E,) the kind of each directed bond.
        atom_ptr: (B + 1,), where the atoms of each molecule begin, and the end.
        edge_ptr: (B + 1,), the same for the directed bonds.
    """

    atoms: Integers
    edge_index: Integers
    bonds: Integers
    atom_ptr: Integers
    edge_ptr: Integers


def ranges(starts: NDArray[Any], counts: NDArray[Any]) -> tuple[Integers, Integers]:
    """Places ``starts[i] .. starts[i] + counts[i] - 1`` for each i, and to which i each belongs."""
    ptr = pointers(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.arange(ptr[-1]) + (starts - ptr[:-1])[owner], owner


def pack(
    store: MolCodeStore, smiles: Sequence[str], atom_kinds: KindTable, bond_kinds: KindTable
) -> tuple[Bytes, Integers]:
    """The records of M molecules and where each begins.

    Args:
        store: their codes.
        smiles: M strings.
        atom_kinds: gets the atoms that it has not had yet.
        bond_kinds: gets the bonds that it has not had yet.

    Returns:
        The records and (M + 1,) places: where each record begins, and where the last one ends.
    """
    texts = [text.encode() for text in smiles]
    once = store.edge_index[0] < store.edge_index[1]  # sorted by target, the higher atom
    low, high = store.edge_index[:, once]
    atoms = atom_kinds.numbers(store.atoms)
    bonds = bond_kinds.numbers(store.bonds[once])
    num_atoms, num_bonds = np.diff(store.atom_ptr), np.diff(store.edge_ptr) // 2
    atom_owner = np.repeat(np.arange(len(store)), num_atoms)
    bond_owner = np.repeat(np.arange(len(store)), num_bonds)
    largest = np.maximum(num_atoms, num_bonds)
    np.maximum.at(largest, atom_owner, atoms)
    np.maximum.at(largest, bond_owner, bonds)
    width = np.select([largest < 1 << 8, largest < 1 << 16], [1, 2], 4)
    total = num_atoms + 3 * num_bonds
    text_length = np.array([len(text) for text in texts], dtype=np.int64)
    starts = pointers(1 + width * (2 + total) + text_length)
    records = np.zeros(starts[-1], dtype=np.uint8)
    at = starts[:-1]
    records[at] = width
    for place, number in ((at + 1, num_atoms), (at + 2, num_bonds)):
        _write(records, place, np.full(len(at), 2), width, number)
    first = at + 1 + 2 * width
    for position, counts, owner, numbers in (
        (0 * num_atoms, num_atoms, atom_owner, atoms),
        (num_atoms, num_bonds, bond_owner, low),
        (num_atoms + num_bonds, num_bonds, bond_owner, high),
        (num_atoms + 2 * num_bonds, num_bonds, bond_owner, bonds),
    ):
        places, _ = ranges(first + position, counts)
        _write(records, places, total[owner], width[owner], numbers)
    places, _ = ranges(first + width * total, text_length)
    records[places] = np.frombuffer(b"".join(texts), dtype=np.uint8)
    return records, starts


def _write(
    records: Bytes, places: Integers, stride: Integers, width: Integers, numbers: NDArray[Any]
) -> None:
    """Writes each number byte by byte, its bytes ``stride`` apart."""
    for byte in range(int(width.max(initial=1))):
        wide = width > byte
        records[places[wide] + byte * stride[wide]] = (numbers[wide] >> 8 * byte) & 0xFF


def unpack(raw: Bytes, at: Integers) -> Graphs:
    """The graphs of the B molecules whose records begin at these places.

    Args:
        raw: bytes in which the records are.
        at: (B,) places.
    """
    width = raw[at].astype(np.int64)
    widest = int(width.max(initial=1))
    everyone, pair = np.arange(len(at)), np.full(len(at), 2)
    num_atoms = _read(raw, at + 1, pair, width, everyone, widest)
    num_bonds = _read(raw, at + 2, pair, width, everyone, widest)
    total = num_atoms + 3 * num_bonds
    first = at + 1 + 2 * width
    places, atom_owner = ranges(first, num_atoms)
    atoms = _read(raw, places, total, width, atom_owner, widest)
    places, owner = ranges(first + num_atoms, num_bonds)
    step, atom_ptr = num_bonds[owner], pointers(num_atoms)
    low, high, bonds = (
        _read(raw, places + position * step, total, width, owner, widest) for position in range(3)
    )
    shift = atom_ptr[:-1][owner]
    low, high = low + shift, high + shift
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    # Bonds come by their higher atom, then by the lower: among those of one target the lower
    # sources come first, then the higher, each in ascending order. Of 16 bits numpy sorts by radix.
    short = atom_ptr[-1] <= 1 << 16
    order = np.argsort(target.astype(np.uint16) if short else target, kind="stable")
    return Graphs(
        atoms=atoms,
        edge_index=np.stack([source[order], target[order]]),
        bonds=np.concatenate([bonds, bonds])[order],
        atom_ptr=atom_ptr,
        edge_ptr=2 * pointers(num_bonds),
    )


def _read(
    raw: Bytes, places: Integers, stride: Integers, width: Integers, owner: Integers, widest: int
) -> Integers:
    """Numbers by the places of their lowest bytes; ``stride`` and ``width`` are their owners'."""
    numbers = raw[places].astype(np.int64)
    for byte in range(1, widest):
        wide = np.flatnonzero(width[owner] > byte)
        numbers[wide] |= raw[places[wide] + byte * stride[owner[wide]]].astype(np.int64) << 8 * byte
    return numbers


def unpack_smiles(raw: Bytes, at: Integers, ends: Integers) -> list[str]:
    """The SMILES of the molecules whose records begin and end at these places.

    Args:
        raw: bytes in which the records are; the one after each record is :data:`SEPARATOR`.
        at: (B,) places, B at least 1.
        ends: (B,) places.
    """
    width = raw[at].astype(np.int64)
    widest = int(width.max(initial=1))
    everyone, pair = np.arange(len(at)), np.full(len(at), 2)
    num_atoms = _read(raw, at + 1, pair, width, everyone, widest)
    num_bonds = _read(raw, at + 2, pair, width, everyone, widest)
    starts = at + 1 + width * (2 + num_atoms + 3 * num_bonds)
    places, _ = ranges(starts, ends + 1 - starts)
    texts = raw[places].tobytes()[:-1].split(bytes([SEPARATOR]))
    return list(map(bytes.decode, texts))
