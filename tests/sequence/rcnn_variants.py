"""String-kernel recurrent convolutions of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.rcnn_equations import layer_equations, random_rcnn
from tests.sequence.texts import SIZE
from tests.sequence.variants import Family, Options, Part

SUM: dict[str, Options] = {
    "constant": {},
    "unnormalized": {"order": 3, "normalize": False, "readout": "z", "decay": 0.9, "act": "relu"},
    "learned": {"order": 3, "combine": "add", "decay": "learned", "scalar_decay": True},
    "input": {"decay": "input", "readout": "sum", "output_gate": True, "bias": False},
    "highway": {"order": 1, "decay": "input", "highway": True, "act": None},
    "recurrent": {"decay": "recurrent", "output_map": True, "output_gate": True, "highway": True},
    "scalar-recurrent": {
        "order": 3,
        "combine": "add",
        "decay": "recurrent",
        "scalar_decay": True,
        "readout": "z",
    },
    "stack": {"num_layers": 2, "decay": "input", "output_map": True},
}
MAX: dict[str, Options] = {
    "max-recurrent": {"pooling": "max", "decay": "recurrent", "readout": "z", "highway": True},
    "max-add-learned": {"pooling": "max", "combine": "add", "decay": "learned", "readout": "sum"},
    "max-stack": {"pooling": "max", "num_layers": 2, "order": 3, "decay": 0.7},
}
ONE_WAY = {**SUM, **MAX}
BOTH_WAYS: dict[str, Options] = {
    "both-ways-recurrent": {"bidirectional": True, "decay": "recurrent", "output_gate": True},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "order": 3, "readout": "sum"},
    "both-ways-max-add": {"bidirectional": True, "pooling": "max", "combine": "add"},
}
EVERY = {**ONE_WAY, **BOTH_WAYS}
DERIVATIVES: dict[str, Options] = {
    name: EVERY[name]
    for name in (
        *("unnormalized", "learned", "input", "highway", "recurrent", "scalar-recurrent"),
        *("stack", "both-ways-recurrent", "max-add-learned"),
    )
} | {"max": {"pooling": "max", "order": 2, "decay": "input"}}
FULL: Options = {"output_map": True, "output_gate": True, "highway": True}
MAPS = {
    "input": ["lins.0", "output_gate_lin", "highway_lin", "output_lin"],
    "recurrent": ["decay_lin", "output_lin", "decay_recurrent", "output_gate_recurrent"],
}
PARTS = {
    **{
        f"{decay}-{name}": Part(name, {"decay": decay, **FULL})
        for decay, names in MAPS.items()
        for name in names
    },
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, Options]:
    options = {
        **ONE_WAY[draw(st.sampled_from(sorted(ONE_WAY)))],
        "order": draw(st.integers(1, 4)),
        "num_layers": draw(st.integers(1, 2)),
        "seed": draw(st.integers(0, 99)),
    }
    size = draw(st.integers(1, 5))
    return size, size if options.get("highway") else draw(st.integers(1, 5)), options


def shapes(options: Options, count: int, size: int, hidden: int) -> list[tuple[int, ...]]:
    h, states = (count, hidden), (count, options.get("order", 2), hidden)
    if options.get("pooling") != "max":
        return [h, states]
    if options.get("combine") == "add":  # a table that grows with the text
        return [h]
    return [h, states, states, (count,)]


def reads(
    cell: RCNNCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Sums by their equations; maxima, which have none, by steps of the cell."""
    found = []
    for b, x in enumerate(pieces):
        state = None if states is None else [part[b] for part in states]
        if options.get("pooling") != "max":
            found.append(layer_equations(cell, x, *(state or ()), **options))
            continue
        after: Any = None if state is None else tuple(state)
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


def build(options: Options, **more: Any) -> RCNN:
    return random_rcnn(SIZE, SIZE, **{**options, **more})


FAMILY = Family(
    name="rcnn",
    layer=RCNN,
    cell=RCNNCell,
    random=random_rcnn,
    hidden_size=SIZE,  # as highways need
    one_way=ONE_WAY,
    both_ways=BOTH_WAYS,
    derivatives=DERIVATIVES,
    cases=cases(),
    shapes=shapes,
    reads=reads,
    uncompared=("best",),
    in_single=("best", "c_max", "c_min"),
    particular_states=tuple(MAX),
    parts=PARTS,
)
