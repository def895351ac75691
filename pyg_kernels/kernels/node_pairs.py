"""Kernels on graphs that sum over pairs of their nodes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pyg_kernels.kernels.arguments import checked_choice
from pyg_kernels.kernels.blocks import BlockKernel, Collection
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.reading import Attributes, read_graphs

_SELF_ROWS = 128  # of a block in which only the pairs within a graph are wanted


class NodePairKernel(BlockKernel):
    """A kernel on graphs that sums over pairs of their nodes."""

    normalize: bool

    def _check(self) -> None:
        super()._check()
        checked_choice(self.normalize, "normalize", (False, True))

    @abstractmethod
    def _attributes(self) -> Attributes:
        """What the kernel reads of a graph."""

    def _read(self, items: Any, like: Graphs | None = None) -> Graphs:
        return read_graphs(items, self._attributes(), self.dtype, like)

    def _read_edges(self, items: Any) -> Graphs:
        """The graphs with the edge features that the kernel reads, without node features."""
        return read_graphs(items, replace(self._attributes(), node=None), self.dtype)

    def _prepare(self, part: Graphs) -> Any:
        return sorted_by_target(part)

    def _self_limit(self, collection: Collection) -> int:
        return min(self._limit(collection), _SELF_ROWS)


def node_base(a: Graphs, b: Graphs) -> Tensor:
    """The base kernel of all nodes of one collection and all of another, (N, M)."""
    return _base(a.x, b.x, a.dtype)


def edge_base(a: Graphs, b: Graphs) -> Tensor | None:
    """The base kernel of all edges of one collection and all of another, (E, E'), or None."""
    if a.edge_attr is None or b.edge_attr is None:
        return None
    return _base(a.edge_attr, b.edge_attr, a.dtype)


def neighbour_sums(
    values: Tensor, a: Graphs, b: Graphs, edges: Tensor | None, turned: Tensor | None = None
) -> Tensor:
    r"""Sums over all pairs of edges that arrive at a pair of nodes.

    .. math::
        S[v, v'] = \sum_{u \to v} \sum_{u' \to v'} \langle e_{uv}, e'_{u'v'} \rangle \, Z[u, u']

    First along one graph, then along the other: the direct product graph is never made.

    Args:
        values: Z, (N, M).
        a: The graphs of the rows, edges sorted by target.
        b: The graphs of the columns, likewise.
        edges: The base kernel of all edges of a and b, (E, E'), or None for 1.
        turned: The transpose of the values, where it is at hand.
    """
    if edges is None:
        return _arriving(_arriving(values.t() if turned is None else turned, b).t(), a)
    (source_a, target_a), (source_b, target_b) = a.edge_index, b.edge_index
    gathered = values.index_select(0, source_a).t().contiguous()
    along_b = gathered.index_select(0, source_b) * edges.t()
    arrived = values.new_zeros(values.size(1), len(source_a)).index_add(0, target_b, along_b)
    return values.new_zeros(values.shape).index_add(0, target_a, arrived.t().contiguous())


def graph_sums(values: Tensor, a: Graphs, b: Graphs) -> Tensor:
    """Sums over the pairs of nodes of every pair of graphs, from (N, M) to (n, m)."""
    return _sums(_sums(values, _nodes_of(a)).t(), _nodes_of(b)).t()


def reversed_edges(graphs: Graphs) -> Graphs:
    """The same graphs with all edges turned round."""
    return replace(graphs, edge_index=graphs.edge_index.flip(0))


def have_same_edges(graphs: Graphs, others: Graphs) -> bool:
    """Whether graphs on the same nodes, sorted by target, have equal edges with equal features."""
    if not torch.equal(graphs.edge_index, others.edge_index):
        return False
    if graphs.edge_attr is None or others.edge_attr is None:
        return True
    return torch.equal(graphs.edge_attr, others.edge_attr)


def sorted_by_target(graphs: Graphs) -> Graphs:
    """The same graphs with the edges sorted by target, then by source."""
    source, target = graphs.edge_index
    order = (target * graphs.num_nodes + source).argsort(stable=True)
    return replace(
        graphs,
        edge_index=graphs.edge_index.index_select(1, order),
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr.index_select(0, order),
    )


def _base(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    if x.dim() == 1:
        return torch.eq(
            x[:, None], y, out=torch.empty(len(x), len(y), dtype=dtype, device=x.device)
        )
    return x @ y.t()


def _arriving(values: Tensor, graphs: Graphs) -> Tensor:
    """The sums of rows over the edges that arrive at each node."""
    source, target = graphs.edge_index
    counts = torch.bincount(target, minlength=graphs.num_nodes)
    return _sums(values, _Rows(source, counts))


@dataclass
class _Rows:
    """Which rows are summed: those of each sum in a row, and how many they are."""

    picked: Tensor
    counts: Tensor


def _nodes_of(graphs: Graphs) -> _Rows:
    nodes = torch.arange(graphs.num_nodes, device=graphs.device)
    return _Rows(nodes, graphs.ptr.diff().to(graphs.device))


def _sums(values: Tensor, rows: _Rows) -> Tensor:
    """Sums of rows, (number of sums, M)."""
    if torch.is_grad_enabled() and values.requires_grad:
        place = torch.arange(len(rows.counts), device=values.device)
        place = place.repeat_interleave(rows.counts, output_size=len(rows.picked))
        picked = values.index_select(0, rows.picked)
        return values.new_zeros(len(rows.counts), values.size(1)).index_add(0, place, picked)
    if not len(rows.picked) or not values.size(1):
        return values.new_zeros(len(rows.counts), values.size(1))
    # Gathers and adds in one pass; it has no second derivative.
    offsets = rows.counts.cumsum(0) - rows.counts
    return embedding_bag(rows.picked, values.contiguous(), offsets, mode="sum")
