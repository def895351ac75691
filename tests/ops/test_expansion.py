"""The compiled kernels and the definition, both against the direct sum."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import expansion
from pyg_kernels.ops.expansion import GREENS, definition, kernel_expansion
from tests.nn.activation_equations import close, direct_sum
from tests.ops.conftest import compiled_kernels
from tests.ops.scans import check, leaf

BANDWIDTH = 0.4
WAYS = [(green, path) for green in GREENS for path in ("compiled", "definition")]


class Expansion(NamedTuple):
    """An expansion and its inputs; with a line, or one function for all units."""

    green: Any
    line: bool = False
    shared: bool = False
    rows: int = 6
    units: int = 3
    centers: int = 5
    dtype: torch.dtype = torch.float64
    op = expansion._OPERATOR.op

    def tensors(self) -> list[Tensor | None]:
        functions = 1 if self.shared else self.units
        shapes = [(self.rows, self.units), (functions, self.centers), (functions, self.centers)]
        shapes += [(functions,), (functions,)] if self.line else []
        drawn = [leaf(draw(k, *shape), self.dtype) for k, shape in enumerate(shapes)]
        return [*drawn, *[None] * (5 - len(drawn))]

    def arguments(self, tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
        return *tensors[:3], self.green, BANDWIDTH

    def run(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor]:
        a, centers, chi, *line = tensors
        return (kernel_expansion(a, centers, chi, self.green, BANDWIDTH, *line),)

    def define(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor]:
        a, centers, chi, slope, intercept = tensors
        found = direct_sum(a, centers, chi, self.green, BANDWIDTH)
        return (found if slope is None else found + slope * a + intercept,)


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def assert_is_direct_sum(green: str, a: Tensor, centers: Tensor, with_line: bool) -> None:
    """Compares the values and the gradients of all operands with the direct sum."""
    sizes = {"units": a.size(1), "centers": centers.size(1)}
    case = Expansion(green, with_line, centers.size(0) == 1, **sizes)
    check(case, tensors=[*map(leaf, (a, centers)), *case.tensors()[2:]])


#: Each Green function, by the kernels and by the definition.
ways = pytest.mark.parametrize(("green", "path"), WAYS, indirect=["path"])


AWKWARD = {
    "one": torch.tensor([0.25]),
    "all-equal": torch.full((33,), 0.3),
    "half-equal": torch.cat([torch.full((31,), -1.0), torch.linspace(0, 1, 33)]),
    "denormal-gaps": torch.arange(9) * 5e-324,
    "neighbouring-floats": 0.3 + torch.arange(-8, 9) * 2.0**-54,
    "geometric": torch.cat([0.001 ** torch.arange(63).double(), torch.zeros(1)]),
    "growing": torch.cat([2.0 ** torch.arange(19), torch.zeros(1)]),
    "cluster-and-one": torch.cat([1 + 1e-12 * torch.arange(64), torch.tensor([-1.0])]),
    "descending": torch.linspace(1, -1, 65),
    "far": 1e6 + torch.linspace(-1, 1, 40).double(),
    **{f"{count} in blocks": torch.linspace(-1, 1, count) for count in (15, 16, 17, 256, 257)},
}


@ways
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_centres(green: str, path: str, name: str) -> None:
    """At coincident centres and inputs exactly on centres, derivatives are those from the left."""
    row = AWKWARD[name].double()
    middle = row[len(row) // 2]
    at = torch.cat([row, row.nextafter(row + 1), row.nextafter(row - 1), middle + draw(5, 9)])
    a, centers = torch.stack([at, at.flip(0)], 1), torch.stack([row, row.flip(0)])
    for with_line in (False, True):
        assert_is_direct_sum(green, a, centers, with_line)
        assert_is_direct_sum(green, a, centers[:1], with_line)


SIZES = [  # just around whole blocks, and long or wide inputs
    *itertools.product((0, 1, 51, 52, 140), (1, 5, 127), (1, 4)),
    *((20_000, 2, 5), (3, 700, 6), (1, 50, 300)),
]


@pytest.mark.usefixtures("threads")
@ways
@pytest.mark.parametrize("functions", ["own", "shared"])
def test_sizes(green: str, path: str, functions: str) -> None:
    for rows, units, d in SIZES:
        check(Expansion(green, d % 2 == 0, functions == "shared", rows, units, d))


@ways
def test_not_a_number(green: str, path: str) -> None:
    """On both paths NaN reaches its own output and what is computed from it, and nothing else."""
    a, centers, chi = draw(0, 6, 3), draw(1, 3, 5), draw(2, 3, 5)

    def run(a: Tensor) -> tuple[Tensor, ...]:
        leaves = [t.clone().requires_grad_() for t in (a, centers, chi)]
        out = kernel_expansion(*leaves, green, BANDWIDTH)
        return out, *torch.autograd.grad(out.sum(), leaves)

    plain = run(a)
    a[2, 1] = torch.nan
    out, of_a, of_centers, of_chi = run(a)
    at = a.isnan()
    assert torch.equal(out.isnan(), at)
    assert torch.equal(out[~at], plain[0][~at])
    assert torch.equal(of_a[~at], plain[1][~at])
    close([t[[0, 2]] for t in (of_centers, of_chi)], [t[[0, 2]] for t in plain[2:]], 1e-13)
    assert of_chi[1].isnan().all()
    for count in (1, 3):  # centres at one place, the same number as an input
        c, chi = torch.zeros(1, count), torch.ones(1, count, requires_grad=True)
        out = kernel_expansion(torch.tensor([[1.0], [torch.nan]]), c, chi, green, BANDWIDTH)
        assert torch.autograd.grad(out.sum(), chi)[0].isnan().all()


@ways
def test_minus_infinity(green: str, path: str) -> None:
    """At -inf the terms of a Green function are all 0, or all infinite with the same sign."""
    a, centers, chi = torch.full((2, 3), -torch.inf).double(), draw(1, 3, 5), draw(2, 3, 5).abs()
    out = kernel_expansion(a, centers, chi, green, BANDWIDTH)
    assert (out == (torch.inf if green == "abs" else 0)).all()
    slope = torch.tensor([1.0, -1, 2]).double()
    if green != "abs":
        out = kernel_expansion(a, centers, chi, green, BANDWIDTH, slope, torch.ones(3).double())
        assert torch.equal(out, -torch.inf * slope.expand(2, 3))


@ways
def test_parameter_that_is_not_finite(green: str, path: str) -> None:
    """It affects only the outputs and gradients of its own unit."""

    def run(place: int = 0, value: float = 0.5) -> list[Any]:
        a, *parameters = draw(0, 6, 3), draw(1, 3, 5), draw(2, 3, 5)
        parameters[place][1, 3] = value
        leaves = [t.requires_grad_() for t in (a, *parameters)]
        out = kernel_expansion(*leaves, green, BANDWIDTH)
        of_a, *others = torch.autograd.grad(out.sum(), leaves)
        return [out.t()[[0, 2]], of_a.t()[[0, 2]], *(g[[0, 2]] for g in others)]

    for place, value in itertools.product((0, 1), (torch.nan, torch.inf, -torch.inf)):
        close(run(place, value), run(), 1e-13)


PIECEWISE = [way for way in WAYS if way[0] != "gaussian"]
piecewise = pytest.mark.parametrize(("green", "path"), PIECEWISE, indirect=["path"])


@piecewise
@pytest.mark.parametrize("far", [1e4, -1e4, 1e6])
def test_far_centres_cost_no_digits(green: str, path: str, far: float) -> None:
    """Rectifiers allow any number of far centres on one side, the others only a minority.

    Far inputs cost no digits either.
    """
    count = 6 if green == "relu" else 3
    centers, chi = draw(1, 1, 10), draw(2, 1, 10)
    centers[0, :count] = far * (1 + torch.arange(count) / count)
    chi[0, :count] = 0 if far < 0 or green == "abs" else chi[0, :count]
    a = draw(3, 50, 1)
    operands = [t.float().requires_grad_() for t in (a, centers, chi)]
    exact = [t.detach().double().requires_grad_() for t in operands]
    found = kernel_expansion(*operands, green)
    expected = direct_sum(*exact, green, BANDWIDTH)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=2e-5)
    weights = draw(4, 50, 1)
    *_, of_chi = torch.autograd.grad(found, operands, weights.float())
    *_, wanted = torch.autograd.grad(expected, exact, weights)
    near = slice(count, None)
    torch.testing.assert_close(of_chi[:, near].double(), wanted[:, near], rtol=1e-4, atol=1e-4)
    a = 1e12 * draw(5, 9, 1).float()
    found = kernel_expansion(a, *operands[1:], green)
    expected = direct_sum(a.double(), *exact[1:], green, BANDWIDTH)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)


@piecewise
def test_spans_at_the_ends_of_the_numbers(green: str, path: str) -> None:
    """Distances that single precision cannot represent, or whose inverse it cannot represent."""
    for centers in ([0.0, 1e-40], [0.0, 1e-45, 2e-45, 1e-44], [-3e38, 0.0, 3e38]):
        c = torch.tensor([centers])
        a = torch.tensor([[0.0], [1e-40], [5e-42], [1.0], [-1.0]])
        found = kernel_expansion(a, c, torch.full_like(c, 0.25), green)
        of_exact = direct_sum(a.double(), c.double(), torch.full_like(c, 0.25).double(), green, 1.0)
        scale = of_exact.abs().max()
        torch.testing.assert_close(found.double(), of_exact, rtol=1e-5, atol=float(1e-6 * scale))


@piecewise
def test_gradients_of_many_rows(green: str, path: str) -> None:
    """Sums over the inputs of a piece are accumulated in double precision."""
    a = (0.001 * torch.rand(100_000, 1) + 0.5).float()
    operands = [t.float().requires_grad_() for t in (draw(1, 1, 3), draw(2, 1, 3))]
    exact = [t.detach().double().requires_grad_() for t in operands]
    found = kernel_expansion(a, *operands, green)
    expected = direct_sum(a.double(), *exact, green, BANDWIDTH)
    weights = torch.full_like(found, 0.1)
    wanted = torch.autograd.grad(expected, exact, weights.double())
    slopes = [g.double() for g in torch.autograd.grad(found, operands, weights)]
    torch.testing.assert_close(slopes, wanted, rtol=1e-5, atol=1e-2)


def test_units_that_there_are_not_and_negative_views() -> None:
    none = torch.zeros(5, 0).requires_grad_()
    out = kernel_expansion(none, torch.zeros(0, 2), torch.zeros(0, 2), "relu", BANDWIDTH)
    (slope,) = torch.autograd.grad(out, none, torch.zeros(5, 0), create_graph=True)
    assert slope.shape == (5, 0)
    a = torch.complex(draw(0, 1, 1), draw(3, 1, 1)).conj().imag  # contiguous, with a lazy negation
    given = draw(1, 1, 5), draw(2, 1, 5), "relu", BANDWIDTH
    torch.testing.assert_close(kernel_expansion(a, *given), kernel_expansion(a.clone(), *given))


def test_arguments() -> None:
    a, c = torch.zeros(2, 1), torch.zeros(1, 3)
    with pytest.raises(ValueError, match="centers has shape"):
        kernel_expansion(torch.zeros(7, 5), torch.zeros(3, 4), torch.zeros(3, 4), "relu")
    with pytest.raises(ValueError, match="green='tanh'"):
        kernel_expansion(a, c, c, "tanh")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bandwidth"):
        kernel_expansion(a, c, c, "gaussian")


def interpreted() -> None:
    """Runs Triton's kernels on CPU, in a process whose Triton interprets them."""
    for seed, (green, (rows, units, functions, d)) in enumerate(
        itertools.product(GREENS, [(7, 3, 3, 4), (0, 2, 2, 3), (5, 0, 1, 2), (70, 33, 1, 35)])
    ):
        a, centers = draw(seed, rows, units), draw(seed + 1, functions, d)
        a.flatten()[: min(d, a.numel())] = centers[0, 0]  # inputs exactly at a centre
        assert_is_direct_sum(green, a, centers, seed % 2 > 0 and functions == units)
    for green in ("relu", "abs"):
        at = torch.tensor([[torch.inf], [-torch.inf], [torch.nan]]).double()
        c, chi = draw(1, 1, 5), draw(2, 1, 5).requires_grad_()
        found = kernel_expansion(at, c, chi, green)
        expected = definition.expansion(at, c, chi, green)
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.nan_to_num(), expected.nan_to_num())
        assert torch.autograd.grad(found.sum(), chi)[0].isnan().all()
        c[0, 2] = torch.nan
        assert kernel_expansion(draw(1, 4, 1), c, chi, green, 0.0).isnan().all()
        # A function that is flat on both sides, in single precision.
        chi = draw(4, 1, 40)
        flat = [t.float() for t in (1e4 + draw(5, 50, 1), draw(3, 1, 40), chi - chi.mean())]
        expected = direct_sum(*(t.double() for t in flat), green, BANDWIDTH)
        close(kernel_expansion(*flat, green).double(), expected, 1e-6)


def compiled() -> None:
    """Compiles Triton's kernels for a GPU that may be absent."""
    made = compiled_kernels()
    single, double = torch.float32, torch.float64
    for green, dtype in [("relu", single), ("abs", double), ("gaussian", single)]:
        a, c = torch.zeros(70, 5, dtype=dtype), torch.zeros(5, 9, dtype=dtype)
        leaves = [t.requires_grad_() for t in (a, c, torch.ones_like(c))]
        kernel_expansion(*leaves, green, BANDWIDTH).sum().backward()  # type: ignore[arg-type]
    assert len(made) == 9 and not any("atom." in kernel.asm["ptx"] for kernel in made)
