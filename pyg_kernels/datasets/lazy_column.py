"""A column of many values of which only those that are asked for are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")

BLOCK = 4096  # values read at a time where all are asked for


class LazyColumn(Sequence[Item]):
    """A sequence that reads its values when they are asked for.

    Args:
        length: how many there are.
        read: gives the values at some positions, from 0, in their order.
    """

    def __init__(self, length: int, read: Callable[[NDArray[np.int64]], list[Item]]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: Any) -> Any:
        """One value, or the list of those of a slice."""
        if isinstance(index, slice):
            positions = range(*index.indices(self._length))
            return self._values(np.arange(positions.start, positions.stop, positions.step))
        position = range(self._length)[index]
        return self._read(np.array([position]))[0]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, self._length, BLOCK):
            yield from self._read(np.arange(start, min(start + BLOCK, self._length)))

    def _values(self, positions: NDArray[np.int64]) -> list[Item]:
        values: list[Item] = []
        for start in range(0, len(positions), BLOCK):
            values += self._read(positions[start : start + BLOCK])
        return values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._length} values)"
