"""Checks of constructor arguments.

A check returns the value, or raises a ``ValueError`` that names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.checks import is_number

Names = str | Sequence[str] | None


def checked_decay(value: Any, most: float = math.inf) -> float:
    """A finite number from 0 to `most`."""
    if not is_number(value) or not math.isfinite(value) or not 0.0 <= value <= most:
        range_ = "of at least 0" if math.isinf(most) else f"in [0, {most:g}]"
        raise ValueError(f"decay={value!r}: expected a number {range_}")
    return float(value)


def checked_names(value: Any, name: str) -> list[str]:
    """The names of attributes as a list, from one name, a list of names, or None for no names."""
    names = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ValueError(
            f"{name}={value!r}: expected the name of an attribute, a list of names, or None"
        )
    return list(names)


def number_array(y: Any) -> NDArray[np.float64]:
    """Numbers in float64; masked ones, and missing ones in pandas' nullable columns, become NaN."""
    of_pandas = hasattr(y, "iloc")
    given: Any = y if of_pandas else np.asarray(y)
    # After a conversion to NumPy, dates with a time zone would have the dtype object.
    kinds = given.dtypes if of_pandas and given.ndim == 2 else [given.dtype]
    if any(kind.kind in "mMc" for kind in kinds):
        raise TypeError("y has dates or times, or complex numbers: expected real ones")
    if isinstance(y, np.ma.MaskedArray):
        y = np.ma.filled(y.astype(np.float64), np.nan)
    found = y.to_numpy(dtype=float, na_value=np.nan) if of_pandas else y
    return np.asarray(found, dtype=np.float64)


def label_array(y: Any) -> NDArray[Any]:
    """Labels, each with its own type; NumPy would turn numbers beside strings into strings.

    Masked labels are missing and become None.
    """
    if isinstance(y, np.ma.MaskedArray):
        labels = y.data.astype(object)
        labels[np.ma.getmaskarray(y)] = None
        return labels
    return np.asarray(y) if hasattr(y, "dtype") or hasattr(y, "iloc") else np.asarray(y, object)


def label_columns(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Labels of several targets side by side, ``(n, T)``, each label kept as it is."""
    if len({labels.dtype.kind for labels in columns}) > 1:
        columns = [labels.astype(object) for labels in columns]
    return np.stack(columns, 1)


def checked_collection(items: Any, what: str) -> Any:
    """A collection that is read by position: a list, a tensor, a data set, a pandas Series."""
    if hasattr(items, "iloc") and getattr(items, "ndim", 0) == 1:
        return items.tolist()
    if isinstance(items, str):
        raise TypeError(f"expected a list of {what}, not one string: [{items[:20]!r}] is a list")
    read_by_position = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    if not read_by_position or isinstance(items, Mapping) or hasattr(items, "iloc"):
        raise TypeError(f"expected a list of {what}, not {type(items).__name__}")
    return items
