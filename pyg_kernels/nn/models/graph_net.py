"""What the networks of graphs share: node states that are summed, and a head."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.inits import reset
from torch_geometric.typing import OptTensor

from pyg_kernels.nn.arguments import checked_batch, checked_nodes
from pyg_kernels.nn.frontier_levels import FrontierLevels
from pyg_kernels.nn.models.graph_vector import sum_over_nodes
from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.graph import EdgeSource, as_edges


class GraphNet(Module, ABC):
    """A network of graphs; it has an `edge_dim`, and a `head` of the sum of its node states."""

    edge_dim: int | None
    head: Module

    def __init__(self) -> None:
        super().__init__()
        self.levels: FrontierLevels | None = None  # whose shares stand beside the states

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeSource,
        *,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        batch: OptTensor = None,
        batch_size: int | None = None,
    ) -> Tensor:
        sizes = (checked_nodes(x).size(0),) * 2
        checked_batch(batch, sizes[0])
        edges = as_edges(edge_index, *sizes, edge_attr, self.edge_dim, edge_weight=edge_weight)
        return self.of_states(x, self.node_states(x, edges), edges, batch, batch_size)

    def of_states(
        self, x: Tensor, states: Tensor, edges: Edges, batch: OptTensor, batch_size: int | None
    ) -> Tensor:
        """What the network makes of the states of its nodes."""
        if self.levels is not None:
            shares = self.levels(levels_input(x, states), edges, batch=batch, batch_size=batch_size)
            states = torch.cat([states, shares], 1)
        return self._output(sum_over_nodes(states, batch, batch_size))

    @abstractmethod
    def node_states(self, x: Tensor, edges: Edges) -> Tensor:
        """The states of the nodes, which are summed."""

    def _output(self, graph: Tensor) -> Tensor:
        """What the network makes of the graph vectors."""
        return self.head(graph)


def levels_of(
    in_channels: int, hidden_channels: int, num_levels: int, edge_dim: int | None
) -> FrontierLevels:
    """The levels of a network with these features and states of nodes."""
    if in_channels < 1:
        raise ValueError(f"in_channels={in_channels} with num_levels: expected their number")
    return FrontierLevels(in_channels + hidden_channels, num_levels, edge_dim)


def levels_input(x: Tensor, states: Tensor) -> Tensor:
    """What decides the levels of a network: the features of nodes, and their states."""
    return torch.cat([x, F.layer_norm(states, states.shape[1:])], 1)
