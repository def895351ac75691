"""The arithmetic under the layers; `backend` says which path it takes."""

from __future__ import annotations

import torch

from pyg_kernels.ops import activation_scan, expansion, linear_scan, memory_scan, neighbour_sum
from pyg_kernels.ops.products import products_backend

__all__ = ["backend"]


def backend(device: str | torch.device = "cpu") -> dict[str, str]:
    """Says which path each op takes on a device, so that no fallback is silent.

    Args:
        device: The device to ask for.

    Returns:
        One entry an op: ``neighbour_sum`` is ``'blocks'`` (cache-sized blocks with a
        hand-written backward) or ``'definition'`` (PyTorch's own gather, product and scatter);
        ``products`` is ``'onednn'`` or ``'torch.mm'``, as measured on first use;
        ``linear_scan`` is ``'triton'``, or ``'steps and chunks'`` (PyTorch ops with a
        hand-written backward: one step of all texts at a time, or all chunks of long ones);
        ``memory_scan``, the LSTM family, is ``'blocks'`` (products, gates and memory in one op)
        or ``'steps'`` (PyTorch ops with a hand-written backward, one time step after the other
        where the output is fed back; without feedback it is a ``linear_scan``);
        ``expansion``, the piecewise-linear learned activations, is ``'cells'`` (a table of cells,
        in blocks with a hand-written backward) or ``'searchsorted'`` (PyTorch ops with a sort and
        a binary search); ``activation_scan``, recurrent networks of these, is ``'steps'`` (a
        hand-written backward) or ``'definition'`` (a loop of PyTorch ops).
    """
    device = torch.device(device)
    products = products_backend() if device.type == "cpu" else "torch.mm"
    return {
        "neighbour_sum": neighbour_sum.path_in_use(device),
        "products": products,
        "linear_scan": linear_scan.path_in_use(device),
        "memory_scan": memory_scan.path_in_use(device),
        "expansion": expansion.path_in_use(device),
        "activation_scan": activation_scan.path_in_use(device),
    }
