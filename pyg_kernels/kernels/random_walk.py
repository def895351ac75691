"""The kernel over all walks of two graphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.node_pairs import (
    NodePairKernel,
    edge_base,
    graph_sums,
    have_same_edges,
    neighbor_sums,
    node_base,
    reversed_edges,
    sorted_by_target,
)
from pyg_kernels.kernels.reading import Attributes


class RandomWalkKernel(NodePairKernel):
    r"""The random-walk kernel of order n.

    .. math::
        K_W^n(G, G') = \lambda^{n-1} \sum_{u_1 \to \cdots \to u_n} \;
        \sum_{u'_1 \to \cdots \to u'_n} \; \prod_{i=1}^n \langle f_{u_i}, f_{u'_i} \rangle
        \prod_{i=2}^n \langle e_{u_{i-1} u_i}, e'_{u'_{i-1} u'_i} \rangle

    over the walks of n nodes of both graphs (Gärtner et al. 2003; Lei et al. 2017, eq. 5), by sums
    over neighbours on either side: the direct product graph is never made.
    :class:`~pyg_kernels.nn.RandomWalkConv` evaluates it against its reference walks (theorem 3).

    Args:
        order: n, the number of nodes in a walk.
        decay: :math:`\lambda`, at least 0.
        sum_orders: Whether to sum the kernels of orders 1, ..., n.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        node_feature: The attribute of :math:`f`: ``(N, F)`` vectors, compared by their inner
            product, or ``(N,)`` integers or N strings, labels compared by exact match. None: all
            nodes alike.
        edge_feature: The attribute of :math:`e`, ``(E, D)``, ``(E,)`` floating numbers, or
            integers or strings as labels. Where no graph has it, or with None, the factors of edges
            are 1.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Graphs are a ``Data``, a list or data set of ``Data``, or a ``Batch``; an edge leads from
    ``edge_index[0]`` to ``edge_index[1]``. O(E N' + N E') for a pair without edge features,
    O(E E') with them.

    Raises:
        ValueError: On an argument out of range; on no graphs, a graph without its features or with
            features of another size than the first, NaN, an edge outside its graph.
        TypeError: On items that are no graphs.

    Example:
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> RandomWalkKernel(order=2, decay=0.5)([path])  # 4 walks of 2 nodes in each
        tensor([[8.]])
    """

    def __init__(
        self,
        order: int = 3,
        decay: float = 0.5,
        sum_orders: bool = False,
        normalize: bool = False,
        node_feature: str | None = "x",
        edge_feature: str | None = "edge_attr",
        *,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.order = order
        self.decay = decay
        self.sum_orders = sum_orders
        self.normalize = normalize
        self.node_feature = node_feature
        self.edge_feature = edge_feature
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        checked_count(self.order, "order")
        checked_decay(self.decay)
        checked_choice(self.sum_orders, "sum_orders", (False, True))

    def _tensors_in_block(self) -> int:
        return self.order + 5

    def _attributes(self) -> Attributes:
        return Attributes(self.node_feature, self.edge_feature, edge_is_optional=True)

    def _prepare(self, part: Graphs) -> _Prepared:
        forwards = sorted_by_target(part)
        backwards = sorted_by_target(reversed_edges(part))
        symmetric = have_same_edges(forwards, backwards)
        return _Prepared(forwards, forwards if symmetric else backwards, symmetric)

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        # A walk of n nodes is one of p nodes that ends at some node, an edge, and one of n - p
        # nodes that starts at the next. In an undirected graph walks that start at a node are,
        # reversed, those that end there: then one table of half the length serves both.
        middle = self.order // 2
        ending = self._halves(a.forwards, b.forwards, middle, self.order - middle)
        if a.symmetric and b.symmetric:
            starting = ending
        else:
            starting = self._halves(a.backwards, b.backwards, 0, self.order - middle)
        total: Tensor | None = None
        for order in range(1 if self.sum_orders else self.order, self.order + 1):
            if order == 1:
                pairs = ending.walks[0]
            else:
                pairs = ending.sums[order // 2 - 1] * starting.walks[order - order // 2 - 1]
            walks = graph_sums(pairs, a.forwards, b.forwards) * self.decay ** (order - 1)
            total = walks if total is None else total + walks
        assert total is not None
        return total

    def _halves(self, a: Graphs, b: Graphs, num_sums: int, num_walks: int) -> _Halves:
        nodes, edges = node_base(a, b), edge_base(a, b)
        found = _Halves([nodes], [])
        for j in range(1, max(num_sums + 1, num_walks)):
            found.sums.append(neighbor_sums(found.walks[-1], a, b, edges))
            if j < num_walks:
                found.walks.append(nodes * found.sums[-1])
        return found


@dataclass(frozen=True)
class _Prepared:
    """Graphs, and graphs with all edges reversed, sorted by target."""

    forwards: Graphs
    backwards: Graphs
    symmetric: bool


@dataclass(frozen=True)
class _Halves:
    """The walks of 1, 2, ... nodes that end at pairs of nodes, and their sums over neighbours."""

    walks: list[Tensor]
    sums: list[Tensor]
