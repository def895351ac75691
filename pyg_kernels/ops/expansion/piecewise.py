"""Piecewise-linear expansions on CPU: blocks of inputs, with a hand-written backward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.expansion.cells import Finder, PieceTable
from pyg_kernels.ops.expansion.pieces import as_line, from_right, linear_pieces, searched_expansion
from pyg_kernels.ops.expansion.reference import Green
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

BLOCK = 2**17  # numbers; their temporaries are a few megabytes


class PieceSums:
    """Sums of gradients over the inputs in each piece, and what they say of the parameters.

    Args:
        table: The pieces as they are looked up.
    """

    def __init__(self, table: PieceTable) -> None:
        self._table = table
        self._sums = table.slopes.new_zeros(2, table.units * table.width, dtype=torch.double)
        self._of_line = table.slopes.new_zeros(2, table.units, dtype=torch.double)

    def add(self, grad: Tensor, bins: Tensor, inputs: Tensor) -> None:
        """Adds gradients of the values at inputs in these pieces, :obj:`(n, U)` each."""
        table = self._table
        rows = max(1, BLOCK // table.units)
        offsets = torch.empty_like(inputs[:rows])
        for g, of, a in zip(grad.split(rows), bins.split(rows), inputs.split(rows), strict=True):
            table.offsets_at(a, of, offsets[: len(a)])
            where = of.reshape(-1).long()
            self._sums[0].scatter_add_(0, where, g.reshape(-1).double())
            weighted = offsets[: len(a)].mul_(g)
            self._sums[1].scatter_add_(0, where, weighted.view(-1).double())
            if table.line is not None:
                self._of_line[0] += (a * g).sum(0)
                self._of_line[1] += g.sum(0)

    def gradients(
        self, coefficients: Tensor, green: Green
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of the centres, the coefficients and a line's slopes and intercepts."""
        pieces, width = self._table.pieces, self._table.width
        sums = self._sums.view(2, -1, width)[:, :, : coefficients.size(1) + 1]
        centers = pieces.centers.double()
        gaps, origins = centers.diff(dim=1), pieces.origins
        # Of the inputs right of each centre: the gradients, and their sum times the distances.
        g = from_right(sums[0, :, 1:])
        weighted = sums[1, :, 1:] + (origins[:, 1:] - centers) * sums[0, :, 1:]
        of_coefficients = from_right(weighted) + F.pad(from_right(gaps * g[:, 1:]), (0, 1))
        if green == "abs":  # and of those left of it
            left = sums[0, :, :-1].cumsum(1)
            weighted = (centers - origins[:, :-1]) * sums[0, :, :-1] - sums[1, :, :-1]
            of_coefficients += weighted.cumsum(1) + F.pad((gaps * left[:, :-1]).cumsum(1), (1, 0))
            g = g - left
        of_centers = -coefficients.double().gather(1, pieces.order) * g

        def unsorted(of_sorted: Tensor) -> Tensor:
            found = torch.empty_like(coefficients)
            return found.scatter_(1, pieces.order, of_sorted.to(found.dtype))

        of_slope, of_intercept = self._of_line.to(coefficients.dtype)
        return unsorted(of_centers), unsorted(of_coefficients), of_slope, of_intercept


class PiecewiseExpansion(torch.autograd.Function):
    """Inputs: Green function, a, centres, coefficients, slopes and intercepts of a line, or None.

    Outputs: the values; then, for the backward, the pieces in which the inputs are.
    """

    @staticmethod
    def forward(
        green: Green,
        a: Tensor,
        centers: Tensor,
        coefficients: Tensor,
        slope: Tensor | None,
        intercept: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        table = piece_table(green, centers, coefficients, slope, intercept)
        out, bins = torch.empty_like(a), torch.empty_like(a, dtype=torch.int32)
        rows = max(1, min(len(a), BLOCK // a.size(1)))
        finder = Finder(table, rows)
        for block, of, values in zip(a.split(rows), bins.split(rows), out.split(rows), strict=True):
            finder.find(block, of)
            finder.evaluate(block, of, values)
        return out, bins

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.green, *tensors = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        *inputs, bins = ctx.saved_tensors
        if grad is None:
            return (None,) * 6
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            run = partial(_definition, ctx.green)
            return None, *by_definition(run, inputs, ctx.needs_input_grad[1:], (grad,))
        return None, *_gradients(ctx.green, inputs, bins, grad, ctx.needs_input_grad[1:])


def piece_table(
    green: Green,
    centers: Tensor,
    coefficients: Tensor,
    slope: Tensor | None,
    intercept: Tensor | None,
) -> PieceTable:
    """The pieces of an expansion, and the line that is added to it."""
    return PieceTable(linear_pieces(centers, coefficients, green), as_line(slope, intercept))


def _definition(
    green: Green,
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    slope: Tensor | None,
    intercept: Tensor | None,
) -> Tensor:
    return searched_expansion(a, centers, coefficients, green, as_line(slope, intercept))


def _gradients(
    green: Green,
    inputs: Sequence[Any],
    bins: Tensor,
    grad: Tensor,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    a, centers, coefficients, slope, intercept = inputs
    table = piece_table(green, centers, coefficients, slope, intercept)
    of_a = None
    if needed[0]:
        of_a = torch.empty_like(a)
        table.slopes_at(bins, of_a)
        of_a.mul_(grad)
    of_parts: tuple[Tensor | None, ...] = (None,) * 4
    if any(needed[1:]):
        sums = PieceSums(table)
        sums.add(grad, bins, a)
        of_parts = sums.gradients(coefficients, green)
    every = (of_a, *of_parts)
    return tuple(g if need else None for g, need in zip(every, needed, strict=True))
