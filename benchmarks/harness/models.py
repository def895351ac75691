"""The networks that the molecule benchmark compares, by name.

Every network maps a batch of molecules to ``(num_graphs, num_targets)`` on the scale of the
standardised targets. Sizes are chosen so that networks of different kinds have about the same
number of parameters (:func:`fit_hidden_size`), unless a width is given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv, GINEConv, global_add_pool
from torch_geometric.nn.models import NeuralFingerprint

from benchmarks.harness import sizes
from benchmarks.harness.sizes import largest_width

DEFAULT_PARAMETERS = 260_000
FINGERPRINT_LENGTH = 256
MAX_DEGREE = 5  # Duvenaud et al. 2015: one weight matrix for each number of bonds, 0 to 5
# Of gin-kernel; chosen on a validation part, see the documentation's page on learned activations.
KERNEL_ACTIVATION: dict[str, Any] = {"num_centers": 100, "init": "relu"}

Activation = Callable[[int], nn.Module]


@dataclass(frozen=True)
class ModelConfig:
    """Everything that :func:`build_model` needs; plain values, so a checkpoint can carry it.

    Args:
        name (str): A key of :data:`MODELS`.
        node_dim (int): Number of atom features.
        edge_dim (int): Number of bond features.
        num_targets (int): Number of values to predict for a molecule.
        hidden (int): Width.
        num_layers (int): Layers, or Weisfeiler-Lehman iterations. For the single-layer
            random-walk networks, the number of nodes in a walk where `order` is ``None``.
        order (int, optional): Number of nodes in a walk; ``None``: 2, or as `num_layers` says.
    """

    name: str
    node_dim: int
    edge_dim: int
    num_targets: int
    hidden: int
    num_layers: int = 4
    order: int | None = None


class OnBatch(nn.Module):
    """Calls a network of PyG's signature with the tensors of a batch.

    Args:
        net: ``net(x, edge_index, batch, batch_size=..., [edge_attr=...])``.
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
            batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs, **bonds
        )


def rectifier(num_units: int) -> nn.Module:
    """ReLU, whatever the number of units."""
    return nn.ReLU()


def learned_activation(num_units: int) -> nn.Module:
    """A function learned for each unit, ReLU at the start (:data:`KERNEL_ACTIVATION`)."""
    from pyg_kernels.nn import KernelActivation

    return KernelActivation(num_units, **KERNEL_ACTIVATION)


class PooledHead(nn.Sequential):
    """Graph vector to targets: batch normalisation, one hidden layer, targets.

    The normalisation makes a sum over atoms comparable to the standardised targets from the first
    step on; it keeps the differences in size between molecules.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        activation: Activation = rectifier,
    ) -> None:
        super().__init__(
            nn.BatchNorm1d(in_channels),
            nn.Linear(in_channels, hidden_channels),
            activation(hidden_channels),
            nn.Linear(hidden_channels, out_channels),
        )


class IsomorphismNet(nn.Module):
    """PyG's GIN layers, or GINE layers where bonds have features, with sum pooling.

    Xu et al. 2019 and Hu et al. 2020: each layer is a two-layer perceptron on a sum over
    neighbours, followed by batch normalisation and an activation. Unlike PyG's ``GIN``, whose
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
        self.embed = nn.Linear(config.node_dim, width)
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        self.activations = nn.ModuleList()
        for _ in range(config.num_layers):
            mlp = nn.Sequential(
                nn.Linear(width, width),
                nn.BatchNorm1d(width),
                activation(width),
                nn.Linear(width, width),
            )
            self.convs.append(
                GINEConv(mlp, edge_dim=config.edge_dim) if bond_features else GINConv(mlp)
            )
            self.norms.append(nn.BatchNorm1d(width))
            self.activations.append(activation(width))
        self.head = PooledHead(width, width, config.num_targets, activation)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The outputs of B graphs, ``(B, num_targets)``."""
        bonds = () if edge_attr is None else (edge_attr,)
        x = self.embed(x)
        for conv, norm, act in zip(self.convs, self.norms, self.activations, strict=True):
            x = act(norm(conv(x, edge_index, *bonds)))
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
        self.head = PooledHead(FINGERPRINT_LENGTH, config.hidden, config.num_targets)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The outputs of B graphs, ``(B, num_targets)``."""
        # PyG's MFConv copies between types and fails under autocast.
        with torch.autocast(x.device.type, enabled=False):
            fingerprint = self.fingerprint(x.float(), edge_index, batch, batch_size)
        return self.head(fingerprint)


class MeanPredictor(nn.Module):
    """The mean of the training targets, which is zero on the standardised scale."""

    def __init__(self, num_targets: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(num_targets))

    def forward(self, batch: Batch) -> Tensor:
        """Zeros, ``(B, num_targets)``."""
        return self.mean.expand(batch.num_graphs, -1)


