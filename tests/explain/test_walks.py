"""Shares of walks, nodes and edges against an enumeration, and the search for the best walks."""

from itertools import islice, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from pyg_kernels.explain import WalkContributions, walk_contributions
from pyg_kernels.nn import RandomWalkConv, WLKernelConv
from tests.conventions.graph_layers import walk_layer
from tests.covering import covering
from tests.explain.values import (
    ACTIVATIONS,
    HEAD,
    assert_attributed,
    assert_best,
    close,
    edgeless,
    walk_values,
)
from tests.graphs import Graph, random_graph
from tests.sequence.variants import drawn

of_both = pytest.mark.parametrize("combine", ["mul", "add"])


def inputs(conv: RandomWalkConv, graph: Graph) -> tuple[Tensor, Tensor, Tensor | None]:
    return graph.x, graph.edge_index, None if conv.edge_dim is None else graph.edge_attr


def explain(conv: RandomWalkConv, graph: Graph, k: int = 7, **given: Any) -> WalkContributions:
    return walk_contributions(conv, *inputs(conv, graph), HEAD, k, **given)


LAYERS = covering(
    3,
    order=[1, 2, 4],
    combine=["mul", "add"],
    weights=[0.5, 0.0, 1.0, "learned", "gated"],
    edge_dim=[None, 3],
    act=sorted(ACTIVATIONS),
    weighted=[False, True],
)


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_equals_all_walks(options: dict[str, Any]) -> None:
    """Graphs with self-loops, parallel edges and an isolated node, without edges, or even nodes."""
    options = {**options}
    act, weighted = options.pop("act"), options.pop("weighted")
    conv = walk_layer(**options, in_channels=4, out_channels=3, act=ACTIVATIONS[act][0])
    graphs = [random_graph(0), random_graph(1, num_edges=14, kinds=2), *map(edgeless, [0, 1, 4])]
    for graph in graphs:
        weight = torch.rand(graph.edge_index.size(1)).double() if weighted else None
        every = walk_values(conv, graph, HEAD, act, weight)
        output = (conv(*inputs(conv, graph), edge_weight=weight) * HEAD).sum().detach()
        for k in (0, 1, 7, 10_000):
            found = explain(conv, graph, k, edge_weight=weight)
            assert_attributed(found, found.remainder, every, conv.combine, graph, k)
        close(found.total, output)
        close(found.nodes.sum(), output)
        close(found.edges.sum() + found.remainder, output)


def test_wl_layer_is_explained_by_its_walk() -> None:
    graph, head = random_graph(2), torch.randn(4, dtype=torch.float64)
    conv = drawn(WLKernelConv, 4, order=3, gated=True, act="tanh", edge_dim=3, scale=0.8)
    given = graph.x, graph.edge_index, graph.edge_attr
    found, expected = (walk_contributions(part, *given, head) for part in (conv, conv.walk))
    close(found.total, (conv(*given, return_states=True)[1] * head).sum().detach())
    close(found.nodes, expected.nodes)
    assert found.walks == expected.walks


def test_states_that_are_returned_and_messages_that_a_hook_changes() -> None:
    graph, conv = random_graph(2), walk_layer(0.5, 4, 3, order=3)
    expected = explain(conv, graph)
    conv.return_states = True
    assert torch.equal(explain(conv, graph).nodes, expected.nodes)
    hook = conv.register_message_forward_hook(lambda module, inputs, output: 2 * output)
    with pytest.raises(ValueError, match="a forward or message was overridden, or hooks"):
        explain(conv, graph)
    hook.remove()
    explain(conv, graph)


