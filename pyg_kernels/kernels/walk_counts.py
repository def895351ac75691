"""Kernels that count label sequences of walks, and pairs of labels at a distance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_choice, checked_count
from pyg_kernels.kernels.count_kernel import CountKernel
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import ALIKE, ODD, ODDER, mixed
from pyg_kernels.kernels.label_counts import LabelCounts, count_chunks, count_occurrences
from pyg_kernels.kernels.reading import Attributes, read_chunks

Occurrences = tuple[NDArray[np.int64], NDArray[np.int64]]


class LabelSequenceKernel(CountKernel):
    r"""The kernel of the label sequences that occur along walks.

    The patterns are the sequences of node and edge labels of walks of 1, ..., n nodes, those
    without turning back by default: no walk goes along :math:`u \to v \to u` (Mahé et al., 2004).
    On graphs without short cycles these walks are paths; on molecules, with chemical labels, the
    sequences of four atoms are RDKit's topological torsions.

    Args:
        num_nodes: n, the most nodes of a walk.
        node_label: As of :class:`WLSubtreeKernel`.
        edge_label: The same for edges.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        output: ``'features'`` or ``'gram'``: see :class:`WLSubtreeKernel`.
        compare: ``'dot'``, ``'min'`` or ``'minmax'``: see :class:`CountKernel`.
        non_backtracking: Whether walks do not turn back; otherwise all walks count.
        dtype, max_memory, verbose: See :class:`WLSubtreeKernel`.

    The number of walks grows with the number of nodes to the power of the mean degree (less one
    without turning back); this is a kernel for sparse graphs.

    Raises:
        ValueError, TypeError: As of :class:`WLSubtreeKernel`.
    """

    def __init__(
        self,
        num_nodes: int = 4,
        node_label: str | None = "x",
        edge_label: str | None = None,
        normalize: bool = False,
        output: str = "features",
        *,
        compare: str = "dot",
        non_backtracking: bool = True,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.num_nodes = num_nodes
        self.node_label = node_label
        self.edge_label = edge_label
        self.normalize = normalize
        self.output = output
        self.compare = compare
        self.non_backtracking = non_backtracking
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        checked_count(self.num_nodes, "num_nodes")
        checked_choice(self.non_backtracking, "non_backtracking", (False, True))
        super()._check()

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        chunks = read_chunks(items, Attributes(self.node_label, self.edge_label, are_labels=True))
        return count_chunks(
            chunks, lambda graphs: count_occurrences(graphs, self._sequences(graphs), dtype)
        )

    def _sequences(self, graphs: Graphs) -> Iterator[Occurrences]:
        """The graph and the hash of the sequence of each walk, by the number of nodes."""
        owner, (source, target) = graphs.owner(), graphs.edge_index
        yield _arrays(owner, mixed(graphs.x + ALIKE))
        order = torch.argsort(source, stable=True)
        degree = torch.bincount(source, minlength=graphs.num_nodes)
        begin = degree.cumsum(0) - degree
        edge = torch.arange(len(source), device=graphs.device)
        state = mixed(graphs.x + ALIKE).index_select(0, source)
        for number in range(2, self.num_nodes + 1):
            if number > 2:
                end = target.index_select(0, edge)
                more = degree.index_select(0, end)
                walk = torch.arange(len(edge), device=graphs.device).repeat_interleave(more)
                before = (more.cumsum(0) - more).index_select(0, walk)
                nth = torch.arange(len(walk), device=graphs.device) - before
                further = order[begin.index_select(0, end).index_select(0, walk) + nth]
                if self.non_backtracking:
                    came_from = source.index_select(0, edge).index_select(0, walk)
                    goes_on = target.index_select(0, further) != came_from
                    walk, further = walk[goes_on], further[goes_on]
                edge, state = further, state.index_select(0, walk)
            label = graphs.x.index_select(0, target.index_select(0, edge))
            if graphs.edge_attr is not None:
                label = label * ODDER + mixed(graphs.edge_attr.index_select(0, edge) + ALIKE)
            state = mixed(state * ODD + mixed(label + ODDER))
            yield _arrays(owner.index_select(0, source.index_select(0, edge)), state)


class ShortestPathKernel(CountKernel):
    r"""The shortest-path kernel: pairs of node labels, with the number of edges between them.

    .. math::
        K(G, G') = \sum_{u, v \in G} \sum_{u', v' \in G'}
        [l_u = l_{u'}] [l_v = l_{v'}] [d(u, v) = d(u', v')]

    over the ordered pairs of different nodes that a path joins (Borgwardt and Kriegel, 2005).
    Edges have length 1. On molecules, with chemical labels, the patterns are RDKit's atom pairs.

    Args:
        max_length: The largest distance that counts; None: all.
        node_label: As of :class:`WLSubtreeKernel`.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        output: ``'features'`` or ``'gram'``: see :class:`WLSubtreeKernel`.
        compare: ``'dot'``, ``'min'`` or ``'minmax'``: see :class:`CountKernel`.
        dtype, max_memory, verbose: See :class:`WLSubtreeKernel`.

    Raises:
        ValueError, TypeError: As of :class:`WLSubtreeKernel`.
    """

    def __init__(
        self,
        max_length: int | None = None,
        node_label: str | None = "x",
        normalize: bool = False,
        output: str = "features",
        *,
        compare: str = "dot",
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.max_length = max_length
        self.node_label = node_label
        self.normalize = normalize
        self.output = output
        self.compare = compare
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        if self.max_length is not None:
            checked_count(self.max_length, "max_length")
        super()._check()

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        chunks = read_chunks(items, Attributes(self.node_label, are_labels=True))
        return count_chunks(
            chunks, lambda graphs: count_occurrences(graphs, [self._pairs(graphs)], dtype)
        )

    def _pairs(self, graphs: Graphs) -> Occurrences:
        """The graph and the hash of each pair."""
        labels, ptr = mixed(graphs.x + ALIKE).cpu(), graphs.ptr.tolist()
        edge_ptr, edges = graphs.edge_ptr.tolist(), graphs.edge_index.cpu().numpy()
        first, second, distance, owner = [], [], [], []
        for i, (start, stop) in enumerate(pairwise(ptr)):
            source, target = edges[:, edge_ptr[i] : edge_ptr[i + 1]] - start
            size = stop - start
            ones = np.ones(len(source))
            adjacency = sparse.csr_matrix((ones, (source, target)), shape=(size, size))
            most = np.inf if self.max_length is None else self.max_length
            length = dijkstra(adjacency, unweighted=True, limit=most)
            u, v = np.nonzero(np.isfinite(length) & (length > 0))
            first.append(u + start)
            second.append(v + start)
            distance.append(length[u, v].astype(np.int64))
            owner.append(np.full(len(u), i))
        u, v, length, graph = map(np.concatenate, (first, second, distance, owner))
        state = mixed(labels[torch.from_numpy(u)] * ODD + torch.from_numpy(length))
        return graph, mixed(state + labels[torch.from_numpy(v)] * ODDER).numpy()


def _arrays(owner: Tensor, labels: Tensor) -> Occurrences:
    return owner.cpu().numpy(), labels.cpu().numpy()
