"""Which path a scan takes, and in what precision."""

from __future__ import annotations

import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import transforms_active

# On CPU, a step on fewer numbers than this costs little more than an empty one: chunks are faster.
_SMALL_STEP = 4096
_SHORT = 48


def path_in_use(device: torch.device, dtype: torch.dtype = torch.float32) -> str:
    """``'triton'`` (CUDA), ``'steps and chunks'`` or ``'definition'`` (loops of PyTorch ops).

    Steps and chunks are PyTorch ops with a hand-written backward; they also serve double precision
    on CUDA. The definition serves the transforms of ``torch.func``.
    """
    if transforms_active():
        return "definition"
    if device.type == "cuda":
        from pyg_kernels.ops.linear_scan import triton

        if dtype in triton.DTYPES and triton.available(device):
            return "triton"
    return "steps and chunks"


def chunks_pay(steps: int, channels: int, device: torch.device) -> bool:
    """Whether chunks side by side are faster than steps one after the other."""
    if device.type != "cpu":
        return steps > _SHORT
    return steps > _SHORT and channels < _SMALL_STEP


def fuses_orders(packing: Packing, like: Tensor) -> bool:
    """Whether the walks' scan in one pass is faster than a linear scan for each order.

    Args:
        packing: The texts.
        like: A projection, :obj:`(N, D)`.
    """
    if path_in_use(like.device, like.dtype) == "triton":
        return True
    return not chunks_pay(packing.num_steps, packing.num_texts * like.size(1), like.device)


def fuses_products(x: Tensor, packing: Packing, *parameters: Tensor) -> bool:
    """Whether the walks' scan with its products is at hand, and faster than one after the other.

    Args:
        x: The tokens.
        packing: The texts.
        parameters: The weights, the first of them :obj:`(D, F)`, and what else takes part.
    """
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    if torch.is_autocast_enabled("cpu") or transforms_active():
        return False
    if any(parameter.dtype != x.dtype for parameter in parameters):
        return False
    return not chunks_pay(packing.num_steps, packing.num_texts * parameters[0].size(0), x.device)


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Half precision is for inputs and outputs only: states add up in float32."""
    return torch.promote_types(dtype, torch.float32)
