"""KernelActivation equals the direct sum of its terms, everywhere and in every form of use."""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCN, GIN, MLP

from pyg_kernels.nn import KernelActivation, RandomWalkConv, WLKernelConv
from tests.graphs import random_graph
from tests.nn.activation_equations import (
    CASES,
    FUNCTIONS,
    GREENS,
    Case,
    Magnitudes,
    assert_is_definition,
    close,
    geometric,
    interpolant,
    least_squares_error,
    with_centers,
)

UNITS = 3
PLAIN = [case for case in CASES if not case.normalize]
PIECEWISE = ("relu", "abs")
NAN, INF = math.nan, math.inf

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_plain = pytest.mark.parametrize("case", PLAIN, ids=str)
each_green = pytest.mark.parametrize("green", GREENS)


def doubles(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=generator)


def leaves(module: nn.Module, a: Tensor) -> tuple[Tensor, ...]:
    return (a, *module.parameters())


class TestIsTheDirectSum:
    @each_case
    @pytest.mark.parametrize("d", [1, 2, 3, 7, 100, 1000])
    def test_every_shape(self, case: Case, d: int) -> None:
        module = case.random(UNITS, d)
        for shape in [(2, UNITS), (40, UNITS), (2, 3, UNITS), (2, 0, UNITS), (0, UNITS)]:
            assert_is_definition(case, module, doubles(*shape))
        module.eval()
        for shape in [(UNITS,), (1, UNITS), (5, UNITS), (1, 2, 2, UNITS), (0, UNITS)]:
            assert_is_definition(case, module, doubles(*shape))

    @each_case
    def test_strides(self, case: Case) -> None:
        module = case.random(UNITS, 7)
        views: list[Callable[[Tensor], Tensor]] = [
            lambda t: t[:UNITS].t(),
            lambda t: t[::2, 1 : 1 + UNITS],
            lambda t: t[:, :1].expand(-1, UNITS),
            lambda t: t[:1, :UNITS].expand(6, UNITS),
            lambda t: t[0, 0].expand(2, 4, UNITS),
            lambda t: t[:, : 2 * UNITS].view(-1, 2, UNITS).transpose(0, 1),
            lambda t: t[:, : 2 * UNITS].view(-1, UNITS, 2).transpose(1, 2),
            lambda t: t[:4, :UNITS].flip(0),
        ]
        for view in views:
            base = doubles(8, 8).requires_grad_()
            expected, found = case.definition(module, view(base)), module(view(base))
            close(found, expected)
            weights = doubles(*expected.shape, seed=3)
            inputs = leaves(module, base)
            wanted = torch.autograd.grad(expected, inputs, weights)
            for x, y in zip(torch.autograd.grad(found, inputs, weights), wanted, strict=True):
                close(x, y)

    @each_plain
    def test_strides_of_gradients(self, case: Case) -> None:
        module = case.random(UNITS, 7)
        a = doubles(6, UNITS).requires_grad_()
        for weights in [
            doubles(UNITS, 6).t(),
            doubles(12, UNITS)[::2],
            torch.ones((), dtype=torch.float64).expand(6, UNITS),
        ]:
            inputs = leaves(module, a)
            wanted = torch.autograd.grad(case.definition(module, a), inputs, weights)
            found = torch.autograd.grad(module(a), inputs, weights)
            for x, y in zip(found, wanted, strict=True):
                close(x, y)

    @each_plain
    @pytest.mark.parametrize(
        ("shape", "d"),
        [((70_000, 2), 5), ((7, 9_999, 1), 4), ((3, 700), 6), ((1, 50), 1000)],
        ids=str,
    )
    def test_long_and_wide(self, case: Case, shape: tuple[int, ...], d: int) -> None:
        module = case.random(shape[-1], d)
        assert_is_definition(case, module, doubles(*shape))

    @each_plain
    def test_many_rows_at_few_values(self, case: Case) -> None:
        """Almost all rows between the same two centres."""
        module = case.random(2, 20)
        a = doubles(5, 2)[torch.arange(30_000) % 5 * (torch.arange(30_000) % 1000 == 0)]
        assert_is_definition(case, module, a)

    @each_plain
    def test_rows_do_not_depend_on_each_other(self, case: Case) -> None:
        module, a = case.random(UNITS, 9), doubles(50, UNITS)
        close(torch.stack([module(row) for row in a]), module(a), 1e-13)

    @each_plain
    def test_twice_the_same(self, case: Case) -> None:
        module, a = case.random(UNITS, 30), doubles(500, UNITS).requires_grad_()
        torch.use_deterministic_algorithms(True)
        try:
            runs = [torch.autograd.grad(module(a).sum(), leaves(module, a)) for _ in range(2)]
            assert all(map(torch.equal, *runs))
            assert torch.equal(module(a), module(a))
        finally:
            torch.use_deterministic_algorithms(False)

    @pytest.mark.parametrize("bandwidth", [None, 1e-3, 0.7, 3, 50.0])
    @pytest.mark.parametrize("d", [1, 2, 12])
    def test_bandwidth(self, bandwidth: float | None, d: int) -> None:
        case = Case("gaussian", bandwidth=bandwidth, init_range=(-1.0, 2.5))
        assert_is_definition(case, case.random(UNITS, d), doubles(9, UNITS))


@st.composite
def ties(draw: st.DrawFn) -> tuple[Case, Any, Tensor]:
    """Centres and inputs on one coarse grid: coincident centres, inputs exactly at centres."""
    case = draw(st.sampled_from(PLAIN))
    units, d, n = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(0, 6))
    grid = st.integers(-6, 6).map(lambda i: i / 2)
    shape = draw(st.sampled_from([(n, units), (units,), (2, n, units)]))
    count = math.prod(shape)
    rows = draw(st.lists(grid, min_size=units * d, max_size=units * d))
    values = draw(st.lists(grid, min_size=count, max_size=count))
    centers = torch.tensor(rows, dtype=torch.float64).view(units, d)
    module = with_centers(case, centers, seed=draw(st.integers(0, 99)))
    return case, module, torch.tensor(values, dtype=torch.float64).view(shape)


