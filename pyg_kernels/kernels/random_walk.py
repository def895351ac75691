"""The kernel over all walks of two graphs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.kernels.all_orders import (
    Steps,
    spectral_radius,
    sum_of_all_orders,
    symmetric_sum_of_all_orders,
)
from pyg_kernels.kernels.arguments import Names, checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.blocks import consecutive_runs
from pyg_kernels.kernels.graphs import Graphs, line_graph, nodes_of
from pyg_kernels.kernels.node_pairs import (
    NodePairKernel,
    edge_base,
    graph_sums,
    have_same_edges,
    node_base,
    reversed_edges,
    sorted_by_target,
)


@dataclass(eq=False, repr=False)
class RandomWalkKernel(NodePairKernel):
    r"""The random-walk kernel of order n, or of all orders.

    .. math::
        K_W^n(G, G') = \lambda^{n-1} \sum_{u_1 \to \cdots \to u_n} \;
        \sum_{u'_1 \to \cdots \to u'_n} \; \prod_{i=1}^n \langle f_{u_i}, f_{u'_i} \rangle
        \prod_{i=2}^n \langle e_{u_{i-1} u_i}, e'_{u'_{i-1} u'_i} \rangle

    over the walks of n nodes of both graphs (Gärtner et al. 2003; Lei et al. 2017, eq. 5), by sums
    over neighbours on either side: the direct product graph is never made.
    :class:`~pyg_kernels.nn.RandomWalkConv` evaluates it against its reference walks (theorem 3).

    Without an order it is the geometric random-walk kernel :math:`\sum_{n \ge 1} K_W^n` (Gärtner et
    al. 2003), from a linear system on pairs of nodes (Vishwanathan et al. 2010, section 4), by
    conjugate gradients on undirected graphs with base kernels of at least 0, else term by term.

    Args:
        order: n, the number of nodes in a walk; None: the sum over all orders.
        decay: :math:`\lambda`, at least 0; with all orders below 1 / the spectral radius of the
            adjacency of every graph's product with itself.
        sum_orders: Whether to sum the kernels of orders 1, ..., n.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        node_feature: The attribute of :math:`f`: ``(N, F)`` vectors, compared by their inner
            product, or ``(N,)`` integers or N strings, labels compared by exact match. A list of
            names: vectors side by side, labels as tuples. None: all nodes alike.
        edge_feature: The attribute of :math:`e`, ``(E, D)``, ``(E,)`` floating numbers, or
            integers or strings as labels. Where no graph has it, or with None, the factors of edges
            are 1.
        node_label: Attributes whose rows are labels; their kernel of two nodes, 1 where all of them
            are equal and else 0, is a factor beside that of the features.
        edge_label: The same of edges.
        non_backtracking: Whether only walks count that never turn back, in either graph: those
            with :math:`u_{i+1} \ne u_{i-1}` for all i (Mahé et al. 2004). They go along the edges
            of the graph's line graph; a loop is not taken twice in a row.
        featurizer: How SMILES and RDKit's molecules become graphs. None: with the labels of
            :func:`molecule_graphs`; ``'default'``, ``'duvenaud'`` or ``'ogb'``: with the one-hot
            vectors of :func:`~pyg_kernels.chem.featurizer_by_name`; a function of one molecule:
            with the ``Data`` that it gives.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Graphs are a ``Data``, a ``Batch``, a data set, or a list of ``Data``, networkx's graphs, SMILES
    or RDKit's molecules; an edge leads from ``edge_index[0]`` to ``edge_index[1]``.
    O(E N' + N E') for a pair without edge features, O(E E') with them; without turning back, with
    the E edges in place of the nodes and the edges of the line graphs in place of the edges.

    Raises:
        ValueError: On an argument out of range; on a decay for which the sum over all orders
            diverges, with the largest one that is admissible; on no graphs, a graph without its
            features or with features of another size than the first, NaN, an edge outside its
            graph.
        TypeError: On items that are no graphs.

    Example:
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> RandomWalkKernel(order=2, decay=0.5)([path])  # 4 walks of 2 nodes in each
        tensor([[8.]])
    """

    edge_is_optional = True

    order: int | None = 3
    decay: float = 0.5
    sum_orders: bool = False
    normalize: bool = False
    node_feature: Names = "x"
    edge_feature: Names = "edge_attr"
    _: KW_ONLY
    node_label: Names = None
    edge_label: Names = None
    non_backtracking: bool = False

    def _check(self) -> None:
        super()._check()
        if self.order is not None:
            checked_count(self.order, "order")
        checked_decay(self.decay)
        checked_choice(self.sum_orders, "sum_orders", (False, True))
        checked_choice(self.non_backtracking, "non_backtracking", (False, True))

    def _tensors_in_block(self) -> int:
        return 10 if self.order is None else self.order + 5

    def _read(self, items: Any, like: Graphs | None = None) -> Graphs:
        graphs = super()._read(items, like)
        if self.order is None:
            self._check_convergence(graphs)
        return graphs

    def _runs(self, collection: Graphs, limit: int) -> list[Tensor]:
        if not self.non_backtracking:
            return super()._runs(collection, limit)
        sizes = torch.maximum(collection.ptr.diff(), collection.edge_ptr.diff())
        return [torch.arange(*run) for run in consecutive_runs(sizes.tolist(), limit)]

    def _prepare(self, part: Graphs) -> _Prepared:
        graphs = sorted_by_target(part)
        if self.non_backtracking:
            source, target = graphs.edge_index
            line = line_graph(graphs)
            forwards, ended = (nodes_of(line, graphs, node) for node in (source, target))
            return _Prepared(graphs, forwards, sorted_by_target(reversed_edges(ended)), False)
        backwards = sorted_by_target(reversed_edges(part))
        symmetric = have_same_edges(graphs, backwards)
        return _Prepared(graphs, graphs, graphs if symmetric else backwards, symmetric)

    def _steps(self, a: _Prepared, b: _Prepared, backwards: bool = False) -> Steps:
        x, y = (a.backwards, b.backwards) if backwards else (a.forwards, b.forwards)
        edges = edge_base(a.graphs, b.graphs) if self.non_backtracking else edge_base(x, y)
        return Steps(x, y, node_base(x, y), edges, self.non_backtracking)

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        if self.order is None:
            return self._all_orders(a, b)
        # A walk of n nodes is one of p nodes that ends at some node, an edge, and one of n - p
        # nodes that starts at the next. In an undirected graph walks that start at a node are,
        # reversed, those that end there: then one table of half the length serves both.
        middle = self.order // 2
        ending, carried = _halves(self._steps(a, b), middle, self.order - middle)
        starting = ending
        if not (a.symmetric and b.symmetric):
            starting, _ = _halves(self._steps(a, b, backwards=True), 0, self.order - middle)
        total: Tensor | None = None
        for order in range(1 if self.sum_orders else self.order, self.order + 1):
            if order == 1:
                walks = _single_nodes(a, b)
            else:
                pairs = carried[order // 2 - 1] * starting[order - order // 2 - 1]
                walks = graph_sums(pairs, a.forwards, b.forwards) * self.decay ** (order - 1)
            total = walks if total is None else total + walks
        assert total is not None
        return total

    def _all_orders(self, a: _Prepared, b: _Prepared) -> Tensor:
        steps = self._steps(a, b)
        if a.symmetric and b.symmetric and steps.are_positive():
            walks = symmetric_sum_of_all_orders(steps, self.decay)
        else:
            walks = sum_of_all_orders(steps, self.decay)
        if not self.non_backtracking:
            return graph_sums(walks, a.forwards, b.forwards)
        pairs = steps.carried(walks) * node_base(a.backwards, b.backwards)
        return _single_nodes(a, b) + self.decay * graph_sums(pairs, a.forwards, b.forwards)

    @torch.no_grad()
    def _check_convergence(self, graphs: Graphs) -> None:
        r"""Refuses a decay for which the kernel of a graph with itself diverges.

        The kernel of two graphs is at most :math:`\sqrt{K(G, G) K(G', G')}` in every order, so it
        converges where these do.
        """
        largest = 0.0
        for i in range(len(graphs)):
            one = self._prepare(graphs.part(torch.tensor([i])))
            largest = max(largest, spectral_radius(self._steps(one, one), self.decay))
        if self.decay * largest >= 1:
            raise ValueError(
                f"decay={self.decay!r} with order=None: the sum over walks of all orders diverges; "
                f"expected less than {1 / largest:.6g}, 1 / the spectral radius of the product "
                "graphs' adjacency"
            )


@dataclass(frozen=True)
class _Prepared:
    """Graphs with edges sorted by target, and what walks go along, forwards and backwards.

    They go along the edges; or, without turning back, from edge to edge of the line graph, with
    the features of the node that an edge leaves, or backwards, that it reaches.
    """

    graphs: Graphs
    forwards: Graphs
    backwards: Graphs
    symmetric: bool


def _single_nodes(a: _Prepared, b: _Prepared) -> Tensor:
    """The walks of one node."""
    return graph_sums(node_base(a.graphs, b.graphs), a.graphs, b.graphs)


def _halves(steps: Steps, num_carried: int, num_walks: int) -> tuple[list[Tensor], list[Tensor]]:
    """The walks of 1, 2, ... nodes that end at each pair, and as they are carried on."""
    walks, carried = [steps.nodes], []
    for j in range(1, max(num_carried + 1, num_walks)):
        carried.append(steps.carried(walks[-1]))
        if j < num_walks:
            walks.append(steps.ended(carried[-1]))
    return walks, carried
