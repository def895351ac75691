"""Equations 8 to 10 and theorem 3 of Lei et al. 2017: walks, deep layers and the relabelling."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.nn import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv
from tests.conventions.graph_layers import walk_layer
from tests.covering import covering
from tests.graphs import SMILES, Graph, molecule, random_graph
from tests.walk_kernels import edge_weights, walk_kernel

# Theorem 3: states summed over nodes are the walk kernel; a walk's weight is its gates' product

OPTIONS: dict[str, list[Any]] = {
    "order": [1, 2, 3, 4, 5],
    "combine": ["mul", "add"],
    "weights": [0.5, 1.0, 0.0, "learned", "gated"],
    "non_backtracking": [False, True],
}


def assert_equals_its_kernel(conv: RandomWalkConv, graph: Graph) -> None:
    """The state of each order, summed over nodes, is its walk kernel; the last is the output."""
    inputs = graph.x, graph.edge_index, None if conv.edge_dim is None else graph.edge_attr
    output = conv(*inputs)
    conv.return_states = True
    states = conv(*inputs)
    conv.return_states = False
    assert torch.equal(output, states[-1]) and len(states) == conv.order
    weights, factors = [lin.weight for lin in conv.lins], edge_weights(conv, graph)
    how = conv.combine, conv.non_backtracking
    for order, state in enumerate(states, start=1):
        shorter = weights[:order], factors[: order - 1]
        expected = walk_kernel(graph.x, graph.edge_index, *shorter, *how)
        torch.testing.assert_close(state.sum(dim=0), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", covering(3, **OPTIONS, edge_dim=[None, 3]), ids=str)
def test_random_graphs(options: dict[str, Any]) -> None:
    """Graphs with loops, parallel edges and one-way edges, and graphs with every edge both ways."""
    conv = walk_layer(**options, in_channels=4, out_channels=6)
    for seed in range(3):
        graph = random_graph(seed, kinds=2 if seed == 0 else None)
        assert_equals_its_kernel(conv, graph)
        if conv.non_backtracking:
            index, attr = graph.edge_index, graph.edge_attr
            both = Graph(graph.x, torch.cat([index, index.flip(0)], 1), torch.cat([attr, attr]))
            assert_equals_its_kernel(conv, both)


@pytest.mark.parametrize("options", covering(2, **OPTIONS, smiles=SMILES), ids=str)
def test_molecules(options: dict[str, Any]) -> None:
    graph = molecule(options["smiles"])
    sizes = {"in_channels": 5, "out_channels": 6, "edge_dim": graph.edge_attr.size(1)}
    conv = walk_layer(**{name: options[name] for name in OPTIONS}, **sizes)
    assert_equals_its_kernel(conv, graph)


def test_no_walk_of_three_nodes_turns_back() -> None:
    """Of the six 3-node walks on a path, two run from end to end; a loop may be walked once."""
    x, index = torch.ones(3, 1).double(), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    conv = RandomWalkConv(1, 1, 3, 1.0, return_states=True, non_backtracking=True).double()
    for lin in conv.lins:
        torch.nn.init.ones_(lin.weight)
    assert [state.sum().item() for state in conv(x, index)] == [3, 4, 2]
    looped = torch.cat([index, torch.tensor([[1], [1]])], 1)
    assert [state.sum().item() for state in conv(x, looped)] == [3, 5, 2 + 4]


def test_weights_have_unit_variance() -> None:
    torch.manual_seed(0)
    conv = RandomWalkConv(300, 400, order=3)
    for lin in conv.lins:
        assert lin.weight.square().sum(dim=1).mean().item() == pytest.approx(1.0, abs=0.02)
        assert lin.weight.abs().max() <= (3 / 300) ** 0.5
        assert lin.bias is None


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("combine", ["mul", "add"])
def test_equation_9(order: int, combine: str) -> None:
    torch.manual_seed(order)
    graph, decay = random_graph(2), 0.3
    conv = GraphKernelConv(4, 5, order, decay, combine, act="tanh", edge_dim=3).double()
    source, target = graph.edge_index
    first, *others = (graph.x @ lin.weight.t() for lin in conv.lins)
    state = first
    for own, lin in zip(others, conv.edge_lins, strict=True):
        message = decay * (graph.edge_attr @ lin.weight.t()) * torch.tanh(state)[source]
        arrived = torch.zeros_like(state).index_add(0, target, message)
        state = own * arrived if combine == "mul" else own + arrived
    expected = torch.tanh(state @ conv.lin.weight.t())
    out = conv(graph.x, graph.edge_index, graph.edge_attr)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)


ACTS = {"relu": torch.relu, "tanh": torch.tanh, "elu": torch.nn.functional.elu}
RELABELINGS = covering(
    2, relabel=["add", "mul"], act=[*ACTS, None], bonds=[False, True], kinds=[None, 2]
)


@pytest.mark.parametrize("options", RELABELINGS, ids=str)
def test_equation_10(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    relabel, act, bonds, kinds = options.values()
    graph, sigma = random_graph(1, kinds=kinds), ACTS.get(act, lambda x: x)
    conv = WLKernelConv(4, act=act, relabel=relabel, edge_dim=3 if bonds else None).double()
    maps, (source, target) = conv.relabeling, graph.edge_index
    inner = graph.x[source] @ maps.lin_neighbor.weight.t()
    if bonds:
        inner = inner + graph.edge_attr @ maps.lin_edge.weight.t()
    total = torch.zeros_like(graph.x).index_add(0, target, sigma(inner))
    own, aggregated = graph.x @ maps.lin_self.weight.t(), total @ maps.lin_aggregated.weight.t()
    expected = sigma(own + aggregated if relabel == "add" else own * aggregated)
    label = conv(graph.x, graph.edge_index, graph.edge_attr if bonds else None)
    torch.testing.assert_close(label, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_states_are_the_random_walk_layers(gated: bool, order: int) -> None:
    """Without relabelling, they are the only outputs."""
    torch.manual_seed(0)
    graph, given = random_graph(1), {"order": order, "edge_dim": 3}
    conv, bare = (WLKernelConv(4, gated=gated, relabel=r, **given).double() for r in ("add", None))
    walk = (GatedWalkConv if gated else RandomWalkConv)(4, 4, **given).double()
    for other in (walk, bare.walk):
        other.load_state_dict(conv.walk.state_dict())
    assert conv.lins is conv.walk.lins and conv.edge_lins is conv.walk.edge_lins
    inputs = graph.x, graph.edge_index, graph.edge_attr
    label, state = conv(*inputs, return_states=True)
    torch.testing.assert_close(label, conv(*inputs))
    torch.testing.assert_close(state, walk(*inputs))
    assert torch.equal(bare(*inputs), state) and bare(*inputs, return_states=True)[0] is None
    sizes = [sum(p.numel() for p in module.parameters()) for module in (bare, walk)]
    assert sizes[0] == sizes[1]
