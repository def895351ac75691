"""The base of the networks for graphs: node states that are summed, and a head."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import global_add_pool
from torch_geometric.typing import OptTensor

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import checked_batch, checked_edge_dim, checked_nodes
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.graph import EdgeSource, as_edges


class GraphNet(Resettable, Module, ABC):
    """A network for graphs, with an `edge_dim` and a `head` that reads the sum of node states."""

    head: Module

    def __init__(self, hidden_channels: int, out_channels: int, edge_dim: int | None) -> None:
        super().__init__()
        checked_count(hidden_channels, "hidden_channels")
        checked_count(out_channels, "out_channels")
        self.edge_dim = checked_edge_dim(edge_dim)

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
        checked_batch(batch, sizes[0], batch_size)
        edges = as_edges(edge_index, *sizes, edge_attr, self.edge_dim, edge_weight=edge_weight)
        return self._output(global_add_pool(self._states(x, edges), batch, batch_size))

    @abstractmethod
    def _states(self, x: Tensor, edges: Edges) -> Tensor:
        """The states of the nodes, which are summed."""

    def _output(self, graph: Tensor) -> Tensor:
        """The outputs of the network, given the graph vectors."""
        return self.head(graph)
