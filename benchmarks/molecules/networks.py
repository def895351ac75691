"""GIN with three activations: what the activation alone changes. Named by their import path."""

import torch.nn.functional as F
import torch_geometric.nn as gnn
from torch import Tensor, nn

from pyg_kernels.nn import KernelActivation

CENTERS = 100  # of gin-kernel; chosen on a validation part, see the page on learned activations


class ActivatedGIN(nn.Module):
    """PyG's GIN layers, batch normalization, sum pooling; an activation at each place."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 164,
        num_layers: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        width, self.dropout = hidden_channels, dropout
        self.embed = nn.Linear(in_channels, width)
        self.convs, self.norms, self.acts = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for _ in range(num_layers):
            mlp = nn.Sequential(
                nn.Linear(width, width), self.norm(width), self.act(width), nn.Linear(width, width)
            )
            self.convs.append(gnn.GINConv(mlp))
            self.norms.append(self.norm(width))
            self.acts.append(self.act(width))
        self.head = nn.Sequential(
            self.norm(width), nn.Linear(width, width), self.act(width),
            nn.Linear(width, out_channels),
        )  # fmt: skip

    def norm(self, width: int) -> nn.Module:
        return gnn.BatchNorm(width, allow_single_element=True)

    def act(self, width: int) -> nn.Module:
        return nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor, *, batch: Tensor, batch_size: int) -> Tensor:
        x = self.embed(x)
        for conv, norm, act in zip(self.convs, self.norms, self.acts, strict=True):
            x = F.dropout(act(norm(conv(x, edge_index))), self.dropout, self.training)
        return self.head(gnn.global_add_pool(x, batch, batch_size))


class SlopedGIN(ActivatedGIN):
    """With a slope for each unit."""

    def act(self, width: int) -> nn.Module:
        return nn.PReLU(width)


class LearnedGIN(ActivatedGIN):
    """With a function learned for each unit, ReLU at the start."""

    def act(self, width: int) -> nn.Module:
        return KernelActivation(width, num_centers=CENTERS, init="relu")
