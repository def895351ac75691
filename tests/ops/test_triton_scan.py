"""The walk's scan in Triton against its definition: in Triton's interpreter, and its compiler."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan import walk
from pyg_kernels.ops.scan.walk import Form, definition, linear_scan, walk_scan
from tests.covering import covering

Cases = list[tuple[Form, Layout, dict[str, Any]]]

LENGTH = torch.tensor([2, 4, 0, 3])  # in any order
RAGGED = Layout.of_ptr(torch.tensor([0, 2, 6, 6, 9]), 4, 9)
GATES = (("none", 0), ("values", 1), ("values", 5), ("logits", 1), ("logits", 5))


def layouts() -> list[Layout]:
    forms = [RAGGED, *(Layout.of_padded_grid(LENGTH, 4, first) for first in (True, False))]
    forms += [Layout.of_grid(3, 2, LENGTH.device, first) for first in (True, False)]
    return [*forms, *(layout.reversed() for layout in forms)]


def inputs_of(
    form: Form, layout: Layout, channels: int = 5, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """x, params, c0, h0 and what a highway carries."""
    torch.manual_seed(0)
    columns = form.width + (form.output_gate + form.order + form.highway) * channels
    rows, texts = layout.num_rows, layout.num_texts
    carried = rows if form.highway else 0
    sizes = [(rows, columns), (4, channels), (form.order, texts, channels), (texts, channels)]
    every = (*sizes, (carried, channels))
    return [torch.randn(size, dtype=dtype, requires_grad=True) for size in every]


def run(path: Any, form: Form, layout: Layout, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    x, params, c0, h0, carried = tensors
    y = carried if form.highway else None
    if path is walk_scan:
        return walk_scan(form, layout, x, params, c0, h0, None, y)
    return definition.walk_scan(form, layout, x, params, None, y, None, None, h0, c0)


def check(cases: Cases) -> None:
    """Outputs and every gradient, from all outputs and from one of them alone."""
    grad = functools.partial(torch.autograd.grad, retain_graph=True, materialize_grads=True)
    for form, layout, options in cases:
        tensors = inputs_of(form, layout, **options)
        near: Any = {"rtol": 1e-10, "atol": 1e-10} if tensors[0].dtype == torch.float64 else {}
        found, expected = (run(path, form, layout, tensors) for path in (walk_scan, definition))
        torch.testing.assert_close(found, expected, **near)
        grads = [torch.randn_like(out) for out in expected]
        for used in (slice(3), slice(form.order % 3, form.order % 3 + 1)):
            results = [grad(outs[used], tensors, grads[used]) for outs in (found, expected)]
            torch.testing.assert_close(*results, **near)


FORMS = covering(
    2,
    order=[1, 2, 3],
    combine=["mul", "add"],
    normalize=[False, True],
    gate=GATES,
    readout=["c", "z", "sum"],
)


def test_forms_and_layouts(interpreter: ProcessPoolExecutor) -> None:
    """Any two options, with a layout each; some with an activation, an output gate, a highway."""
    forms = [Form(4, "mul", True, "logits", 5)]
    for number, row in enumerate(FORMS):
        form = Form(row["order"], row["combine"], row["normalize"], *row["gate"], row["readout"])
        more = {"act": "tanh", "output_gate": True, "highway": True} if number % 3 == 0 else {}
        forms.append(form._replace(**{**more, **({"act": "relu"} if number % 3 == 1 else {})}))
    pairs = zip(forms, itertools.cycle(layouts()), strict=False)
    interpreter.submit(check, [(form, layout, {}) for form, layout in pairs]).result()


def test_sizes_and_single_precision(interpreter: ProcessPoolExecutor) -> None:
    cases: Cases = []
    for steps, texts, channels in [(0, 2, 5), (1, 1, 1), (3, 0, 5), (2, 1, 70), (9, 2, 1)]:
        layout = Layout.of_grid(steps, texts, LENGTH.device)
        options = {"channels": channels, "dtype": torch.float32}
        cases += [(Form(2, gate="logits", width=w), layout, options) for w in {1, channels}]
    interpreter.submit(check, cases).result()


def second_derivatives_and_nan() -> None:
    """NaN stays in its text, and padding's goes nowhere; so with a fixed decay."""
    layout, form = layouts()[1], Form(2, "mul", True, "logits", 2, "sum", "tanh", True)
    tensors, results = inputs_of(form, layout, channels=2), []
    for path in (walk_scan, definition):
        total = torch.stack([out.square().sum() for out in run(path, form, layout, tensors)]).sum()
        grads = torch.autograd.grad(total, tensors[:3], create_graph=True)
        total = torch.stack([grad.square().sum() for grad in grads]).sum()
        results.append((*grads, *torch.autograd.grad(total, tensors[:3])))
    torch.testing.assert_close(*results)
    text, step = layout.places()
    padding = step >= LENGTH[text]
    with torch.no_grad():
        tensors[0][padding] = torch.nan
        tensors[0][1] = torch.nan  # the first token of the second text
    h, c, _ = run(walk_scan, form, layout, tensors)
    decay, x = torch.full((2,), 0.5), tensors[0][:, :2]
    linear = linear_scan(decay, x, layout, tensors[3])
    for rows in (linear, h, *c[:, :16]):
        assert rows[(text == 1) & ~padding].isnan().all()
        assert not rows[padding].any() and rows[text != 1].isfinite().all()
    for out in (linear, h):
        (grad,) = torch.autograd.grad(out.sum(), tensors[0])
        assert not grad[padding].any() and grad[text != 1].isfinite().all()


def test_second_derivatives_and_nan(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(second_derivatives_and_nan).result()


def compiled() -> None:
    """And loads ahead of the loop, without which a step would wait for memory."""
    import triton

    made = []

    def warm_up(kernel: Any, *args: Any, **given: Any) -> None:
        made.append(kernel.warmup(*args, **given).asm["ptx"])

    triton.JITFunction.__getitem__ = lambda self, grid: functools.partial(warm_up, self, grid=grid)
    single, double = Form(1, gate="logits", width=64), Form(3, "add", True, "values", 1, "sum")
    for form, dtype in ((single, torch.float32), (double, torch.float64)):
        outs = run(walk_scan, form, RAGGED, inputs_of(form, RAGGED, 64, dtype))
        torch.cat([out.flatten() for out in outs]).sum().backward()
    assert len(made) == 4
    assert all("cp.async" in ptx and "atom." not in ptx for ptx in made)


def test_compiles_for_hopper(compiler: ProcessPoolExecutor) -> None:
    compiler.submit(compiled).result()


def test_where_it_is_in_use() -> None:
    assert walk.path_in_use(torch.device("cpu")) in ("numba", "definition")
    expected = "triton" if walk._HAS_TRITON else "definition"
    assert walk.path_in_use(torch.device("cuda")) == expected
