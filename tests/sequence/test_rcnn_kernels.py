"""Theorem 1 of Lei et al. 2017, and the sums over n-grams of every other variant."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.sequence.rcnn_equations import decays, projections, random_rcnn
from tests.sequence.texts import F64, random_text
from tests.string_kernels import ngram_states, string_kernel, tabulated_additive_state

LENGTH, FEATURES, HIDDEN = 7, 3, 4


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("decay", [0.0, 0.4, 0.9, 1.0])
def test_theorem_1(order: int, decay: float) -> None:
    """c_j[t][i] is the kernel K_j of the prefix and the i-th reference string, for every j."""
    rcnn = random_rcnn(
        FEATURES,
        HIDDEN,
        order=order,
        decay=decay,
        normalize=False,
        act=None,
        bias=False,
        seed=order,
    )
    x = random_text(LENGTH, FEATURES, seed=order)
    outputs, _ = rcnn(x)
    weights = [lin.weight for lin in rcnn.cells[0].lins]
    for t in range(LENGTH):
        _, (_, c) = rcnn(x[: t + 1])
        assert c.shape == (1, order, HIDDEN)
        for i in range(HIDDEN):
            for j in range(1, order + 1):
                reference = torch.stack([w[i] for w in weights[:j]])
                close(c[0, j - 1, i], string_kernel(x[: t + 1], reference, j, decay))
            close(outputs[t, i], c[0, -1, i])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.6, "learned", "input"])
def test_every_variant(order: int, combine: str, normalize: bool, decay: float | str) -> None:
    x = random_text(LENGTH, FEATURES, seed=order)
    for scalar_decay in [False, True] if isinstance(decay, str) else [False]:
        options = {"combine": combine, "normalize": normalize, "decay": decay, "act": None}
        options |= {"scalar_decay": scalar_decay, "bias": False}
        cell = random_rcnn(FEATURES, HIDDEN, order=order, **options).cells[0]
        expected = ngram_states(projections(cell, x), decays(cell, x, decay), combine, normalize)
        for readout in ["c", "z", "sum"]:
            rcnn = random_rcnn(FEATURES, HIDDEN, order=order, readout=readout, **options)
            rcnn.cells[0].load_state_dict(cell.state_dict())
            output, (h, c) = rcnn(x)
            close(output, expected.read(readout))
            close(h[0], expected.read(readout)[-1])
            close(c[0], torch.stack([c_j[-1] for c_j in expected.c]))


def test_normalized_is_the_default_of_the_sum() -> None:
    x = random_text(LENGTH, FEATURES)
    default = random_rcnn(FEATURES, HIDDEN)
    explicit = random_rcnn(FEATURES, HIDDEN, normalize=True)
    close(default(x)[0], explicit(x)[0])
    assert not torch.allclose(random_rcnn(FEATURES, HIDDEN, normalize=False)(x)[0], default(x)[0])


@pytest.mark.parametrize("scalar_decay", [False, True])
@pytest.mark.parametrize("decay", ["learned", "input", "recurrent"])
def test_one_decay_a_channel_or_one_for_all(decay: str, scalar_decay: bool) -> None:
    cell = random_rcnn(FEATURES, HIDDEN, decay=decay, scalar_decay=scalar_decay).cells[0]
    rows = 1 if scalar_decay else HIDDEN
    if decay == "learned":
        assert cell.decay_logit.shape == (rows,)
        close(cell.decay, torch.sigmoid(cell.decay_logit))
        return
    assert cell.decay is None
    assert cell.decay_lin.weight.shape == (rows, FEATURES)
    assert cell.decay_bias.shape == (rows,)
    if decay == "recurrent":
        assert cell.decay_recurrent.weight.shape == (rows, HIDDEN)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("readout", ["c", "z"])
def test_tabulated_additive_form_needs_zeros_on_the_left(order: int, readout: str) -> None:
    """Thesis, table 2.1: normalised, its weights are the recurrence's after many zero tokens."""
    decay, exactly = 0.5, readout == "z"
    rcnn = random_rcnn(
        FEATURES,
        HIDDEN,
        order=order,
        combine="add",
        decay=decay,
        readout=readout,
        act=None,
        bias=False,
    )
    x = random_text(5, FEATURES)
    padded = torch.cat([torch.zeros(60, FEATURES, dtype=F64), x])
    output = rcnn(x)[0][-1]
    close(rcnn(padded)[0][-1], output)  # zero tokens do not change the recurrence

    value, total = tabulated_additive_state(projections(rcnn.cells[0], padded), decay, exactly)
    assert math.isclose(total, (1 - decay) ** -(order - exactly), rel_tol=1e-10)
    close(value / total, output)

    value, total = tabulated_additive_state(projections(rcnn.cells[0], x), decay, exactly)
    if (order, readout) != (1, "z"):
        assert (value / total - output).abs().max() > 1e-3


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("zeros", [0, 5, 60])
def test_tabulated_additive_form_never_agrees_unnormalized(order: int, zeros: int) -> None:
    """The recurrence weighs each suffix once; the table's suffix j..n tends to (1 - λ)^-(j-1)."""
    decay = 0.5
    rcnn = random_rcnn(
        FEATURES,
        HIDDEN,
        order=order,
        combine="add",
        normalize=False,
        decay=decay,
        act=None,
        bias=False,
        seed=3,
    )
    x = random_text(5, FEATURES)
    output = rcnn(x)[0][-1]
    padded = torch.cat([torch.zeros(zeros, FEATURES, dtype=F64), x])
    value, _ = tabulated_additive_state(projections(rcnn.cells[0], padded), decay, exactly=False)
    assert (value - output).abs().max() > 1e-2
    if zeros < 60:
        return
    lam = torch.full((5, HIDDEN), decay, dtype=F64)
    p = projections(rcnn.cells[0], x)
    once, tabulated = torch.zeros(HIDDEN, dtype=F64), torch.zeros(HIDDEN, dtype=F64)
    for j in range(order):  # the suffixes that start at step j + 1
        alone = [p[j], *[torch.zeros_like(p[j])] * (order - j - 1)]
        suffix = ngram_states(alone, lam, "add", normalize=False).c[-1][-1]
        once = once + suffix
        tabulated = tabulated + (1 - decay) ** -j * suffix
    close(output, once)
    close(value, tabulated)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("readout", ["c", "z"])
