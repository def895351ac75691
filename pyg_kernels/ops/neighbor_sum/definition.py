"""The neighbour sum by definition: one message an edge, added up at its target."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyg_kernels.ops.edges import weighted

Activation = Callable[[Tensor], Tensor]
Gate = tuple[Tensor, Tensor, Tensor | None]
Index = tuple[Tensor, Tensor, Tensor | None]

_ACTIVATIONS: dict[str, Activation] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def activation(act: str | Activation) -> Activation:
    """An activation by name, or the callable itself."""
    if not isinstance(act, str):
        return act
    if act not in _ACTIVATIONS:
        raise ValueError(f"act={act!r}: expected one of {', '.join(map(repr, _ACTIVATIONS))}")
    return _ACTIVATIONS[act]


def name_of(act: str | Activation | None) -> str | None:
    """The name of an activation that is fused; None for any other callable."""
    if act is None:
        return "none"
    if isinstance(act, str):
        activation(act)
        return act
    return next((name for name, known in _ACTIVATIONS.items() if act is known), None)


def neighbor_sum(
    z: Tensor,
    gate_source: Tensor | None,
    gate_target: Tensor | None,
    gate_edge: Tensor | None,
    factor: Tensor | None,
    shift: Tensor | None,
    weight: Tensor | None,
    source: Tensor,
    target: Tensor,
    edge_type: Tensor | None,
    num_targets: int,
    act: str | Activation,
) -> Tensor:
    """Gathers, shifts, activates, weights and adds up."""
    message = z.index_select(0, source)
    if shift is not None:
        message = message + _on_edges(shift, edge_type)
    message = activation(act)(message)
    gate = None
    if gate_source is not None and gate_target is not None:
        gate = (gate_source, gate_target, gate_edge)
    whole = message_weight((source, target, edge_type), gate, factor)
    if whole is not None:
        message = whole * message
    message = weighted(message, weight)
    return message.new_zeros(num_targets, message.size(1)).index_add(0, target, message)


def message_weight(index: Index, gate: Gate | None, factor: Tensor | None) -> Tensor | None:
    """Gate times factor of each edge, shape (E, D); None where there is neither.

    Args:
        index: The source, target and type of each edge.
        gate: The gate's logits on source nodes, on target nodes and on edge types.
        factor: The factors, one row an edge type.
    """
    source, target, edge_type = index
    weight = None if factor is None else _on_edges(factor, edge_type)
    if gate is None:
        return weight
    on_source, on_target, on_edge = gate
    logit = on_source.index_select(0, source) + on_target.index_select(0, target)
    if on_edge is not None:
        logit = logit + _on_edges(on_edge, edge_type)
    opened = torch.sigmoid(logit)
    return opened if weight is None else opened * weight


def _on_edges(table: Tensor, edge_type: Tensor | None) -> Tensor:
    return table if edge_type is None else table.index_select(0, edge_type)
