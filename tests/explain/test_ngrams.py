"""Shares of n-grams and tokens against an enumeration of all n-grams."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.explain import ngram_contributions
from pyg_kernels.sequence import RCNN
from tests.covering import covering
from tests.explain.values import HEAD, assert_best, close, ngram_values, node_shares
from tests.sequence.rcnn import random_rcnn
from tests.sequence.texts import random_text

FEATURES, HIDDEN = 4, 3


def text(length: int) -> Tensor:
    return random_text(length, FEATURES)


def layer(**options: Any) -> RCNN:
    """A layer whose output is its state."""
    return random_rcnn(FEATURES, HIDDEN, **{"act": None, "bias": False, **options})


LAYERS = covering(
    3,
    order=[1, 2, 4],
    combine=["mul", "add"],
    readout=["c", "z", "sum"],
    gates=[
        *((False, decay) for decay in (0.0, 1.0)),  # whether to normalize, and the decay
        *product((False, True), (0.5, "learned", "input", "recurrent")),
    ],
    scalar_decay=[False, True],
    at=[(6, -1), (6, 0), (6, 2), (6, -6), (1, -1), (2, -1)],  # length and position
)


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_equals_all_ngrams(options: dict[str, Any]) -> None:
    """At the ends of the range of decays, too, and in texts that are too short for an n-gram."""
    options = {**options}
    (length, position), (normalize, decay) = options.pop("at"), options.pop("gates")
    rcnn, x = layer(normalize=normalize, decay=decay, **options), text(length)
    every = ngram_values(rcnn, x[: position % length + 1], HEAD)
    for k in (6, 50):
        found = ngram_contributions(rcnn, x, position, HEAD, k)
        assert_best(found.ngrams, every, k)
    close(found.tokens, node_shares(every, rcnn.cells[0].combine, length))
    close(found.total, sum(ngram.value for ngram in every))
    close(found.total, (rcnn(x)[0][position] * HEAD).sum().detach())
    close(found.tokens.sum() + found.remainder, found.total)


@pytest.mark.parametrize("gate", ["input", "recurrent"])
def test_state_before_all_that_follows_it(gate: str) -> None:
    """An output map enters the head by its transpose; gates, bias and activation are left out."""
    options = {"output_map": True, "output_gate": True, "highway": True, "act": "tanh"}
    rcnn = random_rcnn(HIDDEN, HIDDEN, order=2, decay=gate, **options)
    x = text(6)[:, :HIDDEN]
    _, state = rcnn(x)
    mapped = rcnn.cells[0].output_lin.weight
    found = ngram_contributions(rcnn, x, head=mapped.t() @ HEAD)
    close(found.total, (HEAD @ mapped @ state.c[0, -1]).detach())
    close(found.tokens.sum(), found.total)


def test_a_cell_and_its_layer_are_one() -> None:
    """In any mode, without gradients, and in the precision of the layer."""
    rcnn, x = layer(decay="recurrent", state_dropout=0.5).train(), text(7)
    found, of_cell = (ngram_contributions(part, x, head=HEAD) for part in (rcnn, rcnn.cells[0]))
    close(of_cell.tokens, found.tokens)
    assert of_cell.ngrams == found.ngrams
    rcnn, x = rcnn.float(), x.float().requires_grad_()
    found = ngram_contributions(rcnn, x)
    assert found.tokens.dtype == found.total.dtype == torch.float32
    assert not found.tokens.requires_grad and isinstance(found.ngrams[0][1], float)
    with torch.inference_mode():
        close(ngram_contributions(rcnn, x).total, found.total)


def test_finds_the_best_of_too_many() -> None:
    """Of 10^13 five-grams of 1000 tokens, the best one has the five largest tokens."""
    rcnn = layer(order=5, decay=1.0, normalize=False)
    for lin in rcnn.cells[0].lins:
        torch.nn.init.zeros_(lin.weight)
        lin.weight.data[0, 0] = 1.0
    x = torch.ones(1000, FEATURES, dtype=torch.float64)
    best = (3, 200, 201, 555, 998)
    x[list(best), 0] = 2.0
    found = ngram_contributions(rcnn, x, k=1)
    assert found.ngrams == [(best, pytest.approx(2.0**5))]
    x[:, 0] = 1.0
    first = ngram_contributions(rcnn, x, k=2)  # ties are in the order of positions
    assert first.ngrams == [((0, 1, 2, 3, 4), 1.0), ((0, 1, 2, 3, 5), 1.0)]


@pytest.mark.parametrize(("channels", "k"), [(2, 1), (2, 200), (60, 10), (60, 200)])
def test_many_channels_of_random_signs(channels: int, k: int) -> None:
    """Without decay the bound is loose, so all 34,220 trigrams are candidates."""
    torch.manual_seed(channels)
    rcnn = RCNN(8, channels, order=3, decay=1.0, normalize=False, act=None, bias=False).double()
    x = torch.randn(60, 8, dtype=torch.float64)
    first, second, third = (x @ lin.weight.detach().t() for lin in rcnn.cells[0].lins)
    values = torch.einsum("id,jd,ld->ijl", first, second, third)
    i, j, last = torch.meshgrid(*[torch.arange(60)] * 3, indexing="ij")
    values[(i >= j) | (j >= last)] = 0.0
    top = values.flatten().abs().topk(k).indices
    places = torch.stack(torch.unravel_index(top, values.shape), 1).tolist()
    found = ngram_contributions(rcnn, x, k=k).ngrams
    assert [picked for picked, _ in found] == list(map(tuple, places))
    assert [v for _, v in found] == pytest.approx(values.flatten()[top].tolist(), rel=1e-10)


def test_long_texts_and_lazy_layers_add_up() -> None:
    lazy = RCNN(-1, HIDDEN, decay="recurrent", act=None, bias=False).double()
    for rcnn, x in ((layer(order=3, combine="add", decay="input"), text(700)), (lazy, text(4))):
        found = ngram_contributions(rcnn, x, head=HEAD, k=0)
        close(found.total, (rcnn(x)[0][-1] * HEAD).sum().detach())
        close(found.tokens.sum(), found.total)
