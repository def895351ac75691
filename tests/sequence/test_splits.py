"""A text fed in pieces, its state passed on, gives the numbers of the text fed whole."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from tests.sequence.layers import any_state, families, one_way
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, like, plain


@one_way
def test_anywhere(variant: Variant) -> None:
    """Also with nothing before or after the cut."""
    layer, x = variant.build(), random_text(6, 3, SIZE)
    whole, last = layer(x)
    for cut in range(7):
        head, between = layer(x[:cut])
        tail, end = layer(x[cut:], between)
        close(torch.cat([head, tail]), whole)
        variant.family.assert_same_states(end, last)


@one_way
def test_token_by_token(variant: Variant) -> None:
    layer, x = variant.build(batch_first=True), random_text(3, 8, SIZE)
    whole, last = layer(x)
    outputs, state = [], None
    for t in range(8):
        output, state = layer(x[:, t : t + 1], state)
        outputs.append(output)
    close(torch.cat(outputs, dim=1), whole)
    variant.family.assert_same_states(state, last)


@one_way
def test_unbatched(variant: Variant) -> None:
    layer, x = variant.build(), random_text(6, SIZE)
    whole, last = layer(x)
    head, state = layer(x[:2])
    variant.assert_shapes(state)
    tail, end = layer(x[2:], state)
    close(torch.cat([head, tail]), whole)
    variant.family.assert_same_states(end, last)


@one_way
def test_texts_cut_at_different_places(variant: Variant) -> None:
    """Ragged and masked pieces, some of them empty, carry each text's own state."""
    layer, pieces = variant.build(), texts(5, 4, 6, 0, 3)
    cuts = [2, 0, 6, 0, 1]
    heads = [p[:cut] for p, cut in zip(pieces, cuts, strict=True)]
    tails = [p[cut:] for p, cut in zip(pieces, cuts, strict=True)]
    first, state = layer(torch.cat(heads), ptr=pointers(heads))
    second, end = layer(torch.cat(tails), state, ptr=pointers(tails))
    rows = zip(first.split(cuts), second.split([len(p) for p in tails]), pieces, strict=True)
    for head, tail, piece in rows:
        close(torch.cat([head, tail]), layer(piece)[0])
    variant.family.assert_same_states(end, layer(torch.cat(pieces), ptr=pointers(pieces))[1])

    steps = max(len(p) for p in tails)
    mask = torch.zeros(steps, len(tails), dtype=torch.bool)
    grid = torch.zeros(steps, len(tails), SIZE, dtype=torch.float64)
    for b, tail in enumerate(tails):
        mask[steps - len(tail) :, b] = True
        grid[mask[:, b], b] = tail
    output, masked_end = layer(grid, state, mask=mask)
    close(output.transpose(0, 1)[mask.t()], second)
    variant.family.assert_same_states(masked_end, end)


@one_way
def test_state_of_packed_texts_keeps_their_order(variant: Variant) -> None:
    layer, pieces = variant.build(), texts(3, 6, 4)
    heads, tails = [p[:2] for p in pieces], [p[2:] for p in pieces]
    _, state = layer(pack_sequence(heads, enforce_sorted=False))
    output, _ = layer(pack_sequence(tails, enforce_sorted=False), state)
    padded, _ = pad_packed_sequence(output)
    for b, piece in enumerate(pieces):
        close(padded[: len(tails[b]), b], layer(piece)[0][2:])


@one_way
def test_gradients_flow_through_the_state(variant: Variant) -> None:
    """Through all of its parts."""
    layer, x = variant.build(), random_text(6, 2, SIZE).requires_grad_()
    inputs = [x, *layer.parameters()]
    expected = torch.autograd.grad(layer(x)[0].square().sum(), inputs)
    head, state = layer(x[:3])
    tail, _ = layer(x[3:], state)
    found = torch.autograd.grad(head.square().sum() + tail.square().sum(), inputs)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@any_state
def test_any_state_may_be_given(variant: Variant) -> None:
    """Plain tuples as well; the zero state is that of a text's beginning."""
    layer, x = variant.build(), random_text(4, 3, SIZE)
    shapes = variant.family.shapes(variant.options, (3,))
    parts = [random_text(*shape, seed=i) for i, shape in enumerate(shapes, start=1)]
    expected, zeros = layer(x)
    state = like(zeros, parts)
    output, end = layer(x, plain(state))
    variant.assert_shapes(end, 3)
    close(layer(x, state)[0], output)
    close(layer(x, plain(like(state, [torch.zeros_like(t) for t in parts])))[0], expected)
    for b in range(3):
        close(layer(x[:, b], plain(like(state, [t[:, b] for t in parts])))[0], output[:, b])
    _, still = layer(x[:0], plain(state))
    variant.family.assert_same_states(still, state)


@families
@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    count=st.integers(0, 3),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4),
)
def test_pieces_of_any_shape(
    family: Family, data: st.DataObject, count: int, lengths: list[int]
) -> None:
    size, hidden, options = data.draw(family.cases)
    layer, x = family.random(size, hidden, **options), random_text(sum(lengths), count, size)
    whole, last = layer(x)
    outputs, state = [], None
    for piece in x.split(lengths):
        output, state = layer(piece, state)
        assert output.shape == (len(piece), count, hidden)
        outputs.append(output)
    close(torch.cat(outputs), whole)
    family.assert_same_states(state, last)


@families
@settings(max_examples=40, deadline=None)
@given(data=st.data(), lengths=st.lists(st.integers(0, 6), max_size=5))
def test_ragged_texts_of_any_shape(family: Family, data: st.DataObject, lengths: list[int]) -> None:
    size, hidden, options = data.draw(family.cases)
    layer, x = family.random(size, hidden, **options), random_text(sum(lengths), size)
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    output, state = layer(x, ptr=ptr)
    assert output.shape == (sum(lengths), hidden)
    alone = [layer(piece) for piece in x.split(lengths)] if lengths else []
    for found, (expected, _) in zip(output.split(lengths), alone, strict=True):
        close(found, expected)
    if alone:
        family.assert_of_texts(state, [end for _, end in alone])
