"""Sums of messages along edges, as in belief propagation: without those of the reverse edge."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.edges import Edges, weighted


@dataclass(frozen=True)
class ReverseEdges:
    """The reverse edges of each edge, which lead from its target to its source.

    Args:
        edge: The one reverse edge of each edge, int64 of shape :obj:`(E,)`; None if some edge has
            none or several, or where that is not looked at (compilation and ONNX export).
        pair: If `edge` is None, a number below E for each edge, :obj:`(E,)`, that only parallel
            edges share; else None.
        reverse_pair: If `edge` is None, the `pair` of the reverse edges, or E for none; else None.
    """

    edge: Tensor | None
    pair: Tensor | None = None
    reverse_pair: Tensor | None = None


def find_reverse(edges: Edges) -> ReverseEdges:
    """Finds the reverse of each edge by sorting; a self-loop is its own reverse.

    Args:
        edges: The edges of a graph whose source and target nodes are the same.
    """
    source, target = edges.source.long(), edges.target.long()
    key = source * edges.num_targets + target
    key_back = target * edges.num_targets + source
    if torch.onnx.is_in_onnx_export():  # it has neither stable sorts nor binary search
        same, back = (k.unsqueeze(1) == key for k in (key, key_back))
        answered = back.int().argmax(1).masked_fill(~back.any(1), edges.num_edges)
        return ReverseEdges(None, same.int().argmax(1), answered)
    ordered, order = key.sort(stable=True)
    position = torch.searchsorted(ordered, key_back)
    ended = torch.cat([ordered, ordered.new_full((1,), -1)])  # -1: no edge follows the last one
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
    r"""Sums, for each edge, the messages into its source except those from its target.

    .. math::
        s_{i \to j} = \sum_{k \in \mathcal{N}(i) \setminus j} w_{k \to i}\, \nu_{k \to i}

    computed as the total at i minus the messages from j: those of all parallel edges, and for a
    self-loop those of the node's self-loops. Where it is subtracted, a message that is not finite
    leaves NaN, and one far larger than the others leaves rounding errors in their sum.

    Args:
        message: One row an edge, shape :obj:`(E, D)`.
        edges: The edges.
        reverse: The reverse edges, from `find_reverse`.
        total: The `arriving_sum` of these messages, if it is known.

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
