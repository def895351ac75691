"""Memory cells block by block of time steps.

Whatever does not depend on the time step before is one op a block, on rows that are still in
cache: the products of all filters, and the gates where they read tokens only. What does depend on
it is a handful of ops a step on that step's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.ops.activations import activate
from pyg_kernels.ops.linear_scan.blocked import Block, workspace
from pyg_kernels.ops.memory_scan.cell import Cell, decay_of, normalised, same_output
from pyg_kernels.ops.memory_scan.reference import Form
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.products import BlockProduct
from pyg_kernels.ops.windows import Windows


class Forward(Cell):
    """The way forward.

    Attributes:
        c: The memories.
        h: The outputs, which may be the same tensor.
        means: Those of the memories, where there is layer normalisation, :obj:`(N, 1)`.
        scales: Their inverse standard deviations.
        values: The gates' values, one tensor a block, where a backward will need them.
    """

    def __init__(
        self,
        form: Form,
        packing: Packing,
        windows: Sequence[Windows],
        tensors: Sequence[Any],
        keeps_values: bool,
    ) -> None:
        super().__init__(form, packing, windows, tensors)
        self.keeps_values = keeps_values
        normed = self.norm_weight is not None
        self.h = self.c if same_output(form, self.norm_weight) else self._new(self.channels)
        self.values: list[Tensor] = []
        self.means = self._new(1) if normed else None
        self.scales = self._new(1) if normed else None

    def run(self) -> tuple[Tensor, ...]:
        """The memories and, unless they are the same, the outputs."""
        if self.products is not None:
            self.products.start_forward()
        step = _Steps(self) if self.form.stepped else None
        for block in self.walk.blocks:
            rows = block.rows
            values = self.x[rows].clone() if self.products is None else self.products.forward(rows)
            if self.keeps_values:
                self.values.append(values)
            if self.bias is not None:
                values[:, : len(self.bias)].add_(self.bias)
            if step is not None:
                step.through(block, values)
            else:
                self._parallel(block, values)
        return (self.c,) if self.h is self.c else (self.c, self.h)

    def _parallel(self, block: Block, values: Tensor) -> None:
        """Gates and outputs of a block as a whole: one op a step is left for the memory."""
        form, rows, at = self.form, block.rows, self.columns(values)
        if form.num_sigmoids:
            at["sigmoids"].sigmoid_()
        candidate = at["candidate"]
        activate(candidate, None, form.candidate, candidate)
        (new,) = workspace(self.c, [(block.num_rows, self.channels)], "memory")
        if form.coupled:
            new = candidate
        elif "input" in at:
            torch.mul(at["input"], candidate, out=new)
        elif self.static is not None:
            torch.mul(candidate, self.static[0], out=new)
        else:
            new = candidate
        if form.memory:
            self.walk.forward(block, [new], decay_of(at, self.static, self.c))
        else:
            self.c[rows] = new
        if self.h is not self.c:
            stats = (
                None if self.means is None else (self.means[rows], cast(Tensor, self.scales)[rows])
            )
            self.put_out(self.c[rows], at.get("output"), self.h[rows], stats)

    def put_out(
        self,
        c: Tensor,
        gate: Tensor | None,
        out: Tensor,
        stats: tuple[Tensor, Tensor] | None,
    ) -> None:
        """Writes the outputs, and what layer normalisation found, from memories."""
        if stats is not None:
            c, mean, scale = normalised(self, c)
            stats[0].copy_(mean)
            stats[1].copy_(scale)
        if self.out is not None:
            activate(c, None, self.out, out)
            c = out
        if gate is not None:
            torch.mul(c, gate, out=out)
        elif c is not out:
            out.copy_(c)


class _Steps:
    """One time step after the other, on the way forward."""

    def __init__(self, run: Forward) -> None:
        self.run = run
        packing = run.packing
        self.h, self.c = run.first_h, run.first_c
        self.recur = None
        if run.recurrent:
            stacked = run.stacked_recurrent()
            self.recur = BlockProduct(stacked, packing.num_texts, packing.num_steps)
        # The activated memory is carried on, and where nothing comes between it is the output.
        normed = run.means is not None
        self.shares = run.carried is not None and run.carried == run.out and not normed
        if run.carried is not None:
            self.c = torch.empty_like(run.first_c)
            activate(run.first_c, None, run.carried, self.c)

    def through(self, block: Block, values: Tensor) -> None:
        run, form, sizes = self.run, self.run.form, block.sizes
        at = {name: rows.split(sizes) for name, rows in run.columns(values).items()}
        memories, outputs = run.c[block.rows].split(sizes), run.h[block.rows].split(sizes)
        stats = None
        if run.means is not None and run.scales is not None:
            means, scales = run.means[block.rows], run.scales[block.rows]
            stats = list(zip(means.split(sizes), scales.split(sizes), strict=True))
        inputs, forgets, gates = at.get("input"), at.get("forget"), at.get("output")
        same = run.h is run.c
        s_i, s_f = (None, None) if run.static is None else run.static.unbind(0)
        h, before = self.h, self.c
        for t, texts in enumerate(sizes):
            if len(before) != texts:
                h, before = h[:texts], before[:texts]
            if self.recur is not None:
                self.recur(h, out=at["reading"][t], add=True)
            if form.num_sigmoids:
                at["sigmoids"][t].sigmoid_()
            candidate, c, h = at["candidate"][t], memories[t], outputs[t]
            if form.candidate is not None:
                activate(candidate, None, form.candidate, candidate)
            if form.coupled:
                assert forgets is not None
                torch.lerp(candidate, before, forgets[t], out=c)
            elif inputs is not None:
                assert forgets is not None
                torch.mul(inputs[t], candidate, out=c).addcmul_(forgets[t], before)
            elif s_i is not None:
                torch.mul(candidate, s_i, out=c).addcmul_(before, cast(Tensor, s_f))
            else:
                torch.add(candidate, before, out=c)
            if not same:
                gate = None if gates is None else gates[t]
                run.put_out(c, gate, h, None if stats is None else stats[t])
            before = c
            if self.shares:
                before = h
            elif run.carried is not None:
                before = torch.empty_like(c)
                activate(c, None, run.carried, before)
        self.h, self.c = h, before
