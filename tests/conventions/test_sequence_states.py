"""Zero states as one makes them for nn.LSTM, and what is said of wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import KBRN, RCNN, RKM, RCNNCell
from tests.sequence.layers import both_ways, families, of_every
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, like, parts_of, plain


@of_every
def test_initial_state(variant: Variant) -> None:
    """Zeros, in the device and the precision of the layer, that begin texts as None does."""
    layer, x = variant.build(), random_text(6, 3, SIZE)
    state, (expected, last) = layer.initial_state(3), layer(x)
    assert type(state) is type(last)
    variant.assert_shapes(state, 3)
    for part, end in zip(parts_of(state), parts_of(last), strict=True):
        assert part.dtype == end.dtype and part.device == end.device and not part.any()
    found, end = layer(x, state)
    close(found, expected)
    variant.family.assert_same_states(end, last)
    moved = variant.build().to("meta").initial_state(2)
    assert all(part.is_meta for part in parts_of(moved))
    with pytest.raises(ValueError, match="batch_size"):
        layer.initial_state(0)


@both_ways
def test_zeros_in_two_directions(variant: Variant) -> None:
    """Zeros of the documented shapes are taken; what a text left is not, in either direction."""
    layer, pieces = variant.build(), texts(5, 2, 4)
    x, ptr = torch.cat(pieces), pointers(pieces)
    expected, state = layer(x, ptr=ptr)
    zeros = like(state, [torch.zeros_like(part) for part in parts_of(layer.initial_state(3))])
    close(layer(x, plain(zeros), ptr=ptr)[0], expected)
    named = variant.family.state_argument
    with pytest.raises(ValueError, match=rf"(?s){named}.*zeros.*None.*bidirectional"):
        layer(x, state, ptr=ptr)


@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_order_one_needs_no_dimension_for_the_order(pooling: Any, bidirectional: bool) -> None:
    """(h, c), both of (layers, B, H), as nn.LSTM's; the extremes of max-pooling likewise."""
    rcnn = RCNN(SIZE, 5, 2, order=1, pooling=pooling, bidirectional=bidirectional).double()
    x, cells = random_text(6, 3, SIZE), 4 if bidirectional else 2
    h = torch.zeros(cells, 3, 5, dtype=x.dtype)
    seen = [] if pooling == "sum" else [h, torch.zeros(cells, 3, dtype=torch.long)]
    expected, state = rcnn(x)
    close(rcnn(x, (h, h, *seen))[0], expected)
    one = [part[:, 0] for part in (h, h, *seen)]
    close(rcnn(x[:, 0], tuple(one))[0], expected[:, 0])
    if bidirectional:
        return
    _, middle = rcnn(x[:2])
    flat = [part.squeeze(2) if part.dim() == 4 else part for part in middle]
    found, end = rcnn(x[2:], tuple(flat))
    close(found, expected[2:])
    for a, b in zip(end, state, strict=True):
        close(a, b)


def test_order_one_of_a_cell() -> None:
    """As nn.LSTMCell: (h, c), both of (B, H), or of (H)."""
    cell, x = RCNNCell(SIZE, 5, order=1).double(), random_text(3, SIZE)
    h, c = torch.randn(2, 3, 5, dtype=x.dtype)
    close(cell(x, (h, c)).c, cell(x, (h, c[:, None])).c)
    close(cell(x[0], (h[0], c[0])).c, cell(x, (h, c)).c[0])


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (RCNN, {}, r"c has shape \(1, 3, 5\), expected \(1, 3, 2, 5\)"),
    (RCNN, {"order": 1, "num_layers": 2}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RCNN, {"bidirectional": True}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RKM, {"bidirectional": True}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RKM, {"ngram": 2}, r"expected \(h, c, x\)"),
    (KBRN, {"num_layers": 2}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
]


@pytest.mark.parametrize(("layer", "options", "said"), WRONG, ids=str)
def test_wrong_states(layer: Any, options: dict[str, Any], said: str) -> None:
    """The error says the shape that is expected, and that None begins the texts."""
    h = torch.zeros(1, 3, 5)
    state = h if layer is KBRN else (h, h)
    with pytest.raises(ValueError, match=rf"(?s){said}.*None to begin the texts"):
        layer(SIZE, 5, **options)(torch.randn(6, 3, SIZE), state)


@families
def test_wrong_precision_of_a_state(family: Family) -> None:
    layer, x = family.layer(SIZE, 5), torch.randn(6, 3, SIZE)
    parts = [part.double() for part in parts_of(layer.initial_state(3))]
    wrong = parts[0] if len(parts) == 1 else tuple(parts)
    with pytest.raises(ValueError, match=r"h has dtype torch\.float64.*h\.to\(torch\.float32\)"):
        layer(x, wrong)
