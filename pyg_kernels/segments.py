"""Segments of a whole, one after the other: ``ptr[i] : ptr[i + 1]`` is segment i."""

from __future__ import annotations

import torch
from torch import Tensor


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
