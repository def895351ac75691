"""Scans by their kernels, on CPU and in Triton, against their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.expansion import GREENS
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import SumTable, sum_max_scan
from pyg_kernels.ops.scan.memory import memory_scan
from pyg_kernels.ops.scan.walk import Form, extremes, linear_scan, walk_scan
from tests.ops.conftest import compiled_kernels
from tests.ops.scans import (
    ACTIVATIONS,
    CASES,
    CPU,
    LAYOUTS,
    MEMORIES,
    SOME,
    WALKS,
    Case,
    check,
    check_all,
    gradients,
    some,
)
from tests.promises import assert_torch_func

FORMS = list(LAYOUTS.values())
LONG = Layout.of_ptr(torch.tensor([0, 40, 41, 41, 70, 83]), 40, 83)
some_cases = pytest.mark.parametrize("case", SOME.values(), ids=SOME)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_definition(number: int) -> None:
    """All outputs and the gradients of every input, with two layouts per case."""
    case = list(CASES.values())[number]
    first, second = FORMS[number % 7 :: 7]
    check(case._replace(layout=first))
    check(case._replace(layout=second), output=number)


@some_cases
@pytest.mark.parametrize(("channels", "centers"), [(1, 1), (33, 30), (140, 9)])
def test_widths_and_long_texts(case: Case, channels: int, centers: int) -> None:
    case = case._replace(layout=LONG, channels=channels, centers=centers)
    check(case, 1e-9)
    check(case._replace(dtype=torch.float32), 1e-4)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("threads", [2, 3], indirect=True)
@some_cases
def test_texts_that_threads_share(case: Case, threads: int) -> None:
    """Several texts per thread, ragged or of one length; for a single text, blocks of channels."""
    ends = torch.arange(4 * threads + 1).cumsum(0)
    ragged, one = Layout.of_ptr(ends, 4 * threads, int(ends[-1])), Layout.of_grid(9, 1, CPU)
    for layout, channels in [(ragged, 5), (Layout.of_grid(5, 70, CPU), 7), (one, 201)]:
        check(case._replace(layout=layout, channels=channels))


@pytest.mark.parametrize("texts", [1, 3, 6, 17])
def test_products_of_wide_outputs(texts: int) -> None:
    """Remainders of rows and of columns, and more terms than are multiplied at once."""
    case = MEMORIES["static, fed back"]._replace(layout=Layout.of_grid(2, texts, CPU), channels=301)
    check(case)
    check(case._replace(dtype=torch.float32), 2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_of_what_statistics_take_away(dtype: torch.dtype) -> None:
    """A shift common to all texts of a step has gradient 0, even where the texts differ little."""
    torch.manual_seed(0)
    case = ACTIVATIONS["relu, norm"]._replace(layout=Layout.of_grid(1, 30, CPU), dtype=dtype)
    x, *others = case.tensors()
    x = (3 + 0.005 * x.detach()).requires_grad_()
    others[0].detach().zero_()
    (slope,) = gradients([case.run([x, *others])[0]], [x])
    assert slope.sum(0).abs().max() < 20 * torch.finfo(dtype).eps * slope.abs().max()


@some_cases
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_goes_through(case: Case, value: float) -> None:
    """A non-finite value stays in its own text, except where texts share statistics."""
    case = case._replace(layout=LAYOUTS["grid"])
    tensors = [None if t is None else t.detach() for t in case.tensors()]
    tensors[0][4, -1] = value  # token 1 of the second text of three
    found = case.run(tensors)
    torch.testing.assert_close(found, case.define(tensors), equal_nan=True)
    if not getattr(case.form, "normalize", False) or isinstance(case.form, Form):
        out = found[0].view(4, 3, -1)
        assert out[:, [0, 2]].isfinite().all() and out[0].isfinite().all()


@pytest.mark.parametrize("green", GREENS)
def test_autocast_changes_no_precision(green: str) -> None:
    """On every path the recurrent products are computed in the precision of the operands."""
    given = {"layout": LAYOUTS["grid"], "channels": 32, "centers": 9, "dtype": torch.float32}
    for case in (ACTIVATIONS[green], ACTIVATIONS[f"{green}, norm"], SOME["lstm, norm"]):
        case = case._replace(**given)
        tensors = case.tensors()
        outputs = case.run(tensors)
        expected = [*outputs, *gradients(outputs, tensors)]
        with torch.autocast("cpu", torch.bfloat16):
            outputs = case.run(tensors)
            found = [*outputs, *gradients(outputs, tensors)]
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        with torch.autocast("cpu", torch.bfloat16):  # by the definition, as for second derivatives
            out = case.run(tensors)[0]
            seed = torch.ones_like(out)
            again = torch.autograd.grad(out, some(tensors), seed, create_graph=True)
        again_plain = torch.autograd.grad(case.run(tensors)[0], some(tensors), seed)
        torch.testing.assert_close(again, again_plain, rtol=1e-4, atol=1e-4)


# What the functions around the ops add


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    case = MEMORIES["lstm, norm"]
    tensors = [t.detach().to(dtype) for t in some(case._replace(masked=False).tensors())]
    x, params, feed, h0, c0 = tensors
    given = (x, params, h0, c0[0], feed)
    found = memory_scan(case.form, case.layout, *given)
    single = memory_scan(case.form, case.layout, *(t.float() for t in given))
    for one, other in zip(found, single, strict=True):
        assert torch.equal(one, other.to(dtype))


def test_linear_scan() -> None:
    layout = LAYOUTS["ragged"]
    x, decay = torch.randn(11, 2).double(), torch.rand(11, 2).double()
    initial = torch.randn(4, 2).double()

    def scan(x: Tensor) -> Tensor:
        return linear_scan(decay, x, layout, initial, normalize=True)

    form = Form(1, normalize=True, gate="values", width=2)
    params = x.new_zeros(4, 2)
    expected = walk_scan(form, layout, torch.cat((decay, x), 1), params, initial[None], initial)[0]
    torch.testing.assert_close(scan(x), expected, rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradgradcheck(scan, x.requires_grad_(), fast_mode=True)
    assert_torch_func(lambda x: [scan(x)], x)


GRIDS = {name: layout for name, layout in LAYOUTS.items() if layout.full and layout.num_steps}


@pytest.mark.parametrize(("width", "dilation", "further"), [(1, 1, 2), (3, 1, 0), (4, 2, 1)])
@pytest.mark.parametrize("layout", GRIDS.values(), ids=GRIDS)
def test_convolution(layout: Layout, width: int, dilation: int, further: int) -> None:
    """Convolutions of grids against windows of tokens, which the tests of the machines check."""
    torch.manual_seed(0)
    rows = torch.randn(layout.num_rows, 2, dtype=torch.float64)
    history = torch.randn((width - 1) * dilation + further, layout.num_texts, 2).double()
    weight = torch.randn(3, 2, width, dtype=torch.float64)
    found = layout.convolve(rows, history, weight, dilation)
    windows = layout.windows(rows, history, width, dilation)
    torch.testing.assert_close(found, windows @ weight.transpose(1, 2).flatten(1).t())


def test_operands_of_other_shapes() -> None:
    x, initial, one = torch.randn(6, 5), torch.zeros(2, 5), torch.ones(1)
    for decay, rows, before in [
        *((one, x, torch.zeros(shape)) for shape in [(2, 8), (1, 5)]),
        *((torch.ones(shape), x, initial) for shape in [(3,), (6, 3), (5, 5)]),
        (one, x[:5], initial),
    ]:
        with pytest.raises(ValueError, match="expected"):
            linear_scan(decay, rows, Layout.of_grid(3, 2, CPU), before)
    for layout in [
        *(Layout.of_ptr(torch.tensor(ptr), 6, 6) for ptr in ([0, 3, 9], [0, 3, 4])),
        *(Layout.of_padded_grid(torch.tensor(length), 3) for length in ([4, 1], [1, 4])),
    ]:
        with pytest.raises(ValueError, match="do not fit 6 rows"):
            linear_scan(one, x, layout, initial)


# Maxima over n-grams where several n-grams are equally large


def largest_products(x: Tensor, decay: Tensor, readout: str) -> Tensor:
    """The largest products over one text's 2-grams, computed by the walk's scan as in the layer."""
    layout, zeros = Layout.of_grid(len(x), 1, CPU), x.new_zeros(2, 1, 1)
    c0, before = extremes(layout, zeros, zeros, torch.zeros_like(layout.length), x.dtype)
    params = torch.cat((decay.view(1, 1), x.new_zeros(3, 1)))
    form = Form(2, readout=readout, pooling="max")
    return walk_scan(form, layout, x, params, c0, c0[0], before)[0]


def largest_sums(x: Tensor, decay: Tensor, readout: str) -> Tensor:
    table = SumTable(x.new_zeros(2, 1, 0, 1), torch.zeros(1, dtype=torch.long))
    return sum_max_scan(x, decay, Layout.of_grid(len(x), 1, CPU), table, readout)[0]


MAXIMA: dict[str, Any] = {"mul": largest_products, "add": largest_sums}


@pytest.mark.parametrize("path", ["compiled", "definition"], indirect=True)
@pytest.mark.parametrize(("mapping", "adjacent", "slope"), [("mul", -1.0, 6.0), ("add", -4.0, 5.0)])
def test_maxima_at_decay_zero_and_ties(
    mapping: str, adjacent: float, slope: float, path: str
) -> None:
    """At decay 0 a gapped n-gram is worth 0; of equal n-grams, the one completed first wins."""
    decay = torch.zeros(1).double().requires_grad_()
    x = torch.tensor([[3.0, 0.0], [adjacent, 0.0], [0.0, 2.0]]).double().requires_grad_()
    z = MAXIMA[mapping](x, decay, "z")
    assert z[2].item() == 0.0
    assert torch.autograd.grad(z[2, 0], decay)[0].item() == slope
    ones = torch.ones(4, 2).double().requires_grad_()
    for readout, picked in (("c", (0, 1)), ("z", (0, 3))):
        out = MAXIMA[mapping](ones, torch.ones(1).double(), readout)
        (found,) = torch.autograd.grad(out[3, 0], ones)
        assert found.nonzero().tolist() == sorted([token, j] for j, token in enumerate(picked))


def test_state_of_other_shapes() -> None:
    x = torch.zeros(3, 4, dtype=torch.float64)
    layout = Layout.of_ptr(torch.tensor([0, 2, 3]), 2, 3)
    table = SumTable(x.new_zeros(2, 2, 2, 2), torch.tensor([2, 1]))
    short, far = (table._replace(seen=torch.tensor(of)) for of in ([2], [5, 1]))
    for message, options in (
        (r"x has shape \(3, 3\): expected \(3, 4\)", {"x": x[:, :3]}),
        (r"state\.best has shape .*: expected \(2, 1", {"layout": Layout.of_grid(len(x), 1, CPU)}),
        (r"state\.seen has shape \(1,\)", {"state": short}),
        (r"state\.seen goes from 1 to 5: expected 0 to 2", {"state": far}),
    ):
        given = {"x": x, "decay": 0.5, "layout": layout, "state": table}
        with pytest.raises(ValueError, match=message):
            sum_max_scan(**{**given, **options})


# In Triton's interpreter, and its compiler

RAGGED = Layout.of_ptr(torch.tensor([0, 1, 4, 4, 6]), 3, 6)
PADDED = Layout.of_padded_grid(torch.tensor([1, 3, 0, 2]), 3)  # lengths in any order


def in_turn(*cases: Case) -> list[Case]:
    """Gives each case in turn the next of some layouts of few steps."""
    forms = [RAGGED, PADDED, Layout.of_padded_grid(PADDED.length, 3, False)]
    forms += [Layout.of_grid(2, 2, CPU, first) for first in (True, False)]
    layouts = itertools.cycle([*forms, *(layout.reversed() for layout in forms)])
    return [case._replace(layout=next(layouts)) for case in cases]


INTERPRETED = {
    "walks": in_turn(*WALKS.values(), SOME["largest products"]),
    "memories": in_turn(*list(MEMORIES.values())[::2], *list(MEMORIES.values())[1::4]),
    "activations": in_turn(*list(ACTIVATIONS.values())[::5], *list(SOME.values())[-3:]),
    "steps": in_turn(WALKS["walk 5"], SOME["lstm, norm"], MEMORIES["static, fed back"]),
    "several texts": [  # more texts than a program takes, and exactly as many
        case._replace(layout=Layout.of_grid(2, texts, CPU), channels=20)
        for case, texts in [(SOME["walk"], 21), (MEMORIES["lstm"], 16)]
    ],
    "sizes": [  # several blocks of channels, or one; or nothing to read
        case._replace(layout=Layout.of_grid(*sizes, CPU), channels=channels, dtype=torch.float32)
        for *sizes, channels in [(0, 2, 5), (1, 1, 1), (3, 0, 5), (2, 1, 70)]
        for case in (SOME["walk"], SOME["selected walk"], SOME["lstm, norm"])
    ],
}


def interpreted(cases: Sequence[Case], by_steps: bool) -> None:
    from pyg_kernels.ops.scan import cuda

    for case in cases:
        assert case.scan.module_for(torch.zeros(1)).endswith("cuda")
    with pytest.MonkeyPatch.context() as patch:
        if by_steps:  # as happens where maps are large
            patch.setattr(cuda, "_shared_bytes", lambda *_: 0)
        check_all(cases)


@pytest.mark.parametrize("kind", INTERPRETED)
def test_interpreted(kind: str, interpreter: ProcessPoolExecutor) -> None:
    """With feedback, a program computes the products itself, or takes steps between them."""
    interpreter.submit(interpreted, INTERPRETED[kind], kind == "steps").result()


def compiled_under_autocast() -> None:
    """A compiled op under autocast gives exactly the numbers of the op called directly."""
    for name in ("walk", "abs, norm, line"):
        case = SOME[name]._replace(layout=RAGGED, dtype=torch.float32)
        tensors = case.tensors()
        outputs = case.run(tensors)
        with torch.autocast("cpu", torch.bfloat16):
            found = torch.compile(case.run, backend="aot_eager")(tensors)
        torch.testing.assert_close(found, outputs, rtol=0, atol=0)
        slopes = [gradients(outs, tensors) for outs in (found, outputs)]
        torch.testing.assert_close(*slopes, rtol=0, atol=0)


def test_compiled_under_autocast(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(compiled_under_autocast).result()


def nan_and_padding(fed: int) -> None:
    """A text's NaN stays in that text and padding's NaN goes nowhere, also with a fixed decay."""
    case = SOME["walk"]._replace(fed=fed, layout=PADDED, channels=2)
    tensors = case.tensors()
    text, step = PADDED.places()
    padding = step >= PADDED.length[text]
    x, initial = tensors[0], tensors[6]
    assert x is not None and initial is not None
    with torch.no_grad():
        x[padding] = torch.nan
        x[1] = torch.nan  # the first token of the second text
    h, c, _ = case.run(tensors)
    linear = linear_scan(torch.full((2,), 0.5), x[:, :2], PADDED, initial)
    for rows in (linear, h, *c[:, : PADDED.num_rows]):
        assert rows[(text == 1) & ~padding].isnan().all()
        assert not rows[padding].any() and rows[text != 1].isfinite().all()
    for out in (linear, h):
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert not grad[padding].any() and grad[text != 1].isfinite().all()


@pytest.mark.parametrize("fed", [0, 2])
def test_nan_and_padding(fed: int, interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(nan_and_padding, fed).result()


def compiled() -> None:
    """Compiles scans; recurrences load ahead of the loop so that no step waits for memory."""
    made = compiled_kernels()
    recurrences = [SOME["walk"], SOME["selected walk"], SOME["lstm, norm"]]
    for case, dtype in zip(
        [*recurrences, *list(SOME.values())[-3:]],
        (torch.float32, torch.float64, torch.float32) * 2,
        strict=True,
    ):
        case = case._replace(fed=0, masked=False, dtype=dtype, channels=48, centers=20)
        case = case._replace(layout=Layout.of_grid(1, 70, CPU))
        outs = case.run(case.tensors())
        torch.cat([out.flatten() for out in outs]).sum().backward()
    assert len(made) == 6 + 9 and not any("atom." in kernel.asm["ptx"] for kernel in made)
    assert all("cp.async" in kernel.asm["ptx"] for kernel in made[:6])


def compiled_with_products() -> None:
    """Products use tensor cores, and no more memory than an H100's program can hold."""
    made = compiled_kernels()
    for case, fed, channels in [(MEMORIES["lstm"], 4, 64), (SOME["activated memory"], 1, 128)]:
        given = {"layout": Layout.of_grid(1, 17, CPU), "channels": channels}
        outs = case._replace(fed=fed, masked=False, dtype=torch.float32, **given)
        torch.cat([out.flatten() for out in outs.run(outs.tensors())]).sum().backward()
    assert len(made) == 4 and all("mma" in kernel.asm["ptx"] for kernel in made)
    assert all(kernel.metadata.shared <= 227 * 2**10 for kernel in made)


@pytest.mark.parametrize("kernels", [compiled, compiled_with_products])
def test_compiled(kernels: Callable[[], None], compiler: ProcessPoolExecutor) -> None:
    compiler.submit(kernels).result()
