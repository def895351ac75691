"""Weisfeiler-Lehman relabelling of labels and vectors, and the kernel over any kernel of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn.resolver import activation_resolver

from pyg_kernels.kernels.arguments import Names, checked_choice, checked_count, checked_names
from pyg_kernels.kernels.count_kernel import CountKernel
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import ALIKE, ODD, ODDER, mixed
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.random_walk import RandomWalkKernel
from pyg_kernels.kernels.reading import (
    Attributes,
    GraphKernel,
    converted,
    graph_collection,
    read_graphs,
    with_molecules_read,
)


@dataclass(frozen=True)
class DiscreteRelabeling:
    r"""The relabelling of Shervashidze et al. 2011 on discrete labels.

    The new label of a node stands for its label and the multiset of the labels of its neighbours,
    each with the label of its edge. Labels are 64-bit hashes that depend on nothing but what they
    stand for: not on the order of nodes, graphs or batches, nor on the graphs beside them. Two
    different neighbourhoods have the same label with probability about :math:`2^{-64}`.

    Args:
        node_label: The attribute of labels, ``(N,)``, or ``(N, F)``, whose distinct rows are the
            labels; a list of names: their tuples; None: nodes are all alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: edges are all alike.

    Example:
        >>> from pyg_kernels.kernels import DiscreteRelabeling, RandomWalkKernel, WLKernel
        >>> relabeling = DiscreteRelabeling(node_label="element", edge_label="edge_attr")
        >>> WLKernel(RandomWalkKernel(order=1), relabeling, num_iterations=1)(["CCO", "CC=O"])
        tensor([[8., 6.],
                [6., 8.]], dtype=torch.float64)

    See Also:
        :class:`WLKernel` and :class:`WLSubtreeKernel`; :class:`GeneralizedRelabeling`, of vectors.
    """

    node_label: Names = "x"
    edge_label: Names = None

    def read(
        self, graphs: Any, node_feature: Names = None, dtype: torch.dtype | None = None
    ) -> Graphs:
        """The graphs with their labels as hashes; the attribute is :attr:`node_label`."""
        attributes = Attributes(node_label=self.node_label, edge_label=self.edge_label)
        return read_graphs(graphs, attributes, dtype)

    def step(self, x: Tensor, graphs: Graphs) -> Tensor:
        """The labels of the next iteration, ``(N,)`` int64."""
        source, target = graphs.edge_index
        arriving = mixed(x * ODD + ALIKE).index_select(0, source)
        if graphs.edge_attr is not None:
            arriving = mixed(arriving + graphs.edge_attr * ODDER)
        sums = torch.zeros_like(x).index_add_(0, target, arriving)
        return mixed(x + sums * ODD + ALIKE)


@dataclass(frozen=True, eq=False)
class GeneralizedRelabeling:
    r"""The relabelling of vectors, with given matrices.

    .. math::
        r(v) = \sigma\Big(U_1 f_v \circ U_2 \sum_{u \to v} \sigma(V [f_u, e_{uv}])\Big)

    (Lei et al. 2017, eq. 10), as :class:`~pyg_kernels.nn.WLKernelConv` computes it.

    Args:
        U1: ``(F', F)``, applied to a node's own features as the weight of a linear layer; F' is F
            where there is more than one iteration.
        U2: ``(F', H)``, applied to the sum over its neighbours.
        V: ``(H, F)``, or ``(H, F + D)`` with edge features.
        act: The activation, by name or as a function; None: the identity.
        combine: ``'add'`` or ``'mul'``.
        edge_feature: The attribute of :math:`e`, ``(E, D)`` or ``(E,)``, or several; None: none.

    Raises:
        ValueError: If the matrices do not go together, or `combine` is neither.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pyg_kernels.kernels import GeneralizedRelabeling, RandomWalkKernel, WLKernel
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> one = torch.ones(1, 1)
        >>> relabeling = GeneralizedRelabeling(one, one, one)  # a label plus those of its neighbors
        >>> kernel = WLKernel(RandomWalkKernel(order=1), relabeling, num_iterations=1)
        >>> kernel([path])  # (1 + 1 + 1)² + (2 + 3 + 2)²
        tensor([[58.]])

    See Also:
        :class:`WLKernel`; :class:`DiscreteRelabeling`; :class:`~pyg_kernels.nn.WLKernelConv`, the
        layer that learns the matrices.
    """

    U1: Tensor
    U2: Tensor
    V: Tensor
    act: str | Callable[[Tensor], Tensor] | None = "relu"
    combine: str = "add"
    edge_feature: Names = None

    def __post_init__(self) -> None:
        checked_choice(self.combine, "combine", ("add", "mul"))
        for name in ("U1", "U2", "V"):
            matrix = getattr(self, name)
            if not isinstance(matrix, Tensor) or matrix.dim() != 2:
                raise ValueError(f"{name} must be a matrix, as the weight of a linear layer")
        first, second, width = self.U1.shape, self.U2.shape, self.V.size(0)
        if second != (first[0], width):
            shapes = ", ".join(str(tuple(m.shape)) for m in (self.U1, self.U2, self.V))
            raise ValueError(f"U1, U2, V of shapes {shapes}: expected (F', F), (F', H), (H, F + D)")

    def read(self, graphs: Any, node_feature: Names, dtype: torch.dtype | None) -> Graphs:
        """The graphs with their vectors."""
        attributes = Attributes(node_feature=node_feature, edge_feature=self.edge_feature)
        read = read_graphs(graphs, attributes, dtype)
        for name, values in ((node_feature, read.x), (self.edge_feature, read.edge_attr)):
            if values is not None and values.dim() != 2:
                raise ValueError(f"{name!r} has labels: the generalised relabelling needs vectors")
        nodes, edges = read.x.size(1), 0 if read.edge_attr is None else read.edge_attr.size(1)
        if self.U1.size(1) != nodes or self.V.size(1) != nodes + edges:
            raise ValueError(
                f"graph 0 has {nodes} node and {edges} edge features, but U1 is "
                f"{tuple(self.U1.shape)} and V {tuple(self.V.shape)}"
            )
        return read

    def step(self, x: Tensor, graphs: Graphs) -> Tensor:
        """The features of the next iteration, ``(N, F')``."""
        if x.size(1) != self.U1.size(1):
            raise ValueError(
                f"U1 of shape {tuple(self.U1.shape)}: more than one iteration needs F' = F"
            )
        act = activation_resolver(self.act) or (lambda values: values)
        source, target = graphs.edge_index
        U1, U2, V = (matrix.to(x) for matrix in (self.U1, self.U2, self.V))
        arriving = x.index_select(0, source)
        if graphs.edge_attr is not None:
            arriving = torch.cat([arriving, graphs.edge_attr], dim=1)
        messages = act(arriving @ V.t())
        sums = x.new_zeros(len(x), len(V)).index_add(0, target, messages) @ U2.t()
        own = x @ U1.t()
        return act(own + sums if self.combine == "add" else own * sums)


@dataclass(frozen=True)
class RelabeledGraphs:
    """Graphs after 0, 1, ..., L iterations, as the base kernel reads them."""

    iterations: Sequence[Graphs]

    def __len__(self) -> int:
        return len(self.iterations[0])

    def part(self, items: Tensor) -> RelabeledGraphs:
        return RelabeledGraphs([graphs.part(items) for graphs in self.iterations])


@dataclass(eq=False, repr=False)
class WLKernel(Kernel):
    r"""The Weisfeiler-Lehman kernel of depth L over a base kernel.

    .. math::
        K_{WL}^{(L)}(G, G') = \sum_{i=0}^{L} K(r^i(G), r^i(G'))

    where :math:`r^0(G) = G` and r relabels the nodes (Shervashidze et al. 2011; Lei et al. 2017,
    eq. 11). :class:`~pyg_kernels.nn.WLKernelNet` evaluates it against its reference walks
    (proposition 2), without the last iteration.

    Args:
        base: A kernel of graphs of this module; None: ``RandomWalkKernel()``. It names the
            attributes; node features come from the relabelling.
        relabel: ``'discrete'``: :class:`DiscreteRelabeling` of the base kernel's attributes of
            nodes; the base kernel then compares labels by exact match, also those of the graphs as
            given, so that two rows of features agree or do not. ``(U1, U2, V)``:
            :class:`GeneralizedRelabeling` (eq. 10). Or one of these two with other arguments.
        num_iterations: L, at least 0.
        featurizer: As of :class:`RandomWalkKernel`; None: the base kernel's.

    Type, memory and progress bar are the base kernel's; graphs, `normalize` and errors as of
    :class:`RandomWalkKernel`. With ``RandomWalkKernel(order=1)`` and ``'discrete'`` it is
    :class:`WLSubtreeKernel`, computed on pairs of nodes.

    Raises:
        TypeError: If `base` is a kernel of texts or no kernel.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import RandomWalkKernel, WLKernel, WLSubtreeKernel
        >>> molecules = ["CCO", "CCN", "c1ccccc1O"]
        >>> gram = WLKernel(RandomWalkKernel(order=1), num_iterations=2)(molecules)
        >>> torch.equal(gram, WLSubtreeKernel(num_iterations=2)(molecules))
        True
        >>> WLKernel(RandomWalkKernel(order=3), num_iterations=2)(molecules).shape
        torch.Size([3, 3])

    See Also:
        :class:`~pyg_kernels.nn.WLKernelConv` and :class:`~pyg_kernels.nn.WLKernelNet`, the layer
        and the network; :class:`WLSubtreeKernel`; :class:`DiscreteRelabeling` and
        :class:`GeneralizedRelabeling`.
    """

    base: GraphKernel | None = None
    relabel: Any = "discrete"
    num_iterations: int = 3
    normalize: bool = False
    _: KW_ONLY
    featurizer: Any = None

    def _check(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        super()._check()
        base = self._base()
        if not isinstance(base, GraphKernel):
            raise TypeError(f"base={base!r}: expected a kernel of graphs that is no WLKernel")
        base._check()
        if isinstance(self._relabeling(), GeneralizedRelabeling) and isinstance(base, CountKernel):
            raise TypeError(f"{type(base).__name__} counts labels: relabel='discrete' has them")

    def _base(self) -> GraphKernel:
        return RandomWalkKernel() if self.base is None else self.base

    def _attributes(self) -> Attributes:
        """What the base kernel reads."""
        names = self._base()._attributes()
        return names if self.featurizer is None else replace(names, featurizer=self.featurizer)

    def _relabeling(self) -> DiscreteRelabeling | GeneralizedRelabeling:
        relabel = self.relabel
        if isinstance(relabel, str) and relabel == "discrete":
            names = self._attributes()
            return DiscreteRelabeling(
                checked_names(names.node_label, "node_label")
                + checked_names(names.node_feature, "node_feature")
            )
        if isinstance(relabel, (tuple, list)) and len(relabel) == 3:
            return GeneralizedRelabeling(*relabel)
        if isinstance(relabel, DiscreteRelabeling | GeneralizedRelabeling):
            return relabel
        raise ValueError(
            f"relabel={relabel!r}: expected 'discrete', (U1, U2, V), a DiscreteRelabeling or a "
            "GeneralizedRelabeling"
        )

    def _read(self, items: Any, like: RelabeledGraphs | None = None) -> RelabeledGraphs:
        names, relabeling = self._attributes(), self._relabeling()
        if not isinstance(items, Batch):
            items = with_molecules_read(graph_collection(items), names.featurizer)
        dtype = getattr(self._base(), "dtype", None)
        graphs = relabeling.read(items, names.node_feature, dtype)
        first = None if like is None else like.iterations[0]
        with_edges = read_graphs(items, replace(names, node_feature=None), dtype, first)
        states = [graphs.x]
        for _ in range(self.num_iterations):
            states.append(relabeling.step(states[-1], graphs))
        label = with_edges.x if names.node_label and states[0].is_floating_point() else None
        iterations = [converted(replace(with_edges, x=x, node_label=label), dtype) for x in states]
        return RelabeledGraphs(iterations)

    def _raw_gram(self, a: RelabeledGraphs, b: RelabeledGraphs | None) -> Tensor:
        base = self._base()
        if b is None:
            return reduce(torch.add, (base._gram(base._read(g)) for g in a.iterations))
        pairs = (map(base._read, pair) for pair in zip(a.iterations, b.iterations, strict=True))
        return reduce(torch.add, (base._gram(*pair) for pair in pairs))

    def _raw_diagonal(self, collection: RelabeledGraphs) -> Tensor:
        base = self._base()
        return reduce(torch.add, (base._diagonal(base._read(g)) for g in collection.iterations))
