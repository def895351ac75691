"""Shares of walks, nodes and edges against all walks, one by one."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch_geometric import EdgeIndex

from pyg_kernels.explain import WalkContributions, walk_contributions
from pyg_kernels.nn import RandomWalkConv, WLKernelConv
from tests.covering import covering
from tests.explain.values import ACTIVATIONS, assert_best, close, random_conv, shares, walk_values
from tests.graphs import SMILES, Graph, molecule, random_graph

HEAD = torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64)
of_both = pytest.mark.parametrize("combine", ["mul", "add"])


def explain(conv: RandomWalkConv, graph: Graph) -> WalkContributions:
    attr = None if conv.edge_dim is None else graph.edge_attr
    return walk_contributions(conv, graph.x, graph.edge_index, attr, HEAD, 7)


def assert_equals_all_walks(conv: RandomWalkConv, graph: Graph, act: str = "identity") -> None:
    found = explain(conv, graph)
    every = walk_values(conv, graph, HEAD, act)
    nodes, edges, single = shares(every, conv.combine, graph)
    close(found.nodes, nodes)
    close(found.edges, edges)
    close(found.remainder, single)
    attr = None if conv.edge_dim is None else graph.edge_attr
    output = (conv(graph.x, graph.edge_index, attr) * HEAD).sum().detach()
    close(found.total, output)
    close(found.nodes.sum(), output)
    close(found.edges.sum() + found.remainder, output)
    assert_best(found.walks, every, 7)


LAYERS = covering(
    3,
    order=[1, 2, 4],
    combine=["mul", "add"],
    gated=[False, True],
    edge_dim=[None, 3],
    act=sorted(ACTIVATIONS),
)


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_random_graphs(options: dict[str, Any]) -> None:
    conv, act = random_conv(**options), options["act"]
    for seed in range(2):  # self-loops, parallel edges, an isolated node
        assert_equals_all_walks(conv, random_graph(seed, kinds=2 if seed else None), act)


@of_both
def test_decays(combine: str) -> None:
    for decay in (0.0, 1.0, "learned"):
        conv = random_conv(False, 3, combine=combine, decay=decay)
        assert_equals_all_walks(conv, random_graph(3))


@of_both
@pytest.mark.parametrize("smiles", SMILES)
def test_molecules(combine: str, smiles: str) -> None:
    graph = molecule(smiles)
    graph = replace(graph, x=graph.x[:, :4])
    conv = random_conv(True, 3, "relu", combine=combine, edge_dim=graph.edge_attr.size(1))
    assert_equals_all_walks(conv, graph, "relu")


@of_both
def test_no_edges(combine: str) -> None:
    for order, num_nodes in product([1, 2], [0, 1, 4]):
        x = torch.randn(num_nodes, 4, dtype=torch.float64)
        graph = Graph(x, torch.empty(2, 0, dtype=torch.long), x.new_empty(0, 3))
        conv = random_conv(False, order, combine=combine)
        assert_equals_all_walks(conv, graph)
        found = explain(conv, graph)
        assert found.nodes.shape == (num_nodes,) and found.edges.shape == (0,)
        if order > 1 and combine == "mul":
            assert found.walks == [] and not found.nodes.any()


@of_both
def test_gradients_share_the_same(combine: str) -> None:
    """With one map a step, P_j = W^(j) f: what P_j does is its gradient times its value."""
    graph, conv = random_graph(5), random_conv(True, 3, "leaky", combine=combine)
    for lin in conv.weighting.lin_source, conv.weighting.lin_target:
        torch.nn.init.zeros_(lin.weight)  # so that gates do not read the nodes
    x = graph.x.clone().requires_grad_()
    output = (conv(x, graph.edge_index) * HEAD).sum()
    (gradient,) = torch.autograd.grad(output, x)
    degree = 3 if combine == "mul" else 1
    close(explain(conv, graph).nodes, (gradient * graph.x).sum(1) / degree)


def test_wl_layer_is_explained_by_its_walk() -> None:
    graph = random_graph(2)
    torch.manual_seed(0)
    conv = WLKernelConv(4, order=3, gated=True, act="tanh", edge_dim=3).double()
    head = torch.randn(4, dtype=torch.float64)
    found = walk_contributions(conv, graph.x, graph.edge_index, graph.edge_attr, head)
    expected = walk_contributions(conv.walk, graph.x, graph.edge_index, graph.edge_attr, head)
    _, states = conv(graph.x, graph.edge_index, graph.edge_attr, return_states=True)
    close(found.total, (states * head).sum().detach())
    close(found.nodes, expected.nodes)
    assert found.walks == expected.walks


def test_a_layer_that_returns_all_states() -> None:
    graph, conv = random_graph(2), random_conv(False, 3)
    expected = explain(conv, graph)
    conv.return_states = True
    assert torch.equal(explain(conv, graph).nodes, expected.nodes)


def test_messages_that_a_hook_changes() -> None:
    graph, conv = random_graph(2), random_conv(False, 3)
    handle = conv.register_message_forward_hook(lambda module, inputs, output: 2 * output)
    with pytest.raises(ValueError, match="a forward or message was overridden, or hooks"):
        explain(conv, graph)
    handle.remove()
    explain(conv, graph)


def test_flow_and_forms_of_edges() -> None:
    graph, conv = random_graph(2), random_conv(False, 3)
    found = walk_contributions(conv, graph.x, graph.edge_index)  # with a head of ones
    close(found.total, conv(graph.x, graph.edge_index).sum().detach())
    expected = explain(conv, graph)
    n = graph.num_nodes
    by_index = EdgeIndex(graph.edge_index, sparse_size=(n, n))
    close(walk_contributions(conv, graph.x, by_index, None, HEAD, 7).edges, expected.edges)
    conv.flow = "target_to_source"
    backwards = walk_contributions(conv, graph.x, graph.edge_index.flip(0), None, HEAD, 7)
    close(backwards.edges, expected.edges)
    assert backwards.walks == expected.walks


def test_keeps_precision_modes_and_inputs() -> None:
    graph, conv = random_graph(2), random_conv(False, 2).float()
    x = graph.x.float().requires_grad_()
    found = walk_contributions(conv, x, graph.edge_index)
    assert found.nodes.dtype == found.edges.dtype == found.total.dtype == torch.float32
    assert not found.total.requires_grad and found.total.shape == found.remainder.shape == ()
    assert isinstance(found.walks[0][1], float)
    with torch.inference_mode():
        close(walk_contributions(conv, x, graph.edge_index).total, found.total)


def test_lazy_layers_take_their_sizes() -> None:
    graph = random_graph(0)
    conv = RandomWalkConv(-1, 3, edge_dim=-1).double()
    found = walk_contributions(conv, graph.x, graph.edge_index, graph.edge_attr)
    close(found.total, conv(graph.x, graph.edge_index, graph.edge_attr).sum().detach())
