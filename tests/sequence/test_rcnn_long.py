"""Long texts, which may be read in chunks: still the equations, and the pieces of the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn_equations import layer_equations, random_rcnn
from tests.sequence.texts import SIZE, close, random_text

LONG: dict[str, dict[str, Any]] = {
    "constant": {"order": 3},
    "forgetful": {"decay": 0.0, "combine": "add"},
    "undecayed": {"decay": 1.0, "normalize": False, "combine": "add"},
    "learned": {"decay": "learned", "readout": "sum"},
    "scalar": {"decay": "learned", "scalar_decay": True, "readout": "z", "order": 3},
    "input": {"decay": "input", "combine": "add", "order": 3, "output_gate": True},
    "input-scalar": {"decay": "input", "scalar_decay": True, "normalize": False, "highway": True},
    "first-order": {"order": 1, "decay": "input"},
    "recurrent": {"decay": "recurrent", "output_map": True, "output_gate": True},
}


def assert_equations(rcnn: RCNN, options: dict[str, Any], x: Tensor) -> None:
    """Outputs, last states and the gradients of both, by input, initial state and parameters."""
    order, count = options.get("order", 2), x.size(1)
    h = random_text(count, SIZE, seed=1).requires_grad_()
    c = random_text(count, order, SIZE, seed=2).requires_grad_()
    x = x.clone().requires_grad_()
    output, state = rcnn(x, (h[None], c[None]))
    expected, last_h, last_c = layer_equations(rcnn.cells[0], x, h, c, **options)
    found, wanted = [output, state.h[0], state.c[0]], [expected, last_h, last_c]
    for a, b in zip(found, wanted, strict=True):
        close(a, b)
    inputs = [x, h, c, *rcnn.parameters()]
    gradients = []
    for outputs in [found, wanted]:
        total = sum((random_text(*t.shape, seed=5) * t).sum() for t in outputs)
        gradients.append(
            torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
        )
    for a, b in zip(*gradients, strict=True):
        close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(("steps", "count"), [(257, 1), (130, 3)])
def test_equations(name: str, steps: int, count: int) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **LONG[name])
    assert_equations(rcnn, LONG[name], random_text(steps, count, SIZE))


@pytest.mark.parametrize("name", ["input", "input-scalar", "first-order", "recurrent"])
def test_gates_that_are_shut_or_open(name: str) -> None:
    """Decays of exactly 0 and 1, among others, in one text."""
    options = {**LONG[name], "output_gate": False}
    rcnn = random_rcnn(SIZE, SIZE, **options)
    cell = rcnn.cells[0]
    with torch.no_grad():
        cell.decay_lin.weight.mul_(400.0)
    x = random_text(150, 1, SIZE)
    x[::3] = 0.0
    decay = torch.sigmoid(x @ cell.decay_lin.weight.t() + cell.decay_bias)
    assert (decay == 1.0).any() and (decay < 1e-50).any()
    assert_equations(rcnn, options, x)
