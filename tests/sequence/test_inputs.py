"""Every calling form gives a text the numbers that it has alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence
from torch_geometric.data import Batch, Data

from pyg_kernels.sequence import PathGraph, path_batch
from tests.sequence.layers import of_every
from tests.sequence.texts import SIZE, assert_placed, close, joined, place, pointers, texts
from tests.sequence.variants import Variant, parts_of

LENGTHS = [5, 1, 0, 3, 5, 2]


def alone(layer: Any, pieces: list[Tensor]) -> list[Tensor]:
    return [layer(piece)[0] for piece in pieces]


@of_every
def test_layouts_of_nn_lstm(variant: Variant) -> None:
    pieces = texts(6, 6, 6)
    x = torch.stack(pieces, dim=1)
    layer, batch_first = variant.build(), variant.build(batch_first=True)
    output, state = layer(x)
    assert output.shape == (6, 3, variant.width)
    for b, text in enumerate(alone(layer, pieces)):
        assert text.shape == (6, variant.width)
        close(output[:, b], text)
    turned, last = batch_first(x.transpose(0, 1))
    close(turned, output.transpose(0, 1))
    variant.family.assert_same_states(last, state)  # texts second, as in nn.LSTM
    close(batch_first(pieces[0])[0], output[:, 0])
    mask = torch.ones(6, 3, dtype=torch.bool)
    close(layer(x, mask=mask)[0], output)
    close(layer(pieces[0], mask=mask[:, 0])[0], output[:, 0])
    packed, _ = layer(pack_sequence(pieces))
    assert isinstance(packed, PackedSequence)
    close(pad_packed_sequence(packed)[0], output)
    close(layer(torch.cat(pieces), ptr=pointers(pieces))[0], output.transpose(0, 1).flatten(0, 1))


@of_every
def test_inputs_without_contiguous_memory(variant: Variant) -> None:
    layer, pieces = variant.build(), texts(6, 6, 6)
    x = torch.stack(pieces).transpose(0, 1)
    assert not x.is_contiguous()
    close(layer(x)[0], layer(x.contiguous())[0])
    one = pieces[0][:, None].expand(-1, 3, -1)
    close(layer(one)[0], layer(one.contiguous())[0])


@of_every
@pytest.mark.parametrize("how", ["left", "right", "holes"])
def test_masked(variant: Variant, how: str) -> None:
    """Padding on either side, or in between, full of NaN, leaves no trace."""
    layer, pieces = variant.build(), texts(*LENGTHS)
    grid, mask = place(pieces, how)
    expected = alone(layer, pieces)
    output, state = layer(grid, mask=mask)
    assert_placed(output, mask, expected)
    variant.family.assert_same_states(state, layer(torch.cat(pieces), ptr=pointers(pieces))[1])
    if how != "holes":
        return
    first = variant.build(batch_first=True)
    output, _ = first(grid.transpose(0, 1), mask=mask.t())
    assert_placed(output.transpose(0, 1), mask, expected)
    output, _ = layer(grid[:, 3], mask=mask[:, 3])
    assert_placed(output[:, None], mask[:, 3:4], expected[3:4])


@of_every
@pytest.mark.parametrize("enforce_sorted", [False, True], ids=["unsorted", "sorted"])
def test_packed(variant: Variant, enforce_sorted: bool) -> None:
    lengths = [5, 4, 4, 1] if enforce_sorted else [4, 5, 1, 4]
    layer, pieces = variant.build(), texts(*lengths)
    packed = pack_sequence(pieces, enforce_sorted=enforce_sorted)
    output, state = layer(packed)
    assert torch.equal(output.batch_sizes, packed.batch_sizes)
    padded, found = pad_packed_sequence(output)
    assert found.tolist() == lengths
    for b, text in enumerate(alone(layer, pieces)):
        close(padded[: lengths[b], b], text)
    variant.family.assert_same_states(state, layer(torch.cat(pieces), ptr=pointers(pieces))[1])


@of_every
def test_ragged_and_path_graphs(variant: Variant) -> None:
    """With a ptr of any whole numbers; graphs with their edges or without."""
    layer, pieces = variant.build(), texts(*LENGTHS)
    x, ptr = torch.cat(pieces), pointers(pieces)
    expected = torch.cat(alone(layer, pieces))
    output, state = layer(x, ptr=ptr)
    close(output, expected)
    close(layer(x, ptr=ptr.int())[0], expected)
    graphs = [Data(x=piece, num_nodes=len(piece)) for piece in pieces]
    for batch in (Batch.from_data_list(graphs), path_batch(pieces)):
        of_graphs, last = layer(batch)
        close(of_graphs, expected)
        variant.family.assert_same_states(last, state)
    for graph in (Data(x=pieces[0]), PathGraph()(pieces[0])):
        close(layer(graph)[0], expected[: len(pieces[0])])


@of_every
def test_final_state_of_each_text(variant: Variant) -> None:
    """Texts end in the state they end in alone; the empty one in zeros."""
    layer, pieces = variant.build(), texts(*LENGTHS)
    output, state = layer(torch.cat(pieces), ptr=pointers(pieces))
    variant.assert_shapes(state, len(pieces))
    variant.family.assert_of_texts(state, [layer(piece)[1] for piece in pieces])
    assert all((part[:, 2] == 0).all() for part in variant.family.compared(state).values())
    if not layer.bidirectional:
        for b, text in enumerate(output.split(LENGTHS)):
            last = parts_of(state)[0][-1, b]
            close(last, text[-1] if len(text) else torch.zeros_like(last))


@of_every
def test_lengths_are_padding_on_the_right(variant: Variant) -> None:
    layer, pieces = variant.build(), texts(*LENGTHS)
    x, mask = place(pieces, "right")
    expected, state = layer(x, mask=mask)
    for given in (LENGTHS, torch.tensor(LENGTHS), torch.tensor(LENGTHS, dtype=torch.int32)):
        output, found = layer(x, lengths=given)
        close(output, expected)
        variant.family.assert_same_states(found, state)
    first = variant.build(batch_first=True)
    close(first(x.transpose(0, 1), lengths=LENGTHS)[0].transpose(0, 1), expected)


@of_every
def test_gradients_do_not_see_padding_nor_other_texts(variant: Variant) -> None:
    layer, pieces = variant.build(), texts(*LENGTHS)
    parameters = list(layer.parameters())
    x = torch.cat(pieces).requires_grad_()
    total = sum(text.square().sum() for text in alone(layer, list(x.split(LENGTHS))))
    of_x, *expected = torch.autograd.grad(total, [x, *parameters])
    output, _ = layer(x, ptr=pointers(pieces))
    found = torch.autograd.grad(output.square().sum(), [x, *parameters])
    for a, b in zip(found, [of_x, *expected], strict=True):
        close(a, b)
    for how in ["left", "right", "holes"]:
        grid, mask = place(pieces, how)
        grid.requires_grad_()
        output, _ = layer(grid, mask=mask)
        of_grid, *found = torch.autograd.grad(output.square().sum(), [grid, *parameters])
        assert (of_grid[~mask] == 0).all()
        close(torch.cat([of_grid[mask[:, b], b] for b in range(len(pieces))]), of_x)
        for a, b in zip(found, expected, strict=True):
            close(a, b)


@of_every
def test_empty_and_one_token_texts(variant: Variant) -> None:
    layer = variant.build()
    for lengths in [[], [0], [0, 0, 0], [1], [0, 1, 0]]:
        pieces = texts(*lengths)
        x = joined(pieces).requires_grad_()
        output, state = layer(x, ptr=pointers(pieces))
        assert output.shape == (sum(lengths), variant.width)
        variant.assert_shapes(state, len(lengths))
        close(output, torch.cat([x.new_zeros(0, variant.width), *alone(layer, pieces)]))
        gradients = torch.autograd.grad(
            output.sum(), [x, *layer.parameters()], allow_unused=True, materialize_grads=True
        )
        assert all(g.isfinite().all() for g in gradients)
        grid, mask = place(pieces, "left")
        masked, _ = layer(grid, mask=mask)
        assert masked.shape == (*mask.shape, variant.width)
        assert_placed(masked, mask, alone(layer, pieces))


@of_every
def test_empty_grids(variant: Variant) -> None:
    layer = variant.build()
    for steps, count in [(4, 0), (0, 3), (0, 0)]:
        output, state = layer(torch.zeros(steps, count, SIZE, dtype=torch.float64))
        assert output.shape == (steps, count, variant.width)
        variant.assert_shapes(state, count)
        assert all((part == 0).all() and part.size(1) == count for part in parts_of(state))
    output, state = layer(torch.zeros(0, SIZE, dtype=torch.float64))
    assert output.size(0) == 0
    variant.assert_shapes(state)


def test_packed_sequence_refuses_length_zero_by_itself() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        pack_sequence(texts(3, 0))


@pytest.mark.parametrize(
    ("value", "lengths", "spoilt"),
    [
        (torch.nan, [5, 3, 7], 0),
        (torch.inf, [60, 50, 65], 2),
        (1e308, [65, 0, 60], 0),
    ],
    ids=str,
)
@of_every
def test_no_infinity_of_another_text(
    variant: Variant, lengths: list[int], value: float, spoilt: int
) -> None:
    """What overflows in one text stays there, in outputs and in gradients."""
    layer, pieces = variant.build(scale=0.3), texts(*lengths)
    others = [k for k in range(3) if k != spoilt]

    def run(batch: list[Tensor]) -> list[Tensor]:
        x = [piece.clone().requires_grad_() for piece in batch]
        output, _ = layer(torch.cat(x), ptr=pointers(batch))
        parts = output.split(lengths)
        total = sum(parts[k].sin().sum() for k in others)
        return [parts[k] for k in others] + list(torch.autograd.grad(total, [x[k] for k in others]))

    bad = [piece.clone() for piece in pieces]
    bad[spoilt][lengths[spoilt] // 2] = value
    for found, expected in zip(run(bad), run(pieces), strict=True):
        close(found, expected)
