"""What molecules have in common: canonical SMILES, scaffolds, duplicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem
from rdkit.Chem.Scaffolds import MurckoScaffold

from pyg_kernels.chem.encoding import checked_strings, map_molecules


class DuplicateMolecule(NamedTuple):
    """A molecule that occurs several times.

    Attributes:
        smiles: its canonical SMILES.
        positions: where it occurs, ascending.
        parts: the part of the split that each of these positions is in; -1 for none.
    """

    smiles: str
    positions: list[int]
    parts: list[int]

    @property
    def is_across(self) -> bool:
        """Whether it occurs in more than one part of the split."""
        return len(set(self.parts) - {-1}) > 1


class MergedMolecules(NamedTuple):
    """Molecules without duplicates.

    Attributes:
        smiles: m SMILES strings, each as it was first given.
        y: (m,) or (m, T) targets.
        positions: where each of them occurred, ascending.
    """

    smiles: list[str]
    y: NDArray[np.float64]
    positions: list[list[int]]


def canonical_smiles(smiles: Sequence[str], num_workers: int | None = None) -> list[str]:
    """RDKit's canonical SMILES of each molecule, with stereochemistry and isotopes.

    Atom map numbers are left out.

    Args:
        smiles: M SMILES strings.
        num_workers: the number of processes; None: one per core if there are many molecules.

    Raises:
        InvalidSmiles: if a string cannot be read.
        TypeError: if an item is not a string, or ``smiles`` is a single one.

    Example:
        >>> from pyg_kernels.chem import canonical_smiles
        >>> canonical_smiles(["OCC", "C1=CC=CC=C1"])
        ['CCO', 'c1ccccc1']
    """
    return map_molecules(_canonical, smiles, num_workers)


def _canonical(mol: Chem.Mol) -> str:
    return str(Chem.MolToSmiles(mol))


def murcko_scaffolds(smiles: Sequence[str], num_workers: int | None = None) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule: its rings and the chains that link them.

    Bemis and Murcko 1996, as RDKit's ``MurckoScaffold`` computes it, without stereochemistry.

    Args:
        smiles: M SMILES strings.
        num_workers: the number of processes; None: one per core if there are many molecules.

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
    return map_molecules(_scaffold, smiles, num_workers)


def _scaffold(mol: Chem.Mol) -> str:
    return str(MurckoScaffold.MurckoScaffoldSmiles(mol=mol))


def find_duplicates(
    smiles: Sequence[str], parts: Sequence[Any] = (), num_workers: int | None = None
) -> list[DuplicateMolecule]:
    """The molecules that occur several times, in the order in which they first occur.

    Two molecules are the same if their canonical SMILES are. These lack what only an extension of
    SMILES says: the sense of atropisomers, which stereocenters are racemic, and R groups.

    Args:
        smiles: M SMILES strings.
        parts: the parts of a split, such as a :class:`~pyg_kernels.datasets.Split`, each given by
            its positions or by a mask.
        num_workers: see :func:`canonical_smiles`.

    Returns:
        Duplicates within a part and across parts; :attr:`DuplicateMolecule.is_across` tells which.

    Raises:
        InvalidSmiles: if a string cannot be read.
        ValueError: if a position of a part is out of range, or in an earlier part.

    Example:
        >>> from pyg_kernels.chem import find_duplicates
        >>> (found,) = find_duplicates(["CCO", "CC", "OCC"], parts=[[0, 1], [2]])
        >>> found.smiles, found.is_across
        ('CCO', True)
    """
    part_of = np.full(len(smiles), -1)
    for number, part in enumerate(parts):
        positions = np.asarray(part).reshape(-1)
        if positions.dtype == bool and len(positions) == len(smiles):
            positions = np.flatnonzero(positions)
        if positions.dtype.kind not in "iu" and positions.size:
            raise ValueError(f"parts[{number}]: expected positions, or a mask of {len(smiles)}")
        positions = positions.astype(np.int64)
        if positions.size and not 0 <= positions.min() <= positions.max() < len(smiles):
            raise ValueError(f"parts[{number}] has positions outside 0 .. {len(smiles) - 1}")
        if (part_of[positions] >= 0).any():
            raise ValueError(f"parts[{number}] has positions of an earlier part")
        part_of[positions] = number
    return [
        DuplicateMolecule(text, positions, part_of[positions].tolist())
        for text, positions in _occurrences(smiles, num_workers).items()
        if len(positions) > 1
    ]


def merge_duplicates(
    smiles: Sequence[str], y: ArrayLike, num_workers: int | None = None
) -> MergedMolecules:
    """Every molecule once, with the mean of each of its measured targets.

    Args:
        smiles: n SMILES strings.
        y: (n,) or (n, T) targets, NaN where one was not measured.
        num_workers: see :func:`canonical_smiles`.

    Returns:
        The molecules in the order in which they first occur. A target is NaN where it was never
        measured.

    Raises:
        InvalidSmiles: if a string cannot be read.
        ValueError: if `y` has another length.

    Example:
        >>> from pyg_kernels.chem import merge_duplicates
        >>> merged = merge_duplicates(["CCO", "CC", "OCC"], [1.0, 5.0, 2.0])
        >>> merged.smiles, merged.y.tolist()
        (['CCO', 'CC'], [1.5, 5.0])
    """
    smiles, targets = checked_strings(smiles), np.asarray(y, dtype=np.float64)
    if targets.ndim not in (1, 2) or len(targets) != len(smiles):
        raise ValueError(
            f"y must have the shape ({len(smiles)},) or ({len(smiles)}, T), one row a molecule; "
            f"not {targets.shape}"
        )
    positions = list(_occurrences(smiles, num_workers).values())
    group = np.empty(len(smiles), dtype=np.int64)
    for row, places in enumerate(positions):
        group[places] = row
    means = pandas.DataFrame(targets).groupby(group).mean().to_numpy()
    merged = means.reshape(len(positions), *targets.shape[1:])
    return MergedMolecules([smiles[places[0]] for places in positions], merged, positions)


def _occurrences(smiles: Sequence[str], num_workers: int | None) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for position, text in enumerate(canonical_smiles(smiles, num_workers)):
        places[text].append(position)
    return places
