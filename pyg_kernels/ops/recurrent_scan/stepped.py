"""The walk with recurrent gates: stepped through time, with its own backward.

The gradients of the matrices are taken out of the loop: one product over all tokens each. In
the loop, the matrices are held in the order in which the products are fastest, and all else is
done in place on one time step's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.ops.activations import activate, activation_gradient
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.products import BlockProduct, weight_gradient
from pyg_kernels.ops.recurrent_scan import reference
from pyg_kernels.ops.recurrent_scan.reference import Form, Gates
from pyg_kernels.ops.recurrent_scan.step import StepGradients, walk_step
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

ACTIVATIONS = (None, "tanh", "relu")


class RecurrentScan(torch.autograd.Function):
    """Inputs: form, packing, the eight gates, h, the initial states, P_1..P_n.

    Outputs: h, c_1..c_n; then, for the backward, the decays, and where they are there the output
    gate's values, the activated states and the states that the output map reads.
    """

    @staticmethod
    def forward(form: Form, packing: Packing, *tensors: Any) -> tuple[Tensor, ...]:
        gates = Gates(*tensors[:8])
        h, initial, *projections = tensors[8:]
        run = _Forward(form, packing, gates, projections)
        run.run(h, initial)
        kept = (run.decays, run.output_gates, run.activated, run.mapped)
        return (run.h, *run.states, *(t for t in kept if t is not None))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.form, ctx.packing, *tensors = inputs
        ctx.num_orders = len(tensors) - 10
        outside = output[1 + ctx.num_orders :]
        ctx.mark_non_differentiable(*outside)
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        inputs, output = saved[: 10 + ctx.num_orders], saved[10 + ctx.num_orders :]
        grads = grads[: 1 + ctx.num_orders]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_definition, ctx.form, ctx.packing)
            return by_definition(run, (None, None, *inputs), ctx.needs_input_grad, grads)
        backward = _Backward(ctx.form, ctx.packing, inputs, output, ctx.needs_input_grad[2:])
        return (None, None, *backward.run(grads))


def _definition(form: Form, packing: Packing, *inputs: Any) -> tuple[Tensor, ...]:
    gates, (h, initial, *projections) = Gates(*inputs[2:10]), inputs[10:]
    return reference.recurrent_scan(form, packing, gates, h, initial, projections)


def _reads(form: Form, gates: Gates) -> tuple[bool, bool]:
    """Whether the activated states differ from h, and the mapped ones from the states c."""
    return gates.output is not None or gates.highway is not None, gates.output_map is not None


class _Forward:
    def __init__(
        self, form: Form, packing: Packing, gates: Gates, projections: Sequence[Tensor]
    ) -> None:
        self.form, self.packing, self.gates, self.projections = form, packing, gates, projections
        self.act = cast("str | None", form.act)
        first = projections[0]
        gated, mapped = _reads(form, gates)
        self.h = first.new_empty(first.shape)
        self.states = [first.new_empty(first.shape) for _ in projections]
        self.decays = gates.decay.new_empty(gates.decay.shape)
        self.output_gates = self.h.new_empty(self.h.shape) if gates.output is not None else None
        self.activated = self.h.new_empty(self.h.shape) if gated else None
        self.mapped = self.h.new_empty(self.h.shape) if mapped else None

    def run(self, h: Tensor, initial: Tensor) -> None:
        form, packing, gates = self.form, self.packing, self.gates
        split, width = packing.split, gates.decay.size(1)
        recur = BlockProduct(gates.recurrent, packing.num_texts, packing.num_steps)
        project = _product(gates.output_map, packing)
        steps = [split(p) for p in self.projections]
        c_rows = [split(c) for c in self.states]
        h_rows, decay_rows, decay_in = split(self.h), split(self.decays), split(gates.decay)
        output_rows, activated_rows = _split(packing, self.output_gates, self.activated)
        mapped_rows, output_in = _split(packing, self.mapped, gates.output)
        highway, carried = _split(packing, gates.highway, gates.carried)
        combined = torch.mul if form.combine == "mul" else torch.add
        before = list(initial.unbind(0))
        scratch = h.new_empty(h.shape)
        mask, texts = gates.mask, packing.num_texts
        for t, size in enumerate(packing.batch_sizes):
            if size != texts:
                texts, scratch, h = size, scratch[:size], h[:size]
                before = [c[:size] for c in before]
                mask = None if mask is None else mask[:size]
            logits = recur(h if mask is None else h * mask)
            decay = decay_rows[t]
            part = logits if output_rows is None else logits[:, :width]
            torch.add(decay_in[t], part, out=decay).sigmoid_()
            p, out = [step[t] for step in steps], [c[t] for c in c_rows]
            z = walk_step(p, before, decay, out, combined, form.normalize, scratch)
            h = h_rows[t]
            u = h if activated_rows is None else activated_rows[t]
            state = _state(form, z, out, scratch)
            if project is not None:
                assert mapped_rows is not None
                state = project(mapped_rows[t].copy_(state))
            activate(state, gates.bias, self.act, u)
            if output_rows is not None:
                assert output_in is not None
                o = torch.add(output_in[t], logits[:, width:], out=output_rows[t]).sigmoid_()
                if highway is None:
                    torch.mul(o, u, out=h)
                else:
                    u = torch.mul(o, u, out=scratch)
            if highway is not None:
                assert carried is not None
                torch.lerp(carried[t], u, highway[t], out=h)
            before = out


class _Backward:
    def __init__(
        self,
        form: Form,
        packing: Packing,
        inputs: Sequence[Any],
        output: Sequence[Tensor],
        needed: Sequence[bool],
    ) -> None:
        self.form, self.packing, self.needed = form, packing, needed
        self.act = cast("str | None", form.act)
        self.gates = Gates(*inputs[:8])
        self.first_h, self.initial, *self.projections = inputs[8:]
        orders = len(self.projections)
        self.h, *self.states = output[: 1 + orders]
        self.decays, *kept = output[1 + orders :]
        gated, mapped = _reads(form, self.gates)
        self.output_gates = kept.pop(0) if self.gates.output is not None else None
        self.activated = kept.pop(0) if gated else self.h
        self.mapped = kept.pop(0) if mapped else None

    def run(self, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        self._make_room()
        gates, packing, form, width = self.gates, self.packing, self.form, self.width
        split, mask = packing.split, gates.mask
        recur = BlockProduct(gates.recurrent.t(), packing.num_texts, packing.num_steps)
        arriving_h, *arriving = (None if g is None else split(g.contiguous()) for g in grads)
        p_rows, c_rows = [split(p) for p in self.projections], [split(c) for c in self.states]
        grad_p_rows, decay_rows = [split(g) for g in self.grad_p], split(self.decays)
        logit_rows = split(self.grad_logits)
        walk = StepGradients(self.initial, form.combine == "mul", form.normalize)
        grad_h = torch.zeros_like(self.first_h)
        buffers = grad_h.new_empty(4, *grad_h.shape)
        for t in range(packing.num_steps - 1, -1, -1):
            texts = packing.batch_sizes[t]
            grad_decay, *scratch = buffers[:, :texts].unbind(0)
            g, logits = grad_h[:texts], logit_rows[t]
            if arriving_h is not None:
                g.add_(arriving_h[t])
            g = self._back_to_state(t, g, logits, scratch)
            if form.state != "z":
                for c in walk.carried if form.state == "sum" else walk.carried[-1:]:
                    c[:texts].add_(g)
            walk.step(
                [p[t] for p in p_rows],
                [c[t - 1][:texts] for c in c_rows] if t else [c[:texts] for c in self.initial],
                decay_rows[t],
                [None if upstream is None else upstream[t] for upstream in arriving],
                [out[t] for out in grad_p_rows],
                grad_decay,
                g if form.state == "z" else None,
            )
            total = grad_decay if width > 1 or grad_decay.size(1) == 1 else grad_decay.sum(1, True)
            logits[:, :width] = torch.ops.aten.sigmoid_backward(total, decay_rows[t])
            back = recur(logits)
            if mask is not None:
                back.mul_(mask[:texts])
            grad_h[:texts] = back
        return self._gradients(grad_h, walk.carried)

    def _make_room(self) -> None:
        """For what the loop writes, and its rows by time step."""
        gates, packing, h = self.gates, self.packing, self.h
        self.width = gates.decay.size(1)
        self.unmap = _product(None if gates.output_map is None else gates.output_map.t(), packing)
        # The logits' gradients side by side: those of the decay, then of the output gate.
        self.grad_logits = h.new_empty(h.size(0), gates.recurrent.size(0))
        mapped = gates.bias is not None or self.unmap is not None
        self.grad_pre = h.new_empty(h.shape) if mapped else None
        self.grad_p = [p.new_empty(p.shape) for p in self.projections]
        self.grad_f, self.grad_x = (
            h.new_empty(h.shape) if gates.highway is not None else None for _ in range(2)
        )
        self.output_rows, self.activated_rows = _split(packing, self.output_gates, self.activated)
        self.highway_rows, self.passed_rows = _split(packing, gates.highway, gates.carried)
        self.pre_rows, self.f_rows, self.x_rows = _split(
            packing, self.grad_pre, self.grad_f, self.grad_x
        )

    def _back_to_state(
        self, t: int, g: Tensor, logits: Tensor, scratch: Sequence[Tensor]
    ) -> Tensor:
        """From h[t] to the state, through all that follows the walk; fills in the logits' part."""
        out, gated, product = scratch
        assert self.activated_rows is not None
        u, outputs = self.activated_rows[t], self.output_rows
        if self.highway_rows is not None:
            assert self.passed_rows is not None
            assert self.f_rows is not None and self.x_rows is not None
            v = u if outputs is None else torch.mul(outputs[t], u, out=product)
            torch.sub(v, self.passed_rows[t], out=self.f_rows[t]).mul_(g)
            down = torch.mul(g, self.highway_rows[t], out=gated)
            torch.sub(g, down, out=self.x_rows[t])
            g = down
        if outputs is not None:
            reached = torch.mul(g, u, out=product)
            logits[:, self.width :] = torch.ops.aten.sigmoid_backward(reached, outputs[t])
            g = torch.mul(g, outputs[t], out=gated)
        activation_gradient(g, u, self.act, out)
        if self.pre_rows is not None:
            self.pre_rows[t].copy_(out)
        return out if self.unmap is None else self.unmap(out)

    def _gradients(self, grad_h: Tensor, carried: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        gates, needed, width = self.gates, self.needed, self.width
        grad_recurrent = grad_map = None
        if needed[1]:
            grad_recurrent = weight_gradient(self._read(), self.grad_logits)
        if needed[3] and self.grad_pre is not None and self.mapped is not None:
            grad_map = weight_gradient(self.mapped, self.grad_pre)
        return (
            self.grad_logits[:, :width],
            grad_recurrent,
            None if gates.output is None else self.grad_logits[:, width:],
            grad_map,
            self.grad_pre.sum(0) if needed[4] and self.grad_pre is not None else None,
            self.grad_f,
            self.grad_x,
            None,
            grad_h,
            torch.stack(list(carried)) if needed[9] else None,
            *self.grad_p,
        )

    def _read(self) -> Tensor:
        """The outputs before each token, as the gates read them."""
        packing, mask = self.packing, self.gates.mask
        if not packing.num_steps:
            return self.h
        first = self.first_h[: packing.batch_sizes[0]]
        if packing.uniform:
            read = torch.cat((first, self.h[: self.h.size(0) - first.size(0)]))
        else:
            read = torch.cat((first, self.h.index_select(0, packing.rows(self.h.device).before)))
        if mask is None:
            return read
        return read * torch.cat([mask[:texts] for texts in packing.batch_sizes])


def _product(weight: Tensor | None, packing: Packing) -> BlockProduct | None:
    if weight is None:
        return None
    return BlockProduct(weight, packing.num_texts, packing.num_steps)


def _split(packing: Packing, *tensors: Tensor | None) -> list[tuple[Tensor, ...] | None]:
    return [None if tensor is None else packing.split(tensor) for tensor in tensors]


def _state(form: Form, z: Tensor, c: Sequence[Tensor], scratch: Tensor) -> Tensor:
    if form.state == "c":
        return c[-1]
    if form.state == "z":
        return z
    if len(c) == 1:
        return c[0]
    total = torch.add(c[0], c[1], out=scratch)
    for state in c[2:]:
        total.add_(state)
    return total
