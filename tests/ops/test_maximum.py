"""Maxima over n-grams where several n-grams are equally large.

Other tests compare the layer with an enumeration (tests/sequence/test_rcnn.py), and the kernels
with the definition on texts of every form (tests/ops/test_scans.py).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import operator
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import SumTable, sum_max_scan
from pyg_kernels.ops.scan.walk import Form, extremes, walk_scan

F64 = torch.float64


def largest_products(x: Tensor, decay: Tensor, readout: str) -> Tensor:
    """The largest products over one text's 2-grams, computed by the walk's scan as in the layer."""
    layout, zeros = one_text(x), x.new_zeros(2, 1, 1)
    c0, before = extremes(layout, zeros, zeros, torch.zeros_like(layout.length), x.dtype)
    params = torch.cat((decay.view(1, 1), x.new_zeros(3, 1)))
    form = Form(2, readout=readout, pooling="max")
    return walk_scan(form, layout, x, params, c0, c0[0], before)[0]


def largest_sums(x: Tensor, decay: Tensor, readout: str) -> Tensor:
    table = SumTable(x.new_zeros(2, 1, 0, 1), torch.zeros(1, dtype=torch.long))
    return sum_max_scan(x, decay, one_text(x), table, readout)[0]


SCANS: dict[str, Any] = {"mul": largest_products, "add": largest_sums}


def one_text(x: Tensor) -> Layout:
    return Layout.of_grid(len(x), 1, x.device)


@pytest.mark.parametrize("path", ["numba", "definition"])
@pytest.mark.parametrize(("mapping", "adjacent", "slope"), [("mul", -1.0, 6.0), ("add", -4.0, 5.0)])
def test_decay_zero_and_ties(
    mapping: str, adjacent: float, slope: float, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At decay 0 a gapped n-gram is worth 0; of equal n-grams, the one completed first wins."""
    if path == "definition":
        monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    decay = torch.zeros(1, dtype=F64, requires_grad=True)
    x = torch.tensor([[3.0, 0.0], [adjacent, 0.0], [0.0, 2.0]], dtype=F64, requires_grad=True)
    z = SCANS[mapping](x, decay, "z")
    assert z[2].item() == 0.0
    assert torch.autograd.grad(z[2, 0], decay)[0].item() == slope
    ones = torch.ones(4, 2, dtype=F64, requires_grad=True)
    for readout, picked in (("c", (0, 1)), ("z", (0, 3))):
        out = SCANS[mapping](ones, torch.ones(1, dtype=F64), readout)
        (found,) = torch.autograd.grad(out[3, 0], ones)
        assert found.nonzero().tolist() == sorted([token, j] for j, token in enumerate(picked))


def test_bad_arguments() -> None:
    x = torch.zeros(3, 4, dtype=F64)
    layout = Layout.of_ptr(torch.tensor([0, 2, 3]), 2, 3)
    table = SumTable(x.new_zeros(2, 2, 2, 2), torch.tensor([2, 1]))
    short, far = (table._replace(seen=torch.tensor(of)) for of in ([2], [5, 1]))
    for message, options in (
        (r"x has shape \(3, 3\): expected \(3, 4\)", {"x": x[:, :3]}),
        (r"state\.best has shape .*: expected \(2, 1", {"layout": one_text(x)}),
        (r"state\.seen has shape \(1,\)", {"state": short}),
        (r"state\.seen goes from 1 to 5: expected 0 to 2", {"state": far}),
    ):
        given = {"x": x, "decay": 0.5, "layout": layout, "state": table}
        with pytest.raises(ValueError, match=message):
            sum_max_scan(**{**given, **options})
