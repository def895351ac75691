"""Recurrent kernel machines of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Module

from pyg_kernels.sequence import RKM, RKMCell, RKMState, RKMWindowState
from tests.sequence.rkm_equations import End, random_rkm, rkm_equations
from tests.sequence.texts import SIZE, assert_close, gradients, random_text
from tests.sequence.variants import Family, Options, Part

HIDDEN = 5

ONE_WAY: dict[str, Options] = {
    "lstm": {"cell": "lstm"},
    "rkm-lstm": {"ngram": 3, "layer_norm": True},
    "rkm-cifg": {"cell": "rkm-cifg", "ngram": [1, 3], "dilation": 2},
    "linear-gated": {"cell": "linear-gated", "ngram": 2, "learn_static": True},
    "linear": {"cell": "linear"},
    "gated-cnn": {"cell": "gated-cnn", "ngram": 3, "bias": False},
    "cnn": {"cell": "cnn", "ngram": [1, 2, 4]},
    "cnn-one": {"cell": "cnn", "layer_norm": True},
    "ran": {"cell": "ran", "ngram": 2},
    "general": {"cell": "general", "q": "tanh", "ngram": 2},
    "wavelets": {"filters": "syncnet", "ngram": 4},
    "scan": {"feedback": False},
    "scan-lstm": {"cell": "lstm", "feedback": False, "ngram": [3, 1], "dilation": 2},
    "scan-linear": {"cell": "linear", "feedback": False, "ngram": 2, "layer_norm": True},
    "scan-general": {"cell": "general", "feedback": False, "q": "identity", "ngram": 2},
    "stepped": {"cell": "general", "feedback": False, "q": "relu"},
    "stack": {"num_layers": 3, "ngram": [2, 1]},
    "stack-lstm": {"cell": "lstm", "num_layers": 2, "layer_norm": True},
}
BOTH_WAYS: dict[str, Options] = {
    "both-ways": {"bidirectional": True},
    "both-ways-scan": {"bidirectional": True, "feedback": False, "ngram": 3, "dilation": 2},
    "both-ways-cnn": {"bidirectional": True, "cell": "cnn", "ngram": 2},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "cell": "rkm-cifg", "ngram": 2},
}
EVERY = {**ONE_WAY, **BOTH_WAYS}


def build(options: Options, **more: Any) -> RKM:
    return random_rkm(SIZE, HIDDEN, **{**options, **more})


def reach_of(options: Options) -> int:
    """How many tokens before its own a machine of one layer reads."""
    ngram = options.get("ngram", 1)
    return (max(ngram if isinstance(ngram, list) else [ngram]) - 1) * options.get("dilation", 1)


def shapes(options: Options, count: tuple[int, ...]) -> list[tuple[int, ...]]:
    directions, reach = 2 if options.get("bidirectional") else 1, reach_of(options)
    layers = options.get("num_layers", 1)
    h = (layers * directions, *count, HIDDEN)
    inputs = directions * (SIZE + HIDDEN * directions * (layers - 1))
    return [h, h, (reach, *count, inputs)] if reach else [h, h]


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
    side_by_side=("x",),
    parts=PARTS,
)


def assert_equations(
    rkm: RKM, options: Options, pieces: list[Tensor], from_state: bool = True
) -> None:
    """One layer on texts of any lengths: outputs, final states and every gradient."""
    cell, count = rkm.cells[0], len(pieces)
    lengths = [len(piece) for piece in pieces]
    features, hidden, reach = pieces[0].size(-1), rkm.hidden_size, reach_of(options)
    x = torch.cat(pieces).requires_grad_()
    h, c = (random_text(count, hidden, seed=s).requires_grad_() for s in (1, 2))
    window = random_text(reach, count, features, seed=3).requires_grad_()
    given = [h, c, window] if reach else [h, c]
    state_type = RKMWindowState if reach else RKMState
    state = state_type(h[None], c[None], *given[2:]) if from_state else None
    if len(set(lengths)) == 1:  # the form whose rows need not be sorted
        output, last = rkm(x.unflatten(0, (count, -1)).transpose(0, 1), state)
        output = output.transpose(0, 1).flatten(0, 1)
    else:
        output, last = rkm(x, state, ptr=torch.tensor([0, *lengths]).cumsum(0))
    assert type(last) is state_type
    found = [output, last[0][0], last[1][0], *last[2:]]

    options = options_of(options, cell)
    ends: dict[int, End] = {}
    for length in set(lengths):
        group = [b for b in range(count) if lengths[b] == length]
        start = [h[group], c[group], window[:, group]] if from_state else []
        text = torch.stack([x.split(lengths)[b] for b in group], dim=1)
        end = rkm_equations(cell, text, *start, **options)
        for k, b in enumerate(group):
            ends[b] = End(end.output[:, k], end.h[k], end.c[k], end.window[:, k])
    output, h_n, c_n, window_n = zip(*[ends[b] for b in range(count)], strict=True)
    expected = [torch.cat(output), torch.stack(h_n), torch.stack(c_n), torch.stack(window_n, dim=1)]
    expected = expected[: len(found)]
    assert_close(found, expected, ["output", "h", "c", "window"][: len(found)])
    inputs = {"x": x, "h_0": h, "c_0": c, "window_0": window, **dict(rkm.named_parameters())}
    assert_close(
        gradients(found, list(inputs.values())),
        gradients(expected, list(inputs.values())),
        [f"gradient of {name}" for name in inputs],
    )


def options_of(options: Options, cell: Module) -> Options:
    """The options of a cell, in which a q with parameters is the cell's own."""
    q: Callable[[Tensor], Tensor] | str | None = options.get("q")
    if isinstance(q, Module):
        q = next(m for m in cell.modules() if type(m) is type(q))
    return {**options, "q": q}
