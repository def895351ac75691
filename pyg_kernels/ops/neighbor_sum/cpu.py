"""The neighbour sum on CPU: programs made from an edge's message, called for each edge.

No two tasks write to the same node, so threads need no locks.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.ops.compiled import array, kernel, run
from pyg_kernels.ops.expression import as_value
from pyg_kernels.ops.neighbor_sum.definition import EDGE, PART, TABLES, TARGET, TYPE, traced
from pyg_kernels.ops.program import Program, call

_MOST_PARTS, _FEWEST_PARTS = 64, 8  # each has its own sums by edge type


def sums(
    side: int,
    order: Sequence[Any],
    tensors: Sequence[Any],
    index: Sequence[Any],
    act: str,
    grad: Tensor | None = None,
    of: tuple[int, ...] = (),
) -> list[Tensor]:
    """The sums of messages at targets, or the gradients of some tensors: see the package."""
    z, (ends, edge_type), nodes = tensors[0], (index[:2], index[2]), order[0].numel() - 1
    channels, known = z.size(1), [tensors[k].size(0) for k in TABLES if tensors[k] is not None]
    types, rows = min(known, default=sys.maxsize), max(known, default=0)
    tables = [k in TABLES and edge_type is not None for k in of]
    parts = nodes
    if any(tables):  # so that many edges' sums hold less than messages
        parts = min(_MOST_PARTS, max(_FEWEST_PARTS, edge_type.numel() // (4 * max(types, 1))))
    outs = [
        z.new_zeros(parts * rows, channels) if by_part else z.new_empty(tensors[k].shape)
        for k, by_part in zip(of, tables, strict=True)
    ] or [z.new_empty(nodes, channels)]
    given = [t.resolve_neg() for t in (*tensors, grad) if t is not None]
    given = [t if t.stride(-1) == 1 else t.contiguous() for t in given]
    there = tuple(t is not None for t in tensors)
    clear, program = _programs(there, act, z.dtype, of, any(tables))
    table = program.table({"in": [(t, 0) for t in given], "out": [(t, 0) for t in outs]})
    programs = clear.address, table[len(given) :], program.address, table
    num_far = (z if side == TARGET else given[-1]).size(0)
    edges = array(ends[1 - side]), num_far, array(edge_type, ends[0], 1), types, rows
    work = edges[0].size * channels
    run(_along, parts, work, parts, side, *map(array, order), *edges, *programs, channels)
    for i, k in enumerate(of):
        if tables[i]:
            outs[i] = outs[i].view(parts, rows, channels).sum(0)[: tensors[k].size(0)]
    return outs


@cache
def _programs(
    there: tuple[bool, ...], act: str, dtype: torch.dtype, of: tuple[int, ...], typed: bool
) -> tuple[Program, Program]:
    """Two programs: one clears a node's sums, the first outputs; one runs at each of its edges."""
    inputs, written = traced(there, act, of, typed)
    sums = [row._replace(adds=False) for row, _ in written if row.adds and row.index != PART]
    clear = Program({}, {"out": [(row, as_value(0.0)) for row in sums]}, dtype)
    return clear, Program({"in": inputs}, {"out": written}, dtype)


@kernel
def _along(
    first, last, parts, side, offset, order, far, num_far, edge_type, types, rows,
    clear, clear_table, program, table, channels,
):  # fmt: skip
    nodes, at = len(offset) - 1, np.zeros(8, np.int64)
    for part in range(first, last):
        for node in range(nodes * part // parts, nodes * (part + 1) // parts):
            at[side] = node
            call(clear, clear_table.ctypes.data, at.ctypes.data, 0, channels)
            for i in range(offset[node], offset[node + 1]):
                e = order[i]
                other, r = far[e], edge_type[e] if len(edge_type) else e
                if other < 0 or other >= num_far or r < 0 or r >= types:
                    raise ValueError("an edge names a node or an edge type that does not exist")
                at[1 - side], at[EDGE], at[TYPE], at[PART] = other, e, r, part * rows + r
                call(program, table.ctypes.data, at.ctypes.data, 0, channels)


@kernel
def counting_sort(first, last, node, offset, order):
    """Fills `order` with the positions sorted by node, and `offset`, which must hold zeros."""
    for _ in range(first, last):  # there is one task
        for v in node:
            if v < 0 or v >= len(offset) - 1:
                raise ValueError("an edge names a node that does not exist")
            offset[v + 1] += 1
        for v in range(1, len(offset)):
            offset[v] += offset[v - 1]
        place = offset.copy()
        for e in range(len(node)):
            v = node[e]
            order[place[v]] = e
            place[v] += 1
