"""Where the layers equal torch's own: the 1-gram LSTM, and networks of rectifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from pyg_kernels.sequence import KBRN, RCNN, RKM
from tests.sequence.texts import F64, SIZE, close, gradients, random_text, texts
from tests.sequence.variants import parts_of, plain

HIDDEN = 5
STACKS: dict[str, dict[str, Any]] = {
    "no-bias": {"bias": False},
    "batch-first": {"batch_first": True},
    "stack": {"num_layers": 3},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2},
}
Pair = tuple[Any, Any]


def lstms(**stack: Any) -> Pair:
    """An nn.LSTM and the machine made from it."""
    torch.manual_seed(0)
    lstm = nn.LSTM(SIZE, HIDDEN, **stack).double()
    for parameter in lstm.parameters():
        nn.init.normal_(parameter, std=0.5)
    return lstm, RKM.from_lstm(lstm)


@torch.no_grad()
def rnns(**stack: Any) -> Pair:
    """An nn.RNN of rectifiers, and a network whose functions are initialised as rectifiers."""
    torch.manual_seed(0)
    of_relu = {"green": "abs", "num_centers": 41, "init": "relu", "affine": True}
    rnn = nn.RNN(SIZE, HIDDEN, nonlinearity="relu", dtype=F64, **stack)
    kbrn = KBRN(SIZE, HIDDEN, normalize=False, dtype=F64, **of_relu, **stack)
    for cell, (of_x, of_h, *biases) in zip(kbrn.cells, rnn.all_weights, strict=True):
        cell.lin_input.weight.copy_(of_x)
        cell.lin_recurrent.weight.copy_(of_h)
        if biases:
            cell.lin_input.bias.copy_(sum(biases))
    return rnn, kbrn


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("pair_of", [lstms, rnns])
def test_same(pair_of: Callable[..., Pair], stack: dict[str, Any]) -> None:
    """For batches, one text and packed texts, with and without an initial state.

    Outputs, states and their gradients are the same. Other tests compare those of parameters with
    the equations'.
    """
    theirs, ours = pair_of(**stack)
    x, alone, ragged = random_text(7, 4, SIZE), random_text(6, SIZE), texts(3, 6, 1, 4)
    packed = pack_sequence(ragged, enforce_sorted=False)
    batch = (7 if theirs.batch_first else 4,)
    for tokens, leaf, count in [(x, x, batch), (alone, alone, ()), (packed, packed.data, (4,))]:
        leaf.requires_grad_()
        shape = (len(ours.cells), *count, HIDDEN)
        states = [random_text(*shape, seed=s).requires_grad_() for s in (1, 2)]
        given = plain(states[: 1 + isinstance(theirs, nn.LSTM)])
        for state in [None, given][: 2 - theirs.bidirectional]:
            results = []
            for layer in (theirs, ours):
                output, last = layer(tokens, state)
                found = [output.data if tokens is packed else output, *parts_of(last)]
                results.append([*found, *gradients(found, [leaf, *states])])
            close(*results)


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_what_from_lstm_keeps(stack: dict[str, Any]) -> None:
    lstm, _ = lstms(**stack, dropout=0.5 * ("num_layers" in stack))
    rkm, x = RKM.from_lstm(lstm.eval()), random_text(5, 2, SIZE)
    sizes = ["input_size", "hidden_size", "num_layers", "batch_first", "bidirectional", "dropout"]
    for size in [*sizes, "training"]:
        assert getattr(rkm, size) == getattr(lstm, size)
    expected = lstm(x)[0]
    with torch.no_grad():  # copied, not shared
        for parameter in rkm.parameters():
            parameter.zero_()
    close(lstm(x)[0], expected)
    assert {p.dtype for p in RKM.from_lstm(lstm.float()).parameters()} == {torch.float32}


def test_what_is_no_lstm() -> None:
    with pytest.raises(ValueError, match="proj_size"):
        RKM.from_lstm(nn.LSTM(3, 5, proj_size=2))
    with pytest.raises(TypeError, match=r"GRU: expected a torch\.nn\.LSTM"):
        RKM.from_lstm(nn.GRU(3, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_functions_of_ones_own_are_kept_as_they_are(dtype: torch.dtype | None) -> None:
    """Each layer has a copy that keeps what was learned, and half precision works."""
    learned = nn.Sequential(nn.PReLU(init=0.25))
    nn.init.constant_(learned[0].weight, 0.5)
    layers = [
        RCNN(SIZE, HIDDEN, num_layers=2, act=learned, dtype=dtype),
        RCNN(SIZE, HIDDEN, num_layers=2, act=learned, decay="recurrent", dtype=dtype),
        RKM(SIZE, HIDDEN, num_layers=2, cell="general", q=learned, dtype=dtype),
    ]
    for layer in layers:
        layer.to(dtype)
        kept = [getattr(cell, "act", None) or cell.q for cell in layer.cells]
        assert [each[0].weight.item() for each in kept] == [0.5, 0.5] and kept[0] is not kept[1]
        x = random_text(4, 2, SIZE).to(dtype or torch.float32)
        assert layer(x)[0].dtype == x.dtype
        layer.reset_parameters()
        assert kept[0][0].weight.item() == 0.25