class TestCenters:
    @given(ties())
    @settings(max_examples=150, deadline=None, derandomize=True)
    def test_ties(self, drawn: tuple[Case, Any, Tensor]) -> None:
        assert_is_definition(*drawn)

    @pytest.mark.parametrize(
        "row",
        [
            pytest.param(torch.full((6,), 0.3), id="all-equal"),
            pytest.param(torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0]), id="two-places"),
            pytest.param(torch.linspace(2, -2, 8), id="descending"),
            pytest.param(torch.tensor([0.0, -0.0, 0.0, 1.0, -0.0]), id="signed-zeros"),
            pytest.param(0.3 + torch.arange(-4, 5) * 2.0**-54, id="neighboring-floats"),
            pytest.param(torch.arange(5) * 5e-324, id="denormal-gaps"),
            pytest.param(geometric(40, 1e-7), id="geometric-1e-7"),
            pytest.param(geometric(60, 0.5), id="geometric-half"),
            pytest.param(-geometric(60, 0.5), id="geometric-half-negative"),
            pytest.param(geometric(12, 3.0), id="geometric-3"),
            pytest.param(torch.cat([torch.linspace(0, 1e-3, 99), torch.tensor([1e4])]), id="out"),
            pytest.param(torch.cat([torch.linspace(0, 1e-3, 99), torch.tensor([-1e4])]), id="-out"),
            pytest.param(torch.tensor([-1e12, 0.0, 0.5, 1e12]), id="both-outside"),
        ],
    )
    @each_green
    def test_awkward_places(self, green: str, row: Tensor) -> None:
        """Inputs at the centres, a float beside them, and between."""
        case = Case(green, bandwidth=0.5 if green == "gaussian" else None)
        row = row.double()
        at = torch.cat([row, row.nextafter(row + 1), row.nextafter(row - 1), doubles(8)])
        generator = torch.Generator().manual_seed(0)
        rows = torch.stack([row, row[torch.randperm(len(row), generator=generator)]])
        for affine, shared in itertools.product((False, True), repeat=2):
            case = Case(green, affine, shared, bandwidth=case.bandwidth)
            assert_is_definition(case, with_centers(case, rows), torch.stack([at, at.flip(0)], 1))

    @pytest.mark.parametrize("green", PIECEWISE)
    @pytest.mark.parametrize("far", [1e8, -1e8])
    def test_outlying_center_without_weight_costs_no_digits(self, green: str, far: float) -> None:
        """One that is pruned away, or a relu to the right of all inputs."""
        for weight in (0.0, 1.0) if (green, far) == ("relu", 1e8) else (0.0,):
            case = Case(green)
            row = torch.cat([torch.linspace(-1, 1, 50), torch.tensor([far])]).double()
            module = with_centers(case, row[None])
            with torch.no_grad():
                module.coefficients[0, -1] = weight
            a = doubles(60, 1)
            close(module(a), case.definition(module, a))
            wanted = torch.autograd.grad(case.definition(module, a).sum(), module.parameters())
            found = torch.autograd.grad(module(a).sum(), module.parameters())
            for x, y in zip(found, wanted, strict=True):
                close(x[:, :-1], y[:, :-1])

    @each_green
    def test_order_does_not_matter(self, green: str) -> None:
        case = Case(green)
        module, a = case.random(UNITS, 12), doubles(30, UNITS).requires_grad_()
        order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
        other = copy.deepcopy(module)
        with torch.no_grad():
            other.centers.copy_(module.centers[:, order])
            other.coefficients.copy_(module.coefficients[:, order])
        close(other(a), module(a))
        first = torch.autograd.grad(module(a).sin().sum(), leaves(module, a))
        second = torch.autograd.grad(other(a).sin().sum(), leaves(other, a))
        close(second[0], first[0])
        for x, y in zip(second[1:], first[1:], strict=True):
            close(x, y[:, order])

    @pytest.mark.parametrize("kink", [0.0, -0.0, 0.3, -1.7, 1e3])
    @pytest.mark.parametrize("at", ["a", "-a"])
    def test_left_sided_at_a_kink(self, kink: float, at: str) -> None:
        """relu: 0 as torch's; abs: -1 towards the input, +1 towards the centre."""
        for green, slope in [("relu", 0.0), ("abs", -1.0)]:
            module = with_centers(Case(green), torch.tensor([[kink]], dtype=torch.float64))
            value = -kink if at == "-a" and kink == 0 else kink
            a = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
            out = module(a)
            assert out.item() == 0
            chi = module.coefficients.item()
            to_input, to_center, to_chi = torch.autograd.grad(out, leaves(module, a))
            assert to_input.item() == slope * chi
            assert to_center.item() == -slope * chi
            assert to_chi.item() == 0

    @pytest.mark.parametrize("shift", [1e3, 1e6, -1e6])
    @each_plain
    def test_far_from_the_origin(self, case: Case, shift: float) -> None:
        """As exact as the direct sum: what counts is how far inputs are from centres."""
        module = case.random(UNITS, 60)
        with torch.no_grad():
            module.centers += shift
        assert_is_definition(case, module, doubles(40, UNITS) + shift, tolerance=2e-10)

    @pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
    @each_green
    def test_far_from_the_origin_in_single_precision(self, green: str, shift: float) -> None:
        module = Case(green).random(UNITS, 60)
        with torch.no_grad():
            module.centers += shift
        assert_rounds_well(Case(green), module, doubles(400, UNITS) + shift)

    @pytest.mark.parametrize("far", [1e4, -1e4])
    @each_green
    def test_outlying_center_in_single_precision(self, green: str, far: float) -> None:
        module = Case(green).random(UNITS, 60)
        with torch.no_grad():
            module.centers[:, 7] = far
            module.coefficients[:, 7] = 0
        assert_rounds_well(Case(green), module, doubles(400, UNITS))


def assert_rounds_well(case: Case, module: KernelActivation, a: Tensor) -> None:
    """Single precision is off by a few roundings of the sums of absolute terms."""
    module, a = copy.deepcopy(module).float(), a.float().requires_grad_()
    exact, exact_a = copy.deepcopy(module).double(), a.detach().double().requires_grad_()
    weights = doubles(*a.shape, seed=3).float()
    expected = case.definition(exact, exact_a)
    wanted = torch.autograd.grad(expected, leaves(exact, exact_a), weights.double())
    out = module(a)
    found = torch.autograd.grad(out, leaves(module, a), weights)
    size = Magnitudes.of(exact, exact_a, weights.double(), case.green)
    sizes = (size.out, size.a, size.centers, size.coefficients)
    if case.green == "gaussian":  # slopes are 1 / b times as large as values
        steep = 1 / case.width(module.num_centers)
        sizes = (size.out, steep * size.a, steep * size.centers, size.coefficients)
    names = ("out", "input", "centers", "coefficients")
    eps = torch.finfo(torch.float32).eps
    for name, x, y, s in zip(names, (out, *found), (expected, *wanted), sizes, strict=True):
        assert x.dtype == torch.float32
        error = ((x.double() - y).abs() / (s + 1e-6)).max().item()
        assert error < 3 * eps, f"{name}: {error / eps:.0f} roundings"


class TestSinglePrecision:
    @pytest.mark.parametrize(("d", "rows"), [(1, 50), (100, 300), (1000, 300), (20, 20_000)])
    @each_green
    def test_rounds_well(self, green: str, d: int, rows: int) -> None:
        assert_rounds_well(Case(green), Case(green).random(UNITS, d), doubles(rows, UNITS))

    @each_green
    def test_gradients_of_many_rows(self, green: str) -> None:
        """A sum of 200,000 numbers of one sign keeps its digits."""
        case = Case(green, affine=True)
        module = case.random(1, 3).float()
        a = 0.01 * doubles(200_000, 1).float()
        exact = copy.deepcopy(module).double()
        wanted = torch.autograd.grad(case.definition(exact, a.double()).sum(), exact.parameters())
        found = torch.autograd.grad(module(a).sum(), module.parameters())
        for x, y in zip(found, wanted, strict=True):
            assert (x.double() - y).abs().max() <= 2e-5 * y.abs().max()


class TestOutsideAllCenters:
    @each_plain
    @pytest.mark.parametrize("far", [50.0, 1e4, 1e30, 1e100])
    def test_values(self, case: Case, far: float) -> None:
        module = case.random(UNITS, 20)
        a = torch.tensor([far, -far], dtype=torch.float64)[:, None].expand(-1, UNITS)
        assert_is_definition(case, module, a.clone())

    @each_plain
    @pytest.mark.parametrize("far", [1e30, -1e30])
    def test_other_rows_do_not_notice(self, case: Case, far: float) -> None:
        module = case.random(UNITS, 20)
        a = doubles(30, UNITS)
        expected = module(a)
        a[4, 1] = far
        changed = torch.zeros_like(a, dtype=torch.bool)
        changed[4, 1] = True
        assert torch.equal(module(a)[~changed], expected[~changed])

    @pytest.mark.parametrize("far", [-1e30, -INF])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_relu_is_zero_to_the_left(self, far: float, dtype: torch.dtype) -> None:
        """In the gradients as well: the others' digits stay."""
        case = Case("relu")
        module = case.random(UNITS, 20).to(dtype)
        a = doubles(30, UNITS).to(dtype)
        with_far = torch.cat([a, torch.full((2, UNITS), far, dtype=dtype)]).requires_grad_()
        out = module(with_far)
        assert (out[30:] == 0).all()
        a.requires_grad_()
        wanted = torch.autograd.grad(module(a).sum(), leaves(module, a))
        found = torch.autograd.grad(out.sum(), leaves(module, with_far))
        assert (found[0][30:] == 0).all()
        close(found[0][:30], wanted[0])
        for x, y in zip(found[1:], wanted[1:], strict=True):
            close(x, y, 1e-5 if dtype == torch.float32 else 1e-10)

    @each_plain
    def test_masked_rows(self, case: Case) -> None:
        """A huge entry whose output nobody reads changes no gradient."""
        module, a = case.random(UNITS, 20), doubles(30, UNITS)
        wanted = torch.autograd.grad(module(a).sum(), module.parameters())
        padded = torch.cat([a, torch.tensor([[1e30, -1e30, 1e20]]).double()])
        found = torch.autograd.grad(module(padded)[:30].sum(), module.parameters())
        for x, y in zip(found, wanted, strict=True):
            close(x, y)

    def test_left_of_all_affine(self) -> None:
        module = Case("relu", affine=True).random(UNITS, 5)
        out = module(torch.full((UNITS,), -INF, dtype=torch.float64))
        assert torch.equal(out, -INF * module.slope)

    def test_gaussians_vanish(self) -> None:
        module = Case("gaussian").random(UNITS, 5)
        a = torch.tensor([INF, -INF, 1e200], dtype=torch.float64)
        assert (module(a) == 0).all()
        assert (module.float()(a.float()) == 0).all()

    @pytest.mark.parametrize("green", PIECEWISE)
    def test_infinity_with_coefficients_of_one_sign(self, green: str) -> None:
        module = Case(green).random(UNITS, 5)
        with torch.no_grad():
            module.coefficients.abs_()
        assert (module(torch.full((2, UNITS), INF, dtype=torch.float64)) == INF).all()


