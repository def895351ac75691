"""Sums of messages on edges against their definition, message by message."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.cavity_sum import arriving_sum, cavity_sum, find_reverse

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
    found = cavity_sum(message, edges, find_reverse(edges))
    wanted = definition(message, pairs)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    total, arrived = arriving_sum(message, edges), torch.zeros(5, 3, dtype=torch.float64)
    for row, (_, target) in zip(message.detach(), pairs, strict=True):
        arrived[target] += row
    torch.testing.assert_close(total, arrived)
    assert torch.equal(cavity_sum(message, edges, find_reverse(edges), total), found)
    slopes = [torch.autograd.grad(s.sin().sum(), message) for s in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", EDGES)
def test_reverse_edges(name: str) -> None:
    """Each edge has one; or parallel edges share a number, which is E where nothing runs back."""
    pairs = EDGES[name]
    reverse = find_reverse(edges_of(pairs))
    if name in ("ring", "ring-and-loop", "none"):
        assert [pairs[e] for e in reverse.edge.tolist()] == [(j, i) for i, j in pairs]
        return
    assert reverse.edge is None
    number = dict(zip(pairs, reverse.pair.tolist(), strict=True))
    assert len(set(number.values())) == len(number)
    assert [number[p] for p in pairs] == reverse.pair.tolist()
    back = [number.get((j, i), len(pairs)) for i, j in pairs]
    assert back == reverse.reverse_pair.tolist()


def test_reverse_edges_among_many_nodes_in_int32() -> None:
    target, source = divmod(2**32 + 100, 70_000)  # as 0 -> 100 in 32 bits
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
