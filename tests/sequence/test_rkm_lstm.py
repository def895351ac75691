"""The 1-gram LSTM is torch's: outputs, states and the gradients of everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pyg_kernels.sequence import RKM
from tests.sequence.texts import assert_close, close, gradients, random_text, texts

ROWS = ["input", "forget", "candidate", "output"]  # as nn.LSTM stacks them
SIZES: dict[str, dict[str, Any]] = {
    "one-layer": {},
    "no-bias": {"bias": False},
    "batch-first": {"batch_first": True},
    "stack": {"num_layers": 3},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2},
}
every = pytest.mark.parametrize("name", SIZES)


def torch_lstm(**options: Any) -> torch.nn.LSTM:
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(3, 5, **options).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return lstm


def parameters_in_the_order_of(lstm: torch.nn.LSTM, rkm: RKM) -> list[list[Tensor]]:
    """For each parameter of the nn.LSTM, the four of the machine that stand for it."""
    found, ways = [], 1 + lstm.bidirectional
    for name in dict(lstm.named_parameters()):
        kind, place = name.split("_l", 1)
        cell = rkm.cells[int(place[0]) * ways + place.endswith("reverse")]
        if kind.startswith("bias"):
            found.append([cell.biases[gate] for gate in ROWS])
        else:
            maps = cell.filters if kind == "weight_ih" else cell.recurrent
            found.append([maps[gate].weight for gate in ROWS])
    return found


def outputs_of(layer: torch.nn.Module, x: Any, state: Any) -> list[Tensor]:
    output, (h, c) = layer(x, state)
    return [output.data if isinstance(output, PackedSequence) else output, h, c]


def assert_same_layer(lstm: torch.nn.LSTM, rkm: RKM, x: Any, *inputs: Tensor) -> None:
    """`inputs`: what x is made of, then the initial h and c where they are given."""
    state = tuple(inputs[1:]) or None
    found, expected = outputs_of(rkm, x, state), outputs_of(lstm, x, state)
    assert_close(found, expected, ["output", "h", "c"])
    groups = parameters_in_the_order_of(lstm, rkm)
    wanted = gradients(expected, [*inputs, *lstm.parameters()])
    flat = iter(gradients(found, [*inputs, *[p for group in groups for p in group]]))
    given = [next(flat) for _ in inputs]
    for group in groups:
        parts = [next(flat) for _ in group]
        given.append(torch.cat([p.flatten(1) if p.dim() > 1 else p for p in parts]))
    names = [f"input {i}" for i in range(len(inputs))] + [n for n, _ in lstm.named_parameters()]
    assert_close(given, wanted, names)


@every
def test_same(name: str) -> None:
    """Of batches, one text and packed texts, from a state and from nothing."""
    lstm = torch_lstm(**SIZES[name])
    rkm, rows = RKM.from_lstm(lstm), lstm.num_layers * (1 + lstm.bidirectional)
    x, alone = random_text(7, 4, 3).requires_grad_(), random_text(6, 3).requires_grad_()
    ragged = torch.cat(texts(3, 6, 1, 4, size=3)).requires_grad_()
    packed = pack_sequence(list(ragged.split([3, 6, 1, 4])), enforce_sorted=False)
    batch = (7 if lstm.batch_first else 4,)
    for text, leaf, count in [(x, x, batch), (alone, alone, ()), (packed, ragged, (4,))]:
        assert_same_layer(lstm, rkm, text, leaf)
        if not lstm.bidirectional:
            state = [random_text(rows, *count, 5, seed=s).requires_grad_() for s in (1, 2)]
            assert_same_layer(lstm, rkm, text, leaf, *state)


@every
def test_what_from_lstm_keeps(name: str) -> None:
    lstm = torch_lstm(**SIZES[name], dropout=0.5 * ("stack" in name)).eval()
    rkm, x = RKM.from_lstm(lstm), random_text(5, 2, 3)
    sizes = ["input_size", "hidden_size", "num_layers", "batch_first", "bidirectional", "dropout"]
    for size in [*sizes, "training"]:
        assert getattr(rkm, size) == getattr(lstm, size)
    expected = lstm(x)[0]
    with torch.no_grad():  # copied, not shared
        for parameter in rkm.parameters():
            parameter.zero_()
    close(lstm(x)[0], expected)
    assert {p.dtype for p in RKM.from_lstm(lstm.float()).parameters()} == {torch.float32}


def test_from_lstm_has_no_projections() -> None:
    with pytest.raises(ValueError, match="proj_size"):
        RKM.from_lstm(torch.nn.LSTM(3, 5, proj_size=2))
