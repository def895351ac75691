"""The arithmetic under the layers; `backend` says which path it takes."""

from __future__ import annotations

import torch

from pyg_kernels.ops.operator import path_on

__all__ = ["backend"]


def backend(device: str | torch.device = "cpu") -> dict[str, str]:
    """Says which path each op takes on a device, so that no fallback is silent.

    Args:
        device: The device to ask for.

    Returns:
        One entry an op: ``neighbor_sum``, the sums over a node's edges; ``scan``, what RCNN and RKM
        carry along texts; ``activation_scan``, what KBRN carries; ``maximum_scan``, maxima of sums
        over an RCNN's walks; ``expansion``, learned activations. Each is ``'numba'`` (kernels
        compiled on the CPU at their first call), ``'triton'`` (on CUDA) or ``'definition'``
        (PyTorch's ops). The definition also serves the transforms of ``torch.func``, second
        derivatives and ONNX.

    Example:
        >>> from pyg_kernels.ops import backend
        >>> backend("cpu")["scan"] in ("numba", "definition")
        True
    """
    path = path_on(torch.device(device))
    found = dict.fromkeys(("neighbor_sum", "scan", "activation_scan", "expansion"), path)
    return found | {"maximum_scan": "definition" if path == "triton" else path}
