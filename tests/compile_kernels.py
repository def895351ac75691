"""Compiles the CPU kernels that most tests need: run ``python -m tests.compile_kernels``.

Without this, each of the parallel test processes would compile the same kernels for itself.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import torch
from torch_geometric.data import Data

import pyg_kernels as pk

STEPS, TEXTS, CHANNELS = 3, 2, 4
RING = [[0, 1, 2], [1, 2, 0]]


def layer(name: str, **options: object) -> None:
    """Runs the forward and backward pass of a sequence layer."""
    net = getattr(pk.sequence, name)(CHANNELS, CHANNELS, **options)
    net(torch.randn(STEPS, TEXTS, CHANNELS))[0].sum().backward()


def graph_layer() -> None:
    """Runs the forward and backward pass of a graph layer."""
    net = pk.nn.GatedWalkConv(CHANNELS, CHANNELS, edge_dim=2)
    net(torch.randn(3, CHANNELS), torch.tensor(RING), torch.randn(3, 2)).sum().backward()


def activation(green: str) -> None:
    """Runs the forward and backward pass of a learned activation."""
    x = torch.randn(5, CHANNELS, requires_grad=True)
    pk.nn.KernelActivation(CHANNELS, green=green)(x).sum().backward()


def exact_kernels() -> None:
    """Calls the exact kernels of texts, of walks and of patterns."""
    pk.kernels.StringKernel()([torch.randn(length, CHANNELS) for length in (3, 2)])
    index = torch.tensor(RING)
    pk.kernels.RandomWalkKernel()([Data(x=torch.randn(3, CHANNELS), edge_index=index)])
    labelled = Data(x=torch.tensor([0, 1, 1]), edge_index=index)
    given = {"output": "gram", "dtype": torch.get_default_dtype()}
    for compare in ("dot", "minmax"):
        pk.kernels.WLSubtreeKernel(compare=compare, **given)([labelled, labelled])


rcnn = partial(layer, "RCNN", order=2)
CALLS = [  # the calls that take longest come first
    partial(rcnn, decay="recurrent"),
    partial(layer, "RKM"),
    partial(layer, "KBRN"),
    partial(layer, "KBRN", green="gaussian"),
    partial(rcnn, decay="input", pooling="max", combine="mul"),
    partial(rcnn, decay=0.5, pooling="max", combine="add"),
    graph_layer,
    partial(activation, "relu"),
    partial(activation, "gaussian"),
    exact_kernels,
]


def call(number: int) -> None:
    """Makes one of the calls, in float64 (even numbers) or float32 (odd numbers)."""
    torch.set_default_dtype((torch.float64, torch.float32)[number % 2])
    CALLS[number // 2]()


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(call, range(2 * len(CALLS))))
