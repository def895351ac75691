"""Checks of arguments of kernels and layers: they return the value or raise an error naming it."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def is_number(value: object) -> bool:
    """Whether a value is a real number; True and False do not count as numbers."""
    return isinstance(value, Real) and not isinstance(value, bool)


def checked_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
    return int(value)


def checked_choice(value: Any, name: str, choices: Iterable[Any]) -> Any:
    """The value if it is one of two or more choices and has the same type: 1 is not True."""
    value = value.item() if isinstance(value, np.generic) else value
    known = list(choices)
    kind = str if isinstance(value, str) else type(value)
    if not any(type(choice) is kind and choice == value for choice in known):
        listed = ", ".join(map(repr, known[:-1]))
        raise ValueError(f"{name}={value!r}: expected {listed} or {known[-1]!r}")
    return value


def check_flags(**flags: Any) -> None:
    """Refuses flags that are neither True nor False: a string such as 'no' would count as True."""
    for name, value in flags.items():
        checked_choice(value, name, (True, False))
