"""KernelActivation equals the direct sum of its terms, for all inputs and in all kinds of use."""

from __future__ import annotations

import copy
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN
from tests.covering import covering
from tests.nn.activation_equations import (
    GREENS,
    Case,
    assert_is_definition,
    close,
    interpolant,
    least_squares_error,
    magnitudes,
)
from tests.sequence.texts import pointwise

UNITS = 3
TWO: dict[str, Any] = {"green": GREENS, "affine": [False, True], "shared": [False, True]}
PLAIN = [Case(**row) for row in covering(2, **TWO)]
SOME = [Case(**row) for row in covering(2, **TWO, normalize=[False, True])]
SIZES = covering(3, **TWO, normalize=[False, True], d=[1, 7, 100])
PIECEWISE = ("relu", "abs")
NAN, INF = math.nan, math.inf

each_case = pytest.mark.parametrize("case", SOME, ids=str)
each_plain = pytest.mark.parametrize("case", PLAIN, ids=str)
each_green = pytest.mark.parametrize("green", GREENS)


def doubles(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=generator)


def leaves(module: nn.Module, a: Tensor) -> tuple[Tensor, ...]:
    return (a, *module.parameters())


VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda t: t[:UNITS].t(),
    lambda t: t[::2, 1 : 1 + UNITS],
    lambda t: t[:, :1].expand(-1, UNITS),
    lambda t: t[:1, :UNITS].expand(6, UNITS),
    lambda t: t[0, 0].expand(2, 4, UNITS),
    lambda t: t[:, : 2 * UNITS].view(-1, 2, UNITS).transpose(0, 1),
    lambda t: t[:, : 2 * UNITS].view(-1, UNITS, 2).transpose(1, 2),
    lambda t: t[:4, :UNITS].flip(0),
]


@pytest.mark.parametrize("options", SIZES, ids=str)
def test_every_shape_and_stride(options: dict[str, Any]) -> None:
    d = options.pop("d")
    case = Case(**options)
    module = case.random(UNITS, d)
    for view in VIEWS:
        assert_is_definition(case, module, view(doubles(8, 8)))
    rows = {True: [(40,), (2, 3), (2, 0), (0,)], False: [(), (1,), (1, 2, 2), (0,)]}
    for training, shapes in rows.items():
        for shape in shapes:
            assert_is_definition(case, module.train(training), doubles(*shape, UNITS))


@pytest.mark.parametrize("bandwidth", [None, 1e-3, 0.7, 3, 50.0])
@pytest.mark.parametrize("d", [1, 2, 12])
def test_bandwidth(bandwidth: float | None, d: int) -> None:
    case = Case("gaussian", bandwidth=bandwidth, init_range=[-1.0, 2.5])
    assert_is_definition(case, case.random(UNITS, d), doubles(9, UNITS))


@pytest.mark.parametrize(("d", "rows"), [(1, 50), (300, 300), (20, 5_000)])
@each_green
def test_rounds_well(green: str, d: int, rows: int) -> None:
    """Single precision errs by a few roundings of the sums of absolute terms."""
    case, eps = Case(green), torch.finfo(torch.float32).eps
    module, a = case.random(UNITS, d).float(), doubles(rows, UNITS).float().requires_grad_()
    exact, exact_a = copy.deepcopy(module).double(), a.detach().double().requires_grad_()
    weights = doubles(rows, UNITS, seed=3).float()
    expected, out = case.definition(exact, exact_a), module(a)
    wanted = torch.autograd.grad(expected, leaves(exact, exact_a), weights.double())
    found = torch.autograd.grad(out, leaves(module, a), weights)
    sizes = magnitudes(case, exact, exact_a, weights.double())
    names = ("out", "input", "centers", "coefficients")
    for name, x, y, s in zip(names, (out, *found), (expected, *wanted), sizes, strict=True):
        assert x.dtype == torch.float32
        error = ((x.double() - y).abs() / (s + 1e-6)).max().item()
        assert error < 3 * eps, f"{name}: {error / eps:.0f} roundings"


@each_plain
def test_masked_rows(case: Case) -> None:
    """A huge entry whose output is not used changes no gradient."""
    module, a = case.random(UNITS, 20), doubles(30, UNITS)
    wanted = torch.autograd.grad(module(a).sum(), module.parameters())
    padded = torch.cat([a, torch.tensor([[1e30, -1e30, 1e20]]).double()])
    found = torch.autograd.grad(module(padded)[:30].sum(), module.parameters())
    close(found, wanted)


