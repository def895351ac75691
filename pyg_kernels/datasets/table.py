"""CSV files of SMILES and targets."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.chem.codes import shortened

MISSING = frozenset(("", "nan", "na", "n/a", "null", "none"))
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

Record = tuple[int, list[str]]


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


def read_records(path: str | Path) -> list[Record]:
    """Reads a CSV file in one pass, so that it may be a pipe such as ``/dev/stdin``.

    Args:
        path: the file, in UTF-8; decompressed if its name ends in ``.gz``.

    Returns:
        The header and then at least one row, with as many cells as the header; blank lines are
        left out. Each is a pair of the line on which it begins, from 1, and its cells as they
        stand.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such a table.
    """
    path = Path(path)
    records: list[Record] = []
    opened = gzip.open if path.suffix == ".gz" else open
    line = 1
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if row:
                    records.append((line, row))
                line = reader.line_num + 1
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path.name} is not a CSV file in UTF-8, at line {line}: {error}"
        ) from error
    if not records:
        raise ValueError(f"{path.name} is empty; it needs a header line and molecules below it")
    width = len(records[0][1])
    for line, row in records:
        if len(row) != width:
            raise ValueError(
                f"line {line} of {path.name} has {len(row)} fields, its header {width}"
            )
    if len(records) == 1:
        raise ValueError(f"{path.name} has a header but no molecules below it")
    return records


def read_table(
    path: str | Path,
    smiles_column: str = "smiles",
    target_columns: Sequence[str] | str | None = None,
    split_column: str | None = None,
    records: Sequence[Record] | None = None,
) -> MoleculeTable:
    """Reads a CSV file with a header, as :func:`read_records` does.

    Args:
        path: the file.
        smiles_column: the column of SMILES.
        target_columns: the columns of targets, none for an empty sequence; None for every other
            column that has a name and holds numbers.
        split_column: a column of part names; None for none.
        records: what :func:`read_records` gave, if the file has been read already.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty or not such a table, a column is missing, or a target is
            neither a number (in the range of float32) nor missing (empty, ``nan``, ``na``,
            ``n/a``, ``null``, ``none``).
    """
    (_, header), *below = read_records(path) if records is None else records
    sheet = _Sheet(
        Path(path).name,
        [name.strip() for name in header],
        [row for _, row in below],
        [line for line, _ in below],
    )
    smiles_index = sheet.find(smiles_column, "smiles_column")
    split_index = None if split_column is None else sheet.find(split_column, "split_column")
    if target_columns is None:
        targets = sheet.all_numbers(besides=(smiles_index, split_index))
    elif isinstance(target_columns, str):
        targets = {target_columns: sheet.target(target_columns)}
    else:
        targets = {name: sheet.target(name) for name in target_columns}
    numbers = torch.tensor(list(targets.values()), dtype=torch.float64)
    return MoleculeTable(
        smiles=sheet.values(smiles_index),
        targets=numbers.reshape(len(targets), len(sheet.rows)).T.contiguous(),
        target_names=list(targets),
        row_numbers=sheet.lines,
        split_values=None if split_index is None else sheet.values(split_index),
    )


@dataclass(frozen=True)
class _Sheet:
    """A CSV file: its header, its rows that are not blank, and the line where each begins."""

    name: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def find(self, column: str, argument: str) -> int:
        """Where the column is that an argument names."""
        if self.header.count(column) == 1:
            return self.header.index(column)
        found = f"{self.header.count(column)} columns" if column in self.header else "no column"
        raise ValueError(
            f"{self.name} has {found} named {column!r} ({argument}); its columns are {self._listed}"
        )

    def values(self, index: int) -> list[str]:
        return [row[index].strip() for row in self.rows]

    def target(self, column: str) -> list[float]:
        """A named column of targets: numbers or missing, and not all of them missing."""
        values = self.values(self.find(column, "target_columns"))
        numbers = [_number(value) for value in values]
        found = [number for number in numbers if number is not None]
        if len(found) < len(numbers):
            bad = numbers.index(None)
            raise ValueError(
                f"line {self.lines[bad]} of {self.name}: the target {column!r} must be a finite "
                f"number in the range of float32, or empty, not {shortened(values[bad], 40)!r} "
                "(target_columns chooses the targets)"
            )
        if all(map(math.isnan, found)):
            raise ValueError(f"the target column {column!r} of {self.name} has no values")
        return found

    def all_numbers(self, besides: Sequence[int | None]) -> dict[str, list[float]]:
        """Every other named column that holds numbers; one that also holds text is an error.

        A column without a name is most often the index that pandas writes by default.
        """
        targets = {}
        for index, column in enumerate(self.header):
            if index in besides or not column:
                continue
            numbers = map(_number, self.values(index))
            if any(n is not None and not math.isnan(n) for n in numbers):
                targets[column] = self.target(column)
        if not targets:
            raise ValueError(
                f"{self.name} has no column of numbers with a name to take as a target "
                f"(target_columns); its columns are {self._listed}"
            )
        return targets

    @property
    def _listed(self) -> str:
        return ", ".join(repr(shortened(name, 40)) for name in self.header)


def _number(text: str) -> float | None:
    """A finite number in the range of float32, NaN for a missing one, None for anything else."""
    if text.lower() in MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= LARGEST_FLOAT32 and "_" not in text else None
