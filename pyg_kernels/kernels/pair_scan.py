r"""The recurrence of string kernels over all pairs of prefixes of two texts.

For the base kernel :math:`g[s, t]` of two tokens and an order n,

.. math::
    Z_1 = g, \qquad
    C_j[s, t] = \sum_{i \le s, k \le t} \lambda^{(s - i) + (t - k)} Z_j[i, k], \qquad
    Z_j[s, t] = g[s, t] \, C_{j-1}[s - 1, t - 1],

so that :math:`Z_n[s, t]` sums over the pairs of n-grams that end at exactly s and t, and
:math:`C_n[s, t]` over those up to s and t, each weighted by :math:`\lambda` to the number of tokens
after its first that it does not pick (Lei et al. 2017, eq. 3 and supplement B): O(n |x| |y|). It is
the recurrence of the layers, on pairs. The additive form replaces the product of n base kernels by
their sum: :math:`Z_j[s, t] = C_{j-1}[s-1, t-1] + W_j[s, t] \, g[s, t]`, with the weights W of these
pairs from the recurrence of products for a base kernel of 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.operator import runs_compiled


def decayed_sums(values: Tensor, decay: float) -> Tensor:
    r"""The sums :math:`C[s, t]` of the values ``(S, T, ...)`` up to s and t, with decay."""
    return _DecayedSums.apply(values, decay, False)


def end_at(base: Tensor, order: int, decay: float, additive: bool = False) -> Tensor:
    r"""The sums :math:`Z_n[s, t]` over pairs of n-grams that end at s and t, (S, T, ...)."""
    ending = base
    weights = base.new_ones(base.shape[:2] + (1,) * (base.dim() - 2))  # of these pairs
    for _ in range(order - 1):
        before = shifted(decayed_sums(ending, decay))
        if additive:
            weights = shifted(decayed_sums(weights, decay))
            ending = before + base * weights
        else:
            ending = base * before
    return ending


def shifted(values: Tensor) -> Tensor:
    """The values at (s - 1, t - 1), zero where there are none."""
    no_pad = (0, 0) * (values.dim() - 2)
    if not values.size(0) or not values.size(1):
        return values
    return torch.nn.functional.pad(values[:-1, :-1], (*no_pad, 1, 0, 1, 0))


def after_one(values: Tensor) -> Tensor:
    """The values at s - 1 along the first dimension, zero where there is none."""
    return torch.cat([torch.zeros_like(values[:1]), values[:-1]])


def weight_sums(length: int, order: int, decay: float, weighting: str) -> Tensor:
    r"""The sum of the weights of all n-grams of each prefix of a text, (L,) in float64.

    With ``'end'`` :math:`\lambda` to the number of tokens after the first that are not picked; with
    ``'span'`` only those before the last.
    """
    ending = torch.ones(length, 1, dtype=torch.float64)
    for _ in range(order - 1):
        ending = after_one(decayed_sums(ending, decay))
    return decayed_sums(ending, 1.0 if weighting == "span" else decay)[:, 0]


def _scan_(values: Tensor, decay: float, backwards: bool) -> Tensor:
    """The sums in place, along both dimensions."""
    if runs_compiled(values):
        from pyg_kernels.kernels import cpu
        from pyg_kernels.ops.compiled import run

        flat = values.view(*values.shape[:2], values[:1, :1].numel()).numpy()
        tasks = -(-flat.shape[2] // cpu.PAIRS_AT_A_TIME)
        run(cpu.decayed_sums, tasks, flat.size, flat, decay, backwards)
        return values
    for dim in (0, 1):
        slices = values.unbind(dim)
        for before, here in pairwise(reversed(slices) if backwards else slices):
            here.add_(before, alpha=decay)
    return values


class _DecayedSums(torch.autograd.Function):
    """The scan, whose gradient is the scan from the other end."""

    @staticmethod
    def forward(values: Tensor, decay: float, backwards: bool) -> Tensor:
        return _scan_(values.clone(memory_format=torch.contiguous_format), decay, backwards)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, bool], output: Tensor) -> None:
        _, ctx.decay, ctx.backwards = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _DecayedSums.apply(grad, ctx.decay, not ctx.backwards), None, None
