"""Convolutions of grids against windows of tokens, which the equations of the machines check."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.ops.ragged import Layout
from tests.ops.layouts import LAYOUTS

GRIDS = {name: layout for name, layout in LAYOUTS.items() if layout.full and layout.num_steps}


@pytest.mark.parametrize(("width", "dilation", "further"), [(1, 1, 2), (3, 1, 0), (4, 2, 1)])
@pytest.mark.parametrize("layout", GRIDS.values(), ids=GRIDS)
def test_convolution(layout: Layout, width: int, dilation: int, further: int) -> None:
    torch.manual_seed(0)
    rows = torch.randn(layout.num_rows, 2, dtype=torch.float64)
    history = torch.randn((width - 1) * dilation + further, layout.num_texts, 2).double()
    weight = torch.randn(3, 2, width, dtype=torch.float64)
    found = layout.convolve(rows, history, weight, dilation)
    windows = layout.windows(rows, history, width, dilation)
    torch.testing.assert_close(found, windows @ weight.transpose(1, 2).flatten(1).t())
