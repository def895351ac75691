"""The gated neighbour sums on CPU where edges share messages.

A gate belongs to an edge, but what it opens, and the part of its logit that the source and the kind
give, belong to a message (:mod:`~pyg_kernels.ops.neighbour_sum.messages`): these are made once. The
gates, one row an edge, are kept for the backward.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import reference
from pyg_kernels.ops.neighbour_sum.messages import (
    Bags,
    Messages,
    by_kind,
    distinct_messages,
    sums_by_kind,
)
from pyg_kernels.ops.neighbour_sum.reference import Gate
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

_MOST_NUMBERS = 2**22  # in a table of gates: small enough to stay in cache


def gates_fit(gate: Gate, edges: Edges) -> bool:
    """Whether gates are few enough to be kept, and each has a part that its kind gives."""
    source, _, kind = gate
    return kind is not None and edges.num_edges * source.size(1) <= _MOST_NUMBERS


class GatedMessageSum(torch.autograd.Function):
    """Inputs: z, the gate's three projections, one row of factors a kind, edges, messages."""

    @staticmethod
    def forward(
        z: Tensor,
        gate_source: Tensor,
        gate_target: Tensor,
        gate_kind: Tensor,
        bond: Tensor,
        edges: Edges,
        messages: Messages,
    ) -> tuple[Tensor, Tensor]:
        logit = gate_source.index_select(0, messages.source)
        by_kind(logit, gate_kind, messages, torch.Tensor.add_)
        gate = logit.index_select(0, messages.to_targets.index)
        gate.add_(gate_target.index_select(0, edges.by_target().target)).sigmoid_()
        message = _message(z, bond, messages).index_select(0, messages.to_targets.index)
        return _to_targets(messages)(message.mul_(gate)), gate

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.edges, ctx.messages = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 7
        *inputs, gate = ctx.saved_tensors
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            return by_definition(
                partial(_definition, ctx.edges), inputs, ctx.needs_input_grad, [grad]
            )
        messages, needed = ctx.messages, ctx.needs_input_grad
        z, _, _, gate_kind, bond = inputs
        gradients: list[Tensor | None] = [None] * 7
        by_message = ctx.edges.kept(_edges_by_message)
        opened = grad.contiguous().index_select(0, ctx.edges.by_target().target)
        if any(needed[1:4]):
            logit = _message(z, bond, messages).index_select(0, messages.to_targets.index)
            logit.mul_(opened)
            torch.ops.aten.sigmoid_backward.grad_input(logit, gate, grad_input=logit)
            gradients[2] = _to_targets(messages)(logit) if needed[2] else None
            shared = by_message(logit)
            gradients[1] = messages.to_sources(shared) if needed[1] else None
            gradients[3] = sums_by_kind(shared, gate_kind, messages) if needed[3] else None
        if needed[0] or needed[4]:
            shared = by_message(opened.mul_(gate))
            if needed[4]:
                products = z.index_select(0, messages.source).mul_(shared)
                gradients[4] = sums_by_kind(products, bond, messages)
            if needed[0]:
                by_kind(shared, bond, messages, torch.Tensor.mul_)
                gradients[0] = messages.to_sources(shared)
        return tuple(gradients)


def _message(z: Tensor, bond: Tensor, messages: Messages) -> Tensor:
    """What each message carries before it is gated."""
    message = z.index_select(0, messages.source)
    by_kind(message, bond, messages, torch.Tensor.mul_)
    return message


def _to_targets(messages: Messages) -> Bags:
    """From edges in the order of their targets to the sums over neighbours."""
    begin = messages.to_targets.begin
    return Bags(torch.arange(messages.to_targets.index.numel()), begin)


def _edges_by_message(edges: Edges) -> Bags:
    """From edges in the order of their targets to their messages."""
    messages = edges.kept(distinct_messages)
    assert messages is not None
    index = messages.to_targets.index
    return Bags.of(torch.arange(index.numel()), index, messages.number)


def _definition(
    edges: Edges, z: Tensor, source: Tensor, target: Tensor, kind: Tensor, bond: Tensor
) -> Tensor:
    return reference.neighbour_sum(z, edges, (source, target, kind), bond)
