"""Reading edges, and the sums of messages on edges."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.cavity_sum import arriving_sum, cavity_sum, find_reverse
from pyg_kernels.propagation.graph import as_edges
from tests.graphs import random_graph


def test_kinds_are_found_only_where_no_gradient_is_needed() -> None:
    graph = random_graph(0, num_edges=30, kinds=2)
    assert as_edges(graph.edge_index, 6, 6, graph.edge_attr, 3).attr.size(0) == 2
    attr = graph.edge_attr.clone().requires_grad_()
    assert as_edges(graph.edge_index, 6, 6, attr, 3).attr is attr
    conv = RandomWalkConv(3, 4, edge_dim=3).double()

    def output(attr: Tensor) -> Tensor:
        return conv(graph.x[:, :3], graph.edge_index, attr)

    attr = graph.edge_attr
    found = torch.func.vmap(output)(torch.stack([attr, 2 * attr]))
    torch.testing.assert_close(found, torch.stack([output(attr), output(2 * attr)]))
    _, slope = torch.func.jvp(output, (attr,), (attr,))
    expected = torch.func.vjp(output, attr)[1](torch.ones(6, 4).double())[0]
    torch.testing.assert_close(slope.sum(), (expected * attr).sum())
    compiled = torch.compile(lambda v: torch.func.jvp(output, (v,), (v,))[1], backend="eager")
    torch.testing.assert_close(compiled(attr), slope)


def test_parallel_entries_of_an_adjacency_are_added_up() -> None:
    index = torch.tensor([[2, 0, 0], [1, 1, 1]])
    edges = as_edges(torch.sparse_coo_tensor(index.flip(0), torch.ones(3), (3, 3)), 3, 3)
    assert torch.equal(torch.stack([edges.source, edges.target]), torch.tensor([[0, 2], [1, 1]]))
    assert edges.weight.tolist() == [2, 1]


def test_values_of_an_adjacency() -> None:
    """They become features, or nothing if all are 1, in the order of the adjacency."""
    index, values = torch.tensor([[2, 1, 0], [0, 1, 2]]), torch.tensor([0.5, 2.0, 3.0])
    adjacency = torch.sparse_coo_tensor(index.flip(0), values, (3, 3)).coalesce()
    edges = as_edges(adjacency.to_sparse_csr(), 3, 3, edge_dim=1)
    assert torch.equal(edges.edge_rows(edges.attr).flatten(), values)
    edges = as_edges(FEATURES, 3, 3, edge_dim=2)
    assert torch.equal(edges.edge_rows(edges.attr), torch.eye(2).flip(0))
    ones = torch.sparse_coo_tensor(index, torch.ones(3), (3, 3))
    assert as_edges(ones, 3, 3).weight is None


NO_EDGES = as_edges(torch.zeros(2, 0, dtype=torch.long), 3, 3)
TWICE = torch.sparse_coo_tensor(torch.tensor([[1, 1], [0, 0]]), torch.ones(2), (3, 3))
WEIGHTS = torch.sparse_coo_tensor(torch.eye(2).long(), torch.tensor([0.5, 2.0]), (3, 3)).coalesce()
FEATURES = torch.sparse_coo_tensor(torch.eye(2).long(), torch.eye(2), (3, 3, 2)).coalesce()

LABELED = as_edges(torch.eye(2).long(), 3, 3, torch.eye(2), 2)


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (TWICE, {"edge_attr": torch.arange(2.0), "edge_dim": 1}, r"not coalesced.*coalesce\(\)"),
        (WEIGHTS, {"edge_weight": torch.ones(2)}, "whose values are edge weights"),
        (FEATURES, {"edge_attr": torch.eye(2), "edge_dim": 2}, "whose values are edge features"),
        (FEATURES, {}, "takes no edge features"),
        (NO_EDGES, {"edge_attr": torch.zeros(0, 2), "edge_dim": 2}, "carry their own"),
        (NO_EDGES, {"edge_dim": 2}, "edge_attr is missing"),
        (LABELED, {}, "takes no edge features"),
        (LABELED, {"edge_dim": 3}, "has 2 features: expected edge_dim=3"),
        (torch.eye(3).to_sparse_csr(), {"flow": "target_to_source"}, "target_to_source"),
    ],
)
def test_edges_that_are_refused(edges: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_edges(edges, 3, 3, **options)
    assert as_edges(NO_EDGES, 3, 3) is NO_EDGES


# Sums of messages on edges against their definition, message by message

RING = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2), (2, 3), (3, 2)]
EDGES: dict[str, list[tuple[int, int]]] = {
    "ring": RING,
    "ring-and-loop": [*RING, (3, 3)],
    "parallel": [*RING, (2, 1), (1, 2), (1, 2)],
    "one-way": RING[::2],
    "loops": [(0, 0), (0, 0), (1, 0), (0, 1), (1, 1)],
    "none": [],
}


def edges_of(pairs: list[tuple[int, int]]) -> Edges:
    source, target = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    return Edges(source, target, 5, 5)


def definition(message: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    rows = 0.0 * message
    for edge, (i, j) in enumerate(pairs):
        for other, (k, target) in enumerate(pairs):
            if target == i and k != j:
                rows[edge] += message[other]
    return rows


@pytest.mark.parametrize("pairs", EDGES.values(), ids=list(EDGES))
def test_cavity_sum(pairs: list[tuple[int, int]]) -> None:
    torch.manual_seed(0)
    message = torch.randn(len(pairs), 3, dtype=torch.float64, requires_grad=True)
    edges = edges_of(pairs)
    reverse = find_reverse(edges)
    is_simple = len({*pairs}) == len(pairs) and all((j, i) in pairs for i, j in pairs)
    assert (reverse.edge is not None) == is_simple
    found = cavity_sum(message, edges, reverse)
    wanted = definition(message, pairs)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    total, arrived = arriving_sum(message, edges), torch.zeros(5, 3, dtype=torch.float64)
    for row, (_, target) in zip(message.detach(), pairs, strict=True):
        arrived[target] += row
    torch.testing.assert_close(total, arrived)
    assert torch.equal(cavity_sum(message, edges, reverse, total), found)
    slopes = [torch.autograd.grad(s.sin().sum(), message) for s in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


def test_reverse_edges_among_many_nodes_in_int32() -> None:
    target, source = divmod(2**32 + 100, 70_000)  # in 32 bits the same as 0 -> 100
    ends = torch.tensor([[0, source, 5], [100, target, source]], dtype=torch.int32)
    narrow, wide = (find_reverse(Edges(*each, 70_000, 70_000)) for each in (ends, ends.long()))
    assert torch.equal(narrow.reverse_pair, wide.reverse_pair)


def test_sums_keep_single_precision_under_autocast() -> None:
    edges = edges_of(RING)
    message = torch.randn(len(RING), 3)
    expected = cavity_sum(message.bfloat16().float(), edges, find_reverse(edges))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cavity_sum(message.bfloat16(), edges, find_reverse(edges))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", list(EDGES)[:-1])
def test_the_form_for_onnx_gives_the_same_sums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = edges_of(EDGES[name])
    message = torch.randn(edges.num_edges, 3, dtype=torch.float64)
    expected = cavity_sum(message, edges, find_reverse(edges))
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    torch.testing.assert_close(cavity_sum(message, edges, find_reverse(edges)), expected)
