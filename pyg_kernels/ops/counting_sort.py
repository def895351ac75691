"""Sorting edges by node on CPU, by counting."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from pyg_kernels.ops.compiled import kernel


@kernel
def counting_sort(first, last, node, offset, order):
    """Fills `order` with positions, sorted by node, and `offset`, zeros at first."""
    for _ in range(first, last):  # the one task
        for v in node:
            if v < 0 or v >= len(offset) - 1:
                raise ValueError("an edge names a node that is not there")
            offset[v + 1] += 1
        for v in range(1, len(offset)):
            offset[v] += offset[v - 1]
        place = offset.copy()
        for e in range(len(node)):
            v = node[e]
            order[place[v]] = e
            place[v] += 1
