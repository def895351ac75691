"""The arithmetic under the layers; `backend` says which path it takes."""

from __future__ import annotations

import torch

from pyg_kernels.ops.neighbour_sum import path_in_use
from pyg_kernels.ops.products import products_backend

__all__ = ["backend"]


def backend(device: str | torch.device = "cpu") -> dict[str, str]:
    """Says which path each op takes on a device, so that no fallback is silent.

    Args:
        device: The device to ask for.

    Returns:
        One entry an op: ``neighbour_sum`` is ``'blocks'`` (cache-sized blocks with a
        hand-written backward) or ``'definition'`` (PyTorch's own gather, product and scatter);
        ``products`` is ``'onednn'`` or ``'torch.mm'``, as measured on first use.
    """
    device = torch.device(device)
    products = products_backend() if device.type == "cpu" else "torch.mm"
    return {"neighbour_sum": path_in_use(device), "products": products}
