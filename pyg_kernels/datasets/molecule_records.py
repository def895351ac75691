"""Molecules as compressed byte records.

A record holds, in this order and compressed as one raw stream of zlib: the numbers N of atoms and B
of bonds (uint32), the N rows of atom codes, for each bond how far its lower atom is from its higher
one, the higher atoms (uint32), the B rows of bond codes, the SMILES in UTF-8. Records of a folder
share a dictionary, in which the compressor finds what molecules have in common.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from pyg_kernels.chem import Featurizer, MolCodes, MolCodeStore
from pyg_kernels.chem.codes import pointers

DICTIONARY_SIZE = 1 << 14


def pack(codes: MolCodes, smiles: str) -> bytes:
    """The record of a molecule, not compressed."""
    once = codes.edge_index[0] < codes.edge_index[1]  # sorted by target, the higher atom
    low, high = codes.edge_index[:, once].astype("<u4")
    sizes = np.array([codes.num_atoms, len(high)], "<u4")
    parts = (sizes, codes.atoms, high - low, high, codes.bonds[once])
    return b"".join([*(part.tobytes() for part in parts), smiles.encode()])


def compressed(record: bytes, dictionary: bytes) -> bytes:
    """The record, compressed."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary)
    return compressor.compress(record) + compressor.flush()


def unpack(
    records: Sequence[bytes], dictionary: bytes, featurizer: Featurizer
) -> tuple[MolCodeStore, list[str]]:
    """The codes and SMILES of one or more compressed records."""
    columns: tuple[list[np.ndarray], ...] = ([], [], [], [])
    num_atoms, num_bonds, smiles = [], [], []
    for record in records:
        raw = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary).decompress(record)
        atoms, bonds = np.frombuffer(raw, "<u4", 2).tolist()
        start = 8
        parts = (
            ("u1", atoms, featurizer.atom_code_dim),
            ("<u4", bonds, 1),
            ("<u4", bonds, 1),
            ("u1", bonds, featurizer.bond_code_dim),
        )
        for column, (kind, rows, width) in zip(columns, parts, strict=True):
            found = np.frombuffer(raw, kind, rows * width, start)
            column.append(found.reshape(rows, width))
            start += found.nbytes
        num_atoms.append(atoms)
        num_bonds.append(bonds)
        smiles.append(raw[start:].decode())
    atom_codes, distance, high, bond_codes = map(np.concatenate, columns)
    atom_ptr, bond_ptr = pointers(num_atoms), pointers(num_bonds)
    ends = high[:, 0].astype(np.int64) + np.repeat(atom_ptr[:-1], num_bonds)
    others = ends - distance[:, 0]
    store = MolCodeStore.of_directed_bonds(
        atoms=atom_codes,
        source=np.concatenate([others, ends]),
        target=np.concatenate([ends, others]),
        bonds=np.concatenate([bond_codes, bond_codes]),
        atom_ptr=atom_ptr,
        edge_ptr=2 * bond_ptr,
        positions=np.arange(len(records)),
    )
    return store, smiles
