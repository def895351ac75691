"""Machines: static gates, filters, special cases, initial values."""

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
from tests.sequence.rkm import CELLS, HIDDEN, NEVER_FED_BACK, STATIC, random_rkm, wavelets
from tests.sequence.texts import F64, SIZE, close, pointwise, random_text
from tests.sequence.variants import Options


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


# Special cases of the cells are sums of convolutions. Other tests compare the gradients
# with those of the equations

NEVER, ALWAYS = -1e3, 1e3  # their sigmoids are exactly 0 and 1
X = random_text(9, 3, SIZE)
WINDOW: Options = {"ngram": 3, "dilation": 2}


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


def convolution(cell: Any, gate: str) -> Tensor:
    """conv1d of the texts, with zeros before the first token."""
    padded = pad(X.permute(1, 2, 0), (cell.history, 0))
    return conv1d(padded, cell.filters[gate].weight, dilation=cell.dilation).permute(2, 0, 1)


GATED_CNN = {"forget": NEVER, "output": ALWAYS}
SUMS: list[tuple[Options, dict[str, float], tuple[float, float], str]] = [
    (WINDOW, GATED_CNN, (1.0, 0.0), "identity"),  # eq. 16
    ({"cell": "cnn", **WINDOW}, {}, (1.0, 0.0), "tanh"),
    ({"cell": "cnn", "static": 0.4, **WINDOW}, {}, (0.4, 0.0), "tanh"),
    ({"cell": "linear-gated", "ngram": 3}, {"output": ALWAYS}, (0.5, 0.5), "identity"),  # eq. 15
    ({"cell": "general", "q": "identity", "ngram": 3}, {}, (1.0, 1.0), "identity"),
    *[
        ({"cell": "linear", "static": static}, {}, static, "tanh")
        for static in [(0.5, 0.5), (2.0, 0.9), (1.0, 0.0), (0.3, 1.0)]
    ],
]


@pytest.mark.parametrize(("options", "held", "static", "out"), SUMS, ids=str)
def test_memories_that_are_sums_of_convolutions(
    options: Options, held: dict[str, float], static: tuple[float, float], out: str
) -> None:
    """c_t = s_i Σ_k s_f^k c̃_{t-k} without feedback; c̃ is a convolution, gated in eq. 16."""
    (rkm, cell), (s_i, s_f) = machine(feedback=False, **options), static
    for gate, bias in held.items():
        hold(cell, gate, bias)
    candidate = convolution(cell, "candidate")
    if "input" in cell.filters:
        candidate = torch.sigmoid(convolution(cell, "input") + cell.biases["input"]) * candidate
    memory = torch.stack(
        [sum(s_i * s_f**k * candidate[t - k] for k in range(t + 1)) for t in range(len(X))]
    )
    output, state = rkm(X)
    close([output, state.c[0]], [pointwise(out)(memory), memory[-1]])


@pytest.mark.parametrize("part", ["recurrent.forget", "norm"])
def test_parametrized_parts_are_read_once_a_text(part: str) -> None:
    """Not once a step, so one power iteration or weight dropout holds for the whole text."""
    rkm, parametrization, calls = random_rkm(3, 4, layer_norm=True), nn.Identity(), []
    module = rkm.cells[0].get_submodule(part)
    parametrize.register_parametrization(module, "weight", parametrization)
    parametrization.register_forward_hook(lambda *_: calls.append(1))
    rkm(random_text(7, 2, 3))
    assert 1 <= len(calls) <= 2  # a norm is asked whether it has a weight


@pytest.mark.parametrize("feedback", [None, False])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_stays_with_a_norm_of_ones_own(cell: str, feedback: bool | None) -> None:
    q = {"q": "tanh"} if cell == "general" else {}
    rkm = random_rkm(SIZE, HIDDEN, cell=cell, feedback=feedback, layer_norm=True, **q)
    rkm.cells[0].norm = nn.Softsign()
    x, lengths = random_text(2, 5, 1, SIZE), torch.tensor([[5], [2]])
    found = torch.func.vmap(lambda x, n: rkm(x, lengths=n)[0])(x, lengths)
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
