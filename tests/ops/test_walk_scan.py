"""The walk's scan: compiled steps against the definition, for every form and layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import operator
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import _SCAN, Form, linear_scan, walk_scan
from tests.covering import covering
from tests.ops.conftest import assert_same_in_threads, assert_transforms
from tests.ops.layouts import LAYOUTS

D = 6
CASES = covering(
    2,
    layout=list(LAYOUTS),
    gate=[("none", 0), ("values", 1), ("values", D), ("logits", 1), ("logits", D)],
    order=[1, 2, 3],
    combine=["mul", "add"],
    normalize=[False, True],
    readout=["c", "z", "sum"],
    act=["none", "tanh", "relu"],
    output_gate=[False, True],
    highway=[False, True],
    select=["no", "holds", "forgets"],
    feed=["no", "yes", "masked"],  # of gates that are logits
)


def arguments(
    case: dict[str, Any], dtype: torch.dtype, layout: Layout | None = None
) -> dict[str, Any]:
    """Random operands."""
    torch.manual_seed(0)
    options = dict(case)
    name, (gate, width), select, feed = map(options.pop, ("layout", "gate", "select", "feed"))
    layout, feed = layout or LAYOUTS[name], feed if gate == "logits" else "no"
    form = Form(gate=gate, width=width, hold=select != "forgets", **options)
    n, texts = layout.num_rows, layout.num_texts
    read = form.width + D * form.output_gate
    x = torch.randn(n, read + D * (form.order + form.highway), dtype=dtype)
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
        "select": None if select == "no" else torch.rand(n, 1, dtype=dtype).round(decimals=1),
        "carried": torch.randn(n, D, dtype=dtype) if form.highway else None,
        "feed": None if feed == "no" else torch.randn(read, D, dtype=dtype) / 3,
        "mask": 2 * torch.rand(texts, D, dtype=dtype) if feed == "masked" else None,
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
    """Outputs and every gradient: any two options on some layout, each with every layout."""
    for case in CASES:
        if case["layout"] == name:
            given = arguments(case, torch.float64)
            torch.testing.assert_close(*both(given, monkeypatch), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("number", range(0, len(CASES), 9))
def test_single_precision(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.of_grid(9, 2, torch.device("cpu"))
    given = arguments(CASES[number], torch.float32, layout)
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
    every = {"gate": ("logits", D), "highway": True, "select": "holds", "feed": "masked"}
    given = arguments({**CASES[0], **every}, torch.float64, Layout.of_grid(3, 2, x.device))
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
    given = arguments({**CASES[0], "layout": "ragged"}, torch.float64)
    expected = walk_scan(**given)
    monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    torch.testing.assert_close(walk_scan(**given), expected, rtol=1e-10, atol=1e-10)
