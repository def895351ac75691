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
from torch.nn.utils import parametrize

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN
from tests.covering import covering
from tests.nn.activation_equations import (
    GREENS,
    assert_is_definition,
    close,
    definition,
    interpolant,
    least_squares_error,
    random_activation,
)
from tests.promises import LargestTensor
from tests.sequence.texts import pointwise

UNITS = 3
FORMS: dict[str, Any] = {"green": GREENS, "affine": [False, True], "shared": [False, True]}
FORMS["normalize"] = [False, True]
PIECEWISE, TARGETS = ("relu", "abs"), ("identity", "tanh", "relu")
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAN, INF = math.nan, math.inf

each_green = pytest.mark.parametrize("green", GREENS)
each_target = pytest.mark.parametrize("init", TARGETS)


@pytest.fixture(params=covering(2, **FORMS), ids=str)
def act(request: pytest.FixtureRequest) -> KernelActivation:
    return random_activation(UNITS, 20, **request.param)


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


@pytest.mark.parametrize("options", covering(3, **FORMS, num_centers=[1, 7, 100]), ids=str)
def test_every_shape_and_stride(options: dict[str, Any]) -> None:
    act = random_activation(UNITS, **options)
    for view in VIEWS:
        assert_is_definition(act, view(doubles(8, 8)))
    rows = {True: [(40,), (2, 3), (2, 0), (0,)], False: [(), (1,), (1, 2, 2), (0,)]}
    for training, shapes in rows.items():
        for shape in shapes:
            assert_is_definition(act.train(training), doubles(*shape, UNITS))


@pytest.mark.parametrize("bandwidth", [None, 1e-3, 0.7, 3, 50.0])
@pytest.mark.parametrize("d", [1, 2, 12])
def test_bandwidth(bandwidth: float | None, d: int) -> None:
    given = {"green": "gaussian", "bandwidth": bandwidth, "init_range": [-1.0, 2.5]}
    act = random_activation(UNITS, d, **given)
    assert act.bandwidth == (bandwidth or 3.5 / max(d - 1, 1))
    assert_is_definition(act, doubles(9, UNITS))


@pytest.mark.parametrize(("d", "rows"), [(1, 50), (300, 300), (20, 5_000)])
@each_green
def test_rounds_well(green: str, d: int, rows: int) -> None:
    """Single precision errs by a few roundings of the sums of absolute terms."""
    act, a = random_activation(UNITS, d, green=green).float(), doubles(rows, UNITS).float()
    exact, exact_a = copy.deepcopy(act).double(), a.double().requires_grad_()
    a, weights = a.requires_grad_(), doubles(rows, UNITS, seed=3).float()
    expected, out = definition(exact, exact_a), act(a)
    wanted = torch.autograd.grad(expected, leaves(exact, exact_a), weights.double())
    found = torch.autograd.grad(out, leaves(act, a), weights)

    terms, steep = (exact_a.unsqueeze(-1) - exact.centers).abs().detach(), 1.0
    if green == "gaussian":  # slopes are 1 / b times as large as values
        terms, steep = torch.ones_like(terms), 1 / exact.bandwidth
    chi, weights = exact.coefficients.detach().abs(), weights.double().abs()[:, :, None]
    slopes = steep * weights * chi
    sizes = [(chi * terms).sum(-1), slopes.sum(-1), slopes.sum(0), (weights * terms).sum(0)]
    names, eps = ("out", "input", "centers", "coefficients"), torch.finfo(torch.float32).eps
    for name, x, y, s in zip(names, (out, *found), (expected, *wanted), sizes, strict=True):
        assert x.dtype == torch.float32
        error = ((x.double() - y).abs() / (s + 1e-6)).max().item()
        assert error < 3 * eps, f"{name}: {error / eps:.0f} roundings"


def test_masked_rows(act: KernelActivation) -> None:
    """A huge entry whose output is not used changes no gradient."""
    a = doubles(30, UNITS)
    padded = torch.cat([a, torch.tensor([[1e30, -1e30, 1e20]]).double()])
    wanted = torch.autograd.grad(act.eval()(a).sum(), act.parameters())
    found = torch.autograd.grad(act(padded)[:30].sum(), act.parameters())
    close(found, wanted)


def test_frozen_parts(act: KernelActivation) -> None:
    """Any subset of the leaves gets the same gradients as it gets together with the others."""
    a = doubles(5, UNITS).requires_grad_()
    every = leaves(act, a)
    full = torch.autograd.grad(act(a).sin().sum(), every)
    for wanted in itertools.product([False, True], repeat=len(every)):
        for leaf, needed in zip(every, wanted, strict=True):
            leaf.requires_grad_(needed)
        out = act(a)
        assert out.requires_grad == any(wanted)
        if any(wanted):
            some = list(itertools.compress(every, wanted))
            found = torch.autograd.grad(out.sin().sum(), some)
            close(found, list(itertools.compress(full, wanted)), 1e-13)


