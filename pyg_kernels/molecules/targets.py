"""What is to be learned: numbers, or classes by any words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyg_kernels.molecules.command import say
from pyg_kernels.tables import MISSING, FileError, missing, numbers

MISSING_CLASS = ("", "na", "nan")  # other words for what is missing may name a class
ADVICE = "; --task classification for classes"


@dataclass(frozen=True)
class Targets:
    """What is to be learned.

    Attributes:
        values: ``(n, T)``, NaN where not measured; numbers of classes where `classes` is given.
        names: T columns.
        classes: of each target the words for 0, 1, ...; None for numbers to be regressed.
    """

    values: NDArray[Any]
    names: list[str]
    classes: list[list[str]] | None

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"


def read_targets(
    frame: pd.DataFrame, columns: Sequence[str], task: str | None, path: str | Path
) -> Targets:
    """The targets, and whether they are numbers or classes.

    Args:
        frame: rows of a table.
        columns: the columns of the targets.
        task: ``regression``, ``classification``, or None: classification if a column has words,
            True and False among them. A class is missing where a cell is empty, NA or NaN.
        path: the file, for errors.

    Raises:
        FileError: on a cell that is no number where there are to be numbers; on words in some
            target columns only; on a target without a value, or with a single class.
    """
    classes = {name: _classes(frame, name) for name in columns}
    given = task is not None
    if task is None:
        worded = all(_are_words(known, len(frame)) for known in classes.values())
        task = "classification" if worded else "regression"
    values = []
    for name, known in classes.items():
        if task == "regression":
            values.append(numbers(frame, name, path, ADVICE))
        else:
            codes = {word: float(code) for code, word in enumerate(known)}
            values.append(frame[name].map(_word).map(codes).to_numpy(float))
            if len(known) == 1:
                raise FileError(f"{path}: column {name!r} has one class, {known[0]!r}")
        if np.isnan(values[-1]).all():
            raise FileError(f"{path}: column {name!r} has no value")
    of_each = list(classes.values()) if task == "classification" else None
    for name, words in zip(columns, of_each or [], strict=False):
        taken = [word for word in words if word.lower() in MISSING]
        if taken:
            say(f"warning: {', '.join(taken)} is a class of {name}: empty cells are missing ones")
        if len({word.lower() for word in words}) < len(words):
            say(f"warning: classes of {name} differ in case only: {', '.join(words)}")
    measured = {*np.concatenate(values)[~np.isnan(np.concatenate(values))]}
    if not given and task == "regression" and measured <= {0.0, 1.0}:
        say("all targets are 0 or 1: for classes, --task classification")
    return Targets(np.stack(values, axis=1), list(columns), of_each)


def _word(cell: Any) -> str:
    """A cell as the name of a class: True is true, and 1.0 is 1."""
    text = str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    whole = number.adjusted() < 30 and number == int(number)
    return str(int(number)) if whole else str(float(number))


def _classes(frame: pd.DataFrame, column: str) -> list[str]:
    """The classes of a column: numbers in their order, words in that of the alphabet."""
    cells = frame[column]
    known = set(cells[~missing(cells, MISSING_CLASS)].map(_word))
    return sorted(known, key=lambda word: (float(word) if _is_number(word) else np.inf, word))


def _are_words(classes: Sequence[str], rows: int) -> bool:
    """Whether these are names of classes, neither numbers nor a text of its own for each row."""
    few = len(classes) <= max(2, rows // 2)
    return bool(classes) and few and not any(map(_is_number, classes))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
