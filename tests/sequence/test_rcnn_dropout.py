"""Dropout between layers, and one mask a text on what a layer reads."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.covering import covering
from tests.sequence.equations import read_in_form
from tests.sequence.rcnn import EVERY, layer_equations, random_rcnn
from tests.sequence.texts import SIZE, close, pointers, random_text, texts

KEPT = 0.6


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The masks that a layer draws: on x, then on h, for each cell."""
    found: list[Tensor] = []
    draw = Tensor.bernoulli_

    def record(mask: Tensor, *args: Any) -> Tensor:
        found.append(draw(mask, *args))
        return mask

    monkeypatch.setattr(Tensor, "bernoulli_", record)
    return found


def dropping(*sizes: int, **options: Any) -> RCNN:
    return random_rcnn(*sizes, state_dropout=1 - KEPT, **options).train()


OPTIONS = covering(
    2,
    decay=[0.5, "learned", "input", "recurrent"],
    order=[1, 2],
    combine=["mul", "add"],
    output_gate=[False, True],
    highway=[False, True],
    output_map=[False, True],
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equations(options: dict[str, Any], drawn: list[Tensor]) -> None:
    """All maps read the masked token and gates the masked output; what is carried is whole."""
    rcnn, pieces = dropping(SIZE, SIZE, **options), texts(5, 0, 2)
    output, (h, c) = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    parts = output.split([5, 0, 2])
    for b, (x, masks) in enumerate(zip(pieces, zip(*drawn, strict=True), strict=True)):
        expected = layer_equations(rcnn.cells[0], x, masks=masks, **options)
        close((parts[b], h[0, b], c[0, b]), expected)


def test_maxima(drawn: list[Tensor]) -> None:
    options = {"order": 1, "decay": "recurrent", "act": None, "bias": False}
    rcnn, x = dropping(SIZE, 3, pooling="max", **options), random_text(6, 2, SIZE)
    (cell,), (output, _) = rcnn.cells, rcnn(x)
    on_x, on_h = drawn
    h = on_h.new_zeros(2, 3)
    for t, read in enumerate(x * on_x):
        new, before = read @ cell.lins[0].weight.t(), (h * on_h) @ cell.decay_recurrent.weight.t()
        lam = torch.sigmoid(read @ cell.decay_lin.weight.t() + before + cell.decay_bias)
        h = torch.maximum(lam * h, new) if t else new
        close(output[t], h)


@pytest.mark.parametrize("form", ["grid", "packed", "paths", "left", "holes"])
def test_forms_of_texts(form: str) -> None:
    rcnn, pieces = dropping(SIZE, 3, decay="recurrent"), texts(5, 5)
    torch.manual_seed(0)
    expected, _ = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    torch.manual_seed(0)
    close(read_in_form(rcnn, pieces, form=form)[0], expected)


def test_a_mask_of_its_own_for_each_text_layer_direction_and_call(drawn: list[Tensor]) -> None:
    torch.manual_seed(0)
    rcnn = dropping(64, 64, num_layers=2, bidirectional=True)
    for _ in range(2):
        rcnn(random_text(3, 2, 64))
    first, second = [64, 64] * 2, [128, 64] * 2
    assert [mask.size(1) for mask in drawn] == 2 * (first + second)
    masks = torch.cat([mask[:, :64] for mask in drawn])
    assert ((masks == 0) | (masks == 1 / KEPT)).all()
    assert 0.35 < (masks == 0).double().mean() < 0.45
    assert len(masks.unique(dim=0)) == len(masks)


def test_standard_dropout_is_between_layers() -> None:
    def masks(dropout: float, num_layers: int) -> Tensor:
        """By what layers that repeat their input multiplied it: order 1, decay 0, W = 1."""
        rcnn = RCNN(64, 64, num_layers, order=1, decay=0.0, act=None, dropout=dropout).double()
        for cell in rcnn.cells:
            torch.nn.init.eye_(cell.lins[0].weight)
        return rcnn(x)[0] / x

    torch.manual_seed(0)
    x = random_text(5, 3, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as nn.LSTM's: one layer has nothing to drop between
        close(masks(0.5, 1), torch.ones_like(x))
    for dropout, layers, share in [(0.5, 2, 0.5), (0.5, 3, 0.75), (0.2, 2, 0.2)]:
        found = masks(dropout, layers)
        kept = (1 - dropout) ** (1 - layers)
        assert ((found == 0) | ((found - kept).abs() < 1e-12)).all()
        assert abs((found == 0).double().mean() - share) < 0.1
        assert not torch.equal(found[0], found[1])  # every token its own mask


@pytest.mark.parametrize("name", ["recurrent", "max-add-learned", "both-ways-recurrent"])
def test_nothing_is_dropped_in_evaluation(name: str) -> None:
    rcnn, plain = (random_rcnn(SIZE, SIZE, state_dropout=p, **EVERY[name]) for p in (0.5, 0.0))
    x = random_text(5, 2, SIZE)
    rcnn.eval()
    close(rcnn(x)[0], plain(x)[0])
    rcnn.train()
    assert not torch.allclose(rcnn(x)[0], plain(x)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dropout_of_what_gates_read(dtype: torch.dtype) -> None:
    layer = RCNN(6, 6, decay="recurrent", state_dropout=0.5).to(dtype)
    layer(torch.randn(5, 3, 6, dtype=dtype))[0].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
