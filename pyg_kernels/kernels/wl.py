"""Weisfeiler-Lehman relabelling of labels and vectors, and the kernels that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn.resolver import activation_resolver

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.kernels.arguments import Names, checked_names
from pyg_kernels.kernels.count_kernel import CountKernel, Occurrences
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import ALIKE, ODD, ODDER, mixed
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.patterns import GraphTexts
from pyg_kernels.kernels.random_walk import RandomWalkKernel
from pyg_kernels.kernels.reading import (
    Attributes,
    GraphKernel,
    converted,
    read_graphs,
    with_molecules_read,
)


@dataclass(frozen=True)
class DiscreteRelabeling:
    r"""The relabelling of Shervashidze et al. 2011 on discrete labels.

    The new label of a node stands for its label and the multiset of the labels of its neighbours,
    each with the label of its edge. Labels are 64-bit hashes of what they stand for. They do not
    depend on the order of nodes, graphs or batches, nor on the other graphs in them. Two different
    neighbourhoods have the same label with probability about :math:`2^{-64}`.

    Args:
        node_label: The attribute with the labels: ``(N,)``, or ``(N, F)``, where each distinct row
            is a label. With a list of names, labels are tuples. None: all nodes are alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: all edges are alike.

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

    def read(self, graphs: Any, names: Attributes, dtype: torch.dtype | None) -> Graphs:
        """The graphs with their labels as hashes; the attribute is :attr:`node_label`."""
        own = Attributes(node_label=self.node_label, edge_label=self.edge_label)
        return read_graphs(graphs, replace(own, counted=names.counted), dtype)

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
        U1: ``(F', F)``, applied to a node's own features as the weight of a linear layer. With
            more than one iteration, F' must be F.
        U2: ``(F', H)``, applied to the sum over its neighbours.
        V: ``(H, F)``, or ``(H, F + D)`` with edge features.
        act: The activation, by name or as a function; None: the identity.
        combine: ``'add'`` or ``'mul'``.
        edge_feature: The attribute :math:`e`, ``(E, D)`` or ``(E,)``, or a list; None: none.

    Raises:
        ValueError: If the matrices' shapes do not match, or `combine` has another value.

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

    def read(self, graphs: Any, names: Attributes, dtype: torch.dtype | None) -> Graphs:
        """The graphs with their vectors."""
        node_feature = names.node_feature
        own = Attributes(node_feature=node_feature, edge_feature=self.edge_feature)
        read = read_graphs(graphs, replace(own, counted=names.counted), dtype)
        for name, values in ((node_feature, read.x), (self.edge_feature, read.edge_attr)):
            if values is not None and values.dim() != 2:
                raise ValueError(f"{name!r} has labels: the generalised relabelling needs vectors")
        nodes = read.x.size(1)
        if self.edge_feature and read.edge_attr is None and not read.edge_index.size(1):
            width = max(0, self.V.size(1) - nodes)
            read = replace(read, edge_attr=read.x.new_zeros(0, width))
        edges = 0 if read.edge_attr is None else read.edge_attr.size(1)
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
    """Graphs, and what the base kernel reads of them after 0, 1, ..., L iterations."""

    graphs: Graphs
    iterations: list[Any]

    def __len__(self) -> int:
        return len(self.graphs)

    def part(self, items: Tensor) -> RelabeledGraphs:
        return RelabeledGraphs(self.graphs.part(items), [it.part(items) for it in self.iterations])


@dataclass(eq=False, repr=False)
class WLKernel(Kernel):
    r"""The Weisfeiler-Lehman kernel of depth L over a base kernel.

    .. math::
        K_{WL}^{(L)}(G, G') = \sum_{i=0}^{L} K(r^i(G), r^i(G'))

    where :math:`r^0(G) = G` and r relabels the nodes (Shervashidze et al. 2011; Lei et al. 2017,
    eq. 11). :class:`~pyg_kernels.nn.WLKernelNet` evaluates it against its reference walks
    (proposition 2), without the term of the last iteration.

    Args:
        base: A kernel on graphs of this module; None: ``RandomWalkKernel()``. Its arguments name
            the attributes. Node features come from the relabelling. So do node labels, unless the
            relabelling is of vectors.
        relabel: ``'discrete'``: :class:`DiscreteRelabeling` of the base kernel's node attributes.
            The base kernel then compares labels by exact match, even before the first iteration:
            two rows of features are equal or not. ``(U1, U2, V)``: :class:`GeneralizedRelabeling`
            (eq. 10). Or an instance of one of these two classes.
        num_iterations: L, at least 0.
        featurizer: See :class:`RandomWalkKernel`; None: that of the base kernel.

    Type, memory and progress bar are those of the base kernel. Graphs, `normalize` and errors are
    as for :class:`RandomWalkKernel`. With ``RandomWalkKernel(order=1)`` and ``'discrete'`` it
    equals :class:`WLSubtreeKernel`, but is computed on pairs of nodes.

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
        nodes = (names.node_label, names.node_feature, getattr(relabeling, "node_label", None))
        counted = (name for each in nodes for name in checked_names(each, "node_label"))
        names = replace(names, counted=tuple(counted))
        if not isinstance(items, Batch):
            items = with_molecules_read(items, names.featurizer)
        base = self._base()
        dtype = getattr(base, "dtype", None)
        if dtype is None and like is not None and isinstance(like.iterations[0], Graphs):
            dtype = like.iterations[0].dtype
        graphs = relabeling.read(items, names, dtype)
        first = None if like is None else like.graphs
        with_edges = read_graphs(items, replace(names, node_feature=None), dtype, first)
        x = graphs.x
        label = with_edges.x if names.node_label and x.is_floating_point() else None
        iterations = []
        for i in range(self.num_iterations + 1):
            x = relabeling.step(x, graphs) if i else x
            state = converted(replace(with_edges, x=x, node_label=label), dtype)
            iterations.append(base._read(state))
        return RelabeledGraphs(with_edges, iterations)

    def _raw_gram(self, a: RelabeledGraphs, b: RelabeledGraphs | None) -> Tensor:
        others = repeat(None) if b is None else b.iterations
        return reduce(torch.add, map(self._base()._gram, a.iterations, others))

    def _raw_diagonal(self, collection: RelabeledGraphs) -> Tensor:
        return reduce(torch.add, map(self._base()._diagonal, collection.iterations))


@dataclass(eq=False, repr=False)
class WLSubtreeKernel(CountKernel):
    r"""The Weisfeiler-Lehman subtree kernel, with explicit features.

    .. math::
        K(G, G') = \sum_{i=0}^h w_i \sum_a \#_a(r^i(G)) \, \#_a(r^i(G'))

    where :math:`\#_a(r^i(G))` counts the nodes with the label a after i iterations of
    :class:`DiscreteRelabeling` (Shervashidze et al. 2011). The feature map is finite:
    ``fit_transform`` gives the counts as a sparse matrix for linear models, and calling the kernel
    gives the Gram matrix. With ``compare='min'``, minima of counts replace the products; with
    ``'minmax'``, it is the ratio of the weighted sums of minima and maxima. Errors are as for
    :class:`RandomWalkKernel`.

    Args:
        num_iterations: h, at least 0.
        node_label: The attribute with the labels: ``(N,)``, N strings, or ``(N, F)``, where each
            distinct row is a label (one-hot vectors, for example). With a list of names, labels are
            tuples of all of them. None: all nodes are alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: all edges are alike.
        iteration_weights: :math:`w_0, \ldots, w_h`, at least 0; None: all 1.

    The labels of one collection have one type and width. Between collections, equal whole numbers
    are the same label whatever their type; a number and a string, or rows of different widths, are
    different labels. All other arguments are as for :class:`CountKernel`.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.pipeline import make_pipeline
        >>> from pyg_kernels.kernels import WLSubtreeKernel
        >>> smiles, y = ["CCO", "CCN", "CCCO"], [1.0, 2.0, 1.1]
        >>> WLSubtreeKernel(num_iterations=1)(smiles)
        tensor([[ 6.,  3.,  6.],
                [ 3.,  6.,  4.],
                [ 6.,  4., 10.]], dtype=torch.float64)
        >>> features = WLSubtreeKernel(num_iterations=3, edge_label="edge_attr")
        >>> model = make_pipeline(features, Ridge()).fit(smiles, y)

    See Also:
        :class:`WLKernel`, of other base kernels; :class:`DiscreteRelabeling`;
        :class:`~pyg_kernels.nn.WLKernelNet`, the network; :class:`MoleculeSimilarity`.
    """

    num_iterations: int = 3
    node_label: Names = "x"
    edge_label: Names = None
    _: KW_ONLY
    iteration_weights: Sequence[float] | None = None

    def _check(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        super()._check()
        if self.iteration_weights is not None:
            weights = np.asarray(self.iteration_weights, float)
            known = np.isfinite(weights) & (weights >= 0)
            if weights.shape != (self.num_iterations + 1,) or not known.all():
                raise ValueError(
                    f"iteration_weights={self.iteration_weights!r}: expected "
                    f"{self.num_iterations + 1} finite numbers of at least 0, for iterations 0 to "
                    f"{self.num_iterations}"
                )

    def _weights(self) -> NDArray[Any] | None:
        return None if self.iteration_weights is None else np.asarray(self.iteration_weights, float)

    def _occurrences(self, graphs: Graphs, complete: bool = False) -> Iterator[Occurrences]:
        relabeling = DiscreteRelabeling()
        state = graphs.x
        nodes = torch.arange(graphs.num_nodes, device=graphs.device)[:, None]
        for i in range(self.num_iterations + 1):
            yield Occurrences(state, nodes, nodes[:, :0])
            if i < self.num_iterations:
                state = relabeling.step(state, graphs)

    def _name(self, texts: GraphTexts, block: int, nodes: list[int], steps: list[int]) -> str:
        return texts.environment(nodes[0], block)
