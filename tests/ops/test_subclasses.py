"""Subclasses of ``Tensor``: PyTorch's overriding is switched off while an op's methods run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.expansion import cpu, kernel_expansion
from pyg_kernels.ops.neighbor_sum import cpu as sums
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import SumTable, sum_max_scan
from pyg_kernels.ops.scan.maximum_cpu import _program
from pyg_kernels.ops.scan.traced import _traced
from pyg_kernels.ops.scan.walk import linear_scan

LAYOUT = Layout.of_grid(3, 2, torch.device("cpu"))
INDEX = torch.tensor([0, 1])
FUNCTIONS = {
    "neighbor_sum": lambda x: neighbor_sum(x, Edges(INDEX, INDEX, 6, 6), (x, x, None)),
    "scan": lambda x: linear_scan(torch.sigmoid(x), x, LAYOUT, x[:2]),
    "maximum": lambda x: sum_max_scan(
        x, 0.5, LAYOUT, SumTable(torch.zeros(2, 2, 0, 2), torch.zeros(2, dtype=torch.long))
    )[0],
    "expansion": lambda x: kernel_expansion(x, x[:1], x[1:2], "gaussian", 0.5),
}


class Own(Tensor):
    """A subclass that changes nothing."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_give_the_same_numbers(name: str) -> None:
    for kept in (sums._programs, cpu._gaussian, _program, _traced):
        kept.cache_clear()
    results = []
    for kind in (Own, Tensor):
        x = torch.linspace(-1, 1, 24, dtype=torch.float64).view(6, 4).requires_grad_()
        out = FUNCTIONS[name](x.as_subclass(kind))
        out.square().sum().backward()
        results.append((out, x.grad))
    (out, grad), (expected, wanted) = results
    assert type(out) is Own
    torch.testing.assert_close((out.as_subclass(Tensor), grad), (expected, wanted))
