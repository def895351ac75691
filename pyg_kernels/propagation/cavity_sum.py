"""Sums of messages along edges, as belief propagation takes them: without the answer's share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.edges import Edges, weighted


@dataclass(frozen=True)
class ReverseEdges:
    """The reverse edges of each edge: from its target to its source.

    Args:
        edge: The one reverse edge of each edge, int64 of shape :obj:`(E,)`; None where some edge
            has none or several.
        pair: Otherwise a number below E for each edge, :obj:`(E,)`, that it shares with its
            parallel edges alone; else None.
        reverse_pair: Otherwise the number of its reverse edges, :obj:`(E,)`; E without any.
    """

    edge: Tensor | None
    pair: Tensor | None = None
    reverse_pair: Tensor | None = None


def find_reverse(edges: Edges) -> ReverseEdges:
    """Finds the reverse of each edge by sorting; a self-loop is its own.

    Args:
        edges: The edges of a graph whose source and target nodes are the same.
    """
    source, target = edges.source.long(), edges.target.long()
    key = source * edges.num_targets + target
    key_back = target * edges.num_targets + source
    if torch.onnx.is_in_onnx_export():  # neither stable sorts nor binary search
        same, back = (k.unsqueeze(1) == key for k in (key, key_back))
        answered = back.int().argmax(1).masked_fill(~back.any(1), edges.num_edges)
        return ReverseEdges(None, same.int().argmax(1), answered)
    ordered, order = key.sort(stable=True)
    position = torch.searchsorted(ordered, key_back)
    ended = torch.cat([ordered, ordered.new_full((1,), -1)])  # -1: after the last edge, no edge
    found = ended.index_select(0, position) == key_back
    if not torch.compiler.is_compiling() and bool(
        found.all() and (ordered[1:] != ordered[:-1]).all()
    ):
        return ReverseEdges(order.index_select(0, position))
    first = torch.searchsorted(ordered, key)
    return ReverseEdges(None, first, position.masked_fill(~found, edges.num_edges))


def arriving_sum(message: Tensor, edges: Edges) -> Tensor:
    r"""Adds up the messages at their targets: :math:`s_v = \sum_{e = (u \to v)} w_e \nu_e`.

    Args:
        message: One row an edge, shape :obj:`(E, D)`.
        edges: The edges.

    Returns:
        The sums, of shape :obj:`(num_targets, D)`; under autocast in float32 at least.
    """
    return _arriving_sum(_weighted(message, edges), edges)


def cavity_sum(
    message: Tensor, edges: Edges, reverse: ReverseEdges, total: Tensor | None = None
) -> Tensor:
    r"""Sums, for each edge, the messages into its source but for those from its target.

    .. math::
        s_{i \to j} = \sum_{k \in \mathcal{N}(i) \setminus j} w_{k \to i}\, \nu_{k \to i}

    as the total at i less the messages from j: every one of them, where edges are parallel, and
    at a self-loop those of the node's self-loops. A message that is not finite leaves NaN where it
    is taken off again, one far larger than the others their rounding error.

    Args:
        message: One row an edge, shape :obj:`(E, D)`.
        edges: The edges.
        reverse: As `find_reverse` finds them.
        total: What `arriving_sum` gives of these messages, where it is known.

    Returns:
        The sums, of shape :obj:`(E, D)`; under autocast in float32 at least.
    """
    message = _weighted(message, edges)
    total = _arriving_sum(message, edges) if total is None else total
    total = total.index_select(0, edges.source)
    if reverse.edge is not None:
        return total - message.index_select(0, reverse.edge)
    assert reverse.pair is not None
    assert reverse.reverse_pair is not None
    answers = message.new_zeros(edges.num_edges + 1, message.size(1))
    answers = answers.index_add(0, reverse.pair, message)
    return total - answers.index_select(0, reverse.reverse_pair)


def _weighted(message: Tensor, edges: Edges) -> Tensor:
    return weighted(message.to(common_dtype(message)), edges.weight)


def _arriving_sum(message: Tensor, edges: Edges) -> Tensor:
    total = message.new_zeros(edges.num_targets, message.size(1))
    return total.index_add(0, edges.target, message)
