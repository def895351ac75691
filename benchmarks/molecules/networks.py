"""GIN with learned activations: what the activation alone changes. Named by their import path."""

import torch.nn.functional as F
import torch_geometric.nn as gnn
from torch import Tensor, nn

from pyg_kernels.molecules.networks import IsomorphismNet
from pyg_kernels.nn import KernelActivation

CENTERS = 100  # of gin-kernel; chosen on a validation part, see the page on learned activations


class SlopedGIN(IsomorphismNet):
    """The package's ``gin`` with other activations: ReLU with a learned slope for each unit."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 164,
        num_layers: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, None, dropout)
        rectifiers = [name for name, one in self.named_modules() if isinstance(one, nn.ReLU)]
        for name in rectifiers:
            self.set_submodule(name, self.act(hidden_channels))
        # The head stays last: the norm of all gradients depends on the order of parameters.
        head = self.head
        del self.head
        self.acts = nn.ModuleList(self.act(hidden_channels) for _ in range(num_layers))
        self.head = head

    def act(self, width: int) -> nn.Module:
        return nn.PReLU(width)

    def forward(
        self, x: Tensor, edge_index: Tensor, *, edge_attr: Tensor, batch: Tensor, batch_size: int
    ) -> Tensor:
        x = self.embed(x)
        for conv, norm, act in zip(self.convs, self.norms, self.acts, strict=True):
            x = F.dropout(act(norm(conv(x, edge_index))), self.dropout, self.training)
        return self.head(gnn.global_add_pool(x, batch, batch_size))


class LearnedGIN(SlopedGIN):
    """``gin`` with a function learned for each unit, which starts as ReLU."""

    def act(self, width: int) -> nn.Module:
        return KernelActivation(width, num_centers=CENTERS, init="relu")
