"""Back through memory cells, block by block of time steps.

The factors that take a gradient of the memory to one of each gate are made for a block at once;
one product a step is left where gates read the output before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.activations import activate, activation_gradient
from pyg_kernels.ops.linear_scan.blocked import Block, workspace
from pyg_kernels.ops.memory_scan.cell import Cell, decay_of, normalised, same_output
from pyg_kernels.ops.memory_scan.reference import Form
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.products import BlockProduct, weight_gradient
from pyg_kernels.ops.windows import Windows


class Backward(Cell):
    """The way back, from what :class:`.MemoryScan` was given and put out.

    Its gradients are those of the tensors among the inputs, in their order.
    """

    def __init__(
        self,
        form: Form,
        packing: Packing,
        windows: Sequence[Windows],
        inputs: Sequence[Any],
        output: Sequence[Tensor],
        needed: Sequence[bool],
    ) -> None:
        super().__init__(form, packing, windows, inputs, output[0])
        self.needed = needed
        rest = list(output[1:])
        self.h = self.c if same_output(form, self.norm_weight) else rest.pop(0)
        normed = self.norm_weight is not None
        self.means: Tensor | None = rest.pop(0) if normed else None
        self.scales: Tensor | None = rest.pop(0) if normed else None
        self.values = rest

    def run(self, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        needs_x, _, _, needs_bias, *needs_norm, needs_static = self.needed[:7]
        needs_weights = self.needed[7:]
        needs_filters = needs_weights[: len(self.filters)]
        needs_recurrent = needs_weights[len(self.filters) :]
        walk, form, width = self.walk, self.form, self.channels
        walk.start_backward()
        self.to_c, self.to_h = (
            None if g is None else g.contiguous() for g in (*grads, *[None] * (2 - len(grads)))
        )
        self.grad_static = torch.zeros_like(self.static) if needs_static else None
        normed = self.norm_weight is not None and any(needs_norm)
        self.grad_norm = self.first_c.new_zeros(2, width) if normed else None
        grad_bias = torch.zeros_like(self.bias) if needs_bias else None
        if self.products is not None:
            self.products.start_backward(needs_x, needs_filters)
        elif needs_x:
            grad_logits = torch.empty_like(self.x)
        grad_recurrent = None
        if any(needs_recurrent):
            grad_recurrent = self.first_c.new_empty(form.reading * width, width)
            if not walk.blocks:
                grad_recurrent.zero_()
        steps = _StepsBack(self) if form.stepped else None
        for block, values in zip(reversed(walk.blocks), reversed(self.values), strict=True):
            rows = block.rows
            grad = self._gradients(block, values, steps)
            if grad_bias is not None:
                grad_bias += grad[:, : len(grad_bias)].sum(0)
            if grad_recurrent is not None:
                self._add_recurrent(block, grad, grad_recurrent)
            if self.products is not None:
                self.products.backward(rows, grad)
            elif needs_x:
                grad_logits[rows] = grad
        grad_x: Tensor | None
        if self.products is not None:
            grad_x = self.products.grad_x
            grad_filters = self.products.grad_filters()
        else:
            grad_x, grad_filters = (grad_logits if needs_x else None), []
        by_gate: Sequence[Tensor | None] = [None] * form.reading
        if grad_recurrent is not None:
            by_gate = grad_recurrent.split(width)
        norm = (None, None) if self.grad_norm is None else self.grad_norm.unbind(0)
        grad_c = walk.carried[0] if form.memory else torch.zeros_like(self.first_c)
        grad_h = torch.zeros_like(self.first_h)
        if steps is not None:
            grad_h[: len(steps.grad_h)] = steps.grad_h
        return (
            grad_x,
            grad_h,
            grad_c,
            grad_bias,
            *norm,
            self.grad_static,
            *grad_filters,
            *by_gate,
        )

    def _gradients(self, block: Block, values: Tensor, steps: _StepsBack | None) -> Tensor:
        """The gradients of a block's logits, in memory that the next block takes over."""
        factors = _Factors(self, block, values)
        if steps is not None:
            steps.through(block, factors)
        else:
            self._parallel(block, factors)
        if self.grad_static is not None:
            self.grad_static[0] += (factors.memory * factors.at["candidate"]).sum()
            if factors.before is not None:
                self.grad_static[1] += (factors.memory * factors.before).sum()
        return factors.grad

    def _parallel(self, block: Block, factors: _Factors) -> None:
        form, rows, g = self.form, block.rows, factors.memory
        if self.to_h is None:
            g.zero_()
            if factors.output is not None:
                factors.output.zero_()
        else:
            grad = self.to_h[rows]
            if factors.output is not None:
                factors.output.mul_(grad)
            if factors.slope is not None:
                grad = torch.mul(grad, factors.slope, out=g)
            g.copy_(grad if self.norm_weight is None else self.back_norm(grad, rows))
        if self.to_c is not None:
            g.add_(self.to_c[rows])
        if form.memory:
            self.walk.scan_back(block, g, decay_of(factors.at, self.static, self.c))
        for part in factors.others:
            part.mul_(g)

    def back_norm(self, grad: Tensor, rows: slice) -> Tensor:
        """From normalised memories to memories; adds up what scale and shift get."""
        assert self.means is not None and self.scales is not None
        wanted = self.grad_norm is not None
        found, weight, bias = torch.ops.aten.native_layer_norm_backward(
            grad,
            self.c[rows],
            [self.channels],
            self.means[rows],
            self.scales[rows],
            self.norm_weight,
            self.norm_bias,
            [True, wanted, wanted],
        )
        if self.grad_norm is not None:
            self.grad_norm[0] += weight
            self.grad_norm[1] += bias
        return found

    def _add_recurrent(self, block: Block, grad: Tensor, onto: Tensor) -> None:
        (scratch,) = workspace(self.h, [(block.num_rows, self.channels)], "memory")
        read = block.before(self.h, self.first_h, scratch)
        begun = block is not self.walk.blocks[-1]
        weight_gradient(read, self.columns(grad)["reading"], out=onto, add=begun)