class TestNotANumber:
    @each_plain
    @pytest.mark.parametrize("rows", [1, 6, 20_000])
    def test_in_the_input(self, case: Case, rows: int) -> None:
        module, a = case.random(UNITS, 7), doubles(rows, UNITS).requires_grad_()
        spoilt = a.detach().clone()
        spoilt[rows // 2, 1] = NAN
        spoilt.requires_grad_()
        expected, found = module(a), module(spoilt)
        at = torch.zeros(rows, UNITS, dtype=torch.bool)
        at[rows // 2, 1] = True
        assert found[at].isnan().all()
        assert torch.equal(found[~at], expected[~at])
        weights = doubles(rows, UNITS, seed=3)
        wanted = torch.autograd.grad(expected, leaves(module, a), weights)
        gradients = torch.autograd.grad(found, leaves(module, spoilt), weights)
        close(gradients[0][~at], wanted[0][~at], 1e-13)
        if not case.shared:
            for x, y in zip(gradients[1:], wanted[1:], strict=True):
                close(x[[0, 2]], y[[0, 2]], 1e-13)

    @each_green
    @pytest.mark.parametrize("normalize", [False, True])
    def test_stays_in_its_unit(self, green: str, normalize: bool) -> None:
        module = Case(green, affine=True, normalize=normalize).random(UNITS, 7)
        a = doubles(6, UNITS)
        expected = module(a)
        a[2, 1] = NAN
        close(module(a)[:, [0, 2]], expected[:, [0, 2]], 1e-13)

    @each_green
    def test_is_not_hidden(self, green: str) -> None:
        """What reads a NaN input is NaN: its coefficients' gradients."""
        module, a = Case(green).random(UNITS, 7), doubles(6, UNITS)
        a[2, 1] = NAN
        centers, chi = torch.autograd.grad(module(a).sum(), [module.centers, module.coefficients])
        assert chi[1].isnan().all() and chi[[0, 2]].isfinite().all()
        assert centers[[0, 2]].isfinite().all()

    @each_green
    @pytest.mark.parametrize("value", [NAN, INF, -INF])
    @pytest.mark.parametrize("name", ["centers", "coefficients", "slope", "intercept"])
    def test_in_a_parameter(self, green: str, value: float, name: str) -> None:
        """Other units, their gradients included, do not notice; in its unit a NaN is not hidden."""
        module, a = Case(green, affine=True).random(UNITS, 7), doubles(6, UNITS).requires_grad_()
        expected = module(a)
        wanted = torch.autograd.grad(expected.sum(), leaves(module, a))
        with torch.no_grad():
            getattr(module, name)[1].view(-1)[0] = value
        found = module(a)
        assert torch.equal(found[:, [0, 2]], expected[:, [0, 2]])
        gradients = torch.autograd.grad(found.sum(), leaves(module, a))
        close(gradients[0][:, [0, 2]], wanted[0][:, [0, 2]], 1e-13)
        for x, y in zip(gradients[1:], wanted[1:], strict=True):
            close(x[[0, 2]], y[[0, 2]], 1e-13)
        if math.isnan(value):
            reached = a[:, 1] > module.centers[1, 0]  # where a relu has its coefficient
            reads = reached if (green, name) == ("relu", "coefficients") else reached | True
            assert reads.any() and found[reads, 1].isnan().all()

    @each_plain
    def test_all_entries(self, case: Case) -> None:
        module = case.random(UNITS, 7)
        assert module(torch.full((4, UNITS), NAN, dtype=torch.float64)).isnan().all()


class TestDerivatives:
    @each_case
    def test_gradcheck(self, case: Case) -> None:
        module = case.random(2, 4, seed=5)
        if case.normalize:
            module.norm.momentum = 0.0  # the running set stays
        names, parameters = zip(*module.named_parameters(), strict=True)

        def run(a: Tensor, *values: Tensor) -> Tensor:
            state = dict(zip(names, values, strict=True))
            return torch.func.functional_call(module, state, (a,))

        a = doubles(4, 2, seed=11).requires_grad_()
        assert torch.autograd.gradcheck(run, (a, *parameters))
        assert torch.autograd.gradgradcheck(run, (a, *parameters))

    @each_case
    def test_penalty_on_the_slope(self, case: Case) -> None:
        """Second derivatives equal the direct sum's."""
        module = case.random(UNITS, 9)
        a = doubles(6, UNITS).requires_grad_()

        def penalties(out: Tensor) -> list[Tensor]:
            inputs = leaves(module, a)
            first = torch.autograd.grad(out.sin().sum(), inputs, create_graph=True)
            total = sum((g.square().sum() for g in first), out.sum())
            return [*first, *torch.autograd.grad(total, inputs)]

        for x, y in zip(penalties(module(a)), penalties(case.definition(module, a)), strict=True):
            close(x, y)

    @each_green
    def test_third_derivatives(self, green: str) -> None:
        case = Case(green, affine=True)
        module, a = case.random(UNITS, 5), doubles(4, UNITS).requires_grad_()

        def thrice(out: Tensor) -> list[Tensor]:
            inputs, found = leaves(module, a), []
            for _ in range(3):
                gradients = torch.autograd.grad(out.sin().sum(), inputs, create_graph=True)
                found += gradients
                out = torch.cat([g.flatten() for g in gradients])
            return found

        for x, y in zip(thrice(module(a)), thrice(case.definition(module, a)), strict=True):
            close(x, y)

    @each_plain
    def test_gradients_are_the_same_with_create_graph(self, case: Case) -> None:
        module, a = case.random(UNITS, 9), doubles(6, UNITS).requires_grad_()
        total = module(a).square().sum()
        kept = torch.autograd.grad(total, leaves(module, a), create_graph=True)
        for x, y in zip(kept, torch.autograd.grad(total, leaves(module, a)), strict=True):
            close(x, y, 1e-13)

    @each_plain
    def test_frozen_parts(self, case: Case) -> None:
        """Any subset of the leaves has the gradients it has together with the others."""
        module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        named = {"input": a, **dict(module.named_parameters())}
        full = torch.autograd.grad(module(a).sin().sum(), list(named.values()))
        wanted = dict(zip(named, full, strict=True))
        for wants in itertools.product([False, True], repeat=len(named)):
            for tensor, needed in zip(named.values(), wants, strict=True):
                tensor.requires_grad_(needed)
                tensor.grad = None
            out = module(a)
            assert out.requires_grad == any(wants)
            if any(wants):
                out.sin().sum().backward()
            for (name, tensor), needed in zip(named.items(), wants, strict=True):
                assert (tensor.grad is not None) == needed
                if needed:
                    close(tensor.grad, wanted[name], 1e-13)

    @each_plain
    def test_batched_gradients(self, case: Case) -> None:
        module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        seeds, inputs = doubles(4, 5, UNITS, seed=3), leaves(module, a)
        out = module(a)
        found = torch.autograd.grad(out, inputs, seeds, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(out, inputs, seed, retain_graph=True) for seed in seeds]
        for x, ys in zip(found, zip(*each, strict=True), strict=True):
            close(x, torch.stack(ys), 1e-12)

    @each_plain
    def test_checkpointed(self, case: Case) -> None:
        module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        wanted = torch.autograd.grad(module(a).sin().sum(), leaves(module, a))
        for reentrant in (False, True):
            module.zero_grad()
            a.grad = None
            checkpoint(module, a, use_reentrant=reentrant).sin().sum().backward()
            for leaf, y in zip(leaves(module, a), wanted, strict=True):
                close(leaf.grad, y, 1e-13)

    @each_plain
    def test_twice_through_one_graph(self, case: Case) -> None:
        module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        total = module(a).sin().sum()
        first = torch.autograd.grad(total, leaves(module, a), retain_graph=True)
        assert all(map(torch.equal, first, torch.autograd.grad(total, leaves(module, a))))

    @each_case
    def test_output_changed_in_place(self, case: Case) -> None:
        module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        before = a.detach().clone()
        wanted = torch.autograd.grad((2 * case.definition(module, a)).relu().sum(), (a,))
        module.train()
        out = module(a)
        out.mul_(2).relu_()
        assert torch.equal(a, before)
        close(torch.autograd.grad(out.sum(), (a,))[0], wanted[0])

    @each_plain
    @pytest.mark.parametrize("changed", ["input", "centers", "coefficients", "slope", "intercept"])
    def test_leaves_changed_in_place(self, case: Case, changed: str) -> None:
        """Between forward and backward: torch's error or the right gradients."""
        module, leaf = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        if getattr(module, changed, leaf) is None:
            return
        wanted = torch.autograd.grad(module(leaf).sin().sum(), leaves(module, leaf))
        a = leaf * 1
        total = module(a).sin().sum()
        with torch.no_grad():
            (a if changed == "input" else getattr(module, changed)).mul_(-3)
        try:
            found = torch.autograd.grad(total, leaves(module, leaf))
        except RuntimeError as error:
            assert "inplace operation" in str(error)  # noqa: PT017
            return
        for x, y in zip(found, wanted, strict=True):
            close(x, y)

    @each_case
    def test_without_gradients(self, case: Case) -> None:
        module, a = case.random(UNITS, 6).eval(), doubles(5, UNITS)
        expected = module(a)
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                out = module(a)
                assert not out.requires_grad
                assert torch.equal(out, expected.detach())


class TestTransforms:
    """torch.func on the module as a function of its parameters and its input."""

    @each_case
    def test_functional_call(self, case: Case) -> None:
        module, a = case.random(UNITS, 6).eval(), doubles(5, UNITS)
        other = case.random(UNITS, 6, seed=8).eval()
        state = {**dict(other.named_parameters()), **dict(other.named_buffers())}
        found = torch.func.functional_call(module, state, (a,))
        assert torch.equal(found, other(a))

    @each_case
    def test_vmap_over_inputs(self, case: Case) -> None:
        module = case.random(UNITS, 6).eval()
        a = doubles(4, 5, UNITS)
        expected = torch.stack([module(b) for b in a])
        close(torch.func.vmap(module)(a), expected, 1e-13)
        close(torch.func.vmap(module, in_dims=1)(a), expected.transpose(0, 1), 1e-13)
        close(torch.func.vmap(torch.func.vmap(module))(a), expected, 1e-13)
        close(torch.func.vmap(module, chunk_size=2)(a), expected, 1e-13)
        close(torch.func.vmap(module, in_dims=2, out_dims=2)(a.unsqueeze(2)).squeeze(2), expected)

    @each_case
    def test_vmap_over_modules(self, case: Case) -> None:
        modules = [case.random(UNITS, 6, seed).eval() for seed in range(3)]
        parameters, buffers = torch.func.stack_module_state(modules)
        a = doubles(3, 5, UNITS)

        def call(parameters: Any, buffers: Any, a: Tensor) -> Tensor:
            return torch.func.functional_call(modules[0], (parameters, buffers), (a,))

        together = torch.func.vmap(call)(parameters, buffers, a)
        close(together, torch.stack([m(b) for m, b in zip(modules, a, strict=True)]), 1e-13)
        one = torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, a[0])
        close(one, torch.stack([m(a[0]) for m in modules]), 1e-13)

    @each_case
    def test_per_sample_gradients(self, case: Case) -> None:
        module, a = case.random(UNITS, 6).eval(), doubles(7, UNITS)
        parameters = {k: v.detach() for k, v in module.named_parameters()}

        def loss(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
            return torch.func.functional_call(module, parameters, (row,)).sin().sum()

        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, a)
        for i, row in enumerate(a):
            total = case.definition(module, row).sin().sum()
            wanted = torch.autograd.grad(total, list(module.parameters()))
            for name, y in zip(found, wanted, strict=True):
                close(found[name][i], y)

    @each_case
    def test_jacobians(self, case: Case) -> None:
        module, a = case.random(UNITS, 6).eval(), doubles(5, UNITS)
        expected = torch.autograd.functional.jacobian(lambda t: case.definition(module, t), a)
        close(torch.func.jacrev(module)(a), expected)
        close(torch.func.jacfwd(module)(a), expected)
        close(torch.autograd.functional.jacobian(module, a, vectorize=True), expected)

    @each_case
    def test_jvp(self, case: Case) -> None:
        """Along every leaf at once, against the backward pass of the direct sum."""
        module, a = case.random(UNITS, 6).eval(), doubles(5, UNITS)
        names = ["input", *(k for k, _ in module.named_parameters())]
        values = [a, *(p.detach() for p in module.parameters())]
        tangents = [doubles(*v.shape, seed=20 + i) for i, v in enumerate(values)]

        def call(*given: Tensor) -> Tensor:
            state = dict(zip(names[1:], given[1:], strict=True))
            return torch.func.functional_call(module, state, (given[0],))

        out, found = torch.func.jvp(call, tuple(values), tuple(tangents))
        close(out, call(*values), 1e-13)
        a.requires_grad_()
        expected = case.definition(module, a)
        for index in itertools.product(range(5), range(UNITS)):
            grads = torch.autograd.grad(expected[index], leaves(module, a), retain_graph=True)
            along = sum((g * t).sum() for g, t in zip(grads, tangents, strict=True))
            close(found[index], along)

    @each_plain
    def test_hessian(self, case: Case) -> None:
        module, a = case.random(2, 4), doubles(3, 2)

        def total(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
            return lambda t: f(t).sin().sum()

        expected = torch.autograd.functional.hessian(total(lambda t: case.definition(module, t)), a)
        close(torch.func.hessian(total(module))(a), expected)
        close(torch.func.jacrev(torch.func.jacrev(total(module)))(a), expected)


class TestStart:
    @pytest.fixture(autouse=True)
    def _double(self) -> Iterator[None]:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(torch.float32)

    @each_green
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize(("low", "high"), [(-2, 2), (0.5, 3), (-7.5, -1), (-1e3, 1e3)])
    def test_centers(self, green: str, shared: bool, low: float, high: float) -> None:
        for d in (1, 2, 5, 100):
            module = KernelActivation(4, d, green, init_range=(low, high), shared=shared)
            assert module.centers.shape == (1 if shared else 4, d)
            row = torch.linspace(low, high, d) if d > 1 else torch.tensor([(low + high) / 2])
            close(module.centers.detach(), row.expand_as(module.centers), 1e-14)

    def test_parameters(self) -> None:
        for affine, shared, normalize in itertools.product((False, True), repeat=3):
            module = KernelActivation(4, 7, affine=affine, shared=shared, normalize=normalize)
            rows = 1 if shared else 4
            shapes = {"centers": (rows, 7), "coefficients": (rows, 7)}
            shapes |= {"slope": (rows,), "intercept": (rows,)} if affine else {}
            shapes |= {"norm.weight": (4,), "norm.bias": (4,)} if normalize else {}
            assert {k: tuple(v.shape) for k, v in module.named_parameters()} == shapes
            assert all(p.requires_grad for p in module.parameters())
            buffers = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
            assert {k for k, _ in module.named_buffers()} == (buffers if normalize else set())
            assert isinstance(module.norm, nn.BatchNorm1d) if normalize else module.norm is None
            if not affine:
                assert module.slope is None and module.intercept is None

    @each_green
    @pytest.mark.parametrize("d", [1, 20, 100, 1000])
    def test_random(self, green: str, d: int) -> None:
        """Zero mean, values and slopes of size 1 at most, another function in each unit, the same
        for a seed."""
        torch.manual_seed(3)
        module = KernelActivation(200, d, green)
        chi = module.coefficients.detach().clone()
        assert abs(chi.mean()) < 4 * chi.std() / math.sqrt(chi.numel())
        assert chi.std() < 1.5
        a = torch.linspace(-2, 2, 4 * d + 1)[:, None].expand(-1, 200).requires_grad_()
        out = module(a)
        (slopes,) = torch.autograd.grad(out.sum(), a)
        assert 0.5 < max(out.square().mean(), slopes.square().mean()) < 1.6
        assert (out[:, :-1] - out[:, 1:]).abs().max(0).values.min() > 0
        torch.manual_seed(3)
        assert torch.equal(KernelActivation(200, d, green).coefficients, module.coefficients)
        module.reset_parameters()
        assert not torch.equal(chi, module.coefficients)

    @pytest.mark.parametrize("d", [2, 3, 10, 101])
    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    @pytest.mark.parametrize("green", PIECEWISE)
    @pytest.mark.parametrize("shared", [False, True])
    def test_piecewise(self, green: str, init: str, d: int, shared: bool) -> None:
        """The function at the centres, straight lines between them, its tangents beyond."""
        for low, high in [(-2, 2), (-1, 3), (0.5, 3), (-5, -1)]:
            for affine in (False, True):
                if green == "relu" and not affine and (init != "relu" or low > 0):
                    continue
                case = Case(green, affine, shared, init=init, init_range=(low, high))
                module, t = case.module(2, d), torch.linspace(low - 4, high + 4, 301)
                if green == "abs" and not affine:
                    t = t[(t >= low) & (t <= high)]
                expected = interpolant(init, t, torch.linspace(low, high, d))
                close(module(t[:, None].expand(-1, 2)), expected[:, None].expand(-1, 2))

    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    def test_abs_goes_on_by_itself(self, init: str) -> None:
        """Its outer slopes are opposite."""
        module = KernelActivation(1, 7, "abs", init=init)
        left, right = module(torch.tensor([[-4.0], [-3.0]])), module(torch.tensor([[3.0], [4.0]]))
        close(left[1] - left[0], right[0] - right[1])

    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    @pytest.mark.parametrize("green", PIECEWISE)
    def test_one_center(self, green: str, init: str) -> None:
        for low, high in [(-2, 2), (-1, 3), (-3, 1)]:
            module = KernelActivation(2, 1, green, init=init, init_range=(low, high), affine=True)
            middle = torch.tensor((low + high) / 2)
            close(module(middle.expand(2)), FUNCTIONS[init](middle).expand(2))
        a = doubles(6, 2)
        if init == "identity":
            close(module(a), a)
        module = KernelActivation(2, 1, "relu", init="relu", init_range=(-1, 1))
        close(module(a), a.relu())

    @pytest.mark.parametrize("d", [3, 5, 21, 101])
    def test_relu_is_relu(self, d: int) -> None:
        a = doubles(50, 2)
        for affine in (False, True):
            close(KernelActivation(2, d, init="relu", affine=affine)(a), a.relu())

    @pytest.mark.parametrize("d", [2, 3, 10, 100])
    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    def test_gaussians_fit_by_least_squares(self, init: str, d: int) -> None:
        for affine, width, (low, high) in itertools.product(
            (False, True), (None, 1.5), ((-2, 2), (-1, 3))
        ):
            case = Case("gaussian", affine, bandwidth=width, init=init, init_range=(low, high))
            t = torch.linspace(low, high, 2001)
            module = case.module(2, d)
            found = (module(t[:, None].expand(-1, 2)) - FUNCTIONS[init](t)[:, None]).detach()
            best = least_squares_error(init, torch.linspace(low, high, d), case.width(d), affine)
            assert found.square().mean().sqrt() < 1.5 * best + 0.01

    @pytest.mark.parametrize("bandwidth", [None, 0.3, 2.0, 10.0])
    @pytest.mark.parametrize("init", ["identity", "tanh"])
    def test_gaussians_in_single_precision(self, init: str, bandwidth: float | None) -> None:
        """However alike the gaussians are, their coefficients do not drown the function."""
        torch.set_default_dtype(torch.float32)
        for affine in (False, True):
            module = KernelActivation(
                1, 100, "gaussian", init=init, bandwidth=bandwidth, affine=affine
            )
            t = torch.linspace(-2, 2, 301)[:, None]
            assert (module(t) - FUNCTIONS[init](t)).abs().max() < 0.1

    @pytest.mark.parametrize("init", ["random", "identity", "tanh", "relu"])
    @each_green
    def test_reset(self, green: str, init: str) -> None:
        """Back to the start, in the precision that the module has by now."""
        torch.set_default_dtype(torch.float32)
        case = Case(green, affine=True, normalize=True, init=init)
        module = case.module(UNITS, 11).double()
        before = {k: v.clone() for k, v in module.state_dict().items()}
        module(doubles(20, UNITS))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(3.0)
        module.reset_parameters()
        for name, value in module.state_dict().items():
            assert value.dtype == before[name].dtype
            if (name, init) != ("coefficients", "random"):
                torch.testing.assert_close(value, before[name], rtol=1e-4, atol=1e-5)
        if init != "random" and green != "gaussian":
            module.norm = None
            t = doubles(40, 1)
            row = torch.linspace(-2, 2, 11, dtype=torch.float64)
            close(module(t.expand(-1, UNITS)), interpolant(init, t, row).expand(-1, UNITS))

    def test_single_precision(self) -> None:
        torch.set_default_dtype(torch.float32)
        for green, init in itertools.product(PIECEWISE, ["identity", "tanh", "relu"]):
            module = KernelActivation(1, 1000, green, init=init, affine=True)
            assert all(p.dtype == torch.float32 for p in module.parameters())
            t = torch.linspace(-5, 5, 301)
            expected = interpolant(init, t.double(), torch.linspace(-2, 2, 1000).double())
            assert (module(t[:, None])[:, 0].double() - expected).abs().max() < 1e-4

    def test_bandwidth_is_that_of_the_start(self) -> None:
        """Centres that move leave it, and it survives copies."""
        case = Case("gaussian", init_range=(-1, 4))
        module = case.random(UNITS, 6)
        for other in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            with torch.no_grad():
                other.centers *= 3
            assert_is_definition(case, other, doubles(7, UNITS))

    @pytest.mark.parametrize("shared", [False, True])
    def test_l1(self, shared: bool) -> None:
        module = Case(shared=shared).random(UNITS, 6)
        with torch.no_grad():
            module.coefficients[0, 2] = 0
        value = module.l1()
        assert value.shape == ()
        chi = module.coefficients.detach()
        close(value.detach(), chi.abs().sum())
        value.backward()
        assert torch.equal(module.coefficients.grad, chi.sign())
        assert module.centers.grad is None


class TestNormalization:
    def test_training_then_evaluation(self) -> None:
        """Batch statistics and one running set, as torch's own layer before f."""
        module = Case(normalize=True).random(UNITS, 9)
        norm, f = copy.deepcopy(module.norm), copy.deepcopy(module)
        f.norm = None
        for shape in [(6, UNITS), (2, 3, UNITS), (1, 5, UNITS), (3, 1, 2, UNITS)]:
            a = doubles(*shape)
            close(module(a), f(norm(a.flatten(0, -2)).view(shape)), 1e-12)
            for (name, x), y in zip(module.norm.named_buffers(), norm.buffers(), strict=True):
                torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12, msg=name)
        assert module.norm.num_batches_tracked == 4
        module.eval()
        norm.eval()
        kept = copy.deepcopy(module.state_dict())
        for shape in [(6, UNITS), (UNITS,), (1, UNITS), (2, 0, UNITS)]:
            a = doubles(*shape)
            close(module(a), f(norm(a.view(-1, UNITS)).view(shape)), 1e-12)
        assert all(torch.equal(v, kept[k]) for k, v in module.state_dict().items())

    def test_statistics(self) -> None:
        """Biased variance for the batch, unbiased for the running set, momentum 0.1."""
        module = KernelActivation(2, 5, normalize=True).double()
        a = doubles(2, 4, 2)
        rows = a.view(8, 2)
        out = module(a)
        f = copy.deepcopy(module)
        f.norm = None
        deviation = (rows.var(0, unbiased=False) + 1e-5).sqrt()
        close(out, f(((rows - rows.mean(0)) / deviation).view(2, 4, 2)))
        close(module.norm.running_mean, 0.1 * rows.mean(0))
        close(module.norm.running_var, 0.9 + 0.1 * rows.var(0))

    @pytest.mark.parametrize("shape", [(UNITS,), (1, UNITS), (1, 1, UNITS)])
    def test_one_row_in_training(self, shape: tuple[int, ...]) -> None:
        module = Case(normalize=True).random(UNITS, 4)
        kept = copy.deepcopy(module.norm)
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            module(doubles(*shape))
        assert torch.equal(module.norm.running_mean, kept.running_mean)
        assert torch.equal(module.norm.running_var, kept.running_var)

    @pytest.mark.parametrize("shape", [(0, UNITS), (2, 0, UNITS)])
    def test_empty_batch_updates_nothing(self, shape: tuple[int, ...]) -> None:
        module = Case(normalize=True).random(UNITS, 4)
        kept = copy.deepcopy(module.state_dict())
        a = doubles(*shape).requires_grad_()
        out = module(a)
        assert out.shape == shape
        out.sum().backward()
        assert a.grad.shape == shape
        assert all(torch.equal(v, kept[k]) for k, v in module.state_dict().items())

    @each_green
    def test_is_a_batch_norm_before(self, green: str) -> None:
        module = Case(green, affine=True, normalize=True).random(UNITS, 6)
        f = copy.deepcopy(module)
        f.norm = None
        sequence = nn.Sequential(copy.deepcopy(module.norm), f)
        a = doubles(10, UNITS)
        close(module(a), sequence(a), 1e-12)
        close(module.eval()(a), sequence.eval()(a), 1e-12)


class TestPrecisions:
    @each_plain
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_is_computed_in_single(self, case: Case, dtype: torch.dtype) -> None:
        module = case.random(UNITS, 50).to(dtype)
        a = doubles(30, UNITS).to(dtype).requires_grad_()
        out = module(a)
        single, b = copy.deepcopy(module).float(), a.detach().float().requires_grad_()
        expected = single(b)
        assert out.dtype == dtype
        assert torch.equal(out, expected.to(dtype))
        weights = doubles(30, UNITS).to(dtype)
        found = torch.autograd.grad(out, leaves(module, a), weights)
        wanted = torch.autograd.grad(expected, leaves(single, b), weights.float())
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == dtype
            torch.testing.assert_close(x, y.to(dtype), rtol=1e-2, atol=1e-2)

    @each_case
    def test_common_dtype(self, case: Case) -> None:
        kinds = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
        for inputs, parameters in itertools.product(kinds, kinds):
            module = case.random(UNITS, 5).to(parameters)
            a = doubles(6, UNITS).to(inputs).requires_grad_()
            common = torch.promote_types(inputs, parameters)
            for training in (True, False):
                out = module.train(training)(a)
                assert out.dtype == common, (inputs, parameters)
                gradients = torch.autograd.grad(out.sum(), leaves(module, a))
                assert [g.dtype for g in gradients] == [t.dtype for t in leaves(module, a)]

    @each_green
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("training", [False, True])
    def test_half_input_of_a_normalized_layer(
        self, green: str, dtype: torch.dtype, training: bool
    ) -> None:
        """Nothing but the input is rounded."""
        module = Case(green, normalize=True).random(UNITS, 20).float().train(training)
        a = doubles(30, UNITS).to(dtype)
        expected = copy.deepcopy(module)(a.float())
        torch.testing.assert_close(module(a), expected, rtol=1e-5, atol=1e-5)

    @each_case
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_autocast(self, case: Case, dtype: torch.dtype) -> None:
        """At least single precision out; the input is all that is rounded."""
        module = case.random(UNITS, 20).float().eval()
        a = doubles(30, UNITS).float()
        rounded = a.to(dtype)
        plain, expected = module(a), module(rounded.float())
        with torch.autocast("cpu", dtype=dtype):
            torch.testing.assert_close(module(a), plain)
            out = module(rounded)
            torch.testing.assert_close(out, expected)
            assert copy.deepcopy(module).double()(a.double()).dtype == torch.float64
            half = copy.deepcopy(module).to(dtype)(rounded)
        assert half.dtype == torch.float32
        wanted = torch.autograd.grad(expected.sum(), list(module.parameters()))
        for inside in (False, True):
            with torch.autocast("cpu", dtype=dtype, enabled=inside):
                found = torch.autograd.grad(out.sum(), list(module.parameters()), retain_graph=True)
            for x, y in zip(found, wanted, strict=True):
                torch.testing.assert_close(x, y)

    def test_autocast_network(self) -> None:
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(4, 6), KernelActivation(6, 20, normalize=True), nn.Linear(6, 1)
        )
        a = torch.randn(30, 4)
        expected = network(a)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = network(a)
            loss = (out.float() - expected.detach()).square().mean()
        assert loss < 1e-2
        out.float().sum().backward()
        for parameter in network.parameters():
            assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


