"""Machines: static gates, functions q, filters, windows, initial values and parts of one's own."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Module
from torch.nn.functional import conv1d, pad
from torch.nn.utils import parametrize

from pyg_kernels.sequence import (
    RKM,
    DenseFilters,
    RKMCell,
    RKMState,
    RKMWindowState,
    SyncNetFilters,
)
from tests.sequence.equations import assert_equations
from tests.sequence.rkm import (
    CELLS,
    FAMILY,
    GATES,
    HIDDEN,
    NEVER_FED_BACK,
    ONE_WAY,
    Q,
    build,
    random_rkm,
    reach_of,
    rkm_equations,
)
from tests.sequence.texts import F64, SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Variant

# Functions q, static factors and which inputs have gradients

FEEDBACK = [
    (cell, f) for cell in CELLS for f in (True, False) if not f or cell not in NEVER_FED_BACK
]
of_cells = pytest.mark.parametrize(
    ("cell", "feedback"),
    FEEDBACK,
    ids=[f"{cell}-{'fed-back' if f else 'no-feedback'}" for cell, f in FEEDBACK],
)


def options_for(cell: str, feedback: bool | None = None, **more: Any) -> dict[str, Any]:
    return {
        "cell": cell,
        "feedback": feedback,
        **({"q": "tanh"} if cell == "general" else {}),
        **more,
    }


class Scaled(Module):
    """A pointwise function with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, t: Tensor) -> Tensor:
        return torch.sin(self.scale * t)


def softsign(t: Tensor) -> Tensor:
    return t / (1 + t.abs())


Q_OF_ALL_KINDS = [*Q, torch.tanh, softsign, torch.nn.ReLU(), torch.nn.Softplus(), Scaled()]


@pytest.mark.parametrize(
    ("feedback", "layer_norm"), [(True, False), (False, True)], ids=["eq. 8", "eq. 6"]
)
@pytest.mark.parametrize("q", Q_OF_ALL_KINDS, ids=lambda q: getattr(q, "__name__", str(q)))
def test_q(q: Any, layer_norm: bool, feedback: bool) -> None:
    options = {"cell": "general", "q": q, "feedback": feedback, "layer_norm": layer_norm}
    for window in [{"ngram": 1}, {"ngram": [1, 3], "dilation": 2}]:
        variant = Variant(FAMILY, {**options, **window})
        assert_equations(variant, variant.build(), texts(6, 0, 3, 1))


def test_a_q_with_parameters_is_trained_in_each_layer() -> None:
    rkm = random_rkm(SIZE, 5, cell="general", q=Scaled(), num_layers=2)
    scales = [p for name, p in rkm.named_parameters() if name.endswith("scale")]
    assert len(scales) == 2
    rkm(random_text(5, 2, SIZE))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad != 0 for p in scales)


@pytest.mark.parametrize("cell", ["linear", "linear-gated", "cnn", "gated-cnn"])
def test_values_of_static_gates(cell: str) -> None:
    """The table's or those given; where learned, they begin with them."""
    memoryless = cell in NEVER_FED_BACK
    default, other = ((1.0, 0.0), (0.3, 0.0)) if memoryless else ((0.5, 0.5), (0.3, 0.8))
    for static, expected in [(None, default), (other[0] if memoryless else other, other)]:
        assert RKMCell(3, 4, cell=cell, static=static).static == expected
        part = RKMCell(3, 4, cell=cell, static=static, learn_static=True).double()
        s_i, s_f = (float(torch.as_tensor(s).detach()) for s in part.static)
        assert (s_i, s_f) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cell", ["linear", "linear-gated", "cnn", "gated-cnn"])
def test_learned_static_gates_are_an_exponential_and_a_sigmoid(cell: str) -> None:
    part = RKMCell(3, 4, cell=cell, learn_static=True).double()
    learned = [p for p in part.parameters() if p.dim() == 0]
    assert len(learned) == (1 if cell in NEVER_FED_BACK else 2)
    for p in learned:
        torch.nn.init.constant_(p, 0.4)
    s_i, s_f = part.static
    assert s_i.item() == pytest.approx(math.exp(0.4), rel=1e-12)
    if cell in NEVER_FED_BACK:
        assert s_f == 0.0
    else:
        assert s_f.item() == pytest.approx(1 / (1 + math.exp(-0.4)), rel=1e-12)


