"""Normalisation in training: by the tokens of a step, and what is kept of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import BatchNorm1d

from pyg_kernels.sequence import KBRN, KBRNCell
from tests.nn.activation_equations import Case
from tests.sequence.equations import assert_same_running_set
from tests.sequence.kbrn import (
    EVERY,
    GREENS,
    HIDDEN,
    IN_TRAINING,
    ONE_WAY,
    assert_equations,
    build,
    cell_equations,
    norms,
    random_kbrn,
    read_texts,
)
from tests.sequence.texts import SIZE, close, joined, place, pointers, random_text, texts

in_training = pytest.mark.parametrize("name", IN_TRAINING)


def running_sets(kbrn: Any) -> list[Tensor]:
    return [buffer.clone() for buffer in kbrn.buffers()]


def assert_kept(kbrn: Any, before: list[Tensor]) -> None:
    assert before
    for found, expected in zip(kbrn.buffers(), before, strict=True):
        assert torch.equal(found, expected)


@in_training
def test_equations(name: str) -> None:
    """Also of what is kept after each of several calls."""
    options = IN_TRAINING[name]
    kbrn = build(options).train()
    for form in ("ptr", "left", "holes", "lengths", "packed"):
        assert_equations(kbrn, options, texts(4, 2, 5, 4), form)
    assert_equations(kbrn, options, texts(4, 4, 4, 4), "grid", from_state=False)


@in_training
def test_fresh_from_the_constructor(name: str) -> None:
    """Running mean 0, variance 1, nothing counted."""
    torch.manual_seed(0)
    options = {"num_centers": 7, **IN_TRAINING[name]}
    kbrn = KBRN(SIZE, HIDDEN, **options).double()
    for norm in norms(kbrn):
        assert_same_running_set(norm, BatchNorm1d(HIDDEN).double())
        assert (norm.weight == 1).all() and (norm.bias == 0).all()
    assert_equations(kbrn, options, texts(4, 2, 0, 4), from_state=False)
    assert all(norm.num_batches_tracked == 1 for norm in norms(kbrn))


@in_training
def test_one_text_left_and_empty_ones(name: str) -> None:
    options = IN_TRAINING[name]
    kbrn = build(options).train()
    assert_equations(kbrn, options, texts(6, 0, 2, 1))
    assert_equations(kbrn, options, texts(3, 1), from_state=False)
    assert_equations(kbrn, options, texts(0, 2, 2, 0, 0))


@pytest.mark.parametrize("name", ["norm", "norm-abs", "norm-gaussian"])
def test_texts_that_are_all_the_same(name: str) -> None:
    """Variance 0: all give f(beta), and gradients are large but those of the equations."""
    options, (piece,) = IN_TRAINING[name], texts(3)
    for count in [2, 4]:  # whose means are exact
        kbrn = build(options, scale=0.2).train()
        canceling = ("lin_input.bias", "lin_input.weight", "lin_recurrent.weight")
        assert_equations(kbrn, options, [piece] * count, "grid", False, canceling=canceling)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=6),
    green=st.sampled_from(GREENS),
    affine=st.booleans(),
    bidirectional=st.booleans(),
    num_layers=st.integers(1, 2),
)
def test_texts_of_any_lengths(lengths: list[int], green: str, **options: Any) -> None:
    assume(sum(length > 0 for length in lengths) > 1)
    pieces = texts(*lengths)
    kbrn = random_kbrn(SIZE, HIDDEN, green=green, scale=0.3, **options).train()
    kept = copy.deepcopy(norms(kbrn))
    expected, ends, rows = read_texts(kbrn, {"green": green, **options}, pieces)
    output, h_n = kbrn(joined(pieces), ptr=pointers(pieces))
    close(output, torch.cat(expected), rtol=1e-8, atol=1e-9)
    close(h_n, torch.stack([h for (h,) in ends]), rtol=1e-8, atol=1e-9)
    for found, norm, seen in zip(norms(kbrn), kept, rows, strict=True):
        norm(seen)
        for name, buffer in norm.named_buffers():
            close(found.get_buffer(name).double(), buffer.double(), rtol=1e-8, atol=1e-9)


def test_what_is_beside_a_text_matters_in_training_and_later_does_not() -> None:
    for options in IN_TRAINING.values():
        kbrn, (first, second, other) = build(options).train(), texts(4, 4, 4)
        pair, _ = kbrn(torch.stack([first, second], dim=1))
        other_pair, _ = kbrn(torch.stack([first, other], dim=1))
        assert not torch.allclose(pair[:, 0], other_pair[:, 0])
        kbrn.eval()
        before = running_sets(kbrn)
        close(kbrn(torch.stack([first, second], dim=1))[0][:, 0], kbrn(first)[0])
        assert_kept(kbrn, before)
        assert_equations(kbrn, options, [first, second])


def test_the_cell_in_training() -> None:
    """A batch of single tokens."""
    for name in ["norm", "norm-abs", "norm-gaussian"]:
        options = ONE_WAY[name]
        kbrn, x = build(options).train(), random_text(5, 3, SIZE)
        stepped = copy.deepcopy(kbrn.cells[0])
        h, norm = None, copy.deepcopy(stepped.activation.norm)
        outputs, seen = [], read_texts(kbrn, options, list(x.unbind(1))).rows[0]
        for x_t in x:
            h = stepped(x_t, h)
            outputs.append(h)
        close(torch.stack(outputs), kbrn(x)[0])
        for rows in seen.detach().split(3):
            norm(rows)
        assert_same_running_set(stepped.activation.norm, norm)


@pytest.mark.parametrize("form", ["ptr", "grid", "one", "mask", "packed", "right"])
def test_a_batch_of_one_text_is_an_error_as_batch_norms(form: str) -> None:
    kbrn, (x,) = build(ONE_WAY["norm-stack"]).train(), texts(4)
    before = running_sets(kbrn)
    grid, mask = place([x], "left")
    calls = {
        "ptr": lambda: kbrn(x, ptr=torch.tensor([0, 4])),
        "grid": lambda: kbrn(x[:, None]),
        "one": lambda: kbrn(x),
        "mask": lambda: kbrn(grid, mask=mask),
        "packed": lambda: kbrn(torch.nn.utils.rnn.pack_sequence([x])),
        "right": lambda: kbrn(x[:, None], lengths=[3]),
    }
    with pytest.raises(ValueError, match=r"1 value per channel|one text|single text|normalize"):
        calls[form]()
    assert_kept(kbrn, before)
    kbrn.eval()
    calls[form]()


def test_one_row_of_a_cell_is_an_error_as_batch_norms() -> None:
    cell = KBRNCell(SIZE, HIDDEN, num_centers=7).double()
    before = running_sets(cell)
    for x in [random_text(SIZE), random_text(1, SIZE)]:
        with pytest.raises(ValueError, match=r"1 value per channel|one text|single text|normalize"):
            cell(x)
        assert_kept(cell, before)
        cell.eval()(x)
        cell.train()
    KBRNCell(SIZE, HIDDEN, normalize=False)(torch.randn(1, SIZE))


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]], ids=str)
@in_training
def test_empty_inputs_keep_nothing(name: str, lengths: list[int]) -> None:
    kbrn, pieces = build(IN_TRAINING[name]).train(), texts(*lengths)
    before = running_sets(kbrn)
    x = joined(pieces).requires_grad_()
    output, h_n = kbrn(x, ptr=pointers(pieces))
    assert output.shape[0] == 0 and h_n.shape == (len(kbrn.cells), len(lengths), HIDDEN)
    assert (h_n == 0).all()
    grid, _ = kbrn(torch.zeros(0, len(lengths), SIZE, dtype=torch.float64))
    assert grid.shape[:2] == (0, len(lengths))
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
    for name in ["norm-stack", "both-ways-norm"]:
        kbrn = build(EVERY[name]).train()
        for norm in norms(kbrn):
            norm.momentum = momentum
        for _ in range(2):
            assert_equations(kbrn, EVERY[name], texts(4, 2, 5))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_norms_that_keep_nothing(training: bool) -> None:
    """track_running_stats=False: batch statistics in evaluation too."""
    for name in ["norm-stack", "norm-gaussian", "both-ways-norm"]:
        kbrn = build(EVERY[name])
        for cell in kbrn.cells:
            norm = BatchNorm1d(HIDDEN, track_running_stats=False).double()
            torch.nn.init.normal_(norm.weight)
            torch.nn.init.normal_(norm.bias)
            cell.activation.norm = norm
        assert_equations(kbrn.train(training), EVERY[name], texts(4, 2, 5, 2))


def test_norms_frozen_in_training() -> None:
    """As users of BatchNorm1d do it: the module's own mode counts."""
    for name in ["norm-stack", "norm-abs"]:
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


