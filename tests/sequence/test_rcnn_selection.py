"""Tokens that count in part: the stated recurrence, and the text without the unselected."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.propagation.path import PathPropagation
from pyg_kernels.sequence import RCNN, path_batch
from tests.sequence.rcnn import BOTH_WAYS, SUM, layer_equations, random_rcnn
from tests.sequence.texts import F64, SIZE, close, gradients, joined, place, pointers, texts

LENGTHS = (5, 0, 1, 8, 5)
SUMS = {k: v for k, v in {**SUM, **BOTH_WAYS}.items() if v.get("pooling") != "max"}
ONE_CELL = {k: v for k, v in SUM.items() if "num_layers" not in v}
UNNORMALIZED: dict[str, Any] = {
    "additive": {"combine": "add", "normalize": False, "order": 3},
    "additive-sum": {"combine": "add", "normalize": False, "readout": "sum", "decay": "input"},
    "whole": {"normalize": False, "decay": 1.0, "order": 3},
    "additive-recurrent": {"combine": "add", "normalize": False, "decay": "recurrent"},
}
VARIANTS = {**SUMS, **UNNORMALIZED}
EQUATIONS = {**ONE_CELL, **UNNORMALIZED}

of_every = pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)


def weights(*lengths: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(length, generator=generator, dtype=F64) for length in lengths]


def choices(*lengths: int, seed: int = 0) -> list[Tensor]:
    """0 and 1 by chance; nothing of the fourth text."""
    chosen = [(w < 0.5).to(F64) for w in weights(*lengths, seed=seed)]
    return [w * (i != 3) for i, w in enumerate(chosen)]


@pytest.mark.parametrize("options", EQUATIONS.values(), ids=EQUATIONS)
def test_equations(options: dict[str, Any]) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **options)
    pieces, selection = texts(*LENGTHS), weights(*LENGTHS)
    out, (h, c) = rcnn(joined(pieces), ptr=pointers(pieces), selection=torch.cat(selection))
    for i, (x, weight) in enumerate(zip(pieces, selection, strict=True)):
        expected, last, states = layer_equations(rcnn.cells[0], x, selection=weight, **options)
        close(out[pointers(pieces)[i] : pointers(pieces)[i + 1]], expected)
        close(h[0, i], last)
        close(c[0, i], states)


@of_every
def test_choices_equal_the_text_without_the_others(options: dict[str, Any]) -> None:
    """Outputs at selected tokens, the state, and all gradients; none reaches the others."""
    rcnn = random_rcnn(SIZE, SIZE, **options)
    pieces, selection = texts(*LENGTHS), choices(*LENGTHS)
    x, kept = joined(pieces).requires_grad_(), torch.cat(selection).bool()
    out, state = rcnn(x, ptr=pointers(pieces), selection=kept)
    found = gradients([out[kept], *state], [x, *rcnn.parameters()])
    shorter = [p[s.bool()] for p, s in zip(pieces, selection, strict=True)]
    y = joined(shorter).requires_grad_()
    expected_out, expected_state = rcnn(y, ptr=pointers(shorter))
    expected = gradients([expected_out, *expected_state], [y, *rcnn.parameters()])
    close(out[kept], expected_out)
    for a, b in zip(state, expected_state, strict=True):
        close(a, b)
    assert (found[0][~kept] == 0).all()
    close(found[0][kept], expected[0])
    for a, b in zip(found[1:], expected[1:], strict=True):
        close(a, b, atol=1e-10)


@of_every
def test_unselected_tokens_leave_no_trace(options: dict[str, Any]) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **options)
    pieces, kept = texts(*LENGTHS), torch.cat(choices(*LENGTHS)).bool()
    x = joined(pieces)
    other = torch.where(kept.unsqueeze(1), x, 7 - 3 * x)
    out, state = rcnn(x, ptr=pointers(pieces), selection=kept)
    again, state_again = rcnn(other, ptr=pointers(pieces), selection=kept)
    assert torch.equal(out, again)
    for a, b in zip(state, state_again, strict=True):
        assert torch.equal(a, b)


@of_every
def test_everything_selected_is_the_layer(options: dict[str, Any]) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **options)
    pieces = texts(*LENGTHS)
    x, ptr = joined(pieces), pointers(pieces)
    out, state = rcnn(x, ptr=ptr, selection=torch.ones(len(x)))
    expected, expected_state = rcnn(x, ptr=ptr)
    close(out, expected)
    for a, b in zip(state, expected_state, strict=True):
        close(a, b)


@pytest.mark.parametrize(("decay", "batch_first"), [("input", False), ("recurrent", True)])
@pytest.mark.parametrize("how", ["right", "left", "scattered"])
def test_padded_forms(decay: str, how: str, batch_first: bool) -> None:
    rcnn = random_rcnn(SIZE, SIZE, decay=decay, bidirectional=True, batch_first=batch_first)
    pieces, selection = texts(*LENGTHS), weights(*LENGTHS)
    expected, expected_state = rcnn(
        joined(pieces), ptr=pointers(pieces), selection=torch.cat(selection)
    )
    x, mask = place(pieces, how)
    grid = torch.full(mask.shape, float("nan"), dtype=F64)
    for b, weight in enumerate(selection):
        grid[mask[:, b], b] = weight
    if batch_first:
        x, mask, grid = x.transpose(0, 1), mask.t(), grid.t()
    out, state = rcnn(x, mask=mask, selection=grid)
    found = out if batch_first else out.transpose(0, 1)
    close(found[mask if batch_first else mask.t()], expected)
    for a, b in zip(state, expected_state, strict=True):
        close(a, b)


def test_other_forms() -> None:
    rcnn = random_rcnn(SIZE, SIZE, decay="input", num_layers=2)
    pieces, selection = texts(5, 2, 8), weights(5, 2, 8)
    weight = torch.cat(selection)
    expected, (h, _) = rcnn(joined(pieces), ptr=pointers(pieces), selection=weight)
    out, (h_batch, _) = rcnn(path_batch(pieces), selection=weight)
    close(out, expected)
    close(h_batch, h)
    packed = pack_sequence(pieces, enforce_sorted=False)
    in_order = pack_sequence([w.unsqueeze(1) for w in selection], enforce_sorted=False)
    found, (h_packed, _) = rcnn(packed, selection=in_order.data.squeeze(1))
    again = pack_sequence(list(expected.split([5, 2, 8])), enforce_sorted=False)
    close(found.data, again.data)
    close(h_packed, h)
    single, (h_single, _) = rcnn(pieces[2], selection=selection[2])
    close(single, expected[7:])
    close(h_single, h[:, 2])


@pytest.mark.parametrize("options", [{"order": 3}, {"decay": "recurrent"}, {"num_layers": 2}])
def test_a_text_in_pieces(options: dict[str, Any]) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **options)
    (x,), (weight,) = texts(9), weights(9)
    expected, last = rcnn(x, selection=weight)
    first, state = rcnn(x[:4], selection=weight[:4])
    second, state = rcnn(x[4:], state, selection=weight[4:])
    close(torch.cat((first, second)), expected)
    for a, b in zip(state, last, strict=True):
        close(a, b)


@pytest.mark.parametrize("decay", [0.3, "input", "recurrent"])
@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "plain"])
@pytest.mark.parametrize("combine", ["mul", "add"])
def test_gradients(decay: float | str, normalize: bool, combine: Any) -> None:
    """Also of the selection itself, inside the interval and at its ends."""
    rcnn = random_rcnn(3, 2, decay=decay, normalize=normalize, combine=combine)
    (x,) = texts(4, size=3)
    weight = torch.tensor([0.3, 0.8, 0.5, 0.6], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, b: rcnn(a, selection=b)[0], (x.requires_grad_(), weight)
    )


def test_gradient_at_the_ends() -> None:
    """d/ds of the stated recurrence at s in {0, 1}, where a finite difference leaves [0, 1]."""
    rcnn = random_rcnn(SIZE, SIZE, decay="input", order=3)
    (x,) = texts(5)
    weight = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=F64, requires_grad=True)
    found = gradients([rcnn(x, selection=weight)[0]], [weight])
    expected = gradients(
        [layer_equations(rcnn.cells[0], x, decay="input", order=3, selection=weight)[0]], [weight]
    )
    close(found[0], expected[0])


def test_propagation() -> None:
    """The operator alone: its own definition for both normalisations."""
    (z,), (weight,) = texts(6), weights(6)
    layout, initial = Layout.of_grid(6, 1, torch.device("cpu")), texts(1)[0].unsqueeze(1)
    decay = torch.rand(6, SIZE, generator=torch.Generator().manual_seed(1), dtype=F64)
    for normalize in (True, False):
        path = PathPropagation(decay, layout, initial, normalize, weight.unsqueeze(1))
        c, expected = initial[0, 0], []
        for z_t, lam, s in zip(z, decay, weight, strict=True):
            entry = 1 - lam if normalize else 1.0
            c = (1 - s) * c + s * (lam * c + entry * z_t)
            expected.append(c)
        close(path.aggregate(z, 1), torch.stack(expected))


def test_bad_selections() -> None:
    rcnn, (x,) = random_rcnn(SIZE, SIZE), texts(6)
    shapes = [torch.ones(5), torch.ones(6, 1), [1.0] * 6]
    for selection in [*shapes, *(torch.full((6,), v) for v in (1.5, -0.1, float("nan")))]:
        with pytest.raises(ValueError, match="selection"):
            rcnn(x, ptr=torch.tensor([0, 2, 6]), selection=selection)


@pytest.mark.parametrize("combine", ["mul", "add"])
def test_max_pooling(combine: Any) -> None:
    rcnn = RCNN(SIZE, SIZE, pooling="max", combine=combine)
    with pytest.raises(ValueError, match="pooling='max'"):
        rcnn(torch.zeros(3, SIZE), selection=torch.ones(3))