@each_plain
def test_frozen_parts(case: Case) -> None:
    """Any subset of the leaves gets the same gradients as it gets together with the others."""
    module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
    every = leaves(module, a)
    full = torch.autograd.grad(module(a).sin().sum(), every)
    for wanted in itertools.product([False, True], repeat=len(every)):
        for leaf, needed in zip(every, wanted, strict=True):
            leaf.requires_grad_(needed)
        out = module(a)
        assert out.requires_grad == any(wanted)
        if any(wanted):
            some = list(itertools.compress(every, wanted))
            found = torch.autograd.grad(out.sin().sum(), some)
            close(found, list(itertools.compress(full, wanted)), 1e-13)


@each_case
def test_saved_tensors_may_come_back_with_other_strides(case: Case) -> None:
    module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
    leaves = [a, *module.parameters()]
    expected = torch.autograd.grad(module(a).sum(), leaves)

    def pack(t: Tensor) -> Tensor:
        return t.detach().t().contiguous().t() if t.dim() == 2 else t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = module(a).sum()
    close(list(torch.autograd.grad(out, leaves)), list(expected))


@each_case
def test_output_changed_in_place(case: Case) -> None:
    module, a = case.random(UNITS, 6), doubles(5, UNITS).requires_grad_()
    before = a.detach().clone()
    wanted = torch.autograd.grad((2 * case.definition(module, a)).relu().sum(), (a,))
    module.train()
    out = module(a)
    out.mul_(2).relu_()
    assert torch.equal(a, before)
    close(torch.autograd.grad(out.sum(), (a,))[0], wanted[0])


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
            options = {"init_range": (low, high), "shared": shared, "affine": True}
            module, rows = KernelActivation(4, d, green, **options), 1 if shared else 4
            assert module.centers.shape == module.coefficients.shape == (rows, d)
            assert module.slope.shape == module.intercept.shape == (rows,)
            row = torch.linspace(low, high, d) if d > 1 else torch.tensor([(low + high) / 2])
            close(module.centers.detach(), row.expand_as(module.centers), 1e-14)

    @each_green
    @pytest.mark.parametrize("d", [1, 20, 200])
    def test_random(self, green: str, d: int) -> None:
        """Zero mean, values and slopes of size at most 1, a different function for each unit, and
        the same functions for the same seed."""
        torch.manual_seed(3)
        module = KernelActivation(60, d, green)
        chi = module.coefficients.detach().clone()
        assert abs(chi.mean()) < 4 * chi.std() / math.sqrt(chi.numel())
        assert chi.std() < 1.5
        a = torch.linspace(-2, 2, 4 * d + 1)[:, None].expand(-1, 60).requires_grad_()
        out = module(a)
        (slopes,) = torch.autograd.grad(out.sum(), a)
        assert 0.5 < max(out.square().mean(), slopes.square().mean()) < 1.6
        assert (out[:, :-1] - out[:, 1:]).abs().max(0).values.min() > 0
        torch.manual_seed(3)
        assert torch.equal(KernelActivation(60, d, green).coefficients, module.coefficients)
        module.reset_parameters()
        assert not torch.equal(chi, module.coefficients)

    @pytest.mark.parametrize("d", [2, 3, 101])
    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    @pytest.mark.parametrize("green", PIECEWISE)
    @pytest.mark.parametrize("shared", [False, True])
    def test_piecewise(self, green: str, init: str, d: int, shared: bool) -> None:
        """Equals the function at the centres, linear between them, with its tangents beyond."""
        for low, high in [(-2, 2), (-1, 3), (0, 3), (0.5, 3), (-5, -1)]:
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
    @pytest.mark.parametrize("green", PIECEWISE)
    def test_one_center(self, green: str, init: str) -> None:
        for low, high in [(-2, 2), (-1, 3), (-3, 1)]:
            module = KernelActivation(2, 1, green, init=init, init_range=(low, high), affine=True)
            middle = torch.tensor((low + high) / 2)
            close(module(middle.expand(2)), pointwise(init)(middle).expand(2))
        a = doubles(6, 2)
        if init == "identity":
            close(module(a), a)
        module = KernelActivation(2, 1, "relu", init="relu", init_range=(-1, 1))
        close(module(a), a.relu())

    @pytest.mark.parametrize("d", [2, 10, 100])
    @pytest.mark.parametrize("init", ["identity", "tanh", "relu"])
    def test_gaussians_fit_by_least_squares(self, init: str, d: int) -> None:
        for affine, width, (low, high) in itertools.product(
            (False, True), (None, 1.5), ((-2, 2), (-1, 3))
        ):
            case = Case("gaussian", affine, bandwidth=width, init=init, init_range=(low, high))
            t = torch.linspace(low, high, 2001)
            module = case.module(2, d)
            found = (module(t[:, None].expand(-1, 2)) - pointwise(init)(t)[:, None]).detach()
            best = least_squares_error(init, torch.linspace(low, high, d), case.width(d), affine)
            assert found.square().mean().sqrt() < 1.5 * best + 0.01

    @pytest.mark.parametrize("bandwidth", [None, 0.3, 2.0, 10.0])
    @pytest.mark.parametrize("init", ["identity", "tanh"])
    def test_gaussians_in_single_precision(self, init: str, bandwidth: float | None) -> None:
        """Even if the gaussians are nearly alike, large coefficients do not drown the function."""
        torch.set_default_dtype(torch.float32)
        for affine in (False, True):
            module = KernelActivation(
                1, 100, "gaussian", init=init, bandwidth=bandwidth, affine=affine
            )
            t = torch.linspace(-2, 2, 301)[:, None]
            assert (module(t) - pointwise(init)(t)).abs().max() < 0.1

    def test_single_precision(self) -> None:
        torch.set_default_dtype(torch.float32)
        for green, init in itertools.product(PIECEWISE, ["identity", "tanh", "relu"]):
            module = KernelActivation(1, 1000, green, init=init, affine=True)
            assert all(p.dtype == torch.float32 for p in module.parameters())
            t = torch.linspace(-5, 5, 301)
            expected = interpolant(init, t.double(), torch.linspace(-2, 2, 1000).double())
            assert (module(t[:, None])[:, 0].double() - expected).abs().max() < 1e-4

    @pytest.mark.parametrize("init", ["random", "identity", "tanh", "relu"])
    @each_green
    def test_reset(self, green: str, init: str) -> None:
        """Restores the initial values, in the module's current precision."""
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


