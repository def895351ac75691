"""Kernels of graphs and texts in GPyTorch; needs the extra ``gp``."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel as _Base
from torch import Tensor

from pyg_kernels.kernels.kernel import Kernel


class GPyTorchKernel(_Base):
    """A GPyTorch kernel that evaluates a kernel of this package between items of a fixed list.

    GPyTorch's inputs are tensors; here they hold the indices of the items, ``(..., n, 1)``. The
    Gram matrix of all items is computed once. The kernel has no parameters: use GPyTorch for scales
    and sums (``ScaleKernel(GPyTorchKernel(...)) + ...``).

    Args:
        kernel: The kernel.
        items: The list of graphs, molecules or texts.
        dtype: The type of the Gram matrix; None: PyTorch's default.

    Raises:
        TypeError: If `kernel` is not a kernel of this package.
        ValueError: When called with a number that is not the index of an item.

    Example:
        >>> import torch
        >>> from gpytorch.kernels import ScaleKernel
        >>> from pyg_kernels.kernels import WLSubtreeKernel
        >>> from pyg_kernels.kernels.gpytorch import GPyTorchKernel
        >>> molecules = ["CCO", "CCN", "c1ccccc1"]
        >>> covariance = ScaleKernel(GPyTorchKernel(WLSubtreeKernel(compare="minmax"), molecules))
        >>> covariance(torch.arange(3)[:, None]).shape
        torch.Size([3, 3])

    See Also:
        :class:`~pyg_kernels.kernels.KernelGP`, exact Gaussian processes that need no GPyTorch.
    """

    def __init__(self, kernel: Kernel, items: Any, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel={kernel!r}: expected a kernel of this package")
        with torch.no_grad():
            gram = kernel(items).to(dtype or torch.get_default_dtype())
        self.register_buffer("gram", gram)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **_: Any) -> Tensor:
        """The kernel between items with these indices, ``(..., n, m)``; ``(..., n)`` if `diag`."""
        if x1.size(-1) != 1:
            raise ValueError(f"inputs of shape {tuple(x1.shape)}: expected numbers (..., n, 1)")
        for numbers in (x1, x2):
            if not bool(torch.isin(numbers, torch.arange(len(self.gram)).to(numbers)).all()):
                raise ValueError(
                    f"inputs are numbers of the {len(self.gram)} items: expected whole numbers of "
                    f"0 to {len(self.gram) - 1}"
                )
        first, second = x1[..., 0].long(), x2[..., 0].long()
        if diag:
            return self.gram[first, second]
        return self.gram[first[..., :, None], second[..., None, :]]
