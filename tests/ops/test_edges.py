"""Sorting edges, cutting them into blocks, and finding the kinds of edges."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyg_kernels.ops.edges import Edges, distinct_rows


def test_sorted_by_target() -> None:
    edges = Edges(
        torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 2, 1]), 4, 4, torch.zeros(4, 1), None
    )
    by_target = edges.by_target()
    assert by_target.source.tolist() == [1, 3, 0, 2]
    assert by_target.target.tolist() == [0, 1, 2, 2]
    assert by_target.offset.tolist() == [0, 1, 2, 4, 4]
    assert by_target.row.tolist() == [1, 3, 0, 2]
    assert edges.by_target() is by_target


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 2**20))
def test_blocks_cover_every_edge_and_target_once(degrees: list[int], channels: int) -> None:
    target = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees).long())
    edges = Edges(torch.zeros_like(target), target, 1, len(degrees))
    by_target = edges.by_target()
    blocks = by_target.blocks(channels)
    if target.numel() == 0:
        assert blocks == []
        return
    assert blocks[0][0].start == 0 and blocks[-1][0].stop == target.numel()
    assert blocks[0][1].start == 0 and blocks[-1][1].stop == len(degrees)
    for (span, rows), (next_span, next_rows) in pairwise(blocks):
        assert span.stop == next_span.start and rows.stop == next_rows.start
    for span, rows in blocks:
        assert by_target.offset[rows.start] == span.start
        assert by_target.offset[rows.stop] == span.stop


def test_distinct_rows_of_bond_types() -> None:
    torch.manual_seed(0)
    kinds = torch.eye(5)[:, :4]
    rows = kinds[torch.randint(5, (1000,))]
    distinct, index = distinct_rows(rows)
    assert distinct.size(0) == 5
    assert torch.equal(distinct[index], rows)


def test_a_rare_kind_between_the_samples() -> None:
    rows = torch.zeros(10_000, 3)
    rows[7] = 1.0
    distinct, index = distinct_rows(rows)
    assert distinct.size(0) == 2
    assert torch.equal(distinct[index], rows)


def test_continuous_rows_have_no_kinds() -> None:
    torch.manual_seed(0)
    assert distinct_rows(torch.randn(5000, 3)) is None
    assert distinct_rows(torch.randn(3, 3)) is None
    assert distinct_rows(torch.zeros(100, 0)) is None


def test_rows_with_nan_have_no_kinds() -> None:
    rows = torch.zeros(100, 2)
    rows[3, 1] = float("nan")
    assert distinct_rows(rows) is None


def test_rows_that_project_to_the_same_number_stay_apart() -> None:
    """Equality is checked on the rows themselves, not on their projections."""
    width = torch.exp(torch.linspace(1.0, 2.0, 2, dtype=torch.float64)).frac()
    rows = torch.zeros(100, 2, dtype=torch.float64)
    rows[0] = torch.tensor([width[1].item(), 0.0])
    rows[1] = torch.tensor([0.0, width[0].item()])
    found = distinct_rows(rows)
    assert found is None or torch.equal(found[0][found[1]], rows)