def test_running_statistics() -> None:
    """They equal BatchNorm1d's on all rows; empty batches, errors and evaluation change nothing."""
    module = Case(normalize=True).random(UNITS, 9)
    norm = copy.deepcopy(module.norm)
    for shape in [(6, UNITS), (2, 3, UNITS), (1, 5, UNITS), (3, 1, 2, UNITS)]:
        module(doubles(*shape))
        norm(doubles(*shape).flatten(0, -2))
    kept = copy.deepcopy(dict(module.norm.named_buffers()))
    torch.testing.assert_close(kept, dict(norm.named_buffers()), rtol=1e-12, atol=1e-12)
    for training, shape in itertools.product((True, False), [(0, UNITS), (2, 0, UNITS)]):
        a = doubles(*shape).requires_grad_()
        out = module.train(training)(a)
        out.sum().backward()
        assert out.shape == a.grad.shape == shape
    module(doubles(6, UNITS))
    assert all(torch.equal(v, kept[k]) for k, v in module.norm.named_buffers())
    for shape in [(UNITS,), (1, UNITS), (1, 1, UNITS)]:
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            module.train()(doubles(*shape))
        assert torch.equal(module.norm.running_mean, kept["running_mean"])
        assert torch.equal(module.norm.running_var, kept["running_var"])


@each_plain
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_is_computed_in_single(case: Case, dtype: torch.dtype) -> None:
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
def test_common_dtype(case: Case) -> None:
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


@each_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(case: Case, dtype: torch.dtype) -> None:
    """The output has at least single precision; only the input is rounded."""
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
        torch.testing.assert_close(found, wanted)


@pytest.mark.traces
@pytest.mark.parametrize(
    "case",
    [Case("relu", affine=True), Case("abs", shared=True), Case("gaussian"),
     Case("relu", normalize=True)],
    ids=str,
)  # fmt: skip
def test_one_graph_for_all_batches(case: Case) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    module = case.random(UNITS, 6)
    other = copy.deepcopy(module)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=counter)
    for rows in (5, 9, 2, 600):
        a = doubles(rows, UNITS).requires_grad_()
        expected, found = other(a), compiled(a)
        close(found, expected)
        weights = doubles(rows, UNITS, seed=3)
        wanted = torch.autograd.grad(expected, leaves(other, a), weights)
        close(torch.autograd.grad(found, leaves(module, a), weights), wanted)
    assert counter.frame_count <= (2 if case.normalize else 1)  # torch's own norm needs 2