def graph_count(run: Callable[[Any], None]) -> int:
    """How many graphs a compiled function needed."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    run(counter)
    return counter.frame_count


class TestCompiles:
    @pytest.mark.parametrize(
        "case",
        [Case("relu", affine=True), Case("abs", shared=True), Case("gaussian"),
         Case("relu", normalize=True)],
        ids=str,
    )  # fmt: skip
    def test_one_graph_for_all_batches(self, case: Case) -> None:
        module = case.random(UNITS, 6)
        other = copy.deepcopy(module)

        def run(backend: Any) -> None:
            compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
            for rows in (5, 9, 33, 2, 600):
                a = doubles(rows, UNITS).requires_grad_()
                expected, found = other(a), compiled(a)
                close(found, expected)
                weights = doubles(rows, UNITS, seed=3)
                wanted = torch.autograd.grad(expected, leaves(other, a), weights)
                gradients = torch.autograd.grad(found, leaves(module, a), weights)
                for x, y in zip(gradients, wanted, strict=True):
                    close(x, y)

        assert graph_count(run) <= (2 if case.normalize else 1)  # torch's own norm needs 2

    @pytest.mark.parametrize("case", [Case("relu"), Case("gaussian", affine=True)], ids=str)
    def test_other_shapes(self, case: Case) -> None:
        torch._dynamo.reset()
        module = case.random(UNITS, 6)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        for shape in [(UNITS,), (2, 3, UNITS), (4, 5, UNITS), (1, UNITS), (0, UNITS)]:
            assert_is_definition(case, compiled, doubles(*shape))
        with torch.no_grad():
            close(compiled(doubles(7, UNITS)), module(doubles(7, UNITS)))

    def test_inside_a_network(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(4, UNITS), KernelActivation(UNITS, 6), nn.Linear(UNITS, 1)
        ).double()
        compiled = torch.compile(network, fullgraph=True, dynamic=True)  # to machine code
        for rows in (5, 9):
            a = doubles(rows, 4)
            close(compiled(a), network(a))
            wanted = torch.autograd.grad(network(a).sum(), list(network.parameters()))
            found = torch.autograd.grad(compiled(a).sum(), list(network.parameters()))
            for x, y in zip(found, wanted, strict=True):
                close(x, y)


class TestInNetworks:
    def test_sequential(self) -> None:
        """After one map, before the next, with the numbers of the parts."""
        torch.manual_seed(0)
        case = Case("abs", affine=True)
        f = case.random(5, 8)
        first, last = nn.Linear(4, 5).double(), nn.Linear(5, 2).double()
        network = nn.Sequential(first, f, last)
        x = doubles(9, 4)
        expected = last(case.definition(f, first(x)))
        close(network(x), expected)
        wanted = torch.autograd.grad(expected.sin().sum(), list(network.parameters()))
        found = torch.autograd.grad(network(x).sin().sum(), list(network.parameters()))
        for x, y in zip(found, wanted, strict=True):
            close(x, y)

    @pytest.mark.parametrize("model", [GIN, GCN])
    def test_graph_models(self, model: type[nn.Module]) -> None:
        """At its relu start, the numbers and gradients of the network with relu."""
        graph = random_graph(1)

        def build(act: Any) -> nn.Module:
            torch.manual_seed(0)
            return model(4, 6, num_layers=3, act=act, norm="batch_norm").double()

        start = KernelActivation(6, 21, init="relu").double()
        start.reset_parameters()
        network, plain = build(start), build("relu")
        found, expected = (m(graph.x, graph.edge_index) for m in (network, plain))
        close(found, expected)
        named = dict(network.named_parameters())
        found.sin().sum().backward()
        expected.sin().sum().backward()
        for name, parameter in plain.named_parameters():
            close(named[name].grad, parameter.grad, 1e-9)
        assert any(g.grad.abs().max() > 0 for k, g in named.items() if k.endswith("coefficients"))

    def test_mlp(self) -> None:
        def build(act: Any) -> nn.Module:
            torch.manual_seed(0)
            return MLP([4, 6, 6, 2], act=act).double().eval()

        identity = KernelActivation(6, 10, init="identity", affine=True).double()
        identity.reset_parameters()
        close(build(identity)(doubles(9, 4)), build(None)(doubles(9, 4)))

    @pytest.mark.parametrize("layer", [RandomWalkConv, WLKernelConv])
    def test_our_layers(self, layer: type[nn.Module]) -> None:
        graph = random_graph(2)
        sizes = (4, 4) if layer is RandomWalkConv else (4,)

        def build(act: Any) -> nn.Module:
            torch.manual_seed(0)
            return layer(*sizes, order=3, act=act, edge_dim=3).double()

        start = KernelActivation(4, 21, init="relu").double()
        start.reset_parameters()
        inputs = (graph.x, graph.edge_index, graph.edge_attr)
        network, plain = build(start), build("relu")

        def total(module: nn.Module) -> Tensor:
            states = {"return_states": True} if layer is WLKernelConv else {}
            out = module(*inputs, **states)
            return sum(t.sin().sum() for t in (out if isinstance(out, tuple) else (out,)))

        close(total(network), total(plain))
        named = dict(network.named_parameters())
        total(network).backward()
        total(plain).backward()
        for name, parameter in plain.named_parameters():
            close(named[name].grad, parameter.grad)
        learned = [v for k, v in named.items() if k.endswith("coefficients")]
        assert learned and learned[0].grad.abs().max() > 0

    def test_learns(self) -> None:
        """Centres and coefficients both move, and fit what relu alone cannot."""
        torch.manual_seed(0)
        module = KernelActivation(1, 20).double()
        before = {k: v.detach().clone() for k, v in module.named_parameters()}
        optimizer = torch.optim.Adam(module.parameters(), 0.02)
        a = torch.linspace(-2, 2, 100, dtype=torch.float64)[:, None]
        first = (module(a) - (3 * a).sin()).square().mean().item()
        for _ in range(400):
            optimizer.zero_grad()
            loss = (module(a) - (3 * a).sin()).square().mean()
            loss.backward()
            optimizer.step()
        assert loss < 0.2 * first
        for name, parameter in module.named_parameters():
            assert (parameter - before[name]).abs().max() > 0.01


class TestIsAModule:
    @each_case
    def test_copies(self, case: Case) -> None:
        module, a = case.random(UNITS, 6).eval(), doubles(5, UNITS)
        expected = module(a)
        buffer = io.BytesIO()
        torch.save(module.state_dict(), buffer)
        buffer.seek(0)
        other = case.module(UNITS, 6).double().eval()
        other.load_state_dict(torch.load(buffer, weights_only=True))
        for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
            assert torch.equal(twin(a), expected)
            assert repr(twin) == repr(module)
            with torch.no_grad():
                twin.coefficients.zero_()  # nothing is shared with the first
            assert torch.equal(module(a), expected)

    def test_copied_after_a_backward_pass(self) -> None:
        module, a = Case().random(UNITS, 6), doubles(5, UNITS)
        module(a).sum().backward()
        twin = pickle.loads(pickle.dumps(copy.deepcopy(module)))
        assert torch.equal(twin(a), module(a))

    def test_new_parameters_are_seen(self) -> None:
        """Nothing is kept from one call to the next."""
        case, a = Case(), doubles(5, UNITS)
        module = case.random(UNITS, 6).eval()
        module(a)
        for change in (
            lambda m: m.centers.data.copy_(doubles(UNITS, 6, seed=9)),
            lambda m: m.coefficients.data.mul_(2),
            lambda m: m.load_state_dict(case.random(UNITS, 6, seed=4).state_dict()),
            lambda m: setattr(m, "centers", nn.Parameter(doubles(UNITS, 6, seed=5))),
        ):
            with torch.no_grad():
                change(module)
            assert_is_definition(case, module, a)

    def test_hooks(self) -> None:
        module, a = Case().random(UNITS, 6), doubles(5, UNITS).requires_grad_()
        expected = module(a).detach()
        seen: list[str] = []
        handles = [
            module.register_forward_pre_hook(lambda m, args: (2 * args[0],)),
            module.register_forward_hook(lambda m, args, out: out + 1),
            module.register_full_backward_hook(lambda m, *grads: seen.append("module")),
            module.centers.register_hook(lambda g: seen.append("centers")),
            module.coefficients.register_post_accumulate_grad_hook(lambda p: seen.append("chi")),
        ]
        out = module(a / 2)
        close(out.detach(), expected + 1, 1e-13)
        out.sum().backward()
        assert sorted(seen) == ["centers", "chi", "module"]
        for handle in handles:
            handle.remove()

    @each_plain
    def test_parametrizations(self, case: Case) -> None:
        """Centres from increments, coefficients through tanh: gradients reach the originals."""

        class Increments(nn.Module):
            def forward(self, t: Tensor) -> Tensor:
                return t[:, :1] + nn.functional.softplus(t).cumsum(1)

        class Bounded(nn.Module):
            def forward(self, t: Tensor) -> Tensor:
                return t.tanh()

        module, a = case.random(UNITS, 6), doubles(5, UNITS)
        parametrize.register_parametrization(module, "centers", Increments())
        parametrize.register_parametrization(module, "coefficients", Bounded())
        assert_is_definition(case, module, a)
        close(module.l1(), module.coefficients.abs().sum())

    def test_pruned(self) -> None:
        case = Case("abs")
        module = case.random(UNITS, 10)
        prune.l1_unstructured(module, "coefficients", amount=0.5)
        assert_is_definition(case, module, doubles(5, UNITS))
        assert (module.coefficients == 0).sum() == 15
        close(module.l1(), module.coefficients.abs().sum())

    def test_meta_device(self) -> None:
        with torch.device("meta"):
            module = KernelActivation(UNITS, 6, init="tanh", affine=True)
        assert module(torch.empty(5, UNITS, device="meta")).shape == (5, UNITS)
        module = module.to_empty(device="cpu")
        module.reset_parameters()
        t = torch.linspace(-5, 5, 30)
        expected = interpolant("tanh", t, torch.linspace(-2, 2, 6))
        close(module(t[:, None].expand(-1, UNITS))[:, 0], expected, 1e-5)

    def test_repr(self) -> None:
        plain = repr(KernelActivation(20))
        assert plain.startswith("KernelActivation(20, num_centers=100, green='relu'")
        for options in (
            {"init": "relu"}, {"init_range": (-3, 1)}, {"affine": True}, {"shared": True},
            {"normalize": True}, {"green": "gaussian", "bandwidth": 0.5},
        ):  # fmt: skip
            text = repr(KernelActivation(20, 50, **options))
            assert text.startswith("KernelActivation(20, num_centers=50, green=")
            for name, value in options.items():
                assert name == "green" or name not in plain
                shown = [f"{name}={value!r}", f"{name}=({', '.join(map(str, map(float, value)))})"
                         if isinstance(value, tuple) else ""]  # fmt: skip
                assert any(s and s in text for s in shown), text


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returned."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in torch.utils._pytree.tree_leaves(out):
            if isinstance(t, Tensor):
                stored = t.untyped_storage().nbytes() // t.element_size()
                self.numel = max(self.numel, stored)
        return out


def peak_bytes(run: Callable[[], None]) -> int:
    """The most memory that torch's allocator held at once, as its profiler saw it."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    held = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


