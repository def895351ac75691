"""Checks of constructor arguments: the value, or a ``ValueError`` that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch


def checked_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
    return int(value)


def checked_decay(value: Any, most: float = math.inf) -> float:
    """A finite number from 0 to `most`."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not 0.0 <= value <= most:
        range_ = "of at least 0" if math.isinf(most) else f"in [0, {most:g}]"
        raise ValueError(f"decay={value!r}: expected a number {range_}")
    return float(value)


def checked_choice(value: Any, name: str, choices: Sequence[Any]) -> Any:
    """One of the choices; 1 is not True."""
    value = value.item() if isinstance(value, np.generic) else value
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r}: expected one of {listed}")
    return value


def checked_dtype(value: Any) -> torch.dtype | None:
    """A real floating type, or None."""
    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise ValueError(f"dtype={value!r}: expected torch.float64, torch.float32, ..., or None")
    return value


def checked_verbose(value: Any) -> Any:
    """True, False, a number of at least 0, or None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        try:
            checked_count(value, "verbose", least=0)
        except ValueError:
            raise ValueError(f"verbose={value!r}: expected True, False or None") from None
    return value


def checked_collection(items: Any, what: str) -> Any:
    """A collection that is read by position: a list, a tensor, a data set, a pandas Series."""
    if hasattr(items, "iloc") and getattr(items, "ndim", 0) == 1:
        return items.tolist()
    read_by_position = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    if not read_by_position or isinstance(items, (str, Mapping)) or hasattr(items, "iloc"):
        raise TypeError(f"expected a list of {what}, not {type(items).__name__}")
    return items
