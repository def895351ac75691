"""Normalisation in training: by the tokens of a step, and what is kept of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import BatchNorm1d

from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.equations import FORMS, assert_same_running_set, read_in_form
from tests.sequence.kbrn import (
    EVERY,
    HIDDEN,
    IN_TRAINING,
    ONE_WAY,
    assert_equations,
    build,
    norms,
    random_kbrn,
    read_texts,
)
from tests.sequence.texts import SIZE, close, joined, pointers, random_text, texts

in_training = pytest.mark.parametrize("name", IN_TRAINING)
ONE_ROW = r"1 value per channel|one text|single text|normalize"


def running_sets(kbrn: Any) -> list[Tensor]:
    return [buffer.clone() for buffer in kbrn.buffers()]


def assert_kept(kbrn: Any, before: list[Tensor]) -> None:
    assert before
    for found, expected in zip(kbrn.buffers(), before, strict=True):
        assert torch.equal(found, expected)


@in_training
def test_equations(name: str) -> None:
    """Also of what is kept after each of several calls; with one text left, and empty ones."""
    options = IN_TRAINING[name]
    kbrn = build(options).train()
    for form in ("ptr", "left", "holes", "lengths", "packed"):
        assert_equations(kbrn, options, texts(4, 2, 5, 4), form)
    assert_equations(kbrn, options, texts(4, 4, 4, 4), "grid", from_state=False)
    for lengths in [(6, 0, 2, 1), (3, 1), (0, 2, 2, 0, 0)]:
        assert_equations(kbrn, options, texts(*lengths))


@pytest.mark.parametrize("name", ["norm", "norm-abs", "norm-gaussian"])
def test_texts_that_are_all_the_same(name: str) -> None:
    """Variance 0: all give f(beta), and gradients are large but those of the equations."""
    options, (piece,) = IN_TRAINING[name], texts(3)
    for count in [2, 4]:  # whose means are exact
        kbrn = build(options, scale=0.2).train()
        canceling = ("lin_input.bias", "lin_input.weight", "lin_recurrent.weight")
        assert_equations(kbrn, options, [piece] * count, "grid", False, canceling=canceling)


@pytest.mark.parametrize("name", ["norm", "norm-abs", "norm-gaussian"])
def test_the_cell_in_training(name: str) -> None:
    """A batch of single tokens."""
    kbrn, x = build(ONE_WAY[name]).train(), random_text(5, 3, SIZE)
    stepped = copy.deepcopy(kbrn.cells[0])
    h, norm = None, copy.deepcopy(stepped.activation.norm)
    outputs, seen = [], read_texts(kbrn, ONE_WAY[name], list(x.unbind(1))).rows[0]
    for x_t in x:
        h = stepped(x_t, h)
        outputs.append(h)
    close(torch.stack(outputs), kbrn(x)[0])
    for rows in seen.detach().split(3):
        norm(rows)
    assert_same_running_set(stepped.activation.norm, norm)


def test_a_batch_of_one_text_is_an_error_as_batch_norms() -> None:
    """In every form, and one row of a cell."""
    kbrn, pieces = build(ONE_WAY["norm-stack"]), texts(4)
    cell, before = kbrn.cells[0], running_sets(kbrn)
    calls = [lambda form=form: read_in_form(kbrn, pieces, form=form) for form in FORMS]
    calls += [lambda: cell(pieces[0][0]), lambda: cell(pieces[0][:1])]
    for call in calls:
        kbrn.train()
        with pytest.raises(ValueError, match=ONE_ROW):
            call()
        assert_kept(kbrn, before)
        kbrn.eval()
        call()
    KBRNCell(SIZE, HIDDEN, normalize=False)(torch.randn(1, SIZE))


@in_training
def test_empty_inputs_keep_nothing(name: str) -> None:
    kbrn = build(IN_TRAINING[name]).train()
    before = running_sets(kbrn)
    for lengths in ([], [0], [0, 0, 0]):
        pieces, count = texts(*lengths), len(lengths)
        output, h_n = kbrn(joined(pieces), ptr=pointers(pieces))
        assert output.shape[0] == 0 and h_n.shape == (len(kbrn.cells), count, HIDDEN)
        assert (h_n == 0).all()
        grid, _ = kbrn(torch.zeros(0, count, SIZE, dtype=torch.float64))
        assert grid.shape[:2] == (0, count)
    kbrn(torch.zeros(4, 0, SIZE, dtype=torch.float64))
    kbrn.cells[0](torch.zeros(0, SIZE, dtype=torch.float64))
    assert_kept(kbrn, before)


def test_one_token_among_empty_texts_spoils_nothing() -> None:
    """Its unbiased variance is 0 / 0: an error as for one text, or finite numbers."""
    kbrn = build(ONE_WAY["norm"]).train()
    try:
        output, _ = kbrn(random_text(1, SIZE), ptr=torch.tensor([0, 0, 1, 1]))
        assert output.isfinite().all()
    except ValueError:
        pass
    assert all(buffer.isfinite().all() for buffer in kbrn.buffers())


@pytest.mark.parametrize("momentum", [None, 0.5, 0.0, 1.0])
def test_momentum(momentum: float | None) -> None:
    """None is the mean of all calls so far, as BatchNorm1d has it."""
    kbrn = build(EVERY["both-ways-norm"]).train()
    for norm in norms(kbrn):
        norm.momentum = momentum
    for _ in range(2):
        assert_equations(kbrn, EVERY["both-ways-norm"], texts(4, 2, 5))


@pytest.mark.traces
@pytest.mark.parametrize("momentum", [None, 0.25])
def test_padded_texts_compiled(momentum: float | None) -> None:
    """What is kept is that of the tokens, though compilers do not know how many there are."""
    kbrn = build(EVERY["both-ways-norm"]).train()
    for norm in norms(kbrn):
        norm.momentum = momentum
    plain = copy.deepcopy(kbrn)
    compiled = torch.compile(kbrn, fullgraph=True, backend="aot_eager")
    for lengths in ([6, 2, 0, 4], [1, 6, 3, 3], [0, 0, 0, 0]):
        x = torch.randn(6, 4, SIZE, dtype=torch.float64)
        given = torch.tensor(lengths)
        close(compiled(x, lengths=given)[0], plain(x, lengths=given)[0])
        for found, expected in zip(kbrn.buffers(), plain.buffers(), strict=True):
            close(found, expected)


@pytest.mark.traces
def test_half_precision_compiled_is_summed_in_single() -> None:
    torch.manual_seed(0)
    kbrn = KBRN(SIZE, 3, num_centers=5).half().train()
    compiled = torch.compile(kbrn, fullgraph=True, backend="aot_eager")
    compiled(30 * torch.randn(30, 40, SIZE).half(), lengths=torch.full((40,), 20))
    assert all(buffer.isfinite().all() for buffer in kbrn.buffers())


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", ["norm-stack", "norm-gaussian"])
def test_norms_that_keep_nothing(name: str, training: bool) -> None:
    """track_running_stats=False: batch statistics in evaluation too."""
    kbrn = build(EVERY[name])
    for cell in kbrn.cells:
        norm = BatchNorm1d(HIDDEN, track_running_stats=False).double()
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
        cell.activation.norm = norm
    assert_equations(kbrn.train(training), EVERY[name], texts(4, 2, 5, 2))


@pytest.mark.parametrize("name", ["norm-stack", "norm-abs"])
def test_norms_frozen_in_training(name: str) -> None:
    """As users of BatchNorm1d do it: the module's own mode counts."""
    kbrn = build(ONE_WAY[name]).train()
    for norm in norms(kbrn):
        norm.eval()
    before = running_sets(kbrn)
    assert_equations(kbrn, ONE_WAY[name], texts(4, 0, 5, 1))
    kbrn(texts(4)[0])
    assert_kept(kbrn, before)
    kbrn.eval()
    norms(kbrn)[0].train()
    assert_equations(kbrn, ONE_WAY[name], texts(4, 3, 5, 4))
    assert not torch.equal(norms(kbrn)[0].running_mean, before[0])


