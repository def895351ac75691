"""Recurrent networks with learned activations compiled against their definition."""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.expansion import GREENS
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan import activation
from pyg_kernels.ops.scan.activation import Form, activation_scan
from tests.ops.conftest import assert_same_in_threads, compiled_kernels
from tests.ops.layouts import LAYOUTS, each_on, in_turn


class Case(NamedTuple):
    form: Form
    line: bool
    shared: bool


CASES = {
    f"{green}{', norm' * norm}{', line' * line}{', shared' * shared}": Case(
        Form(green, 0.5 if green == "gaussian" else None, norm), line, shared
    )
    for green, norm, line, shared in itertools.product(GREENS, *[(False, True)] * 3)
}
SOME = {name: CASES[name] for name in ("relu, line", "abs, norm, line", "gaussian, norm, shared")}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
some_cases = pytest.mark.parametrize("case", SOME.values(), ids=SOME)


def inputs_of(
    case: Case, layout: Layout, units: int = 3, d: int = 5, dtype: torch.dtype = torch.float64
) -> list[Tensor | None]:
    """The tensors before the layout's."""
    torch.manual_seed(0)
    rows, texts = 1 if case.shared else units, layout.num_texts
    shapes = [(layout.num_rows, units), (texts, units), (units, units), (rows, d), (rows, d)]
    scales = [1, 1, 0.5 / units**0.5, 1, 0.3 / d**0.5]
    shapes += [(rows,)] * 2 + [(units,)] * 2
    scales += [0.3] * 4
    drawn: list[Tensor | None] = [
        (s * torch.randn(shape, dtype=torch.float64)).to(dtype).requires_grad_()
        for s, shape in zip(scales, shapes, strict=True)
    ]
    if not case.line:
        drawn[5:7] = None, None
    if not case.form.normalize:
        drawn[7:] = None, None
    return drawn


def run(
    case: Case,
    layout: Layout,
    tensors: list[Any],
    seed: Tensor | None = None,
    scan: Any = activation_scan,
) -> list[Tensor]:
    """Outputs, pre-activations and gradients."""
    out, before = scan(case.form, layout, *tensors)
    return [out, before, *gradients(out, tensors, seed)]


defined = partial(run, scan=activation.define)


def gradients(out: Tensor, tensors: list[Tensor | None], seed: Tensor | None) -> list[Tensor]:
    leaves = [t for t in tensors if t is not None]
    if seed is None or not out.requires_grad:
        return []
    return list(torch.autograd.grad(out, leaves, seed, materialize_grads=True, allow_unused=True))


def assert_same(case: Case, layout: Layout, tensors: list[Any], tolerance: float) -> None:
    seed = torch.randn_like(tensors[0]) if layout.num_rows else None
    pairs = zip(run(case, layout, tensors, seed), defined(case, layout, tensors, seed), strict=True)
    for one, other in pairs:
        bound = tolerance * max(1.0, other.abs().max().item() if other.numel() else 1.0)
        torch.testing.assert_close(one, other, rtol=tolerance, atol=bound)


@in_turn(CASES)
def test_definition(case: Case, layout: Layout) -> None:
    """Outputs, pre-activations and the gradients of every input."""
    assert_same(case, layout, inputs_of(case, layout), 1e-10)


@some_cases
@pytest.mark.parametrize(("units", "d"), [(1, 1), (33, 30), (140, 9)])
def test_widths_and_long_texts(case: Case, units: int, d: int) -> None:
    layout = Layout.of_ptr(torch.tensor([0, 40, 41, 41, 70, 83]), 40, 83)
    assert_same(case, layout, inputs_of(case, layout, units, d), 1e-9)