def test_saved_tensors_with_other_strides_and_an_output_changed_in_place(
    act: KernelActivation,
) -> None:
    a = doubles(5, UNITS).requires_grad_()
    before, inputs = a.detach().clone(), leaves(act, a)
    wanted = torch.autograd.grad((2 * definition(act, a)).relu().sum(), inputs)

    def pack(t: Tensor) -> Tensor:
        return t.detach().t().contiguous().t() if t.dim() == 2 else t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = act(a)
    close(torch.autograd.grad((2 * out).relu().sum(), inputs), wanted)
    out = act(a)
    out.mul_(2).relu_()
    assert torch.equal(a, before)
    close(torch.autograd.grad(out.sum(), inputs), wanted)


class TestStart:
    @pytest.fixture(autouse=True, params=[torch.float64, torch.float32], ids=str)
    def dtype(self, request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
        torch.manual_seed(0)
        torch.set_default_dtype(request.param)
        yield request.param
        torch.set_default_dtype(torch.float32)

    @each_green
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize(("low", "high"), [(-2, 2), (0.5, 3), (-7.5, -1), (-1e3, 1e3)])
    def test_centers(self, green: str, shared: bool, low: float, high: float) -> None:
        for d in (1, 2, 5, 100):
            options = {"init_range": (low, high), "shared": shared, "affine": True}
            act, rows = KernelActivation(4, d, green, **options), 1 if shared else 4
            assert act.centers.shape == act.coefficients.shape == (rows, d)
            assert act.slope.shape == act.intercept.shape == (rows,)
            row = torch.linspace(low, high, d) if d > 1 else torch.tensor([(low + high) / 2])
            close(act.centers.detach(), row.expand_as(act.centers), 4 * torch.finfo(row.dtype).eps)

    @each_green
    @pytest.mark.parametrize("d", [1, 20, 200])
    def test_random(self, green: str, d: int) -> None:
        """Zero mean, values and slopes of size at most 1, a different function for each unit, and
        the same functions for the same seed."""
        torch.manual_seed(3)
        act = KernelActivation(60, d, green)
        chi = act.coefficients.detach().clone()
        assert abs(chi.mean()) < 4 * chi.std() / math.sqrt(chi.numel())
        assert chi.std() < 1.5
        a = torch.linspace(-2, 2, 4 * d + 1)[:, None].expand(-1, 60).requires_grad_()
        out = act(a)
        (slopes,) = torch.autograd.grad(out.sum(), a)
        assert 0.5 < max(out.square().mean(), slopes.square().mean()) < 1.6
        assert (out[:, :-1] - out[:, 1:]).abs().max(0).values.min() > 0
        torch.manual_seed(3)
        assert torch.equal(KernelActivation(60, d, green).coefficients, act.coefficients)
        act.reset_parameters()
        assert not torch.equal(chi, act.coefficients)

    @pytest.mark.parametrize("d", [2, 3, 101, 1000])
    @each_target
    @pytest.mark.parametrize("green", PIECEWISE)
    def test_piecewise(self, green: str, init: str, d: int, dtype: torch.dtype) -> None:
        """Equals the function at the centres, linear between them, with its tangents beyond."""
        ranges = [(-2, 2), (-1, 3), (0, 3), (0.5, 3), (-5, -1)]
        tolerance = {torch.float64: 1e-10, torch.float32: 1e-5}[dtype]
        for (low, high), affine in itertools.product(ranges, (False, True)):
            if green == "relu" and not affine and (init != "relu" or low > 0):
                continue
            given = {"affine": affine, "init": init, "init_range": (low, high)}
            t = torch.linspace(low - 4, high + 4, 301).double()
            if green == "abs" and not affine:
                t = t[(t >= low) & (t <= high)]
            expected = interpolant(init, t, torch.linspace(low, high, d).double()).to(dtype)
            for shared in (False, True):
                act = KernelActivation(2, d, green, shared=shared, **given)
                found = act(t[:, None].to(dtype).expand(-1, 2))
                close(found, expected[:, None].expand(-1, 2), tolerance)

    @each_target
    @pytest.mark.parametrize("green", PIECEWISE)
    def test_one_center(self, green: str, init: str) -> None:
        for low, high in [(-2, 2), (-1, 3), (-3, 1)]:
            act = KernelActivation(2, 1, green, init=init, init_range=(low, high), affine=True)
            middle = torch.tensor((low + high) / 2)
            close(act(middle.expand(2)), pointwise(init)(middle).expand(2))
        a = torch.randn(6, 2)
        if init == "identity":
            close(act(a), a)
        close(KernelActivation(2, 1, "relu", init="relu", init_range=(-1, 1))(a), a.relu())

    @pytest.mark.parametrize("d", [2, 10, 100])
    @each_target
    def test_gaussians_fit_by_least_squares(self, init: str, d: int) -> None:
        options = itertools.product((False, True), (None, 1.5), ((-2, 2), (-1, 3)))
        for affine, width, span in options:
            given = {"affine": affine, "bandwidth": width, "init": init, "init_range": span}
            act, t = KernelActivation(2, d, "gaussian", **given), torch.linspace(*span, 2001)
            error = act(t[:, None].expand(-1, 2)) - pointwise(init)(t)[:, None]
            best = least_squares_error(init, t, act)
            assert error.square().mean().sqrt() < 1.5 * best + 0.01

    @pytest.mark.parametrize("bandwidth", [None, 0.3, 2.0, 10.0])
    @pytest.mark.parametrize("init", ["identity", "tanh"])
    @pytest.mark.parametrize("affine", [False, True])
    def test_gaussians_nearly_alike(self, init: str, bandwidth: Any, affine: bool) -> None:
        """Large coefficients do not drown the function, even in single precision."""
        given = {"init": init, "bandwidth": bandwidth, "affine": affine}
        t = torch.linspace(-2, 2, 301)[:, None]
        found = KernelActivation(1, 100, "gaussian", **given)(t)
        assert (found - pointwise(init)(t)).abs().max() < 0.1

    @pytest.mark.parametrize("init", ["random", *TARGETS])
    @each_green
    def test_reset(self, green: str, init: str) -> None:
        """Restores the initial values, in the module's current precision."""
        act = KernelActivation(UNITS, 11, green, init=init, affine=True, normalize=True).double()
        before = {k: v.clone() for k, v in act.state_dict().items()}
        act(doubles(20, UNITS))
        with torch.no_grad():
            for parameter in act.parameters():
                parameter.fill_(3.0)
        act.reset_parameters()
        for name, value in act.state_dict().items():
            assert value.dtype == before[name].dtype
            if (name, init) != ("coefficients", "random"):
                torch.testing.assert_close(value, before[name], rtol=1e-4, atol=1e-5)


def test_running_statistics() -> None:
    """They equal BatchNorm1d's on all rows; empty batches, errors and evaluation change nothing."""
    act = random_activation(UNITS, 9, normalize=True)
    norm = copy.deepcopy(act.norm)
    for shape in [(6, UNITS), (2, 3, UNITS), (1, 5, UNITS), (3, 1, 2, UNITS)]:
        act(doubles(*shape))
        norm(doubles(*shape).flatten(0, -2))
    kept = copy.deepcopy(dict(act.norm.named_buffers()))
    torch.testing.assert_close(kept, dict(norm.named_buffers()), rtol=1e-12, atol=1e-12)
    for training, shape in itertools.product((True, False), [(0, UNITS), (2, 0, UNITS)]):
        a = doubles(*shape).requires_grad_()
        out = act.train(training)(a)
        out.sum().backward()
        assert out.shape == a.grad.shape == shape
    act(doubles(6, UNITS))
    assert all(torch.equal(v, kept[k]) for k, v in act.norm.named_buffers())
    for shape in [(UNITS,), (1, UNITS), (1, 1, UNITS)]:
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            act.train()(doubles(*shape))
    assert torch.equal(act.norm.running_mean, kept["running_mean"])
    assert torch.equal(act.norm.running_var, kept["running_var"])


def test_common_dtype(act: KernelActivation) -> None:
    """The expansion is computed in the common precision, of halves in single precision."""
    for inputs, parameters in itertools.product(DTYPES, DTYPES):
        own, a = copy.deepcopy(act).to(parameters), doubles(30, UNITS).to(inputs).requires_grad_()
        common = torch.promote_types(inputs, parameters)
        wide = torch.promote_types(common, torch.float32)
        exact, b = copy.deepcopy(own).to(wide), a.detach().to(wide).requires_grad_()
        exact.norm = copy.deepcopy(own.norm)  # the parameters' precision is the normalization's
        for training in (True, False):
            out, expected = own.train(training)(a), exact.train(training)(b)
            assert out.dtype == common, (inputs, parameters)
            assert torch.equal(out, expected.to(common))
            weights = doubles(30, UNITS, seed=3).to(common)
            found = torch.autograd.grad(out, leaves(own, a), weights)
            wanted = torch.autograd.grad(expected, leaves(exact, b), weights.to(wide))
            for leaf, x, y in zip(leaves(own, a), found, wanted, strict=True):
                assert x.dtype == leaf.dtype
                torch.testing.assert_close(x, y.to(x.dtype), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(act: KernelActivation, dtype: torch.dtype) -> None:
    """The output has at least single precision; only the input is rounded."""
    act, a = act.float().eval(), doubles(30, UNITS).float()
    rounded = a.to(dtype)
    plain, expected = act(a), act(rounded.float())
    with torch.autocast("cpu", dtype=dtype):
        torch.testing.assert_close(act(a), plain)
        out = act(rounded)
        torch.testing.assert_close(out, expected)
        assert copy.deepcopy(act).double()(a.double()).dtype == torch.float64
        half = copy.deepcopy(act).to(dtype)(rounded)
    assert half.dtype == torch.float32
    wanted = torch.autograd.grad(expected.sum(), list(act.parameters()))
    for inside in (False, True):
        with torch.autocast("cpu", dtype=dtype, enabled=inside):
            found = torch.autograd.grad(out.sum(), list(act.parameters()), retain_graph=True)
        torch.testing.assert_close(found, wanted)


class Increments(nn.Module):
    """Centres from their increments."""

    def forward(self, t: Tensor) -> Tensor:
        return t[:, :1] + nn.functional.softplus(t).cumsum(1)


CHANGES: list[Callable[[KernelActivation], Any]] = [
    lambda act: act.centers.data.copy_(doubles(*act.centers.shape, seed=9)),
    lambda act: act.coefficients.data.mul_(2),
    lambda act: act.load_state_dict({**act.state_dict(), "centers": act.centers.neg()}),
    lambda act: setattr(act, "centers", nn.Parameter(doubles(*act.centers.shape, seed=5))),
    lambda act: parametrize.register_parametrization(act, "centers", Increments()),
    lambda act: parametrize.register_parametrization(act, "coefficients", nn.Tanh()),
]


def test_new_parameters_are_seen(act: KernelActivation) -> None:
    """Nothing is cached between calls; gradients reach the tensors behind parametrizations."""
    for change in CHANGES:
        change(act)
        assert_is_definition(act, doubles(5, UNITS))
    close(act.l1(), act.coefficients.abs().sum())


@pytest.mark.parametrize("options", [*({"green": g} for g in GREENS), {"shared": True}], ids=str)
def test_largest_tensor_and_what_is_kept(options: dict[str, Any]) -> None:
    """No tensor of rows x units x centres is made or kept, forward or backward."""
    act = random_activation(8, 300, **options).float()
    a = doubles(5_000, 8).float().requires_grad_()
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with LargestTensor() as seen:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = act(a)
        out.sum().backward()
    assert 0 < seen.nbytes <= 4 * 4 * a.numel()
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


def test_inputs(act: KernelActivation) -> None:
    """Other sizes are refused, even where 1 unit or 1 shared row could broadcast."""
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(ValueError, match=str(dtype)):
            act(torch.ones(5, 3, dtype=dtype))
    for shape in [(), (2,), (4,), (1,), (3, 1), (3, 4), (3, 0), (0,), (0, 4)]:
        with pytest.raises(ValueError, match=r"num_units=3"):
            act(torch.zeros(shape))
    with pytest.raises(ValueError, match=r"num_units=1"):
        KernelActivation(1, green=act.green, shared=act.shared)(torch.zeros(5, 2))
    for shape in [(2, 5, 3), (3,)]:
        with pytest.raises(ValueError, match="num_units=3 in dim=1"):
            KernelActivation(UNITS, dim=1)(torch.zeros(shape))


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("options", "channels", "units"),
    [
        ({"green": "abs"}, None, [0, 1, 2]),
        ({"green": "gaussian"}, [0, 2], [0, 2]),
        ({"shared": True}, None, [0]),
        ({"normalize": True}, 1, [1]),
        ({"affine": False, "init": "random"}, range(2), [0, 1]),
    ],
)
def test_the_picture_shows_the_functions(
    axes: Any, options: dict[str, Any], channels: Any, units: list[int], dtype: torch.dtype
) -> None:
    act = KernelActivation(3, 7, **{"init": "tanh", "affine": True, **options}).to(dtype)
    assert act.plot(channels, ax=axes) is axes
    assert axes.get_xlabel() == ("input" if act.norm is None else "normalised input")
    act.norm = None
    for line, unit in zip(axes.lines, units, strict=True):
        x, y = (torch.as_tensor(values, dtype=torch.float32) for values in line.get_data())
        assert x.min() <= -2 and x.max() >= 2
        expected = act(x.unsqueeze(1).expand(-1, 3))[:, unit].float()
        torch.testing.assert_close(y, expected)
    assert len(KernelActivation(3).plot().lines) == 3  # in a figure of its own


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
