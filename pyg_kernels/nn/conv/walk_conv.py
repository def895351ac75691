"""The walk on a graph as a PyG layer, for any weighting of the edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch_geometric.typing import OptTensor

from pyg_kernels.checks import check_flags, checked_count
from pyg_kernels.nn.arguments import (
    Act,
    build_activation,
    checked_combine,
    checked_edge_dim,
    checked_nodes,
    checked_pair,
)
from pyg_kernels.nn.conv.fused_conv import FusedConv
from pyg_kernels.nn.conv.weighting import Decay, EdgeGate
from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.ops.edges import Edges, weighted
from pyg_kernels.ops.neighbor_sum import Gate, message_weight, neighbor_sum
from pyg_kernels.propagation.graph import EdgeSource, as_edges
from pyg_kernels.propagation.non_backtracking import non_backtracking_walk
from pyg_kernels.walk import Combine, walk

NodeFeatures = Tensor | tuple[Tensor, Tensor]


class WalkConv(FusedConv):
    """The base of the random-walk layers: everything but the weight of an edge.

    Args:
        in_channels: The number of node features, or a pair for source and target nodes.
        out_channels: The number of reference walks.
        weighting: What weights an edge, a decay or a gate; None where walks have no edges.
        order, combine, act, edge_dim, return_states, non_backtracking: As in `RandomWalkConv`.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        weighting: Decay | EdgeGate | None,
        order: int,
        combine: Combine,
        act: Act,
        edge_dim: int | None,
        return_states: bool,
        non_backtracking: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.in_channels = in_channels
        self.out_channels = checked_count(out_channels, "out_channels")
        self.order = checked_count(order, "order")
        self.combine = checked_combine(combine)
        self.act = build_activation(act)
        self.edge_dim = checked_edge_dim(edge_dim)
        check_flags(return_states=return_states, non_backtracking=non_backtracking)
        self.return_states, self.non_backtracking = return_states, non_backtracking
        source, target = checked_pair(in_channels)
        if isinstance(in_channels, (tuple, list)) and order != 2:
            raise ValueError(
                f"in_channels={in_channels} with order={order}: a bipartite graph needs order=2"
            )
        self.lins = ModuleList(
            UnitLinear(source if step == 0 else target, out_channels) for step in range(order)
        )
        self.edge_lins = ModuleList(
            UnitLinear(edge_dim, out_channels) for _ in range(order - 1) if edge_dim is not None
        )
        self.weighting = weighting

    def forward(
        self,
        x: NodeFeatures,
        edge_index: EdgeSource,
        edge_attr: OptTensor = None,
        edge_weight: OptTensor = None,
    ) -> Tensor | list[Tensor]:
        states = self.states(*self.read(x, edge_index, edge_attr, edge_weight))
        return states if self.return_states else states[-1]

    def read(
        self,
        x: NodeFeatures,
        edge_index: EdgeSource,
        edge_attr: OptTensor = None,
        edge_weight: OptTensor = None,
    ) -> tuple[Tensor, Tensor, Edges]:
        """The checked features of source nodes and of target nodes, and the edges."""
        source, target = self._node_features(x)
        sizes = source.size(0), target.size(0)
        edges = as_edges(edge_index, *sizes, edge_attr, self.edge_dim, self.flow, edge_weight)
        return source, target, edges

    def projected(
        self, source: Tensor, target: Tensor, edges: Edges
    ) -> tuple[list[Tensor], list[Tensor], Gate | None]:
        """The projections of the n steps, the factors of the edges, and the gate's logits."""
        first, *others = self.lins
        gate = self.weighting if isinstance(self.weighting, EdgeGate) else None
        projections = [first(source)]
        of_source: Any = None if gate is None else gate.lin_source(source)
        projections += [lin(target) for lin in others]
        of_target: Any = None if gate is None else gate.lin_target(target)
        factors = [lin(edges.attr) for lin in self.edge_lins]
        logits = None if gate is None else gate.logits(of_source, of_target, edges)
        return projections, factors, logits

    def states(self, source: Tensor, target: Tensor, edges: Edges) -> list[Tensor]:
        """Takes the n steps, given what `read` returns."""
        projections, factors, gate = self.projected(source, target, edges)
        onwards = self.non_backtracking and self.order > 2  # a walk of two nodes cannot turn back
        decay = self.weighting.value if isinstance(self.weighting, Decay) else None
        few_rows = bool(factors) and edges.edge_type is not None and not onwards
        if decay is not None and few_rows:
            factors, decay = [decay * factor for factor in factors], None
        along_edges = self._messages if onwards else self._neighbor_sum

        def carry(state: Tensor, step: int) -> Tensor:
            factor = factors[step - 2] if factors else None
            carried = along_edges(state, edges, gate, factor)
            return carried if decay is None else decay * carried

        if onwards:
            return non_backtracking_walk(projections, carry, edges, self.combine, self.act)
        return walk(projections, carry, self.combine, self.act)

    def _node_features(self, x: NodeFeatures) -> tuple[Tensor, Tensor]:
        if isinstance(x, Tensor):
            checked_nodes(x)
            return x, x
        source, target = x
        if target is None:
            raise ValueError("x_target is None: the last step of a walk reads target features")
        if self.order != 2 and target is not source:
            raise ValueError(
                f"order={self.order} with a bipartite graph: only walks of 2 nodes lead from "
                "source to target nodes, expected order=2"
            )
        return checked_nodes(source), checked_nodes(target)

    def _neighbor_sum(
        self, z: Tensor, edges: Edges, gate: Gate | None, factor: OptTensor
    ) -> Tensor:
        if self.takes_messages:
            weight = message_weight(edges.index, gate, factor)
            # propagate_type: (z: Tensor, weight: OptTensor, edge_weight: OptTensor)
            return self.propagate_along(edges, z=z, weight=weight)
        return neighbor_sum(z, edges, gate, factor)

    def _messages(self, z: Tensor, edges: Edges, gate: Gate | None, factor: OptTensor) -> Tensor:
        """The message that each edge makes of its own state, (E, D), without the edge weight."""
        weight = message_weight(edges.index, gate, factor)
        if self.takes_messages:
            own = torch.arange(edges.num_edges, device=z.device)
            alone = Edges(own, own, edges.num_edges, edges.num_edges)
            return self.propagate_along(alone, z=z, weight=weight)
        return z if weight is None else weight * z

    def message(self, z_j: Tensor, weight: OptTensor, edge_weight: OptTensor) -> Tensor:
        return weighted(z_j if weight is None else weight * z_j, edge_weight)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"order={self.order}, combine={self.combine!r}"
            f"{', non_backtracking=True' if self.non_backtracking else ''})"
        )
