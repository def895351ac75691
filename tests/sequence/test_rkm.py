"""Machines: gates, functions q, filters, special cases, initial values, custom parts."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad
from torch.nn.utils import parametrize

from pyg_kernels.sequence import RKM, DenseFilters, RKMCell, SyncNetFilters
from tests.sequence.equations import assert_equations
from tests.sequence.rcnn import random_rcnn
from tests.sequence.rkm import (
    CELLS,
    FAMILY,
    HIDDEN,
    NEVER_FED_BACK,
    STATIC,
    random_rkm,
    wavelets,
)
from tests.sequence.texts import F64, SIZE, close, random_text, texts
from tests.sequence.variants import Variant


class Scaled(nn.Module):
    """A pointwise function with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, t: Tensor) -> Tensor:
        return torch.sin(self.scale * t)


def softsign(t: Tensor) -> Tensor:
    return t / (1 + t.abs())


NAMED = ["identity", "tanh", "relu", "sigmoid"]
OTHERS = [torch.tanh, softsign, nn.ReLU(), nn.Softplus(), Scaled()]


@pytest.mark.parametrize("q", [*NAMED, *OTHERS], ids=lambda q: getattr(q, "__name__", str(q)))
def test_q(q: Any) -> None:
    """For eq. 8, and for eq. 6 with windows and a norm."""
    windows = {"feedback": False, "layer_norm": True, "ngram": [1, 3], "dilation": 2}
    for options in ({}, windows):
        variant = Variant(FAMILY, {"cell": "general", "q": q, **options})
        assert_equations(variant, variant.build(), texts(6, 0, 3, 1))


@pytest.mark.parametrize("cell", STATIC)
@torch.no_grad()
def test_static_gates(cell: str) -> None:
    """They are the table's or those given; learned ones (exp and sigmoid) start from these."""
    memoryless = cell in NEVER_FED_BACK
    default, other = ((1.0, 0.0), (0.3, 0.0)) if memoryless else ((0.5, 0.5), (0.3, 0.8))
    for static, expected in [(None, default), (other[0] if memoryless else other, other)]:
        assert RKMCell(3, 4, cell=cell, static=static).static == expected
        part = RKMCell(3, 4, cell=cell, static=static, learn_static=True).double()
        assert [float(s) for s in part.static] == pytest.approx(expected, rel=1e-6)
    learned = [p for p in part.parameters() if p.dim() == 0]
    assert len(learned) == 2 - memoryless
    for p in learned:
        torch.nn.init.constant_(p, 0.4)
    moved = (math.exp(0.4), 0.0 if memoryless else 1 / (1 + math.exp(-0.4)))
    assert [float(s) for s in part.static] == pytest.approx(moved, rel=1e-12)


# Special cases of the cells: convolutions, RCNN, RAN and sums. Other tests compare the gradients
# with those of the equations

NEVER, ALWAYS = -1e3, 1e3  # their sigmoids are exactly 0 and 1
X = random_text(9, 3, SIZE)
WINDOW = {"ngram": 3, "dilation": 2}


def machine(**options: Any) -> tuple[RKM, Any]:
    """A machine and its cell."""
    rkm = random_rkm(SIZE, HIDDEN, **options)
    return rkm, rkm.cells[0]


@torch.no_grad()
def hold(cell: RKMCell, gate: str, bias: float) -> None:
    """Makes a gate the same number for every token."""
    for part in (cell.filters, cell.recurrent):
        if gate in part:
            part[gate].weight.zero_()
    cell.biases[gate].fill_(bias)


def convolution(weight: Tensor, dilation: int = 1) -> Tensor:
    """conv1d of the texts, with zeros before the first token."""
    padded = pad(X.permute(1, 2, 0), ((weight.size(2) - 1) * dilation, 0))
    return conv1d(padded, weight, dilation=dilation).permute(2, 0, 1)


def test_no_forgetting_and_open_output_is_the_gated_cnn_of_eq_16() -> None:
    """h = sigmoid(X_eta * x + b) ⊙ (X * x)."""
    rkm, cell = machine(feedback=False, **WINDOW)
    hold(cell, "forget", NEVER)
    hold(cell, "output", ALWAYS)
    eta, candidate = (convolution(cell.filters[g].weight, 2) for g in ("input", "candidate"))
    expected = torch.sigmoid(eta + cell.biases["input"]) * candidate
    output, state = rkm(X)
    close(output, expected)
    close(state.c[0], expected[-1])


