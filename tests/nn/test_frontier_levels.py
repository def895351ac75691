"""Levels of graphs: eigenvalues, closed walks, and the numbers of Hückel's theory."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch_geometric.data import Batch, Data

from pyg_kernels.explain.levels import parts_of_levels
from pyg_kernels.nn import FrontierLevels, WLKernelNet
from pyg_kernels.ops.eigenvectors import eigenvectors
from pyg_kernels.propagation.graph import as_edges
from tests.graphs import Graph, random_graph
from tests.promises import assert_same_from_every_edge_form

F64 = torch.float64


def layer(num_levels: int = 2, edge_dim: int | None = 3) -> FrontierLevels:
    """Of four features, with constants of its own."""
    torch.manual_seed(3)
    made = FrontierLevels(4, num_levels, edge_dim).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def matrix_of(made: FrontierLevels, graph: Graph) -> Tensor:
    """Entry by entry, from the formula."""
    found = torch.diag(made.lin_site(graph.x)[:, 0])
    pair = made.lin_pair(graph.x)
    for (u, v), attr in zip(graph.edge_index.t().tolist(), graph.edge_attr, strict=True):
        entry = made.coupling + made.lin_edge(attr)[0] + pair[u] @ pair[v]
        found[u, v] = found[u, v] + entry / 2
        found[v, u] = found[v, u] + entry / 2
    return found


def levels_of(made: FrontierLevels, graph: Graph) -> list[Tensor]:
    """The levels of one graph, from the formula."""
    values = torch.linalg.eigvalsh(matrix_of(made, graph)).flip(0)
    filled = made.lin_filling(graph.x).sigmoid().sum()
    found = []
    for k in (*range(made.num_levels), *range(made.num_levels)):
        place = filled - 1 - k if len(found) < made.num_levels else filled + k
        place = place.clamp(0, len(values) - 1)
        below = int(place)
        above = min(below + 1, len(values) - 1)
        found.append(values[below] + (place - below) * (values[above] - values[below]))
    return found


def both_ways(graph: Graph) -> Graph:
    index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
    return Graph(graph.x, index, graph.edge_attr.repeat(2, 1))


def summed(shares: Tensor, batch: Tensor, number: int) -> Tensor:
    return shares.new_zeros(number, shares.size(1)).index_add(0, batch, shares)


GRAPHS = [
    random_graph(0),
    random_graph(1, 9, 20),
    both_ways(random_graph(2, 7, 6)),
    random_graph(3, 2, 0),
    random_graph(4, 2, 2),
    Graph(torch.randn(1, 4, dtype=F64), torch.zeros(2, 0).long(), torch.zeros(0, 3, dtype=F64)),
]


@pytest.mark.parametrize("num_levels", [1, 3, 12])
def test_levels_are_those_of_the_formula(num_levels: int) -> None:
    """Of graphs alone and in one batch, its nodes in any order, with an empty graph in it."""
    made = layer(num_levels)
    data = Batch.from_data_list(
        [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in GRAPHS]
    )
    order = torch.randperm(data.num_nodes)
    place = order.argsort()
    number = len(GRAPHS) + 2
    batch = data.batch[order]
    shares = made(data.x[order], place[data.edge_index], data.edge_attr, None, batch, number)
    together = summed(shares, batch, number)
    assert shares.equal(made(data.x[order], place[data.edge_index], data.edge_attr, batch=batch))
    assert not together[len(GRAPHS) :].any()
    for row, graph in zip(together, GRAPHS, strict=False):
        expected = torch.stack(levels_of(made, graph))
        alone = made(graph.x, graph.edge_index, graph.edge_attr).sum(0)
        torch.testing.assert_close(row, expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(alone, expected, rtol=1e-10, atol=1e-10)


def test_gradients_are_those_of_the_formula() -> None:
    """Of features, bonds and constants."""
    made, graph = layer(), both_ways(random_graph(2, 7, 6))
    graph = Graph(graph.x.requires_grad_(), graph.edge_index, graph.edge_attr.requires_grad_())
    inputs = [graph.x, graph.edge_attr, *made.parameters()]
    weights = torch.randn(4, dtype=F64)
    shares = made(graph.x, graph.edge_index, graph.edge_attr)
    found = torch.autograd.grad((shares.sum(0) * weights).sum(), inputs)
    expected = torch.autograd.grad((torch.stack(levels_of(made, graph)) * weights).sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_second_derivatives_are_refused() -> None:
    """They would lack what moves eigenvectors."""
    made, graph = layer(), random_graph(1)
    loss = made(graph.x, graph.edge_index, graph.edge_attr).sum()
    with pytest.raises(NotImplementedError, match="levels have no second derivatives"):
        torch.autograd.grad(loss, made.lin_site.weight, create_graph=True)


def test_powers_are_sums_over_closed_walks() -> None:
    made, graph = layer(), both_ways(random_graph(2, 5, 4))
    edges = as_edges(graph.edge_index, 5, 5, graph.edge_attr, 3)
    site, coupling, _ = made.matrix(graph.x, edges)
    graphs, place = torch.zeros(5, dtype=torch.long), torch.arange(5).unsqueeze(0)
    vectors = eigenvectors(site, coupling, edges.source, edges.target, graphs, place)
    matrix = matrix_of(made, graph)
    values = (vectors * (matrix @ vectors)).sum(0)
    assert values.diff().le(1e-12).all()
    for steps in (1, 2, 3, 4):
        closed = sum(
            math.prod(matrix[u, v] for u, v in zip(walk, (*walk[1:], walk[0]), strict=True))
            for walk in itertools.product(range(5), repeat=steps)
        )
        torch.testing.assert_close(values.pow(steps).sum(), closed, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("atoms", "bonds", "expected"),
    [
        (2, [(0, 1)], [1.0, -1.0]),  # ethylene
        (4, [(0, 1), (1, 2), (2, 3)], [0.618034, -0.618034]),  # butadiene
        (6, [(k, (k + 1) % 6) for k in range(6)], [1.0, -1.0]),  # benzene
        (3, [(0, 1), (1, 2)], [math.sqrt(0.5), -math.sqrt(0.5)]),  # allyl: half filled
    ],
)
def test_a_new_layer_has_hueckels_levels(atoms: int, bonds: list, expected: list[float]) -> None:
    made = FrontierLevels(2, num_levels=1)
    torch.nn.init.zeros_(made.lin_pair.weight)
    index = torch.tensor([*bonds, *((b, a) for a, b in bonds)]).t()
    shares = made(torch.randn(atoms, 2), index)
    assert shares.dtype == torch.float32
    torch.testing.assert_close(shares.sum(0), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_shares_of_what_a_symmetry_exchanges_are_equal() -> None:
    """Benzene's levels are two each, whose eigenvectors are any of a plane."""
    made = layer(3, None)
    ring = torch.arange(6)
    index = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
    x = torch.ones(6, 4, dtype=F64)
    edges, batch = as_edges(index, 6, 6), torch.zeros(6, dtype=torch.long)
    theta = torch.randn(1, 6, dtype=F64)
    sites, pairs = parts_of_levels(made, x, edges, batch, theta)
    torch.testing.assert_close(sites, sites[:1].expand(6), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(pairs, pairs[:1].expand(12), rtol=1e-9, atol=1e-9)
    whole = (made(x, index).sum(0) * theta).sum()
    torch.testing.assert_close(sites.sum() + pairs.sum(), whole, rtol=1e-10, atol=1e-10)


def test_edges_in_every_form_and_with_weights() -> None:
    made, graph = layer(), random_graph(1, 9, 20)
    assert_same_from_every_edge_form(made, graph, with_attr=True)
    weights = torch.rand(graph.edge_index.size(1), dtype=F64)
    whole = made(graph.x, graph.edge_index, graph.edge_attr, weights)
    some = weights > 0.5
    part = made(graph.x, graph.edge_index, graph.edge_attr, some.double())
    left_out = made(graph.x, graph.edge_index[:, some], graph.edge_attr[some])
    torch.testing.assert_close(part, left_out, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(whole, part)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_stays_in_its_graph(bad: float) -> None:
    made, x = layer(2, None), torch.randn(6, 4, dtype=F64)
    index, batch = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]), torch.tensor([0, 0, 0, 1, 1, 1])
    expected = made(x, index, batch=batch)
    x[0, 0] = bad
    found = made(x, index, batch=batch)
    assert found[:3].isnan().all()
    torch.testing.assert_close(found[3:], expected[3:])