@pytest.mark.parametrize("cell", [c for c in CELLS if c not in ("linear", "linear-gated", "cnn")])
def test_cells_with_gates_have_nothing_static(cell: str) -> None:
    static = random_rkm(3, 4, **options_for(cell)).cells[0].static
    if cell == "gated-cnn":
        assert tuple(static) == (1.0, 0.0)
    else:
        assert static is None


def test_blocks_share_the_channels_evenly() -> None:
    cell = random_rkm(3, 11, ngram=[2, 1, 5, 3], cell="cnn").cells[0]
    found = [tuple(w.shape) for w in cell.filters["candidate"].weights]
    assert found == [(3, 3, 2), (3, 3, 1), (3, 3, 5), (2, 3, 3)]


SINGLE: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "rkm-lstm": {"ngram": 3, "layer_norm": True},
    "scan-cifg": {"cell": "rkm-cifg", "feedback": False, "ngram": [1, 3], "dilation": 2},
    "cnn": {"cell": "cnn", "ngram": [1, 2, 4], "layer_norm": True},
    "wavelets": {"filters": "syncnet", "ngram": 6},
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision(name: str) -> None:
    """Large products, which in float32 may take another way, are those of float64."""
    torch.manual_seed(0)
    double = RKM(160, 256, **SINGLE[name]).double()
    single = copy.deepcopy(double).float()
    x = random_text(40, 20, 160)
    found = []
    for rkm, text in [(double, x.clone()), (single, x.float())]:
        output, state = rkm(text.requires_grad_())
        outputs = [output, state.h, state.c]
        total = sum((random_text(*t.shape, seed=9).to(t) * t).sum() for t in outputs)
        found.append([*outputs, *torch.autograd.grad(total, [text, *rkm.parameters()])])
    for wanted, given in zip(*found, strict=True):
        assert given.dtype == torch.float32
        assert (given - wanted).abs().max() <= 2e-5 * wanted.abs().max()


# Machines with parts of one's own, in few bits, and states that are changed in place


