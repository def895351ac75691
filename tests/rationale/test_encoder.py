"""The encoder of texts with every layer and readout, compared text by text."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import GRU, LSTM, RNN, Module

from pyg_kernels.rationale import SequenceEncoder
from pyg_kernels.sequence import KBRN, RCNN, RKM
from tests.rationale.cases import randomized
from tests.sequence.texts import F64, SIZE, close, joined, pointers, texts

LENGTHS = (3, 0, 6, 1, 3, 0)
READOUTS = ("last", "mean", "max")
LAYERS = (RCNN, RKM, KBRN, LSTM, GRU, RNN)
of_every_readout = pytest.mark.parametrize("readout", READOUTS)


def build(layer: Any, readout: Any, **options: Any) -> SequenceEncoder:
    directions = 2 if options.get("bidirectional") else 1
    found = layer(SIZE, 3, **options)
    return randomized(SequenceEncoder(found, 3 * directions, 2, readout=readout)).eval()


def vector(layer: Module, readout: str, x: Tensor, both: bool) -> Tensor:
    """The vector of one text by itself, passed as a single text."""
    if not len(x):
        return x.new_zeros(6 if both else 3)
    states, _ = layer(x)
    if readout == "mean":
        return states.mean(dim=0)
    if readout == "max":
        return states.max(dim=0).values
    return torch.cat((states[-1, :3], states[0, 3:])) if both else states[-1]


@of_every_readout
@pytest.mark.parametrize("both", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("layer", LAYERS)
def test_text_by_text(layer: Any, readout: str, both: bool) -> None:
    """A text without tokens gives the head's output for the zero vector."""
    encoder, pieces = build(layer, readout, bidirectional=both), texts(*LENGTHS)
    found = encoder(joined(pieces), ptr=pointers(pieces))
    expected = [encoder.head(vector(encoder.layer, readout, x, both)) for x in pieces]
    close(found, torch.stack(expected))
    found.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    for number in (0, 1, 3):
        nothing = encoder(joined(texts(0)), ptr=torch.zeros(1 + number).long())
        close(nothing, encoder.head.bias.expand(number, 2))


@of_every_readout
@pytest.mark.parametrize(
    ("both", "decay", "num_layers"),
    [(False, "input", 1), (True, "recurrent", 1), (False, "recurrent", 2), (True, "input", 2)],
)
def test_choices_equal_tokens_alone(readout: str, both: bool, decay: str, num_layers: int) -> None:
    """Weights of 0 and 1 equal the text without the unselected tokens, in gradients as well."""
    encoder = build(RCNN, readout, bidirectional=both, decay=decay, num_layers=num_layers)
    pieces = texts(*LENGTHS)
    x = joined(pieces)
    kept = torch.rand(len(x), generator=torch.Generator().manual_seed(4)) < 0.5
    kept[3:6] = False
    kept[0] = False
    shorter = [p[z] for p, z in zip(pieces, kept.split(LENGTHS), strict=True)]
    found = encoder(x, ptr=pointers(pieces), selection=kept.to(F64))
    expected = encoder(joined(shorter), ptr=pointers(shorter))
    close(found, expected)
    slopes = torch.autograd.grad(found.square().sum(), list(encoder.parameters()))
    wanted = torch.autograd.grad(expected.square().sum(), list(encoder.parameters()))
    close(slopes, wanted)
    nothing = encoder(x, ptr=pointers(pieces), selection=torch.zeros(len(x)))
    close(nothing, encoder.head.bias.expand(6, 2))


def test_mean_and_max_in_part() -> None:
    (x,) = texts(4)
    weight = torch.tensor([0.0, 0.3, 1.0, 0.6], dtype=F64, requires_grad=True)
    ptr = torch.tensor([0, 4])
    for readout in ("mean", "max"):
        encoder = build(RCNN, readout, decay="input")
        states, _ = encoder.layer(x, selection=weight)
        if readout == "mean":
            expected = (weight.unsqueeze(1) * states).sum(dim=0) / weight.sum()
        else:
            expected = states[1:].max(dim=0).values
        found = encoder(x, ptr=ptr, selection=weight)
        close(found[0], encoder.head(expected))
    assert torch.autograd.grad(found.sum(), weight)[0].isfinite().all()


def test_means_in_half_precision() -> None:
    """There are more tokens, and their sum is larger, than half precision can represent."""
    x, ptr = torch.full((70_000, SIZE), 50.0), torch.tensor([0, 70_000])
    encoder = SequenceEncoder(RCNN(SIZE, 3, order=1, act=None, decay=0.0), 3, 1, "mean").half()
    for selection in (None, torch.full((len(x),), 0.5, dtype=torch.half)):
        found = encoder(x.half(), ptr, selection=selection)
        close(found[0], encoder.head(encoder.layer(x[:1].half())[0][0]), rtol=1e-2)


def test_dropout() -> None:
    torch.manual_seed(0)
    encoder = SequenceEncoder(RCNN(SIZE, 50), 50, 1, dropout=0.5)
    x, ptr = torch.randn(4, SIZE), torch.tensor([0, 4])
    assert not torch.equal(encoder(x, ptr), encoder(x, ptr))
    encoder.eval()
    assert torch.equal(encoder(x, ptr), encoder(x, ptr))