class _Factors:
    """What takes gradients of the outputs and memories of a block to those of its logits.

    Attributes:
        at: The gates' values.
        grad: All factors side by side, to be multiplied by gradients: that of the output gate
            by the gradient of the output, `others` by that of the memory.
        output: The output gate's factor.
        others: Those of the input and forget gates and of the candidate.
        slope: What a larger memory, or normalised memory, adds to the output; None for one.
        keep: What a larger memory adds to the next one, row by row; a number; or None for one.
        before: What was carried into each row; None where no memory is.
        memory: Room for the gradients of the memories.
    """

    def __init__(self, run: Backward, block: Block, values: Tensor) -> None:
        form, width = run.form, run.channels
        gates = len(form.gates)
        shape = (block.num_rows, width)
        self.grad, self.memory, self._before, self._slope, spare = workspace(
            run.c, [(block.num_rows, gates * width), *[shape] * 4], "factors"
        )
        at = self.at = run.columns(values)
        to = run.columns(self.grad)
        self.output = to.get("output")
        wide = self.grad[:, width if self.output is not None else 0 :]
        self.others = wide.split(width, 1)
        self.spread = wide.view(block.num_rows, -1, width)
        self.before = None
        if form.memory:
            self.before = block.before(run.c, run.first_c, self._before)
        self.keep: Tensor | None = at.get("forget")
        if self.keep is None and run.static is not None:
            self.keep = run.static[1]
        if run.carried is not None:
            self._carry(run, spare)
        self._gates(run, at, to, spare)
        self._out(run, block, at, spare)

    def _carry(self, run: Backward, spare: Tensor) -> None:
        """Only cells without gates carry an activated memory on."""
        assert self.before is not None
        value = torch.empty_like(self.before)
        activate(self.before, None, run.carried, value)
        keep = torch.empty_like(value)
        activation_gradient(torch.ones_like(value), value, run.carried, keep)
        self.before, self.keep = value, keep

    def _gates(
        self, run: Backward, at: dict[str, Tensor], to: dict[str, Tensor], spare: Tensor
    ) -> None:
        candidate, onto = at["candidate"], to["candidate"]
        if "forget" in at:
            assert self.before is not None
            reached = self.before
            if run.form.coupled:
                reached = torch.sub(self.before, candidate, out=spare)
            _times_sigmoid_slope(reached, at["forget"], to["forget"])
        if "input" in at:
            _times_sigmoid_slope(candidate, at["input"], to["input"])
            activation_gradient(at["input"], candidate, run.form.candidate, onto)
        elif run.form.coupled:
            torch.neg(at["forget"], out=onto).add_(1)
        elif run.static is not None:
            onto.copy_(run.static[0].expand_as(onto))
        else:
            onto.fill_(1)

    def _out(self, run: Backward, block: Block, at: dict[str, Tensor], spare: Tensor) -> None:
        self.slope = gate = at.get("output")
        if run.h is run.c:
            return
        value = run.h[block.rows]  # of the output activation, where there is no gate
        if gate is not None:
            value = run.c[block.rows]
            if run.means is not None:
                value = normalised(run, value)[0]
            if run.out is not None:
                activate(value, None, run.out, spare)
                value = spare
            assert self.output is not None
            _times_sigmoid_slope(value, gate, self.output)
        if run.out is not None:
            one = torch.ones_like(value) if gate is None else gate
            activation_gradient(one, value, run.out, self._slope)
            self.slope = self._slope


