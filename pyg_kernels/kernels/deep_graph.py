"""The kernel of stacked graph-kernel layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import ActivationKernel, checked_activation, inverse_polynomial
from pyg_kernels.kernels.arguments import (
    checked_choice,
    checked_count,
    checked_decay,
)
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.node_pairs import (
    NodePairKernel,
    edge_base,
    graph_sums,
    neighbor_sums,
    node_base,
    sorted_by_target,
)
from pyg_kernels.kernels.reading import Attributes


class DeepGraphKernel(NodePairKernel):
    r"""The deep graph kernel of L layers of order n.

    The local kernel of two nodes is defined over layers l and steps j,

    .. math::
        K^{(l, 1)}(v, v') = K_\sigma^{(l-1)}(v, v'), \qquad
        K^{(l, j)}(v, v') = K_\sigma^{(l-1)}(v, v') \circ \lambda
        \sum_{u \to v} \sum_{u' \to v'} \langle e, e' \rangle \, K_\sigma^{(l, j-1)}(u, u'),

    with :math:`K_\sigma^{(0)} = \langle f_v, f_{v'} \rangle`, :math:`\circ` the sum or the product
    and :math:`K_\sigma^{(l)} = K_\sigma^{(l, n)}`; the kernel of two graphs is
    :math:`\sum_{v, v'} K_\sigma^{(L)}(v, v')` (Lei et al. 2017, section 3.3, theorem 4 and
    supplement E). Its feature space contains the outputs of L layers of
    :class:`~pyg_kernels.nn.GraphKernelConv`, summed over the nodes.

    Args:
        num_layers: L.
        order: n, the number of nodes in a walk.
        decay: :math:`\lambda`, at least 0.
        combine: ``'add'`` or ``'mul'``.
        activation: The kernel of the activation; None: :func:`inverse_polynomial`. The diagonals
            that it is given are the local kernels of each node with itself.
        empty_walks: ``'keep'``: as above, which is what the layer computes. ``'zero'``:
            :math:`K^{(l, j)}(v, v') = 0` where no walk of j nodes ends at v or at v', the
            convention of supplement E.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0.
        node_feature: As of :class:`RandomWalkKernel`.
        edge_feature: The attribute of :math:`e`, which the paper's kernel does not have; None: 1.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Graphs are as for :class:`RandomWalkKernel`. O(L n (E N' + N E')) for a pair
    without edge features.

    Raises:
        ValueError: On an argument out of range; on no graphs, a graph without its features or with
            features of another size than the first, NaN, an edge outside its graph.
        TypeError: On items that are no graphs.
    """

    def __init__(
        self,
        num_layers: int = 2,
        order: int = 2,
        decay: float = 0.5,
        combine: str = "add",
        activation: ActivationKernel | None = None,
        empty_walks: str = "keep",
        normalize: bool = False,
        node_feature: str | None = "x",
        edge_feature: str | None = None,
        *,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.num_layers = num_layers
        self.order = order
        self.decay = decay
        self.combine = combine
        self.activation = activation
        self.empty_walks = empty_walks
        self.normalize = normalize
        self.node_feature = node_feature
        self.edge_feature = edge_feature
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        checked_count(self.num_layers, "num_layers")
        checked_count(self.order, "order")
        checked_decay(self.decay)
        checked_choice(self.combine, "combine", ("add", "mul"))
        checked_choice(self.empty_walks, "empty_walks", ("keep", "zero"))
        checked_activation(self._activation())

    def _activation(self) -> ActivationKernel:
        return inverse_polynomial() if self.activation is None else self.activation

    def _attributes(self) -> Attributes:
        return Attributes(self.node_feature, self.edge_feature)

    def _prepare(self, part: Graphs) -> _Prepared:
        part = sorted_by_target(part)
        parts = [self._within(part.part(run))[1] for run in part.runs(self._self_limit(part))]
        diagonals = [torch.cat(found) for found in zip(*parts, strict=True)]
        return _Prepared(part, self._has_walks(part), diagonals)

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        def diagonals(step: int, local: Tensor) -> tuple[Tensor, Tensor]:
            return a.diagonals[step][:, None], b.diagonals[step]

        local = self._local(a.graphs, b.graphs, a.has_walks, b.has_walks, diagonals)
        return graph_sums(local, a.graphs, b.graphs)

    def _self_values(self, part: Graphs) -> Tensor:
        part = sorted_by_target(part)
        return graph_sums(self._within(part)[0], part, part).diagonal()

    def _within(self, part: Graphs) -> tuple[Tensor, list[Tensor]]:
        """The kernel of all pairs of nodes, and that of each node with itself in every step."""
        found: list[Tensor] = []

        def diagonals(step: int, local: Tensor) -> tuple[Tensor, Tensor]:
            found.append(local.diagonal())
            return found[-1][:, None], found[-1]

        has_walks = self._has_walks(part)
        return self._local(part, part, has_walks, has_walks, diagonals), found

    def _local(
        self,
        a: Graphs,
        b: Graphs,
        has_walks_a: list[Tensor],
        has_walks_b: list[Tensor],
        diagonals: Callable[[int, Tensor], tuple[Tensor, Tensor]],
    ) -> Tensor:
        """The kernel after the last activation, (N, M).

        `diagonals` gives the kernels of each node with itself in a step, given that of all pairs.
        """
        activation, edges = self._activation(), edge_base(a, b)
        after = node_base(a, b)
        for layer in range(self.num_layers):
            base = after
            for j in range(self.order):
                local = base
                if j > 0:
                    arrived = self.decay * neighbor_sums(after, a, b, edges)
                    local = base + arrived if self.combine == "add" else base * arrived
                    if self.empty_walks == "zero":
                        local = local * (has_walks_a[j][:, None] * has_walks_b[j])
                after = activation(local, *diagonals(layer * self.order + j, local))
        return after

    def _has_walks(self, part: Graphs) -> list[Tensor]:
        """1 where a walk of j nodes ends, else 0, for j = 1, ..., n, each (N,)."""
        source, target = part.edge_index
        found = [torch.ones(part.num_nodes, dtype=part.dtype, device=part.device)]
        for _ in range(self.order - 1):
            arrived = torch.zeros_like(found[-1]).index_add(0, target, found[-1][source])
            found.append((arrived > 0).to(part.dtype))
        return found


@dataclass
class _Prepared:
    """Graphs, where walks of 1, ..., n nodes end, and each node's kernel with itself in a step."""

    graphs: Graphs
    has_walks: list[Tensor]
    diagonals: list[Tensor]
