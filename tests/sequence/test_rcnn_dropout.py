"""Dropout between layers, and one mask a text on what a layer reads."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn import EVERY, build, random_rcnn
from tests.sequence.texts import F64, close, pointers, random_text, texts

WIDE = 64


def identity(size: int = WIDE, **options: Any) -> RCNN:
    """A layer that repeats its input: order 1, decay 0, W = 1."""
    rcnn = RCNN(size, size, order=1, act=None, **{"decay": 0.0, **options}).double()
    with torch.no_grad():
        for cell in rcnn.cells:
            cell.lins[0].weight.copy_(torch.eye(size))
    return rcnn.train()


def masks(found: Tensor, x: Tensor) -> Tensor:
    """By what the layer multiplied its input; (T, ..., F)."""
    return found / x


def test_standard_dropout_is_between_layers() -> None:
    torch.manual_seed(0)
    x = random_text(5, 3, WIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as nn.LSTM's: one layer has nothing to drop between
        close(identity(dropout=0.5)(x)[0], x)
    found = masks(identity(num_layers=2, dropout=0.5)(x)[0], x)
    assert ((found == 0) | (found == 2)).all()
    assert 0.4 < (found == 0).double().mean() < 0.6
    assert not torch.equal(found[0], found[1])  # every token its own mask
    found = masks(identity(num_layers=3, dropout=0.5)(x)[0], x)
    assert ((found == 0) | (found == 4)).all()
    assert 0.65 < (found == 0).double().mean() < 0.85
    found = masks(identity(num_layers=2, dropout=0.2)(x)[0], x)
    assert ((found == 0) | ((found - 1.25).abs() < 1e-12)).all()


@pytest.mark.parametrize("form", ["grid", "ragged", "unbatched", "masked", "packed"])
def test_one_mask_a_text(form: str) -> None:
    torch.manual_seed(0)
    rcnn = identity(state_dropout=0.5)
    x = random_text(5, 3, WIDE)
    if form == "unbatched":
        x = x[:, :1]
        found = rcnn(x[:, 0])[0][:, None]
    elif form == "ragged":
        ptr = torch.tensor([0, 5, 10, 15])
        found = rcnn(x.transpose(0, 1).flatten(0, 1), ptr=ptr)[0].unflatten(0, (3, 5))
        found = found.transpose(0, 1)
    elif form == "packed":
        packed = torch.nn.utils.rnn.pack_sequence(list(x.unbind(1)))
        found = torch.nn.utils.rnn.pad_packed_sequence(rcnn(packed)[0])[0]
    elif form == "masked":
        mask = torch.ones(5, 3, dtype=torch.bool)
        mask[2, 1] = False
        found = rcnn(x, mask=mask)[0]
        found[2, 1] = found[1, 1] / x[1, 1] * x[2, 1]
    else:
        found = rcnn(x)[0]
    mask = masks(found, x)
    assert ((mask == 0) | ((mask - 2).abs() < 1e-12)).all()
    assert 0.3 < (mask == 0).double().mean() < 0.7
    for t in range(1, 5):
        close(mask[t], mask[0])  # the same at each step
    for b in range(1, x.size(1)):
        assert not torch.equal(mask[0, b] == 0, mask[0, 0] == 0)  # not shared between texts


def test_one_mask_for_each_of_unequal_texts() -> None:
    torch.manual_seed(0)
    pieces = texts(2, 5, 0, 3, size=WIDE)
    output, _ = identity(state_dropout=0.5)(torch.cat(pieces), ptr=pointers(pieces))
    drawn = []
    for found, piece in zip(output.split([len(p) for p in pieces]), pieces, strict=True):
        mask = masks(found, piece)
        close(mask, mask[:1].expand_as(mask))
        drawn.extend(mask[:1])
    assert len(drawn) == 3 and not torch.equal(drawn[0] == 0, drawn[1] == 0)
    assert not torch.equal(drawn[1] == 0, drawn[2] == 0)


def test_a_mask_of_its_own_for_each_layer_and_call() -> None:
    torch.manual_seed(0)
    x = random_text(5, 2, WIDE)
    rcnn = identity(num_layers=2, state_dropout=0.5)
    mask = masks(rcnn(x)[0], x)
    assert ((mask == 0) | ((mask - 4).abs() < 1e-12)).all()
    assert 0.65 < (mask == 0).double().mean() < 0.85
    assert not torch.equal(mask == 0, masks(rcnn(x)[0], x) == 0)


def test_the_carried_state_is_not_dropped() -> None:
    """c is linear in what is read: it is the undropped c, times the mask of its channel."""
    torch.manual_seed(0)
    rcnn = identity(decay=0.5, normalize=False, state_dropout=0.5)
    x = random_text(6, 3, WIDE)
    found, (_, c) = rcnn(x)
    rcnn.eval()
    expected, (_, whole) = rcnn(x)
    mask = found[0] / x[0]
    assert ((mask == 0) | ((mask - 2).abs() < 1e-12)).all()
    close(found, mask * expected)
    close(c[0], mask[:, None] * whole[0])
    given = random_text(1, 3, 1, WIDE, seed=3)
    rcnn.train()
    _, (_, kept) = rcnn(x[:1], (torch.zeros(1, 3, WIDE, dtype=F64), given))
    rest = kept[0] - 0.5 * given[0]
    assert torch.isclose(rest, torch.zeros_like(rest)).logical_or(
        torch.isclose(rest, 2 * x[0][:, None])
    ).all()  # fmt: skip


def test_the_carried_input_of_a_highway_is_not_dropped() -> None:
    torch.manual_seed(0)
    rcnn = identity(highway=True, state_dropout=0.5)
    with torch.no_grad():
        rcnn.cells[0].highway_lin.weight.zero_()
        rcnn.cells[0].highway_bias.fill_(1.0)
    f = torch.sigmoid(torch.tensor(1.0, dtype=F64))
    x = random_text(5, 3, WIDE)
    mask = (masks(rcnn(x)[0], x) - (1 - f)) / f
    assert (torch.isclose(mask, torch.zeros_like(mask), atol=1e-9)
            | torch.isclose(mask, 2 * torch.ones_like(mask))).all()  # fmt: skip
    for t in range(1, 5):
        close(mask[t], mask[0], atol=1e-9)


@pytest.mark.parametrize("gate", ["decay", "output_gate", "highway"])
def test_gates_read_the_dropped_input(gate: str) -> None:
    """All maps of a layer read x under the same mask.

    The mask shows in channels with the decay 0 and W = 1; the layer in evaluation mode on the
    input so masked must then give the same numbers.
    """
    torch.manual_seed(0)
    size = 16
    options: dict[str, Any] = {
        "order": 1,
        "decay": "input",
        "act": None,
        "bias": False,
        "output_gate": gate == "output_gate",
        "highway": gate == "highway",
    }
    hidden = size if gate == "highway" else 2 * size
    rcnn = random_rcnn(size, hidden, state_dropout=0.5, **options).train()
    x = random_text(5, 3, size)
    cell = rcnn.cells[0]
    with torch.no_grad():
        shown = 8 if gate == "highway" else size
        cell.lins[0].weight[:shown] = torch.eye(size)[:shown]
        cell.decay_lin.weight[:shown] = 0.0
        cell.decay_bias[:shown] = -1e9
        for lin in [cell.lins[0], cell.decay_lin]:
            lin.weight[shown:, shown:] = 0.0
        if gate != "decay":
            getattr(cell, f"{gate}_lin").weight[:, shown:] = 0.0
    torch.manual_seed(1)
    found, (_, c) = rcnn(x)
    mask = torch.ones(3, size, dtype=F64)
    mask[:, :shown] = c[0, :, 0, :shown] / x[-1, :, :shown]
    assert 0.2 < (mask[:, :shown].abs() < 1e-9).double().mean() < 0.8
    rcnn.eval()
    if gate != "highway":
        close(found, rcnn(x * mask)[0])
        return
    dropped, _ = rcnn(x * mask)  # carries the masked input: put the whole one in its place
    f = torch.sigmoid((x * mask) @ cell.highway_lin.weight.t() + cell.highway_bias)
    close(found, dropped + (1 - f) * (x - x * mask))


@pytest.mark.parametrize(
    ("form", "pooling"), [("grid", "sum"), ("ragged", "sum"), ("grid", "max"), ("ragged", "max")]
)
def test_the_output_that_gates_read_has_one_mask_a_text(form: str, pooling: str) -> None:
    """Each channel follows one of four recurrences: x dropped or not, h dropped or not."""
    torch.manual_seed(0)
    rcnn = identity(
        decay="recurrent", normalize=False, bias=False, state_dropout=0.5, pooling=pooling
    )
    cell = rcnn.cells[0]
    with torch.no_grad():
        cell.decay_lin.weight.zero_()
        cell.decay_recurrent.weight.copy_(torch.eye(WIDE))
        cell.decay_bias.zero_()
    sign = 1.0 if pooling == "sum" else -1.0  # of negative numbers the largest decays
    x = sign * torch.ones(6, 3, WIDE, dtype=F64)
    if form == "grid":
        found = list(rcnn(x)[0].unbind(1))
    else:  # the second text is shorter than the others
        output, _ = rcnn(x.flatten(0, 1)[:15], ptr=torch.tensor([0, 6, 9, 15]))
        found = list(output.split([6, 3, 6]))

    def recurrence(of_x: float, of_h: float) -> Tensor:
        h, steps = torch.tensor(sign * of_x, dtype=F64), []
        for _ in range(6):
            steps.append(h)
            kept, new = torch.sigmoid(of_h * h) * h, torch.tensor(sign * of_x, dtype=F64)
            h = kept + new if pooling == "sum" else torch.maximum(kept, new)
        return torch.stack(steps)

    cases = torch.stack([recurrence(2.0, 2.0), recurrence(2.0, 0.0), recurrence(0.0, 0.0)], dim=1)
    drawn = []
    for text in found:
        which = torch.isclose(text[..., None], cases[: len(text), None]).all(dim=0)  # (WIDE, 3)
        assert (which.sum(dim=-1) == 1).all()
        share = which.double().mean(dim=0)
        assert ((share > 0.05) & (share < 0.8)).all()
        drawn.append(which)
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_dropped_in_evaluation(name: str) -> None:
    rcnn = build(EVERY[name], state_dropout=0.5, num_layers=1).eval()
    plain = build(EVERY[name], num_layers=1)
    plain.load_state_dict(rcnn.state_dict())
    pieces = texts(4, 2, 5)
    x, ptr = torch.cat(pieces), pointers(pieces)
    close(rcnn(x, ptr=ptr)[0], plain(x, ptr=ptr)[0])
    rcnn.train()
    assert not torch.allclose(rcnn(x, ptr=ptr)[0], plain(x, ptr=ptr)[0])
