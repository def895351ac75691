"""The string-kernel recurrent convolution: its equations (thesis, table 2.2) and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.texts import SIZE, pointwise
from tests.sequence.variants import Family, Options, drawn

random_rcnn: Callable[..., RCNN] = partial(drawn, RCNN, scale=0.6)


def projections(cell: RCNNCell, x: Tensor) -> list[Tensor]:
    """W^(1) x, ..., W^(n) x."""
    return [x @ lin.weight.t() for lin in cell.lins]


def decays(cell: RCNNCell, x: Tensor, decay: float | str) -> Tensor:
    """The decay of each token and channel, (..., H), if it does not read the previous output."""
    shape = (*x.shape[:-1], cell.lins[0].weight.size(0))
    if decay == "learned":
        return torch.sigmoid(cell.decay_logit).expand(shape)
    if decay == "input":
        return torch.sigmoid(x @ cell.decay_lin.weight.t() + cell.decay_bias).expand(shape)
    assert not isinstance(decay, str)
    return torch.full(shape, decay, dtype=x.dtype)


def layer_equations(
    cell: RCNNCell,
    x: Tensor,
    h: Tensor | None = None,
    c: Tensor | None = None,
    *,
    order: int = 2,
    combine: str = "mul",
    normalize: bool | None = None,
    decay: float | str = 0.5,
    readout: str = "c",
    output_map: bool = False,
    output_gate: bool = False,
    highway: bool = False,
    act: str | Callable[[Tensor], Tensor] | None = "tanh",
    bias: bool = True,
    scalar_decay: bool = False,
    selection: Tensor | None = None,
    masks: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs (T, ..., H) of texts x (T, ..., F), the last h (..., H) and c (..., n, H).

    `selection`, (T,), is a weight for each token, which counts in that proportion. `masks` apply to
    the tokens that maps read, (F,), and to the previous outputs that gates read, (H,).
    """
    hidden = cell.lins[0].weight.size(0)
    h = x.new_zeros(*x.shape[1:-1], hidden) if h is None else h
    c = x.new_zeros(*x.shape[1:-1], order, hidden) if c is None else c
    states = list(c.unbind(dim=-2))
    outputs = []
    on_x, on_h = masks or (1.0, 1.0)
    counts = x.new_ones(len(x)) if selection is None else selection
    for carried, s in zip(x, counts, strict=True):
        x_t, read = carried * on_x, h * on_h
        if decay == "recurrent":
            gate = x_t @ cell.decay_lin.weight.t() + read @ cell.decay_recurrent.weight.t()
            lam = torch.sigmoid(gate + cell.decay_bias)
        else:
            lam = decays(cell, x_t, decay)
        weight = torch.ones_like(lam) if normalize is False else 1 - lam
        p = projections(cell, x_t)
        z = [p[0]]
        for j in range(1, order):
            z.append(states[j - 1] * p[j] if combine == "mul" else states[j - 1] + p[j])
        states = [
            (1 - s) * before + s * (lam * before + weight * new)
            for before, new in zip(states, z, strict=True)
        ]
        u = {"c": states[-1], "z": z[-1], "sum": torch.stack(states).sum(dim=0)}[readout]
        if output_map:
            u = u @ cell.output_lin.weight.t()
        if bias:
            u = u + cell.bias
        u = pointwise(act)(u)
        if output_gate:
            gate = x_t @ cell.output_gate_lin.weight.t() + cell.output_gate_bias
            if decay == "recurrent":
                gate = gate + read @ cell.output_gate_recurrent.weight.t()
            u = torch.sigmoid(gate) * u
        if highway:
            f = torch.sigmoid(x_t @ cell.highway_lin.weight.t() + cell.highway_bias)
            u = f * u + (1 - f) * carried
        h = (1 - s) * h + s * u
        outputs.append(h)
    stacked = torch.stack(outputs) if outputs else x.new_zeros(0, *h.shape)
    return stacked, h, torch.stack(states, dim=-2)


SUM: dict[str, Options] = {
    "constant": {},
    "unnormalized": {"order": 3, "normalize": False, "readout": "z", "decay": 0.9, "act": "relu"},
    "learned": {"order": 3, "combine": "add", "decay": "learned", "scalar_decay": True},
    "input": {"decay": "input", "readout": "sum", "output_gate": True, "bias": False},
    "highway": {"order": 1, "decay": "input", "highway": True, "act": None},
    "recurrent": {"decay": "recurrent", "output_map": True, "output_gate": True, "highway": True},
    "scalar-recurrent": {
        **{"order": 3, "combine": "add", "readout": "z"},
        **{"decay": "recurrent", "scalar_decay": True},
    },
    "stack": {"num_layers": 2, "decay": "input", "output_map": True},
}
MAX: dict[str, Options] = {
    "max-recurrent": {"pooling": "max", "decay": "recurrent", "readout": "z", "highway": True},
    "max-add-learned": {"pooling": "max", "combine": "add", "decay": "learned", "readout": "sum"},
    "max-stack": {"pooling": "max", "num_layers": 2, "order": 3, "decay": 0.7},
}
BOTH_WAYS: dict[str, Options] = {
    "both-ways-recurrent": {"bidirectional": True, "decay": "recurrent", "output_gate": True},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "order": 3, "readout": "sum"},
    "both-ways-max-add": {"bidirectional": True, "pooling": "max", "combine": "add"},
}
EVERY = {**SUM, **MAX, **BOTH_WAYS}


def shapes(options: Options, count: int, size: int) -> list[tuple[int, ...]]:
    h, states = (count, SIZE), (count, options.get("order", 2), SIZE)
    if options.get("pooling") != "max":
        return [h, states]
    if options.get("combine") == "add":  # its table grows with the text
        return [h]
    return [h, states, states, (count,)]


def reads(
    cell: RCNNCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Sums by their equations; maxima, which have no equations here, by steps of the cell."""
    found = []
    weights = options.get("selection", [None] * len(pieces))
    for b, (x, weight) in enumerate(zip(pieces, weights, strict=True)):
        if options.get("pooling") != "max":
            state = () if states is None else [part[b] for part in states]
            found.append(layer_equations(cell, x, *state, **{**options, "selection": weight}))
            continue
        after: Any = None
        outputs = []
        for x_t in x:
            after = cell(x_t, after)
            outputs.append(after.h)
        if after is None:
            after = [part.squeeze(0) for part in cell.start(1, x)]
        named = dict(zip(cell.state_type._fields, after, strict=True))
        none = x.new_zeros(0, cell.hidden_size)
        named.pop("best", None)
        found.append((torch.stack(outputs) if outputs else none, *named.values()))
    outputs, *ends = zip(*found, strict=True)
    return list(outputs), tuple(torch.stack(end) for end in ends)


FAMILY = Family(
    name="rcnn",
    layer=RCNN,
    cell=RCNNCell,
    random=random_rcnn,
    hidden_size=SIZE,  # the input size, as highways need
    options=EVERY,
    shapes=shapes,
    reads=reads,
    uncompared=("best",),
    in_single=("best", "c_max", "c_min"),
)
