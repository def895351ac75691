"""Selections as a few words in a table: runs of positions, ``3:6 9:10``."""

import torch
from torch import Tensor


def spans_text(chosen: Tensor) -> str:
    """The runs of selected positions of a selection ``(N,)``: first, colon, first that is not."""
    edges = torch.cat([chosen.new_zeros(1), chosen, chosen.new_zeros(1)]).int().diff()
    starts, ends = (edges == 1).nonzero().flatten(), (edges == -1).nonzero().flatten()
    return " ".join(f"{a}:{b}" for a, b in zip(starts.tolist(), ends.tolist(), strict=True))


def read_spans(text: str, number: int) -> Tensor:
    """The selection ``(number,)`` bool that :func:`spans_text` wrote."""
    chosen = torch.zeros(number, dtype=torch.bool)
    for span in text.split():
        start, _, end = span.partition(":")
        chosen[int(start) : int(end)] = True
    return chosen
