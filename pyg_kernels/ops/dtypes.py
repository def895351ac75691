"""The precision of an op's result."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The precision of autocast, where it is on."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return None


def common_dtype(first: Tensor, *others: Tensor | None) -> torch.dtype:
    """The operands' common dtype; under autocast at least float32, as PyTorch's sums."""
    dtype = first.dtype
    if autocast_dtype(first.device) is not None:
        dtype = torch.promote_types(dtype, torch.float32)
    for tensor in others:
        if tensor is not None:
            dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A block in which autocast changes no precision."""
    if autocast_dtype(device) is None:
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
