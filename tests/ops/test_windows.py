"""Windows of tokens against their definition: token by token, text by text."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from tests.ops.layouts import LAYOUTS

F64 = torch.float64
FEATURES = 2
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_shape = pytest.mark.parametrize(
    ("width", "dilation", "further"), [(1, 1, 2), (3, 1, 0), (4, 2, 0), (2, 3, 1), (8, 1, 0)]
)


def token(layout: Layout, rows: Tensor, history: Tensor, text: int, step: int) -> Tensor:
    """A token of a text, negative in the history."""
    return rows[layout.start[text] + step * layout.stride] if step >= 0 else history[step, text]


def inputs_of(layout: Layout, history: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = (layout.num_rows, FEATURES), (history, layout.num_texts, FEATURES)
    rows, past = (torch.randn(shape, dtype=F64).requires_grad_() for shape in shapes)
    return rows, past


@every_layout
@every_shape
def test_windows_and_their_convolution(
    layout: Layout, width: int, dilation: int, further: int
) -> None:
    rows, past = inputs_of(layout, (width - 1) * dilation + further)
    weight = torch.randn(3, FEATURES, width, dtype=F64)
    found = layout.windows(rows, past, width, dilation)
    assert found.shape == (layout.num_rows, width * FEATURES)
    products = found @ weight.transpose(1, 2).flatten(1).t()
    if layout.full and layout.num_steps:
        torch.testing.assert_close(layout.convolve(rows, past, weight, dilation), products)
    total, expected_total = found.sum() * 0, found.sum() * 0
    for text, length in enumerate(layout.length.tolist()):
        for t in range(length):
            steps = [t - (width - 1 - i) * dilation for i in range(width)]
            expected = torch.cat([token(layout, rows, past, text, s) for s in steps])
            row = found[layout.start[text] + t * layout.stride]
            torch.testing.assert_close(row, expected, rtol=0, atol=0)
            total, expected_total = total + row.sin().sum(), expected_total + expected.sin().sum()
    grads = (
        torch.autograd.grad(
            s, (rows, past), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for s in (total, expected_total)
    )
    torch.testing.assert_close(*grads)


@every_layout
@pytest.mark.parametrize("history", [1, 3, 9])
def test_tail(layout: Layout, history: int) -> None:
    rows, past = inputs_of(layout, history)
    tail = layout.tail(rows, past)
    assert tail.shape == past.shape
    for text, length in enumerate(layout.length.tolist()):
        for k in range(history):
            expected = token(layout, rows, past, text, length - history + k)
            torch.testing.assert_close(tail[k, text], expected, rtol=0, atol=0)
