"""Layers and networks under torch.compile, torch.export and ONNX, at sizes not seen before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

from pyg_kernels import nn
from pyg_kernels.rationale import WLStates
from tests.graphs import random_graph
from tests.nn.activation_equations import random_activation
from tests.promises import assert_same_in_onnx
from tests.sequence.texts import random_text

pytestmark = pytest.mark.traces

LAYERS: dict[str, Any] = {  # the layers that no network below contains
    "random-walk-onwards": partial(nn.RandomWalkConv, 4, 4, 3, non_backtracking=True),
    "gated-onwards": partial(nn.GatedWalkConv, 4, 4, 3, non_backtracking=True),
    "wl": partial(nn.WLKernelConv, 4, gated=True, act="tanh"),
    "wl-states": partial(WLStates, 4, 4, 1),
}
NETS: dict[str, Any] = {
    "RandomWalkNet": partial(nn.RandomWalkNet, 4, 8, 2, order=3, gated=True),
    "GraphKernelNet": partial(nn.GraphKernelNet, 4, 8, 2, num_layers=1, gated=True),
    "WLKernelNet": partial(
        nn.WLKernelNet, 4, 8, 2, 2, gated=False, decay="learned", tie_weights=None
    ),
    "EmbeddedMeanField": partial(nn.EmbeddedMeanField, 4, 8, 2, num_iterations=1),
    "EmbeddedLoopyBP": partial(nn.EmbeddedLoopyBP, 4, 8, 2, num_iterations=1),
}
COMPILED = ["gated-onwards", "wl-states", *[name for name in NETS if name != "RandomWalkNet"]]


class Called(torch.nn.Module):
    """A layer, or a network on a batch of three graphs, called with positional arguments."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.module = (LAYERS | NETS)[name](edge_dim=3)
        self.of_graphs = name in NETS
        self.settings = {"return_states": True} if name == "wl" else {}

    def forward(self, x, edge_index, attr, batch, weight=None):
        given = {"edge_attr": attr, "edge_weight": weight, **self.settings}
        if self.of_graphs:
            given |= {"batch": batch, "batch_size": 3}
        out = self.module(x, edge_index, **given)
        return sum(out) if isinstance(out, tuple) else out


def graphs(num_nodes: int, num_edges: int) -> tuple[Tensor, ...]:
    graph = random_graph(0, num_nodes, num_edges, kinds=3, dtype=torch.float32)
    return graph.x, graph.edge_index, graph.edge_attr, torch.arange(num_nodes) * 3 // num_nodes


def dynamic() -> tuple[dict[int, Any], ...]:
    nodes, edges = Dim("nodes", min=2), Dim("edges", min=2)
    return {0: nodes}, {1: edges}, {0: edges}, {0: nodes}


OTHERS = [graphs(*sizes) for sizes in ((5, 31), (20, 9))]


def gradients(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Of all inputs that require them, by number, and of all parameters, by name."""
    leaves = {str(k): x for k, x in enumerate(inputs) if x.requires_grad}
    leaves |= {name.removeprefix("_orig_mod."): p for name, p in module.named_parameters()}
    total = module(*inputs).square().sum()
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: g for name, g in zip(leaves, found, strict=True) if g is not None}


def assert_same(
    found: torch.nn.Module, module: torch.nn.Module, inputs: tuple[Tensor, ...], near: float = 1e-5
) -> None:
    torch.testing.assert_close(found(*inputs), module(*inputs), rtol=near, atol=near)
    grads = gradients(found, inputs), gradients(module, inputs)
    torch.testing.assert_close(*grads, rtol=10 * near, atol=10 * near)


def assert_one_graph(
    module: torch.nn.Module, several: Sequence[tuple[Tensor, ...]], near: float = 1e-5
) -> int:
    """In training mode one compiled graph serves all sizes; gives the number of its parts."""
    torch._dynamo.reset()
    counter, graphs_made = CompileCounterWithBackend("aot_eager"), []
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=counter)
    for inputs in several:
        assert_same(compiled, module, inputs, near)
        graphs_made.append(counter.frame_count)
    assert graphs_made[0] == graphs_made[-1]
    return counter.frame_count


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str) -> None:
    inputs = [(*graph, torch.rand(len(graph[2]))) for graph in OTHERS]
    assert_one_graph(Called(name), inputs)


@pytest.mark.parametrize(
    "options",
    [
        {"affine": True},
        {"green": "abs", "shared": True},
        {"green": "gaussian"},
        {"normalize": True},
    ],
    ids=str,
)
def test_compiled_activation(options: dict[str, Any]) -> None:
    inputs = [(random_text(rows, 3).requires_grad_(),) for rows in (5, 9, 2, 600)]
    act = random_activation(3, 6, **options)
    assert assert_one_graph(act, inputs, 1e-11) <= (1 if act.norm is None else 2)  # torch's norm


def test_compiled_to_machine_code() -> None:
    torch._dynamo.reset()
    module = Called("wl").double()
    module.settings = {}  # labels alone: the walk would take as long again
    options = {"cpp_cache_precompile_headers": False}  # they would take longer than one graph
    compiled = torch.compile(module, fullgraph=True, dynamic=True, options=options)
    for x, edge_index, attr, batch in OTHERS:
        assert_same(compiled, module, (x.double(), edge_index, attr.double(), batch), 1e-9)


@pytest.mark.parametrize("name", ["random-walk-onwards", "wl", *NETS])
def test_exported(name: str) -> None:
    module, strict = Called(name), name == "RandomWalkNet"  # test_compiled has the other networks
    program = torch.export.export(module, graphs(9, 17), dynamic_shapes=dynamic(), strict=strict)
    for inputs in OTHERS:
        assert_same(program.module(), module, inputs)


@pytest.mark.parametrize("name", ["random-walk-onwards", "GraphKernelNet", "EmbeddedLoopyBP"])
def test_onnx(name: str) -> None:
    """The export of networks of molecules to ONNX is tested in tests/molecules."""
    assert_same_in_onnx(Called(name).eval(), graphs(9, 17), dynamic(), OTHERS)
