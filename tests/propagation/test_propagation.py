"""Reading edges, and the operators on graphs and paths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import Form, walk_scan
from pyg_kernels.propagation import PathPropagation
from pyg_kernels.propagation.graph import GraphPropagation, as_edges
from pyg_kernels.walk import walk
from tests.covering import covering
from tests.graphs import random_graph

# Reading edges, and the propagation operator as a dense matrix product


def test_propagation_is_the_transposed_adjacency() -> None:
    graph = random_graph(0)
    edges = as_edges(graph.edge_index, 6, 6)
    adjacency = torch.zeros(6, 6, dtype=torch.float64)
    for source, target in graph.edge_index.t().tolist():
        adjacency[target, source] += 1
    z = torch.randn(6, 3, dtype=torch.float64)
    torch.testing.assert_close(GraphPropagation(edges, 0.25)(z, 2), 0.25 * adjacency @ z)
    decay = torch.rand(3, dtype=torch.float64)
    torch.testing.assert_close(GraphPropagation(edges, decay)(z, 2), decay * (adjacency @ z))


def test_bond_factors_belong_to_their_step() -> None:
    graph = random_graph(0)
    edges = as_edges(graph.edge_index, 6, 6, graph.edge_attr, 3)
    ones = torch.ones(edges.attr.size(0), 2, dtype=torch.float64)
    z = torch.randn(6, 2, dtype=torch.float64)
    propagation = GraphPropagation(edges, factors=[ones, 2 * ones])
    torch.testing.assert_close(propagation(z, 3), 2 * propagation(z, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kinds", [2, 40])
def test_decay_with_bond_factors(kinds: int, dtype: torch.dtype) -> None:
    """Of kinds (2) or of an edge each (40), constant or learned."""
    graph = random_graph(0, num_edges=40, kinds=kinds)
    edges = as_edges(graph.edge_index, 6, 6, graph.edge_attr, 3)
    assert (edges.edge_type is None) == (kinds == 40)
    generator = torch.Generator().manual_seed(0)
    bond, z, decay = (
        torch.rand(n, 4, generator=generator, dtype=dtype).requires_grad_()
        for n in (edges.attr.size(0), 6, 1)
    )
    for weight in (0.3, decay[0]):
        found = GraphPropagation(edges, weight, factors=[bond])(z, 2)
        expected = weight * GraphPropagation(edges, factors=[bond])(z, 2)
        torch.testing.assert_close(found, expected)
        inputs = (bond, z) if isinstance(weight, float) else (bond, z, decay)
        gradients = (torch.autograd.grad(out.square().sum(), inputs) for out in (found, expected))
        torch.testing.assert_close(*gradients)


def test_kinds_are_found_only_where_no_gradient_is_needed() -> None:
    graph = random_graph(0, num_edges=30, kinds=2)
    assert as_edges(graph.edge_index, 6, 6, graph.edge_attr, 3).attr.size(0) == 2
    attr = graph.edge_attr.clone().requires_grad_()
    assert as_edges(graph.edge_index, 6, 6, attr, 3).attr is attr
    conv = RandomWalkConv(3, 4, edge_dim=3).double()

    def output(attr: torch.Tensor) -> torch.Tensor:
        return conv(graph.x[:, :3], graph.edge_index, attr)

    attr = graph.edge_attr
    found = torch.func.vmap(output)(torch.stack([attr, 2 * attr]))
    torch.testing.assert_close(found, torch.stack([output(attr), output(2 * attr)]))
    _, slope = torch.func.jvp(output, (attr,), (attr,))
    expected = torch.func.vjp(output, attr)[1](torch.ones(6, 4).double())[0]
    torch.testing.assert_close(slope.sum(), (expected * attr).sum())


def test_parallel_entries_of_an_adjacency_are_added_up() -> None:
    index = torch.tensor([[2, 0, 0], [1, 1, 1]])
    edges = as_edges(torch.sparse_coo_tensor(index.flip(0), torch.ones(3), (3, 3)), 3, 3)
    assert torch.equal(torch.stack([edges.source, edges.target]), torch.tensor([[0, 2], [1, 1]]))
    assert edges.weight.tolist() == [2, 1]


def test_values_of_an_adjacency() -> None:
    """Weights, features, or nothing where all are one; in the order of the form."""
    index, values = torch.tensor([[2, 1, 0], [0, 1, 2]]), torch.tensor([0.5, 2.0, 3.0])
    adjacency = torch.sparse_coo_tensor(index.flip(0), values, (3, 3)).coalesce()
    for form in (adjacency, adjacency.to_sparse_csr(), adjacency.to_sparse_csc()):
        edges = as_edges(form, 3, 3, torch.eye(3), 3)
        pairs = zip(edges.source.tolist(), edges.weight.tolist(), strict=True)
        assert dict(pairs) == {2: 0.5, 1: 2.0, 0: 3.0}
    edges = as_edges(adjacency.to_sparse_csr(), 3, 3, edge_dim=1)
    assert torch.equal(edges.edge_rows(edges.attr).flatten(), values)
    ones = torch.sparse_coo_tensor(index, torch.ones(3), (3, 3))
    assert as_edges(ones, 3, 3).attr is None


NO_EDGES = as_edges(torch.zeros(2, 0, dtype=torch.long), 3, 3)
TWICE = torch.sparse_coo_tensor(torch.tensor([[1, 1], [0, 0]]), torch.ones(2), (3, 3))
WEIGHTS = torch.sparse_coo_tensor(torch.eye(2).long(), torch.tensor([0.5, 2.0]), (3, 3)).coalesce()
FEATURES = torch.sparse_coo_tensor(torch.eye(2).long(), torch.eye(2), (3, 3, 2)).coalesce()


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (TWICE, {"edge_attr": torch.arange(2.0), "edge_dim": 1}, r"not coalesced.*coalesce\(\)"),
        (WEIGHTS, {"edge_weight": torch.ones(2)}, "whose values are edge weights"),
        (FEATURES, {"edge_attr": torch.eye(2), "edge_dim": 2}, "whose values are edge features"),
        (FEATURES, {}, "takes no edge features"),
        (NO_EDGES, {"edge_attr": torch.zeros(0, 2), "edge_dim": 2}, "carry their own"),
        (NO_EDGES, {"edge_dim": 2}, "edge_attr is missing"),
        (torch.eye(3).to_sparse_csr(), {"flow": "target_to_source"}, "target_to_source"),
    ],
)
def test_edges_that_are_refused(edges: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_edges(edges, 3, 3, **options)
    assert as_edges(NO_EDGES, 3, 3) is NO_EDGES


# The operator on path graphs: the walk that it carries is the scan's definition

CHANNELS = 3


WALKS = covering(
    2,
    lengths=[(6, 6), (70, 4, 1, 0), (1, 1), (0, 0)],
    order=[1, 2, 4],
    sums=[("mul", False), ("mul", True), ("add", False), ("add", True)],
    weighted=[False, True],
)


@pytest.mark.parametrize("options", WALKS, ids=str)
def test_the_walk_of_the_scan(options: dict[str, Any]) -> None:
    """`walk` with the operator, one order after the other, and the scan of all orders at once.

    Where tokens have weights, so they do in both.
    """
    torch.manual_seed(0)
    lengths, order, (combine, normalize), weighted = options.values()
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    layout = Layout.of_ptr(ptr, max(lengths), int(ptr[-1]))
    decay, *p = (
        torch.randn(layout.num_rows, CHANNELS, dtype=torch.float64) for _ in range(order + 1)
    )
    decay, initial = decay.sigmoid(), torch.randn(order, len(lengths), CHANNELS).double()
    weight = torch.rand(layout.num_rows, 1, dtype=torch.float64) if weighted else None
    path = PathPropagation(decay, layout, initial, normalize, weight)
    form = Form(order, combine, normalize, "values", CHANNELS, "z", hold=False)
    params = decay.new_zeros(4, CHANNELS)
    x = torch.cat((decay, *p), 1)
    h, c, end = walk_scan(form, layout, x, params, initial, initial[0], weight)
    for j, z in enumerate(walk(p, path, combine), start=1):
        up_to = path.aggregate(z, j)
        torch.testing.assert_close(c[j - 1, : layout.num_rows], up_to, rtol=1e-10, atol=1e-12)
        last = layout.last(up_to, initial[j - 1])
        torch.testing.assert_close(end[j - 1], last, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(h, z, rtol=1e-10, atol=1e-12)
