"""The kernel over all walks of two graphs, of one order or of all orders."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs
from torch import Tensor

from pyg_kernels.checks import check_flags, checked_count
from pyg_kernels.kernels.arguments import Names, checked_decay
from pyg_kernels.kernels.graphs import Graphs, consecutive_runs, line_graph
from pyg_kernels.kernels.node_pairs import (
    NodePairKernel,
    edge_base,
    graph_sums,
    neighbor_sums,
    node_base,
    sorted_by_target,
)
from pyg_kernels.ops.operator import is_plain

_DENSE = 64  # most pairs of nodes for which the whole adjacency matrix is made, for eigenvalues
_CHECKED_EVERY = 8  # terms of the series between two checks
_OF_EDGES = ("edge_index", "edge_attr", "edge_label")
_MOST_STEPS = 20_000  # of a sum over all orders


@dataclass(frozen=True)
class Steps:
    """The walks on pairs of nodes, or, if they do not turn back, on pairs of edges."""

    a: Graphs  # of the rows, or their line graphs, with edges sorted by target
    b: Graphs  # those of the columns
    first: Tensor  # the walks of one node (of one edge), (N, M)
    base: Tensor  # the factor of each further node (of each further edge and its target)
    edges: Tensor | None  # the factor of the edges in between; None: 1

    def arrived(self, walks: Tensor) -> Tensor:
        """Sums over the walks that arrive at each pair, without the factor of the pair itself."""
        return neighbor_sums(walks, self.a, self.b, self.edges)

    def further(self, walks: Tensor) -> Tensor:
        """The walks extended by one node."""
        return self.base * self.arrived(walks)

    def tables(self, num_arrived: int, num_walks: int) -> tuple[list[Tensor], list[Tensor]]:
        """The walks of 1, 2, ... nodes that end at each pair, and that arrive at each next pair."""
        walks, arrived = [self.first], list[Tensor]()
        for j in range(1, max(num_arrived + 1, num_walks)):
            arrived.append(self.arrived(walks[-1]))
            if j < num_walks:
                walks.append(self.base * arrived[-1])
        return walks, arrived

    def are_positive(self) -> bool:
        """Whether all base kernels are at least 0 and none may have derivatives."""
        return not self.have_derivatives() and not any(bool((t < 0).any()) for t in self.known())

    def have_derivatives(self) -> bool:
        """Whether base kernels may have derivatives."""
        return any(t.requires_grad or not is_plain(t) for t in self.known())

    def known(self) -> list[Tensor]:
        """The base kernels."""
        return [t for t in (self.first, self.base, self.edges) if t is not None]


def spectral_radius(steps: Steps, decay: float) -> float:
    """The rate at which walks of a graph with itself grow: the spectral radius of a step.

    The kernel of a graph with itself is at least 0 in every order, so this eigenvalue is positive.
    If an upper bound on it is already below 1 / `decay`, that bound is returned.
    """
    walks, size, rate = steps.first, steps.first.numel(), 0.0
    if not size:
        return 0.0
    is_positive, turn = steps.are_positive(), 1
    for step in range(1, len(walks) + 2):  # only walks with a cycle have more steps
        largest = float(walks.abs().max())
        if largest == 0:
            return 0.0
        before, walks = walks / largest, steps.further(walks / largest)
        if is_positive and step in (turn, len(before) + 1):  # the bound of Collatz and Wielandt
            known, turn = before > 0, 2 * turn
            rate = float((walks[known] / before[known]).max())
            if decay * rate < 1:
                return rate

    def product(values: np.ndarray) -> np.ndarray:
        further = steps.further(torch.from_numpy(values.copy()).to(walks).view_as(walks))
        return _numbers(further)

    if size <= _DENSE:
        return float(np.linalg.eigvals([product(row) for row in np.eye(size)]).real.max())
    adjacency = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        return float(eigs(adjacency, 1, which="LR", v0=_numbers(walks))[0][0].real)
    except ArpackError:
        return rate or float(steps.further(walks).norm() / walks.norm())


def _numbers(values: Tensor) -> np.ndarray:
    """All numbers of a tensor in a row; a tensor that ``torch.func`` passes has no memory."""
    values = values.reshape(-1).double().cpu()
    return values.numpy() if is_plain(values) else np.array(values.tolist())


def sum_of_all_orders(steps: Steps, decay: float) -> Tensor:
    r"""The walks of 1, 2, ... nodes with decay, :math:`X = F + \lambda B \circ S(X)`, term by term.

    F are the first walks, B is the factor of a node, and S sums over pairs of edges. Walks through
    a pair whose base kernel is 0 add only derivatives. Walks through one or two such pairs can be
    up to three times as long as the walks between these pairs.
    """
    total = walks = steps.first
    precision = torch.finfo(walks.dtype).eps
    zeros = steps.have_derivatives() and any(bool((t == 0).any()) for t in steps.known())
    most = None
    for number in range(_CHECKED_EVERY, _MOST_STEPS + 1, _CHECKED_EVERY):
        for _ in range(_CHECKED_EVERY):
            walks = decay * steps.further(walks)
            total = total + walks
        rest, whole = (graph_sums(t.detach().abs(), steps.a, steps.b) for t in (walks, total))
        if most is None and bool((rest <= precision * whole).all()):
            most = min(3 * number, _MOST_STEPS - _CHECKED_EVERY) if zeros else number
        if most is not None and number >= most:
            return total
    raise _unfinished(decay, steps.first.dtype)


def symmetric_sum_of_all_orders(steps: Steps, decay: float) -> Tensor:
    r"""The same by conjugate gradients, if F = B, S is symmetric and no base kernel is negative.

    :math:`X = B^{1/2} \circ Y` with :math:`Y - \lambda B^{1/2} \circ S(B^{1/2} \circ Y) = B^{1/2}`,
    one system for every pair of graphs; all systems are solved at the same time.
    """
    rows, columns = steps.a.owner(), steps.b.owner()

    def dots(x: Tensor, y: Tensor) -> Tensor:
        return graph_sums(x * y, steps.a, steps.b)

    def ratio(over: Tensor, under: Tensor) -> Tensor:
        """The ratio of each pair of graphs, at all its pairs of nodes; 0 for pairs already done."""
        found = torch.where(under > 0, over / under, 0.0)
        return found.index_select(0, rows).index_select(1, columns)

    root = steps.base.sqrt()
    solution, residual, direction = torch.zeros_like(root), root, root
    squared = dots(residual, residual)
    precision = torch.finfo(root.dtype)
    enough = (squared * precision.eps**2).clamp_min(precision.tiny)
    for _ in range(_MOST_STEPS):
        if not bool((squared > enough).any()):
            return root * solution
        image = direction - decay * root * steps.arrived(root * direction)
        length = ratio(squared, dots(direction, image))
        solution = solution + length * direction
        residual = residual - length * image
        before, squared = squared, dots(residual, residual)
        direction = residual + ratio(squared, before) * direction
    raise _unfinished(decay, root.dtype)


def _unfinished(decay: float, dtype: torch.dtype) -> ValueError:
    return ValueError(
        f"decay={decay!r} with order=None: the sum has not converged after {_MOST_STEPS} steps; "
        f"expected a smaller decay{', or torch.float64' * (dtype != torch.float64)}"
    )


@dataclass(eq=False, repr=False)
class RandomWalkKernel(NodePairKernel):
    r"""The random-walk kernel of order n, or of all orders.

    .. math::
        K_W^n(G, G') = \lambda^{n-1} \sum_{u_1 \to \cdots \to u_n} \;
        \sum_{u'_1 \to \cdots \to u'_n} \; \prod_{i=1}^n \langle f_{u_i}, f_{u'_i} \rangle
        \prod_{i=2}^n \langle e_{u_{i-1} u_i}, e'_{u'_{i-1} u'_i} \rangle

    where the sums run over all walks of n nodes (Gärtner et al. 2003; Lei et al. 2017, eq. 5). It
    is computed by sums over neighbours in each graph; the direct product graph is never built.
    :class:`~pyg_kernels.nn.RandomWalkConv` evaluates it against its reference walks (theorem 3).

    With ``order=None`` it is the geometric random-walk kernel :math:`\sum_{n \ge 1} K_W^n` (Gärtner
    et al. 2003), the solution of a linear system on pairs of nodes (Vishwanathan et al. 2010,
    section 4). Undirected graphs with base kernels of at least 0 use conjugate gradients, all
    others a sum term by term.

    Args:
        order: n, the number of nodes in a walk; None: the sum over all orders.
        decay: :math:`\lambda`, at least 0. With ``order=None`` it must be below 1 / the spectral
            radius of the adjacency matrix of every graph's product with itself.
        sum_orders: Whether to sum the kernels of orders 1, ..., n.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        node_feature: The attribute :math:`f`. ``(N, F)`` vectors are compared by inner products;
            ``(N,)`` integers or N strings are labels, compared by exact match. With a list of
            names, vectors are concatenated and labels form tuples. None: all nodes are alike.
        edge_feature: The attribute :math:`e`: ``(E, D)`` vectors, ``(E,)`` floating numbers, or
            integers or strings as labels. With None, or if no graph has it, edges have factors 1.
        node_label: Attributes whose rows are labels. The kernel of two nodes is multiplied by 1 if
            all these labels are equal, otherwise by 0.
        edge_label: The same for edges.
        non_backtracking: Whether to count only the walks that never turn back in either graph,
            :math:`u_{i+1} \ne u_{i-1}` for all i (Mahé et al. 2004). These are walks along the
            edges of the graph's line graph; they do not take a loop twice in a row.
        featurizer: How SMILES and RDKit molecules become graphs. None: with the labels of
            :func:`molecule_graphs`. ``'default'``, ``'duvenaud'`` or ``'ogb'``: with the one-hot
            vectors of :func:`~pyg_kernels.chem.featurizer_by_name`. Or a function that turns one
            molecule into a ``Data``.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Graphs are a ``Data``, a ``Batch``, a data set, or a list of ``Data``, networkx graphs, SMILES
    or RDKit molecules. An edge leads from ``edge_index[0]`` to ``edge_index[1]``. A pair takes
    O(E N' + N E') without edge features and O(E E') with them. Without turning back, edges take the
    place of nodes here, and the edges of the line graphs that of edges.

    Raises:
        ValueError: On an argument out of range; on a decay for which the sum over all orders
            diverges (the message has the bound); on no graphs; on a graph that lacks its features,
            whose features have another size than the first graph's or are not finite, or that has
            an edge to a node outside it.
        TypeError: On items that are not graphs.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pyg_kernels.kernels import RandomWalkKernel
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> RandomWalkKernel(order=2, decay=0.5)([path])  # 4 walks of 2 nodes in each
        tensor([[8.]])

    See Also:
        :class:`~pyg_kernels.nn.RandomWalkConv`, the layer;
        :class:`~pyg_kernels.features.RandomFeatures`, its features; :class:`DeepGraphKernel` and
        :class:`WLKernel`, made of it; :class:`LabelSequenceKernel`, which counts walks by their
        labels.
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
        check_flags(sum_orders=self.sum_orders, non_backtracking=self.non_backtracking)

    @property
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
        forwards = line_graph(graphs) if self.non_backtracking else graphs
        reverse = replace(forwards, edge_index=forwards.edge_index.flip(0))
        backwards = sorted_by_target(reverse)
        pairs = ((getattr(g, name) for g in (graphs, backwards)) for name in _OF_EDGES)
        # Equal features of both directions are not the same features if they have derivatives.
        symmetric = not self.non_backtracking and all(
            one is other or (not one.requires_grad and is_plain(one) and torch.equal(one, other))
            for one, other in pairs
        )
        return _Prepared(graphs, forwards, backwards, symmetric)

    def _steps(self, a: _Prepared, b: _Prepared, nodes: Tensor) -> Steps:
        """The steps of walks, from the base kernel of all nodes."""
        edges = edge_base(a.graphs, b.graphs)
        if not self.non_backtracking:
            return Steps(a.forwards, b.forwards, nodes, nodes, edges)
        source, base = (
            nodes.index_select(0, end).index_select(1, other)
            for end, other in zip(a.graphs.edge_index, b.graphs.edge_index, strict=True)
        )
        base = base if edges is None else base * edges
        return Steps(a.forwards, b.forwards, source * base, base, None)

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        nodes = node_base(a.graphs, b.graphs)
        steps = self._steps(a, b, nodes)
        symmetric = a.symmetric and b.symmetric
        if self.order is None:
            by_gradients = symmetric and steps.are_positive()
            sums = symmetric_sum_of_all_orders if by_gradients else sum_of_all_orders
            total = graph_sums(sums(steps, self.decay), a.forwards, b.forwards)
            if self.non_backtracking:
                total = graph_sums(nodes, a.graphs, b.graphs) + self.decay * total
            return total
        # A walk of n nodes is a walk of p nodes that ends at some node, an edge, and a walk of
        # n - p nodes that starts at the next node. In an undirected graph, walks that start at a
        # node are the reverse of those that end there: one table of half the length serves both.
        most = self.order - self.non_backtracking  # walks on n nodes are on n - 1 edges
        ending, arrived = steps.tables(most // 2, most - most // 2)
        starting = ending
        if not symmetric:
            edges = steps.edges if steps.edges is None else edge_base(a.backwards, b.backwards)
            back = Steps(a.backwards, b.backwards, steps.base, steps.base, edges)
            starting, _ = back.tables(0, most - most // 2)
        values: list[Tensor] = []
        decay = nodes.new_tensor(self.decay)  # a tensor, as its powers may be infinite
        for order in range(1 if self.sum_orders else self.order, self.order + 1):
            size = order - self.non_backtracking
            if order == 1:
                values.append(graph_sums(nodes, a.graphs, b.graphs))
                continue
            half = size // 2
            walks = arrived[half - 1] * starting[size - half - 1] if half else steps.first
            values.append(graph_sums(walks, a.forwards, b.forwards) * decay ** (order - 1))
        return torch.stack(values).sum(0)

    @torch.no_grad()
    def _check_convergence(self, graphs: Graphs) -> None:
        r"""Refuses a decay for which the kernel of a graph with itself diverges.

        The kernel of two graphs is at most :math:`\sqrt{K(G, G) K(G', G')}` in every order, so it
        converges where these do.
        """
        largest = 0.0
        for i in range(len(graphs)):
            one = self._prepare(graphs.part(torch.tensor([i])))
            steps = self._steps(one, one, node_base(one.graphs, one.graphs))
            largest = max(largest, spectral_radius(steps, self.decay))
        if self.decay * largest >= 1:
            raise ValueError(
                f"decay={self.decay!r} with order=None: the sum over walks of all orders diverges; "
                f"expected less than {1 / largest:.6g}, 1 / the spectral radius of the product "
                "graphs' adjacency"
            )


@dataclass(frozen=True)
class _Prepared:
    """Graphs with edges sorted by target, and the graphs that walks use, forwards and backwards.

    Walks use the graphs themselves or, if they do not turn back, their line graphs.
    """

    graphs: Graphs
    forwards: Graphs
    backwards: Graphs
    symmetric: bool
