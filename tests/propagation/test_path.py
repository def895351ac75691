"""The operator on path graphs: the walk that it carries is the scan's definition."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import Form, walk_scan
from pyg_kernels.propagation import PathPropagation
from pyg_kernels.walk import Combine, walk

CHANNELS = 3


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("lengths", [(6, 6), (70, 4, 1, 0), (1, 1), (0, 0)], ids=str)
def test_the_walk_of_the_scan(
    lengths: tuple[int, ...], order: int, combine: Combine, normalize: bool
) -> None:
    """`walk` with the operator, one order after the other, and the scan of all orders at once."""
    torch.manual_seed(0)
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    layout = Layout.of_ptr(ptr, max(lengths), int(ptr[-1]))
    decay, *p = (
        torch.randn(layout.num_rows, CHANNELS, dtype=torch.float64) for _ in range(order + 1)
    )
    decay, initial = decay.sigmoid(), torch.randn(order, len(lengths), CHANNELS).double()
    path = PathPropagation(decay, layout, initial, normalize)
    form = Form(order, combine, normalize, "values", CHANNELS, "z")
    params = decay.new_zeros(4, CHANNELS)
    h, c, end = walk_scan(form, layout, torch.cat((decay, *p), 1), params, initial, initial[0])
    for j, z in enumerate(walk(p, path, combine), start=1):
        up_to = path.aggregate(z, j)
        torch.testing.assert_close(c[j - 1, : layout.num_rows], up_to, rtol=1e-10, atol=1e-12)
        last = layout.last(up_to, initial[j - 1])
        torch.testing.assert_close(end[j - 1], last, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(h, z, rtol=1e-10, atol=1e-12)