@pytest.mark.usefixtures("threads")
@every_case
def test_single_precision(case: Case) -> None:
    """Of texts that threads share."""
    layout = Layout.of_grid(3, 300, torch.device("cpu"))
    tensors = inputs_of(case, layout, 40, 20)
    found = run(case, layout, [None if t is None else t.float() for t in tensors])
    for one, other in zip(found, defined(case, layout, tensors), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", [SOME["relu, line"], CASES["gaussian"]], ids=["relu", "gaussian"])
@pytest.mark.parametrize("threads", [2, 3], indirect=True)
def test_texts_that_fill_each_thread(case: Case, threads: int) -> None:
    """Of ragged texts, four a thread: nothing is added to them."""
    ends = torch.arange(4 * threads + 1).cumsum(0)
    layout = Layout.of_ptr(ends, 4 * threads, int(ends[-1]))
    assert_same(case, layout, inputs_of(case, layout), 1e-10)


@some_cases
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_goes_through(case: Case, value: float) -> None:
    layout = LAYOUTS["grid"]
    tensors: list[Any] = [None if t is None else t.detach() for t in inputs_of(case, layout)]
    tensors[0][4, -1] = value
    found, expected = run(case, layout, tensors), defined(case, layout, tensors)
    torch.testing.assert_close(found, expected, equal_nan=True)


@each_on(SOME, "padded, texts first, backwards", "ragged", "grid")
def test_as_pytorch_knows_it(case: Case, layout: Layout) -> None:
    tensors = inputs_of(case, layout, 2)
    leaves = [t for t in tensors if t is not None]

    def outputs(*given: Tensor) -> Tensor:
        rest = iter(given)
        every = [None if t is None else next(rest) for t in tensors]
        return activation_scan(case.form, layout, *every)[0]

    assert torch.autograd.gradgradcheck(outputs, leaves, fast_mode=True)
    arguments = (*tensors, layout.start, layout.length, *case.form, *layout.settings)
    torch.library.opcheck(activation._SCAN.op, arguments)
    several = torch.stack([leaves[0], 2 * leaves[0]]).detach()
    fixed = [t.detach() for t in leaves[1:]]
    found = torch.func.vmap(lambda x: outputs(x, *fixed))(several)
    torch.testing.assert_close(found, torch.stack([outputs(x, *fixed) for x in several]))


@some_cases
def test_two_threads_at_once(case: Case) -> None:
    layout = Layout.of_grid(6, 40, torch.device("cpu"))
    x, *others = inputs_of(case, layout, 130)
    assert_same_in_threads(lambda scale: run(case, layout, [scale * x.detach(), *others]))


@pytest.mark.parametrize("green", GREENS)
def test_autocast_changes_no_precision(green: str) -> None:
    """On every path the recurrent products are those of the operands' precision."""
    layout = LAYOUTS["grid"]
    for case in (CASES[green], CASES[f"{green}, norm"]):
        tensors = inputs_of(case, layout, 32, 9, torch.float32)
        expected = run(case, layout, tensors, torch.ones_like(tensors[0]))
        with torch.autocast("cpu", torch.bfloat16):
            found = run(case, layout, tensors, torch.ones_like(tensors[0]))
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        with torch.autocast("cpu", torch.bfloat16):  # by the definition, as second derivatives
            out, _ = activation_scan(case.form, layout, *tensors)
            leaves = [t for t in tensors if t is not None]
            again = torch.autograd.grad(out, leaves, torch.ones_like(out), create_graph=True)
        torch.testing.assert_close(again, expected[2:], rtol=1e-4, atol=1e-4)


def interpreted() -> None:
    """Runs Triton's kernels on CPU, in a process whose Triton interprets them."""
    assert activation._SCAN._kernels([torch.zeros(1)]).__name__.endswith("activation_cuda")
    cases = [*CASES.values()]
    for case, name in zip([*cases[::5], *SOME.values()], itertools.cycle(LAYOUTS), strict=False):
        assert_same(case, LAYOUTS[name], inputs_of(case, LAYOUTS[name], d=2), 1e-10)
    layout = Layout.of_ptr(torch.tensor([0, 2, 3, 3]), 2, 3)
    assert_same(SOME["relu, line"], layout, inputs_of(SOME["relu, line"], layout, 70, 1), 1e-10)
    case = SOME["abs, norm, line"]
    tensors = inputs_of(case, layout)
    scan = torch.compile(activation_scan, backend="aot_eager")
    outs = [each(case.form, layout, *tensors)[0] for each in (scan, activation_scan)]
    torch.testing.assert_close(*(gradients(out, tensors, out) for out in outs))


def compiled() -> None:
    """Compiles Triton's kernels for a GPU that need not be there."""
    made = compiled_kernels()
    layout = Layout.of_grid(1, 70, torch.device("cpu"))
    for case, dtype in zip(
        SOME.values(), (torch.float32, torch.float64, torch.float32), strict=True
    ):
        tensors = inputs_of(case, layout, 40, 20, dtype)
        activation_scan(case.form, layout, *tensors)[0].sum().backward()  # type: ignore[arg-type]
    assert len(made) == 9 and not any("atom." in ptx for ptx in made)


def test_triton_interpreted(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(interpreted).result()


def test_triton_compiled(compiler: ProcessPoolExecutor) -> None:
    compiler.submit(compiled).result()
