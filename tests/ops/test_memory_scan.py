"""Memory cells compiled against their definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.memory import _SCAN, Form, memory_scan
from tests.ops.conftest import assert_same_in_threads, assert_transforms
from tests.ops.layouts import LAYOUTS, each_on, in_turn

FORMS = {  # and how many gates read the output before
    "lstm": (Form(True, True, True, candidate="tanh", out="tanh"), 4),
    "gates alone": (Form(False, True, True), 2),
    "parallel": (Form(True, True, True), 0),
    "coupled": (Form(True, False, True, coupled=True), 0),
    "coupled, fed back": (Form(False, False, True, coupled=True, out="relu"), 2),
    "static": (Form(out="tanh"), 0),
    "static, fed back": (Form(True, out="sigmoid"), 2),
    "no memory": (Form(True, memory=False, out="tanh"), 0),
    "activated memory": (Form(carried="tanh", out="tanh"), 1),
    "activated memory, another output": (Form(carried="relu", out="tanh"), 0),
    "activated memory, plain output": (Form(carried="sigmoid"), 0),
}
CASES = {
    f"{name}{', norm' * norm}": (form._replace(norm=norm), reading)
    for name, (form, reading) in FORMS.items()
    for norm in (False, True)
}
SOME = {name: CASES[name] for name in ("lstm, norm", "parallel", "activated memory")}
some_cases = pytest.mark.parametrize("case", SOME.values(), ids=SOME)
Case = tuple[Form, int]


def inputs_of(
    case: Case, layout: Layout, channels: int = 3, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    form, reading = case
    torch.manual_seed(0)
    gates, texts = len(form.gates), layout.num_texts
    shapes = [
        (layout.num_rows, gates * channels),
        (gates + 4, channels),
        (texts, channels),
        (texts, channels),
        (reading * channels, channels),
    ]
    drawn = [0.5 * torch.randn(s, dtype=torch.float64) for s in shapes[: 4 + (reading > 0)]]
    drawn[4:] = [feed / channels**0.5 for feed in drawn[4:]]
    return [t.to(dtype).requires_grad_() for t in drawn]


def defined(form: Form, layout: Layout, *tensors: Tensor, **own: Any) -> tuple[Tensor, ...]:
    x, params, h0, c0, *feed = tensors
    given = (x, params, None, None, feed[0] if feed else None, None, h0, c0.unsqueeze(0))
    h, c, end = _SCAN.define(form, layout, *given, **own)
    return h, c[0], end[0]


def gradients(outputs: Any, inputs: list[Tensor], seeds: list[Tensor]) -> tuple[Tensor, ...]:
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    return torch.autograd.grad(
        [o for o, _ in pairs], inputs, [s for _, s in pairs], retain_graph=True,
        allow_unused=True, materialize_grads=True,
    )  # fmt: skip


def assert_same(case: Case, layout: Layout, inputs: list[Tensor], tolerance: float) -> None:
    form, _ = case
    found, expected = memory_scan(form, layout, *inputs), defined(form, layout, *inputs)
    seeds = [torch.randn_like(t) for t in expected]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    pairs = zip(gradients(found, inputs, seeds), gradients(expected, inputs, seeds), strict=True)
    for one, other in pairs:
        bound = tolerance * max(1.0, other.abs().max().item() if other.numel() else 1.0)
        torch.testing.assert_close(one, other, rtol=tolerance, atol=bound)


@in_turn(CASES)
def test_definition(case: Case, layout: Layout) -> None:
    """Outputs, memories and the gradients of every input."""
    assert_same(case, layout, inputs_of(case, layout), 1e-10)


@some_cases
@pytest.mark.parametrize("channels", [1, 33])
def test_widths_and_long_texts(case: Case, channels: int) -> None:
    layout = Layout.of_ptr(torch.tensor([0, 40, 41, 41, 70, 83]), 40, 83)
    assert_same(case, layout, inputs_of(case, layout, channels), 1e-10)
    assert_same(case, layout, inputs_of(case, layout, channels, torch.float32), 1e-5)


@pytest.mark.usefixtures("threads")
def test_products_that_threads_share() -> None:
    case, layout = FORMS["lstm"], Layout.of_padded_grid(torch.tensor([3, 2, 3, 3, 1, 3, 3] * 10), 3)
    assert_same(case, layout, inputs_of(case, layout, 130), 1e-10)


@some_cases
def test_one_output_alone(case: Case) -> None:
    """Gradients that reach h only, or c only, or the last c only."""
    layout = LAYOUTS["ragged"]
    inputs = inputs_of(case, layout)
    found, expected = memory_scan(case[0], layout, *inputs), defined(case[0], layout, *inputs)
    for k in range(3):
        seeds = [torch.randn_like(expected[k])]
        pair = (gradients([outs[k]], inputs, seeds) for outs in (found, expected))
        torch.testing.assert_close(*pair, rtol=1e-10, atol=1e-10)


@some_cases
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_goes_through(case: Case, value: float) -> None:
    layout = LAYOUTS["grid"]
    inputs = [t.detach() for t in inputs_of(case, layout)]
    inputs[0][4, -1] = value
    found, expected = memory_scan(case[0], layout, *inputs), defined(case[0], layout, *inputs)
    torch.testing.assert_close(found, expected, equal_nan=True)


@each_on(SOME, "ragged", "padded, texts first, backwards", "grid")
def test_as_pytorch_knows_it(case: Case, layout: Layout) -> None:
    form, _ = case
    inputs = inputs_of(case, layout, 2)

    def outputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        return memory_scan(form, layout, *tensors)

    assert torch.autograd.gradgradcheck(outputs, inputs, fast_mode=True)
    x, params, h0, c0, *feed = inputs
    given = (x, params, None, None, feed[0] if feed else None, None, h0, c0.detach().unsqueeze(0))
    torch.library.opcheck(_SCAN.op, (*given, layout.start, layout.length, *form, *layout.settings))

    assert_transforms(lambda x: outputs(x, *inputs[1:]), x)


@some_cases
@pytest.mark.traces
def test_compiles(case: Case) -> None:
    x, *others = inputs_of(case, LAYOUTS["ragged"], 2)

    def total(x: Tensor) -> Tensor:
        outputs = memory_scan(case[0], LAYOUTS["ragged"], x, *others)
        return torch.stack([t.square().sum() for t in outputs]).sum()

    compiled = torch.compile(total, fullgraph=True, backend="eager")
    found = [torch.autograd.grad(run(x), x) for run in (compiled, total)]
    torch.testing.assert_close(*found)


def test_threads_of_ones_own() -> None:
    (form, _), layout = FORMS["lstm"], Layout.of_grid(40, 9, torch.device("cpu"))
    given = inputs_of(FORMS["lstm"], layout, 40)

    def run(seed: int) -> tuple[Tensor, ...]:
        x, *rest = (t.detach().requires_grad_() for t in given)
        outputs = memory_scan(form, layout, x * (1 + seed), *rest)
        return gradients(outputs, [x, *rest], [torch.ones_like(t) for t in outputs])

    assert_same_in_threads(run)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    case, layout = CASES["lstm, norm"], LAYOUTS["ragged"]
    inputs = [t.detach() for t in inputs_of(case, layout, 3, dtype)]
    found = memory_scan(case[0], layout, *inputs)
    single = memory_scan(case[0], layout, *(t.float() for t in inputs))
    for one, other in zip(found, single, strict=True):
        assert torch.equal(one, other.to(dtype))


@in_turn(CASES)
def test_functions_of_ones_own(case: Case, layout: Layout) -> None:
    """In place of the norm and of both activations; where the memory is linear, all tokens at
    once."""
    cell, _ = case
    inputs = inputs_of(case, layout)
    given: dict[str, Any] = {"norm": lambda c: c / (1 + c.square())}
    if cell.carried != "none":
        given["q"] = torch.sin
    expected = defined(cell, layout, *inputs, **given)
    torch.testing.assert_close(
        memory_scan(cell, layout, *inputs, **given), expected, rtol=1e-10, atol=1e-12
    )
