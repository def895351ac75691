"""Functions q, static factors and which inputs have gradients."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.sequence import RKM, RKMCell
from tests.sequence.equations import assert_equations
from tests.sequence.rkm_equations import CELLS, NEVER_FED_BACK, Q, random_rkm
from tests.sequence.rkm_variants import FAMILY
from tests.sequence.texts import SIZE, random_text, texts
from tests.sequence.variants import Variant

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
