"""Every layer and network on graphs, as users build it, for the tests of conventions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import Module

from pyg_kernels import nn
from pyg_kernels.rationale import WLStates
from tests.sequence.variants import drawn


def wl(in_channels: Any, out_channels: int, **kwargs: Any) -> nn.WLKernelConv:
    """WL labels have the same size before and after the layer."""
    sizes = in_channels if isinstance(in_channels, tuple) else (in_channels,)
    assert set(sizes) <= {out_channels, -1}
    return nn.WLKernelConv(out_channels, **kwargs)


CONVS: dict[str, Callable[..., Module]] = {
    "RandomWalkConv": nn.RandomWalkConv,
    "RandomWalkConv-learned": partial(
        nn.RandomWalkConv, decay="learned", combine="add", act="relu"
    ),
    "GatedWalkConv": nn.GatedWalkConv,
    "GraphKernelConv": nn.GraphKernelConv,
    "GraphKernelConv-gated": partial(nn.GraphKernelConv, gated=True),
    "WLKernelConv": wl,
    "WLKernelConv-gated": partial(wl, gated=True, relabel="mul", act="tanh"),
}
NETS: dict[str, Callable[..., Module]] = {
    "RandomWalkNet": nn.RandomWalkNet,
    "GraphKernelNet": partial(nn.GraphKernelNet, num_layers=2),
    "WLKernelNet": partial(nn.WLKernelNet, num_iterations=3),
    "EmbeddedMeanField": partial(nn.EmbeddedMeanField, num_iterations=2),
    "EmbeddedLoopyBP": partial(nn.EmbeddedLoopyBP, num_iterations=2),
}
OTHERS: dict[str, Callable[..., Module]] = {
    "order-3": partial(nn.RandomWalkConv, order=3, act="tanh"),
    "onwards": partial(nn.RandomWalkConv, order=3, act="tanh", non_backtracking=True),
    "gated-onwards": partial(nn.GatedWalkConv, order=3, non_backtracking=True),
}
C, E = 4, 3
LAYERS = {name: (build, (C, C)) for name, build in {**CONVS, **OTHERS}.items()}
LAYERS["WLStates"] = (WLStates, (C, C))
LAYERS |= {name: (build, (C, 6, 2)) for name, build in NETS.items()}
every_conv = pytest.mark.parametrize("conv", CONVS.values(), ids=list(CONVS))
every_layer = pytest.mark.parametrize(("build", "sizes"), LAYERS.values(), ids=list(LAYERS))


def seeded(build: Callable[..., Module], *args: Any, **kwargs: Any) -> Module:
    torch.manual_seed(0)
    return build(*args, **kwargs)


def layer_of(build: Callable[..., Module], sizes: tuple[int, ...], bonds: bool = False) -> Module:
    """The layer in double precision and evaluation mode."""
    return seeded(build, *sizes, edge_dim=E if bonds else None).double().eval()


def walk_layer(weights: float | str, *sizes: int, **options: Any) -> nn.RandomWalkConv:
    """A layer with arbitrary parameters, in double precision; `weights`: its decay, or "gated"."""
    if weights != "gated":
        return drawn(nn.RandomWalkConv, *sizes, decay=weights, scale=0.8, **options)
    return drawn(nn.GatedWalkConv, *sizes, scale=0.8, **options)
