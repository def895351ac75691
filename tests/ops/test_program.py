"""Programs and their derivatives against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from torch import Tensor

from pyg_kernels.ops.expression import Row, gradients, leaf, total
from pyg_kernels.ops.program import Program, call

LEAST = {torch.float32: 1e-5, torch.float64: 1e-12}
STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda x, y, n: (x - 2.0) * y / (1.0 + y * y) - n + 3.0 / (2.0 + y * y) - -x,
    "activations": lambda x, y, n: torch.tanh(x) * torch.sigmoid(y) + torch.relu(n * x),
    "roots and powers": lambda x, y, n: torch.rsqrt(x * x + 1.0) * torch.exp(-(y * y)) * n,
    "choices": lambda x, y, n: torch.where((x < y) | ((x >= n) & (y <= 0)), x * y, n * n * x),
    "what is NaN": lambda x, y, n: torch.where((x / x).isnan() | (y > n), y, x),
    "over all channels": lambda x, y, n: (x - x.mean(-1, True)) * y.square().mean(-1, True) + n,
}


@njit
def run(address: int, table: np.ndarray, index: np.ndarray, channels: int) -> None:
    call(address, table.ctypes.data, index.ctypes.data, 0, channels)


@pytest.mark.parametrize("dtype", LEAST, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 32, 29])
@pytest.mark.parametrize("name", STEPS)
def test_values_and_derivatives(name: str, channels: int, dtype: torch.dtype) -> None:
    """Rows looked up by index, one number for all channels, sums, and results added to a row."""
    torch.manual_seed(channels)
    x, y = (torch.randn(3, channels, dtype=dtype, requires_grad=True) for _ in range(2))
    n = torch.randn(4, 1, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        x[2, 0] = 0.0  # where x / x is NaN
    given = torch.randn(1, channels, dtype=dtype)
    wanted = STEPS[name](x[2], y[1], n[3])
    slopes = torch.autograd.grad(wanted, (x, y, n), given[0], materialize_grads=True)

    rows = Row(1), Row(2), Row(3, wide=False)
    a, b, c, g = (leaf(row) for row in (*rows, Row(0)))
    found = STEPS[name](a, b, c)
    of_leaves = [slope or 0.0 * a for slope in gradients([(found, g)], [a, b, c])]
    outputs = {
        "value": [(Row(0), found)],
        "sum": [(Row(0, wide=False), found)],
        "slopes": list(zip([Row(1), Row(2, adds=True), rows[2]], of_leaves, strict=True)),
    }
    program = Program({"rows": [a, b, c, g]}, outputs, dtype)
    value, together = torch.empty(1, channels, dtype=dtype), torch.empty(1, 1, dtype=dtype)
    ones = [torch.ones_like(t) for t in (x, y, n)]
    memory = {
        "rows": [(t, 0) for t in (x, y, n, given)],
        "value": [(value, 0)],
        "sum": [(together, 0)],
        "slopes": [(t, 0) for t in ones],
    }
    run(program.address, program.table(memory), np.array([0, 2, 1, 3]), channels)
    results: list[tuple[Tensor, Tensor]] = [
        (value[0], wanted.detach()),
        (together[0, 0], wanted.detach().sum()),
        (ones[0][2], slopes[0][2]),
        (ones[1][1], slopes[1][1] + 1.0),
        (ones[2][3], slopes[2][3]),
    ]
    for result, expected in results:
        bound = LEAST[dtype] * max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(result, expected, rtol=0, atol=bound)
    assert program.whole


def test_channels_may_be_shared_unless_they_are_summed() -> None:
    x = leaf(Row(0))
    for value, whole in ((x * x, False), (x - total(x), True)):
        assert Program({"x": [x]}, {"y": [(Row(0), value)]}, torch.float32).whole is whole


def activated(act: Callable[[Any], Any], x: Tensor) -> Tensor:
    """The activation computed by a program, in single precision."""
    value, out = leaf(Row(0)), torch.empty_like(x)
    program = Program({"x": [value]}, {"y": [(Row(0), act(value))]}, torch.float32)
    table = program.table({"x": [(x, 0)], "y": [(out, 0)]})
    run(program.address, table, np.zeros(1, np.int64), x.size(1))
    return out


def test_ranges_of_activations() -> None:
    """Single-precision values stay in range and keep relative precision left of zero."""
    x = torch.linspace(-80, 80, 40001).unsqueeze(0)
    for act, least, most in ((torch.tanh, -1, 1), (torch.sigmoid, 0, 1), (torch.exp, 0, 1e35)):
        out = activated(act, x)
        assert out.min() >= least and out.max() <= most
        torch.testing.assert_close(out, act(x), rtol=1e-5, atol=0)
    for bad in (float("nan"), float("inf"), -float("inf")):
        x = torch.full((1, 9), bad)
        for act in (torch.tanh, torch.sigmoid, torch.exp, torch.relu):
            torch.testing.assert_close(activated(act, x), act(x), equal_nan=True)


@pytest.mark.parametrize(
    "bad", [torch.ones(2, 9, dtype=torch.float64), torch.ones(9, 2).t(), torch.ones(2, 9).half()]
)
def test_rows_that_cannot_be_read(bad: Tensor) -> None:
    value = leaf(Row(0))
    program = Program({"x": [value]}, {"y": [(Row(0), value * value)]}, torch.float32)
    with pytest.raises(ValueError, match=r"expected torch\.float32 and neighbouring channels"):
        program.table({"x": [(bad, 0)], "y": [(torch.empty(2, 9), 0)]})
