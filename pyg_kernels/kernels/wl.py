"""The Weisfeiler-Lehman kernel over any kernel of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch

from pyg_kernels.kernels.arguments import checked_count, checked_names
from pyg_kernels.kernels.count_kernel import CountKernel
from pyg_kernels.kernels.graphs import Graphs
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
from pyg_kernels.kernels.relabeling import DiscreteRelabeling, GeneralizedRelabeling


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
