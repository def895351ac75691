"""Kernel expansions in one dimension: the learned activations of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion.definition import GREENS, Green, expansion
from pyg_kernels.ops.operator import Operator, path_of

__all__ = ["GREENS", "Green", "kernel_expansion"]


def kernel_expansion(
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: Green,
    bandwidth: float | None = None,
    slope: Tensor | None = None,
    intercept: Tensor | None = None,
) -> Tensor:
    r"""Sums Green functions about the centres, :math:`f_i(a) = \sum_k \chi_{ik} g(a - c_{ik})`.

    Args:
        a: The inputs, :obj:`(N, U)`.
        centers: The centres c, :obj:`(U, d)`, or :obj:`(1, d)` if all units share one function.
        coefficients: The coefficients :math:`\chi`, of the same shape.
        green: The Green function g: ``'relu'`` for :math:`\max(z, 0)`, ``'abs'`` for :math:`|z|`,
            or ``'gaussian'`` for :math:`\exp(-z^2 / (2 b^2))`.
        bandwidth: The standard deviation b of the Gaussian; ignored for other functions.
        slope: The slopes m of a line :math:`m_i a + q_i` that is added, one entry per unit or one
            for all units; None for no line.
        intercept: The intercepts q.

    Returns:
        The sums, :obj:`(N, U)`, in the operands' common precision.

    Raises:
        ValueError: For an unknown Green function, a Gaussian without bandwidth, no centres, or
            other shapes.
    """
    if green not in GREENS:
        raise ValueError(f"green={green!r}: expected one of {', '.join(map(repr, GREENS))}")
    if green == "gaussian" and bandwidth is None:
        raise ValueError("bandwidth=None with green='gaussian': expected a number")
    if not centers.size(-1):
        raise ValueError(f"centers has shape {tuple(centers.shape)}: expected one centre at least")
    functions = 1 if centers.size(0) == 1 else a.size(-1)
    check_shapes(
        a=(a, (a.size(0), a.size(-1))),
        centers=(centers, (functions, centers.size(-1))),
        coefficients=(coefficients, (functions, centers.size(-1))),
        slope=(slope, (functions,)),
        intercept=(intercept, (functions,)),
    )
    result = common_dtype(a, centers, coefficients, slope, intercept)
    dtype = torch.promote_types(result, torch.float32)
    a, centers, coefficients = (t.to(dtype).contiguous() for t in (a, centers, coefficients))
    out = _OPERATOR(a, centers, coefficients, green, bandwidth)[0]
    if slope is not None and intercept is not None:
        out = out + torch.addcmul(intercept.to(dtype), slope.to(dtype), a)
    return out.to(result)


def _forward(a: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    kernels = _OPERATOR.kernels_for(a)
    return _OPERATOR.padded(kernels.forward(a, *rest) if kernels else _definition(a, *rest))


def _backward(
    grads: Sequence[Tensor | None],
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor],
    settings: tuple[Any, ...],
    needed: Sequence[bool],
) -> Sequence[Tensor | None]:
    grad = grads[0]
    if grad is None:
        return (None, None, None)
    kernels = _OPERATOR.kernels_for(grad)
    if not kernels:
        return _OPERATOR.by_definition(tensors, settings, needed, grads)
    given: list[Any] = [*tensors, *settings, (needed[0], any(needed[1:])), *outputs]
    found: Sequence[Tensor | None] = kernels.backward(grad, *given)
    return found


def _fake(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: str, bandwidth: float | None
) -> tuple[Tensor, ...]:
    out, (functions, d) = a.new_empty(a.shape), centers.shape
    if green == "gaussian" or path_of(a) != "numba":
        return _OPERATOR.padded((out,))
    entries, order = a.new_empty(a.shape, dtype=torch.int32), centers.new_empty(centers.shape)
    return out, entries, a.new_empty(4, functions, d + 1), order.long()


def _definition(*args: Any) -> tuple[Tensor]:
    return (expansion(*args),)


_OPERATOR = Operator(
    "expansion",
    "Tensor a, Tensor centers, Tensor coefficients, str green, float? bandwidth",
    _forward,
    _backward,
    {"numba": f"{__name__}.cpu", "triton": f"{__name__}.cuda"},
    _definition,
    _fake,
    num_outputs=4,
    first_kept=1,
)
