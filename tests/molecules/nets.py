"""Networks that are named by their import path."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, global_mean_pool


class TwoConvs(torch.nn.Module):
    """PyG's tutorial: two layers, a mean over nodes, a linear map."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = GCNConv(in_channels, 8)
        self.second = GCNConv(8, 8)
        self.lin = torch.nn.Linear(8, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.second(self.first(x, edge_index).relu(), edge_index)
        return self.lin(global_mean_pool(x, batch))


class OnNodes(TwoConvs):
    """Its last linear map reads nodes, before the mean."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return global_mean_pool(self.lin(self.first(x, edge_index)), batch)


class Infinite(TwoConvs):
    """Gives non-finite values outside of training, for batches of at most four molecules."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out = super().forward(x, edge_index, batch)
        return out if self.training or len(out) > 4 else out / 0.0


def no_class(**named: Any) -> None:
    """Not a network."""
