"""The neighbour sums on CPU: gathered, weighted and added up block by block, with own backward.

Edges are taken in runs of whole targets, sorted by target, and each run's messages live in a
few buffers that stay in cache; no tensor of E x D numbers is made or kept for the backward,
which recomputes the gates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.edges import Edges, SortedEdges
from pyg_kernels.ops.neighbour_sum import reference
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

_BAG_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class _Block:
    """One run of edges, with its targets, and scratch buffers that all runs share."""

    def __init__(self, edges: SortedEdges, span: slice, targets: slice, scratch: list[Tensor]):
        self.source = edges.source[span]
        self.target = edges.target[span]
        self.row = None if edges.row is None else edges.row[span]
        self.span, self.targets = span, targets
        self.offset = edges.offset[targets.start : targets.stop + 1] - span.start
        self.buffers = [buffer[: span.stop - span.start] for buffer in scratch]

    def gather(self, table: Tensor, index: Tensor | None, buffer: int) -> Tensor:
        out = self.buffers[buffer]
        if index is None:
            return out.copy_(table[self.span])
        return torch.index_select(table, 0, index, out=out)

    def add_to_targets(self, message: Tensor, out: Tensor) -> None:
        """out[v] = the sum of the messages that end in v, for this run's targets."""
        if message.dtype in _BAG_DTYPES:
            every = torch.arange(message.size(0), device=message.device)
            out[self.targets] = F.embedding_bag(
                every, message, self.offset, mode="sum", include_last_offset=True
            )
        else:
            out[self.targets].index_add_(0, self.target - self.targets.start, message)

    def add_to_rows(self, message: Tensor, out: Tensor) -> None:
        if self.row is None:
            out[self.span] = message
        else:
            out.index_add_(0, self.row, message)


def _blocks(edges: SortedEdges, like: Tensor, buffers: int) -> Iterator[_Block]:
    channels = like.size(1)
    spans = edges.blocks(channels)
    longest = max((span.stop - span.start for span, _ in spans), default=0)
    scratch = [like.new_empty(longest, channels) for _ in range(buffers)]
    for span, targets in spans:
        yield _Block(edges, span, targets, scratch)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _zeros_like(tensor: Tensor | None, wanted: bool) -> Tensor | None:
    return torch.zeros_like(tensor) if tensor is not None and wanted else None


class NeighbourSum(torch.autograd.Function):
    """Inputs: z, the gate's source, target and kind projections, the bond factors, the edges."""

    @staticmethod
    def forward(
        z: Tensor,
        gate_source: Tensor | None,
        gate_target: Tensor | None,
        gate_kind: Tensor | None,
        bond: Tensor | None,
        edges: Edges,
    ) -> Tensor:
        gates = [_contiguous(g) for g in (gate_source, gate_target, gate_kind)]
        z, bond = z.contiguous(), _contiguous(bond)
        out = z.new_zeros(edges.num_targets, z.size(1))
        for block in _blocks(edges.by_target(), z, 3):
            message = block.gather(z, block.source, 0)
            if bond is not None:
                message.mul_(block.gather(bond, block.row, 1))
            if gate_source is not None:
                message.mul_(_gate(block, gates))
            block.add_to_targets(message, out)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.edges = inputs
        ctx.save_for_backward(*tensors, ctx.edges.source, ctx.edges.target)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors[:5]
        z, gate_source, gate_target, gate_kind, bond = inputs
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            return by_definition(partial(_definition, ctx.edges), inputs, needed, [grad])
        grad, z, bond = grad.contiguous(), z.contiguous(), _contiguous(bond)
        gates = [_contiguous(g) for g in (gate_source, gate_target, gate_kind)]
        grad_z = _zeros_like(z, needed[0])
        grad_gates = [_zeros_like(g, n) for g, n in zip(gates, needed[1:4], strict=True)]
        grad_bond = _zeros_like(bond, needed[4])
        for block in _blocks(ctx.edges.by_target(), z, 5):
            _backward_block(block, grad, z, gates, bond, grad_z, grad_gates, grad_bond)
        return grad_z, *grad_gates, grad_bond, None


def _definition(
    edges: Edges,
    z: Tensor,
    source: Tensor | None,
    target: Tensor | None,
    kind: Tensor | None,
    bond: Tensor | None,
) -> Tensor:
    gate = None if source is None or target is None else (source, target, kind)
    return reference.neighbour_sum(z, edges, gate, bond)


