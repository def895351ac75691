"""The table that ``pyg-kernels train`` and ``tune`` learn from."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyg_kernels import tables
from pyg_kernels.chem import canonical_smiles, standardize_many
from pyg_kernels.molecules.command import say
from pyg_kernels.molecules.inputs import Molecules, read_valid
from pyg_kernels.tables import LISTED, FileError, find_column, listed, missing

RESERVED = ("line", "lines", "smiles", "part")  # columns of a run's tables
STANDARDIZED, MERGED = CHANGES = ("standardized.csv", "merged.csv")
Rows = NDArray[Any]
MISSING_CLASS = ("", "na", "nan")  # other words for missing values may name a class


def read_targets(
    frame: pd.DataFrame, columns: Sequence[str], task: str | None, path: str | Path
) -> tuple[pd.DataFrame, list[list[str]] | None]:
    """The targets (numbers or names of classes), and the classes of each; None for numbers.

    Without a task, they are classes if all columns have words; True and False are words. A class is
    missing where a cell is empty, NA or NaN; a number also where it is n/a, null or None.
    """
    classes = {name: _classes(frame, name) for name in columns}
    worded = all(_are_words(known, len(frame)) for known in classes.values())
    is_regression = not worded if task is None else task == "regression"
    found = pd.DataFrame(index=frame.index)
    for name, known in classes.items():
        if is_regression:
            found[name] = tables.numbers(frame, name, path, "; --task classification for classes")
        else:
            words = frame[name].map(_word)
            found[name] = words.where(words.isin(known), None)
            if len(known) == 1:
                raise FileError(f"{path}: column {name!r} has one class, {known[0]!r}")
        if found[name].isna().all():
            raise FileError(f"{path}: column {name!r} has no value")
    if is_regression:
        if task is None and found.isin([0, 1]).where(found.notna(), True).all(axis=None):
            say("all targets are 0 or 1: for classes, --task classification")
        return found, None
    for name, known in classes.items():
        taken = [word for word in known if word.lower() in tables.MISSING]
        if taken:
            say(f"warning: {', '.join(taken)} is a class of {name}: empty cells are missing ones")
        if len({word.lower() for word in known}) < len(known):
            say(f"warning: classes of {name} differ in case only: {', '.join(known)}")
    return found, list(classes.values())


def _word(cell: Any) -> str:
    """A cell as the name of a class: True becomes true, and 1.0 becomes 1."""
    text = str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if "_" in text:  # which Python allows in numbers
        return text
    try:
        number = Decimal(text)
        whole = number.adjusted() < 30 and number == int(number)
    except (InvalidOperation, ValueError, OverflowError):  # a word, NaN, or infinite
        return text
    return str(int(number)) if whole else str(float(number))


def _classes(frame: pd.DataFrame, column: str) -> list[str]:
    """The classes of a column in the order of estimators: whole numbers by value, or words."""
    cells = frame[column]
    known = set(cells[~missing(cells, MISSING_CLASS)].map(_word))
    return sorted(known, key=int) if are_whole(known) else sorted(known)


def are_whole(words: Iterable[str]) -> bool:
    """Whether names of classes are whole numbers, which estimators get as numbers."""
    return all(word.removeprefix("-").isdecimal() and len(word) < 18 for word in words)


def _are_words(classes: Sequence[str], rows: int) -> bool:
    """Whether these are names of classes: not numbers, and not a different text in each row."""
    few = len(classes) <= max(2, rows // 2)
    numbers = [word for word in classes if _is_number(word.replace(",", ""))]
    return bool(classes) and few and not numbers


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


@dataclass(frozen=True)
class Data:
    """The rows of a table that training reads."""

    molecules: Molecules
    y: pd.DataFrame
    classes: list[list[str]] | None
    rows: pd.DataFrame
    changes: dict[str, pd.DataFrame]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """The targets."""
        return list(self.y.columns)

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"

    def cells(self, name: str) -> Any:
        """A column of the rows, or None."""
        return self.rows[name].to_numpy() if name in self.rows else None

    def described(self, places: Rows) -> pd.DataFrame:
        """Lines, SMILES and targets of some rows."""
        found = self.y.iloc[places].reset_index(names="line", allow_duplicates=True)
        smiles = [self.molecules.smiles[place] for place in places]
        found.insert(1, "smiles", smiles, allow_duplicates=True)
        return found


def read_data(options: Namespace) -> Data:
    """Reads the table of ``train``; standardizes and merges if the options ask for it."""
    path = options.data
    frame = tables.read_table(path, encoding=options.encoding)
    smiles = find_column(frame.columns, options.smiles_column, path, "--smiles-column")
    roles = {"weight": "weight_column", "group": "groups_column", "part": "split_column"}
    for option in ("target_columns", "extra_columns", *roles.values()):
        asked = getattr(options, option) or []
        for column in [asked] if isinstance(asked, str) else asked:
            find_column(frame.columns, column, path, "--" + option.replace("_", "-"))
    learned = [smiles, *options.target_columns, *options.extra_columns]
    for column in learned:
        if learned.count(column) > 1:
            raise FileError(f"{path}: {column!r} is given twice, of SMILES, targets and extra ones")
    molecules, frame = read_rows(frame, smiles, path, options.skip_invalid)
    if not len(frame):
        raise FileError(f"{path}: no molecule can be read")
    y, classes = read_targets(frame, options.target_columns, options.task, path)
    written = [*RESERVED, *y.columns]
    for place, name in enumerate(y.columns):
        kinds = [f"{kind}_{name}" for kind in ("predicted", "std", "low", "high")]
        written += [f"probability_{name}_{word}" for word in classes[place]] if classes else kinds
    twice = [name for name in written if written.count(name) > 1]
    if twice:
        raise FileError(
            f"{path}: the tables of a run would have two columns for {twice[0]!r}: rename a target"
        )
    chosen = {role: getattr(options, option) for role, option in roles.items()}
    given = {role: frame[column].astype(str) for role, column in chosen.items() if column}
    rows = pd.DataFrame(given, frame.index)
    if "weight" in rows:
        rows["weight"] = checked_numbers(frame, chosen["weight"], path, "weight")
    if "group" in rows and missing(rows["group"]).any():
        empty = missing(rows["group"]).sum()
        say(f"warning: {empty} empty cells in {options.groups_column!r}: rows of one group")
    changes = {}
    if options.standardize:
        molecules, changes[STANDARDIZED] = _standardized(molecules, frame.index)
    rows["canonical"] = canonical_smiles(molecules.smiles)
    extra = extra_numbers(frame, options.extra_columns, path)
    molecules = molecules.with_extra(options.extra_columns, extra)
    data = Data(molecules, y, classes, rows, changes)
    if options.merge_duplicates:
        return _merged(data)
    if again := rows["canonical"].duplicated().sum():
        say(f"warning: {again} rows have a molecule of an earlier row; --merge-duplicates mean")
    return data


def read_rows(
    frame: pd.DataFrame, column: str, path: str, skip: bool, *how: Any, tell: bool = True
) -> tuple[Molecules, pd.DataFrame]:
    """The molecules of a column and their rows, without those that cannot be read."""
    molecules, invalid = read_valid(frame[column].tolist(), *how)
    lines = frame.index[[row.row for row in invalid]]
    if len(lines) and not skip:
        pairs = zip(lines[:LISTED], invalid, strict=False)
        shown = "; ".join(f"line {line}: {row.reason}" for line, row in pairs)
        more = f"; and {len(lines) - LISTED} more" if len(lines) > LISTED else ""
        raise FileError(
            f"{path}: {len(lines)} invalid SMILES ({shown}{more}); --skip-invalid leaves them out"
        )
    if len(lines) and tell:
        say(f"warning: {path}: {len(lines)} invalid SMILES left out, lines {listed(lines)}")
    return molecules, frame.drop(index=lines)


def extra_numbers(frame: pd.DataFrame, columns: list[str], path: str) -> Rows:
    """The extra columns, ``(n, E)``; a cell without a number is an error."""
    found = np.zeros((len(frame), len(columns)))
    for place, name in enumerate(columns):
        find_column(frame.columns, name, path, "an extra column")
        found[:, place] = checked_numbers(frame, name, path, "extra")
    return found


def checked_numbers(frame: pd.DataFrame, name: str, path: str, kind: str) -> Rows:
    """A column of extra numbers or of weights; any other cell is an error that names its line."""
    found = tables.numbers(frame, name, path)
    wrong = ~(found >= 0) if kind == "weight" else np.isnan(found)
    if wrong.any():
        expected = "weight of at least 0 in" if kind == "weight" else "number in the extra"
        line = frame.index[wrong.argmax()]
        raise FileError(f"{path}, line {line}: no {expected} column {name!r}")
    return found


def _standardized(molecules: Molecules, lines: Any) -> tuple[Molecules, pd.DataFrame]:
    smiles, changes = standardize_many(molecules.smiles)
    table = pd.DataFrame(
        [(lines[row], before, after, " ".join(steps)) for row, before, after, steps in changes],
        columns=["line", "before", "after", "steps"],
    )
    steps = ("cleanup", "fragment", "charge")
    each = ", ".join(f"{name} {table['steps'].str.contains(name).sum()}" for name in steps)
    say(f"standardized: {len(table):,} of {len(smiles):,} molecules changed ({each})")
    return Molecules(smiles, molecules.columns, molecules.extra), table


def _merged(data: Data) -> Data:
    """Every molecule once, with the weighted mean of its measurements.

    Rows that differ in extra columns, in the part of the split column or in the group are not
    merged. Classes that contradict one another become missing.
    """
    rows, y = data.rows, data.y
    key = pd.DataFrame(data.molecules.extra).assign(
        **{name: data.cells(name) for name in ("canonical", "part", "group")}
    )
    place = key.groupby(list(key.columns), sort=False, dropna=False).ngroup().to_numpy()
    if data.classes is None:
        weight = rows["weight"].to_numpy() if "weight" in rows else np.ones(len(rows))
        shares = y.notna().mul(weight, axis=0)
        # If every measurement of a molecule has the weight 0, they count equally.
        shares = shares.where(shares.groupby(place).transform("sum") > 0, y.notna().astype(float))
        mean = (shares * y).groupby(place).sum() / shares.groupby(place).sum()
    else:
        mean = y.groupby(place).first().where(y.groupby(place).nunique() == 1)
    first = np.unique(place, return_index=True)[1]
    kept = rows.iloc[first].copy()
    if "weight" in rows:
        kept["weight"] = rows["weight"].groupby(place).sum().to_numpy()
    mean.index = kept.index
    merged = Data(data.molecules.part(first), mean, data.classes, kept, data.changes)
    times = np.bincount(place)
    several = np.flatnonzero(times > 1)
    lines = rows.index.astype(str).to_series().groupby(place).agg(" ".join)
    table = merged.described(several).assign(lines=lines.to_numpy()[several])
    say(f"merged: {times[several].sum():,} rows are {len(several):,} molecules")
    return replace(merged, changes={**data.changes, MERGED: table})
