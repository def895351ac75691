"""The device and precision of a layer's parameters, and the precision of its outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.ops.dtypes import autocast_dtype


def place(
    module: Module, device: torch.device | str | int | None, dtype: torch.dtype | None
) -> None:
    """Moves a new module to a device and a precision, and draws its parameters again there."""
    if device is not None or dtype is not None:
        module.to(device=device, dtype=dtype)
        placed: Any = module
        placed.reset_parameters()


def in_autocast(tensor: Tensor) -> Tensor:
    """Puts an output in autocast's precision where autocast is on, except float64, as nn.LSTM."""
    dtype = autocast_dtype(tensor.device)
    if dtype is None or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(dtype)


def check_dtype(x: Tensor, weights: torch.dtype) -> None:
    """Refuses tokens in another precision than the weights, unless autocast converts them."""
    joined = autocast_dtype(x.device) is not None and torch.float64 not in (x.dtype, weights)
    if x.dtype != weights and not joined:
        raise ValueError(
            f"x has dtype {x.dtype}, but the weights have {weights}: convert the input, "
            f"x.to({weights}), or the layer, layer.to({x.dtype})"
        )
