"""The Weisfeiler-Lehman kernel over any kernel of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels.arguments import checked_choice, checked_count
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.random_walk import RandomWalkKernel
from pyg_kernels.kernels.reading import Attributes, compare, read_graphs
from pyg_kernels.kernels.relabeling import DiscreteRelabeling, GeneralizedRelabeling, Relabeling

Base = Kernel | Callable[[list[Data], list[Data]], Tensor]


@dataclass(frozen=True)
class RelabeledGraphs:
    """Graphs after 0, 1, ..., L iterations, as the base kernel reads them."""

    iterations: Sequence[Graphs]

    def __len__(self) -> int:
        return len(self.iterations[0])

    def part(self, items: Tensor) -> RelabeledGraphs:
        return RelabeledGraphs([graphs.part(items) for graphs in self.iterations])


class WLKernel(Kernel):
    r"""The Weisfeiler-Lehman kernel of depth L over a base kernel.

    .. math::
        K_{WL}^{(L)}(G, G') = \sum_{i=0}^{L} K(r^i(G), r^i(G'))

    where :math:`r^0(G) = G` and r relabels the nodes (Shervashidze et al. 2011; Lei et al. 2017,
    eq. 11). :class:`~pyg_kernels.nn.WLKernelNet` evaluates it against its reference walks
    (proposition 2), without the last iteration.

    Args:
        base: A kernel of graphs of this module, or any function of two lists of ``Data`` that gives
            their Gram matrix as a tensor; None: ``RandomWalkKernel()``. Edge features are those
            that the base kernel names; node features come from the relabelling.
        relabel: ``'discrete'``: :class:`DiscreteRelabeling` of the attribute ``x``; the base
            kernel then compares labels by exact match, also those of the graphs as given, so that
            two rows of features agree or do not. ``(U1, U2, V)``:
            :class:`GeneralizedRelabeling` (eq. 10). Or one of these two with other arguments.
        num_iterations: L, at least 0.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.

    Type, memory and progress bar are the base kernel's. With ``RandomWalkKernel(order=1)`` and
    ``'discrete'`` it is :class:`WLSubtreeKernel`, computed on pairs of nodes.

    Graphs are as for :class:`RandomWalkKernel`.

    Raises:
        ValueError: On an argument out of range; on no graphs, a graph without its features or with
            features of another size than the first, NaN, an edge outside its graph.
        TypeError: If `base` is a kernel of texts or no kernel; on items that are no graphs.
    """

    def __init__(
        self,
        base: Base | None = None,
        relabel: Any = "discrete",
        num_iterations: int = 3,
        normalize: bool = False,
    ) -> None:
        self.base = base
        self.relabel = relabel
        self.num_iterations = num_iterations
        self.normalize = normalize

    def _check(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        checked_choice(self.normalize, "normalize", (False, True))
        base = self._base()
        wrong = isinstance(base, type) or not callable(base)
        if wrong or (isinstance(base, Kernel) and not hasattr(base, "_read_edges")):
            raise TypeError(f"base={base!r}: expected a kernel of graphs that is no WLKernel")
        if isinstance(base, Kernel):
            base._check()
        self._relabeling()

    def _base(self) -> Base:
        return RandomWalkKernel() if self.base is None else self.base

    def _relabeling(self) -> Relabeling:
        relabel = self.relabel
        if isinstance(relabel, str) and relabel == "discrete":
            return DiscreteRelabeling()
        if isinstance(relabel, (tuple, list)) and len(relabel) == 3:
            return GeneralizedRelabeling(*relabel)
        is_one = all(hasattr(relabel, name) for name in ("read", "start", "step"))
        if is_one and not isinstance(relabel, type):
            return cast(Relabeling, relabel)
        raise ValueError(
            f"relabel={relabel!r}: expected 'discrete', (U1, U2, V), a DiscreteRelabeling or a "
            "GeneralizedRelabeling"
        )

    def _read(self, items: Any, like: RelabeledGraphs | None = None) -> RelabeledGraphs:
        base, relabeling = self._base(), self._relabeling()
        node_feature = getattr(base, "node_feature", "x")
        dtype = getattr(base, "dtype", None)
        graphs = relabeling.read(items, node_feature, dtype)
        if isinstance(base, Kernel):
            with_edges = base._read_edges(items)
        else:
            with_edges = read_graphs(items, Attributes(None, "edge_attr", True), dtype)
        states = [relabeling.start(graphs)]
        for _ in range(self.num_iterations):
            states.append(relabeling.step(states[-1], graphs))
        kind, edges = graphs.dtype, with_edges.edge_attr
        if not states[0].is_floating_point():
            kind = with_edges.dtype
        elif edges is not None and edges.is_floating_point():
            kind = torch.promote_types(kind, with_edges.dtype)
        states = [x.to(kind) if x.is_floating_point() else x for x in states]
        if edges is not None and edges.is_floating_point():
            with_edges = replace(with_edges, edge_attr=edges.to(kind))
        iterations = [replace(with_edges, x=x, dtype=kind) for x in states]
        if like is not None:
            names = Attributes(node_feature, getattr(base, "edge_feature", "edge_attr"))
            compare(iterations[0], like.iterations[0], names)
        return RelabeledGraphs(iterations)

    def _raw_gram(self, a: RelabeledGraphs, b: RelabeledGraphs | None) -> Tensor:
        base = self._base()
        others = [None] * len(a.iterations) if b is None else b.iterations
        total: Tensor | None = None
        for first, second in zip(a.iterations, others, strict=True):
            if isinstance(base, Kernel):
                gram = base._gram(base._read(first), None if second is None else base._read(second))
            else:
                lists = [g.to_data_list() for g in (first, first if second is None else second)]
                gram = torch.as_tensor(base(*lists))
                if gram.shape != (len(lists[0]), len(lists[1])):
                    raise ValueError(
                        f"base gave a matrix of shape {tuple(gram.shape)} for {len(lists[0])} and "
                        f"{len(lists[1])} graphs"
                    )
            total = gram if total is None else total + gram
        assert total is not None
        return total

    def _raw_diagonal(self, collection: RelabeledGraphs) -> Tensor:
        base = self._base()
        if isinstance(base, Kernel):
            values = [base._diagonal(base._read(g)) for g in collection.iterations]
            return torch.stack(values).sum(dim=0)
        graphs = zip(*[g.to_data_list() for g in collection.iterations], strict=True)
        sums = [sum(torch.as_tensor(base([g], [g]))[0, 0] for g in states) for states in graphs]
        return torch.stack([torch.as_tensor(value) for value in sums])
