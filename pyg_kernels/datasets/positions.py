"""Positions of items, however they are named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Indices = Tensor | np.ndarray | Sequence[int]


def positions_in(indices: Indices, length: int, items: str) -> Tensor:
    """Indices into ``length`` items as a vector of positions from 0 (int64)."""
    if isinstance(indices, np.ndarray):  # torch cannot read negative strides
        indices = np.ascontiguousarray(indices)
    positions = torch.as_tensor(indices).cpu()
    if positions.dtype == torch.bool and positions.shape == (length,):
        positions = positions.nonzero().flatten()
    if positions.numel() == 0:
        raise ValueError(f"indices is empty; at least one of the {items} is needed")
    if positions.dim() != 1 or positions.is_floating_point() or positions.dtype == torch.bool:
        raise ValueError(
            f"indices must be a vector of integers or a mask of {length} booleans, not "
            f"{positions.dtype} of shape {tuple(positions.shape)}"
        )
    positions = positions.long()
    smallest, largest = int(positions.min()), int(positions.max())
    if smallest < -length or largest >= length:
        wrong = smallest if smallest < -length else largest
        raise IndexError(f"index {wrong} is out of range for {length} {items}")
    return torch.where(positions < 0, positions + length, positions)