class TestMemory:
    """No tensor of rows x units x centres, forward or backward."""

    ROWS, BLOCK = 20_000, 8

    def setup(self, case: Case, d: int) -> Callable[[], None]:
        module = case.random(self.BLOCK, d).float()
        a = doubles(self.ROWS, self.BLOCK).float().requires_grad_()
        return lambda: module(a).sum().backward()

    @pytest.mark.parametrize(
        "case", [*(Case(green) for green in GREENS), Case(shared=True)], ids=str
    )
    def test_largest_tensor(self, case: Case) -> None:
        run = self.setup(case, 300)
        with LargestTensor() as seen:
            run()
        assert 0 < seen.numel <= 4 * self.ROWS * self.BLOCK

    @pytest.mark.parametrize(
        "case", [*(Case(green) for green in GREENS), Case(shared=True)], ids=str
    )
    def test_peak_does_not_grow_with_centers(self, case: Case) -> None:
        few, many = (peak_bytes(self.setup(case, d)) for d in (10, 300))
        inputs = 4 * self.ROWS * self.BLOCK
        assert many > inputs  # the profiler saw it
        assert many <= 1.1 * few + 100 * 4 * self.BLOCK * 300
        assert many <= 40 * inputs

    @each_green
    def test_what_the_backward_pass_keeps(self, green: str) -> None:
        module = Case(green).random(self.BLOCK, 300).float()
        a = doubles(self.ROWS, self.BLOCK).float().requires_grad_()
        kept: dict[int, int] = {}

        def pack(t: Tensor) -> Tensor:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = module(a)
        assert sum(kept.values()) <= 6 * 4 * a.numel() + 40 * 4 * module.centers.numel()
        assert out.shape == a.shape


