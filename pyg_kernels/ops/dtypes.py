"""The precision of an op's result."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def common_dtype(first: Tensor, *others: Tensor | None) -> torch.dtype:
    """The operands' common dtype; under autocast at least float32, as PyTorch's sums."""
    dtype, device = first.dtype, first.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.promote_types(dtype, torch.float32)
    for tensor in others:
        if tensor is not None:
            dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A block in which autocast changes no precision."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)
