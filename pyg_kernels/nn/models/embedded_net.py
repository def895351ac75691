"""The base of the two embeddings of latent variable models: everything but their states."""

from __future__ import annotations

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import Act, build_activation, checked_dropout
from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.nn.models.graph_net import GraphNet
from pyg_kernels.nn.models.graph_vector import GraphHead, build_norm
from pyg_kernels.ops.edges import Edges

_USUAL_NEIGHBORS = 3


class EmbeddedNet(GraphNet):
    """A network whose node states come from T rounds of messages. For its arguments, see
    `EmbeddedMeanField`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_iterations: int = 4,
        act: Act = "relu",
        edge_dim: int | None = None,
        norm: str | None = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(hidden_channels, out_channels, edge_dim)
        channels = hidden_channels
        self.num_iterations = checked_count(num_iterations, "num_iterations")
        self.act = build_activation(act)
        self.dropout = checked_dropout(dropout)
        self.lin_node = UnitLinear(in_channels, channels)
        self.lin_edge = None if edge_dim is None else UnitLinear(edge_dim, channels)
        self.bias = Parameter(torch.empty(channels))
        self.lin_message = UnitLinear(channels, channels)
        self.lin_out = UnitLinear(channels, channels)
        norms = [build_norm(norm, channels) for _ in range(num_iterations + 1)]
        self.norms = ModuleList(module for module in norms if module is not None)
        self.head = GraphHead(channels, channels, out_channels, norm, act)
        self._build(in_channels, channels, norm)
        self._begin()

    def _build(self, in_channels: int, hidden_channels: int, norm: str | None) -> None:
        """Adds further modules that the states need."""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._begin()

    def _begin(self) -> None:
        torch.nn.init.zeros_(self.bias)
        with torch.no_grad():  # a sum over about three neighbours then keeps the variance
            self.lin_message.weight.mul_(_USUAL_NEIGHBORS**-0.5)

    def _states(self, x: Tensor, edges: Edges) -> Tensor:
        out = self.lin_out(self._iterated(x, edges))
        return out if self.act is None else self.act(out)

    @abstractmethod
    def _iterated(self, x: Tensor, edges: Edges) -> Tensor:
        """The node states after the last iteration, (N, D)."""

    def _activated(self, value: Tensor, norm: Module | None) -> Tensor:
        """Applies the normalisation, the activation and dropout."""
        value = value if norm is None else norm(value)
        value = value if self.act is None else self.act(value)
        return F.dropout(value, self.dropout, self.training)

    def _norm(self, iteration: int) -> Module | None:
        return self.norms[iteration] if len(self.norms) > 0 else None

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.lin_node.in_channels}, "
            f"{self.lin_node.out_channels}, num_iterations={self.num_iterations})"
        )
