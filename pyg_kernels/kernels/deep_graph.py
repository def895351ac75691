"""The kernel of stacked graph-kernel layers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import ActivationKernel, activation_kernel
from pyg_kernels.kernels.arguments import Names, checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.node_pairs import (
    NodePairKernel,
    edge_base,
    graph_sums,
    neighbor_sums,
    node_base,
    sorted_by_target,
)


@dataclass(eq=False, repr=False)
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
        edge_feature: The attribute of :math:`e`, which the paper's kernel does not have; None: 1.

    Graphs, errors and all other arguments are as of :class:`RandomWalkKernel`.
    O(L n (E N' + N E')) for a pair without edge features.
    """

    num_layers: int = 2
    order: int = 2
    decay: float = 0.5
    combine: str = "add"
    activation: ActivationKernel | None = None
    empty_walks: str = "keep"
    normalize: bool = False
    node_feature: Names = "x"
    edge_feature: Names = None
    _: KW_ONLY
    node_label: Names = None
    edge_label: Names = None

    def _check(self) -> None:
        super()._check()
        checked_count(self.num_layers, "num_layers")
        checked_count(self.order, "order")
        checked_decay(self.decay)
        checked_choice(self.combine, "combine", ("add", "mul"))
        checked_choice(self.empty_walks, "empty_walks", ("keep", "zero"))
        activation_kernel(self.activation)

    def _prepare(self, part: Graphs) -> _Prepared:
        part = sorted_by_target(part)
        runs = [part.part(run) for run in part.runs(self._self_limit(part))]
        parts = [_Prepared(run, self._has_walks(run), []) for run in runs]
        for own in parts:
            self._local(own, own)
        diagonals = zip(*(own.diagonals for own in parts), strict=True)
        return _Prepared(part, self._has_walks(part), [torch.cat(found) for found in diagonals])

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        return graph_sums(self._local(a, b), a.graphs, b.graphs)

    def _self_values(self, part: Graphs) -> Tensor:
        part = sorted_by_target(part)
        own = _Prepared(part, self._has_walks(part), [])
        return graph_sums(self._local(own, own), part, part).diagonal()

    def _local(self, a: _Prepared, b: _Prepared) -> Tensor:
        """The kernel of all pairs of nodes after the last activation, (N, M).

        Graphs whose diagonals are not known yet are compared with themselves, which gives them.
        """
        activation, edges = activation_kernel(self.activation), edge_base(a.graphs, b.graphs)
        after, is_known = node_base(a.graphs, b.graphs), bool(a.diagonals)
        for layer in range(self.num_layers):
            base = after
            for j in range(self.order):
                local = base
                if j > 0:
                    arrived = self.decay * neighbor_sums(after, a.graphs, b.graphs, edges)
                    local = base + arrived if self.combine == "add" else base * arrived
                    if self.empty_walks == "zero":
                        local = local * (a.has_walks[j][:, None] * b.has_walks[j])
                if not is_known:
                    a.diagonals.append(local.diagonal())
                step = layer * self.order + j
                after = activation(local, a.diagonals[step][:, None], b.diagonals[step])
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
