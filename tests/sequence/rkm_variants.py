"""Recurrent kernel machines of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Module

from pyg_kernels.sequence import RKM, RKMCell
from tests.sequence.rkm_equations import random_rkm, rkm_equations
from tests.sequence.texts import SIZE
from tests.sequence.variants import Family, Options, Part

HIDDEN = 5

ONE_WAY: dict[str, Options] = {
    "lstm": {"cell": "lstm"},
    "rkm-lstm": {"ngram": 3, "layer_norm": True},
    "rkm-cifg": {"cell": "rkm-cifg", "ngram": [1, 3], "dilation": 2},
    "linear-gated": {"cell": "linear-gated", "ngram": 2, "learn_static": True},
    "gated-cnn": {"cell": "gated-cnn", "ngram": 3, "bias": False},
    "cnn": {"cell": "cnn", "ngram": [1, 2, 4], "layer_norm": True},
    "ran": {"cell": "ran", "ngram": 2},
    "general": {"cell": "general", "q": "tanh", "ngram": 2},
    "wavelets": {"filters": "syncnet", "ngram": 4},
    "scan-lstm": {"cell": "lstm", "feedback": False, "ngram": [3, 1], "dilation": 2},
    "scan-linear": {"cell": "linear", "feedback": False, "ngram": 2, "layer_norm": True},
    "scan-general": {"cell": "general", "feedback": False, "q": "identity", "ngram": 2},
    "stepped": {"cell": "general", "feedback": False, "q": "relu"},
    "stack": {"num_layers": 2, "ngram": [2, 1]},
}
BOTH_WAYS: dict[str, Options] = {
    "both-ways-scan": {"bidirectional": True, "feedback": False, "ngram": 3, "dilation": 2},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "cell": "rkm-cifg", "ngram": 2},
}
EVERY = {**ONE_WAY, **BOTH_WAYS}


def build(options: Options, **more: Any) -> RKM:
    return random_rkm(SIZE, HIDDEN, **{**options, **more})


def reach_of(options: Options) -> int:
    """How many tokens before its own a machine of one layer reads."""
    ngram = options.get("ngram", 1)
    return (max(ngram if isinstance(ngram, list) else [ngram]) - 1) * options.get("dilation", 1)


def shapes(options: Options, count: int, size: int, hidden: int) -> list[tuple[int, ...]]:
    reach = reach_of(options)
    return [(count, hidden), (count, hidden), *([(count, reach, size)] if reach else [])]


def reads(
    cell: RKMCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    given, found = options_of(options, cell), []
    for b, x in enumerate(pieces):
        state = () if states is None else [part[b] for part in states]
        found.append(rkm_equations(cell, x, *state, **given))
    outputs, *ends = zip(*found, strict=True)
    kept = ends if reach_of(options) else ends[:2]
    return list(outputs), tuple(torch.stack(end) for end in kept)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, Options]:
    widths = st.integers(1, 5)
    options = {
        "cell": draw(
            st.sampled_from(["lstm", "rkm-lstm", "rkm-cifg", "linear", "gated-cnn", "cnn", "ran"])
        ),
        "ngram": draw(st.one_of(widths, st.lists(widths, min_size=1, max_size=3))),
        "layer_norm": draw(st.booleans()),
        "feedback": draw(st.sampled_from([None, False])),
        "num_layers": draw(st.integers(1, 2)),
        "seed": draw(st.integers(0, 99)),
    }
    if reach_of(options):
        options["dilation"] = draw(st.integers(1, 3))
    return draw(st.integers(1, 5)), draw(st.integers(3, 5)), options


PARTS = {
    "filters": Part("filters.forget", {"ngram": 2}, takes_tensors=False, trained=False),
    "wavelets": Part(
        "filters.candidate",
        {"ngram": 4, "filters": "syncnet"},
        takes_tensors=False,
        trained=False,
    ),
    "q": Part("q", {"cell": "general", "q": torch.nn.Tanh()}, trained=False),
    "q-without-feedback": Part(
        "q", {"cell": "general", "q": torch.nn.Softplus(), "feedback": False}, trained=False
    ),
}
FAMILY = Family(
    name="rkm",
    layer=RKM,
    cell=RKMCell,
    random=random_rkm,
    hidden_size=HIDDEN,
    one_way=ONE_WAY,
    both_ways=BOTH_WAYS,
    derivatives=EVERY,
    cases=cases(),
    shapes=shapes,
    reads=reads,
    side_by_side=(2,),
    parts=PARTS,
)


def options_of(options: Options, cell: Module) -> Options:
    """The options of a cell, in which a q with parameters is the cell's own."""
    q: Callable[[Tensor], Tensor] | str | None = options.get("q")
    if isinstance(q, Module):
        q = next(m for m in cell.modules() if type(m) is type(q))
    return {**options, "q": q}