@pytest.mark.parametrize("norm", [torch.nn.LayerNorm(HIDDEN), torch.nn.Identity()], ids=str)
def test_a_norm_of_ones_own_is_called(norm: torch.nn.Module) -> None:
    kbrn = build(ONE_WAY["norm"])
    kbrn.cells[0].activation.norm = norm.double()
    assert_equations(kbrn, ONE_WAY["norm"], texts(4, 2, 5))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@in_training
def test_training_without_gradients(name: str, mode: Any) -> None:
    """Keeps statistics as BatchNorm1d does."""
    kbrn, other = (build(IN_TRAINING[name]).train() for _ in range(2))
    x, ptr = torch.cat(texts(4, 2, 5)), torch.tensor([0, 4, 6, 11])
    with mode():
        found, _ = kbrn(x, ptr=ptr)
    close(found, other(x, ptr=ptr)[0])
    for a, b in zip(norms(kbrn), norms(other), strict=True):
        assert_same_running_set(a, b)
    assert not any(buffer.requires_grad for buffer in kbrn.buffers())


def test_large_means() -> None:
    """The variance is that about the mean, not a difference of squares."""
    kbrn = random_kbrn(SIZE, HIDDEN, scale=0.3).train()
    torch.nn.init.constant_(kbrn.cells[0].lin_input.bias, 1e4)
    single, pieces = copy.deepcopy(kbrn).float(), texts(4, 2, 5, 5)
    x, ptr = torch.cat(pieces), pointers(pieces)
    close(single(x.float(), ptr=ptr)[0].double(), kbrn(x, ptr=ptr)[0], rtol=0.05, atol=0.05)
    a, b = (norms(layer)[0].running_var.double() for layer in (single, kbrn))
    close(a, b, rtol=0.02, atol=0.02)