def test_as_pytorch_knows_it() -> None:
    graph = both_ways(random_graph(2, 7, 6))
    edges = torch.randn(12, dtype=F64)
    batch, place = torch.tensor([0, 0, 0, 0, 0, 1, 1]), torch.tensor([[0, 4], [1, 0]])
    source, target = torch.tensor([0, 1, 2, 5] * 3), torch.tensor([1, 2, 3, 6] * 3)
    torch.library.opcheck(
        eigenvectors, (torch.randn(7, dtype=F64), edges, source, target, batch, place)
    )
    made = layer()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    given = graph.x, graph.edge_index, graph.edge_attr
    found, expected = compiled(*given), made(*given)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(4, dtype=F64)
    grads = [
        torch.autograd.grad((out.sum(0) * weights).sum(), [*made.parameters()])
        for out in (found, expected)
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.traces
def test_exported() -> None:
    """A network, for any numbers of nodes and edges."""
    torch.manual_seed(0)
    net = WLKernelNet(4, 6, 2, num_levels=2, edge_dim=3).double()

    def given(graph: Graph) -> dict[str, Any]:
        batch = (torch.arange(graph.num_nodes) >= graph.num_nodes - 1).long()
        return {"edge_attr": graph.edge_attr, "batch": batch, "batch_size": 2}

    graph, other = random_graph(0), random_graph(1, 9, 20)
    nodes, edges = Dim("nodes", min=2), Dim("edges", min=2)
    shapes: dict[str, Any] = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_attr": {0: edges}}
    shapes |= {"batch": {0: nodes}, "batch_size": None}
    read = graph.x, graph.edge_index
    program = torch.export.export(net, read, given(graph), dynamic_shapes=shapes, strict=False)
    found = program.module()(other.x, other.edge_index, **given(other))
    torch.testing.assert_close(found, net(other.x, other.edge_index, **given(other)))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="edge_index joins two graphs of the batch"):
        layer(2, None)(torch.randn(2, 4).double(), torch.tensor([[0], [1]]), batch=torch.arange(2))
    with pytest.raises(ValueError, match="num_levels"):
        FrontierLevels(4, 0)
    with pytest.raises(ValueError, match=r"in_channels=-1 with num_levels: expected their number"):
        WLKernelNet(-1, 8, 1, num_levels=2)
