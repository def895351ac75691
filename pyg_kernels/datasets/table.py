"""CSV files of SMILES and targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.chem.codes import shortened
from pyg_kernels.datasets.cells import read_cells

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MISSING = frozenset(("", "nan", "na", "n/a", "null", "none"))
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class MoleculeTable:
    """The columns of a CSV file that a molecule data set needs, for M rows.

    Attributes:
        smiles: M strings, not yet read as molecules.
        targets: (M, T) float64, NaN where a target is missing.
        target_names: the T columns.
        row_numbers: M lines in the file; the header is line 1.
        split_values: M values of the split column, or None.
    """

    smiles: list[str]
    targets: Tensor
    target_names: list[str]
    row_numbers: list[int]
    split_values: list[str] | None = None

    def __post_init__(self) -> None:
        if len(self.targets) != len(self.smiles):
            raise ValueError(
                f"targets must have {len(self.smiles)} rows, one a SMILES, not {len(self.targets)}"
            )
        if self.targets.size(1) != len(self.target_names):
            raise ValueError(
                f"target_names must have {self.targets.size(1)} names, one a column of targets, "
                f"not {len(self.target_names)}"
            )

    def pick(self, positions: Sequence[int]) -> MoleculeTable:
        """The rows at these positions, in this order."""
        split = self.split_values
        return MoleculeTable(
            smiles=[self.smiles[i] for i in positions],
            targets=self.targets[torch.as_tensor(positions, dtype=torch.long)],
            target_names=self.target_names,
            row_numbers=[self.row_numbers[i] for i in positions],
            split_values=None if split is None else [split[i] for i in positions],
        )


def read_table(
    path: str | Path,
    smiles_column: str = "smiles",
    target_columns: Sequence[str] | str | None = None,
    split_column: str | None = None,
    cells: DataFrame | None = None,
) -> MoleculeTable:
    """The table of a CSV file, or of the cells that were read of it (a pipe is read but once).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: as these two.
    """
    cells = read_cells(path) if cells is None else cells
    name = Path(path).name
    return find_columns(name, [cells], smiles_column, target_columns, split_column).table(cells)


@dataclass(frozen=True)
class Columns:
    """Where in a CSV file the SMILES, the targets and the split are.

    Attributes:
        header: the names of all columns, without white space around them.
        smiles: the position of the SMILES among them, from 0.
        targets: those of the T targets.
        split: that of the part names; None for none.
        num_rows: how many rows the file has below its header.
    """

    header: tuple[str, ...]
    smiles: int
    targets: tuple[int, ...]
    split: int | None
    num_rows: int

    @property
    def target_names(self) -> list[str]:
        """The names of the T targets."""
        return [self.header[index] for index in self.targets]

    def table(self, frame: DataFrame) -> MoleculeTable:
        """Some rows of the file in which the columns were found."""
        numbers = [_numbers(frame.iloc[:, index]) for index in self.targets]
        targets = torch.tensor(numbers, dtype=torch.float64)
        return MoleculeTable(
            smiles=frame.iloc[:, self.smiles].str.strip().tolist(),
            targets=targets.reshape(len(self.targets), len(frame)).T.contiguous(),
            target_names=self.target_names,
            row_numbers=frame.index.tolist(),
            split_values=None
            if self.split is None
            else frame.iloc[:, self.split].str.strip().tolist(),
        )


def find_columns(
    name: str,
    frames: Iterable[DataFrame],
    smiles_column: str = "smiles",
    target_columns: Sequence[str] | str | None = None,
    split_column: str | None = None,
) -> Columns:
    """Finds the columns of a CSV file and checks every target, in one pass over its rows.

    Args:
        name: the file's, for errors.
        frames: its rows, as :func:`~pyg_kernels.datasets.cells.stream_cells` gives them.
        smiles_column: the column of SMILES.
        target_columns: the columns of targets, none for an empty sequence; None for every other
            column that has a name and holds numbers.
        split_column: a column of part names; None for none.

    Raises:
        ValueError: if there are no rows, a column is missing, or a target is neither a number (in
            the range of float32) nor missing (empty, ``nan``, ``na``, ``n/a``, ``null``, ``none``).
    """
    header: tuple[str, ...] = ()
    wanted: list[int] = []
    first_bad: dict[int, tuple[int, str]] = {}
    with_numbers: set[int] = set()
    num_rows = 0

    def place(column: str, argument: str) -> int:
        if header.count(column) == 1:
            return header.index(column)
        found = f"{header.count(column)} columns" if column in header else "no column"
        raise ValueError(f"{name} has {found} named {column!r} ({argument}); {_listed(header)}")

    for frame in frames:
        if not header:
            header = tuple(str(cell).strip() for cell in frame.columns)
            smiles = place(smiles_column, "smiles_column")
            split = None if split_column is None else place(split_column, "split_column")
            if target_columns is None:
                # A column without a name is most often the index that pandas writes by default.
                wanted = [k for k, c in enumerate(header) if c and k not in (smiles, split)]
            else:
                named = [target_columns] if isinstance(target_columns, str) else target_columns
                wanted = [place(column, "target_columns") for column in dict.fromkeys(named)]
        num_rows += len(frame)
        for index in wanted:
            numbers = _numbers(frame.iloc[:, index])
            if None in numbers:
                row = numbers.index(None)
                first_bad.setdefault(index, (frame.index[row], frame.iat[row, index].strip()))
            if any(number == number for number in numbers if number is not None):
                with_numbers.add(index)
    if not num_rows:
        raise ValueError(f"{name} has a header but no molecules below it")
    if target_columns is None:
        wanted = [index for index in wanted if index in with_numbers]
        if not wanted:
            raise ValueError(
                f"{name} has no column of numbers with a name to take as a target "
                f"(target_columns); {_listed(header)}"
            )
    for index in wanted:
        place(header[index], "target_columns")
        if index in first_bad:
            line, value = first_bad[index]
            raise ValueError(
                f"line {line} of {name}: the target {header[index]!r} must be a finite number in "
                f"the range of float32, or empty, not {shortened(value, 40)!r} "
                "(target_columns chooses the targets)"
            )
        if index not in with_numbers:
            raise ValueError(f"the target column {header[index]!r} of {name} has no values")
    return Columns(header, smiles, tuple(wanted), split, num_rows)


def _listed(header: Sequence[str]) -> str:
    return f"its columns are {', '.join(repr(shortened(name, 40)) for name in header)}"


def _numbers(column: Series[str]) -> list[float | None]:
    """The numbers of a column, NaN for missing ones, None for what is neither.

    Python finds the nearest float64, which pandas may miss by a unit.
    """
    return [_number(cell) for cell in column.str.strip()]


def _number(text: str) -> float | None:
    if text.lower() in MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= LARGEST_FLOAT32 and "_" not in text else None
