"""Bias-free maps whose outputs keep the variance of their inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter

from pyg_kernels.ops.products import project


class UnitLinear(Linear):
    r"""A linear map with entries drawn from :math:`\mathcal{U}(\pm\sqrt{3 / F})`.

    Each row has unit variance in total, so that features of unit variance keep it: a state of
    order n is a product of n projections, and any other scale would vanish or explode as its
    n-th power.

    Args:
        in_channels: The number of input features F; -1 to read it off the first input.
        out_channels: The number of output features.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        if is_uninitialized_parameter(self.weight) or self.in_channels <= 0:
            return
        bound = math.sqrt(3.0 / self.in_channels)
        torch.nn.init.uniform_(self.weight, -bound, bound)

    @property
    def plain(self) -> bool:
        """Whether a call is the product with ``weight`` and nothing else: no hooks listen."""
        return type(self) is UnitLinear and self.unheard

    @property
    def unheard(self) -> bool:
        """Whether a call is the product with ``weight``, which may be parametrized: no hooks."""
        return type(self).forward is UnitLinear.forward and not is_heard(self)


def is_heard(module: Module) -> bool:
    """Whether hooks listen to a module, so that it has to be called."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return any(hooks)


def apply_all(x: Tensor, lins: Sequence[Module]) -> tuple[Tensor, ...]:
    """Applies several linear maps to one input, in one op where nobody listens to the modules.

    Args:
        x: The input, of shape :obj:`(N, F)`.
        lins: Maps from F features; lazy ones take their size from :obj:`x`.

    Returns:
        Their outputs, in order.
    """
    for lin in lins:
        if isinstance(lin, UnitLinear) and is_uninitialized_parameter(lin.weight):
            lin.initialize_parameters(lin, (x,))
    if all(isinstance(lin, UnitLinear) and lin.plain for lin in lins):
        return project(x, [cast(UnitLinear, lin).weight for lin in lins])
    return tuple(lin(x) for lin in lins)
