"""The neighbour sums on CPU where edges share messages: each is made once, then added up.

All edges of one kind that leave one node carry the same message. Of a molecule's edges about half
are such repetitions. Products with the kind's row then go over fewer rows, kind by kind without a
gathered table, and sums are bags of rows in both directions: none scatters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.activations import activate, activation_gradient
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import reference
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

_MOST_SPANS = 32
_MOST_MESSAGES_AN_EDGE = 0.75
_MOST_NUMBERS = 2**22  # in a table of messages: small enough to stay in cache


@dataclass(frozen=True)
class Bags:
    """Sums of rows of a table: row ``index[begin[i]:begin[i + 1]]`` go into sum i.

    Args:
        index: Rows, int64.
        begin: Where each sum's rows begin, and the number of all rows, int64.
    """

    index: Tensor
    begin: Tensor

    @classmethod
    def of(cls, rows: Tensor, sums: Tensor, num_sums: int) -> Bags:
        """Row ``rows[k]`` goes into sum ``sums[k]``; the order of k is kept within a sum."""
        if not bool((sums[1:] >= sums[:-1]).all()):
            rows = rows.index_select(0, torch.argsort(sums, stable=True))
        counts = torch.bincount(sums, minlength=num_sums)
        return cls(rows, torch.cat([counts.new_zeros(1), counts.cumsum(0)]))

    def __call__(self, table: Tensor) -> Tensor:
        """The sums, one row each."""
        return F.embedding_bag(self.index, table, self.begin, mode="sum", include_last_offset=True)


@dataclass(frozen=True)
class Messages:
    """The distinct messages of edges, by kind and by source.

    Args:
        source: The node that each message leaves.
        spans: ``(kind, first, end)`` of each kind that occurs: where its messages lie.
        to_targets: From messages to the sums over neighbours.
        from_targets: From gradients of these sums to those of messages.
        to_sources: From gradients of messages to those of the nodes that they leave.
    """

    source: Tensor
    spans: list[tuple[int, int, int]]
    to_targets: Bags
    from_targets: Bags
    to_sources: Bags

    @property
    def number(self) -> int:
        return self.source.numel()


def distinct_messages(edges: Edges) -> Messages | None:
    """The distinct messages, or None where edges hardly share any.

    Args:
        edges: Edges, of a kind each.
    """
    if edges.attr is None or edges.kind is None:
        return None
    kinds, nodes = edges.attr.size(0), edges.num_sources
    if min(kinds, edges.num_edges) * nodes == 0 or kinds * nodes > _MOST_NUMBERS:
        return None
    sent = torch.zeros(kinds, nodes, dtype=torch.bool)
    sent[edges.kind, edges.source] = True
    counts = sent.sum(dim=1).tolist()
    number = sum(counts)
    if number > _MOST_MESSAGES_AN_EDGE * edges.num_edges or kinds - counts.count(0) > _MOST_SPANS:
        return None
    spans, first = [], 0
    for kind, count in enumerate(counts):
        if count:
            spans.append((kind, first, first + count))
            first += count
    place = sent.view(-1).cumsum(0) - 1
    message = place.index_select(0, edges.kind * nodes + edges.source)
    return Messages(
        sent.nonzero()[:, 1].contiguous(),
        spans,
        Bags.of(message, edges.target, edges.num_targets),
        Bags.of(edges.target, message, number),
        _by_source(sent, place.view(kinds, nodes)),
    )


def _by_source(sent: Tensor, place: Tensor) -> Bags:
    """From gradients of messages to those of nodes: a sum a node over the kinds that it sends."""
    counts = sent.sum(dim=0)
    return Bags(place.t()[sent.t()], torch.cat([counts.new_zeros(1), counts.cumsum(0)]))


def shared_messages(table: Tensor, edges: Edges) -> Messages | None:
    """The distinct messages of edges where sums of such rows are fastest by them.

    Args:
        table: One row a source node.
        edges: The edges.
    """
    if table.dtype != torch.float32 or edges.kind is None or table.numel() > _MOST_NUMBERS:
        return None
    messages = edges.kept(distinct_messages)
    if messages is None or messages.number * table.size(1) > _MOST_NUMBERS:
        return None
    return messages


def by_kind(message: Tensor, rows: Tensor, messages: Messages, change: Any) -> None:
    """Multiplies every message by its kind's row, or adds it, in place."""
    for kind, first, end in messages.spans:
        change(message[first:end], rows[kind])


def sums_by_kind(message: Tensor, like: Tensor, messages: Messages) -> Tensor:
    """The sum of the messages of each kind."""
    sums = torch.zeros_like(like)
    for kind, first, end in messages.spans:
        torch.sum(message[first:end], dim=0, out=sums[kind])
    return sums


class MessageSum(torch.autograd.Function):
    """Inputs: z, one row of factors a kind, the edges, their messages."""

    @staticmethod
    def forward(z: Tensor, bond: Tensor, edges: Edges, messages: Messages) -> Tensor:
        message = z.index_select(0, messages.source)
        by_kind(message, bond, messages, torch.Tensor.mul_)
        return messages.to_targets(message)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.edges, ctx.messages = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, bond = ctx.saved_tensors
        edges, messages = ctx.edges, ctx.messages
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            return by_definition(
                lambda z, bond: reference.neighbour_sum(z, edges, None, bond),
                (z, bond),
                ctx.needs_input_grad,
                [grad],
            )
        upstream = messages.from_targets(grad.contiguous())
        grad_bond = None
        if ctx.needs_input_grad[1]:
            products = z.index_select(0, messages.source).mul_(upstream)
            grad_bond = sums_by_kind(products, bond, messages)
        if not ctx.needs_input_grad[0]:
            return None, grad_bond, None, None
        by_kind(upstream, bond, messages, torch.Tensor.mul_)
        return messages.to_sources(upstream), grad_bond, None, None


class MessageActivationSum(torch.autograd.Function):
    """Inputs: a, one shift a kind, the edges, their messages, the activation's name."""

    @staticmethod
    def forward(
        a: Tensor, kind: Tensor, edges: Edges, messages: Messages, act: str
    ) -> tuple[Tensor, Tensor]:
        message = a.index_select(0, messages.source)
        by_kind(message, kind, messages, torch.Tensor.add_)
        activate(message, None, act, out=message)
        return messages.to_targets(message), message

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.edges, ctx.messages, ctx.act = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        a, kind, message = ctx.saved_tensors
        edges, messages = ctx.edges, ctx.messages
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            act = getattr(torch, ctx.act)
            return by_definition(
                lambda a, kind: reference.neighbour_activation_sum(a, edges, act, kind),
                (a, kind),
                ctx.needs_input_grad,
                [grad],
            )
        share = messages.from_targets(grad.contiguous())
        activation_gradient(share, message, ctx.act, out=share)
        grad_kind = sums_by_kind(share, kind, messages) if ctx.needs_input_grad[1] else None
        grad_a = messages.to_sources(share) if ctx.needs_input_grad[0] else None
        return grad_a, grad_kind, None, None, None
