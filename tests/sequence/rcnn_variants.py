"""String-kernel recurrent convolutions of every kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.rcnn_equations import random_rcnn
from tests.sequence.texts import SIZE
from tests.sequence.variants import Family, Options, Part

SUM: dict[str, Options] = {
    "constant": {},
    "unnormalized": {"order": 3, "normalize": False, "readout": "z", "decay": 0.9, "act": "relu"},
    "convolution": {"order": 3, "combine": "add", "decay": 0.0},
    "learned": {"order": 3, "combine": "add", "decay": "learned", "scalar_decay": True},
    "input": {"decay": "input", "readout": "sum", "output_gate": True, "bias": False},
    "highway": {"order": 1, "decay": "input", "highway": True, "act": None},
    "recurrent": {
        "decay": "recurrent",
        "output_map": True,
        "output_gate": True,
        "highway": True,
    },
    "scalar-recurrent": {
        "order": 3,
        "combine": "add",
        "decay": "recurrent",
        "scalar_decay": True,
        "readout": "z",
    },
    "stack": {"num_layers": 3, "decay": "input", "output_map": True},
    "recurrent-stack": {"num_layers": 2, "decay": "recurrent", "readout": "sum"},
}
MAX: dict[str, Options] = {
    "max-mul": {"pooling": "max", "order": 3, "decay": 0.7},
    "max-gated": {"pooling": "max", "decay": "input", "readout": "sum", "output_gate": True},
    "max-recurrent": {"pooling": "max", "decay": "recurrent", "readout": "z", "highway": True},
    "max-add": {"pooling": "max", "order": 3, "combine": "add", "decay": 0.7},
    "max-add-learned": {"pooling": "max", "combine": "add", "decay": "learned", "readout": "sum"},
    "max-stack": {"pooling": "max", "num_layers": 2, "readout": "z"},
}
ONE_WAY = {**SUM, **MAX}
BOTH_WAYS: dict[str, Options] = {
    "both-ways": {"bidirectional": True, "decay": "input"},
    "both-ways-recurrent": {"bidirectional": True, "decay": "recurrent", "output_gate": True},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "order": 3, "readout": "sum"},
    "both-ways-max": {"bidirectional": True, "pooling": "max", "num_layers": 2},
    "both-ways-max-add": {"bidirectional": True, "pooling": "max", "combine": "add"},
}
EVERY = {**ONE_WAY, **BOTH_WAYS}
DERIVATIVES: dict[str, Options] = {
    "constant": {"order": 3},
    "additive": {"order": 3, "combine": "add", "normalize": False},
    "learned": {"decay": "learned", "readout": "sum"},
    "input": {"decay": "input", "readout": "z", "output_gate": True},
    "scalar": {"decay": "input", "scalar_decay": True, "combine": "add"},
    "recurrent": {"decay": "recurrent", "output_map": True},
    "recurrent-gated": {"decay": "recurrent", "output_gate": True, "readout": "sum"},
    "recurrent-highway": {"decay": "recurrent", "highway": True, "combine": "add", "readout": "z"},
    "recurrent-scalar": {"decay": "recurrent", "scalar_decay": True, "normalize": False},
    "recurrent-everything": {
        "decay": "recurrent",
        "order": 1,
        "output_map": True,
        "output_gate": True,
        "highway": True,
    },
    "stack": {"num_layers": 2, "decay": "input"},
    "recurrent-both-ways": {"decay": "recurrent", "bidirectional": True},
    "max": {"pooling": "max", "order": 2, "decay": "input"},
    "max-add": {"pooling": "max", "order": 2, "combine": "add", "decay": "learned"},
}
FULL: Options = {"output_map": True, "output_gate": True, "highway": True}
MAPS = {
    "input": ["lins.0", "decay_lin", "output_gate_lin", "highway_lin", "output_lin"],
    "recurrent": ["lins.0", "decay_lin", "output_lin", "decay_recurrent", "output_gate_recurrent"],
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


def shapes(options: Options, count: tuple[int, ...]) -> list[tuple[int, ...]]:
    cells = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    h, states = (cells, *count, SIZE), (cells, *count, options.get("order", 2), SIZE)
    if options.get("pooling") != "max":
        return [h, states]
    if options.get("combine") == "add":  # a table that grows with the text
        return [h]
    return [h, states, states, (cells, *count)]


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
    uncompared=("best",),
    in_single=("best", "c_max", "c_min"),
    particular_states=tuple(MAX),
    parts=PARTS,
)
