"""Stacks are layers one after the other; two directions are a layer and one on reversed text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from tests.sequence.layers import both_ways, families, single_layers
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, like, parts_of


def layer_of(layer: Any, variant: Variant, cell: int) -> Any:
    """A layer in one direction with the parameters of one cell of a stack."""
    kept = {k: v for k, v in variant.options.items() if k not in ("bidirectional", "num_layers")}
    directions = 2 if layer.bidirectional else 1
    size = SIZE if cell < directions else variant.hidden * directions
    single = variant.family.random(size, variant.hidden, seed=7, **kept)
    single.cells[0].load_state_dict(layer.cells[cell].state_dict())
    return single


@single_layers
@pytest.mark.parametrize("num_layers", [2, 3])
def test_stack(variant: Variant, num_layers: int) -> None:
    """Outputs and final states of each layer, in order."""
    layer = variant.build(num_layers=num_layers)
    x = random_text(6, 3, SIZE)
    output, state = layer(x)
    ends = []
    for cell in range(num_layers):
        x, last = layer_of(layer, variant, cell)(x)
        ends.append(last)
    close(output, x)
    variant.family.assert_of_layers(state, ends)


@single_layers
def test_both_directions(variant: Variant) -> None:
    """The forward half, and the layer on the reversed text, reversed."""
    layer = variant.build(bidirectional=True)
    forward, backward = (layer_of(layer, variant, cell) for cell in range(2))
    pieces = texts(5, 1, 0, 4)
    output, state = layer(torch.cat(pieces), ptr=pointers(pieces))
    rows = zip(output.split([len(p) for p in pieces]), pieces, strict=True)
    for b, (found, piece) in enumerate(rows):
        ahead, end = forward(piece)
        back, start = backward(piece.flip(0))
        close(found, torch.cat([ahead, back.flip(0)], dim=1))
        one = like(state, [part[:, b] for part in parts_of(state)])
        variant.family.assert_of_layers(one, [end, start])
    packed, _ = layer(pack_sequence([pieces[0], pieces[3], pieces[1]]))
    padded, _ = pad_packed_sequence(packed)
    close(padded[:4, 1], output[6:])


@both_ways
def test_layers_of_both_directions(variant: Variant) -> None:
    """The second layer reads both halves of the first."""
    layer = variant.build(num_layers=2)
    x = random_text(6, 3, SIZE)
    output, state = layer(x)
    ends = []
    for number in range(2):
        ahead, end = layer_of(layer, variant, 2 * number)(x)
        back, start = layer_of(layer, variant, 2 * number + 1)(x.flip(0))
        x = torch.cat([ahead, back.flip(0)], dim=-1)
        ends += [end, start]
    close(output, x)
    variant.family.assert_of_layers(state, ends)


@both_ways
def test_reversing_twice(variant: Variant) -> None:
    """Cells swapped and text reversed: the same numbers, reversed and with halves swapped."""
    layer, turned, half = variant.build(), variant.build(), variant.hidden
    for number in range(len(layer.cells)):
        parameters = layer.cells[number].state_dict()
        if number > 1:  # the layer before has its halves swapped as well
            parameters = {
                k: torch.cat([v[:, half:], v[:, :half]], dim=1)
                if v.dim() > 1 and v.size(1) == 2 * half
                else v
                for k, v in parameters.items()
            }
        turned.cells[number ^ 1].load_state_dict(parameters)
    pieces = texts(5, 1, 0, 4)
    lengths, ptr = [len(p) for p in pieces], pointers(pieces)
    expected, _ = layer(torch.cat(pieces), ptr=ptr)
    output, _ = turned(torch.cat([piece.flip(0) for piece in pieces]), ptr=ptr)
    unturned = torch.cat([text.flip(0) for text in output.split(lengths)])
    close(torch.cat([unturned[:, half:], unturned[:, :half]], dim=1), expected)


@single_layers
def test_cells_do_not_share_parameters(variant: Variant) -> None:
    layer = variant.build(bidirectional=True)
    assert len(layer.cells) == 2
    for a, b in zip(*(cell.parameters() for cell in layer.cells), strict=True):
        assert a is not b
        assert not torch.equal(a, b)


@families
def test_sizes_of_a_stack(family: Family) -> None:
    """Layers above the first read the outputs before them, those of both directions."""
    for directions in (1, 2):
        layer = family.random(3, 5, num_layers=2, bidirectional=directions == 2)
        below, above = layer.cells[: len(layer.cells) // 2], layer.cells[len(layer.cells) // 2 :]
        for cells, size in [(below, 3), (above, 5 * directions)]:
            assert len(cells) == directions
            for cell in cells:
                assert parts_of(cell(random_text(2, size)))[0].shape == (2, 5)
                matrices = {
                    p.shape[:2]
                    for name, p in cell.named_parameters()
                    if p.dim() > 1 and not name.startswith("activation.")
                }
                assert matrices <= {(5, size), (5, 5)}