def test_open_output_and_a_candidate_without_feedback_is_the_ran() -> None:
    (rkm, full), (ran, cell) = machine(**WINDOW), machine(cell="ran", **WINDOW, seed=1)
    cell.load_state_dict(full.state_dict(), strict=False)
    hold(full, "output", ALWAYS)
    torch.nn.init.zeros_(full.recurrent["candidate"].weight)
    (found, state), (expected, last) = ran(X), rkm(X)
    close(found, expected)
    close(state.c, last.c)
    close(found[-1], state.c[0])


@pytest.mark.parametrize("s_i", [1.0, 0.4])
def test_the_cnn_is_conv1d_and_tanh(s_i: float) -> None:
    rkm, cell = machine(cell="cnn", static=s_i, **WINDOW)
    memory = s_i * convolution(cell.filters["candidate"].weight, 2)
    output, state = rkm(X)
    close(output, torch.tanh(memory))
    close(state.c[0], memory[-1])


@pytest.mark.parametrize("static", [(0.5, 0.5), (2.0, 0.9), (1.0, 0.0), (0.3, 1.0)], ids=str)
def test_static_gates_are_a_geometric_sum(static: tuple[float, float]) -> None:
    """c_t = s_i Σ_k s_f^k c̃_{t-k}; of a constant text s_i (1 - s_f^t)/(1 - s_f) c̃."""
    s_i, s_f = static
    rkm, cell = machine(cell="linear", static=static, feedback=False)
    candidate = convolution(cell.filters["candidate"].weight)
    for t in (1, 4, 9):
        terms = [s_i * s_f**k * candidate[t - 1 - k] for k in range(t)]
        close(rkm(X[:t])[1].c[0], torch.stack(terms).sum(dim=0))
        total = t if s_f == 1 else (1 - s_f**t) / (1 - s_f)
        output, state = rkm(X[:1].expand(t, -1, -1))
        close(state.c[0], s_i * total * candidate[0])
        close(output[-1], torch.tanh(s_i * total * candidate[0]))


def test_open_output_makes_linear_gated_the_linear_kernel_of_eq_15() -> None:
    """h_t = s_i (X · X_t) + s_f h_{t-1}."""
    rkm, cell = machine(cell="linear-gated", ngram=3, feedback=False)
    hold(cell, "output", ALWAYS)
    h = torch.zeros(3, HIDDEN, dtype=F64)
    for read, output in zip(convolution(cell.filters["candidate"].weight), rkm(X)[0], strict=True):
        h = 0.5 * read + 0.5 * h
        close(output, h)


def test_cifg_without_feedback_is_a_first_order_rcnn() -> None:
    rkm, mine = machine(cell="rkm-cifg", feedback=False)
    rcnn = random_rcnn(SIZE, HIDDEN, order=1, decay="input", act=None, bias=False)
    theirs = rcnn.cells[0]
    hold(mine, "output", ALWAYS)
    with torch.no_grad():
        mine.filters["candidate"].weight.copy_(theirs.lins[0].weight[..., None])
        mine.filters["forget"].weight.copy_(theirs.decay_lin.weight[..., None])
        mine.biases["forget"].copy_(theirs.decay_bias)
    (found, state), (expected, last) = rkm(X), rcnn(X)
    close(found, expected)
    close(state.c, last.c[:, :, 0])


def test_input_and_forget_gates_that_add_up_are_coupled() -> None:
    """rkm-lstm with η = 1 - f, that is with the forget gate's maps negated, is rkm-cifg."""
    (rkm, full), (cifg, coupled) = machine(ngram=2), machine(cell="rkm-cifg", ngram=2, seed=1)
    full.load_state_dict(coupled.state_dict(), strict=False)
    with torch.no_grad():
        for part in (full.filters, full.recurrent):
            part["input"].weight.copy_(-part["forget"].weight)
        full.biases["input"].copy_(-full.biases["forget"])
    close(rkm(X)[0], cifg(X)[0])


def test_the_general_machine_with_identity_is_a_running_sum() -> None:
    rkm, cell = machine(cell="general", q="identity", feedback=False, ngram=3)
    close(rkm(X)[0], convolution(cell.filters["candidate"].weight).cumsum(dim=0))


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
    """Not once a step, so one power iteration or weight dropout holds for the whole text."""
    rkm, plain = (random_rkm(3, 4, layer_norm=True) for _ in range(2))
    doubled, weight = Doubled(), plain.get_parameter(f"cells.0.{part}.weight")
    parametrize.register_parametrization(rkm.get_submodule(f"cells.0.{part}"), "weight", doubled)
    original = rkm.get_parameter(f"cells.0.{part}.parametrizations.weight.original")
    weight.data.copy_(2 * original)
    x = random_text(7, 2, 3)
    doubled.calls = 0
    output, _ = rkm(x)
    assert doubled.calls <= 2  # a norm is asked whether it has a weight
    close(output, plain(x)[0])
    (found,) = torch.autograd.grad(output.sum(), original)
    (expected,) = torch.autograd.grad(plain(x)[0].sum(), weight)
    close(found, 2 * expected)


