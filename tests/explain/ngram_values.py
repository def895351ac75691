"""The attributions in texts by definition: every n-gram's value, one by one, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.explain.walk_values import Value
from tests.sequence.rcnn_equations import projections
from tests.string_kernels import ngrams


@torch.no_grad()
def gates(rcnn: RCNN, x: Tensor) -> Tensor:
    """The decay of every token and channel, (T, H), one token after the other."""
    (cell,) = rcnn.cells
    h, rows = x.new_zeros(rcnn.hidden_size), []
    outputs, _ = rcnn(x)
    for token, output in zip(x, outputs, strict=True):
        if cell.decay_lin is None:
            decay = torch.as_tensor(cell.decay, dtype=x.dtype)
        else:
            logit = cell.decay_lin.weight @ token + cell.decay_bias
            if cell.decay_recurrent is not None:
                logit = logit + cell.decay_recurrent.weight @ h
            decay = 1 / (1 + torch.exp(-logit))
        rows.append(decay.expand(rcnn.hidden_size))
        h = output
    return torch.stack(rows)


@torch.no_grad()
def ngram_values(rcnn: RCNN, x: Tensor, head: Tensor) -> list[Value]:
    """All n-grams that the state at the last token adds up; the positions are also the edges."""
    (cell,) = rcnn.cells
    decay, maps, last = gates(rcnn, x), projections(cell, x), len(x) - 1
    totals: dict[tuple[int, ...], float] = {}
    for order in range(1, cell.order + 1) if cell.readout == "sum" else [cell.order]:
        for first in [1] if cell.combine == "mul" else range(1, order + 1):
            for picked in ngrams(len(x), order - first + 1):
                if cell.readout == "z" and picked[-1] != last:
                    continue
                value = head * maps[first - 1][picked[0]]
                if cell.combine == "mul":
                    for step, i in enumerate(picked[1:], start=1):
                        value = value * maps[step][i]
                for r in range(picked[0], last + 1):
                    if r not in picked:
                        value = value * decay[r]
                    elif cell.normalize and not (cell.readout == "z" and r == last):
                        value = value * (1 - decay[r])
                totals[picked] = totals.get(picked, 0.0) + float(value.sum())
    return [Value(picked, picked, value) for picked, value in totals.items()]


def token_shares(found: list[Value], combine: str, length: int) -> Tensor:
    """What each token gets of each n-gram."""
    tokens = torch.zeros(length, dtype=torch.float64)
    for ngram in found:
        for token in ngram.nodes if combine == "mul" else ngram.nodes[:1]:
            tokens[token] += ngram.value / (len(ngram.nodes) if combine == "mul" else 1)
    return tokens
