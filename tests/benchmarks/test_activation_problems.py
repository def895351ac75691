"""What the experiments with learned activations read, and the exact slopes that they report."""

import itertools
from typing import Any, get_args

import numpy as np
import pytest
import torch

from benchmarks.papers.activations import trials
from benchmarks.papers.activations.options import FUNCTIONS, Charging, Init, LongTerm
from benchmarks.papers.activations.report import accuracy_plot, activation_plot, steep
from benchmarks.papers.activations.trials import Expansion, expansions
from pyg_kernels.nn import KernelActivation
from pyg_kernels.nn.activation import Init as LibraryInit

TRUTH = {  # of 00, 01, 10, 11
    "or": (False, True, True, True),
    "and": (False, False, False, True),
    "xor": (False, True, True, False),
    "equivalence": (True, False, False, True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_class_of_a_sequence_depends_on_its_first_two_bits_alone(name) -> None:
    options = LongTerm(centers=5, hidden=3)
    trial = trials.LongTermTrial(options, "cpu", "kbrn", 0, {"function": name, "length": 6})
    x, y = trial.sequences(400, torch.Generator().manual_seed(0))
    assert (x.shape, y.shape) == ((6, 400), (400,))
    assert set(x.flatten().tolist()) == {-1.0, 1.0}
    places = 2 * (x[0] > 0) + 1 * (x[1] > 0)
    assert y.tolist() == [TRUTH[name][place] for place in places.tolist()]
    # All 64 sequences are there about equally often: 6.25 times on average.
    codes, counts = x.t().unique(dim=0, return_counts=True)
    assert len(codes) >= 60 and counts.max() <= 18


def test_charging_sequences_follow_equation_7() -> None:
    # The two examples of section 4.2, whose last step is left open there.
    known = [[0, 0, 0, 4, 0, 0, 0, 0, 0, 0], [0, 0, 0, 4, 0, 2, 0, 0, 0, 0]]
    states = [[0, 0, 0, 1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]]
    assert trials.charged(torch.tensor(known, dtype=torch.float).t()).t().int().tolist() == states
    trial = trials.ChargingTrial(Charging(centers=5), "cpu", "kbrn", 0)
    x, y = trial.sequences(400, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (30, 400)
    for sequence, charged in zip(x.t().tolist(), y.t().tolist(), strict=True):
        h = 0
        for entry, state in zip(sequence, charged, strict=True):
            h = int(entry) + (h - 1 if h - 1 > 0 else 0)
            assert state == (h > 0)
    assert set(x.flatten().tolist()) == set(range(10))
    charges = (x > 0).sum(dim=0)
    # Three entries of 0 to 9, so (9/10)^3 of the sequences have three positive ones.
    assert charges.max() == 3
    assert (charges == 3).double().mean().item() == pytest.approx(0.729, abs=0.07)
    assert ((x > 0).sum(dim=1) > 0).all()
    assert [each.shape for each in trial.test_set()] == [(30, 25_000)] * 2


def test_patterns_and_checks() -> None:
    """All corners of the cube with their parity; checks even in the logarithm."""
    for inputs in (2, 3, 4):
        z, y = trials.patterns(inputs, "cpu")
        corners = itertools.product((-1.0, 1.0), repeat=inputs)
        assert sorted(map(tuple, z.tolist())) == sorted(corners)
        # An odd number of ones makes the product's sign that of (-1)^(inputs - 1).
        assert torch.equal(z.prod(dim=1), (1 - 2 * y) * (-1) ** inputs)
    checks = sorted(trials.log_spaced(10_000))
    assert checks[:10] == [1, 2, 3, 4, 5, 6, 8, 10, 13, 16]
    ratios = np.array(checks[10:]) / np.array(checks[9:-1])
    np.testing.assert_allclose(ratios, 10**0.1, rtol=0.03)
    assert checks[-1] == 10_000 and trials.log_spaced(1) == {1}
    assert get_args(LibraryInit) == get_args(Init)  # the command line repeats them


def test_recurrent_networks_beside_the_learned_ones() -> None:
    """The recurrence of sigmoids, and the forget bias of the forget gates alone."""
    torch.manual_seed(0)
    net = trials.SigmoidRNN(2, 3).double()
    x = torch.randn(4, 5, 2, dtype=torch.double)
    output, last = net(x)
    h = torch.zeros(5, 3, dtype=torch.double)
    for step in range(4):
        a = net.lin_input(x[step]) + h @ net.lin_recurrent.weight.t()
        h = 1 / (1 + torch.exp(-a))
        torch.testing.assert_close(output[step], h, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(last, h, rtol=1e-10, atol=1e-10)
    torch.manual_seed(0)
    ours = trials.sequence_network("lstm", LongTerm(), 3, False).recurrent
    torch.manual_seed(0)
    plain = torch.nn.LSTM(1, 3)
    expected = torch.tensor([0.0] * 3 + [1.0] * 3 + [0.0] * 6)
    torch.testing.assert_close(ours.bias_ih_l0 - plain.bias_ih_l0, expected)
    assert torch.equal(ours.weight_hh_l0, plain.weight_hh_l0)


def random_expansion(green: str, seed: int = 0, **options: Any) -> Expansion:
    """Centres in about [-3, 3], some of them coincident."""
    draw = np.random.default_rng(seed)
    centers = draw.normal(0, 1.5, 12)
    centers[5] = centers[2]
    return Expansion(green, centers, draw.normal(0, 0.6, 12), **options)


def direct(function: Expansion, a: float) -> float:
    """The sum of equation 4, a term after the other."""
    total = function.slope * a + function.intercept
    for center, coefficient in zip(function.centers, function.coefficients, strict=True):
        z = a - center
        total += coefficient * (abs(z) if function.green == "abs" else max(z, 0.0))
    return float(total)


def numerical_slope(function: Expansion, a: float, step: float = 1e-6) -> float:
    return (direct(function, a + step) - direct(function, a - step)) / (2 * step)


MODULES: list[dict[str, Any]] = [
    {"green": "abs", "shared": True},
    {"green": "relu", "affine": True, "init": "tanh", "normalize": True},
]
GREEN_OPTIONS = [
    ("relu", {"slope": -0.7, "intercept": 0.3}),
    ("abs", {"slope": 0.4, "intercept": -1.0}),
]


@pytest.mark.parametrize(("green", "options"), GREEN_OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_expansion_is_the_direct_sum_with_numerical_slopes(green, options, seed: int) -> None:
    function = random_expansion(green, seed, **options)
    for low, high in ((-4.0, 4.0), (-0.5, 1.0), (10.0, 11.0), (-9.0, 9.0)):
        ends, slopes = function.slopes(low, high)
        assert (ends[0], ends[-1], len(ends)) == (low, high, len(slopes) + 1)
        grid = np.linspace(low, high, 97)
        expected = [direct(function, a) for a in grid]
        np.testing.assert_allclose(function(grid), expected, rtol=1e-10, atol=1e-10)
        for left, right, slope in zip(ends[:-1], ends[1:], slopes, strict=True):
            middle, step = (left + right) / 2, min(1e-5, (right - left) / 4)
            assert slope == pytest.approx(numerical_slope(function, middle, step), abs=1e-6)
        variation = pytest.approx(np.abs(np.diff(slopes)).sum(), abs=1e-6)
        assert function.variation(low, high) == variation
    assert function.variation() == variation


@pytest.mark.parametrize("options", MODULES)
def test_expansions_are_the_functions_of_the_module(options) -> None:
    torch.manual_seed(0)
    module = KernelActivation(3, 9, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    module.norm = None
    a = torch.linspace(-4, 4, 33, dtype=torch.double)
    expected = module(a[:, None].expand(-1, 3)).detach()
    found = torch.stack([torch.from_numpy(f(a.numpy())) for f in expansions(module)], dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("green", "options"), GREEN_OPTIONS)
def test_picture_marks_exactly_the_steep_parts(green, options) -> None:
    functions = [random_expansion(green, seed, **options) for seed in range(7)]
    figure = activation_plot(functions, "title")
    panels = figure.axes
    assert len(panels) == 10
    assert [panel.axison for panel in panels] == [True] * 7 + [False] * 3
    for panel, function in zip(panels, functions, strict=False):
        whole, red = (np.asarray(line.get_xydata()) for line in panel.lines)
        assert (whole[0, 0], whole[-1, 0]) == (-4, 4)
        for a, value in whole[:: max(1, len(whole) // 20)]:
            assert value == pytest.approx(direct(function, a), abs=1e-9)
        parts = red.reshape(-1, 3, 2)[:, :2, 0]
        for a in np.linspace(-3.99, 3.99, 201):
            slope = numerical_slope(function, a)
            if abs(abs(slope) - 1) > 0.01 and np.abs(function.centers - a).min() > 1e-3:
                marked = ((parts[:, 0] <= a) & (a <= parts[:, 1])).any()
                assert marked == (abs(slope) > 1)
        dashed = panel.spines["left"].get_linestyle() != "solid"
        assert dashed == steep(function) == bool(len(parts))


def test_accuracy_curve_keeps_the_last_accuracy_of_a_trial_that_ended() -> None:
    records = [
        {"model": model, "history": [{"iteration": n, "accuracy": a} for n, a in checks]}
        for model, checks in (
            ("kbrn", [(1, 0.5), (10, 1.0)]),
            ("kbrn", [(1, 0.7), (10, 0.8), (100, 0.6)]),
            ("lstm", [(1, 0.25), (7, 0.75)]),
        )
    ]
    (axes,) = accuracy_plot(records).axes
    lines = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    assert lines == [
        [[1, 0.5], [7, 0.5], [10, 1.0], [100, 1.0]],
        [[1, 0.7], [7, 0.7], [10, 0.8], [100, 0.6]],
        [[1, 0.6], [7, 0.6], [10, 0.9], [100, 0.8]],
        [[1, 0.25], [7, 0.75]],
        [[1, 0.25], [7, 0.75]],
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["KBRN", "LSTM"]
