"""Gaussian expansions: blocks of inputs and centres, recomputed in a hand-written backward."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import without_autocast
from pyg_kernels.ops.expansion.pieces import Line
from pyg_kernels.ops.expansion.reference import expansion
from pyg_kernels.ops.transforms import (
    by_definition,
    has_numbers,
    is_batched,
    transforms_active,
)

#: The number of distances of a block, if one input of each unit has no more.
BLOCK = {"cpu": 2**17, "cuda": 2**24}
CENTERS = 128


def gaussian_expansion(
    a: Tensor, centers: Tensor, coefficients: Tensor, bandwidth: float, line: Line | None
) -> Tensor:
    """The expansion over Gaussians, in blocks; as its definition for compilers and transforms.

    Arguments as those of the definition, :obj:`a` of shape :obj:`(N, U)`.
    """
    by_blocks = has_numbers(a) and not torch.compiler.is_compiling() and not transforms_active()
    if by_blocks and len(centers) == a.size(1):
        out: Tensor = GaussianExpansion.apply(bandwidth, a, centers, coefficients)
    elif by_blocks:  # one function of all units
        flat = a.reshape(-1, 1)
        out = GaussianExpansion.apply(bandwidth, flat, centers, coefficients).view(a.shape)
    else:
        out = expansion(a, centers, coefficients, "gaussian", bandwidth)
    return out if line is None else out + torch.addcmul(line.intercept, line.slope, a)


class GaussianExpansion(torch.autograd.Function):
    """Inputs: bandwidth, a of shape (N, U), centres and coefficients, both (U, d)."""

    @staticmethod
    def forward(bandwidth: float, a: Tensor, centers: Tensor, coefficients: Tensor) -> Tensor:
        out = torch.zeros_like(a)
        with without_autocast(a.device):
            for block in _Blocks(bandwidth, a, centers):
                block.sum_centers(block.values, coefficients, out)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.bandwidth, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        if grad is None:
            return (None,) * 4
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            run = partial(expansion, green="gaussian", bandwidth=ctx.bandwidth)
            return None, *by_definition(run, inputs, ctx.needs_input_grad[1:], (grad,))
        a, centers, coefficients = inputs
        with without_autocast(grad.device):
            return None, *_gradients(ctx.bandwidth, a, centers, coefficients, grad)


def _gradients(
    bandwidth: float, a: Tensor, centers: Tensor, coefficients: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    slopes = torch.zeros_like(a)
    of_centers, of_coefficients = centers.new_zeros(2, *centers.shape, dtype=torch.double)
    for block in _Blocks(bandwidth, a, centers):
        block.sum_inputs(block.values, grad, of_coefficients)
        tilted = block.distances.mul_(block.values)
        block.sum_centers(tilted, coefficients, slopes)
        block.sum_inputs(tilted, grad, of_centers)
    scale = bandwidth**-2
    of_centers.mul_(coefficients).mul_(scale)
    dtype = centers.dtype
    return slopes.mul_(grad).mul_(-scale), of_centers.to(dtype), of_coefficients.to(dtype)


class _Blocks:
    """Blocks of some inputs and some centres, one after the other in the same memory.

    Attributes:
        distances: The inputs less the centres, :obj:`(U, n, k)`.
        values: Their Gaussians.
    """

    distances: Tensor
    values: Tensor

    def __init__(self, bandwidth: float, a: Tensor, centers: Tensor) -> None:
        self._scale = -0.5 / bandwidth**2
        self._least = 0.9 * math.log(torch.finfo(a.dtype).tiny)
        self._a, self._centers = a, centers
        units, count = centers.shape
        self._width = min(count, CENTERS)
        most = BLOCK.get(a.device.type, BLOCK["cpu"]) // (units * self._width)
        self._rows = max(1, min(len(a), most))
        self._memory = a.new_empty(3, units * self._rows * self._width)

    def __iter__(self) -> Iterator[_Blocks]:
        units, count = self._centers.shape
        for start in range(0, len(self._a), self._rows):
            self._inputs = slice(start, start + self._rows)
            column = self._a[self._inputs].t().unsqueeze(2)
            for first in range(0, count, self._width):
                self._of = slice(first, first + self._width)
                row = self._centers[:, self._of].unsqueeze(1)
                shape = units, column.size(1), row.size(2)
                size = shape[0] * shape[1] * shape[2]
                self.distances, self.values, kept = (m[:size].view(shape) for m in self._memory)
                torch.sub(column, row, out=self.distances)
                torch.mul(self.distances, self.distances, out=self.values)
                self._exponentiate(kept)
                yield self

    def _exponentiate(self, kept: Tensor) -> None:
        """0 in place of numbers near the smallest ones, with which all arithmetic is slow."""
        torch.gt(self.values.mul_(self._scale), self._least, out=kept)
        self.values.clamp_min_(self._least).exp_().mul_(kept)

    def sum_centers(self, block: Tensor, coefficients: Tensor, out: Tensor) -> None:
        """Adds the sums over the centres, weighted by their coefficients, to :obj:`(N, U)`."""
        row = coefficients[:, self._of].unsqueeze(1)
        out[self._inputs] += (row @ block.transpose(1, 2)).squeeze(1).t()

    def sum_inputs(self, block: Tensor, grad: Tensor, out: Tensor) -> None:
        """Adds the sums over the inputs, weighted by their gradients, to :obj:`(U, d)`."""
        out[:, self._of] += (grad[self._inputs].t().unsqueeze(1) @ block).squeeze(1)
