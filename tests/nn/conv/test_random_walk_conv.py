"""Theorem 3 of Lei et al. 2017: the layer's states, summed over nodes, are the walk kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.explain.algorithm.utils import set_masks

from pyg_kernels.nn import RandomWalkConv
from tests.graphs import SMILES, Graph, molecule, random_graph
from tests.walk_kernels import walk_kernel

ORDERS = [1, 2, 3, 4, 5]


def edge_weights(conv: RandomWalkConv, graph: Graph) -> list[Tensor]:
    """The whole weight of every edge in steps 2..n, by the formula."""
    num_edges = graph.edge_index.size(1)
    decay = conv.decay * torch.ones(conv.out_channels, dtype=torch.float64)
    weights = []
    for step in range(conv.order - 1):
        weight = decay.expand(num_edges, -1)
        if conv.edge_dim is not None:
            weight = weight * (graph.edge_attr @ conv.edge_lins[step].weight.t())
        weights.append(weight)
    return weights


def assert_equals_its_kernel(conv: RandomWalkConv, graph: Graph) -> None:
    attr = None if conv.edge_dim is None else graph.edge_attr
    states = conv(graph.x, graph.edge_index, attr)
    expected = walk_kernel(
        graph.x,
        graph.edge_index,
        [lin.weight for lin in conv.lins],
        edge_weights(conv, graph),
        conv.combine,
        conv.non_backtracking,
    )
    torch.testing.assert_close(states.sum(dim=0), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("decay", [0.5, 1.0, 0.0, "learned"])
@pytest.mark.parametrize("bonds", [False, True])
def test_random_graphs(order: int, combine: str, decay: float | str, bonds: bool) -> None:
    torch.manual_seed(order)
    edge_dim = 3 if bonds else None
    conv = RandomWalkConv(4, 6, order, decay, combine, edge_dim=edge_dim).double()
    if decay == "learned":
        torch.nn.init.normal_(conv.weighting.logit)
        assert conv.decay.shape == (6,)
    for seed in range(3):
        assert_equals_its_kernel(conv, random_graph(seed, kinds=2 if seed == 0 else None))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("bonds", [False, True])
def test_walks_that_never_turn_back(order: int, combine: str, bonds: bool) -> None:
    """With loops, parallel edges and edges of one direction, and with every edge both ways."""
    torch.manual_seed(order)
    options = {"edge_dim": 3 if bonds else None, "non_backtracking": True}
    conv = RandomWalkConv(4, 6, order, 0.5, combine, **options).double()
    for seed in range(3):
        graph = random_graph(seed, kinds=2 if seed == 0 else None)
        index, attr = graph.edge_index, graph.edge_attr
        both = Graph(graph.x, torch.cat([index, index.flip(0)], 1), torch.cat([attr, attr]))
        for walked in (graph, both):
            assert_equals_its_kernel(conv, walked)


def test_no_walk_of_three_nodes_turns_back() -> None:
    """Of the six walks of three nodes on a path, two lead from end to end; loops lead on once."""
    x, index = torch.ones(3, 1).double(), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    conv = RandomWalkConv(1, 1, 3, 1.0, return_states=True, non_backtracking=True).double()
    for lin in conv.lins:
        torch.nn.init.ones_(lin.weight)
    assert [state.sum().item() for state in conv(x, index)] == [3, 4, 2]
    looped = torch.cat([index, torch.tensor([[1], [1]])], 1)
    assert [state.sum().item() for state in conv(x, looped)] == [3, 5, 2 + 4]
    with pytest.raises(ValueError, match="non_backtracking=1: expected True or False"):
        RandomWalkConv(1, 1, non_backtracking=1)


def test_an_explainers_mask_of_walks_that_never_turn_back() -> None:
    """A mask of edges is a weight of edges, also in what is left out."""
    graph, mask = random_graph(1, 6, 14), torch.rand(14, dtype=torch.float64)
    conv = RandomWalkConv(4, 5, 4, non_backtracking=True).double()
    expected = conv(graph.x, graph.edge_index, edge_weight=mask)
    assert expected.any()
    set_masks(conv, mask, graph.edge_index, apply_sigmoid=False)
    torch.testing.assert_close(conv(graph.x, graph.edge_index), expected)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("smiles", SMILES)
@pytest.mark.parametrize("non_backtracking", [False, True])
def test_molecules(order: int, combine: str, smiles: str, non_backtracking: bool) -> None:
    torch.manual_seed(order)
    graph = molecule(smiles)
    options = {"edge_dim": graph.edge_attr.size(1), "non_backtracking": non_backtracking}
    conv = RandomWalkConv(5, 3, order, 0.4, combine, **options).double()
    assert_equals_its_kernel(conv, graph)


def test_states_of_every_order() -> None:
    torch.manual_seed(0)
    graph = random_graph(0)
    conv = RandomWalkConv(4, 6, order=4, return_states=True).double()
    states = conv(graph.x, graph.edge_index)
    assert len(states) == 4
    for order, state in enumerate(states, start=1):
        prefix = RandomWalkConv(4, 6, order=order).double()
        for lin, other in zip(prefix.lins, conv.lins, strict=False):
            lin.weight.data.copy_(other.weight)
        torch.testing.assert_close(prefix(graph.x, graph.edge_index), state)


def test_isolated_node() -> None:
    """Without neighbours no walk of two nodes ends here: 0 by products, W^(n) f by sums."""
    graph = random_graph(0)
    product, added = RandomWalkConv(4, 6).double(), RandomWalkConv(4, 6, combine="add").double()
    assert (product(graph.x, graph.edge_index)[-1] == 0).all()
    expected = added.lins[1].weight @ graph.x[-1]
    torch.testing.assert_close(added(graph.x, graph.edge_index)[-1], expected)


def test_activation_between_steps() -> None:
    """Equation 8 written out for order 3 on a path of three nodes."""
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64)
    conv = RandomWalkConv(4, 5, order=3, decay=0.3, act="tanh").double()
    first, second, third = (x @ lin.weight.t() for lin in conv.lins)
    middle = 0.3 * torch.tanh(first[0]) * second[1]
    expected = 0.3 * torch.tanh(middle) * third[2]
    out = conv(x, torch.tensor([[0, 1], [1, 2]]))
    torch.testing.assert_close(out[2], expected)


def test_weights_have_unit_variance() -> None:
    torch.manual_seed(0)
    conv = RandomWalkConv(300, 400, order=3)
    for lin in conv.lins:
        assert lin.weight.square().sum(dim=1).mean().item() == pytest.approx(1.0, abs=0.02)
        assert lin.weight.abs().max() <= (3 / 300) ** 0.5
        assert lin.bias is None
