"""What a layer carries of the n-grams of a text, whose sum or maximum it pools."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Carried = tuple[Tensor, ...]


class RCNNState(NamedTuple):
    """What a layer with sum pooling carries from one segment of a text to the next.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c: The states :math:`c_1, ..., c_n`, :obj:`(num_layers * num_directions, B, n, H)`.
    """

    h: Tensor
    c: Tensor


class RCNNProductState(NamedTuple):
    """What a layer with max-pooling over products carries on.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c_max: The largest products of each order, :obj:`(num_layers * num_directions, B, n, H)`.
        c_min: The smallest.
        seen: The number of tokens read, :obj:`(num_layers * num_directions, B)`.
    """

    h: Tensor
    c_max: Tensor
    c_min: Tensor
    seen: Tensor


class RCNNTableState(NamedTuple):
    """What a layer with max-pooling over sums carries on; it grows with the text.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        best: The best sum of each order by its first token s, before decay,
            :obj:`(num_layers * num_directions, B, n, S, H)`.
        seen: The number of tokens read, :obj:`(num_layers * num_directions, B)`.
    """

    h: Tensor
    best: Tensor
    seen: Tensor


State = RCNNState | RCNNProductState | RCNNTableState


def start(kind: type[State], h: Tensor, order: int) -> Carried:
    """What is carried into the first token beside h, the texts first."""
    c = h.new_zeros(h.size(0), order, h.size(1))
    if kind is RCNNState:
        return (c,)
    seen = torch.zeros(h.size(0), dtype=torch.long, device=h.device)
    return (c, c, seen) if kind is RCNNProductState else (c.unsqueeze(2)[:, :, :0], seen)


def shapes(
    kind: type[State], carried: Carried, num_texts: int, order: int, channels: int
) -> list[tuple[int, ...]]:
    """The shapes that what is carried should have."""
    c, seen = (num_texts, order, channels), (num_texts,)
    if kind is RCNNState:
        return [c]
    if kind is RCNNProductState:
        return [c, c, seen]
    starts = carried[0].size(-2) if carried[0].dim() >= 4 else 0
    return [(num_texts, order, starts, channels), seen]
