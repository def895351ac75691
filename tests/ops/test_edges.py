"""Edges sorted by target and by source, and edge features whose rows repeat."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyg_kernels.ops import edges as module
from pyg_kernels.ops.edges import Edges, distinct_rows, sort_by_node
from pyg_kernels.ops.neighbor_sum import neighbor_sum


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=40))
def test_sorted(nodes: list[int]) -> None:
    index = torch.tensor([nodes, nodes[::-1]], dtype=torch.long)
    edges = Edges(index[0], index[1], 10, 12)
    for node, number, (offset, order) in (
        (edges.source, 10, edges.by_source()),
        (edges.target, 12, edges.by_target()),
    ):
        assert order.tolist() == sorted(range(len(nodes)), key=node.tolist().__getitem__)
        assert offset.diff().tolist() == torch.bincount(node, minlength=number).tolist()
    assert edges.by_target() is edges.by_target()


def test_sorted_without_numba_in_inference_and_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    node = torch.tensor([[3, 9], [0, 9], [3, 9], [1, 9]])[:, 0]
    torch.library.opcheck(sort_by_node, (node, 5))
    edges = Edges(node, node, 5, 5)
    with torch.inference_mode():
        assert not edges.by_target()[0].is_inference()
        torch.compile(edges.by_source, backend="eager")()  # keeps what no backward may read
    assert not edges.by_source()[0].is_inference()
    monkeypatch.setattr(module, "cpu_backend", lambda: "definition")
    for found in (sort_by_node(node, 5), edges.by_target()):
        assert [t.tolist() for t in found] == [[0, 1, 2, 2, 4, 4], [1, 3, 0, 2]]


def test_nodes_that_are_not_there() -> None:
    node = torch.tensor([0, 5])
    with pytest.raises(ValueError, match="names source node 5, but there are 5 source nodes"):
        Edges(node, node, 5, 6)
    with pytest.raises(ValueError, match="names target node -1"):
        Edges(node, -torch.ones_like(node), 6, 6)
    with pytest.raises(ValueError, match="names a node that does not exist"):
        sort_by_node(node, 5)


def test_distinct_rows() -> None:
    """Finds the distinct rows of bond types, and a rare row that lies between the sampled rows."""
    torch.manual_seed(0)
    rare = torch.zeros(10_000, 3)
    rare[7] = 1.0
    for rows, count in ((torch.eye(5)[:, :4][torch.randint(5, (1000,))], 5), (rare, 2)):
        distinct, index = distinct_rows(rows)
        assert distinct.size(0) == count
        assert torch.equal(distinct[index], rows)


def test_rows_without_types() -> None:
    torch.manual_seed(0)
    with_nan = torch.zeros(100, 2)
    with_nan[3, 1] = float("nan")
    for rows in (torch.randn(5000, 3), torch.randn(3, 3), torch.zeros(100, 0), with_nan):
        assert distinct_rows(rows) is None


def test_rows_that_project_to_the_same_number_stay_apart() -> None:
    """Equality is checked on the rows themselves, not on their projections."""
    width = torch.exp(torch.linspace(1.0, 2.0, 2, dtype=torch.float64)).frac()
    rows = torch.zeros(100, 2, dtype=torch.float64)
    rows[0] = torch.tensor([width[1].item(), 0.0])
    rows[1] = torch.tensor([0.0, width[0].item()])
    found = distinct_rows(rows)
    assert found is None or torch.equal(found[0][found[1]], rows)


def test_operands_of_other_shapes() -> None:
    two, one = torch.tensor([0, 1]), torch.tensor([1])
    for message, operands in {
        "target has shape": (two, one, 3, 3),
        "edge_type has shape": (two, two, 3, 3, torch.ones(1, 4), one),
        "dtype": (two.float(), two, 3, 3),
    }.items():
        with pytest.raises(ValueError, match=message):
            Edges(*operands)
    with pytest.raises(ValueError, match="z has shape"):
        neighbor_sum(torch.randn(4000, 2), Edges(two, two, 3, 3))
