"""Scans in Triton against their definition: in Triton's interpreter, and its compiler."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan import memory, walk
from pyg_kernels.ops.scan.recurrence import Recurrence
from pyg_kernels.ops.scan.walk import linear_scan
from tests.covering import covering
from tests.ops.conftest import compiled_kernels

CHANNELS = 5
LENGTH = torch.tensor([1, 3, 0, 2])  # in any order
RAGGED = Layout.of_ptr(torch.tensor([0, 1, 4, 4, 6]), 3, 6)
GATES = (("none", 0), ("values", 1), ("values", 2), ("logits", 1), ("logits", 2))


class Case(NamedTuple):
    form: Any
    layout: Layout
    select: bool = False
    one_beside: bool = False  # a number that a highway carries for all channels
    channels: int = CHANNELS
    dtype: torch.dtype = torch.float64
    fed: int = 0  # to how many parts of the inputs products of the output before are added
    masked: bool = False  # whether these outputs have factors

    def tensors(self) -> list[Tensor | None]:
        """As an op takes them."""
        torch.manual_seed(0)
        form, channels = self.form, self.channels
        rows, texts = self.layout.num_rows, self.layout.num_texts
        walks = isinstance(form, walk.Form)
        order, params = (form.order, 4) if walks else (1, len(form.gates) + 4)
        columns = [channels if wide else 1 for wide in _scan(form).columns(form)]
        sizes = {
            "x": (rows, sum(columns)),
            "params": (params, channels),
            "weight": (rows, 1) if self.select else None,
            "beside": (rows, 1 if self.one_beside else channels),
            "feed": (sum(columns[: self.fed]), channels) if self.fed else None,
            "mask": (texts, channels) if self.masked else None,
            "h0": (texts, channels),
            "c0": (order, texts, channels),
        }
        if not (walks and form.highway):
            sizes["beside"] = None
        drawn = (size and torch.randn(size, dtype=self.dtype) for size in sizes.values())
        return [None if t is None else t.requires_grad_() for t in drawn]


def _scan(form: Any) -> Recurrence:
    return (walk if isinstance(form, walk.Form) else memory)._SCAN


def layouts() -> list[Layout]:
    forms = [RAGGED, *(Layout.of_padded_grid(LENGTH, 3, first) for first in (True, False))]
    forms += [Layout.of_grid(2, 2, LENGTH.device, first) for first in (True, False)]
    return [*forms, *(layout.reversed() for layout in forms)]


def run(case: Case, tensors: list[Any], kernels: bool) -> tuple[Tensor, ...]:
    scan = _scan(case.form)
    if not kernels:
        return scan.define(case.form, case.layout, *tensors)
    from pyg_kernels.ops.scan import cuda

    assert scan._kernels(tensors).make is cuda.Kernel
    x, params, weight, beside, feed, mask, h0, c0 = tensors
    return scan.scan(case.form, case.layout, x, params, h0, c0, weight, beside, feed, mask)


def check(cases: list[Case]) -> None:
    """Outputs and every gradient, from all outputs or, with every other case, one of them alone."""
    grad = functools.partial(torch.autograd.grad, retain_graph=True, materialize_grads=True)
    for number, case in enumerate(cases):
        tensors = case.tensors()
        leaves = [t for t in tensors if t is not None]
        near: Any = {"rtol": 1e-10, "atol": 1e-10} if case.dtype == torch.float64 else {}
        found, expected = (run(case, tensors, kernels) for kernels in (True, False))
        torch.testing.assert_close(found, expected, **near)
        grads = [torch.randn_like(out) for out in expected]
        used = slice(number % 3, number % 3 + 1) if number % 2 else slice(3)
        if not case.layout.num_steps:
            used = slice(1, 3)  # there are no outputs
        results = [grad(outs[used], leaves, grads[used]) for outs in (found, expected)]
        torch.testing.assert_close(*results, **near)


WALKS = covering(
    2,
    order=[1, 2, 3],
    combine=["mul", "add"],
    normalize=[False, True],
    gate=GATES,
    readout=["c", "z", "sum"],
    act=["none", "tanh", "relu"],
    output_gate=[False, True],
    highway=[False, True],
    select=[None, True, False],
)


def test_walks(interpreter: ProcessPoolExecutor) -> None:
    """Any two options, with a layout each."""
    cases = []
    for number, (row, layout) in enumerate(zip(WALKS, itertools.cycle(layouts()), strict=False)):
        (gate, width), hold = row.pop("gate"), row.pop("select")
        form = walk.Form(gate=gate, width=width, hold=hold is not False, **row)
        cases.append(Case(form, layout, hold is not None, number % 3 == 0))
    interpreter.submit(check, cases).result()


MEMORIES = [
    memory.Form(True, True, True, candidate="tanh", out="tanh", norm=True),
    memory.Form(False, True, True),
    memory.Form(True, False, True, coupled=True, out="relu"),
    memory.Form(out="tanh", norm=True),
    memory.Form(True, memory=False, out="tanh"),
    memory.Form(True, carried="relu", out="sigmoid"),
    memory.Form(True, True, carried="tanh", norm=True),
    memory.Form(carried="sigmoid"),
]


def test_memory_cells(interpreter: ProcessPoolExecutor) -> None:
    pairs = zip(MEMORIES, layouts(), strict=False)
    interpreter.submit(check, [Case(form, layout) for form, layout in pairs]).result()


FED = [
    Case(form, layout, fed=1 + number % 2, masked=number % 3 == 0)
    for number, (form, layout) in enumerate(
        zip(
            [
                walk.Form(1, gate="logits", width=2),
                walk.Form(2, "mul", True, "logits", 1, "sum", "tanh", True),
                walk.Form(3, "add", gate="logits", width=2, highway=True),
                *MEMORIES,
            ],
            itertools.cycle(layouts()),
            strict=False,
        )
    )
]


def test_products_of_the_outputs_before(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(check, [*FED, *(case._replace(layout=RAGGED) for case in FED[:4])]).result()


def compiled_under_autocast() -> None:
    """Compiled, an op is as exact as it is alone."""
    case = Case(FED[0].form, RAGGED, dtype=torch.float32, fed=1)
    tensors = case.tensors()
    expected = run(case, tensors, True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.compile(run, backend="eager")(case, tensors, True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_compiled_under_autocast(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(compiled_under_autocast).result()


def test_sizes_and_single_precision(interpreter: ProcessPoolExecutor) -> None:
    """Several blocks of channels, or one; nothing to read."""
    forms = [walk.Form(2, gate="logits", width=width) for width in (1, 2)] + MEMORIES[:1]
    cases = []
    for steps, texts, channels in [(0, 2, 5), (1, 1, 1), (3, 0, 5), (2, 1, 70)]:
        layout, single = Layout.of_grid(steps, texts, LENGTH.device), torch.float32
        cases += [Case(form, layout, channels=channels, dtype=single) for form in forms]
    interpreter.submit(check, cases).result()


def second_derivatives_and_nan() -> None:
    """NaN stays in its text, and padding's goes nowhere; so with a fixed decay."""
    layout = layouts()[1]
    case = Case(walk.Form(2, "mul", True, "logits", 2, "sum", "tanh", True), layout, channels=2)
    tensors, results = case.tensors(), []
    leaves = [t for t in tensors if t is not None]
    for kernels in (True, False):
        outs = run(case, tensors, kernels)
        total = torch.stack([out.square().sum() for out in outs]).sum()
        grads = torch.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)
        total = torch.stack([grad.square().sum() for grad in grads]).sum()
        results.append((*grads, *torch.autograd.grad(total, leaves, materialize_grads=True)))
    torch.testing.assert_close(*results)
    text, step = layout.places()
    padding = step >= LENGTH[text]
    x, initial = leaves[0], leaves[2]
    with torch.no_grad():
        x[padding] = torch.nan
        x[1] = torch.nan  # the first token of the second text
    h, c, _ = run(case, tensors, True)
    linear = linear_scan(torch.full((2,), 0.5), x[:, :2], layout, initial)
    for rows in (linear, h, *c[:, : layout.num_rows]):
        assert rows[(text == 1) & ~padding].isnan().all()
        assert not rows[padding].any() and rows[text != 1].isfinite().all()
    for out in (linear, h):
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert not grad[padding].any() and grad[text != 1].isfinite().all()


def test_second_derivatives_and_nan(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(second_derivatives_and_nan).result()


def compiled() -> None:
    """And loads ahead of the loop, without which a step would wait for memory."""
    made = compiled_kernels()
    selected = walk.Form(2, "add", True, "values", 1, "sum", "relu")
    for case in (
        Case(walk.Form(1, gate="logits", width=2), RAGGED, channels=64, dtype=torch.float32),
        Case(selected, RAGGED, True, channels=64),
        Case(MEMORIES[0], RAGGED, channels=48, dtype=torch.float32),
    ):
        outs = run(case, case.tensors(), True)
        torch.cat([out.flatten() for out in outs]).sum().backward()
    assert len(made) == 6
    assert all("cp.async" in ptx and "atom." not in ptx for ptx in made)


def test_compiles_for_hopper(compiler: ProcessPoolExecutor) -> None:
    compiler.submit(compiled).result()
