"""The walks' scan with its projections, as one autograd function on CPU.

A product's output of several megabytes is new memory each time, and the system takes longer to
hand it out than the scan to read it. Here the projections and gates of all tokens are one
product, whose output the scan reads in place; in the backward their gradients live in one block
of time steps at a time, which goes into the products with the input and the weights while it is
still in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.activations import activate, activation_gradient
from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.linear_scan.blocked import (
    BLOCK_ROWS,
    Block,
    DecayGradient,
    WalkBlocks,
    workspace,
)
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.products import BlockProduct, weight_gradient
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active


class ProjectedWalkScan(torch.autograd.Function):
    """Inputs: packing, combine, normalize, the activation's name or None, x, the bias or None, the
    gate's bias or None, the decay or None where it is gated, the initial states, W^(1)..W^(n), and
    last the gate's weight where it is gated.

    Outputs: h, the activation of c_n plus the bias, and c_1..c_n; then, for the backward, the
    projections of each order and the gates.
    """

    @staticmethod
    def forward(
        packing: Packing,
        combine: str,
        normalize: bool,
        act: str | None,
        x: Tensor,
        bias: Tensor | None,
        gate_bias: Tensor | None,
        decay: Tensor | None,
        initial: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        order, _, channels = initial.shape
        h, *states = (x.new_empty(x.size(0), channels) for _ in range(1 + order))
        walk = WalkBlocks(packing, combine, normalize, initial, states)
        products = [BlockProduct(weight, BLOCK_ROWS, len(walk.blocks)) for weight in weights]
        projected = [x.new_empty(x.size(0), weight.size(0)) for weight in weights]
        for block in walk.blocks:
            rows = block.rows
            p = [projection[rows] for projection in projected]
            for product, out in zip(products, p, strict=True):
                product(x[rows], out=out)
            decays = p[-1].add_(gate_bias).sigmoid_() if gate_bias is not None else decay
            assert decays is not None
            walk.forward(block, p[:order], decays)
            activate(states[-1][rows], bias, act, h[rows])
        return (h, *states, *projected)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.packing, ctx.combine, ctx.normalize, ctx.act, *tensors = inputs
        ctx.order = tensors[4].size(0)
        ctx.mark_non_differentiable(*output[1 + ctx.order :])
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, bias, gate_bias, decay, initial, *rest = ctx.saved_tensors
        packing, order, grads = ctx.packing, ctx.order, grads[: 1 + ctx.order]
        count = order if gate_bias is None else order + 1
        weights, (h, *states), projected = rest[:count], rest[count:-count], rest[-count:]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_definition, packing, ctx.combine, ctx.normalize, ctx.act)
            inputs = (*[None] * 4, x, bias, gate_bias, decay, initial, *weights)
            return by_definition(run, inputs, ctx.needs_input_grad, grads)
        needs_x, needs_bias, _, needs_decay, needs_initial, *needs_weights = ctx.needs_input_grad[
            4:
        ]
        grad_h, *reaching = (None if g is None else g.contiguous() for g in grads)
        walk = WalkBlocks(packing, ctx.combine, ctx.normalize, initial, states)
        walk.start_backward()
        outward = _Outward(x, weights, walk, needs_x, needs_weights)
        total = None
        if decay is not None and needs_decay:
            total = DecayGradient(decay, states[0], walk.longest)
        grad_gate_bias = None if gate_bias is None else torch.zeros_like(gate_bias)
        grad_bias = torch.zeros_like(bias) if bias is not None and needs_bias else None
        for block in reversed(walk.blocks):
            rows = block.rows
            grad_p = outward.gradients(block)
            upstream = [None if g is None else g[rows] for g in reaching]
            if grad_h is not None:
                into = grad_p[order - 1]  # read before it is written to
                activation_gradient(grad_h[rows], h[rows], ctx.act, into)
                if grad_bias is not None:
                    grad_bias += into.sum(0)
                upstream[-1] = into if upstream[-1] is None else into.add_(upstream[-1])
            p = [projection[rows] for projection in projected]
            to_decay = None
            if gate_bias is not None:
                # One gate a channel: its gradient is made where it belongs.
                to_decay = grad_p[order] if len(gate_bias) > 1 else outward.scratch[: len(p[0])]
            elif total is not None:
                to_decay = total.at(block)
            decays = p[-1] if decay is None else decay
            walk.backward(block, p[:order], decays, upstream, grad_p[:order], to_decay)
            if grad_gate_bias is not None and to_decay is not None:
                if to_decay.size(1) > grad_p[order].size(1):
                    to_decay = to_decay.sum(1, keepdim=True)
                torch.ops.aten.sigmoid_backward.grad_input(
                    to_decay, decays, grad_input=grad_p[order]
                )
                grad_gate_bias += grad_p[order].sum(0)
            elif total is not None:
                total.add(block)
            outward.multiply(block, grad_p)
        return (
            *(None, None, None, None, outward.grad_x, grad_bias, grad_gate_bias),
            None if total is None else total.value,
            torch.stack(walk.carried) if needs_initial else None,
            *outward.grad_weights,
        )


class _Outward:
    """The products of the projections' gradients with weights and input, block by block."""

    def __init__(
        self,
        x: Tensor,
        weights: Sequence[Tensor],
        walk: WalkBlocks,
        needs_x: bool,
        needs_weights: Sequence[bool],
    ) -> None:
        self.x, self.walk = x, walk
        self.widths = [weight.size(0) for weight in weights]
        self.scratch = x.new_empty(walk.longest if self.widths[-1] == 1 else 0, self.widths[0])
        self.grad_x = torch.empty_like(x) if needs_x else None
        count = len(walk.blocks)
        self.back = [BlockProduct(w.t(), BLOCK_ROWS, count) for w in weights if needs_x]
        self.grad_weights = [
            torch.zeros_like(weight) if needed else None
            for weight, needed in zip(weights, needs_weights, strict=True)
        ]

    def gradients(self, block: Block) -> list[Tensor]:
        """Where the gradients of a block's projections go."""
        return workspace(self.x, [(block.num_rows, width) for width in self.widths], "products")

    def multiply(self, block: Block, gradients: Sequence[Tensor]) -> None:
        """Takes the gradients of a block on to the input and the weights."""
        rows = block.rows
        for k, (back, gradient) in enumerate(zip(self.back, gradients, strict=False)):
            assert self.grad_x is not None
            back(gradient, out=self.grad_x[rows], add=k > 0)
        begun = block is not self.walk.blocks[-1]
        for grad_weight, gradient in zip(self.grad_weights, gradients, strict=True):
            if grad_weight is not None:
                weight_gradient(self.x[rows], gradient, out=grad_weight, add=begun)


def _definition(
    packing: Packing, combine: str, normalize: bool, act: str | None, *inputs: Any
) -> tuple[Tensor, ...]:
    x, bias, gate_bias, decay, initial, *weights = inputs[4:]
    projections = [torch.nn.functional.linear(x, weight) for weight in weights]
    if gate_bias is not None:
        decay = torch.sigmoid(projections.pop() + gate_bias)
    every = decay.expand_as(projections[0])
    states = reference.walk_scan(projections, every, packing, initial, combine, normalize)
    h = states[-1] if bias is None else states[-1] + bias
    return (h if act is None else getattr(torch, act)(h), *states)
