"""The promises that every op keeps: scans along texts, sums over neighbours, expansions."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import backend
from pyg_kernels.ops.expansion import GREENS, cpu
from pyg_kernels.ops.neighbor_sum import cpu as sums
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum_cpu import _program
from pyg_kernels.ops.scan.traced import _traced
from tests.nn.activation_equations import close
from tests.ops import scans, test_expansion, test_neighbor_sum
from tests.ops.scans import CPU, check, gradients, some
from tests.ops.test_expansion import Expansion
from tests.ops.test_neighbor_sum import GATE, PLAIN, Sum
from tests.promises import assert_torch_func

LAYOUTS = list(scans.LAYOUTS.values())
CASES: dict[str, Any] = {
    **{
        name: case._replace(layout=LAYOUTS[3 * number % 12])
        for number, (name, case) in enumerate(scans.SOME.items())
    },
    **{green: Expansion(green) for green in GREENS},
    **{f"sum over {types} types": Sum(types=types, act="tanh") for types in (None, 2)},
    **{"plain sum": Sum(PLAIN), "gated sum": Sum(GATE)},
}
LARGE: dict[type, dict[str, Any]] = {
    scans.Case: {"layout": Layout.of_grid(20, 40, CPU), "channels": 70},
    Expansion: {"rows": 5000, "units": 20, "centers": 9},
    Sum: {"sizes": (300, 250, 4000), "channels": 16},
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_derivatives(case: Any) -> None:
    """Second derivatives, and torch.func's transforms, of the op and of its own form."""
    tensors = case.tensors()

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        rest = iter(given)
        outputs = case.run([t if t is None or not t.requires_grad else next(rest) for t in tensors])
        return tuple(out for out in outputs if out.requires_grad) or outputs[:1]

    leaves = some(tensors)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)
    assert_torch_func(lambda *given: run(*given)[:1], *leaves)
    detached = [None if t is None else t.detach() for t in tensors]
    op, (x, *rest) = case.op, case.arguments(detached)
    found = torch.func.vmap(lambda x: op(x, *rest)[0])(torch.stack([x, 2 * x]))
    close(found, torch.stack([op(t, *rest)[0] for t in (x, 2 * x)]))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.traces] * isinstance(case, Sum))
        for name, case in CASES.items()
    ],
)
def test_registration(case: Any) -> None:
    case = case._replace(dtype=torch.float32)
    torch.library.opcheck(case.op, case.arguments(case.tensors()))


@every_case
def test_two_threads_at_once(case: Any) -> None:
    """Each thread gets the results of its own input, bit for bit the same every time."""
    case = case._replace(**LARGE[type(case)])
    x, *others = case.tensors()

    def run(k: int) -> list[Tensor]:
        outputs = case.run([(1 + k) * x.detach(), *others])
        return [*outputs, *gradients(outputs, others)]

    expected = [run(0), run(1)]
    with ThreadPoolExecutor(2) as pool:
        for k, found in enumerate(pool.map(run, [0, 1] * 4)):
            assert all(map(torch.equal, found, expected[k % 2]))


@every_case
def test_memory_of_any_strides(case: Any) -> None:
    x, *others = case.tensors()
    strided = x.detach().t().contiguous().t()
    close(case.run([strided, *others]), case.run([x, *others]), 1e-12)


@every_case
@pytest.mark.parametrize("path", ["definition"], indirect=True)
def test_without_numba(case: Any, path: str) -> None:
    assert set(backend().values()) == {"definition"}
    check(case)


@pytest.mark.parametrize("of", [test_expansion, test_neighbor_sum])
def test_triton(of: Any, interpreter: ProcessPoolExecutor, compiler: ProcessPoolExecutor) -> None:
    interpreter.submit(of.interpreted).result()
    compiler.submit(of.compiled).result()


class Own(Tensor):
    """A subclass that changes nothing."""


@every_case
def test_subclasses_of_tensors(case: Any) -> None:
    """PyTorch's overriding is switched off while an op's methods run, which trace formulas."""
    for kept in (sums._programs, cpu._gaussian, _program, _traced):
        kept.cache_clear()
    tensors = case.tensors()
    found = case.run([tensors[0].as_subclass(Own), *tensors[1:]])
    expected = case.run(tensors)
    assert type(found[0]) is Own
    slopes = [gradients(outputs, tensors) for outputs in (found, expected)]
    torch.testing.assert_close(*slopes)
    torch.testing.assert_close([out.as_subclass(Tensor) for out in found], list(expected))
