"""One Weisfeiler-Lehman iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.inits import reset
from torch_geometric.typing import OptTensor

from pyg_kernels.nn.arguments import (
    Act,
    build_activation,
    checked_combine,
    checked_count,
    checked_edge_dim,
    checked_module,
    checked_nodes,
)
from pyg_kernels.nn.conv.fused_conv import FusedConv
from pyg_kernels.nn.conv.gated_walk_conv import GatedWalkConv
from pyg_kernels.nn.conv.graph_kernel_conv import build_walk
from pyg_kernels.nn.linear import UnitLinear, apply_all
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.propagation.graph import EdgeSource, as_edges
from pyg_kernels.walk import Combine

_FUSED = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}


class Relabeling(Module):
    r"""The matrices of the generalised relabelling: U_1, U_2 and V.

    Args:
        channels: The number of channels D of the labels.
        edge_dim: The number of edge features, or None.
    """

    def __init__(self, channels: int, edge_dim: int | None) -> None:
        super().__init__()
        self.lin_self = UnitLinear(channels, channels)
        self.lin_aggregated = UnitLinear(channels, channels)
        self.lin_neighbor = UnitLinear(channels, channels)
        self.lin_edge = None if edge_dim is None else UnitLinear(edge_dim, channels)

    def reset_parameters(self) -> None:
        for lin in self.children():
            lin.reset_parameters()  # type: ignore[operator]


class WLKernelConv(FusedConv):
    r"""One Weisfeiler-Lehman iteration of the kernel network of Lei et al., `"Deriving Neural
    Architectures from Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017),
    section 3.4: the random-walk states of the labels h, and the labels after one relabelling
    (eqs. 9, rewritten, and 10).

    .. math::
        c_1[v] &= W^{(1)} h_v \\
        c_j[v] &= \lambda \sum_{u \in \mathcal{N}(v)} W_e^{(j)} e_{uv} \odot c_{j-1}[u] \odot
        W^{(j)} h_v, \quad j = 2, \ldots, n \\
        h'_v &= \sigma\Bigl(U_1 h_v \circ U_2 \sum_{u \in \mathcal{N}(v)}
        \sigma(V [h_u, e_{uv}])\Bigr)

    Args:
        channels: The number of channels D, of the labels and of the states.
        order: The number of nodes n in a walk, at least 1.
        decay: A number in [0, 1] or ``'learned'``; left alone where :obj:`gated`.
        gated: Whether a gate takes the decay's place (:class:`GatedWalkConv`).
        act: The activation :math:`\sigma` of the relabelling; None for the identity.
        relabel: How the two terms of the relabelling combine, ``'add'`` (eq. 10) or ``'mul'``;
            None builds no relabelling, and :obj:`h_next` is then None.
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        norm: A module that normalises the new labels, :math:`(N, D)`, before their activation.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** labels :math:`(N, D)`; edge indices :math:`(2, E)` or a transposed sparse
          adjacency; edge features :math:`(E, F_e)`
        - **output:** :obj:`(h_next, c_n)`, both :math:`(N, D)`

    Raises:
        ValueError: As :class:`RandomWalkConv`, and for a decay that gates would replace.
    """

    def __init__(
        self,
        channels: int,
        order: int = 2,
        decay: float | str = 0.5,
        gated: bool = False,
        act: Act = "relu",
        relabel: Combine | None = "add",
        edge_dim: int | None = None,
        norm: Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = checked_count(channels, "channels")
        self.act = None if relabel is None else build_activation(act)
        self._act_name = act.lower() if isinstance(act, str) else ""
        self.relabel = None if relabel is None else checked_combine(relabel, "relabel")
        self.edge_dim = checked_edge_dim(edge_dim)
        if relabel is None and norm is not None:
            raise ValueError("norm with relabel=None: there are no new labels to normalise")
        self.walk = build_walk(channels, channels, order, decay, gated, edge_dim=edge_dim, **kwargs)
        self.relabeling = None if relabel is None else Relabeling(channels, edge_dim)
        self.norm = checked_module(norm, "norm")

    @property
    def order(self) -> int:
        """The number of nodes n in a walk."""
        return self.walk.order

    @property
    def decay(self) -> float | Tensor:
        r"""The decay :math:`\lambda`; an ``AttributeError`` where gates take its place."""
        return self.walk.decay

    @property
    def lins(self) -> ModuleList:
        """The n bias-free maps: ``lins[j].weight`` is :math:`W^{(j + 1)}`."""
        return self.walk.lins

    @property
    def edge_lins(self) -> ModuleList:
        """The bond factors' maps: ``edge_lins[j]`` belongs to step j + 2."""
        return self.walk.edge_lins

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.walk.reset_parameters()
        if self.relabeling is not None:
            self.relabeling.reset_parameters()
        reset(self.norm)

    def forward(
        self, h: Tensor, edge_index: EdgeSource, edge_attr: OptTensor = None
    ) -> tuple[Tensor | None, Tensor]:
        num_nodes = checked_nodes(h).size(0)
        edges = as_edges(edge_index, num_nodes, num_nodes, edge_attr, self.edge_dim, self.flow)
        lins = [lin for part in self.walk.linears() for lin in part]
        maps = self.relabeling
        if maps is None:
            return None, self.walk.states(apply_all(h, lins), edges)[-1]
        *projections, own, neighbor = apply_all(h, [*lins, maps.lin_self, maps.lin_neighbor])
        state = self.walk.states(tuple(projections), edges)[-1]
        return self._relabeled(maps, own, neighbor, edges), state

    def _relabeled(self, maps: Relabeling, own: Tensor, neighbor: Tensor, edges: Edges) -> Tensor:
        shift = None if maps.lin_edge is None else maps.lin_edge(edges.attr)
        if self.takes_messages:
            on_edges = None if shift is None else edges.edge_rows(shift)
            total = self.propagate_along(edges, a=neighbor, shift=on_edges)
        else:
            total = neighbor_sum(neighbor, edges, shift=shift, act=self._fused_act())
        aggregated = maps.lin_aggregated(total)
        label = own + aggregated if self.relabel == "add" else own * aggregated
        label = label if self.norm is None else self.norm(label)
        return label if self.act is None else self.act(label)

    def _fused_act(self) -> Act:
        """The activation's name where it was given by name; another module is called."""
        return self._act_name if type(self.act) is _FUSED.get(self._act_name) else self.act

    def message(self, a_j: Tensor, shift: OptTensor) -> Tensor:
        message = a_j if shift is None else a_j + shift
        return message if self.act is None else self.act(message)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.channels}, order={self.order}, "
            f"gated={isinstance(self.walk, GatedWalkConv)}, relabel={self.relabel!r})"
        )
