"""The relabelling (eq. 10) node by node, and the states beside it."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.nn import GatedWalkConv, RandomWalkConv, WLKernelConv
from tests.graphs import random_graph


@pytest.mark.parametrize("relabel", ["add", "mul"])
@pytest.mark.parametrize("act", ["relu", "tanh", "elu", None])
@pytest.mark.parametrize("bonds", [False, True])
@pytest.mark.parametrize("kinds", [None, 2])
def test_relabeling(relabel: str, act: str | None, bonds: bool, kinds: int | None) -> None:
    torch.manual_seed(0)
    graph = random_graph(1, kinds=kinds)
    conv = WLKernelConv(4, act=act, relabel=relabel, edge_dim=3 if bonds else None).double()
    maps = conv.relabeling
    sigma = {
        "relu": torch.relu,
        "tanh": torch.tanh,
        "elu": torch.nn.functional.elu,
        None: lambda x: x,
    }[act]
    total = torch.zeros(graph.num_nodes, 4, dtype=torch.float64)
    for (source, target), bond in zip(graph.edge_index.t().tolist(), graph.edge_attr, strict=True):
        inner = maps.lin_neighbor.weight @ graph.x[source]
        if bonds:
            inner = inner + maps.lin_edge.weight @ bond
        total[target] = total[target] + sigma(inner)
    own = graph.x @ maps.lin_self.weight.t()
    aggregated = total @ maps.lin_aggregated.weight.t()
    expected = sigma(own + aggregated if relabel == "add" else own * aggregated)
    label = conv(graph.x, graph.edge_index, graph.edge_attr if bonds else None)
    torch.testing.assert_close(label, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_states_are_the_random_walk_layers(gated: bool, order: int) -> None:
    torch.manual_seed(0)
    graph = random_graph(1)
    conv = WLKernelConv(4, order=order, gated=gated, edge_dim=3).double()
    walk = (GatedWalkConv if gated else RandomWalkConv)(4, 4, order=order, edge_dim=3).double()
    walk.load_state_dict(conv.walk.state_dict())
    label, state = conv(graph.x, graph.edge_index, graph.edge_attr, return_states=True)
    torch.testing.assert_close(label, conv(graph.x, graph.edge_index, graph.edge_attr))
    torch.testing.assert_close(state, walk(graph.x, graph.edge_index, graph.edge_attr))


def test_without_relabeling() -> None:
    graph = random_graph(1)
    conv = WLKernelConv(4, relabel=None).double()
    label, state = conv(graph.x, graph.edge_index, return_states=True)
    assert label is None
    assert torch.equal(conv(graph.x, graph.edge_index), state)
    assert state.shape == (graph.num_nodes, 4)
    assert sum(p.numel() for p in conv.parameters()) == 2 * 16