def _gate(block: _Block, gates: Sequence[Tensor | None]) -> Tensor:
    """sigmoid(source[u] + target[v] + kind) of a block's edges, in buffer 1 (and 2)."""
    source, target, kind = gates
    assert source is not None
    assert target is not None
    gate = block.gather(source, block.source, 1)
    gate.add_(block.gather(target, block.target, 2))
    if kind is not None:
        gate.add_(block.gather(kind, block.row, 2))
    return gate.sigmoid_()


def _backward_block(
    block: _Block,
    grad: Tensor,
    z: Tensor,
    gates: Sequence[Tensor | None],
    bond: Tensor | None,
    grad_z: Tensor | None,
    grad_gates: list[Tensor | None],
    grad_bond: Tensor | None,
) -> None:
    """Adds one block's share to every gradient that is not None."""
    upstream = block.gather(grad, block.target, 0)
    message = block.gather(z, block.source, 3)
    gate = None if gates[0] is None else _gate(block, gates)
    factor = None if bond is None else block.gather(bond, block.row, 4)
    if gate is not None:
        if any(g is not None for g in grad_gates):
            logit = torch.mul(upstream, message, out=block.buffers[2])
            if factor is not None:
                logit.mul_(factor)
            torch.ops.aten.sigmoid_backward.grad_input(logit, gate, grad_input=logit)
            if grad_gates[0] is not None:
                grad_gates[0].index_add_(0, block.source, logit)
            if grad_gates[1] is not None:
                block.add_to_targets(logit, grad_gates[1])
            if grad_gates[2] is not None:
                block.add_to_rows(logit, grad_gates[2])
        upstream.mul_(gate)
    if grad_bond is not None:
        block.add_to_rows(message.mul_(upstream), grad_bond)
    if grad_z is not None:
        grad_z.index_add_(0, block.source, upstream if factor is None else upstream.mul_(factor))


class NeighbourActivationSum(torch.autograd.Function):
    """Inputs: a, the kinds' shifts, the edges, the activation's name."""

    @staticmethod
    def forward(a: Tensor, kind: Tensor, edges: Edges, act: str) -> Tensor:
        a, kind = a.contiguous(), kind.contiguous()
        out = a.new_zeros(edges.num_targets, a.size(1))
        for block in _blocks(edges.by_target(), a, 2):
            block.add_to_targets(_activated(block, a, kind, act), out)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, kind, ctx.edges, ctx.act = inputs
        ctx.save_for_backward(a, kind, ctx.edges.source, ctx.edges.target)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, kind = ctx.saved_tensors[:2]
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            act, edges = ACTIVATIONS[ctx.act][1], ctx.edges
            return by_definition(
                lambda a, kind: reference.neighbour_activation_sum(a, edges, act, kind),
                (a, kind),
                ctx.needs_input_grad,
                [grad],
            )
        grad, a, kind = grad.contiguous(), a.contiguous(), kind.contiguous()
        grad_a = _zeros_like(a, ctx.needs_input_grad[0])
        grad_kind = _zeros_like(kind, ctx.needs_input_grad[1])
        slope = ACTIVATIONS[ctx.act][2]
        for block in _blocks(ctx.edges.by_target(), a, 3):
            value = _activated(block, a, kind, ctx.act)
            share = slope(block.gather(grad, block.target, 2), value)
            if grad_a is not None:
                grad_a.index_add_(0, block.source, share)
            if grad_kind is not None:
                block.add_to_rows(share, grad_kind)
        return grad_a, grad_kind, None, None


def _activated(block: _Block, a: Tensor, kind: Tensor, act: str) -> Tensor:
    value = block.gather(a, block.source, 0)
    value.add_(block.gather(kind, block.row, 1))
    return ACTIVATIONS[act][0](value)


_Slope = Callable[[Tensor, Tensor], Tensor]
_Unary = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, tuple[_Unary, _Unary, _Slope]] = {
    # name: in place, out of place, and upstream gradient x slope from the activation's value
    "relu": (torch.relu_, torch.relu, lambda g, y: torch.ops.aten.threshold_backward(g, y, 0)),
    "tanh": (torch.tanh_, torch.tanh, torch.ops.aten.tanh_backward),
    "sigmoid": (torch.sigmoid_, torch.sigmoid, torch.ops.aten.sigmoid_backward),
}
