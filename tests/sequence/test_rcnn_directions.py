"""Stacks are layers one after the other; two directions are a layer and one on reversed text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from pyg_kernels.sequence import RCNN, RCNNState
from tests.sequence.rcnn_equations import random_rcnn, random_text
from tests.sequence.variants import (
    BOTH_WAYS,
    MAX,
    ONE_WAY,
    SIZE,
    SUM,
    build,
    close,
    pointers,
    texts,
)

SINGLE = {k: v for k, v in ONE_WAY.items() if "num_layers" not in v}


def layer_of(rcnn: RCNN, options: dict[str, Any], cell: int) -> RCNN:
    """A layer in one direction with the parameters of one cell of a stack."""
    kept = {k: v for k, v in options.items() if k not in ("bidirectional", "num_layers")}
    single = random_rcnn(rcnn.cells[cell].lins[0].weight.size(1), SIZE, seed=7, **kept)
    single.cells[0].load_state_dict(rcnn.cells[cell].state_dict())
    return single


def backwards(pieces: list[Tensor]) -> list[Tensor]:
    return [piece.flip(0) for piece in pieces]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("num_layers", [2, 3])
def test_stack(name: str, num_layers: int) -> None:
    """Outputs, final states and initial states of each layer, in order."""
    rcnn = build(SINGLE[name], num_layers=num_layers)
    x = random_text(6, 3, SIZE)
    output, state = rcnn(x)
    found: list[RCNNState] = []
    for layer in range(num_layers):
        x, last = layer_of(rcnn, SINGLE[name], layer)(x)
        found.append(last)
    close(output, x)
    close(state.h, torch.cat([last.h for last in found]))
    if name in SUM:
        close(state.c, torch.cat([last.c for last in found]))


def test_sizes_of_a_stack() -> None:
    rcnn = random_rcnn(3, 5, num_layers=2, decay="input")
    assert [cell.lins[0].weight.shape for cell in rcnn.cells] == [(5, 3), (5, 5)]
    rcnn = random_rcnn(3, 5, num_layers=2, decay="input", bidirectional=True)
    assert [cell.lins[0].weight.shape for cell in rcnn.cells] == [(5, 3)] * 2 + [(5, 10)] * 2


@pytest.mark.parametrize("name", SINGLE)
def test_both_directions(name: str) -> None:
    """The forward half, and the layer on the reversed text, reversed."""
    rcnn = build(SINGLE[name], bidirectional=True)
    forward, backward = (layer_of(rcnn, SINGLE[name], cell) for cell in range(2))
    pieces = texts(5, 1, 0, 4)
    output, state = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    rows = zip(output.split([len(p) for p in pieces]), pieces, strict=True)
    for b, (found, piece) in enumerate(rows):
        ahead, end = forward(piece)
        back, start = backward(piece.flip(0))
        close(found, torch.cat([ahead, back.flip(0)], dim=1))
        close(state.h[:, b], torch.cat([end.h, start.h]))
    packed, _ = rcnn(pack_sequence([pieces[0], pieces[3], pieces[1]]))
    padded, _ = pad_packed_sequence(packed)
    close(padded[:4, 1], output[6:])


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_layers_of_both_directions(name: str) -> None:
    """The second layer reads both halves of the first."""
    rcnn = build(BOTH_WAYS[name], num_layers=2)
    x = random_text(6, 3, SIZE)
    output, state = rcnn(x)
    ends = []
    for layer in range(2):
        ahead, end = layer_of(rcnn, BOTH_WAYS[name], 2 * layer)(x)
        back, start = layer_of(rcnn, BOTH_WAYS[name], 2 * layer + 1)(x.flip(0))
        x = torch.cat([ahead, back.flip(0)], dim=-1)
        ends += [end.h, start.h]
    close(output, x)
    close(state.h, torch.cat(ends))


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_reversing_twice(name: str) -> None:
    """Cells swapped and text reversed: the same numbers, reversed and with halves swapped."""
    rcnn, turned = build(BOTH_WAYS[name]), build(BOTH_WAYS[name])
    for layer in range(len(rcnn.cells) // 2):
        for cell, other in [(2 * layer, 2 * layer + 1), (2 * layer + 1, 2 * layer)]:
            parameters = rcnn.cells[cell].state_dict()
            if layer:  # the layer before has its halves swapped as well
                parameters = {
                    k: torch.cat([v[:, SIZE:], v[:, :SIZE]], dim=1)
                    if v.dim() == 2 and v.size(1) == 2 * SIZE
                    else v
                    for k, v in parameters.items()
                }
            turned.cells[other].load_state_dict(parameters)
    pieces = texts(5, 1, 0, 4)
    ptr = pointers(pieces)
    expected, _ = rcnn(torch.cat(pieces), ptr=ptr)
    output, _ = turned(torch.cat(backwards(pieces)), ptr=ptr)
    unturned = torch.cat(backwards(list(output.split([len(p) for p in pieces]))))
    close(torch.cat([unturned[:, SIZE:], unturned[:, :SIZE]], dim=1), expected)


def test_directions_do_not_share_parameters() -> None:
    for name in MAX:
        rcnn = build(MAX[name], bidirectional=True, num_layers=1, highway=False)
        a, b = (cell.lins[0].weight for cell in rcnn.cells)
        assert a is not b and not torch.equal(a, b)
