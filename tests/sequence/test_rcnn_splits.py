"""A text fed in pieces, its state passed on, gives the numbers of the text fed whole."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from pyg_kernels.sequence import RCNNState
from tests.sequence.rcnn_equations import random_rcnn, random_text
from tests.sequence.variants import MAX, ONE_WAY, SIZE, SUM, build, close, pointers, texts

every = pytest.mark.parametrize("name", ONE_WAY)


@every
def test_anywhere(name: str) -> None:
    rcnn, x = build(ONE_WAY[name]), random_text(6, 3, SIZE)
    whole, last = rcnn(x)
    for cut in range(7):
        head, between = rcnn(x[:cut])
        tail, end = rcnn(x[cut:], between)
        close(torch.cat([head, tail]), whole)
        close(end.h, last.h)
        if name in SUM:
            close(end.c, last.c)


@every
def test_token_by_token(name: str) -> None:
    rcnn, x = build(ONE_WAY[name], batch_first=True), random_text(3, 6, SIZE)
    whole, _ = rcnn(x)
    outputs, state = [], None
    for t in range(6):
        output, state = rcnn(x[:, t : t + 1], state)
        outputs.append(output)
    close(torch.cat(outputs, dim=1), whole)


@every
def test_unbatched(name: str) -> None:
    rcnn, x = build(ONE_WAY[name]), random_text(6, SIZE)
    whole, _ = rcnn(x)
    head, state = rcnn(x[:2])
    layers = len(rcnn.cells)
    assert state.h.shape == (layers, SIZE)
    if name in SUM:
        assert state.c.shape == (layers, ONE_WAY[name].get("order", 2), SIZE)
    tail, _ = rcnn(x[2:], state)
    close(torch.cat([head, tail]), whole)


@every
def test_texts_cut_at_different_places(name: str) -> None:
    """Ragged, masked and packed pieces, some of them empty, carry each text's own state."""
    rcnn, pieces = build(ONE_WAY[name]), texts(5, 4, 6, 0, 3)
    cuts = [2, 0, 6, 0, 1]
    heads = [p[:cut] for p, cut in zip(pieces, cuts, strict=True)]
    tails = [p[cut:] for p, cut in zip(pieces, cuts, strict=True)]
    whole = [rcnn(p)[0] for p in pieces]
    first, state = rcnn(torch.cat(heads), ptr=pointers(heads))
    second, end = rcnn(torch.cat(tails), state, ptr=pointers(tails))
    rows = zip(
        first.split([len(p) for p in heads]), second.split([len(p) for p in tails]), strict=True
    )
    for expected, (head, tail) in zip(whole, rows, strict=True):
        close(torch.cat([head, tail]), expected)
    close(end.h, rcnn(torch.cat(pieces), ptr=pointers(pieces))[1].h)

    steps = max(len(p) for p in tails)
    mask = torch.zeros(steps, len(tails), dtype=torch.bool)
    grid = torch.zeros(steps, len(tails), SIZE, dtype=torch.float64)
    for b, tail in enumerate(tails):
        mask[steps - len(tail) :, b] = True
        grid[mask[:, b], b] = tail
    output, masked_end = rcnn(grid, state, mask=mask)
    close(output.transpose(0, 1)[mask.t()], second)
    close(masked_end.h, end.h)


@every
def test_state_of_packed_texts_keeps_their_order(name: str) -> None:
    rcnn, pieces = build(ONE_WAY[name]), texts(3, 6, 4)
    heads, tails = [p[:2] for p in pieces], [p[2:] for p in pieces]
    _, state = rcnn(pack_sequence(heads, enforce_sorted=False))
    output, _ = rcnn(pack_sequence(tails, enforce_sorted=False), state)
    padded, _ = pad_packed_sequence(output)
    for b, piece in enumerate(pieces):
        close(padded[: len(tails[b]), b], rcnn(piece)[0][2:])


@every
def test_gradients_flow_through_the_state(name: str) -> None:
    rcnn, x = build(ONE_WAY[name]), random_text(6, 2, SIZE).requires_grad_()
    inputs = [x, *rcnn.parameters()]
    expected = torch.autograd.grad(rcnn(x)[0].square().sum(), inputs)
    head, state = rcnn(x[:3])
    tail, _ = rcnn(x[3:], state)
    found = torch.autograd.grad(head.square().sum() + tail.square().sum(), inputs)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@pytest.mark.parametrize("name", SUM)
def test_any_state_may_be_given(name: str) -> None:
    """Plain tuples as well as RCNNState; the zero state is that of a text's beginning."""
    rcnn, x = build(SUM[name]), random_text(4, 3, SIZE)
    layers, order = len(rcnn.cells), SUM[name].get("order", 2)
    h = random_text(layers, 3, SIZE, seed=1)
    c = random_text(layers, 3, order, SIZE, seed=2)
    output, end = rcnn(x, (h, c))
    assert isinstance(end, RCNNState)
    close(rcnn(x, RCNNState(h, c))[0], output)
    close(rcnn(x, (torch.zeros_like(h), torch.zeros_like(c)))[0], rcnn(x)[0])
    for b in range(3):
        close(rcnn(x[:, b], (h[:, b], c[:, b]))[0], output[:, b])
    _, still = rcnn(x[:0], (h, c))
    close(still.h, h)
    close(still.c, c)


@pytest.mark.parametrize("name", MAX)
def test_maxima_of_a_first_piece_shorter_than_an_ngram(name: str) -> None:
    """Where no n-gram exists yet, nothing stands in for it in the recurrence."""
    rcnn = build(MAX[name], order=4, bias=False)
    x = -1 - random_text(7, 2, SIZE).abs()
    whole, _ = rcnn(x)
    for cut in [1, 2, 3]:
        head, state = rcnn(x[:cut])
        tail, _ = rcnn(x[cut:], state)
        close(torch.cat([head, tail]), whole)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(ONE_WAY)),
    order=st.integers(1, 4),
    count=st.integers(0, 3),
    pieces=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    layers=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_pieces_of_any_shape(
    name: str, order: int, count: int, pieces: list[int], layers: int, seed: int
) -> None:
    options = {**ONE_WAY[name], "order": order, "num_layers": layers}
    rcnn = random_rcnn(SIZE, SIZE, seed=seed, **options)
    x = random_text(sum(pieces), count, SIZE, seed=seed)
    whole, last = rcnn(x)
    outputs, state = [], None
    for piece in x.split(pieces):
        output, state = rcnn(piece, state)
        assert output.shape == (len(piece), count, SIZE)
        outputs.append(output)
    close(torch.cat(outputs), whole)
    assert state is not None
    close(state.h, last.h)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(SUM)),
    lengths=st.lists(st.integers(0, 6), max_size=5),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 99),
)
def test_ragged_texts_of_any_shape(
    name: str, lengths: list[int], sizes: tuple[int, int], seed: int
) -> None:
    options = {**SUM[name], "highway": False}
    rcnn = random_rcnn(*sizes, seed=seed, **options)
    pieces = [random_text(n, sizes[0], seed=seed + i) for i, n in enumerate(lengths)]
    x = torch.cat([torch.zeros(0, sizes[0], dtype=torch.float64), *pieces])
    output, state = rcnn(x, ptr=pointers(pieces))
    assert output.shape == (sum(lengths), sizes[1])
    for b, (found, piece) in enumerate(zip(output.split(lengths), pieces, strict=True)):
        expected, end = rcnn(piece)
        close(found, expected)
        close(state.h[:, b], end.h)