@pytest.mark.parametrize("feedback", [None, False])
@pytest.mark.parametrize("cell", CELLS)
def test_another_norm(cell: str, feedback: bool | None) -> None:
    """A norm that has no epsilon; for the general cell, also with a custom function q."""
    options = {"cell": cell, "feedback": feedback, "layer_norm": True}
    variant = Variant(FAMILY, {**options, **({"q": softsign} if cell == "general" else {})})
    rkm = variant.build()
    rkm.cells[0].norm = nn.Softsign()
    assert_equations(variant, rkm, texts(6, 0, 3, 1))
    x, lengths = random_text(2, 5, 1, SIZE), torch.tensor([[5], [2]])
    found = torch.func.vmap(lambda x, n: rkm(x, lengths=n)[0])(x, lengths)  # padding stays
    expected, _ = rkm(x.squeeze(2).transpose(0, 1), lengths=[5, 2])
    close(found.squeeze(2).transpose(0, 1), expected)


@pytest.mark.parametrize("feedback", [True, False])
def test_the_parts_of_a_state_are_changed_one_by_one(feedback: bool) -> None:
    for options in ({"cell": "ran"}, {"cell": "general", "q": "identity"}, {}):
        cell = RKMCell(3, 4, feedback=feedback, **options)
        with torch.no_grad():
            h, c = cell(torch.randn(2, 3))
            kept = c.clone()
            h.mul_(0.5)
        assert torch.equal(c, kept)


def test_one_weight_of_several_widths_is_refused_by_name() -> None:
    filters = DenseFilters(3, 4, [1, 2])
    assert not hasattr(filters, "weight")
    with pytest.raises(AttributeError, match=r"2 widths, expected weights\[b\]"):
        _ = filters.weight
    with pytest.raises(AttributeError):
        filters.weight = torch.zeros(4, 3, 1)  # would stand beside the weights that are read


@pytest.mark.parametrize("cell", CELLS)
def test_initial_values_are_of_a_reasonable_size(cell: str) -> None:
    """Deep in a text, outputs of white input neither vanish nor explode; gates begin half open."""
    torch.manual_seed(0)
    q = {"q": "tanh"} if cell == "general" else {}
    for ngram in (1, [1, 3]):
        rkm = RKM(50, 60, cell=cell, ngram=ngram, **q)
        output, _ = rkm(torch.randn(40, 8, 50))
        assert 0.01 < output[-1].std() < 10
        weights = [p for p in rkm.parameters() if p.dim() > 1]
        assert all(p.std() > 0 and p.isfinite().all() for p in weights)


TABLE_2 = {  # thousands of weights with 1-grams and 3-grams, 300 inputs and 300 units
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
    """Table 2 of the paper, which does not count biases."""
    for n, thousands in zip((1, 3), TABLE_2[cell], strict=True):
        rkm = RKM(300, 300, cell=cell, ngram=n, device="meta")
        assert sum(p.numel() for p in rkm.parameters() if p.dim() > 1) == 1000 * thousands


@pytest.mark.parametrize("value", [-1000.0, 0.0, 1000.0])
def test_beta_is_never_negative(value: float) -> None:
    filters = SyncNetFilters(3, 7, [5]).double()
    nn.init.constant_(filters.raw_beta, value)
    softplus = max(value, 0.0) + math.log1p(math.exp(-abs(value)))
    close(filters.beta, torch.full((7,), softplus, dtype=F64))
    assert all(w.isfinite().all() for w in filters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_wide_wavelets_in_half_precision(dtype: torch.dtype) -> None:
    """Only parameters and filters are rounded, although 300 squared exceeds float16's range."""
    torch.manual_seed(0)
    filters = SyncNetFilters(2, 5, [600]).to(dtype)
    (found,), (expected,) = filters(), wavelets(copy.deepcopy(filters).double(), [600])
    assert found.dtype == dtype
    rounding = torch.finfo(dtype).eps * expected.abs().max()
    assert (found.double() - expected).abs().max() < rounding + 1e-4 * expected.abs().max()


def test_initial_wavelets_keep_the_variance_of_white_inputs() -> None:
    """Their frequencies run from half a period per window to half a period per sample."""
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
