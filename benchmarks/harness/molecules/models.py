"""The networks that the molecule benchmark compares, by name.

Every network maps a batch of molecules to ``(num_graphs, num_targets)`` on the scale of the
standardised targets. Sizes are chosen so that networks of different kinds have about the same
number of parameters (:func:`fit_hidden_size`), unless a width is given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from benchmarks.harness import sizes
from benchmarks.harness.molecules.model_config import NORMS, READOUTS, ModelConfig
from benchmarks.harness.molecules.networks import (
    Activation,
    AttentiveNet,
    FingerprintNet,
    IsomorphismNet,
    MeanPredictor,
    OnBatch,
    learned_activation,
    rectifier,
)
from benchmarks.harness.sizes import largest_width

DEFAULT_PARAMETERS = 260_000


@dataclass(frozen=True)
class ModelKind:
    """One row of the comparison.

    Args:
        build: From a :class:`ModelConfig` to a module on batches.
        bond_features (bool): Whether the network reads bond features.
        trained (bool): False where there is nothing to learn from batches.
        width_of (str, optional): The model whose width within a number of parameters it takes,
            its own number notwithstanding; ``None``: the largest within that number.
        norms: The values of ``ModelConfig.norm`` that it takes.
        readouts: Those of ``ModelConfig.readout``.
        dropout (bool): Whether it has dropout.
    """

    build: Callable[[ModelConfig], nn.Module]
    bond_features: bool = True
    trained: bool = True
    width_of: str | None = None
    norms: tuple[str | None, ...] = NORMS
    readouts: tuple[str, ...] = READOUTS[:1]
    dropout: bool = True


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
                readout=config.readout,  # type: ignore[arg-type]
                norm=config.norm,
                dropout=config.dropout,
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
                norm=config.norm,
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
            norm=config.norm,
            dropout=config.dropout,
        )
    )


def _embedded_net(belief_propagation: bool) -> Callable[[ModelConfig], nn.Module]:
    def build(config: ModelConfig) -> nn.Module:
        from pyg_kernels.nn import EmbeddedLoopyBP, EmbeddedMeanField

        net = EmbeddedLoopyBP if belief_propagation else EmbeddedMeanField
        return OnBatch(
            net(
                config.node_dim,
                config.hidden,
                config.num_targets,
                num_iterations=config.num_layers,
                edge_dim=config.edge_dim,
                norm=config.norm,
                dropout=config.dropout,
            )
        )

    return build


MODELS: dict[str, ModelKind] = {
    "wl-gated": ModelKind(_wl_kernel_net(gated=True), readouts=READOUTS),
    "wl": ModelKind(_wl_kernel_net(gated=False), readouts=READOUTS),
    "graph-kernel": ModelKind(_graph_kernel_net),
    "gated-walk": ModelKind(_random_walk_net(gated=True), dropout=False),
    "random-walk": ModelKind(_random_walk_net(gated=False), dropout=False),
    "embedded-mean-field": ModelKind(_embedded_net(belief_propagation=False)),
    "embedded-loopy-bp": ModelKind(_embedded_net(belief_propagation=True)),
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
    # It has no normalisation: the default is no wish for one.
    "attentive-fp": ModelKind(AttentiveNet, norms=("batch", None)),
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
        ValueError: If the name is not in :data:`MODELS`, or the network has no such
            normalisation, dropout or readout.
    """
    if config.name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {config.name!r}")
    kind = MODELS[config.name]
    if kind.trained:
        _check_choices(config, kind)
    return kind.build(config)


def _check_choices(config: ModelConfig, kind: ModelKind) -> None:
    """Refuses what would have no effect on the network."""
    if config.norm not in kind.norms:
        raise ValueError(
            f"{config.name} with norm={config.norm!r}: expected {_alternatives(kind.norms)}"
        )
    if config.readout not in kind.readouts:
        raise ValueError(
            f"{config.name} with readout={config.readout!r}: expected "
            f"{_alternatives(kind.readouts)}"
        )
    if not 0.0 <= config.dropout < 1.0:
        raise ValueError(
            f"{config.name} with dropout={config.dropout}: expected a probability in [0, 1)"
        )
    if config.dropout and not kind.dropout:
        raise ValueError(
            f"{config.name} with dropout={config.dropout}: it has no dropout, expected 0"
        )


def _alternatives(values: tuple[str | None, ...]) -> str:
    return " or ".join(map(repr, values))


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
        ValueError: If even width 1 exceeds `budget`, and as :func:`build_model`.
    """
    kind = MODELS[config.name]
    if kind.width_of:
        _check_choices(config, kind)
        like = fit_hidden_size(replace(config, name=kind.width_of), budget)
        return replace(config, hidden=like.hidden)

    def fits(width: int) -> bool:
        return count_parameters(replace(config, hidden=width)) <= budget

    width = largest_width(fits) if kind.trained else int(fits(1))
    if not width:
        raise ValueError(f"no width of {config.name!r} has at most {budget} parameters")
    return replace(config, hidden=width)
