"""The neighbour sums by definition: one message an edge, added up at its target."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyg_kernels.ops.edges import Edges

Gate = tuple[Tensor, Tensor, Tensor | None]


def edge_weight(edges: Edges, gate: Gate | None, bond: Tensor | None) -> Tensor | None:
    """The whole weight of each edge, gate times bond factor, shape (E, D); None where it is 1."""
    weight = None if bond is None else edges.edge_rows(bond)
    if gate is None:
        return weight
    source, target, kind = gate
    logit = source.index_select(0, edges.source) + target.index_select(0, edges.target)
    if kind is not None:
        logit = logit + edges.edge_rows(kind)
    opened = torch.sigmoid(logit)
    return opened if weight is None else opened * weight


def neighbour_sum(
    z: Tensor, edges: Edges, gate: Gate | None = None, bond: Tensor | None = None
) -> Tensor:
    """Gathers, weights and adds up: see :func:`pyg_kernels.ops.neighbour_sum.neighbour_sum`."""
    message = z.index_select(0, edges.source)
    weight = edge_weight(edges, gate, bond)
    return _add_up(message if weight is None else weight * message, edges)


def neighbour_activation_sum(
    a: Tensor, edges: Edges, act: Callable[[Tensor], Tensor], kind: Tensor | None = None
) -> Tensor:
    """Gathers, shifts, activates and adds up."""
    message = a.index_select(0, edges.source)
    if kind is not None:
        message = message + edges.edge_rows(kind)
    return _add_up(act(message), edges)


def _add_up(message: Tensor, edges: Edges) -> Tensor:
    out = message.new_zeros(edges.num_targets, message.size(1))
    return out.index_add(0, edges.target, message)
