"""Networks on molecules, by name or by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Self

import torch
import torch.nn.functional as F
import torch_geometric.nn as gnn
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn.models import AttentiveFP, NeuralFingerprint

from pyg_kernels.molecules.environments import wl_output
from pyg_kernels.nn import (
    EmbeddedLoopyBP,
    EmbeddedMeanField,
    GraphKernelNet,
    RandomWalkNet,
    WLKernelNet,
)
from pyg_kernels.nn.models.graph_vector import GraphHead, build_norm

FINGERPRINT_LENGTH = 256
MAX_DEGREE = 5  # Duvenaud et al. 2015: one weight matrix for each number of bonds, 0 to 5
ATTENTIVE_STEPS = 2  # Xiong et al. 2020: refinements of a molecule's vector


class IsomorphismNet(nn.Module):
    """GIN (Xu et al. 2019), or with `edge_dim` GINE (Hu et al. 2020), summed over atoms."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        edge_dim: int | None,
        dropout: float,
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        width, self.dropout = hidden_channels, dropout
        self.embed = nn.Linear(in_channels, width)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(num_layers):
            mlp = nn.Sequential(
                nn.Linear(width, width), _norm(norm, width), nn.ReLU(), nn.Linear(width, width)
            )
            conv = gnn.GINConv(mlp) if edge_dim is None else gnn.GINEConv(mlp, edge_dim=edge_dim)
            self.convs.append(conv)
            self.norms.append(_norm(norm, width))
        self.bonds = edge_dim is not None
        self.head = GraphHead(width, width, out_channels, norm, "relu")

    def forward(
        self, x: Tensor, edge_index: Tensor, *, edge_attr: Tensor, batch: Tensor, batch_size: int
    ) -> Tensor:
        bonds = (edge_attr,) if self.bonds else ()
        x = self.embed(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.dropout(norm(conv(x, edge_index, *bonds)).relu(), self.dropout, self.training)
        return self.head(gnn.global_add_pool(x, batch, batch_size))


def _norm(norm: str | None, width: int) -> nn.Module:
    return build_norm(norm, width) or nn.Identity()


class FingerprintNet(nn.Module):
    """PyG's Neural Fingerprint (Duvenaud et al. 2015) and a head; no bond features."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        dropout: float,
        norm: str | None = "batch",
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.fingerprint = NeuralFingerprint(
            in_channels, hidden_channels, FINGERPRINT_LENGTH, num_layers, max_degree=MAX_DEGREE
        )
        self.head = GraphHead(FINGERPRINT_LENGTH, hidden_channels, out_channels, norm, "relu")

    def forward(self, x: Tensor, edge_index: Tensor, *, batch: Tensor, batch_size: int) -> Tensor:
        found = self.fingerprint(x, edge_index, batch, batch_size)
        return self.head(F.dropout(found, self.dropout, self.training))


@dataclass(frozen=True)
class NetworkKind:
    """A named network: its class, its arguments, and a width with about 260,000 parameters.

    `depth` names the argument for the number of layers, iterations, or nodes in a walk.
    """

    net: Callable[..., nn.Module]
    hidden_channels: int
    options: dict[str, Any] = field(default_factory=dict)
    depth: str = "num_layers"
    num_layers: int = 4


NETWORKS: dict[str, NetworkKind] = {
    "wl": NetworkKind(WLKernelNet, 112, {"gated": False, "tie_weights": None}, "num_iterations"),
    "wl-gated": NetworkKind(
        WLKernelNet, 92, {"gated": True, "tie_weights": None}, "num_iterations"
    ),
    "graph-kernel": NetworkKind(GraphKernelNet, 140, {"order": 2}),
    "random-walk": NetworkKind(RandomWalkNet, 560, {"gated": False, "act": "relu"}, "order"),
    "gated-walk": NetworkKind(RandomWalkNet, 380, {"gated": True, "act": "relu"}, "order"),
    "gin": NetworkKind(IsomorphismNet, 160, {"edge_dim": None}),
    "gine": NetworkKind(IsomorphismNet, 160),
    "attentive-fp": NetworkKind(AttentiveFP, 80, {"num_timesteps": ATTENTIVE_STEPS}),
    "neural-fingerprint": NetworkKind(FingerprintNet, 56),
    "embedded-mean-field": NetworkKind(EmbeddedMeanField, 160, depth="num_iterations"),
    "embedded-loopy-bp": NetworkKind(EmbeddedLoopyBP, 160, depth="num_iterations"),
}


def imported(model: str) -> type[nn.Module]:
    """The class of a network, by its import path ``'mypkg.nets:Net'``."""
    path, _, name = model.partition(":")
    try:
        made = getattr(import_module(path), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"model={model!r} cannot be imported: {error}") from error
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise ValueError(f"model={model!r} is {made!r}: expected a class of torch.nn.Module")
    return made


def build_network(
    model: str,
    in_channels: int,
    out_channels: int,
    edge_dim: int,
    hidden_channels: int | None = None,
    num_layers: int | None = None,
    dropout: float = 0.0,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Builds a network, whose weights are drawn from torch's global generator.

    Args:
        model: A key of `NETWORKS`, or the import path ``'mypkg.nets:Net'`` of a class of modules.
            It is called with ``in_channels=..., out_channels=...``, and with those of ``edge_dim``,
            ``hidden_channels``, ``num_layers`` and ``dropout`` that it takes and that are given.
            Its ``forward(x, edge_index, edge_attr=..., batch=..., batch_size=...)`` returns
            ``(B, out_channels)``; it may lack all arguments but the first two.
        in_channels: The number of atom features.
        out_channels: The number of outputs.
        edge_dim: The number of bond features.
        hidden_channels: The width. None: the network's default.
        num_layers: The number of layers, iterations, or nodes in a walk. None: the default.
        dropout: The probability of dropping a channel.
        options: Further arguments of the network, such as ``{'norm': 'head'}``.

    Raises:
        ValueError: If there is no such network, or it does not take an option.
    """
    kind = NetworkKind(imported(model), 0, num_layers=0) if ":" in model else NETWORKS[model]
    taken = inspect.signature(kind.net).parameters
    if dropout and "dropout" not in taken and model in NETWORKS:
        raise ValueError(f"dropout={dropout}: {model} has none, expected 0")
    sizes = {
        "edge_dim": edge_dim,
        "hidden_channels": hidden_channels or kind.hidden_channels or None,
        kind.depth: num_layers or kind.num_layers or None,
        "dropout": dropout,
    }
    named = {
        name: value
        for name, value in sizes.items()
        if name in taken and name not in kind.options and value is not None
    }
    named |= {"in_channels": in_channels, "out_channels": out_channels}
    try:
        return kind.net(**named, **{**kind.options, **(options or {})})
    except TypeError as error:
        if model not in NETWORKS:
            raise
        raise ValueError(f"network_options={options!r} of {model}: {error}") from error


class MoleculeNet(nn.Module):
    """Applies a network to batches, with E extra columns; also gives graph vectors.

    The graph vector is the input of the head's first linear map; without a ``head``, it is the
    input of the network's last linear map. Extra columns are appended to it.
    """

    def __init__(self, net: nn.Module, num_extra: int, name: str) -> None:
        super().__init__()
        self.net, self.name = net, name
        self.frozen = False
        taken = inspect.signature(net.forward).parameters
        self.takes = [key for key in ("edge_attr", "batch", "batch_size") if key in taken]
        self.lin_extra: nn.Linear | None = None
        if num_extra:
            reader: Any = self.reader()
            size = getattr(reader, "out_features", None) or reader.out_channels
            self.lin_extra = nn.Linear(num_extra, size, bias=False)

    def reader(self) -> nn.Module:
        """The linear map that reads the graph vector."""
        head = getattr(self.net, "head", None)
        within = self.net if head is None else head
        maps = [m for m in within.modules() if isinstance(m, (nn.Linear, gnn.Linear))]
        if not maps:
            raise ValueError(f"{self.name} has no linear map that reads a graph vector")
        return maps[-1 if head is None else 0]

    def start_from(self, other: MoleculeNet, frozen: bool, heads: bool = True) -> None:
        """Copies the weights of another network of its kind; with `heads`, also a head that fits.

        If `frozen`, all but the head stays as it is from now on: weights, running means and
        variances do not change, and there is no dropout.
        """
        last = {id(p) for part in self._last() for p in part.parameters()}
        own, weights = dict(self.named_parameters()), other.state_dict()
        taken = {}
        for name, value in self.state_dict().items():
            if not heads and name in own and id(own[name]) in last:
                continue
            if name in weights and weights[name].shape == value.shape:
                taken[name] = weights[name]
            elif name in own and id(own[name]) not in last:
                raise ValueError(
                    f"start_from: {self.name} has {name!r} of shape {tuple(value.shape)}, and the "
                    "other network not: expected the same sizes and features"
                )
        self.load_state_dict(taken, strict=False)
        for parameter in self.parameters() if frozen else ():
            parameter.requires_grad_(id(parameter) in last)
        self.frozen = frozen
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Sets the mode; if frozen only the head's, since the rest stays in evaluation mode."""
        super().train(mode and not self.frozen)
        for part in self._last():
            part.train(mode)
        self.training = mode
        return self

    def _last(self) -> list[nn.Module]:
        """The head, or else the last linear map; and the linear map of extra columns."""
        head = getattr(self.net, "head", None)
        parts = [self.reader() if head is None else head]
        return parts if self.lin_extra is None else [*parts, self.lin_extra]

    def forward(self, batch: Batch) -> Tensor:
        """The outputs of B molecules, ``(B, out)``."""
        handle: Any = nullcontext()
        if self.lin_extra is not None:
            part = self.lin_extra(batch.extra)
            handle = self.reader().register_forward_hook(
                lambda module, args, out: self._checked_rows(out, part) + part
            )
        with handle:
            out = wl_output(self.net, batch)
            if out is None:
                known = {"batch_size": batch.num_graphs}
                given = {key: known.get(key, getattr(batch, key, None)) for key in self.takes}
                out = self.net(batch.x, batch.edge_index, **given)
        if isinstance(out, Tensor) and out.dim() == 2 and out.size(0) == batch.num_graphs:
            return out.float()
        if not isinstance(out, Tensor) or out.numel() % batch.num_graphs or out.dim() > 2:
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(f"{self.name} gives {shape}: expected ({batch.num_graphs}, out)")
        return out.reshape(batch.num_graphs, -1).float()

    def _checked_rows(self, found: Tensor, rows: Tensor) -> Tensor:
        if found.dim() != 2 or found.size(0) != rows.size(0):
            raise ValueError(
                f"the last linear map of {self.name} has rows {tuple(found.shape)}: expected one "
                "a graph; call what reads the graph vector `head`"
            )
        return found

    def vectors(self, batch: Batch) -> Tensor:
        """The graph vectors of B molecules, ``(B, D)``, extra columns last."""
        found: list[Tensor] = []
        with self.reader().register_forward_pre_hook(lambda module, args: found.append(args[0])):
            self(batch)
        vectors = self._checked_rows(found[0], batch.extra)
        return torch.cat([vectors, batch.extra], 1).float()
