"""Segments of a whole, one after the other: ``ptr[i] : ptr[i + 1]`` is segment i."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import torch
from torch import Tensor


def pointers(counts: Any) -> Tensor:
    """Where segments of these sizes begin, and the end, (n + 1,)."""
    return torch.nn.functional.pad(torch.as_tensor(counts, dtype=torch.long).cumsum(0), (1, 0))


def place(row: int, ptr: list[int]) -> tuple[int, int]:
    """The segment of an element of the whole, and its place there."""
    segment = bisect_right(ptr, row) - 1
    return segment, row - ptr[segment]


def segments(ptr: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The segments that are chosen, one after the other.

    Args:
        ptr: Where each of n segments begins, and the end, (n + 1,).
        chosen: The numbers of m segments.

    Returns:
        The place of each of their elements in the whole, the position in `chosen` to which it
        belongs, and the new pointers, (m + 1,).
    """
    starts = ptr.index_select(0, chosen)
    counts = ptr.index_select(0, chosen + 1) - starts
    new_ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    total = int(new_ptr[-1])
    owner = torch.arange(len(chosen), device=ptr.device).repeat_interleave(
        counts, output_size=total
    )
    places = torch.arange(total, device=ptr.device)
    return places + (starts - new_ptr[:-1]).index_select(0, owner), owner, new_ptr
