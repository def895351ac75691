"""The networks of the molecule benchmark that are PyG's, and what puts networks on batches."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv, GINEConv, global_add_pool
from torch_geometric.nn.models import AttentiveFP, NeuralFingerprint

from benchmarks.harness.molecules.model_config import ModelConfig

FINGERPRINT_LENGTH = 256
MAX_DEGREE = 5  # Duvenaud et al. 2015: one weight matrix for each number of bonds, 0 to 5
ATTENTIVE_STEPS = 2  # Xiong et al. 2020: refinements of a molecule's vector
# Of gin-kernel; chosen on a validation part, see the documentation's page on learned activations.
KERNEL_ACTIVATION: dict[str, Any] = {"num_centers": 100, "init": "relu"}

Activation = Callable[[int], nn.Module]


class OnBatch(nn.Module):
    """Calls a network of PyG's signature with the tensors of a batch.

    Args:
        net: ``net(x, edge_index, batch=..., batch_size=..., [edge_attr=...])``.
        bond_features (bool): Whether `net` is given ``edge_attr``.
    """

    def __init__(self, net: nn.Module, bond_features: bool = True) -> None:
        super().__init__()
        self.net = net
        self.bond_features = bond_features

    def forward(self, batch: Batch) -> Tensor:
        """The outputs of the batch, ``(B, num_targets)``."""
        bonds = {"edge_attr": batch.edge_attr} if self.bond_features else {}
        return self.net(
            batch.x, batch.edge_index, batch=batch.batch, batch_size=batch.num_graphs, **bonds
        )


def rectifier(num_units: int) -> nn.Module:
    """ReLU, whatever the number of units."""
    return nn.ReLU()


def learned_activation(num_units: int) -> nn.Module:
    """A function learned for each unit, ReLU at the start (:data:`KERNEL_ACTIVATION`)."""
    from pyg_kernels.nn import KernelActivation

    return KernelActivation(num_units, **KERNEL_ACTIVATION)


def normalization(norm: str | None, channels: int) -> nn.Module:
    """The normalisation of a layer's states, over the batch or over each row."""
    if norm is None or norm == "head":
        return nn.Identity()
    return nn.BatchNorm1d(channels) if norm == "batch" else nn.LayerNorm(channels)


class PooledHead(nn.Sequential):
    """Graph vector to targets: normalisation, one hidden layer, targets.

    Batch normalisation makes a sum over atoms comparable to the standardised targets from the
    first step on; it keeps the differences in size between molecules.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        activation: Activation = rectifier,
        norm: str | None = "batch",
    ) -> None:
        super().__init__(
            normalization("batch" if norm == "head" else norm, in_channels),
            nn.Linear(in_channels, hidden_channels),
            activation(hidden_channels),
            nn.Linear(hidden_channels, out_channels),
        )


class IsomorphismNet(nn.Module):
    """PyG's GIN layers, or GINE layers where bonds have features, with sum pooling.

    Xu et al. 2019 and Hu et al. 2020: each layer is a two-layer perceptron on a sum over
    neighbours, followed by normalisation, an activation and dropout. Unlike PyG's ``GIN``, whose
    layers all call the one module given as ``act``, every place has an activation of its own.

    Args:
        config: Sizes.
        bond_features (bool): ``GINEConv`` if true, ``GINConv`` otherwise.
        activation: From a number of units to an activation, called once for each place.
    """

    def __init__(
        self, config: ModelConfig, bond_features: bool, activation: Activation = rectifier
    ) -> None:
        super().__init__()
        width = config.hidden
        self.dropout = config.dropout
        self.embed = nn.Linear(config.node_dim, width)
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        self.activations = nn.ModuleList()
        for _ in range(config.num_layers):
            mlp = nn.Sequential(
                nn.Linear(width, width),
                normalization(config.norm, width),
                activation(width),
                nn.Linear(width, width),
            )
            self.convs.append(
                GINEConv(mlp, edge_dim=config.edge_dim) if bond_features else GINConv(mlp)
            )
            self.norms.append(normalization(config.norm, width))
            self.activations.append(activation(width))
        self.head = PooledHead(width, width, config.num_targets, activation, config.norm)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        *,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The outputs of B graphs, ``(B, num_targets)``."""
        bonds = () if edge_attr is None else (edge_attr,)
        x = self.embed(x)
        for conv, norm, act in zip(self.convs, self.norms, self.activations, strict=True):
            x = F.dropout(act(norm(conv(x, edge_index, *bonds))), self.dropout, self.training)
        return self.head(global_add_pool(x, batch, batch_size))


class FingerprintNet(nn.Module):
    """PyG's :class:`NeuralFingerprint` (Duvenaud et al. 2015) and a head; no bond features."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fingerprint = NeuralFingerprint(
            config.node_dim,
            config.hidden,
            FINGERPRINT_LENGTH,
            config.num_layers,
            max_degree=MAX_DEGREE,
        )
        self.dropout = config.dropout
        self.head = PooledHead(
            FINGERPRINT_LENGTH, config.hidden, config.num_targets, norm=config.norm
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The outputs of B graphs, ``(B, num_targets)``."""
        # PyG's MFConv copies between types and fails under autocast.
        with torch.autocast(x.device.type, enabled=False):
            fingerprint = self.fingerprint(x.float(), edge_index, batch, batch_size)
        return self.head(F.dropout(fingerprint, self.dropout, self.training))


class AttentiveNet(nn.Module):
    """PyG's :class:`AttentiveFP` (Xiong et al. 2020) as it is, its head included."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.net = AttentiveFP(
            config.node_dim,
            config.hidden,
            config.num_targets,
            edge_dim=config.edge_dim,
            num_layers=config.num_layers,
            num_timesteps=ATTENTIVE_STEPS,
            dropout=config.dropout,
        )

    def forward(self, batch: Batch) -> Tensor:
        """The outputs of the batch, ``(B, num_targets)``."""
        return self.net(batch.x, batch.edge_index, batch.edge_attr, batch.batch)


class MeanPredictor(nn.Module):
    """The mean of the training targets, which is zero on the standardised scale."""

    def __init__(self, num_targets: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(num_targets))

    def forward(self, batch: Batch) -> Tensor:
        """Zeros, ``(B, num_targets)``."""
        return self.mean.expand(batch.num_graphs, -1)
