"""A small file of molecules as a large one: every molecule many times, its atoms in other orders.

Featurising and training cost what they would on as many molecules of that kind.
"""

from __future__ import annotations

import csv
import io
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rdkit import Chem

ROWS = 2000  # about as many are written at once


@dataclass(frozen=True)
class Source:
    """Molecules that are written many times.

    Args:
        smiles: M SMILES.
        targets: M rows of T numbers as text, empty where one is missing.
        target_names: T names.
    """

    smiles: Sequence[str]
    targets: Sequence[Sequence[str]]
    target_names: Sequence[str]

    @classmethod
    def of(cls, dataset: str, root: str) -> Source:
        """The molecules of a data set of the benchmark.

        Args:
            dataset (str): ``'chembl'`` or ``'cep'``.
            root (str): Folder of ``'cep'``.
        """
        from pyg_kernels.datasets import CEP, ChEMBLSulfonamides

        molecules = CEP(root) if dataset == "cep" else ChEMBLSulfonamides()
        values = [
            ["" if value != value else repr(value) for value in row]
            for row in molecules.targets.tolist()
        ]
        return cls(molecules.smiles, values, molecules.target_names)

    def copies(self, position: int, number: int) -> int:
        """How often a molecule stands in a file of this many."""
        times, rest = divmod(number, len(self.smiles))
        return times + (position < rest)

    def lines(self, begin: int, end: int, number: int, seed: int) -> str:
        """The lines of the molecules at these positions, without a header."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for position in range(begin, end):
            times = self.copies(position, number)
            generator = np.random.default_rng([seed, position])
            for smiles in orders(self.smiles[position], times, generator):
                writer.writerow([smiles, *self.targets[position]])
        return text.getvalue()


def orders(smiles: str, times: int, generator: np.random.Generator) -> Iterator[str]:
    """A SMILES as it stands, then with its atoms in other orders, drawn at random.

    None of the others has the atoms in the order of the first; a single atom has but one order.

    Args:
        smiles (str): A valid SMILES.
        times (int): How many to give.
        generator: Of the orders.
    """
    if times:
        yield smiles
    if times < 2:
        return
    molecule = Chem.MolFromSmiles(smiles)
    atoms = molecule.GetNumAtoms()
    for _ in range(times - 1):
        order = generator.permutation(atoms).tolist()
        while atoms > 1 and order[0] == 0:  # the atom that comes first is written first
            order = generator.permutation(atoms).tolist()
        yield Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)


def write_replicas(
    source: Source, number: int, path: Path, seed: int = 0, num_workers: int = 1
) -> None:
    """Writes a CSV file of `number` molecules with the columns smiles and those of the targets.

    The copies of a molecule follow each other. The file does not depend on the number of processes.

    Args:
        source: The molecules.
        number (int): How many lines there are below the header.
        path (Path): The file.
        seed (int): Of the orders of atoms.
        num_workers (int): Processes; 1 for this one alone.
    """
    molecules = min(number, len(source.smiles))
    size = max(1, ROWS * molecules // number)
    chunks = [(begin, min(begin + size, molecules)) for begin in range(0, molecules, size)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(["smiles", *source.target_names])
        if num_workers < 2 or len(chunks) < 2:
            _begin(source, number, seed)
            file.writelines(map(_lines, chunks))
            return
        context = multiprocessing.get_context("spawn")
        told = (source, number, seed)
        with ProcessPoolExecutor(num_workers, context, _begin, told) as pool:
            file.writelines(pool.map(_lines, chunks))


_told: list[tuple[Source, int, int]] = []  # what a process writes


def _begin(source: Source, number: int, seed: int) -> None:
    _told[:] = [(source, number, seed)]


def _lines(chunk: tuple[int, int]) -> str:
    source, number, seed = _told[0]
    return source.lines(*chunk, number, seed)
