"""The walk on a graph as a PyG layer, whatever weight its edges carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.typing import OptTensor

from pyg_kernels.nn.conv.edge_weight import Decay, EdgeGate
from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import Gate, edge_weight, neighbour_sum
from pyg_kernels.ops.products import project
from pyg_kernels.propagation.graph import EdgeSource, GraphPropagation, as_edges
from pyg_kernels.walk import Combine, walk

NodeFeatures = Tensor | tuple[Tensor, Tensor]
Act = str | Callable[[Tensor], Tensor] | None


class WalkConv(MessagePassing):
    """What the random-walk layers share: everything but the weight of an edge.

    Args:
        in_channels: The number of node features, or a pair for source and target nodes.
        out_channels: The number of reference walks.
        edge_weight: The weight of an edge, a decay or a gate; None where no walk has an edge.
        order: The number of nodes in a walk.
        combine: ``'mul'`` or ``'add'``.
        act: The activation between steps, or None.
        edge_dim: The number of edge features, or None.
        return_states: Whether to return the states of all orders.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        edge_weight: Decay | EdgeGate | None,
        order: int,
        combine: Combine,
        act: Act,
        edge_dim: int | None,
        return_states: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(aggr=checked_aggregation(kwargs), **kwargs)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.order = checked_order(order)
        self.combine = checked_combine(combine)
        self.act = activation_resolver(act)
        self.edge_dim = edge_dim
        self.return_states = return_states
        self._bipartite = not isinstance(in_channels, int)
        if self._bipartite and order != 2:
            raise ValueError(
                f"in_channels={in_channels} with order={order}: a bipartite graph needs order=2"
            )
        source, target = pair(in_channels)
        self.lins = ModuleList(
            UnitLinear(source if step == 0 else target, out_channels) for step in range(order)
        )
        self.edge_lins = ModuleList(
            UnitLinear(edge_dim, out_channels) for _ in range(order - 1) if edge_dim is not None
        )
        self.edge_weight = edge_weight

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for lin in [*self.lins, *self.edge_lins]:
            lin.reset_parameters()
        if self.edge_weight is not None:
            self.edge_weight.reset_parameters()

    def forward(
        self, x: NodeFeatures, edge_index: EdgeSource, edge_attr: OptTensor = None
    ) -> Tensor | list[Tensor]:
        source, target = self._node_features(x)
        edges = as_edges(
            edge_index, source.size(0), target.size(0), edge_attr, self.edge_dim, self.flow
        )
        from_source, from_target = self.weights(source, target)
        if source is target:
            projections = project(source, [*from_source, *from_target])
        else:
            projections = project(source, from_source) + project(target, from_target)
        states = self.states(projections, edges)
        return states if self.return_states else states[-1]

    def weights(self, source: Tensor, target: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The matrices that multiply source nodes, and those that multiply target nodes."""
        first, *others = cast(list[UnitLinear], list(self.lins))
        on_source = [first.weight_for(source)]
        on_target = [lin.weight_for(target) for lin in others]
        if isinstance(self.edge_weight, EdgeGate):
            on_source.append(self.edge_weight.lin_source.weight_for(source))
            on_target.append(self.edge_weight.lin_target.weight_for(target))
        return on_source, on_target

    def states(self, projections: tuple[Tensor, ...], edges: Edges) -> list[Tensor]:
        """Takes the n steps, from the products with `weights` in their order."""
        propagation = GraphPropagation(
            edges,
            bonds=[lin(edges.attr) for lin in self.edge_lins],
            neighbour_sum=self._neighbour_sum,
        )
        if isinstance(self.edge_weight, Decay):
            propagation.decay = self.edge_weight.value
        elif isinstance(self.edge_weight, EdgeGate):
            first, gate_source, *others, gate_target = projections
            projections = (first, *others)
            propagation.gate = self.edge_weight.logits(gate_source, gate_target, edges)
        return walk(projections, propagation, self.combine, self.act)

    def _node_features(self, x: NodeFeatures) -> tuple[Tensor, Tensor]:
        if isinstance(x, Tensor):
            if self._bipartite:
                raise ValueError(
                    f"in_channels={self.in_channels} describes a bipartite graph: expected a pair "
                    "(x_source, x_target)"
                )
            return x, x
        source, target = x
        if self.order != 2:
            raise ValueError(
                f"order={self.order} with a bipartite graph: only walks of 2 nodes lead from "
                "source to target nodes, expected order=2"
            )
        if target is None:
            raise ValueError("x_target is None: the last step of a walk reads its node's features")
        return source, target

    def _neighbour_sum(self, z: Tensor, edges: Edges, gate: Gate | None, bond: OptTensor) -> Tensor:
        if not is_observed(self):
            return neighbour_sum(z, edges, gate, bond)
        weight = edge_weight(edges, gate, bond)
        index, size = as_propagated(self, edges)
        return self.propagate(index, z=z, weight=weight, size=size)

    def message(self, z_j: Tensor, weight: OptTensor) -> Tensor:
        return z_j if weight is None else weight * z_j

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"order={self.order}, combine={self.combine!r})"
        )


def is_observed(conv: MessagePassing) -> bool:
    """Whether somebody looks at single messages: an explainer's edge mask, or a PyG hook.

    Sums then go through PyG's ``propagate``, which makes every message; else through the ops.
    """
    return bool(
        conv.explain
        or conv._propagate_forward_pre_hooks
        or conv._propagate_forward_hooks
        or conv._message_forward_pre_hooks
        or conv._message_forward_hooks
        or conv._aggregate_forward_pre_hooks
        or conv._aggregate_forward_hooks
    )


def as_propagated(conv: MessagePassing, edges: Edges) -> tuple[Tensor, tuple[int, int]]:
    """The edge index and size that ``propagate`` expects for the layer's flow."""
    index = torch.stack([edges.source, edges.target])
    size = (edges.num_sources, edges.num_targets)
    if conv.flow == "source_to_target":
        return index, size
    return index.flip(0), (size[1], size[0])


def checked_order(order: int) -> int:
    """The order, or a ``ValueError`` unless it is a whole number of at least 1."""
    if isinstance(order, bool) or not isinstance(order, int) or order < 1:
        raise ValueError(f"order={order!r}: expected a whole number of at least 1")
    return order


def checked_combine(combine: str, name: str = "combine") -> Combine:
    """The combination, or a ``ValueError`` that names the argument."""
    if combine not in get_args(Combine):
        raise ValueError(f"{name}={combine!r}: expected 'mul' or 'add'")
    return cast(Combine, combine)


def checked_aggregation(kwargs: dict[str, Any]) -> str:
    """Takes the aggregation out of the arguments for PyG; a ``ValueError`` unless it is a sum."""
    aggr = kwargs.pop("aggr", "add")
    if aggr not in ("add", "sum"):
        raise ValueError(f"aggr={aggr!r}: a walk kernel is a sum over walks, expected 'add'")
    return "add"


def pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """The numbers of features of source and target nodes."""
    if isinstance(in_channels, int):
        return in_channels, in_channels
    source, target = in_channels
    return source, target
