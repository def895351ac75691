"""On a CUDA device, graph layers and activations give the CPU's numbers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyg_kernels.nn import KernelActivation
from tests.conventions.graph_layers import CONVS, E, every_layer, layer_of
from tests.graphs import random_graph
from tests.promises import flat
from tests.sequence.texts import close

pytestmark = pytest.mark.cuda
DEVICE = "cuda"


def results(module: nn.Module, x: Tensor, **graph: Tensor) -> list[Tensor]:
    """The outputs, and the gradients of the inputs and of all parameters."""
    x = x.detach().requires_grad_()
    outputs = flat(module(x, **graph))
    total = torch.stack([part.sin().sum() for part in outputs]).sum()
    leaves = [x, *module.parameters()]
    grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [*outputs, *grads]


def check(module: nn.Module, x: Tensor, repeats: bool = True, **graph: Tensor) -> None:
    """The CPU's numbers within precision and, if it `repeats`, the same bits in a second run."""
    moved = copy.deepcopy(module).to(DEVICE)
    there = {name: part.to(DEVICE) for name, part in graph.items()}
    limit = 1e-9 if x.dtype == torch.float64 else 1e-3
    expected = results(module, x, **graph)
    found, again = (results(moved, x.to(DEVICE), **there) for _ in range(2))
    for here, one, other in zip(expected, found, again, strict=True):
        assert one.device.type == DEVICE and (not repeats or torch.equal(one, other))
        close(one.cpu(), here, rtol=limit, atol=limit * max(1.0, here.detach().abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bonds", [None, "few", "many"])
@every_layer
def test_layers(build: Any, sizes: tuple[int, ...], bonds: str | None, dtype: torch.dtype) -> None:
    layer = layer_of(build, sizes, bonds is not None).to(dtype)
    kinds = 3 if bonds == "few" else None
    graph = random_graph(0, 300, 800, edge_dim=E, kinds=kinds, dtype=dtype)
    given = {} if bonds is None else {"edge_attr": graph.edge_attr}
    check(layer, graph.x, build in CONVS.values(), edge_index=graph.edge_index, **given)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("green", ["relu", "abs", "gaussian"])
@pytest.mark.parametrize("count", [1, 9, 100])
def test_activations(count: int, green: Any, dtype: torch.dtype) -> None:
    act = KernelActivation(5, count, green).to(dtype)
    act.centers.data += torch.randn_like(act.centers)
    check(act, torch.randn(700, 5, dtype=dtype))
