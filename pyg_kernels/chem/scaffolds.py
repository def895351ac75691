"""Bemis-Murcko scaffolds."""

from __future__ import annotations

from collections.abc import Sequence

from rdkit import rdBase
from rdkit.Chem.Scaffolds import MurckoScaffold

from pyg_kernels.chem.encoding import checked_strings, parse
from pyg_kernels.chem.processes import map_chunks


def murcko_scaffolds(smiles: Sequence[str], num_workers: int | None = None) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule: its rings and the chains that link them.

    Bemis and Murcko 1996, as RDKit's ``MurckoScaffold`` computes it, without stereochemistry.

    Args:
        smiles: M SMILES strings.
        num_workers: the number of processes; None for one a core where there are many molecules.

    Returns:
        M canonical SMILES; '' for a molecule without rings.

    Raises:
        InvalidSmiles: if a string cannot be read.
        TypeError: if an item is not a string, or ``smiles`` is a single one.

    Example:
        >>> from pyg_kernels.chem import murcko_scaffolds
        >>> murcko_scaffolds(["CCc1ccccc1", "CCO"])
        ['c1ccccc1', '']
    """
    chunks = map_chunks(_scaffold_chunk, checked_strings(smiles), num_workers)
    return [scaffold for chunk in chunks for scaffold in chunk]


def _scaffold_chunk(chunk: tuple[int, Sequence[str]]) -> list[str]:
    with rdBase.BlockLogs():
        mols = map(parse, chunk[1])
        return [MurckoScaffold.MurckoScaffoldSmiles(mol=mol) for mol in mols]
