"""The table that ``pyg-kernels train`` and ``tune`` learn from."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyg_kernels.chem import canonical_smiles, standardize_many
from pyg_kernels.molecules.inputs import Molecules, read_valid
from pyg_kernels.molecules.targets import Targets, read_targets
from pyg_kernels.tables import MISSING, FileError, find_column, missing, numbers, read_table

STANDARDIZED, MERGED = CHANGES = ("standardized.csv", "merged.csv")
Say = Callable[[str], None]
Rows = NDArray[Any]
LISTED = 10  # lines in a message


@dataclass(frozen=True)
class Data:
    """The rows of a table that training reads.

    Attributes:
        molecules: What estimators take, standardized if that was asked for.
        canonical: The canonical SMILES of each.
        targets: What they learn.
        lines: Their lines in the file.
        weight: Of the rows, or None.
        parts: The cells of the split column, or None.
        groups: The cells of the groups column, or None.
        changes: Tables by file of what was done to the rows, with a row for each that was changed.
    """

    molecules: Molecules
    canonical: Rows
    targets: Targets
    lines: Rows
    weight: Rows | None
    parts: Rows | None
    groups: Rows | None
    changes: dict[str, pd.DataFrame] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    def y(self, rows: Rows) -> Rows:
        """The targets of some rows as estimators take them, ``(n,)`` or ``(n, T)``."""
        values = self.targets.values[rows]
        return values[:, 0] if values.shape[1] == 1 else values

    def described(self, rows: Rows) -> pd.DataFrame:
        """Lines, SMILES and targets of some rows, classes by their words."""
        smiles = [self.molecules.smiles[row] for row in rows]
        found = pd.DataFrame({"line": self.lines[rows], "smiles": smiles})
        for place, name in enumerate(self.targets.names):
            values = self.targets.values[rows, place]
            if self.targets.classes is not None:
                words = self.targets.classes[place]
                values = np.array(["" if np.isnan(code) else words[int(code)] for code in values])
            found[name] = values
        return found


def read_data(options: Namespace, say: Say) -> Data:
    """Reads the table, standardizes molecules and merges duplicates as far as that is wanted.

    Args:
        options: Of ``pyg-kernels train``.
        say: Prints one line.

    Raises:
        FileError: On what cannot be read.
    """
    path = options.data
    frame = read_table(path, encoding=options.encoding)
    columns = list(frame.columns)
    smiles = find_column(columns, options.smiles_column, path, "--smiles-column")
    for option in (
        "target_columns", "extra_columns", "weight_column", "groups_column", "split_column"
    ):  # fmt: skip
        given = getattr(options, option) or []
        for column in [given] if isinstance(given, str) else given:
            find_column(columns, column, path, "--" + option.replace("_", "-"))
    learned = [smiles, *options.target_columns, *options.extra_columns]
    for column in learned:
        if learned.count(column) > 1:
            raise FileError(f"{path}: {column!r} is given twice, of SMILES, targets and extra ones")
    _, frame = read_rows(frame, smiles, path, options.skip_invalid, say=say)
    if not len(frame):
        raise FileError(f"{path}: no molecule can be read")
    targets = read_targets(frame, options.target_columns, options.task, path)
    _warn_of_classes(targets, options.task, say)

    if options.groups_column is not None:
        empty = int(missing(frame[options.groups_column]).sum())
        if empty:
            say(f"warning: {empty} empty cells in {options.groups_column!r}: rows of one group")

    def cells(column: str | None) -> Any:
        return None if column is None else frame[column].astype(str).to_numpy()

    molecules = Molecules(
        frame[smiles].tolist(),
        list(options.extra_columns),
        extra_numbers(frame, options.extra_columns, path),
    )
    changes = {}
    if options.standardize:
        molecules, changes[STANDARDIZED] = _standardized(molecules, frame.index, say)
    data = Data(
        molecules,
        np.array(canonical_smiles(molecules.smiles)),
        targets,
        frame.index.to_numpy(),
        options.weight_column and _weights(frame, options.weight_column, path),
        cells(options.split_column),
        cells(options.groups_column),
        changes,
    )
    if options.merge_duplicates:
        return _merged(data, say)
    again = len(data) - len(np.unique(data.canonical))
    if again:
        say(f"warning: {again} rows have a molecule of an earlier row; --merge-duplicates mean")
    return data


def read_rows(
    frame: pd.DataFrame,
    column: str,
    path: str,
    skip_invalid: bool,
    featurizer: Any = None,
    num_workers: int | None = 0,
    say: Say | None = None,
) -> tuple[Molecules, pd.DataFrame]:
    """The molecules of a column and their rows, without those that cannot be read.

    Args:
        frame: Rows of a table.
        column: That of the SMILES.
        path: The file, for errors.
        skip_invalid: Whether molecules that cannot be read are left out.
        featurizer: As of :func:`read_valid`, as is the next.
        num_workers: Processes.
        say: What lists those that are left out.

    Raises:
        FileError: On invalid SMILES, with their lines, unless they are skipped.
    """
    molecules, invalid = read_valid(frame[column].tolist(), featurizer, num_workers)
    lines = frame.index[[row.row for row in invalid]]
    if len(lines) and not skip_invalid:
        pairs = zip(lines[:LISTED], invalid, strict=False)
        shown = "; ".join(f"line {line}: {row.reason}" for line, row in pairs)
        more = f"; and {len(lines) - LISTED} more" if len(lines) > LISTED else ""
        raise FileError(
            f"{path}: {len(lines)} invalid SMILES ({shown}{more}); --skip-invalid leaves them out"
        )
    if len(lines) and say is not None:
        say(f"warning: {path}: {len(lines)} invalid SMILES left out, lines {listed(lines, 20)}")
    return molecules, frame.drop(index=lines)


def extra_numbers(frame: pd.DataFrame, columns: list[str], path: str) -> Rows:
    """The extra columns, ``(n, E)``; a cell without a number is an error."""
    found = np.zeros((len(frame), len(columns)))
    for place, name in enumerate(columns):
        find_column(frame.columns, name, path, "an extra column")
        found[:, place] = numbers(frame, name, path)
        if np.isnan(found[:, place]).any():
            line = frame.index[int(np.isnan(found[:, place]).argmax())]
            raise FileError(f"{path}, line {line}: no number in the extra column {name!r}")
    return found


def _weights(frame: pd.DataFrame, column: str, path: str) -> Rows:
    """The weights of the rows; a cell without a number of at least 0 is an error."""
    found = numbers(frame, column, path)
    wrong = ~(found >= 0)
    if wrong.any():
        line = frame.index[int(wrong.argmax())]
        raise FileError(f"{path}, line {line}: no weight of at least 0 in column {column!r}")
    return found


def listed(lines: Any, at_most: int = LISTED) -> str:
    """The first of some numbers."""
    return ", ".join(map(str, lines[:at_most])) + (", ..." if len(lines) > at_most else "")


def _warn_of_classes(targets: Targets, task: str | None, say: Say) -> None:
    for name, words in zip(targets.names, targets.classes or [], strict=False):
        taken = [word for word in words if word.lower() in MISSING]
        if taken:
            say(f"warning: {', '.join(taken)} is a class of {name}: empty cells are missing ones")
        if len({word.lower() for word in words}) < len(words):
            say(f"warning: classes of {name} differ in case only: {', '.join(words)}")
    measured = targets.values[~np.isnan(targets.values)]
    if targets.classes is None and not task and set(measured) <= {0.0, 1.0}:
        say("all targets are 0 or 1: for classes, --task classification")


def _standardized(molecules: Molecules, lines: Any, say: Say) -> tuple[Molecules, pd.DataFrame]:
    smiles, changes = standardize_many(molecules.smiles)
    table = pd.DataFrame(
        [(lines[row], before, after, " ".join(steps)) for row, before, after, steps in changes],
        columns=["line", "before", "after", "steps"],
    )
    steps = ("cleanup", "fragment", "charge")
    each = ", ".join(f"{name} {table['steps'].str.contains(name).sum()}" for name in steps)
    say(f"standardized: {len(table):,} of {len(smiles):,} molecules changed ({each})")
    return Molecules(smiles, molecules.columns, molecules.extra), table


def _merged(data: Data, say: Say) -> Data:
    """Every molecule once, with the weighted mean of what was measured of it.

    Rows with other extra columns, or of another part of the split column, stay apart. Of classes
    those that contradict one another are missing afterwards.
    """
    extra = pd.DataFrame(data.molecules.extra)
    key = pd.DataFrame({"smiles": data.canonical, "part": data.parts}).join(extra)
    place = key.groupby(list(key.columns), sort=False, dropna=False).ngroup().to_numpy()
    first = np.unique(place, return_index=True)[1]
    y = data.targets.values
    weight = np.ones(len(y)) if data.weight is None else data.weight

    def summed(values: Rows) -> Rows:
        return pd.DataFrame(values).groupby(place).sum().to_numpy()

    # Where every measurement has the weight 0 they count alike.
    shares = np.where(np.isnan(y), 0.0, np.maximum(weight, np.finfo(float).tiny)[:, None])
    with np.errstate(invalid="ignore"):
        mean = summed(shares * np.nan_to_num(y)) / summed(shares)
    if data.targets.classes is not None:
        ranges = pd.DataFrame(y).groupby(place)
        mean = ranges.min().where(ranges.min() == ranges.max()).to_numpy()
    merged = replace(
        data,
        molecules=data.molecules.part(first),
        canonical=data.canonical[first],
        targets=replace(data.targets, values=mean),
        lines=data.lines[first],
        weight=None if data.weight is None else summed(weight)[:, 0],
        parts=None if data.parts is None else data.parts[first],
        groups=None if data.groups is None else data.groups[first],
    )
    times = np.bincount(place)
    several = np.flatnonzero(times > 1)
    lines = pd.Series(data.lines.astype(str)).groupby(place).agg(" ".join)
    table = merged.described(several).assign(lines=lines.to_numpy()[several])
    say(f"merged: {times[several].sum():,} rows are {len(several):,} molecules")
    return replace(merged, changes={**data.changes, MERGED: table})