class _StepsBack:
    """One time step after the other, on the way back."""

    def __init__(self, run: Backward) -> None:
        self.run = run
        self.recur = None
        if run.recurrent:
            stacked = run.stacked_recurrent()
            packing = run.packing
            self.recur = BlockProduct(stacked.t(), packing.num_texts, packing.num_steps)
        self.grad_h = run.first_h.new_zeros(0, run.channels)

    def through(self, block: Block, factors: _Factors) -> None:
        run, sizes = self.run, block.sizes
        gates = None if factors.output is None else factors.output.split(sizes)
        slopes = None if factors.slope is None else factors.slope.split(sizes)
        keep = factors.keep
        by_step = keep.split(sizes) if keep is not None and keep.dim() == 2 else None
        memory, spread = factors.memory.split(sizes), factors.spread.split(sizes)
        reading = run.columns(factors.grad)["reading"].split(sizes)
        to_h = None if run.to_h is None else run.to_h[block.rows].split(sizes)
        to_c = None if run.to_c is None else run.to_c[block.rows].split(sizes)
        normed, offsets = run.norm_weight is not None, run.packing.offsets
        all_c = run.walk.carried[0]
        grad_h = self.grad_h
        for t in range(len(sizes) - 1, -1, -1):
            texts, g = sizes[t], memory[t]
            carried = all_c if texts == len(all_c) else all_c[:texts]
            if len(grad_h) != texts:
                grad_h = F.pad(grad_h, (0, 0, 0, texts - len(grad_h)))
            if to_h is not None:
                grad_h.add_(to_h[t])
            if gates is not None:
                gates[t].mul_(grad_h)
            if normed:
                rows = slice(offsets[block.start + t], offsets[block.start + t + 1])
                reached = grad_h if slopes is None else grad_h * slopes[t]
                torch.add(run.back_norm(reached, rows), carried, out=g)
            elif slopes is not None:
                torch.addcmul(carried, grad_h, slopes[t], out=g)
            else:
                torch.add(carried, grad_h, out=g)
            if to_c is not None:
                g.add_(to_c[t])
            spread[t].mul_(g.unsqueeze(1))
            if by_step is not None:
                torch.mul(g, by_step[t], out=carried)
            elif keep is not None:
                torch.mul(g, keep, out=carried)
            else:
                carried.copy_(g)
            grad_h = grad_h.zero_() if self.recur is None else self.recur(reading[t])
        self.grad_h = grad_h


def _times_sigmoid_slope(factor: Tensor, value: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(factor, value, grad_input=out)
