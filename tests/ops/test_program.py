"""What a compiled program promises beyond its numbers, which the tests of the ops compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from torch import Tensor

from pyg_kernels.ops.expression import Row, leaf, total
from pyg_kernels.ops.program import Program, call


@njit
def run(address: int, table: np.ndarray, index: np.ndarray, channels: int) -> None:
    call(address, table.ctypes.data, index.ctypes.data, 0, channels)


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