class Doubled(nn.Module):
    """A parametrization that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return 2 * weight


@pytest.mark.parametrize("part", ["recurrent.forget", "norm"])
def test_parametrized_parts_are_read_once_a_text(part: str) -> None:
    """Not once a step: a power iteration, or a dropout of weights, is one for the whole text."""
    rkm, plain = (random_rkm(3, 4, layer_norm=True) for _ in range(2))
    doubled = Doubled()
    parametrize.register_parametrization(rkm.get_submodule(f"cells.0.{part}"), "weight", doubled)
    with torch.no_grad():
        plain.get_parameter(f"cells.0.{part}.weight").mul_(2)
    x = random_text(7, 2, 3)
    doubled.calls = 0
    output, _ = rkm(x)
    assert doubled.calls <= 2  # a norm is asked whether it has a weight
    close(output, plain(x)[0])
    (found,) = torch.autograd.grad(output.sum(), doubled_weight(rkm, part))
    (expected,) = torch.autograd.grad(
        plain(x)[0].sum(), plain.get_parameter(f"cells.0.{part}.weight")
    )
    close(found, 2 * expected)


def doubled_weight(rkm: RKM, part: str) -> nn.Parameter:
    return rkm.get_parameter(f"cells.0.{part}.parametrizations.weight.original")


@pytest.mark.parametrize("feedback", [True, False])
def test_another_norm(feedback: bool) -> None:
    """One without an epsilon, too."""
    rkm = random_rkm(3, 4, layer_norm=True, feedback=feedback)
    rkm.cells[0].norm = nn.Identity()
    x = random_text(5, 2, 3)
    close(rkm(x)[0], rkm_equations(rkm.cells[0], x, feedback=feedback).output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_wide_wavelets_in_half_precision(dtype: torch.dtype) -> None:
    """The rounding of parameters and of the filters, and no other: 300 squared is out of range."""
    torch.manual_seed(0)
    filters = SyncNetFilters(2, 5, [600]).to(dtype)
    (found,) = filters()
    assert found.dtype == dtype
    alpha, omega, phi, raw = (
        p.detach().double()[..., None]
        for p in (filters.alpha, filters.omega[:, None], filters.phi, filters.raw_beta[:, None])
    )
    t = torch.arange(600, dtype=F64) - 299.5
    expected = alpha * torch.cos(omega * t + phi) * torch.exp(-torch.log1p(raw.exp()) * t**2)
    rounding = torch.finfo(dtype).eps * expected.abs().max()
    assert (found.double() - expected).abs().max() < rounding + 1e-4 * expected.abs().max()


def test_initial_wavelets_keep_the_variance_of_white_inputs() -> None:
    """And their frequencies cover half a period in the window to half a period a sample."""
    torch.manual_seed(0)
    for n, features in [(40, 11), (9, 1)]:
        filters = SyncNetFilters(features, 3000, [n]).double()
        (weight,) = filters()
        assert weight.square().sum((1, 2)).mean().item() == pytest.approx(1.0, rel=0.05)
        turns = filters.omega * n / math.pi  # half periods in the window
        assert 1 <= turns.min() < 1.01 and 0.99 * n < turns.max() <= n
        quarters = turns.log().div(math.log(n)).histc(4, 0.0, 1.0) / 3000
        assert (quarters - 0.25).abs().max() < 0.001
        height = torch.exp(-filters.beta * ((n - 1) / 2) ** 2)
        close(height, torch.full_like(height, 0.1), rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"cell": "ran"}, {"cell": "general", "q": "identity"}, {"cell": "rkm-lstm"}],
    ids=str,
)
@pytest.mark.parametrize("feedback", [True, False])
def test_the_parts_of_a_state_are_changed_one_by_one(
    options: dict[str, Any], feedback: bool
) -> None:
    cell = RKMCell(3, 4, feedback=feedback, **options)
    with torch.no_grad():
        h, c = cell(torch.randn(2, 3))
        kept = c.clone()
        h.mul_(0.5)
    assert torch.equal(c, kept)


def test_a_module_described_is_one_line() -> None:
    q = nn.Sequential(nn.Tanh(), nn.Softplus())
    text = repr(RKM(3, 4, cell="general", q=q, num_layers=2))
    assert "\n" not in text and "Tanh()" in text and "num_layers=2" in text
    assert "q=sin," in repr(RKM(3, 4, cell="general", q=torch.sin, num_layers=2))
    assert "q='tanh'" in repr(RKM(3, 4, cell="general", q="tanh"))


def test_what_is_refused_by_name() -> None:
    filters = DenseFilters(3, 4, [1, 2])
    assert not hasattr(filters, "weight")
    with pytest.raises(AttributeError, match=r"2 widths, expected weights\[b\]"):
        _ = filters.weight


# Initial values, dropout and repr of the machines


def test_repr() -> None:
    text = repr(
        RKM(3, 4, cell="linear-gated", ngram=[1, 3], dilation=2, filters="syncnet", layer_norm=True,
            num_layers=2, batch_first=True, bidirectional=True, feedback=False)
    )  # fmt: skip
    for part in ["cell='linear-gated'", "ngram=[1, 3]", "dilation=2", "filters='syncnet'",
                 "layer_norm=True", "num_layers=2", "batch_first=True", "bidirectional=True",
                 "feedback=False"]:  # fmt: skip
        assert (
            part in text or part.replace("'", "") in text or part.split("=")[1].strip("'") in text
        )
    assert "\n" not in text


@pytest.mark.parametrize("cell", CELLS)
def test_initial_values_are_of_a_reasonable_size(cell: str) -> None:
    """Deep in a text, outputs of white input neither vanish nor blow up; gates begin half open."""
    torch.manual_seed(0)
    q = {"q": "tanh"} if cell == "general" else {}
    for ngram in (1, [1, 3]):
        rkm = RKM(50, 60, cell=cell, ngram=ngram, **q)
        output, _ = rkm(torch.randn(40, 8, 50))
        assert 0.01 < output[-1].std() < 10
        weights = [p for p in rkm.parameters() if p.dim() > 1]
        assert all(p.std() > 0 and p.isfinite().all() for p in weights)


# The numbers of weights are those of the paper


def weights(rkm: RKM) -> int:
    return sum(p.numel() for p in rkm.parameters() if p.dim() > 1)


TABLE_2 = {  # thousands of parameters with 1-grams and 3-grams, 300 inputs and 300 units
    "lstm": (720, 1440),
    "rkm-lstm": (720, 1440),
    "rkm-cifg": (540, 1080),
    "linear-gated": (360, 720),
    "linear": (180, 360),
    "gated-cnn": (180, 540),
    "cnn": (90, 270),
}


@pytest.mark.parametrize("cell", TABLE_2)
def test_number_of_weights(cell: str) -> None:
    """Tables 1 and 2 of the paper, which count weights alone."""
    maps = len(GATES[cell]) + 1
    fed_back = cell not in ("gated-cnn", "cnn")
    for n, thousands in zip((1, 3), TABLE_2[cell], strict=True):
        with torch.device("meta"):
            assert weights(RKM(300, 300, cell=cell, ngram=n)) == 1000 * thousands
            assert weights(RKM(11, 30, cell=cell, ngram=n)) == maps * 30 * (11 * n + 30 * fed_back)
            biases = 30 * (maps if cell == "lstm" else maps - 1)
            rkm = RKM(11, 30, cell=cell, ngram=n)
            assert sum(p.numel() for p in rkm.parameters()) == weights(rkm) + biases


# Windows before a text, and those that its state carries on


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm"])  # which has b_c
def test_texts_shorter_than_the_window(cell: str) -> None:
    """Zeros stand before a text: it is the end of the same text with zeros in front."""
    q = {"q": "tanh"} if cell == "general" else {}
    rkm = random_rkm(SIZE, HIDDEN, cell=cell, ngram=[6, 2], dilation=3, **q)
    pieces = texts(1, 3, 0, 5)
    output, _ = rkm(torch.cat(pieces), ptr=pointers(pieces))
    for found, piece in zip(output.split([1, 3, 0, 5]), pieces, strict=True):
        close(found, rkm(torch.cat([piece.new_zeros(20, SIZE), piece]))[0][20:])


@pytest.mark.parametrize("name", ONE_WAY)
def test_state(name: str) -> None:
    """Its type and, where windows reach back, the last inputs."""
    rkm, x, reach = build(ONE_WAY[name]), random_text(6, 3, SIZE), reach_of(ONE_WAY[name])
    output, state = rkm(x)
    close(state.h[-1], output[-1])
    if not reach:
        assert isinstance(state, RKMState) and len(state) == 2
        return
    assert isinstance(state, RKMWindowState) and len(state) == 3
    kept = torch.cat([x.new_zeros(reach, 3, SIZE), x])[-reach:]
    close(state.x[:, :, :SIZE], kept)
    _, short = rkm(x[:1])
    close(short.x[-1, :, :SIZE], x[0])
    assert (short.x[:-1] == 0).all()


def test_windows_of_a_stack_hold_the_inputs_of_each_layer() -> None:
    rkm, x = random_rkm(SIZE, HIDDEN, num_layers=2, ngram=3), random_text(6, 3, SIZE)
    first = random_rkm(SIZE, HIDDEN, ngram=3)
    first.cells[0].load_state_dict(rkm.cells[0].state_dict())
    middle, _ = first(x)
    _, state = rkm(x)
    close(state.x, torch.cat([x[-2:], middle[-2:]], dim=-1))


# SyncNet's filters are eq. 21, and their four groups of parameters are learned

CHANNELS, FILTERS = 3, 7
widths = pytest.mark.parametrize("widths", [[5], [40], [2, 5], [4, 3, 8]], ids=str)


def random_filters(widths: list[int]) -> tuple[SyncNetFilters, Tensor]:
    """Filters with every parameter away from its initial value, and their raw beta."""
    torch.manual_seed(0)
    filters = SyncNetFilters(CHANNELS, FILTERS, widths).double()
    for parameter in filters.parameters():
        torch.nn.init.normal_(parameter)
    named = dict(filters.named_parameters())
    (raw,) = (p for name, p in named.items() if name not in ("alpha", "omega", "phi"))
    return filters, raw


@widths
def test_eq_21(widths: list[int]) -> None:
    """One number at a time, with Python's own cosine and exponential."""
    filters, raw = random_filters(widths)
    found = filters()
    assert len(found) == len(widths)
    each, more = divmod(FILTERS, len(widths))
    k = 0
    for b, (n, weight) in enumerate(zip(widths, found, strict=True)):
        size = each + (b < more)
        assert weight.shape == (size, CHANNELS, n)
        for row in weight.tolist():
            beta = math.log1p(math.exp(raw[k].item()))
            omega = filters.omega[k].item()
            for c in range(CHANNELS):
                alpha, phi = filters.alpha[k, c].item(), filters.phi[k, c].item()
                times = [i - (n - 1) / 2 for i in range(n)]
                expected = [
                    alpha * math.cos(omega * t + phi) * math.exp(-beta * t * t) for t in times
                ]
                assert row[c] == pytest.approx(expected, rel=1e-12, abs=1e-14)
            k += 1
    assert k == FILTERS


