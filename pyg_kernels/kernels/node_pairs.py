"""Kernels on graphs that sum over pairs of their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.kernel import BlockKernel
from pyg_kernels.kernels.reading import GraphKernel, read_graphs
from pyg_kernels.ops.operator import is_plain, runs_compiled

_SELF_ROWS = 128  # most nodes of a block of graphs that are compared with themselves


class NodePairKernel(GraphKernel, BlockKernel):
    """A kernel on graphs that sums over pairs of their nodes."""

    def _read(self, items: Any, like: Graphs | None = None) -> Graphs:
        return read_graphs(items, self._attributes(), self.dtype, like)

    def _prepare(self, part: Graphs) -> Any:
        return sorted_by_target(part)

    def _self_limit(self, collection: Any) -> int:
        return min(self._limit(collection), _SELF_ROWS)


def node_base(a: Graphs, b: Graphs) -> Tensor:
    """The base kernel of all nodes of one collection and all of another, (N, M)."""
    return _base(a.x, b.x, a.node_label, b.node_label, a.dtype)


def edge_base(a: Graphs, b: Graphs) -> Tensor | None:
    """The base kernel of all edges of one collection and all of another, (E, E'), or None."""
    if a.edge_attr is None or b.edge_attr is None:
        return None
    return _base(a.edge_attr, b.edge_attr, a.edge_label, b.edge_label, a.dtype)


def neighbor_sums(values: Tensor, a: Graphs, b: Graphs, edges: Tensor | None) -> Tensor:
    r"""Sums over all pairs of edges that arrive at a pair of nodes.

    .. math::
        S[v, v'] = \sum_{u \to v} \sum_{u' \to v'} \langle e_{uv}, e'_{u'v'} \rangle \, Z[u, u']

    First along one graph, then along the other: the direct product graph is never made. Edges are
    sorted by target; their base kernel is (E, E'), or None for 1.
    """
    if _runs_compiled(values, edges):
        return _compiled_sums(values, a, b, edges)
    if edges is None:
        return _arriving(_arriving(values, a).t(), b).t()
    (source_a, target_a), (source_b, target_b) = a.edge_index, b.edge_index
    gathered = values.index_select(0, source_a).t().contiguous()
    along_b = gathered.index_select(0, source_b) * edges.t()
    return _added(_added(along_b, target_b, values.size(1)).t(), target_a, values.size(0))


def graph_sums(values: Tensor, a: Graphs, b: Graphs) -> Tensor:
    """Sums over the pairs of nodes of every pair of graphs, from (N, M) to (n, m)."""
    return _added(_added(values, a.owner(), len(a)).t(), b.owner(), len(b)).t()


def sorted_by_target(graphs: Graphs) -> Graphs:
    """The same graphs with the edges sorted by target, then by source."""
    source, target = graphs.edge_index
    order = (target * graphs.num_nodes + source).argsort(stable=True)
    return graphs.with_edges(order, graphs.edge_index.index_select(1, order))


def _base(
    x: Tensor, y: Tensor, label: Tensor | None, other: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Inner products of vectors where labels are equal; equality of labels without vectors."""
    if not len(x) or not len(y):  # of any size
        return torch.zeros(len(x), len(y), dtype=dtype, device=x.device)
    if x.dim() == 1:
        return torch.eq(
            x[:, None], y, out=torch.empty(len(x), len(y), dtype=dtype, device=x.device)
        )
    products = x @ y.t()
    return products if label is None or other is None else products * (label[:, None] == other)


def _runs_compiled(values: Tensor, edges: Tensor | None) -> bool:
    """Whether the compiled sums, which have no gradients, take these."""
    tensors = [values] if edges is None else [values, edges]
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return runs_compiled(values) and is_plain(*tensors) and not wanted


def _compiled_sums(values: Tensor, a: Graphs, b: Graphs, edges: Tensor | None) -> Tensor:
    from pyg_kernels.kernels import cpu
    from pyg_kernels.ops.compiled import array, run

    (source, target), (other_source, other_target) = map(array, (a.edge_index, b.edge_index))
    begin = np.searchsorted(target, np.arange(a.num_nodes + 1))
    out = torch.empty_like(values, memory_format=torch.contiguous_format)
    sides = begin, source, other_source, other_target
    work = len(source) * len(other_source)
    run(cpu.neighbor_sums, len(out), work, array(values), *sides, array(edges, values), array(out))
    return out


def _arriving(values: Tensor, graphs: Graphs) -> Tensor:
    """The sums of rows over the edges that arrive at each node."""
    source, target = graphs.edge_index
    return _added(values.index_select(0, source), target, graphs.num_nodes)


def _added(values: Tensor, place: Tensor, number: int) -> Tensor:
    """The sums of the rows that go to each of `number` places, (number, M)."""
    return values.new_zeros(number, values.size(1)).index_add(0, place, values)