def test_new_parameters_are_seen() -> None:
    """Nothing is cached from one call to the next."""
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


@each_plain
def test_parametrizations(case: Case) -> None:
    """Centres from increments, coefficients through tanh: gradients reach the original tensors."""

    class Increments(nn.Module):
        def forward(self, t: Tensor) -> Tensor:
            return t[:, :1] + nn.functional.softplus(t).cumsum(1)

    module, a = case.random(UNITS, 6), doubles(5, UNITS)
    parametrize.register_parametrization(module, "centers", Increments())
    parametrize.register_parametrization(module, "coefficients", nn.Tanh())
    assert_is_definition(case, module, a)
    close(module.l1(), module.coefficients.abs().sum())


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


@pytest.mark.parametrize("case", [*(Case(green) for green in GREENS), Case(shared=True)], ids=str)
def test_largest_tensor_and_what_is_kept(case: Case) -> None:
    """No tensor of rows x units x centres is made or kept, forward or backward."""
    module = case.random(8, 300).float()
    a = doubles(5_000, 8).float().requires_grad_()
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with LargestTensor() as seen:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = module(a)
        out.sum().backward()
    assert 0 < seen.numel <= 4 * a.numel()
    assert sum(kept.values()) <= 6 * 4 * a.numel() + 40 * 4 * 8 * 300


REFUSED: list[tuple[str, dict[str, Any]]] = [
    *[("num_units", {"num_units": n}) for n in (0, -1, 2.5, "3", None, True)],
    *[("num_centers", {"num_centers": n}) for n in (0, 2.5, None, True, [3])],
    *[("green.*'gaussian'", {"green": g}) for g in ("tanh", "ReLU", None, ["relu"], torch.relu)],
    *[("init.*'identity'", {"init": i}) for i in ("zeros", "Relu", None, ["relu"])],
    *[
        ("init_range", {"init_range": r})
        for r in [(2, -2), (1, 1), (0, INF), (NAN, 1), (1,), (1, 2, 3), (), 3, None, ("a", "b")]
    ],
    *[("bandwidth=", {"green": "gaussian", "bandwidth": b}) for b in (0, -1.0, INF, NAN, "1")],
    *[(r"bandwidth.*0\.5", {"green": green, "bandwidth": 0.5}) for green in PIECEWISE],
    *[(f"init='{i}'.*affine", {"init": i}) for i in ("identity", "tanh")],
    ("init='tanh'.*affine", {"init": "tanh", "num_centers": 1}),
    ("init='relu'.*init_range", {"init": "relu", "init_range": (0.5, 2)}),
    *[
        ("num_centers=1", {"green": "abs", "num_centers": 1, "init": i})
        for i in ("identity", "tanh", "relu")
    ],
    *[("dim=", {"dim": d}) for d in ("1", 1.0, None, True)],
]


