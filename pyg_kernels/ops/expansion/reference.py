"""The definition of kernel expansions in one dimension: the direct sum over the centres."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

Green = Literal["relu", "abs", "gaussian"]
GREENS: tuple[Green, ...] = get_args(Green)


def green_function(green: Green, bandwidth: float | None) -> Callable[[Tensor], Tensor]:
    r"""g by name: the rectifier, the absolute value or :math:`\exp(-z^2 / (2 b^2))`."""
    if green == "gaussian":
        assert bandwidth is not None
        scale = -0.5 / bandwidth**2
        return lambda z: torch.exp(z.square() * scale)
    return torch.relu if green == "relu" else torch.abs


def expansion(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green, bandwidth: float | None = None
) -> Tensor:
    r"""Sums Green functions about the centres: :math:`f_i(a) = \sum_k \chi_{ik} g(a - c_{ik})`.

    Args:
        a: The inputs, :obj:`(N, U)`.
        centers: The centres c, :obj:`(U, d)`, or :obj:`(1, d)` for one function of all units.
        coefficients: The coefficients :math:`\chi`, of the same shape.
        green: The Green function g: ``'relu'``, ``'abs'`` or ``'gaussian'``.
        bandwidth: The standard deviation b of the Gaussian.

    Returns:
        The sums, :obj:`(N, U)`.
    """
    g = green_function(green, bandwidth)
    return (g(a.unsqueeze(-1) - centers) * coefficients).sum(-1)
