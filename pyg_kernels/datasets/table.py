"""CSV files of SMILES and targets."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.tables import FileError, as_numbers, find_column, shortened, stream_table

if TYPE_CHECKING:
    from pandas import DataFrame

    from pyg_kernels.chem import InvalidRow


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

    def lines_of(self, rows: Iterable[InvalidRow]) -> list[InvalidRow]:
        """These rows, with lines in the file in place of positions in the table."""
        return [row._replace(row=self.row_numbers[row.row]) for row in rows]


def stream_molecule_rows(
    path: str | Path, rows: int | None = None, encoding: str = "utf-8"
) -> Generator[DataFrame, None, None]:
    """The rows of a file, from :func:`~pyg_kernels.tables.stream_table` with ``strict=True``.

    White space around the names of columns is removed.
    """
    for frame in stream_table(path, rows, encoding=encoding, strict=True):
        yield frame.set_axis([str(name).strip() for name in frame.columns], axis=1)


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are the SMILES, the targets and the split."""

    smiles: str
    targets: list[str]
    split: str | None
    num_rows: int

    def table(self, frame: DataFrame) -> MoleculeTable:
        """The table of some rows of the file in which the columns were found."""

        def stripped(name: str) -> list[str]:
            cells = frame[name].astype(str).str.strip().mask(frame[name].isna(), "")
            return [str(cell) for cell in cells]

        values = [as_numbers(frame[name])[0] for name in self.targets]
        targets = np.stack(values, 1) if values else np.zeros((len(frame), 0))
        return MoleculeTable(
            smiles=stripped(self.smiles),
            targets=torch.from_numpy(targets),
            target_names=self.targets,
            row_numbers=frame.index.tolist(),
            split_values=None if self.split is None else stripped(self.split),
        )


def find_columns(
    path: str | Path,
    frames: Iterable[DataFrame],
    smiles_column: str = "smiles",
    target_columns: Sequence[str] | str | None = None,
    split_column: str | None = None,
) -> Columns:
    """Finds the columns of a file and checks every target, in one pass over its rows."""
    header: list[str] = []
    wanted: list[int] = []
    first_bad: dict[int, tuple[int, str]] = {}
    measured: set[int] = set()
    num_rows = 0
    for frame in frames:
        if not header:
            header = list(frame.columns)
            find_column(header, smiles_column, path, "smiles_column")
            if split_column is not None:
                find_column(header, split_column, path, "split_column")
            if target_columns is None:
                # A column without a name is most often the index that pandas writes by default.
                flags = frame.select_dtypes(["bool", "boolean"])  # in CSV these are words
                others = ("", smiles_column, split_column, *flags)
                wanted = [place for place, name in enumerate(header) if name not in others]
            else:
                named = [target_columns] if isinstance(target_columns, str) else target_columns
                found = [find_column(header, name, path, "target_columns") for name in named]
                wanted = [header.index(name) for name in dict.fromkeys(found)]
        num_rows += len(frame)
        for place in wanted:
            values, wrong = as_numbers(frame.iloc[:, place])
            wrong |= np.abs(values) > np.finfo(np.float32).max
            if wrong.any():
                row = int(wrong.argmax())
                first_bad.setdefault(place, (frame.index[row], str(frame.iat[row, place]).strip()))
            if (~wrong & ~np.isnan(values)).any():
                measured.add(place)
    if not num_rows:
        raise FileError(f"{path} has a header but no molecules below it")
    if target_columns is None:
        wanted = [place for place in wanted if place in measured]
        if not wanted:
            raise FileError(
                f"{path} has no column of numbers with a name to take as a target "
                f"(target_columns); its columns are {', '.join(map(repr, header))}"
            )
    for place in wanted:
        name = find_column(header, header[place], path, "target_columns")
        if place in first_bad:
            line, value = first_bad[place]
            raise FileError(
                f"{path}, line {line}: the target {name!r} must be a finite number in the range "
                f"of float32, or empty, not {shortened(value, 40)!r} (target_columns chooses the "
                "targets)"
            )
        if place not in measured:
            raise FileError(f"{path}: the target column {name!r} has no values")
    return Columns(smiles_column, [header[place] for place in wanted], split_column, num_rows)