def test_gradcheck() -> None:
    filters, _ = random_filters([2, 5])
    names = [name for name, _ in filters.named_parameters()]

    def made(*parameters: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, parameters, strict=True))
        return tuple(torch.func.functional_call(filters, given, ()))

    parameters = tuple(p.detach().requires_grad_() for p in filters.parameters())
    assert torch.autograd.gradcheck(made, parameters)
    assert torch.autograd.gradgradcheck(made, parameters, fast_mode=True)


@pytest.mark.parametrize("value", [-1000.0, -3.0, 0.0, 3.0, 1000.0])
def test_beta_is_never_negative(value: float) -> None:
    filters, raw = random_filters([5])
    with torch.no_grad():
        raw.fill_(value)
    assert (filters.beta >= 0).all()
    assert all(w.isfinite().all() for w in filters())
    softplus = max(value, 0.0) + math.log1p(math.exp(-abs(value)))
    close(filters.beta, torch.full((FILTERS,), softplus, dtype=F64))


@pytest.mark.parametrize("n", [4, 5])
def test_the_middle_of_even_and_odd_windows(n: int) -> None:
    """With φ = 0 a filter is symmetric; with φ = π/2 it is odd, 0 in the middle of odd windows."""
    filters, _ = random_filters([n])
    with torch.no_grad():
        filters.phi.zero_()
    (even,) = filters()
    close(even, even.flip(2))
    if n % 2:
        close(even[:, :, n // 2], filters.alpha)
    with torch.no_grad():
        filters.phi.fill_(math.pi / 2)
    (odd,) = filters()
    close(odd, -odd.flip(2))


@pytest.mark.parametrize("cell", ["cnn", "gated-cnn", "rkm-lstm"])
@pytest.mark.parametrize("n", [4, 5])
def test_convolution_with_them_is_conv1d(cell: str, n: int) -> None:
    """The newest sample meets the last tap."""
    rkm = random_rkm(CHANNELS, FILTERS, cell=cell, ngram=n, filters="syncnet", feedback=False)
    part, x = rkm.cells[0], random_text(12, 2, CHANNELS)
    padded = pad(x.permute(1, 2, 0), (n - 1, 0))

    def read(gate: str) -> Tensor:
        (weight,) = part.filters[gate]()
        bias = part.biases[gate] if gate != "candidate" else None
        return conv1d(padded, weight, bias).permute(2, 0, 1)

    memory = read("candidate")
    if cell == "cnn":
        expected = torch.tanh(memory)
    elif cell == "gated-cnn":
        expected = torch.sigmoid(read("output")) * memory
    else:
        c, expected = torch.zeros(2, FILTERS, dtype=F64), torch.empty(12, 2, FILTERS, dtype=F64)
        o, i, f = (torch.sigmoid(read(gate)) for gate in ("output", "input", "forget"))
        for t in range(12):
            c = i[t] * memory[t] + f[t] * c
            expected[t] = o[t] * c
    close(rkm(x)[0], expected)