class TestErrors:
    @pytest.mark.parametrize("value", [0, -1, 2.5, "3", None, True, [3]])
    @pytest.mark.parametrize("name", ["num_units", "num_centers"])
    def test_counts(self, name: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"{name}.*{_escaped(value)}"):
            KernelActivation(**{"num_units": 3, name: value})

    @pytest.mark.parametrize("value", ["tanh", "ReLU", "", None, 3, ["relu"], torch.relu])
    def test_green(self, value: Any) -> None:
        with pytest.raises(ValueError, match=r"green.*'gaussian'"):
            KernelActivation(3, green=value)

    @pytest.mark.parametrize("value", ["zeros", "Relu", "", None, 3, ["relu"]])
    def test_init(self, value: Any) -> None:
        with pytest.raises(ValueError, match=r"init.*'identity'"):
            KernelActivation(3, init=value)

    @pytest.mark.parametrize(
        "value",
        [(2, -2), (1, 1), (0, INF), (-INF, 0), (NAN, 1), (0, NAN), (1,), (1, 2, 3), (), 3, None,
         "ab", ("a", "b"), (None, 1)],
        ids=str,
    )  # fmt: skip
    def test_init_range(self, value: Any) -> None:
        with pytest.raises(ValueError, match=r"init_range"):
            KernelActivation(3, init_range=value)

    def test_init_range_forms(self) -> None:
        for value in [(-1, 1), [-1, 1], (-1.0, 1.0)]:
            module = KernelActivation(3, 5, init_range=value)
            close(module.centers[0].detach(), torch.linspace(-1, 1, 5), 1e-6)

    @pytest.mark.parametrize("value", [0, -1.0, INF, NAN, "1", [1.0]])
    def test_bandwidth(self, value: Any) -> None:
        with pytest.raises(ValueError, match=f"bandwidth.*{_escaped(value)}"):
            KernelActivation(3, green="gaussian", bandwidth=value)

    @pytest.mark.parametrize("green", PIECEWISE)
    def test_bandwidth_without_gaussians(self, green: str) -> None:
        with pytest.raises(ValueError, match=r"bandwidth.*0\.5.*"):
            KernelActivation(3, green=green, bandwidth=0.5)

    @pytest.mark.parametrize("d", [1, 100])
    def test_starts_that_need_the_affine_part(self, d: int) -> None:
        for init in ("identity", "tanh"):
            with pytest.raises(ValueError, match=rf"init='{init}'.*affine"):
                KernelActivation(3, d, init=init)
            KernelActivation(3, d, init=init, affine=True)
        with pytest.raises(ValueError, match=r"init='relu'.*init_range"):
            KernelActivation(3, d, init="relu", init_range=(0.5, 2))
        KernelActivation(3, d, init="relu", init_range=(0.5, 2), affine=True)
        KernelActivation(3, d, init="relu", init_range=(0, 2))

    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    def test_one_absolute_value(self, init: str) -> None:
        with pytest.raises(ValueError, match=r"num_centers=1"):
            KernelActivation(3, 1, "abs", init=init)
        KernelActivation(3, 1, "abs", init=init, affine=True)
        KernelActivation(3, 1, "abs")

    @each_case
    def test_last_dimension(self, case: Case) -> None:
        """Where 1 unit or 1 shared row could broadcast as well."""
        module = case.module(UNITS, 4)
        for shape in [(), (2,), (4,), (1,), (3, 1), (3, 4), (3, 0), (0,), (0, 4)]:
            with pytest.raises(ValueError, match=r"num_units=3"):
                module(torch.zeros(shape))

    @each_green
    def test_one_unit_does_not_broadcast(self, green: str) -> None:
        with pytest.raises(ValueError, match=r"1"):
            KernelActivation(1, 4, green)(torch.zeros(5, 2))

    @pytest.mark.parametrize(
        "dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
    )
    @pytest.mark.parametrize("normalize", [False, True])
    def test_dtype(self, dtype: torch.dtype, normalize: bool) -> None:
        with pytest.raises(ValueError, match=str(dtype)):
            KernelActivation(3, 4, normalize=normalize)(torch.ones(5, 3, dtype=dtype))


def _escaped(value: Any) -> str:
    return "".join(f"\\{c}" if c in "[]().+" else c for c in repr(value))