@dataclass(frozen=True)
class ModelKind:
    """One row of the comparison.

    Args:
        build: From a :class:`ModelConfig` to a module on batches.
        bond_features (bool): Whether the network reads bond features.
        trained (bool): False where there is nothing to learn from batches.
        width_of (str, optional): The model whose width within a number of parameters it takes,
            its own number notwithstanding; ``None``: the largest within that number.
    """

    build: Callable[[ModelConfig], nn.Module]
    bond_features: bool = True
    trained: bool = True
    width_of: str | None = None


def _isomorphism_net(activation: Activation) -> Callable[[ModelConfig], nn.Module]:
    def build(config: ModelConfig) -> nn.Module:
        net = IsomorphismNet(config, bond_features=False, activation=activation)
        return OnBatch(net, bond_features=False)

    return build


def _wl_kernel_net(gated: bool) -> Callable[[ModelConfig], nn.Module]:
    def build(config: ModelConfig) -> nn.Module:
        from pyg_kernels.nn import WLKernelNet

        return OnBatch(
            WLKernelNet(
                config.node_dim,
                config.hidden,
                config.num_targets,
                num_iterations=config.num_layers,
                order=config.order or 2,
                gated=gated,
                edge_dim=config.edge_dim,
                tie_weights=None,
                norm="batch",
            )
        )

    return build


def _random_walk_net(gated: bool) -> Callable[[ModelConfig], nn.Module]:
    def build(config: ModelConfig) -> nn.Module:
        from pyg_kernels.nn import RandomWalkNet

        return OnBatch(
            RandomWalkNet(
                config.node_dim,
                config.hidden,
                config.num_targets,
                order=config.order or config.num_layers,
                gated=gated,
                edge_dim=config.edge_dim,
                norm="batch",
            )
        )

    return build


def _graph_kernel_net(config: ModelConfig) -> nn.Module:
    from pyg_kernels.nn import GraphKernelNet

    return OnBatch(
        GraphKernelNet(
            config.node_dim,
            config.hidden,
            config.num_targets,
            num_layers=config.num_layers,
            order=config.order or 2,
            edge_dim=config.edge_dim,
            norm="batch",
        )
    )


MODELS: dict[str, ModelKind] = {
    "wl-gated": ModelKind(_wl_kernel_net(gated=True)),
    "wl": ModelKind(_wl_kernel_net(gated=False)),
    "graph-kernel": ModelKind(_graph_kernel_net),
    "gated-walk": ModelKind(_random_walk_net(gated=True)),
    "random-walk": ModelKind(_random_walk_net(gated=False)),
    "gine": ModelKind(lambda config: OnBatch(IsomorphismNet(config, bond_features=True))),
    "gin": ModelKind(_isomorphism_net(rectifier), bond_features=False),
    # One width and depth, three activations: what the activation alone changes.
    "gin-relu": ModelKind(_isomorphism_net(rectifier), bond_features=False),
    "gin-prelu": ModelKind(_isomorphism_net(nn.PReLU), bond_features=False, width_of="gin-relu"),
    "gin-kernel": ModelKind(
        _isomorphism_net(learned_activation), bond_features=False, width_of="gin-relu"
    ),
    "neural-fingerprint": ModelKind(
        lambda config: OnBatch(FingerprintNet(config), bond_features=False), bond_features=False
    ),
    "mean": ModelKind(
        lambda config: MeanPredictor(config.num_targets), bond_features=False, trained=False
    ),
}


def build_model(config: ModelConfig) -> nn.Module:
    """The network of a configuration, with fresh weights from torch's global generator.

    Args:
        config: Name and sizes.

    Returns:
        A module from a batch of B molecules to ``(B, num_targets)``.

    Raises:
        ValueError: If the name is not in :data:`MODELS`.
    """
    if config.name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {config.name!r}")
    return MODELS[config.name].build(config)


def count_parameters(config: ModelConfig) -> int:
    """Number of trained numbers of a configuration's network, without memory for them."""
    return sizes.count_parameters(lambda: build_model(config))


def fit_hidden_size(config: ModelConfig, budget: int = DEFAULT_PARAMETERS) -> ModelConfig:
    """The configuration with the largest width whose network stays within a number of parameters.

    A kind with ``width_of`` gets the width of that model instead.

    Args:
        config: A configuration; its width is ignored.
        budget (int): Number of parameters not to exceed.

    Returns:
        The configuration with its width set.

    Raises:
        ValueError: If even width 1 exceeds `budget`.
    """
    kind = MODELS[config.name]
    if kind.width_of:
        like = fit_hidden_size(replace(config, name=kind.width_of), budget)
        return replace(config, hidden=like.hidden)

    def fits(width: int) -> bool:
        return count_parameters(replace(config, hidden=width)) <= budget

    width = largest_width(fits) if kind.trained else int(fits(1))
    if not width:
        raise ValueError(f"no width of {config.name!r} has at most {budget} parameters")
    return replace(config, hidden=width)