def test_a_norm_of_ones_own_is_called() -> None:
    for norm in [torch.nn.LayerNorm(HIDDEN), torch.nn.Identity()]:
        kbrn, plain = build(ONE_WAY["norm"]), build(ONE_WAY["relu"])
        plain.cells[0].load_state_dict(kbrn.cells[0].state_dict(), strict=False)
        kbrn.cells[0].activation.norm = norm.double()
        pieces = texts(4, 2, 5)
        found, _ = kbrn(torch.cat(pieces), ptr=pointers(pieces))
        if isinstance(norm, torch.nn.Identity):
            close(found, plain(torch.cat(pieces), ptr=pointers(pieces))[0])
        cell, h = kbrn.cells[0], torch.zeros(3, HIDDEN, dtype=torch.float64)
        expected, _, _ = cell_equations(
            cell, pieces, h, lambda a, f=cell.activation, norm=norm: Case().definition(f, norm(a))
        )
        close(found, torch.cat(expected))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_without_gradients(mode: Any) -> None:
    """Keeps statistics as BatchNorm1d does."""
    for name, options in IN_TRAINING.items():
        kbrn, other = build(options).train(), build(options).train()
        pieces = texts(4, 2, 5)
        expected, _ = other(torch.cat(pieces), ptr=pointers(pieces))
        with mode():
            close(kbrn(torch.cat(pieces), ptr=pointers(pieces))[0], expected)
        for found, norm in zip(norms(kbrn), norms(other), strict=True):
            assert_same_running_set(found, norm)
        assert name and not any(buffer.requires_grad for buffer in kbrn.buffers())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_precision_in_training(dtype: torch.dtype) -> None:
    for options in IN_TRAINING.values():
        kbrn, pieces = build(options, scale=0.3).train(), texts(6, 6, 3, 6, 3, 0)
        with torch.no_grad():
            for value in kbrn.state_dict().values():
                value.copy_(value.bfloat16().double())
        x = torch.cat(pieces).bfloat16().double()
        low = copy.deepcopy(kbrn).to(dtype)
        expected, _ = kbrn(x, ptr=pointers(pieces))
        output, h_n = low(x.to(dtype), ptr=pointers(pieces))
        assert output.dtype == h_n.dtype == dtype
        tolerance = 1e-4 if dtype == torch.float32 else 0.2
        close(output.double(), expected, rtol=tolerance, atol=tolerance)
        for found, norm in zip(norms(low), norms(kbrn), strict=True):
            close(found.running_var.double(), norm.running_var, rtol=tolerance, atol=tolerance)
            close(found.running_mean.double(), norm.running_mean, rtol=tolerance, atol=tolerance)
        output.float().square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in low.parameters())


def test_large_means() -> None:
    """The variance is that about the mean, not a difference of squares."""
    kbrn = random_kbrn(SIZE, HIDDEN, scale=0.3).train()
    with torch.no_grad():
        kbrn.cells[0].lin_input.bias.fill_(1e4)
    single = copy.deepcopy(kbrn).float()
    pieces = texts(4, 2, 5, 5)
    x, ptr = torch.cat(pieces), pointers(pieces)
    expected, _ = kbrn(x, ptr=ptr)
    found, _ = single(x.float(), ptr=ptr)
    close(found.double(), expected, rtol=0.05, atol=0.05)
    a, b = (norms(layer)[0].running_var.double() for layer in (single, kbrn))
    close(a, b, rtol=0.02, atol=0.02)
