"""The Triton scan against the definition, in Triton's interpreter, and through its compiler.

Whether kernels are interpreted is settled when Triton is imported, so every case runs in a process
started for that: the module of a test is imported there and its case handed over.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.linear_scan import triton as triton_scan
from pyg_kernels.ops.packing import Packing

TRITON = importlib.util.find_spec("triton")
needs_triton = pytest.mark.skipif(TRITON is None, reason="Triton is not installed")

# The largest error over the largest number: of outputs, of gradients.
TOLERANCE = {
    torch.float32: (2e-6, 1e-5),
    torch.float16: (1e-3, 4e-3),
    torch.bfloat16: (8e-3, 3e-2),
}
DECAYS = ("number", "(1,)", "(D,)", "(N, 1)", "(N, D)")


@dataclass
class Case:
    """One call of walk_scan."""

    lengths: list[int]
    channels: int
    order: int = 2
    combine: str = "mul"
    normalize: bool = True
    decay: str = "(N, D)"
    initial: bool = True
    dtype: torch.dtype = torch.float32
    decay_dtype: torch.dtype | None = None
    fused: bool = False  # the projections are columns of one product
    used: tuple[int, ...] | None = None  # the orders that are used, and so have gradients
    wanted: tuple[str, ...] | None = None  # the inputs whose gradients are wanted
    spread: float = 1.0  # of decays, around 0.5
    line: int = 4096  # bytes a program takes of a row; large, as few programs are soon interpreted
    seed: int = 0


def pool(interpreted: bool, cache: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessPoolExecutor:
    """A process of its own, for which Triton interprets kernels or compiles them."""
    context = multiprocessing.get_context("spawn")
    with monkeypatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        patch.setenv("TRITON_CACHE_DIR", str(cache))
        executor = ProcessPoolExecutor(1, mp_context=context)
        executor.submit(os.getpid).result()
    return executor


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    version = tuple(map(int, importlib.metadata.version("triton").split(".")[:2]))
    if version < (3, 9) and np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("Triton's interpreter before 3.9 cannot loop with numpy 2.4")
    with pytest.MonkeyPatch.context() as patch:
        executor = pool(True, tmp_path_factory.mktemp("triton"), patch)
    with executor:
        yield executor


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    assert TRITON is not None and TRITON.origin is not None
    if not (Path(TRITON.origin).parent / "backends/nvidia/bin/ptxas").exists():
        pytest.skip("this Triton comes without ptxas")
    with pytest.MonkeyPatch.context() as patch:
        executor = pool(False, tmp_path_factory.mktemp("triton"), patch)
    with executor:
        yield executor


def inputs_of(case: Case) -> tuple[dict[str, Tensor], Packing]:
    """The leaves of a case: P_1, P_2, ... or their one product, decay and initial."""
    torch.manual_seed(case.seed)
    packing = Packing.of_lengths(case.lengths)
    tokens, channels, order = packing.num_tokens, case.channels, case.order
    leaves: dict[str, Tensor] = {}
    if case.fused:  # one column more, so that rows begin anywhere
        leaves["product"] = torch.randn(tokens, order * channels + 1)
    else:
        leaves |= {f"P{j}": torch.randn(tokens, channels) for j in range(order)}
    leaves = {name: leaf.to(case.dtype) for name, leaf in leaves.items()}
    shapes = {
        "(1,)": (1,),
        "(D,)": (channels,),
        "(N, 1)": (tokens, 1),
        "(N, D)": (tokens, channels),
    }
    if case.decay != "number":
        decay = 0.5 + case.spread * (torch.rand(shapes[case.decay]) - 0.5)
        leaves["decay"] = decay.to(case.decay_dtype or case.dtype)
    if case.initial:
        leaves["initial"] = torch.randn(order, packing.num_texts, channels).to(case.dtype)
    for name, leaf in leaves.items():
        leaf.requires_grad_(case.wanted is None or name in case.wanted)
    return leaves, packing


def projections_of(case: Case, leaves: dict[str, Tensor]) -> list[Tensor]:
    if case.fused:
        return list(leaves["product"][:, 1:].split(case.channels, dim=1))
    return [leaves[f"P{j}"] for j in range(case.order)]


def run_triton(case: Case, leaves: dict[str, Tensor], packing: Packing) -> tuple[Tensor, ...]:
    triton_scan._LINE_BYTES = case.line
    decay = leaves.get("decay", 0.7)
    initial = leaves.get("initial")
    projections = projections_of(case, leaves)
    return triton_scan.walk_scan(projections, decay, packing, initial, case.combine, case.normalize)


def run_definition(case: Case, leaves: dict[str, Tensor], packing: Packing) -> tuple[Tensor, ...]:
    """The states by the definition in float64."""
    projections = [p.double() for p in projections_of(case, leaves)]
    decay = leaves["decay"].double() if "decay" in leaves else torch.tensor(0.7).double()
    zeros = torch.zeros(case.order, packing.num_texts, case.channels)
    initial = leaves.get("initial", zeros).double()
    return reference.walk_scan(
        projections,
        decay.expand_as(projections[0]),
        packing,
        initial,
        case.combine,
        case.normalize,
    )


def assert_near(found: Tensor, expected: Tensor, tolerance: float, name: str) -> None:
    assert found.shape == expected.shape, name
    if found.numel():
        scale = expected.abs().max().clamp(min=1.0)
        error = ((found.double() - expected).abs().max() / scale).item()
        assert error <= tolerance, f"{name}: error {error:.2g}"


def check(case: Case) -> None:
    """Outputs and every gradient, in this process."""
    leaves, packing = inputs_of(case)
    found, expected = (run(case, leaves, packing) for run in (run_triton, run_definition))
    passes = 1 + (case.order > 4)  # the second starts from states that the first has rounded
    for_outputs, for_gradients = (passes * tolerance for tolerance in TOLERANCE[case.dtype])
    for j, (f, e) in enumerate(zip(found, expected, strict=True), start=1):
        assert f.dtype == case.dtype
        assert_near(f, e, for_outputs, f"c_{j}")
    used = range(case.order) if case.used is None else case.used
    grads = {j: torch.randn_like(found[j]) for j in used}
    wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    found_gradients = torch.autograd.grad(
        [found[j] for j in used], list(wanted.values()), list(grads.values()), allow_unused=True
    )
    # A state of the definition that depends on nothing wanted has no graph.
    depends = [j for j in used if expected[j].requires_grad]
    expected_gradients: tuple[Tensor | None, ...] = (None,) * len(wanted)
    if depends:
        expected_gradients = torch.autograd.grad(
            [expected[j] for j in depends],
            list(wanted.values()),
            [grads[j].double() for j in depends],
            allow_unused=True,
        )
    for name, leaf, f, e in zip(
        wanted, wanted.values(), found_gradients, expected_gradients, strict=True
    ):
        if e is None:
            assert f is None or not f.any(), name
        else:
            assert f is not None, name
            assert f.dtype == leaf.dtype, name
            assert_near(f, e.double(), for_gradients, f"gradient of {name}")


def run(executor: ProcessPoolExecutor, case: Case) -> None:
    executor.submit(check, case).result()


@needs_triton
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
def test_orders(
    interpreter: ProcessPoolExecutor, order: int, combine: str, normalize: bool
) -> None:
    for lengths, initial in [([4, 2, 2, 0], True), ([3, 3], False)]:
        run(interpreter, Case(lengths, 37, order, combine, normalize, initial=initial))


@needs_triton
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("initial", [False, True])
def test_decays(interpreter: ProcessPoolExecutor, decay: str, initial: bool) -> None:
    for lengths, combine, normalize in [([4, 2, 0], "mul", True), ([2, 2], "add", False)]:
        case = Case(lengths, 37, 2, combine, normalize, decay, initial, line=64)
        run(interpreter, case)


@needs_triton
@pytest.mark.parametrize(
    ("steps", "texts", "channels"),
    [(1, 1, 1), (1, 3, 500), (2, 1, 100), (2, 3, 1), (63, 1, 500), (65, 3, 37), (65, 1, 1)],
)
def test_sizes(interpreter: ProcessPoolExecutor, steps: int, texts: int, channels: int) -> None:
    run(interpreter, Case([steps] * texts, channels, normalize=steps > 2))


@needs_triton
@pytest.mark.parametrize(
    ("texts", "channels", "dtype"),
    [(1, 500, torch.float32), (3, 100, torch.float16), (2, 64, torch.bfloat16)],
)
@pytest.mark.parametrize("decay", ["(N, 1)", "(N, D)"])
def test_programs_as_they_are_on_a_gpu(
    interpreter: ProcessPoolExecutor, texts: int, channels: int, dtype: torch.dtype, decay: str
) -> None:
    line = triton_scan._LINE_BYTES
    run(interpreter, Case([2] * texts, channels, decay=decay, dtype=dtype, line=line))


@needs_triton
@pytest.mark.parametrize(
    "lengths", [[7, 1], [5, 5, 4, 0, 0], [17, 3, 2, 1], [1, 0], [0, 0], []], ids=str
)
@pytest.mark.parametrize("order", [1, 3])
def test_packings(interpreter: ProcessPoolExecutor, lengths: list[int], order: int) -> None:
    for decay in ("(D,)", "(N, D)"):
        run(interpreter, Case(lengths, 5, order, decay=decay))


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("decay", DECAYS)
def test_half_precision(interpreter: ProcessPoolExecutor, dtype: torch.dtype, decay: str) -> None:
    for order, decay_dtype in [(1, torch.float32), (2, dtype), (3, torch.float32), (5, dtype)]:
        case = Case([6, 3], 20, order, decay=decay, dtype=dtype, decay_dtype=decay_dtype)
        run(interpreter, case)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_columns_of_one_product(
    interpreter: ProcessPoolExecutor, dtype: torch.dtype, order: int
) -> None:
    run(interpreter, Case([3, 3, 1], 37, order, dtype=dtype, fused=True))


@needs_triton
@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2), (3,)], ids=str)
@pytest.mark.parametrize("combine", ["mul", "add"])
def test_some_orders_used(
    interpreter: ProcessPoolExecutor, used: tuple[int, ...], combine: str
) -> None:
    run(interpreter, Case([4, 2], 5, 4, combine, used=used))


@needs_triton
@pytest.mark.parametrize("wanted", ["P0", "P1", "P2", "decay", "initial"])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
def test_only_the_gradients_that_are_wanted(
    interpreter: ProcessPoolExecutor, wanted: str, combine: str, normalize: bool
) -> None:
    run(interpreter, Case([4, 2], 5, 3, combine, normalize, wanted=(wanted,)))


@needs_triton
def test_coefficients_that_are_no_decays(interpreter: ProcessPoolExecutor) -> None:
    """A linear scan of any coefficients: below 0, above 1, and 0."""
    for normalize in (False, True):
        run(interpreter, Case([6, 5], 37, 1, normalize=normalize, spread=3.0))
        run(interpreter, Case([6, 5], 37, 2, normalize=normalize, spread=3.0))


@needs_triton
@pytest.mark.parametrize("seed", range(20))
def test_any_case(interpreter: ProcessPoolExecutor, seed: int) -> None:
    choose = random.Random(seed)
    lengths = sorted((choose.randrange(7) for _ in range(choose.randrange(1, 5))), reverse=True)
    order = choose.randrange(1, 6)
    case = Case(
        lengths,
        choose.randrange(1, 40),
        order,
        choose.choice(["mul", "add"]),
        choose.random() < 0.5,
        choose.choice(DECAYS),
        choose.random() < 0.5,
        choose.choice(list(TOLERANCE)),
        fused=choose.random() < 0.5,
        used=tuple(sorted(choose.sample(range(order), choose.randrange(1, order + 1)))),
        seed=seed,
    )
    run(interpreter, case)


def same_with_create_graph(case: Case) -> None:
    """Gradients that keep their graph, and theirs in turn."""
    leaves, packing = inputs_of(case)
    inputs = list(leaves.values())
    total = sum(c.square().sum() for c in run_triton(case, leaves, packing))
    plain = torch.autograd.grad(total, inputs, retain_graph=True)
    kept = torch.autograd.grad(total, inputs, create_graph=True)
    for p, k in zip(plain, kept, strict=True):
        torch.testing.assert_close(k, p, rtol=1e-4, atol=1e-5)
    second = torch.autograd.grad(sum(k.square().sum() for k in kept), inputs)
    total = sum(c.square().sum() for c in run_definition(case, leaves, packing))
    first = torch.autograd.grad(total, inputs, create_graph=True)
    expected = torch.autograd.grad(sum(f.square().sum() for f in first), inputs)
    for s, e in zip(second, expected, strict=True):
        torch.testing.assert_close(s, e, rtol=1e-3, atol=1e-3)


@needs_triton
def test_second_derivatives(interpreter: ProcessPoolExecutor) -> None:
    case = Case([3, 2], 4, 3, decay="(D,)")
    interpreter.submit(same_with_create_graph, case).result()


def same_of_odd_operands() -> None:
    """Operands whose rows are not plain: transposed, expanded, starting anywhere."""
    torch.manual_seed(0)
    packing = Packing.of_lengths([4, 2])
    wide = torch.randn(9, packing.num_tokens, requires_grad=True)
    decay = torch.rand(packing.num_tokens, requires_grad=True)
    initial = torch.randn(9, requires_grad=True)
    leaves = (wide, decay, initial)

    def operands() -> tuple[list[Tensor], Tensor, Tensor]:
        token_decay = decay[:, None].expand(-1, 9)
        return [wide.t(), wide.t().flip(1)], token_decay, initial.expand(2, 2, 9)

    def gradients(states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        total = states[1].sum() + states[0].t().contiguous().square().sum()
        return torch.autograd.grad(total, leaves)

    projections, token_decay, start = operands()
    found = triton_scan.walk_scan(projections, token_decay, packing, start)
    expected = reference.walk_scan(projections, token_decay, packing, start)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)
    for f, e in zip(gradients(found), gradients(expected), strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-5)


@needs_triton
def test_operands_of_any_strides(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(same_of_odd_operands).result()


def nan_stays_in_its_text() -> None:
    packing = Packing.of_lengths([3, 3, 1])
    projections = [torch.ones(7, 37, requires_grad=True) for _ in range(2)]
    initial = torch.zeros(2, 3, 37)
    initial[:, 1] = float("nan")
    states = triton_scan.walk_scan(projections, 0.5, packing, initial)
    sum(c.sum() for c in states).backward()
    rows = torch.tensor([packing.offsets[t] + 1 for t in range(3)])
    others = torch.tensor([row for row in range(7) if row not in rows])
    for c in states:
        assert c[rows].isnan().all() and c[others].isfinite().all()
    for p in projections:
        assert p.grad is not None and p.grad[others].isfinite().all()


@needs_triton
def test_nan_stays_where_it_is(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(nan_stays_in_its_text).result()


class Compiled:
    """A kernel that is compiled for what it is called with, and not run."""

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.made: list[Any] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda **given: self.made.append(self.kernel.warmup(grid=grid, **given))


class Hopper:
    """A driver without a device, for which kernels can be compiled."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def assembly(case: Case) -> list[str]:
    """What the forward and the backward of a case are compiled to."""
    import triton

    from pyg_kernels.ops.linear_scan import triton_kernels

    triton.runtime.driver.set_active(Hopper())
    kernels = [Compiled(triton_kernels.forward), Compiled(triton_kernels.backward)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_kernels, "forward", kernels[0])
        patch.setattr(triton_kernels, "backward", kernels[1])
        leaves, packing = inputs_of(case)
        states = run_triton(case, leaves, packing)
        states[-1].sum().backward()
    for kernel in kernels:
        assert len(kernel.made) == 1 and kernel.made[0].asm["cubin"]
    return [kernel.made[0].asm["ptx"] for kernel in kernels]