@pytest.mark.parametrize("normalize", [False, True])
def test_without_decay_it_is_a_convolution(order: int, readout: str, normalize: bool) -> None:
    """λ = 0: h[t] = act(W^(1) x[t-n+1] + ... + W^(n) x[t] + b), or the product of the same."""
    x = random_text(9, 2, FEATURES)
    options = {"decay": 0.0, "readout": readout, "normalize": normalize}
    rcnn = random_rcnn(FEATURES, HIDDEN, order=order, combine="add", act="relu", **options)
    cell = rcnn.cells[0]
    conv = torch.nn.Conv1d(FEATURES, HIDDEN, order, padding=order - 1).double()
    conv.weight.data = torch.stack([lin.weight for lin in cell.lins], dim=-1).detach()
    conv.bias.data = cell.bias.detach()
    expected = conv(x.permute(1, 2, 0))[..., : len(x)].relu().permute(2, 0, 1)
    close(rcnn(x)[0], expected)

    rcnn = random_rcnn(FEATURES, HIDDEN, order=order, combine="mul", act=None, **options)
    cell = rcnn.cells[0]
    product = torch.ones(9, 2, HIDDEN, dtype=F64)
    for j, p in enumerate(projections(cell, x), start=1):
        shift = order - j
        product = product * torch.cat([torch.zeros_like(p[:shift]), p[: len(p) - shift]])
    close(rcnn(x)[0], product + cell.bias)
