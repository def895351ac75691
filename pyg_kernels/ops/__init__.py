"""The arithmetic under the layers; `backend` says which path it takes."""

from __future__ import annotations

import torch

__all__ = ["backend"]


def backend(device: str | torch.device = "cpu") -> dict[str, str]:
    """Says which path each op takes on a device, so that no fallback is silent.

    Args:
        device: The device to ask for.

    Returns:
        One entry an op: ``neighbor_sum``, the sums over a node's edges; ``scan``, what is carried
        along texts; ``expansion``, learned activations. Each is ``'numba'`` (kernels compiled on
        the CPU at their first call), ``'triton'`` (on CUDA) or ``'definition'`` (PyTorch's ops).
        The definition also serves the transforms of ``torch.func``, second derivatives and ONNX.

    Example:
        >>> from pyg_kernels.ops import backend
        >>> backend("cpu")["scan"] in ("numba", "definition")
        True
    """
    from pyg_kernels.ops import expansion, neighbor_sum
    from pyg_kernels.ops.scan import walk

    device = torch.device(device)
    return {
        "neighbor_sum": neighbor_sum.path_in_use(device),
        "scan": walk.path_in_use(device),
        "expansion": expansion.path_in_use(device),
    }
