"""Every layer and network on graphs, as one builds it, for the promises of these tests."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import Module

from pyg_kernels.nn import (
    EmbeddedLoopyBP,
    EmbeddedMeanField,
    GatedWalkConv,
    GraphKernelConv,
    GraphKernelNet,
    RandomWalkConv,
    RandomWalkNet,
    WLKernelConv,
    WLKernelNet,
)


def wl(in_channels: Any, out_channels: int, **kwargs: Any) -> WLKernelConv:
    """WL labels have one size before and after."""
    sizes = in_channels if isinstance(in_channels, tuple) else (in_channels,)
    assert set(sizes) <= {out_channels, -1}
    return WLKernelConv(out_channels, **kwargs)


CONVS: dict[str, Callable[..., Module]] = {
    "RandomWalkConv": RandomWalkConv,
    "RandomWalkConv-learned": partial(RandomWalkConv, decay="learned", combine="add", act="relu"),
    "GatedWalkConv": GatedWalkConv,
    "GraphKernelConv": GraphKernelConv,
    "GraphKernelConv-gated": partial(GraphKernelConv, gated=True),
    "WLKernelConv": wl,
    "WLKernelConv-gated": partial(wl, gated=True, relabel="mul", act="tanh"),
}
NETS: dict[str, Callable[..., Module]] = {
    "RandomWalkNet": RandomWalkNet,
    "GraphKernelNet": partial(GraphKernelNet, num_layers=2),
    "WLKernelNet": partial(WLKernelNet, num_iterations=3),
    "EmbeddedMeanField": partial(EmbeddedMeanField, num_iterations=2),
    "EmbeddedLoopyBP": partial(EmbeddedLoopyBP, num_iterations=2),
}
every_conv = pytest.mark.parametrize("conv", CONVS.values(), ids=list(CONVS))


def seeded(build: Callable[..., Module], *args: Any, **kwargs: Any) -> Module:
    torch.manual_seed(0)
    return build(*args, **kwargs)
