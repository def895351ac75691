"""Piecewise-linear activations: each multiplies a value by its slope there."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from pyg_kernels.nn.models.graph_vector import Function

Slope = Callable[[Tensor], Tensor]


def slope_of(act: Callable[[Tensor], Tensor] | None, where: str) -> Slope:
    r"""The slope :math:`m(z)` of an activation with :math:`\sigma(z) = m(z) z`.

    1 for the identity, 0 or 1 for the rectifier, 1 or its slope for the leaky one, the sign for
    the absolute value; at zero what PyTorch's derivatives are there.

    Args:
        act: The activation, or None for the identity.
        where: What has it, for the error.

    Raises:
        ValueError: For any other activation.
    """
    act = act.function if isinstance(act, Function) else act
    if act is None or type(act) is torch.nn.Identity:
        return torch.ones_like
    if type(act) is torch.nn.ReLU or act in (torch.relu, F.relu):
        return _of_leaky_rectifier(0.0)
    if type(act) is torch.nn.LeakyReLU:
        return _of_leaky_rectifier(act.negative_slope)
    if act is F.leaky_relu:
        return _of_leaky_rectifier(0.01)
    if act in (torch.abs, torch.absolute, torch.Tensor.abs, abs):
        return torch.sign
    raise ValueError(
        f"{where} has the activation {_described(act)}: an exact attribution needs a "
        "piecewise-linear one through 0, expected the identity, relu, leaky relu or abs"
    )


def _of_leaky_rectifier(negative: float) -> Slope:
    def slope(z: Tensor) -> Tensor:
        return torch.ones_like(z).masked_fill_(z <= 0, negative)

    return slope


def _described(act: Callable[[Tensor], Tensor]) -> str:
    if isinstance(act, Module):
        return repr(act)
    return getattr(act, "__name__", repr(act))
