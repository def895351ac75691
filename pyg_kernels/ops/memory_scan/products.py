"""The products of windows of tokens with filters, one block of tokens at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan.blocked import BLOCK_ROWS, workspace
from pyg_kernels.ops.products import BlockProduct, weight_gradient
from pyg_kernels.ops.windows import Windows


class WindowProducts:
    """Applies the filters of several gates to the windows of tokens, and goes back.

    Args:
        windows: The windows of each width.
        x: The tokens below their history.
        filters: The filters, gate by gate and in each gate width by width, :obj:`(D_b, F, n_b)`:
            what is made of the widths lies side by side in the channels of a gate.
        num_blocks: How many blocks of tokens there are.
        longest: The number of tokens of the longest block.
    """

    def __init__(
        self,
        windows: Sequence[Windows],
        x: Tensor,
        filters: Sequence[Tensor],
        num_blocks: int,
        longest: int,
    ) -> None:
        self.windows, self.x, self.num_blocks, self.longest = windows, x, num_blocks, longest
        self.shapes = [weight.shape for weight in filters]
        if len(windows) == 1:
            # All gates read the same windows: one product with their filters below each other.
            self.weights = [_stacked(filters)]
        else:
            self.weights = [_as_matrix(weight) for weight in filters]
        bounds = list(accumulate((len(weight) for weight in self.weights), initial=0))
        self.columns = [slice(*pair) for pair in pairwise(bounds)]
        self._own_gradient = len(windows) == 1 and windows[0].trivial

    def start_forward(self) -> None:
        """Before the first block."""
        self._products = [BlockProduct(w, BLOCK_ROWS, self.num_blocks) for w in self.weights]

    def forward(self, rows: slice) -> Tensor:
        """What the filters make of some tokens, :obj:`(R, k * D)`, a new tensor."""
        if len(self.windows) == 1:
            return self._products[0](self._read(0, rows))
        out = self.x.new_empty(rows.stop - rows.start, self.columns[-1].stop)
        for b in range(len(self.windows)):
            read = self._read(b, rows)
            for k in range(b, len(self.weights), len(self.windows)):
                self._products[k](read, out=out[:, self.columns[k]])
        return out

    def start_backward(self, needs_x: bool, needs_filters: Sequence[bool]) -> None:
        """Before the last block."""
        self.grad_x = None
        if needs_x:
            self.grad_x = (torch.empty_like if self._own_gradient else torch.zeros_like)(self.x)
            self._back = [BlockProduct(w.t(), BLOCK_ROWS, self.num_blocks) for w in self.weights]
        needed = [any(needs_filters)] if len(self.windows) == 1 else needs_filters
        self._grad_weights = [
            torch.empty_like(weight) if wanted else None
            for weight, wanted in zip(self.weights, needed, strict=True)
        ]
        self._begun = False

    def backward(self, rows: slice, grad: Tensor) -> None:
        """Takes the gradients of what `forward` wrote on to tokens and filters."""
        for b, windows in enumerate(self.windows):
            numbers = range(b, len(self.weights), len(self.windows))
            read = self._read(b, rows)
            for k in numbers:
                onto = self._grad_weights[k]
                if onto is not None:
                    weight_gradient(read, grad[:, self.columns[k]], out=onto, add=self._begun)
            if self.grad_x is None:
                continue
            if self._own_gradient and self.num_blocks == 1:
                self.grad_x = self._back[0](grad)
                continue
            into = self.grad_x[rows] if self._own_gradient else self._scratch(b, rows)
            for k in numbers:
                self._back[k](grad[:, self.columns[k]], out=into, add=k > b)
            if not self._own_gradient:
                windows.add(into, rows, self.grad_x)
        self._begun = True

    def grad_filters(self) -> list[Tensor | None]:
        """The gradients of the filters; None where nobody needs them."""
        if not self._begun:  # there are no tokens
            self._grad_weights = [None if g is None else g.zero_() for g in self._grad_weights]
        matrices = self._grad_weights
        if len(self.windows) == 1:
            (stacked,) = matrices
            if stacked is None:
                return [None] * len(self.shapes)
            matrices = list(stacked.split([shape[0] for shape in self.shapes]))
        return [
            None if matrix is None else _as_filter(matrix, shape)
            for matrix, shape in zip(matrices, self.shapes, strict=True)
        ]

    def _read(self, b: int, rows: slice) -> Tensor:
        windows = self.windows[b]
        return windows.read(self.x, rows, None if windows.trivial else self._scratch(b, rows))

    def _scratch(self, b: int, rows: slice) -> Tensor:
        shape = (rows.stop - rows.start, self.windows[b].width * self.x.size(1))
        return workspace(self.x, [shape], "windows")[0]


def _as_matrix(weight: Tensor) -> Tensor:
    """From (D, F, n) to (D, n * F): windows hold one token after the other."""
    return weight.transpose(1, 2).reshape(weight.size(0), -1)


def _stacked(filters: Sequence[Tensor]) -> Tensor:
    """The matrices of all filters below each other, in memory that is kept."""
    count, features, width = filters[0].shape
    (stacked,) = workspace(filters[0], [(count * len(filters), features * width)], "filters")
    parts = stacked.view(len(filters), count, width, features)
    for part, weight in zip(parts, filters, strict=True):
        part.copy_(weight.transpose(1, 2))
    return stacked


def _as_filter(matrix: Tensor, shape: torch.Size) -> Tensor:
    return matrix.view(shape[0], shape[2], shape[1]).transpose(1, 2)
