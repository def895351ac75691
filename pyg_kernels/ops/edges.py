"""The edges that the neighbour sums run over, and their order by target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Kept = TypeVar("Kept")

_BLOCK_ELEMENTS = 2**19  # numbers in one block's E x D buffer: small enough to stay in cache
_MOST_KINDS = 256
_FEWEST_EDGES_A_KIND = 4
_SAMPLE = 2048


@dataclass
class Edges:
    """Edges from source to target nodes, in the caller's order.

    Args:
        source: The source of each edge, int64 of shape :obj:`(E,)`.
        target: The target of each edge, int64 of shape :obj:`(E,)`.
        num_sources: The number of source nodes.
        num_targets: The number of target nodes (the same nodes unless the graph is bipartite).
        attr: Edge features: one row a *kind* of edge, shape :obj:`(T, edge_dim)`, or None.
        kind: The row of :obj:`attr` that belongs to each edge, int64 of shape :obj:`(E,)`;
            None where every edge has a row of its own (then T = E).

    Raises:
        ValueError: Where an index names no node (on CPU, outside ``torch.compile``).
    """

    source: Tensor
    target: Tensor
    num_sources: int
    num_targets: int
    attr: Tensor | None = None
    kind: Tensor | None = None

    def __post_init__(self) -> None:
        self._kept: dict[Callable[[Edges], Any], Any] = {}
        if self.source.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_range(self.source, self.num_sources, "source")
            _check_range(self.target, self.num_targets, "target")

    @property
    def num_edges(self) -> int:
        return self.source.numel()

    def by_target(self) -> SortedEdges:
        """These edges sorted by target; sorted once, then kept."""
        return self.kept(_sort_by_target)

    def kept(self, make: Callable[[Edges], Kept]) -> Kept:
        """What a function makes of these edges; made once, then kept."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return cast(Kept, self._kept[make])

    def edge_rows(self, table: Tensor) -> Tensor:
        """Spreads a table with one row a kind to one row an edge."""
        return table if self.kind is None else table.index_select(0, self.kind)


@dataclass(frozen=True)
class SortedEdges:
    """Edges sorted by target: those that end in node v are ``offset[v]:offset[v + 1]``.

    :obj:`row` is the row of a table of kinds that belongs to each edge, or None for a table
    with a row for each edge in this order.
    """

    source: Tensor
    target: Tensor
    offset: Tensor
    row: Tensor | None

    def blocks(self, channels: int) -> list[tuple[slice, slice]]:
        """Cuts the edges into runs of whole targets: (edges, targets) of each run."""
        num_edges, num_targets = self.source.numel(), self.offset.numel() - 1
        if num_edges == 0:
            return []
        length = max(1, _BLOCK_ELEMENTS // max(1, channels))
        if num_edges <= length:
            return [(slice(0, num_edges), slice(0, num_targets))]
        starts = torch.arange(length, num_edges, length, device=self.offset.device)
        rows = torch.searchsorted(self.offset, starts).unique().tolist()
        rows = [0, *(v for v in rows if 0 < v < num_targets), num_targets]
        ends = self.offset[torch.tensor(rows, device=self.offset.device)].tolist()
        return [
            (slice(ends[i], ends[i + 1]), slice(rows[i], rows[i + 1])) for i in range(len(rows) - 1)
        ]


def _check_range(index: Tensor, num_nodes: int, side: str) -> None:
    if index.numel() == 0:
        return
    least, most = (int(value) for value in index.aminmax())
    if least < 0 or most >= num_nodes:
        raise ValueError(
            f"edge_index names {side} node {most if most >= num_nodes else least}, but there are "
            f"{num_nodes} {side} nodes: expected 0 to {num_nodes - 1}"
        )


def _sort_by_target(edges: Edges) -> SortedEdges:
    source, target, row = edges.source, edges.target, edges.kind
    if not bool((target[1:] >= target[:-1]).all()):
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        row = order if edges.kind is None else edges.kind[order]
    counts = torch.bincount(target, minlength=edges.num_targets)
    offset = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return SortedEdges(source, target, offset, row)


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Finds the few distinct rows of a large table, such as the bond types of molecules.

    A weight that depends on edge features is then computed once for each kind of edge, not once
    an edge. The rows are compared exactly: a random projection only proposes which are equal.

    Args:
        rows: The table, of shape :obj:`(E, edge_dim)`, that requires no gradient.

    Returns:
        The distinct rows, :obj:`(T, edge_dim)`, and the index of each row among them,
        :obj:`(E,)`; or None where rows hardly repeat (continuous features).
    """
    num_rows, width = rows.shape
    if num_rows < 2 * _FEWEST_EDGES_A_KIND or width == 0:
        return None
    direction = torch.linspace(1.0, 2.0, width, dtype=torch.float64, device=rows.device)
    keys = rows.to(torch.float64) @ torch.exp(direction).frac_()
    sample = keys[:: max(1, num_rows // _SAMPLE)].unique()
    limit = min(_MOST_KINDS, num_rows // _FEWEST_EDGES_A_KIND)
    if sample.numel() > limit:
        return None
    index = torch.searchsorted(sample, keys).clamp_(max=sample.numel() - 1)
    if not torch.equal(sample[index], keys):  # rare rows that the sample missed
        sample, index = keys.unique(return_inverse=True)
        if sample.numel() > limit:
            return None
    first = torch.empty(sample.numel(), dtype=torch.long, device=rows.device)
    first[index] = torch.arange(num_rows, device=rows.device)
    distinct = rows.index_select(0, first)
    if not torch.equal(distinct.index_select(0, index), rows):  # collision, or NaN
        return None
    return distinct, index