@needs_triton
@pytest.mark.parametrize(
    "case",
    [
        Case([4] * 2, 1024, 1, initial=False, dtype=torch.bfloat16),
        Case([4] * 2, 1024, 2, dtype=torch.bfloat16, decay_dtype=torch.float32),
        Case([3, 1, 0], 300, 2, decay="(D,)"),
        Case([4] * 2, 50, 3, "add", False, "(N, 1)", dtype=torch.float16),
        Case([3, 1], 37, 4, "add", False, "number"),
    ],
    ids=lambda case: f"{case.order}-{case.dtype}-{case.decay}",
)
def test_compiles_for_hopper(compiler: ProcessPoolExecutor, case: Case) -> None:
    """And loads ahead of the loop, without which a step would wait for memory."""
    case.line = triton_scan._LINE_BYTES
    for ptx in compiler.submit(assembly, case).result():
        assert "cp.async" in ptx


def test_where_it_is_available() -> None:
    assert not triton_scan.available(torch.device("cpu"))
    assert "cpu" in (triton_scan.obstacle(torch.device("cpu")) or "")
    on_cuda = triton_scan.obstacle(torch.device("cuda"))
    assert (on_cuda is None) == (TRITON is not None)


def test_nothing_is_imported_before_the_first_call() -> None:
    module = "pyg_kernels.ops.linear_scan.triton"
    code = f"import {module}, sys; assert '{module}_kernels' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_dtypes_are_errors() -> None:
    packing = Packing.of_lengths([2])
    with pytest.raises(TypeError, match=r"float32, float16 or bfloat16, got torch\.float64"):
        triton_scan.walk_scan([torch.ones(2, 3).double()], 0.5, packing)
    with pytest.raises(TypeError, match=r"got torch\.float16, torch\.float32"):
        triton_scan.walk_scan([torch.ones(2, 3).half(), torch.ones(2, 3)], 0.5, packing)


def test_bytes_moved() -> None:
    projections = [torch.ones(6, 4, dtype=torch.bfloat16) for _ in range(2)]
    states = 2 * 6 * 4 * 2
    assert triton_scan.bytes_moved(projections, 0.5) == 2 * states
    assert triton_scan.bytes_moved(projections, torch.ones(6, 4)) == 2 * states + 6 * 4 * 4
