"""Kernel expansions in one dimension: the learned activations of units."""

from __future__ import annotations

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion.gaussian import gaussian_expansion
from pyg_kernels.ops.expansion.pieces import Line, as_line, searched_expansion
from pyg_kernels.ops.expansion.piecewise import PiecewiseExpansion
from pyg_kernels.ops.expansion.reference import GREENS, Green
from pyg_kernels.ops.transforms import has_numbers, transforms_active

__all__ = ["GREENS", "Green", "Line", "as_line", "kernel_expansion", "path_in_use"]


def kernel_expansion(
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: Green,
    bandwidth: float | None = None,
    line: Line | None = None,
) -> Tensor:
    r"""Sums Green functions about the centres, :math:`f_i(a) = \sum_k \chi_{ik} g(a - c_{ik})`.

    Args:
        a: The inputs, :obj:`(N, U)`.
        centers: The centres c, :obj:`(U, d)`, or :obj:`(1, d)` for one function of all units.
        coefficients: The coefficients :math:`\chi`, of the same shape.
        green: The Green function g: ``'relu'``, ``'abs'`` or ``'gaussian'``.
        bandwidth: The standard deviation of the Gaussian; for others ignored.
        line: A line :math:`m_i a + q_i` that is added, or None.

    Returns:
        The sums, :obj:`(N, U)`, in the operands' common precision.

    Raises:
        ValueError: For an unknown Green function, or a Gaussian without bandwidth.
    """
    if green not in GREENS:
        raise ValueError(f"green={green!r}: expected one of {', '.join(map(repr, GREENS))}")
    given = (a, centers, coefficients, *(line or ()))
    result = common_dtype(*given)
    dtype = torch.promote_types(result, torch.float32)
    shape = a.shape
    if centers.size(0) == 1:  # one function: as a single unit
        a = a.reshape(-1, 1)
    a, centers, coefficients = a.to(dtype).contiguous(), centers.to(dtype), coefficients.to(dtype)
    line = None if line is None else Line(*(part.to(dtype) for part in line))
    if green == "gaussian":
        if bandwidth is None:
            raise ValueError("bandwidth=None with green='gaussian': expected a number")
        out = gaussian_expansion(a, centers, coefficients, bandwidth, line)
    elif path_in_use(a.device) == "cells" and has_numbers(a):
        out, _ = PiecewiseExpansion.apply(green, a, centers, coefficients, *(line or (None, None)))
    else:
        out = searched_expansion(a, centers, coefficients, green, line)
    return out.reshape(shape).to(result)


def path_in_use(device: torch.device) -> str:
    """How pieces are found: ``'cells'`` (CPU, hand-written backward) or ``'searchsorted'``.

    The latter also serves ``torch.compile`` and the transforms of ``torch.func``.
    """
    if device.type != "cpu" or torch.compiler.is_compiling() or transforms_active():
        return "searchsorted"
    return "cells"
