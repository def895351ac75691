"""Every calling form gives a text the numbers that it has alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence
from torch_geometric.data import Batch, Data

from pyg_kernels.sequence import RCNN
from tests.sequence.variants import BOTH_WAYS, EVERY, SIZE, SUM, build, close, pointers, texts

every = pytest.mark.parametrize("name", EVERY)
LENGTHS = [5, 1, 0, 3, 5, 2]


def width_of(name: str) -> int:
    return 2 * SIZE if name in BOTH_WAYS else SIZE


def alone(rcnn: RCNN, pieces: list[Tensor]) -> list[Tensor]:
    return [rcnn(piece)[0] for piece in pieces]


def place(pieces: list[Tensor], how: str) -> tuple[Tensor, Tensor]:
    """Texts in a grid (T, B, F) of NaN, with the mask of their tokens."""
    steps = max((len(p) for p in pieces), default=0) + 2
    mask = torch.zeros(steps, len(pieces), dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    for b, piece in enumerate(pieces):
        if how == "right":
            mask[: len(piece), b] = True
        elif how == "left":
            mask[steps - len(piece) :, b] = True
        else:
            mask[torch.randperm(steps, generator=generator)[: len(piece)], b] = True
    grid = torch.full((steps, len(pieces), SIZE), float("nan"), dtype=torch.float64)
    for b, piece in enumerate(pieces):
        grid[mask[:, b], b] = piece
    return grid, mask


def assert_placed(output: Tensor, mask: Tensor, expected: list[Tensor]) -> None:
    for b, text in enumerate(expected):
        close(output[mask[:, b], b], text)
    assert (output[~mask] == 0).all()


@every
def test_layouts_of_nn_lstm(name: str) -> None:
    pieces = texts(6, 6, 6)
    x = torch.stack(pieces, dim=1)
    rcnn, batch_first = build(EVERY[name]), build(EVERY[name], batch_first=True)
    output, state = rcnn(x)
    width = width_of(name)
    assert output.shape == (6, 3, width)
    for b, text in enumerate(alone(rcnn, pieces)):
        assert text.shape == (6, width)
        close(output[:, b], text)
    turned, last = batch_first(x.transpose(0, 1))
    close(turned, output.transpose(0, 1))
    for found, expected in zip(last, state, strict=True):  # texts second, as in nn.LSTM
        close(found, expected)
    close(batch_first(pieces[0])[0], output[:, 0])
    mask = torch.ones(6, 3, dtype=torch.bool)
    close(rcnn(x, mask=mask)[0], output)
    close(rcnn(pieces[0], mask=mask[:, 0])[0], output[:, 0])
    packed, _ = rcnn(pack_sequence(pieces))
    assert isinstance(packed, PackedSequence)
    close(pad_packed_sequence(packed)[0], output)
    close(rcnn(torch.cat(pieces), ptr=pointers(pieces))[0], output.transpose(0, 1).flatten(0, 1))


@every
def test_ragged(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    output, _ = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    close(output, torch.cat(alone(rcnn, pieces)))


@every
@pytest.mark.parametrize("how", ["left", "right", "holes"])
def test_masked(name: str, how: str) -> None:
    """Padding on either side, or in between, full of NaN, leaves no trace."""
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    grid, mask = place(pieces, how)
    expected = alone(rcnn, pieces)
    assert_placed(rcnn(grid, mask=mask)[0], mask, expected)
    first = build(EVERY[name], batch_first=True)
    output, _ = first(grid.transpose(0, 1), mask=mask.t())
    assert_placed(output.transpose(0, 1), mask, expected)
    output, _ = rcnn(grid[:, 3], mask=mask[:, 3])
    assert_placed(output[:, None], mask[:, 3:4], expected[3:4])


@every
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed(name: str, enforce_sorted: bool) -> None:
    lengths = [5, 4, 4, 1] if enforce_sorted else [4, 5, 1, 4]
    rcnn, pieces = build(EVERY[name]), texts(*lengths)
    packed = pack_sequence(pieces, enforce_sorted=enforce_sorted)
    output, state = rcnn(packed)
    assert torch.equal(output.batch_sizes, packed.batch_sizes)
    padded, found = pad_packed_sequence(output)
    assert found.tolist() == lengths
    for b, text in enumerate(alone(rcnn, pieces)):
        close(padded[: lengths[b], b], text)
        if name not in BOTH_WAYS:
            close(state.h[-1, b], text[-1])


@every
def test_batch_of_path_graphs(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    batch = Batch.from_data_list([Data(x=piece, num_nodes=len(piece)) for piece in pieces])
    expected = torch.cat(alone(rcnn, pieces))
    close(rcnn(batch)[0], expected)
    close(rcnn(batch.x, ptr=batch.ptr)[0], expected)
    close(rcnn(Data(x=pieces[0]))[0], expected[: len(pieces[0])])


@every
def test_final_state_of_each_text(name: str) -> None:
    """However they come, texts end in the state they end in alone; the empty one in zeros."""
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    grid, mask = place(pieces, "holes")
    ragged = rcnn(torch.cat(pieces), ptr=pointers(pieces))[1]
    masked = rcnn(grid, mask=mask)[1]
    rows = len(rcnn.cells)
    assert ragged.h.shape == (rows, len(pieces), SIZE)
    assert (ragged.h[:, 2] == 0).all()
    close(masked.h, ragged.h)
    for b, piece in enumerate(pieces):
        close(ragged.h[:, b], rcnn(piece)[1].h)
    if name not in BOTH_WAYS:
        last = [text[-1] for text in alone(rcnn, pieces) if len(text)]
        close(ragged.h[-1][[b for b, n in enumerate(LENGTHS) if n]], torch.stack(last))
    if EVERY[name].get("pooling") == "max":
        return
    assert ragged.c.shape == (rows, len(pieces), EVERY[name].get("order", 2), SIZE)
    assert (ragged.c[:, 2] == 0).all()
    close(masked.c, ragged.c)
    for b, piece in enumerate(pieces):
        close(ragged.c[:, b], rcnn(piece)[1].c)


@every
def test_gradients_do_not_see_padding(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    parameters = list(rcnn.parameters())
    flat = torch.cat(pieces).requires_grad_()
    output, _ = rcnn(flat, ptr=pointers(pieces))
    of_flat, *expected = torch.autograd.grad(output.square().sum(), [flat, *parameters])
    for how in ["left", "right", "holes"]:
        grid, mask = place(pieces, how)
        grid.requires_grad_()
        output, _ = rcnn(grid, mask=mask)
        of_grid, *found = torch.autograd.grad(output.square().sum(), [grid, *parameters])
        assert (of_grid[~mask] == 0).all()
        close(torch.cat([of_grid[mask[:, b], b] for b in range(len(pieces))]), of_flat)
        for a, b in zip(found, expected, strict=True):
            close(a, b)


@every
def test_gradients_of_a_batch_are_the_sum_of_its_texts(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    parameters = list(rcnn.parameters())
    output, _ = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    together = torch.autograd.grad(output.square().sum(), parameters)
    total = sum(text.square().sum() for text in alone(rcnn, pieces))
    for found, expected in zip(together, torch.autograd.grad(total, parameters), strict=True):
        close(found, expected)


@every
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [1], [0, 1, 0]])
def test_empty_and_one_token_texts(name: str, lengths: list[int]) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*lengths)
    x = torch.cat([torch.zeros(0, SIZE, dtype=torch.float64), *pieces]).requires_grad_()
    output, state = rcnn(x, ptr=pointers(pieces))
    width = width_of(name)
    assert output.shape == (sum(lengths), width)
    assert state.h.shape == (len(rcnn.cells), len(lengths), SIZE)
    close(output, torch.cat([x.new_zeros(0, width), *alone(rcnn, pieces)]))
    gradients = torch.autograd.grad(
        output.sum(), [x, *rcnn.parameters()], allow_unused=True, materialize_grads=True
    )
    assert all(g.isfinite().all() for g in gradients)
    grid, mask = place(pieces, "left")
    masked, _ = rcnn(grid, mask=mask)
    assert masked.shape == (*mask.shape, width)
    assert_placed(masked, mask, alone(rcnn, pieces))


@every
def test_empty_grids(name: str) -> None:
    rcnn = build(EVERY[name])
    for steps, count in [(4, 0), (0, 3), (0, 0)]:
        output, state = rcnn(torch.zeros(steps, count, SIZE, dtype=torch.float64))
        assert output.shape == (steps, count, width_of(name))
        assert state.h.shape == (len(rcnn.cells), count, SIZE)
        assert (state.h == 0).all()
    output, state = rcnn(torch.zeros(0, SIZE, dtype=torch.float64))
    assert output.size(0) == 0 and state.h.shape == (len(rcnn.cells), SIZE)


def test_packed_sequence_refuses_length_zero_by_itself() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        pack_sequence(texts(3, 0))


@pytest.mark.parametrize("name", ["constant", "input", "recurrent", "max-mul", "max-add"])
def test_integer_types_of_ptr(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    ptr = pointers(pieces)
    expected, _ = rcnn(torch.cat(pieces), ptr=ptr)
    close(rcnn(torch.cat(pieces), ptr=ptr.int())[0], expected)


@pytest.mark.parametrize("name", ["constant", "recurrent", "stack", "max-add", "both-ways"])
def test_lengths_are_padding_on_the_right(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(*LENGTHS)
    lengths = [len(piece) for piece in pieces]
    x = torch.full((max(lengths) + 1, len(pieces), SIZE), torch.nan, dtype=torch.float64)
    for k, piece in enumerate(pieces):
        x[: len(piece), k] = piece
    expected, state = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    for given in (lengths, torch.tensor(lengths), torch.tensor(lengths, dtype=torch.int32)):
        output, found = rcnn(x, lengths=given)
        for k, piece in enumerate(expected.split(lengths)):
            close(output[: lengths[k], k], piece)
            assert not output[lengths[k] :, k].any()
        for a, b in zip(found, state, strict=True):
            close(a, b)
    first = build(EVERY[name], batch_first=True)
    close(first(x.transpose(0, 1), lengths=lengths)[0].transpose(0, 1), output)


@pytest.mark.parametrize("name", SUM)
def test_inputs_without_contiguous_memory(name: str) -> None:
    rcnn, pieces = build(EVERY[name]), texts(6, 6, 6)
    x = torch.stack(pieces)
    assert not x.transpose(0, 1).is_contiguous()
    close(rcnn(x.transpose(0, 1))[0], rcnn(x.transpose(0, 1).contiguous())[0])
    one = pieces[0][:, None].expand(-1, 3, -1)
    close(rcnn(one)[0], rcnn(one.contiguous())[0])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e308])
@pytest.mark.parametrize("lengths", [[5, 3, 7], [60, 70, 65], [65, 0, 60]], ids=str)
@pytest.mark.parametrize("name", [*SUM, "max-mul", "max-recurrent", "max-add", "both-ways"])
def test_no_infinity_of_another_text(name: str, lengths: list[int], value: float) -> None:
    """What overflows in one text stays there, in outputs and in gradients."""
    rcnn, pieces = build(EVERY[name]), texts(*lengths)
    for spoilt in (0, 2):
        others = [k for k in range(3) if k != spoilt]

        def run(batch: list[Tensor], others: list[int] = others) -> list[Tensor]:
            x = [piece.clone().requires_grad_() for piece in batch]
            output, _ = rcnn(torch.cat(x), ptr=pointers(batch))
            parts = output.split(lengths)
            total = sum(parts[k].sin().sum() for k in others)
            return [parts[k] for k in others] + list(
                torch.autograd.grad(total, [x[k] for k in others])
            )

        bad = [piece.clone() for piece in pieces]
        bad[spoilt][lengths[spoilt] // 2] = value
        for found, expected in zip(run(bad), run(pieces), strict=True):
            close(found, expected)
