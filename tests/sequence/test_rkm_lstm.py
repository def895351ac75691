"""The 1-gram LSTM is torch's: outputs, states and the gradients of everything."""

from __future__ import annotations

from collections.abc import Callable
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
    "both-ways": {"bidirectional": True},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "bias": False},
}
every = pytest.mark.parametrize("name", SIZES)


def torch_lstm(seed: int = 0, **options: Any) -> torch.nn.LSTM:
    torch.manual_seed(seed)
    lstm = torch.nn.LSTM(3, 5, **options).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return lstm


def suffixes(lstm: torch.nn.LSTM) -> list[str]:
    directions = ["", "_reverse"] if lstm.bidirectional else [""]
    return [f"l{layer}{way}" for layer in range(lstm.num_layers) for way in directions]


def written_by_hand(lstm: torch.nn.LSTM) -> RKM:
    """The weights of an nn.LSTM put into a machine of the same sizes."""
    names = ["num_layers", "bias", "batch_first", "bidirectional"]
    rkm = RKM(3, 5, cell="lstm", **{name: getattr(lstm, name) for name in names}).double()
    with torch.no_grad():
        for cell, suffix in zip(rkm.cells, suffixes(lstm), strict=True):
            for kind, maps in [("ih", cell.filters), ("hh", cell.recurrent)]:
                weight = getattr(lstm, f"weight_{kind}_{suffix}").chunk(4)
                for gate, rows in zip(ROWS, weight, strict=True):
                    maps[gate].weight.copy_(rows.view_as(maps[gate].weight))
            if lstm.bias:
                bias = getattr(lstm, f"bias_ih_{suffix}") + getattr(lstm, f"bias_hh_{suffix}")
                for gate, rows in zip(ROWS, bias.chunk(4), strict=True):
                    cell.biases[gate].copy_(rows)
    return rkm


def parameters_in_the_order_of(lstm: torch.nn.LSTM, rkm: RKM) -> list[list[Tensor]]:
    """For each parameter of the nn.LSTM, the four of the machine that stand for it."""
    found = []
    for name in dict(lstm.named_parameters()):
        kind, suffix = name.split("_l", 1)
        cell = rkm.cells[suffixes(lstm).index(f"l{suffix}")]
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
        given.append(
            torch.cat([next(flat).flatten(1) if p.dim() > 1 else next(flat) for p in group])
        )
    names = [f"input {i}" for i in range(len(inputs))] + [n for n, _ in lstm.named_parameters()]
    assert_close(given, wanted, names)


@every
@pytest.mark.parametrize("make", [written_by_hand, RKM.from_lstm], ids=["by-hand", "from_lstm"])
def test_same(name: str, make: Callable[[torch.nn.LSTM], RKM]) -> None:
    lstm = torch_lstm(**SIZES[name])
    rkm, x = make(lstm), random_text(7, 4, 3).requires_grad_()
    assert_same_layer(lstm, rkm, x, x)
    alone = random_text(6, 3).requires_grad_()
    assert_same_layer(lstm, rkm, alone, alone)
    if not lstm.bidirectional:
        rows, texts_of = len(rkm.cells), 7 if lstm.batch_first else 4
        h, c = (random_text(rows, texts_of, 5, seed=s).requires_grad_() for s in (1, 2))
        assert_same_layer(lstm, rkm, x, x, h, c)
        h, c = (random_text(rows, 5, seed=s).requires_grad_() for s in (3, 4))
        assert_same_layer(lstm, rkm, alone, alone, h, c)


@every
@pytest.mark.parametrize("lengths", [[6, 4, 4, 1], [3, 6, 1, 4]], ids=["sorted", "unsorted"])
def test_packed(name: str, lengths: list[int]) -> None:
    lstm = torch_lstm(**SIZES[name])
    rkm = RKM.from_lstm(lstm)
    x = torch.cat(texts(*lengths, size=3)).requires_grad_()
    packed = pack_sequence(list(x.split(lengths)), enforce_sorted=lengths == [6, 4, 4, 1])
    assert_same_layer(lstm, rkm, packed, x)
    if not lstm.bidirectional:
        h, c = (random_text(len(rkm.cells), 4, 5, seed=s).requires_grad_() for s in (1, 2))
        assert_same_layer(lstm, rkm, packed, x, h, c)


def test_long_and_wide() -> None:
    lstm, x = torch_lstm(), random_text(300, 7, 3).requires_grad_()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.mul_(0.5)
    assert_same_layer(lstm, RKM.from_lstm(lstm), x, x)


@every
def test_what_from_lstm_keeps(name: str) -> None:
    lstm = torch_lstm(**SIZES[name])
    rkm = RKM.from_lstm(lstm)
    assert isinstance(rkm, RKM)
    for size in ["input_size", "hidden_size", "num_layers", "batch_first", "bidirectional"]:
        assert getattr(rkm, size) == getattr(lstm, size)
    kept = [p.detach().clone() for p in lstm.parameters()]
    with torch.no_grad():  # copied, not shared
        for parameter in rkm.parameters():
            parameter.zero_()
    for parameter, before in zip(lstm.parameters(), kept, strict=True):
        assert torch.equal(parameter, before)
    assert {p.dtype for p in RKM.from_lstm(lstm.float()).parameters()} == {torch.float32}


def test_from_lstm_keeps_dropout_and_mode() -> None:
    lstm = torch_lstm(num_layers=2, dropout=0.5).eval()
    rkm, x = RKM.from_lstm(lstm), random_text(5, 2, 3)
    assert rkm.dropout == 0.5
    close(rkm.eval()(x)[0], lstm(x)[0])


def test_from_lstm_has_no_projections() -> None:
    with pytest.raises(ValueError, match="proj_size"):
        RKM.from_lstm(torch.nn.LSTM(3, 5, proj_size=2))
