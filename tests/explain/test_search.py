"""The best walks where there are too many to enumerate, where values tie, and where none ends."""

import itertools

import pytest
import torch
from torch import Tensor

from pyg_kernels.explain import ngram_contributions, walk_contributions
from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN
from tests.explain.values import assert_best, random_conv, walk_values
from tests.graphs import random_graph


def complete_graph(num_nodes: int) -> Tensor:
    pairs = itertools.product(range(num_nodes), repeat=2)
    return torch.tensor(list(pairs)).t()


def one_channel(order: int, combine: str = "mul", num_features: int = 1) -> RandomWalkConv:
    conv = RandomWalkConv(num_features, 1, order, decay=0.5, combine=combine).double()
    for lin in conv.lins:
        torch.nn.init.ones_(lin.weight)
    return conv


@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("k", [0, 1, 3, 50, 10_000])
def test_equals_exhaustive_search(combine: str, k: int) -> None:
    graph = random_graph(16, num_nodes=6, num_edges=14)
    conv = random_conv(True, 4, "leaky", combine=combine, edge_dim=3)
    head = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
    every = walk_values(conv, graph, head, "leaky")
    found = walk_contributions(conv, graph.x, graph.edge_index, graph.edge_attr, head, k)
    assert len(found.walks) == min(k, len(every))
    assert_best(found.walks, every, k)


def test_finds_the_best_of_too_many() -> None:
    """30^8 walks on a complete graph: the best goes on and on through the largest node."""
    x = torch.linspace(1, 2, 30, dtype=torch.float64).unsqueeze(1)
    found = walk_contributions(one_channel(8), x, complete_graph(30), k=9)
    (first, value), *others = found.walks
    assert first == (29,) * 8
    assert value == pytest.approx(0.5**7 * 2**8)
    second = 2**7 * x[28].item() * 0.5**7
    assert {nodes.count(28) for nodes, _ in others} == {1}
    assert [v for _, v in others] == pytest.approx([second] * 8)
    assert [nodes for nodes, _ in others] == sorted(nodes for nodes, _ in others)


@pytest.mark.parametrize("combine", ["mul", "add"])
def test_equal_values_in_the_order_of_nodes(combine: str) -> None:
    """All of 20^6 walks are worth the same, or all of one length."""
    x = torch.full((20, 1), 0.1, dtype=torch.float64)
    conv = one_channel(6, combine)
    found = walk_contributions(conv, x, complete_graph(20), k=25)
    if combine == "mul":
        expected = list(itertools.islice(itertools.product(range(20), repeat=6), 25))
    else:  # 0.1 for one node, halved by each edge
        expected = [(v,) for v in range(20)] + [(0, v) for v in range(5)]
    assert [nodes for nodes, _ in found.walks] == expected


def test_walks_that_add_nothing_come_last() -> None:
    x = torch.tensor([[1.0], [0.0], [2.0]], dtype=torch.float64)
    edge_index = torch.tensor([[0, 0, 1], [1, 2, 2]])
    found = walk_contributions(one_channel(2), x, edge_index, k=10)
    assert found.walks == [((0, 2), 1.0), ((0, 1), 0.0), ((1, 2), 0.0)]


def test_dead_ends_are_not_searched() -> None:
    """A dense part that no walk of the right length leaves, before one that it does."""
    dense = complete_graph(12)
    forward = dense[:, dense[0] < dense[1]]  # acyclic: no walk is longer than 12 nodes
    path = torch.tensor([list(range(12, 26)), list(range(13, 27))])
    edge_index = torch.cat((forward, path), 1)
    x = torch.ones(27, 1, dtype=torch.float64)
    x[:12] = 100.0
    found = walk_contributions(one_channel(15), x, edge_index, k=3)
    assert [nodes for nodes, _ in found.walks] == [tuple(range(12, 27))]


def test_parallel_edges_are_different_walks() -> None:
    x = torch.ones(2, 1, dtype=torch.float64)
    conv = RandomWalkConv(1, 1, 2, decay=1.0, edge_dim=1).double()
    for lin in (*conv.lins, *conv.edge_lins):
        torch.nn.init.ones_(lin.weight)
    edge_index = torch.tensor([[0, 0, 0], [1, 1, 1]])
    edge_attr = torch.tensor([[1.0], [-3.0], [2.0]], dtype=torch.float64)
    found = walk_contributions(conv, x, edge_index, edge_attr)
    assert found.walks == [((0, 1), -3.0), ((0, 1), 2.0), ((0, 1), 1.0)]
    assert found.edges.tolist() == [1.0, -3.0, 2.0]


def assert_largest(found: list[tuple[tuple[int, ...], float]], values: Tensor) -> None:
    """Against a value for every tuple of places, zero for those that are no walks."""
    top = values.flatten().abs().topk(len(found)).indices
    places = torch.stack(torch.unravel_index(top, values.shape), 1)
    assert [nodes for nodes, _ in found] == [tuple(place) for place in places.tolist()]
    expected = values.flatten()[top].tolist()
    assert [value for _, value in found] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("channels", "k"), [(2, 1), (2, 200), (60, 10), (60, 200)])
def test_many_channels_of_random_signs(channels: int, k: int) -> None:
    """The bound is loose where nothing decays: all 34,220 trigrams are worth a look."""
    torch.manual_seed(channels)
    rcnn = RCNN(8, channels, order=3, decay=1.0, normalize=False, act=None, bias=False).double()
    x = torch.randn(60, 8, dtype=torch.float64)
    first, second, third = (x @ lin.weight.detach().t() for lin in rcnn.cells[0].lins)
    values = torch.einsum("id,jd,ld->ijl", first, second, third)
    i, j, last = torch.meshgrid(*[torch.arange(60)] * 3, indexing="ij")
    values[(i >= j) | (j >= last)] = 0.0
    assert_largest(ngram_contributions(rcnn, x, k=k).ngrams, values)


@pytest.mark.parametrize(("channels", "k"), [(2, 1), (2, 200), (30, 10), (30, 200)])
def test_hub_of_a_star(channels: int, k: int) -> None:
    torch.manual_seed(channels)
    conv = RandomWalkConv(5, channels, 3, decay=0.5).double()
    x = torch.randn(101, 5, dtype=torch.float64)
    hub, leaves = torch.zeros(100, dtype=torch.long), torch.arange(1, 101)
    edge_index = torch.stack((torch.cat((hub, leaves)), torch.cat((leaves, hub))))
    first, second, third = (x @ lin.weight.detach().t() for lin in conv.lins)
    values = torch.zeros(101, 101, 101, dtype=torch.float64)
    values[1:, 0, 1:] = 0.25 * torch.einsum("id,d,ld->il", first[1:], second[0], third[1:])
    values[0, 1:, 0] = 0.25 * ((first[0] * third[0]) @ second[1:].t())
    assert_largest(walk_contributions(conv, x, edge_index, k=k).walks, values)
