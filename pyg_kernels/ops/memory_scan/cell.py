"""What the two ways through the blocks of memory cells share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan.blocked import WalkBlocks, workspace
from pyg_kernels.ops.memory_scan.products import WindowProducts
from pyg_kernels.ops.memory_scan.reference import Form
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.windows import Windows


class Cell:
    """The tensors of a cell by their names, and what both ways through its blocks need."""

    def __init__(
        self,
        form: Form,
        packing: Packing,
        windows: Sequence[Windows],
        tensors: Sequence[Any],
        memories: Tensor | None = None,
    ) -> None:
        self.form, self.packing = form, packing
        self.x, self.first_h, self.first_c, self.bias, *rest = tensors
        self.norm_weight, self.norm_bias, self.static, *weights = rest
        self.filters, self.recurrent = parted(form, weights)
        self.num_tokens, self.channels = packing.num_tokens, self.first_c.size(1)
        self.c = self._new(self.channels) if memories is None else memories
        self.walk = WalkBlocks(packing, "mul", form.coupled, self.first_c[None], [self.c])
        self.products = None
        if self.filters:
            count, longest = len(self.walk.blocks), self.walk.longest
            self.products = WindowProducts(windows, self.x, self.filters, count, longest)
        self.carried = cast("str | None", form.carried)
        self.out = cast("str | None", form.out)

    def _new(self, columns: int) -> Tensor:
        return self.first_c.new_empty(self.num_tokens, columns)

    def columns(self, values: Tensor) -> dict[str, Tensor]:
        """The gates' values by their names, the sigmoids together, and those that read h."""
        width, form = self.channels, self.form
        named = dict(zip(form.gates, values.split(width, 1), strict=True))
        named["sigmoids"] = values[:, : form.num_sigmoids * width]
        named["reading"] = values[:, : form.reading * width]
        return named

    def stacked_recurrent(self) -> Tensor:
        """The maps of the output before, one below the other."""
        width = self.channels
        (stacked,) = workspace(self.first_c, [(self.form.reading * width, width)], "recurrent")
        return torch.cat(list(self.recurrent), out=stacked)


def same_output(form: Form, norm_weight: Tensor | None) -> bool:
    """Whether the memory is the output."""
    return form.out is None and form.gates[0] != "output" and norm_weight is None


def parted(form: Form, weights: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The filters, and the maps of the output before."""
    count = len(weights) - form.reading
    return weights[:count], weights[count:]


def decay_of(at: dict[str, Tensor], static: Tensor | None, like: Tensor) -> Tensor:
    """What is kept of the memory, row by row or for all."""
    if "forget" in at:
        return at["forget"]
    return like.new_ones(1) if static is None else static[1:]


def normalised(run: Cell, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised memories, their means and inverse standard deviations."""
    shape = [run.channels]
    return torch.native_layer_norm(c, shape, run.norm_weight, run.norm_bias, run.form.eps)
