"""The walk's scan: compiled steps against the definition, for every form and layout."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import operator
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import _SCAN, Form, linear_scan, walk_scan
from tests.ops.conftest import assert_same_in_threads, assert_transforms
from tests.ops.layouts import LAYOUTS

D = 6
GATES = [("none", 0), ("values", 1), ("values", D), ("logits", 1), ("logits", D)]
FORMS = [
    Form(order, combine, normalize, gate, width, readout)
    for order, combine, normalize, readout, (gate, width) in itertools.product(
        (1, 2, 3), ("mul", "add"), (True, False), ("c", "z", "sum"), GATES
    )
]


def arguments(form: Form, layout: Layout, number: int, dtype: torch.dtype) -> dict[str, Any]:
    """Random operands; the number says what else the form has."""
    torch.manual_seed(number)
    feeds = form.gate == "logits" and number % 2 == 0
    select = number % 7 < 3
    form = form._replace(
        output_gate=number % 3 == 0,
        highway=number % 5 < 2,
        act=("tanh", "relu", "none")[number % 3],
        hold=number % 2 == 1 or not select,
    )
    n, texts = layout.num_rows, layout.num_texts
    gate = D if form.output_gate else 0
    columns = form.width + gate + form.order * D + (D if form.highway else 0)
    x = torch.randn(n, columns, dtype=dtype)
    params = torch.randn(4, D, dtype=dtype)
    if form.gate == "values":
        x[:, : form.width].sigmoid_()
    if form.gate == "none":
        params[0].sigmoid_()
    return {
        "form": form,
        "layout": layout,
        "x": x,
        "params": params,
        "c0": torch.randn(form.order, texts, D, dtype=dtype),
        "h0": torch.randn(texts, D, dtype=dtype),
        "select": torch.rand(n, 1, dtype=dtype).round(decimals=1) if select else None,
        "carried": torch.randn(n, D, dtype=dtype) if form.highway else None,
        "feed": torch.randn(form.width + gate, D, dtype=dtype) / 3 if feeds else None,
        "mask": 2 * torch.rand(texts, D, dtype=dtype) if feeds and number % 4 else None,
    }


def both(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """Outputs and all gradients, compiled and by the definition."""
    leaves = [t.requires_grad_() for k, t in given.items() if isinstance(t, Tensor) and k != "mask"]
    results = []
    for compiled in (True, False):
        with monkeypatch.context() as patch:
            if not compiled:
                patch.setattr(_SCAN, "forward", definition_only)
                patch.setattr(_SCAN, "_run_backward", backward_only)
            outs = walk_scan(**given)
            weights = [torch.arange(1.0, 1 + o.numel()).to(o).cos().view_as(o) for o in outs]
            total = sum((w * o).sum() for w, o in zip(weights, outs, strict=True))
            grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        results.append([*outs, *grads])
    return results


def definition_only(*args: Any) -> tuple[Tensor, ...]:
    return _SCAN.padded(_SCAN.definition(*args))


def backward_only(grads: Any, tensors: Any, outputs: Any, settings: Any, needed: Any) -> Any:
    return _SCAN.by_definition(tensors, settings, needed, grads)


@pytest.mark.parametrize("name", LAYOUTS)
def test_equals_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and every gradient, each form with other gates and selections on each layout."""
    first = 7 * sorted(LAYOUTS).index(name)
    for number, form in list(enumerate(FORMS, start=first))[first % 13 :: 13]:
        given = arguments(form, LAYOUTS[name], number, torch.float64)
        torch.testing.assert_close(*both(given, monkeypatch), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("number", range(0, len(FORMS), 23))
def test_single_precision(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.of_grid(9, 2, torch.device("cpu"))
    given = arguments(FORMS[number], layout, number, torch.float32)
    for found, expected in zip(*both(given, monkeypatch), strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(found / scale, expected / scale, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("threads")
def test_threads_and_torchs_own_check() -> None:
    """Blocks of channels on two threads; several Python threads at once; `opcheck`."""
    layout = Layout.of_grid(400, 2, torch.device("cpu"))
    torch.manual_seed(0)
    x, params = torch.randn(800, 4 * 96), torch.randn(4, 96)
    x.requires_grad_()

    def run(k: int) -> list[Tensor]:
        form = Form(3, gate="logits", width=96, normalize=True, act="tanh")
        initial = x.new_zeros(3, 2, 96), x.new_zeros(2, 96)
        out, *_ = walk_scan(form, layout, (1 + k) * x, params, *initial)
        return [out, *torch.autograd.grad(out.square().sum(), x)]

    assert_same_in_threads(run)
    given = arguments(FORMS[4], Layout.of_grid(3, 2, x.device), 3, torch.float64)
    layout, form = given.pop("layout"), given.pop("form")
    names = ("x", "params", "select", "carried", "feed", "mask", "h0", "c0")
    tensors = [given[name] for name in names]
    tensors = [None if t is None else t.requires_grad_() for t in tensors]
    form = form._replace(width=min(form.width, 2))
    settings = (*form, *layout.settings)
    torch.library.opcheck(_SCAN.op, (*tensors, layout.start, layout.length, *settings))


def test_nan_and_infinity_stay_in_their_text() -> None:
    layout = Layout.of_grid(5, 3, torch.device("cpu"))
    for bad in (torch.nan, torch.inf):
        x = torch.randn(15, 2 * D)
        x[4, D:] = bad  # token 1 of text 1
        form = Form(1, gate="logits", width=D, act="tanh")
        h, *_ = walk_scan(
            form, layout, x, x.new_zeros(4, D), x.new_zeros(1, 3, D), x.new_zeros(3, D)
        )
        h = h.view(5, 3, D)
        assert h[:, [0, 2]].isfinite().all() and h[0].isfinite().all()
        assert torch.equal(h[1:, 1].isnan(), torch.full((4, D), bad is torch.nan))


def test_transforms_and_second_derivatives() -> None:
    layout = LAYOUTS["ragged"]
    n, texts = layout.num_rows, layout.num_texts
    x, decay = torch.randn(n, 2).double(), torch.rand(n, 2).double()
    initial = torch.randn(texts, 2).double()

    def scan(x: Tensor) -> Tensor:
        return linear_scan(decay, x, layout, initial, normalize=True)

    assert torch.autograd.gradgradcheck(scan, x.requires_grad_(), fast_mode=True)
    assert_transforms(lambda x: [scan(x)], x)


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LAYOUTS["ragged"]
    given = arguments(FORMS[7], layout, 7, torch.float64)
    expected = walk_scan(**given)
    monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    torch.testing.assert_close(walk_scan(**given), expected, rtol=1e-10, atol=1e-10)
