"""Scans by their kernels, on CPU and in Triton, against their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import operator
from pyg_kernels.ops.expansion import GREENS
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.memory import memory_scan
from pyg_kernels.ops.scan.walk import Form, linear_scan, walk_scan
from tests.nn.activation_equations import close
from tests.ops.conftest import assert_same_in_threads, compiled_kernels
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
def test_two_threads_at_once(case: Case) -> None:
    case = case._replace(layout=Layout.of_grid(20, 40, CPU), channels=70)
    x, *others = case.tensors()

    def run(k: int) -> list[Tensor]:
        outputs = case.run([(1 + k) * x.detach(), *others])
        return [*outputs, *gradients(outputs, others)]

    assert_same_in_threads(run)


@some_cases
def test_memory_of_any_strides(case: Case) -> None:
    x, *others = case.tensors()
    strided = x.detach().t().contiguous().t()
    close(case.run([strided, *others]), case.run([x, *others]), 1e-12)


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


@pytest.mark.parametrize("number", range(len(SOME)), ids=list(SOME))
def test_as_pytorch_knows_it(number: int) -> None:
    """Second derivatives, torch.func's transforms, and the checks of torch.library."""
    case = list(SOME.values())[number]
    case = case._replace(layout=FORMS[3 * number % 12], channels=2, centers=3)
    tensors = case.tensors()

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        rest = iter(given)
        outputs = case.run([t if t is None or not t.requires_grad else next(rest) for t in tensors])
        return tuple(out for out in outputs if out.requires_grad) or outputs[:1]

    leaves = some(tensors)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)
    torch.library.opcheck(case.scan.op, (*tensors, *case.settings))
    assert_torch_func(lambda *given: run(*given)[:1], *leaves)
    rest = [None if t is None else t.detach() for t in tensors[1:]]
    both = torch.stack([leaves[0], 2 * leaves[0]]).detach()
    found = torch.func.vmap(lambda x: case.scan.op(x, *rest, *case.settings)[0])(both)
    close(found, torch.stack([case.run([x, *rest])[0] for x in both]))


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


def test_linear_scan_and_the_path_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    torch.testing.assert_close(scan(x), expected, rtol=1e-10, atol=1e-10)


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
