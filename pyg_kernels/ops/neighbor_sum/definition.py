"""The neighbour sum by definition: one message an edge, added up at its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.expression import Row, Value, apart, as_value, gradients, leaf

Activation = Callable[[Tensor], Tensor]
Gate = tuple[Tensor, Tensor, Tensor | None]
Index = tuple[Tensor, Tensor, Tensor | None]

# What a row belongs to; the last is an edge's type in a part of the nodes.
SOURCE, TARGET, EDGE, TYPE, PART = range(5)
_ROWS = (*map(Row, (SOURCE, SOURCE, TARGET, TYPE, TYPE, TYPE)), Row(EDGE, wide=False))
TABLES = (3, 4, 5)  # the op's tensors with one row per edge type
_ACTIVATIONS = ("none", "relu", "tanh", "sigmoid")


def activation(act: str | Activation) -> Activation:
    """An activation by name, or the callable itself."""
    if not isinstance(act, str):
        return act
    if act not in _ACTIVATIONS:
        raise ValueError(f"act={act!r}: expected one of {', '.join(map(repr, _ACTIVATIONS))}")
    found: Activation = (lambda x: x) if act == "none" else getattr(torch, act)
    return found


def neighbor_sum(*args: Any) -> Tensor:
    """Gathers, shifts, activates, weights and adds up; takes the arguments of the op."""
    tensors, index, num_targets, act = args[:6], args[7:10], *args[10:]
    weight = None if args[6] is None else args[6].unsqueeze(1)
    rows = message([*_on_edges(tensors, index), weight], act)
    return rows.new_zeros(num_targets, rows.size(1)).index_add(0, index[1], rows)


def message(rows: Sequence[Any], act: str | Activation) -> Any:
    """The message of an edge, from its rows of the op's tensors."""
    z, gate_source, gate_target, gate_edge, factor, shift, weight = rows
    found = activation(act)(z if shift is None else z + shift)
    for part in (_weight(gate_source, gate_target, gate_edge, factor), weight):
        found = found if part is None else part * found
    return found


@apart
def traced(
    there: Sequence[bool], act: str, of: Sequence[int] = (), by_part: bool = False
) -> tuple[list[Value], list[tuple[Row, Value]]]:
    """The values that kernels read for an edge, and those that they write, with their rows.

    Args:
        there: Which of the op's tensors are given.
        act: The activation.
        of: The tensors whose gradients are written; if there are none, the message is written.
        by_part: Whether the gradients of tables are added up by part; else each edge has a row.
    """
    leaves = [leaf(row) if has else None for row, has in zip(_ROWS, there, strict=True)]
    inputs, carried = [value for value in leaves if value is not None], message(leaves, act)
    if not of:
        return inputs, [(Row(TARGET, adds=True), carried)]
    inputs.append(leaf(Row(TARGET)))
    wanted = [value for k in of if (value := leaves[k]) is not None]
    on_table = Row(PART, adds=True) if by_part else Row(EDGE)
    rows = [on_table if k in TABLES else _ROWS[k]._replace(adds=_ROWS[k].wide) for k in of]
    found = gradients([(carried, inputs[-1])], wanted)
    return inputs, [(row, as_value(g or 0.0)) for row, g in zip(rows, found, strict=True)]


def message_weight(index: Index, gate: Gate | None, factor: Tensor | None) -> Tensor | None:
    """Gate times factor of each edge, shape (E, D); None where there is neither.

    Args:
        index: The source, target and type of each edge.
        gate: The gate's logits on source nodes, on target nodes and on edge types.
        factor: The factors, one row per edge type.
    """
    found: Tensor | None = _weight(*_on_edges((None, *(gate or (None,) * 3), factor), index)[1:])
    return found


def _weight(gate_source: Any, gate_target: Any, gate_edge: Any, factor: Any) -> Any:
    if gate_source is None:
        return factor
    logit = gate_source + gate_target
    opened = torch.sigmoid(logit if gate_edge is None else logit + gate_edge)
    return opened if factor is None else opened * factor


def _on_edges(tensors: Sequence[Tensor | None], index: Index) -> list[Tensor | None]:
    """Spreads z, the gate's logits and tables over the edges."""
    source, target, kind = index
    rows = zip(tensors, (source, source, target, kind, kind, kind), strict=False)
    return [t if t is None or row is None else t.index_select(0, row) for t, row in rows]