def test_forms_of_edges_precision_modes_and_lazy_sizes() -> None:
    graph, conv = random_graph(2), walk_layer(0.5, 4, 3, order=3)
    x, index, expected = graph.x.requires_grad_(), graph.edge_index, explain(conv, graph)
    with torch.inference_mode():  # the head is ones
        close(walk_contributions(conv, x, index).total, conv(x, index).sum())
    by_index = EdgeIndex(index, sparse_size=(graph.num_nodes,) * 2)
    close(walk_contributions(conv, x, by_index, None, HEAD, 7).edges, expected.edges)
    conv.flow = "target_to_source"
    backwards = walk_contributions(conv, x, index.flip(0), None, HEAD, 7)
    close(backwards.edges, expected.edges)
    assert backwards.walks == expected.walks
    found = walk_contributions(conv.float(), x.float(), index)
    assert found.nodes.dtype == found.edges.dtype == found.total.dtype == torch.float32
    assert not found.total.requires_grad and found.total.shape == found.remainder.shape == ()
    assert isinstance(found.walks[0][1], float)
    lazy = RandomWalkConv(-1, 3, edge_dim=-1).double()
    found = explain(lazy, graph)
    close(found.total, (lazy(*inputs(lazy, graph)) * HEAD).sum().detach())


# The search --------------------------------------------------------------------------------------


def complete_graph(num_nodes: int) -> Tensor:
    pairs = product(range(num_nodes), repeat=2)
    return torch.tensor(list(pairs)).t()


def one_channel(order: int, decay: float = 0.5, **options: Any) -> RandomWalkConv:
    conv = RandomWalkConv(1, 1, order, decay=decay, **options).double()
    for parameter in conv.parameters():
        torch.nn.init.ones_(parameter)
    return conv


def test_finds_the_best_of_too_many() -> None:
    """There are 30^8 walks on a complete graph; the best one stays at the largest node."""
    x = torch.linspace(1, 2, 30, dtype=torch.float64).unsqueeze(1)
    found = walk_contributions(one_channel(8), x, complete_graph(30), k=9)
    (first, value), *others = found.walks
    assert first == (29,) * 8
    assert value == pytest.approx(0.5**7 * 2**8)
    second = 2**7 * x[28].item() * 0.5**7
    assert {nodes.count(28) for nodes, _ in others} == {1}
    assert [v for _, v in others] == pytest.approx([second] * 8)
    assert [nodes for nodes, _ in others] == sorted(nodes for nodes, _ in others)


@of_both
def test_equal_values_in_the_order_of_nodes(combine: str) -> None:
    """All 20^6 walks have the same value, or all walks of the same length."""
    x = torch.full((20, 1), 0.1, dtype=torch.float64)
    found = walk_contributions(one_channel(6, combine=combine), x, complete_graph(20), k=25)
    if combine == "mul":
        expected = list(islice(product(range(20), repeat=6), 25))
    else:  # 0.1 for one node, halved by each edge
        expected = [(v,) for v in range(20)] + [(0, v) for v in range(5)]
    assert [nodes for nodes, _ in found.walks] == expected


def test_dead_ends_are_not_searched() -> None:
    """A dense part in which no walk is long enough comes before a path in which one is."""
    dense = complete_graph(12)
    forward = dense[:, dense[0] < dense[1]]  # acyclic: no walk is longer than 12 nodes
    path = torch.tensor([list(range(12, 26)), list(range(13, 27))])
    edge_index = torch.cat((forward, path), 1)
    x = torch.ones(27, 1, dtype=torch.float64)
    x[:12] = 100.0
    found = walk_contributions(one_channel(15), x, edge_index, k=3)
    assert [nodes for nodes, _ in found.walks] == [tuple(range(12, 27))]


@pytest.mark.parametrize(("channels", "k"), [(2, 1), (2, 200), (30, 10), (30, 200)])
def test_hub_of_a_star(channels: int, k: int) -> None:
    torch.manual_seed(channels)
    conv = RandomWalkConv(5, channels, 3, decay=0.5).double()
    x = torch.randn(101, 5, dtype=torch.float64)
    hub, leaves = torch.zeros(100, dtype=torch.long), torch.arange(1, 101)
    edge_index = torch.stack((torch.cat((hub, leaves)), torch.cat((leaves, hub))))
    every = walk_values(conv, Graph(x, edge_index, x), x.new_ones(channels))
    assert_best(walk_contributions(conv, x, edge_index, k=k).walks, every, k)
