"""Compiles the kernels on CPU that most tests need: ``python -m tests.compile_kernels``.

Processes of tests side by side would otherwise compile the same kernels, each for itself.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import torch
from torch_geometric.data import Data

STEPS, TEXTS, CHANNELS = 3, 2, 4


def layer(name: str, dtype: torch.dtype, **options: object) -> None:
    """A sequence layer's forward and backward."""
    from pyg_kernels import sequence

    net = getattr(sequence, name)(CHANNELS, CHANNELS, **options).to(dtype)
    net(torch.randn(STEPS, TEXTS, CHANNELS, dtype=dtype))[0].sum().backward()


def graph_layer(dtype: torch.dtype) -> None:
    """A graph layer's."""
    from pyg_kernels.nn import GatedWalkConv

    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    net = GatedWalkConv(CHANNELS, CHANNELS, edge_dim=2).to(dtype)
    x, bonds = torch.randn(3, CHANNELS, dtype=dtype), torch.randn(3, 2, dtype=dtype)
    net(x, ring, bonds).sum().backward()


def activation(dtype: torch.dtype, green: str) -> None:
    """A learned activation's."""
    from pyg_kernels.nn import KernelActivation

    x = torch.randn(5, CHANNELS, dtype=dtype, requires_grad=True)
    KernelActivation(CHANNELS, green=green).to(dtype)(x).sum().backward()


def exact_kernels(dtype: torch.dtype) -> None:
    """Those of texts, of walks and of patterns."""
    from pyg_kernels.kernels import RandomWalkKernel, StringKernel, WLSubtreeKernel

    texts = [torch.randn(length, CHANNELS, dtype=dtype) for length in (3, 2)]
    StringKernel()(texts)
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graph = Data(x=torch.randn(3, CHANNELS, dtype=dtype), edge_index=ring)
    RandomWalkKernel()([graph])
    labelled = Data(x=torch.tensor([0, 1, 1]), edge_index=ring)
    for compare in ("dot", "minmax"):
        WLSubtreeKernel(output="gram", compare=compare, dtype=dtype)([labelled, labelled])


def calls() -> list[partial[None]]:
    """The calls, those first that take longest."""
    rcnn = partial(layer, name="RCNN", order=2)
    found: list[partial[None]] = []
    for each in (
        partial(rcnn, decay="recurrent"),
        partial(layer, name="RKM"),
        partial(layer, name="KBRN"),
        partial(layer, name="KBRN", green="gaussian"),
        partial(rcnn, decay="input", pooling="max", combine="mul"),
        partial(rcnn, decay=0.5, pooling="max", combine="add"),
        graph_layer,
        partial(activation, green="relu"),
        partial(activation, green="gaussian"),
        exact_kernels,
    ):
        found += [partial(each, dtype=dtype) for dtype in (torch.float64, torch.float32)]
    return found


def call(number: int) -> None:
    """Makes one of the calls."""
    calls()[number]()


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(call, range(len(calls()))))
