"""Molecules as compressed byte records.

A record is one raw zlib stream of, in this order: the numbers N of atoms and B of bonds (uint32),
the N rows of atom codes, each bond's higher atom minus its lower atom, the higher atoms (uint32),
the B rows of bond codes, and the SMILES in UTF-8. Records of a folder share a dictionary, in which
the compressor finds what molecules have in common.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from pyg_kernels.chem import Featurizer, MolCodes, MolCodeStore

DICTIONARY_SIZE = 1 << 14
SIZES = struct.Struct("<II")


def pack(codes: MolCodes, smiles: str) -> bytes:
    """The uncompressed record of a molecule."""
    once = codes.edge_index[0] < codes.edge_index[1]  # sorted by target, the higher atom
    low, high = codes.edge_index[:, once].astype("<u4")
    parts = (codes.atoms, high - low, high, codes.bonds[once])
    content = b"".join(part.tobytes() for part in parts)
    return SIZES.pack(len(codes.atoms), len(high)) + content + smiles.encode()


def compressed(record: bytes, dictionary: bytes) -> bytes:
    """The record, compressed."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary)
    return compressor.compress(record) + compressor.flush()


def unpack(
    records: Sequence[bytes], dictionary: bytes, featurizer: Featurizer
) -> tuple[MolCodeStore, list[str]]:
    """The codes and SMILES of one or more compressed records."""
    columns: tuple[list[bytes], ...] = ([], [], [], [])
    num_atoms, num_bonds, smiles = [], [], []
    atom_dim, bond_dim = len(featurizer.atom_features), len(featurizer.bond_features)
    for record in records:
        raw = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary).decompress(record)
        atoms, bonds = SIZES.unpack_from(raw)
        start = SIZES.size
        sizes = atom_dim * atoms, 4 * bonds, 4 * bonds, bond_dim * bonds
        for column, size in zip(columns, sizes, strict=True):
            column.append(raw[start : start + size])
            start += size
        num_atoms.append(atoms)
        num_bonds.append(bonds)
        smiles.append(raw[start:].decode())
    atom_codes, distance, high, bond_codes = (
        np.frombuffer(bytearray().join(column), kind)
        for column, kind in zip(columns, ("u1", "<u4", "<u4", "u1"), strict=True)
    )
    store = MolCodeStore.of_bonds(
        atoms=atom_codes.reshape(-1, atom_dim),
        ends=np.stack([high - distance, high]).astype(np.int64),
        bonds=bond_codes.reshape(-1, bond_dim),
        num_atoms=num_atoms,
        num_bonds=num_bonds,
    )
    return store, smiles