@pytest.mark.parametrize(("message", "options"), REFUSED, ids=range(len(REFUSED)))
def test_options(message: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        KernelActivation(**{"num_units": 3, **options})


@each_case
def test_last_dimension(case: Case) -> None:
    """Other sizes are refused, even where 1 unit or 1 shared row could broadcast."""
    module = case.module(UNITS, 4)
    for shape in [(), (2,), (4,), (1,), (3, 1), (3, 4), (3, 0), (0,), (0, 4)]:
        with pytest.raises(ValueError, match=r"num_units=3"):
            module(torch.zeros(shape))
    with pytest.raises(ValueError, match=r"num_units=1"):
        case.module(1, 4)(torch.zeros(5, 2))
    for shape in [(2, 5, 3), (3,)]:
        with pytest.raises(ValueError, match="num_units=3 in dim=1"):
            KernelActivation(UNITS, dim=1)(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("normalize", [False, True])
def test_dtype(dtype: torch.dtype, normalize: bool) -> None:
    with pytest.raises(ValueError, match=str(dtype)):
        KernelActivation(3, 4, normalize=normalize)(torch.ones(5, 3, dtype=dtype))


def test_repr() -> None:
    module = KernelActivation(3, 4, "abs", affine=True, normalize=True)
    words = "3, num_centers=4, green='abs', affine=True, normalize=True"
    assert repr(module) == f"KernelActivation({words})"


# What users of PyTorch expect of states, channels and pictures

Build = Callable[..., nn.Module]


def activation(**options: Any) -> nn.Module:
    return KernelActivation(3, **{"num_centers": 7, **options})


def recurrent(**options: Any) -> nn.Module:
    return KBRN(3, 3, **{"num_centers": 7, **options})


def outputs(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        out = module.eval()(x)
    return out[0] if isinstance(out, tuple) else out


of_both = pytest.mark.parametrize("build", [activation, recurrent])


@of_both
def test_a_state_brings_its_function_along(build: Build) -> None:
    for saved, loading in (
        ({"green": "gaussian", "init_range": (-3, 5)}, {"green": "gaussian"}),
        ({"green": "gaussian", "bandwidth": 0.3}, {"green": "gaussian"}),
        ({"green": "gaussian"}, {"green": "gaussian", "bandwidth": 2.0}),
        ({"init_range": (-3, 5)}, {}),
        ({"green": "abs", "init": "relu"}, {"green": "abs"}),
    ):
        module, other = build(**saved), build(**loading)
        other.load_state_dict(module.state_dict())
        x = torch.linspace(-4, 6, 60).view(10, 2, 3)
        assert torch.equal(outputs(other, x), outputs(module, x))


@of_both
def test_a_state_of_another_function_is_refused(build: Build) -> None:
    for green in ("relu", "gaussian"):
        state = build(green=green).state_dict()
        with pytest.raises(ValueError, match=f"(?s)green='{green}'.*green='abs'"):
            build(green="abs").load_state_dict(state)
        bare = {k: v for k, v in state.items() if not k.endswith("extra_state")}  # of no function
        with pytest.raises(RuntimeError, match="extra_state"):
            build(green=green).load_state_dict(bare)


SHAPES = [((2, 3, 3), 1), ((2, 3, 5), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), -3), ((3, 7), 0)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_channels_are_where_they_are_said_to_be(
    shape: tuple[int, ...], dim: int, normalize: bool
) -> None:
    """Each channel has its own function, whatever the lengths of the other dimensions."""
    torch.manual_seed(0)
    act = KernelActivation(3, 7, normalize=normalize, dim=dim)
    last = KernelActivation(3, 7, normalize=normalize)
    last.load_state_dict(act.state_dict())
    x = torch.randn(shape)
    found = act(x)
    assert torch.equal(found, last(x.movedim(dim, -1)).movedim(-1, dim))
    assert found.is_contiguous()  # so that .view() works, as after nn.ReLU
    torch.testing.assert_close(act(x).view(-1), act(x.transpose(-1, -2).mT).reshape(-1))


@pytest.fixture
def axes() -> Iterator[Any]:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="drawn with the extra 'bench'")
    yield pyplot.subplots()[1]
    pyplot.close("all")


@pytest.mark.parametrize("options", [{"green": "abs"}, {"green": "gaussian"}, {"affine": True}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_picture_shows_the_functions(
    axes: Any, options: dict[str, Any], dtype: torch.dtype
) -> None:
    act = KernelActivation(3, 7, init="tanh", **{"affine": True, **options}).to(dtype)
    act.reset_parameters()
    assert act.plot([0, 2], ax=axes) is axes
    assert len(axes.lines) == 2
    for line, unit in zip(axes.lines, (0, 2), strict=True):
        x, y = (torch.as_tensor(values, dtype=torch.float32) for values in line.get_data())
        assert x.min() <= -2 and x.max() >= 2
        expected = act(x.unsqueeze(1).expand(-1, 3))[:, unit].float()
        torch.testing.assert_close(y, expected)


@pytest.mark.parametrize(
    ("options", "channels", "lines"),
    [({}, None, 3), ({"shared": True}, None, 1), ({}, 1, 1), ({}, range(2), 2)],
)
@pytest.mark.usefixtures("axes")
def test_what_is_drawn(options: dict[str, Any], channels: Any, lines: int) -> None:
    drawn = KernelActivation(3, 7, normalize=True, **options).plot(channels)
    assert len(drawn.lines) == lines
    assert drawn.get_xlabel() == "normalised input"


def test_no_picture_without_channels_or_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for channels in (3, -1, [0, 3], "a", 1.5):
        with pytest.raises(ValueError, match="channels="):
            KernelActivation(3).plot(channels)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        KernelActivation(3).plot()


def test_a_state_without_numbers_loads_on_meta() -> None:
    act = KernelActivation(4)
    state = {name: value.to("meta") for name, value in act.state_dict().items()}
    act.to("meta").load_state_dict(state)
