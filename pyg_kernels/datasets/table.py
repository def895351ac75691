"""CSV files of SMILES and targets."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Generator, Iterable, Sequence
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
        The header and then at least one row, as :func:`stream_records` gives them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such a table.
    """
    return list(stream_records(path))


def stream_records(path: str | Path) -> Generator[Record, None, None]:
    """The header of a CSV file and then its rows, at least one, without holding more than one.

    Blank lines are left out. Each record is a pair of the line on which it begins, from 1, and its
    cells as they stand, as many as the header has.

    Args:
        path: the file, in UTF-8; decompressed if its name ends in ``.gz``.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such a table, when the place that shows it is reached.
    """
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    line, number, width = 1, 0, 0
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if row:
                    width = width or len(row)
                    if len(row) != width:
                        raise ValueError(
                            f"line {line} of {path.name} has {len(row)} fields, its header {width}"
                        )
                    number += 1
                    yield line, row
                line = reader.line_num + 1
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path.name} is not a CSV file in UTF-8, at line {line}: {error}"
        ) from error
    if number == 0:
        raise ValueError(f"{path.name} is empty; it needs a header line and molecules below it")
    if number == 1:
        raise ValueError(f"{path.name} has a header but no molecules below it")


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
    records = read_records(path) if records is None else records
    name = Path(path).name
    columns = find_columns(name, records, smiles_column, target_columns, split_column)
    return columns.table(records[1:])


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

    def table(self, rows: Sequence[Record]) -> MoleculeTable:
        """Some rows of the file in which the columns were found."""
        numbers = [_known_number(row[index].strip()) for index in self.targets for _, row in rows]
        targets = torch.tensor(numbers, dtype=torch.float64)
        return MoleculeTable(
            smiles=[row[self.smiles].strip() for _, row in rows],
            targets=targets.reshape(len(self.targets), len(rows)).T.contiguous(),
            target_names=self.target_names,
            row_numbers=[line for line, _ in rows],
            split_values=None
            if self.split is None
            else [row[self.split].strip() for _, row in rows],
        )


def find_columns(
    name: str,
    records: Iterable[Record],
    smiles_column: str = "smiles",
    target_columns: Sequence[str] | str | None = None,
    split_column: str | None = None,
) -> Columns:
    """Finds the columns of a CSV file and checks every target, in one pass over its records.

    Args:
        name: the file's, for errors.
        records: its header and rows.
        smiles_column: the column of SMILES.
        target_columns: as in :func:`read_table`.
        split_column: a column of part names; None for none.

    Raises:
        ValueError: as :func:`read_table`.
    """
    remaining = iter(records)
    header = _Header(name, header_names(next(remaining)))
    smiles = header.find(smiles_column, "smiles_column")
    split = None if split_column is None else header.find(split_column, "split_column")
    if target_columns is None:
        # A column without a name is most often the index that pandas writes by default.
        found = [k for k, c in enumerate(header.names) if c and k not in (smiles, split)]
    else:
        named = [target_columns] if isinstance(target_columns, str) else target_columns
        found = [header.find(column, "target_columns") for column in dict.fromkeys(named)]
    contents = {index: _Content() for index in found}
    num_rows = 0
    for line, row in remaining:
        num_rows += 1
        for index, content in contents.items():
            content.add(line, row[index].strip())
    if target_columns is None:
        found = [index for index in found if contents[index].has_numbers]
        if not found:
            raise ValueError(
                f"{name} has no column of numbers with a name to take as a target "
                f"(target_columns); its columns are {header.listed}"
            )
    for index in found:
        header.find(header.names[index], "target_columns")
        contents[index].check(name, header.names[index])
    return Columns(tuple(header.names), smiles, tuple(found), split, num_rows)


def header_names(record: Record) -> list[str]:
    """The names in a header, without white space around them."""
    return [name.strip() for name in record[1]]


@dataclass(frozen=True)
class _Header:
    """The columns of a CSV file."""

    file: str
    names: list[str]

    def find(self, column: str, argument: str) -> int:
        """Where the column is that an argument names."""
        if self.names.count(column) == 1:
            return self.names.index(column)
        found = f"{self.names.count(column)} columns" if column in self.names else "no column"
        raise ValueError(
            f"{self.file} has {found} named {column!r} ({argument}); its columns are {self.listed}"
        )

    @property
    def listed(self) -> str:
        return ", ".join(repr(shortened(name, 40)) for name in self.names)


class _Content:
    """What a column of targets holds: numbers, and the first value that is none."""

    def __init__(self) -> None:
        self.has_numbers = False
        self.first_bad: tuple[int, str] | None = None

    def add(self, line: int, value: str) -> None:
        number = _number(value)
        if number is None:
            self.first_bad = self.first_bad or (line, value)
        elif not math.isnan(number):
            self.has_numbers = True

    def check(self, file: str, column: str) -> None:
        """Raises where something is neither number nor missing, or all is missing."""
        if self.first_bad is not None:
            line, value = self.first_bad
            raise ValueError(
                f"line {line} of {file}: the target {column!r} must be a finite "
                f"number in the range of float32, or empty, not {shortened(value, 40)!r} "
                "(target_columns chooses the targets)"
            )
        if not self.has_numbers:
            raise ValueError(f"the target column {column!r} of {file} has no values")


def _number(text: str) -> float | None:
    """A finite number in the range of float32, NaN for a missing one, None for anything else."""
    if text.lower() in MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= LARGEST_FLOAT32 and "_" not in text else None


def _known_number(text: str) -> float:
    """The same of a value that has been checked."""
    number = _number(text)
    assert number is not None
    return number
