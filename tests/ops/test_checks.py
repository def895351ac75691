"""Operands of other shapes are refused before a kernel reads beyond them."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import linear_scan

LAYOUT = Layout.of_grid(3, 2, torch.device("cpu"))
X, INITIAL = torch.randn(6, 5), torch.zeros(2, 5)


@pytest.mark.parametrize(
    ("decay", "x", "initial"),
    [
        (torch.ones(1), X, torch.zeros(2, 8)),
        (torch.ones(1), X, torch.zeros(1, 5)),
        (torch.ones(1), X[:5], INITIAL),
        (torch.ones(3), X, INITIAL),
        (torch.ones(6, 3), X, INITIAL),
        (torch.ones(5, 5), X, INITIAL),
    ],
)
def test_scans(decay: torch.Tensor, x: torch.Tensor, initial: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="expected"):
        linear_scan(decay, x, LAYOUT, initial)


@pytest.mark.parametrize(
    "layout",
    [
        *(Layout.of_ptr(torch.tensor(ptr), 6, 6) for ptr in ([0, 3, 9], [0, 3, 4])),
        *(Layout.of_padded_grid(torch.tensor(length), 3) for length in ([4, 1], [1, 4])),
    ],
)
def test_texts_that_do_not_fit_the_rows(layout: Layout) -> None:
    with pytest.raises(ValueError, match="do not fit 6 rows"):
        linear_scan(torch.ones(1), X, layout, INITIAL)


def test_sums_over_edges() -> None:
    two, one = torch.tensor([0, 1]), torch.tensor([1])
    for message, given in {
        "target has shape": (two, one, 3, 3),
        "edge_type has shape": (two, two, 3, 3, torch.ones(1, 4), one),
        "dtype": (two.float(), two, 3, 3),
    }.items():
        with pytest.raises(ValueError, match=message):
            Edges(*given)
    with pytest.raises(ValueError, match="z has shape"):
        neighbor_sum(torch.randn(4000, 2), Edges(two, two, 3, 3))
