"""Bias-free maps whose outputs keep the variance of their inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter


class UnitLinear(Linear):
    r"""A linear map with entries drawn from :math:`\mathcal{U}(\pm\sqrt{3 / F})`.

    Each row has unit variance in total, so that features of unit variance keep it: a state of
    order n is a product of n projections, and any other scale would vanish or explode as its
    n-th power.

    Args:
        in_channels: The number of input features F; -1 to read it off the first input.
        out_channels: The number of output features.
        bias: Whether to add a bias, which starts at zero.
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool = False) -> None:
        super().__init__(in_channels, out_channels, bias=bias, bias_initializer="zeros")

    def reset_parameters(self) -> None:
        if is_uninitialized_parameter(self.weight) or self.in_channels <= 0:
            return
        bound = math.sqrt(3.0 / self.in_channels)
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def weight_for(self, x: Tensor) -> Tensor:
        """The weight matrix, created first where its width waits for the first input."""
        if is_uninitialized_parameter(self.weight):
            self.initialize_parameters(self, (x,))
        return self.weight
