"""One Weisfeiler-Lehman iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.dense.linear import is_uninitialized_parameter
from torch_geometric.typing import OptTensor

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import (
    Act,
    build_activation,
    checked_combine,
    checked_edge_dim,
    checked_module,
)
from pyg_kernels.nn.conv.fused_conv import FusedConv
from pyg_kernels.nn.conv.gated_walk_conv import GatedWalkConv
from pyg_kernels.nn.conv.graph_kernel_conv import WithWalk, build_walk
from pyg_kernels.nn.conv.walk_conv import NodeFeatures
from pyg_kernels.nn.linear import Resettable, UnitLinear
from pyg_kernels.ops.edges import Edges, weighted
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.propagation.graph import EdgeSource
from pyg_kernels.walk import Combine

_FUSED = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}


class Relabeling(Resettable, Module):
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


class WLKernelConv(WithWalk, FusedConv):
    r"""One Weisfeiler-Lehman iteration of the kernel network of Lei et al., `"Deriving Neural
    Architectures from Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017),
    section 3.4: the labels after one relabelling (eq. 10), and the random-walk states of the labels
    before it (eq. 9). Both equations are rewritten.

    .. math::
        c_1[v] &= W^{(1)} h_v \\
        c_j[v] &= \lambda \sum_{u \in \mathcal{N}(v)} W_e^{(j)} e_{uv} \odot c_{j-1}[u] \odot
        W^{(j)} h_v, \quad j = 2, \ldots, n \\
        h'_v &= \sigma\Bigl(U_1 h_v \circ U_2 \sum_{u \in \mathcal{N}(v)}
        \sigma(V [h_u, e_{uv}])\Bigr)

    The layer returns the new labels. They do not depend on the walk, which is computed only with
    ``return_states=True``; without it the walk's maps get no gradients, and so
    ``DistributedDataParallel`` needs ``find_unused_parameters``. To stack layers, give each a norm,
    ``norm=torch.nn.BatchNorm1d(channels)``: otherwise labels, being sums, grow with each layer.

    Args:
        channels: The number of channels D, of the labels and of the states.
        order: The number of nodes n in a walk, at least 1.
        decay: A number in [0, 1] or ``'learned'``; leave it at its default if :obj:`gated`.
        gated: Whether a gate takes the decay's place (:class:`GatedWalkConv`).
        act: The activation :math:`\sigma` of the relabelling; None for the identity.
        relabel: How the two terms of the relabelling combine, ``'add'`` (eq. 10) or ``'mul'``;
            with None there is no relabelling, and the layer returns :math:`c_n`.
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        norm: A module that normalises the new labels, :math:`(N, D)`, before the activation.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** as :class:`RandomWalkConv`, with labels of D channels
        - **output:** the new labels :math:`(N, D)`; with ``forward(..., return_states=True)`` the
          pair :math:`(h', c_n)`, both :math:`(N, D)`; with ``relabel=None``, :math:`h'` is None

    Raises:
        ValueError: As :class:`RandomWalkConv`, and for a non-default decay with :obj:`gated`.

    Example:
        >>> import torch
        >>> from pyg_kernels.nn import WLKernelConv
        >>> labels, edge_index = torch.rand(3, 16), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> conv = WLKernelConv(16, order=2)
        >>> new_labels, states = conv(labels, edge_index, return_states=True)
        >>> new_labels.shape, states.shape
        (torch.Size([3, 16]), torch.Size([3, 16]))

    See Also:
        :class:`WLKernelNet`, its network; :class:`~pyg_kernels.kernels.WLKernel`, its kernel,
        and :class:`~pyg_kernels.kernels.GeneralizedRelabeling`, that kernel's relabelling.
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

    def forward(
        self,
        x: NodeFeatures,
        edge_index: EdgeSource,
        edge_attr: OptTensor = None,
        edge_weight: OptTensor = None,
        return_states: bool = False,
    ) -> Tensor | tuple[Tensor | None, Tensor]:
        nodes_and_edges = self.walk.read(x, edge_index, edge_attr, edge_weight)
        if self.relabeling is None:
            state = self.walk.states(*nodes_and_edges)[-1]
            return (None, state) if return_states else state
        if return_states or any(map(is_uninitialized_parameter, self.walk.parameters())):
            state = self.walk.states(*nodes_and_edges)[-1]
        label = self._relabeled(self.relabeling, *nodes_and_edges)
        return (label, state) if return_states else label

    def _relabeled(self, maps: Relabeling, source: Tensor, target: Tensor, edges: Edges) -> Tensor:
        neighbor = maps.lin_neighbor(source)
        shift = None if maps.lin_edge is None else maps.lin_edge(edges.attr)
        if self.takes_messages:
            on_edges = None if shift is None else edges.edge_rows(shift)
            # propagate_type: (a: Tensor, shift: OptTensor, edge_weight: OptTensor)
            total = self.propagate_along(edges, a=neighbor, shift=on_edges)
        else:
            total = neighbor_sum(neighbor, edges, shift=shift, act=self._fused_act())
        own, aggregated = maps.lin_self(target), maps.lin_aggregated(total)
        label = own + aggregated if self.relabel == "add" else own * aggregated
        label = label if self.norm is None else self.norm(label)
        return label if self.act is None else self.act(label)

    def _fused_act(self) -> Act:
        """The activation's name if it was given by name and has a fused form; else the module."""
        return self._act_name if type(self.act) is _FUSED.get(self._act_name) else self.act

    def message(self, a_j: Tensor, shift: OptTensor, edge_weight: OptTensor) -> Tensor:
        message = a_j if shift is None else a_j + shift
        return weighted(message if self.act is None else self.act(message), edge_weight)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.channels}, order={self.order}, "
            f"gated={isinstance(self.walk, GatedWalkConv)}, relabel={self.relabel!r})"
        )
