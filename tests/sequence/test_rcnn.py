"""Sums and maxima over n-grams, one by one; the walk on a path; initial values and sizes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN
from tests.covering import covering
from tests.ngram_maxima import largest_sums, ngram_maxima
from tests.sequence.rcnn import decays, projections, random_rcnn
from tests.sequence.texts import F64, close, gradients, random_text
from tests.string_kernels import ngram_states, tabulated_additive_state

# Sums over n-grams. Theorem 1 of Lei et al. 2017 is tested with the exact kernels

LENGTH, FEATURES, HIDDEN = 7, 3, 4
LINEAR: dict[str, Any] = {"act": None, "bias": False}
SUMS = covering(
    3,
    order=[1, 2, 4],
    combine=["mul", "add"],
    normalize=[False, True],
    decay=[0.0, 0.6, "learned", "input"],
    scalar_decay=[False, True],
)
of_sums = pytest.mark.parametrize("options", SUMS, ids=str)


def layer(**options: Any) -> RCNN:
    """A layer whose output is its state."""
    return random_rcnn(FEATURES, HIDDEN, **{**LINEAR, **options})


def walk_ends(rcnn: RCNN, x: Tensor, decay: Tensor, combine: str, normalize: bool) -> Tensor:
    """The graph layer's state z_n, (L, D), on the closure of the text's path.

    It has an edge from every token to every later one, which carries the decay between the two.
    """
    pairs = list(itertools.combinations(range(len(x)), 2))
    entry = 1 - decay if normalize else torch.ones_like(decay)
    weights = [entry[s] * decay[s + 1 : t].prod(dim=0) for s, t in pairs]
    lins = rcnn.cells[0].lins
    given: dict[str, Any] = {"decay": 1.0, "act": None, "edge_dim": HIDDEN, "return_states": True}
    conv = RandomWalkConv(FEATURES, HIDDEN, len(lins), combine=combine, **given).double()
    for lin, other in zip(conv.lins, lins, strict=True):
        lin.weight.data.copy_(other.weight)
    for edge_lin in conv.edge_lins:
        edge_lin.weight.data.copy_(torch.eye(HIDDEN))
    return conv(x, torch.tensor(pairs).t(), torch.stack(weights))[-1]


@of_sums
def test_every_ngram(options: dict[str, Any]) -> None:
    """States are sums over n-grams, and those that end at a token are a graph layer's walks."""
    x, cell = random_text(LENGTH, FEATURES), layer(**options).cells[0]
    p, lam = projections(cell, x), decays(cell, x, options["decay"])
    given = options["combine"], options["normalize"]
    expected = ngram_states(p, lam, *given)
    for readout in ["c", "z", "sum"]:
        output, (h, c) = layer(readout=readout, **options)(x)
        wanted = expected.read(readout)
        close([output, h[0], c[0]], [wanted, wanted[-1], torch.stack([t[-1] for t in expected.c])])
    rcnn = layer(readout="z", **options)
    close(rcnn(x)[0], walk_ends(rcnn, x, lam, *given), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scalar_decay", [False, True])
def test_one_decay_a_channel_or_one_for_all(scalar_decay: bool) -> None:
    rows = 1 if scalar_decay else HIDDEN
    learned, gate = (
        layer(decay=decay, scalar_decay=scalar_decay).cells[0] for decay in ("learned", "recurrent")
    )
    assert learned.decay_logit.shape == gate.decay_bias.shape == (rows,)
    close(learned.decay, torch.sigmoid(learned.decay_logit))
    assert gate.decay is None and len(gate.decay_lin.weight) == rows


def after_zeros(x: Tensor, zeros: int) -> Tensor:
    return torch.cat([x.new_zeros(zeros, FEATURES), x])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("readout", ["c", "z"])
def test_tabulated_additive_form_needs_zeros_on_the_left(order: int, readout: str) -> None:
    """Thesis, table 2.1: normalised, its weights equal the recurrence's after many zero tokens."""
    rcnn, exactly = layer(order=order, combine="add", readout=readout), readout == "z"
    x = random_text(5, FEATURES)
    padded, output = after_zeros(x, 45), rcnn(x)[0][-1]
    close(rcnn(padded)[0][-1], output)  # zero tokens do not change the recurrence

    value, total = tabulated_additive_state(projections(rcnn.cells[0], padded), 0.5, exactly)
    assert math.isclose(total, 0.5 ** -(order - exactly), rel_tol=1e-10)
    close(value / total, output)

    value, total = tabulated_additive_state(projections(rcnn.cells[0], x), 0.5, exactly)
    if (order, readout) != (1, "z"):
        assert (value / total - output).abs().max() > 1e-3


@pytest.mark.parametrize("order", [2, 3])
def test_tabulated_additive_form_never_agrees_unnormalized(order: int) -> None:
    """The recurrence counts suffixes once; the table's weight of j..n tends to (1 - λ)^-(j-1)."""
    rcnn = layer(order=order, combine="add", normalize=False, seed=3)
    (cell,), x = rcnn.cells, random_text(5, FEATURES)
    output = rcnn(x)[0][-1]
    for zeros in (0, 5, 45):
        p = projections(cell, after_zeros(x, zeros))
        value, _ = tabulated_additive_state(p, 0.5, exactly=False)
        assert (value - output).abs().max() > 1e-2
    lam, p = torch.full((5, HIDDEN), 0.5, dtype=F64), projections(cell, x)
    once, tabulated = torch.zeros(HIDDEN, dtype=F64), torch.zeros(HIDDEN, dtype=F64)
    for j in range(order):  # the suffixes that start at step j + 1
        alone = [p[j], *[torch.zeros_like(p[j])] * (order - j - 1)]
        suffix = ngram_states(alone, lam, "add", normalize=False).c[-1][-1]
        once, tabulated = once + suffix, tabulated + 2.0**j * suffix
    close(output, once)
    close(value, tabulated)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("readout", ["c", "z"])
@pytest.mark.parametrize("normalize", [False, True])
def test_without_decay_it_is_a_convolution(order: int, readout: str, normalize: bool) -> None:
    """λ = 0: h[t] = act(W^(1) x[t-n+1] + ... + W^(n) x[t] + b)."""
    x = random_text(9, 2, FEATURES)
    options = {"decay": 0.0, "readout": readout, "normalize": normalize}
    rcnn = random_rcnn(FEATURES, HIDDEN, order=order, combine="add", act="relu", **options)
    cell = rcnn.cells[0]
    conv = torch.nn.Conv1d(FEATURES, HIDDEN, order, padding=order - 1).double()
    conv.weight.data = torch.stack([lin.weight for lin in cell.lins], dim=-1).detach()
    conv.bias.data = cell.bias.detach()
    expected = conv(x.permute(1, 2, 0))[..., : len(x)].relu().permute(2, 0, 1)
    close(rcnn(x)[0], expected)


# Max-pooling over n-grams, consecutive or not (thesis 2.3.5), against every n-gram

MAXIMA = [
    {**row, "combine": pair[0], "decay": pair[1]}
    for row in covering(
        2,
        order=[1, 2, 3, 4],
        readout=["c", "z", "sum"],
        scalar_decay=[False, True],
        pair=[
            *[("mul", decay) for decay in (0.0, 0.6, 1.0, "learned", "input")],
            *[("add", decay) for decay in (0.0, 0.6, 1.0, "learned")],  # no recurrence if gated
        ],
    )
    for pair in [row.pop("pair")]
]


@pytest.mark.parametrize("options", MAXIMA, ids=str)
def test_the_best_ngram(options: dict[str, Any]) -> None:
    """Values, gradients and end state, also if all n-grams are negative: a missing one is not 0."""
    rcnn, x = layer(pooling="max", **options), random_text(LENGTH, FEATURES)
    cell = rcnn.cells[0]
    for text in (x, -x.abs()):
        inputs = [text.requires_grad_(), *rcnn.parameters()]
        p, lam = projections(cell, text), decays(cell, text, options["decay"])
        c, z = ngram_maxima(p, lam, options["combine"])
        expected = {"c": c[-1], "z": z, "sum": sum(c)}[options["readout"]]
        found, state = rcnn(text)
        close(found, expected)
        assert state.seen.tolist() == [LENGTH]
        if options["combine"] == "add":
            close(state.best[0], largest_sums(p))
        else:
            low, _ = ngram_maxima(p, lam, "mul", smallest=True)
            ends = [torch.stack([c_j[-1] for c_j in side]) for side in (c, low)]
            close([state.c_max[0], state.c_min[0]], ends)
        slopes = [gradients([out], inputs) for out in (found, expected)]
        if options["decay"] != 0.0:  # at 0, gapped n-grams tie
            close(*slopes, rtol=1e-9, atol=1e-11)
        with torch.no_grad():
            for lin in cell.lins:
                lin.weight.abs_()


@pytest.mark.parametrize("combine", ["mul", "add"])
def test_what_a_state_holds_where_no_ngram_is_does_not_matter(combine: str) -> None:
    rcnn = layer(order=3, pooling="max", combine=combine, decay=0.7)
    _, state = rcnn(random_text(10, FEATURES), ptr=torch.tensor([0, 3, 3, 5, 10]))
    x, ptr = random_text(8, FEATURES, seed=1), torch.tensor([0, 1, 5, 7, 8])
    h, *kept, seen = state
    zeros, others = (
        rcnn(x, (h, *(t.where(t != 0, value) for t in kept), seen), ptr=ptr)
        for value in (0.0, 50.0)
    )
    close(others, zeros)


def test_initial_values() -> None:
    """Thesis, appendix B.1: rows of unit variance, uniform in ±√(3 / inputs); the bias is 0."""
    torch.manual_seed(0)
    for size in [12, 300]:
        cell = RCNN(size, 200, order=3).cells[0]
        bound = (3 / size) ** 0.5
        for lin in cell.lins:
            assert lin.bias is None and lin.weight.shape == (200, size)
            assert 0.98 * bound < lin.weight.abs().max() <= bound
            assert abs(lin.weight.square().sum(dim=1).mean().item() - 1) < 0.05
        assert (cell.bias == 0).all()
        assert not torch.equal(cell.lins[0].weight, cell.lins[1].weight)
