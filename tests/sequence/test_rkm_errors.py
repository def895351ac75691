"""What makes no sense is a ValueError that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RKM, RKMCell, RKMState, RKMWindowState, SyncNetFilters
from tests.sequence.rkm_equations import CELLS, random_rkm
from tests.sequence.texts import random_text

GENERAL = {"cell": "general", "q": "tanh"}
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"cell": "gru"}, "cell"),
    ({"cell": "RKM-LSTM"}, "cell"),
    ({"cell": None}, "cell"),
    ({"filters": "wavelet"}, "filters"),
    ({"filters": None, "ngram": 2}, "filters"),
    ({"ngram": 0}, "ngram"),
    ({"ngram": -1}, "ngram"),
    ({"ngram": 1.5}, "ngram"),
    ({"ngram": True}, "ngram"),
    ({"ngram": None}, "ngram"),
    ({"ngram": "3"}, "ngram"),
    ({"ngram": []}, "ngram"),
    ({"ngram": [1, 0]}, "ngram"),
    ({"ngram": [2, 1.5]}, "ngram"),
    ({"ngram": [1, 2, 3, 4, 5]}, "ngram"),  # five widths for four channels
    ({"ngram": 2, "dilation": 0}, "dilation"),
    ({"ngram": 2, "dilation": -2}, "dilation"),
    ({"ngram": 2, "dilation": 1.5}, "dilation"),
    ({"ngram": 1, "dilation": 2}, "dilation"),
    ({"ngram": [1, 1], "dilation": 2}, "dilation"),
    ({"filters": "syncnet"}, "ngram"),
    ({"filters": "syncnet", "ngram": [1]}, "ngram"),
    ({"cell": "general"}, "q"),
    ({"cell": "general", "q": "no such function"}, "q"),
    ({"cell": "general", "q": 3}, "q"),
    *[({"cell": cell, "q": "tanh"}, "q") for cell in CELLS if cell != "general"],
    *[({"cell": cell, "feedback": True}, "feedback") for cell in ("cnn", "gated-cnn")],
    *[
        ({"cell": cell, **extra, **option}, name)
        for cell in ("lstm", "rkm-lstm", "rkm-cifg", "ran", "general")
        for extra in [{"q": "tanh"} if cell == "general" else {}]
        for option, name in [
            ({"static": (0.5, 0.5)}, "static"),
            ({"static": 0.5}, "static"),
            ({"learn_static": True}, "learn_static"),
        ]
    ],
    ({"cell": "linear", "static": 0.5}, "static"),
    ({"cell": "linear", "static": (0.5,)}, "static"),
    ({"cell": "linear-gated", "static": (0.5, 0.5, 0.5)}, "static"),
    ({"cell": "linear", "static": ("a", "b")}, "static"),
    ({"cell": "cnn", "static": (0.5, 0.5)}, "static"),
    ({"cell": "gated-cnn", "static": "one"}, "static"),
    ({"cell": "linear", "static": (float("nan"), 0.5)}, "static"),
]


@pytest.mark.parametrize(("options", "name"), OPTIONS, ids=lambda v: str(v))
@pytest.mark.parametrize("layer", [RKM, RKMCell])
def test_options(layer: type, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        layer(**{"input_size": 4, "hidden_size": 4, **options})


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
@pytest.mark.parametrize("cell", ["linear", "cnn"])
def test_a_learned_input_gate_is_positive(cell: str, value: float) -> None:
    """s_i = exp(log), so it has no such beginning."""
    static = value if cell == "cnn" else (value, 0.5)
    with pytest.raises(ValueError, match="static"):
        RKM(4, 4, cell=cell, static=static, learn_static=True)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5])
def test_a_learned_forget_gate_lies_between_zero_and_one(value: float) -> None:
    with pytest.raises(ValueError, match="static"):
        RKM(4, 4, cell="linear", static=(0.5, value), learn_static=True)


def test_what_is_allowed() -> None:
    """The neighbours of the errors above."""
    RKM(4, 4, ngram=[1, 2, 3, 4])
    RKM(4, 4, ngram=[1])
    RKM(4, 4, ngram=(1, 2))
    RKM(4, 4, ngram=2, dilation=9)
    RKM(4, 4, ngram=[1, 2], dilation=2)
    RKM(4, 4, ngram=2, filters="syncnet")
    RKM(4, 4, cell="cnn", feedback=False, static=2)
    RKM(4, 4, cell="linear", static=[0, 1])
    RKM(4, 4, cell="general", q=torch.nn.ReLU())
    RKM(4, 4, cell="general", q=torch.sin, feedback=True)
    SyncNetFilters(3, 4, [2, 3])


def test_state() -> None:
    """With a window where it is carried, and only there; of the layers' inputs side by side."""
    x = random_text(6, 5, 3)
    h, c, window = (torch.zeros(*s, dtype=x.dtype) for s in [(1, 5, 4), (1, 5, 4), (2, 5, 3)])
    plain, rkm = random_rkm(3, 4), random_rkm(3, 4, ngram=3)
    plain(x, (h, c))
    rkm(x, (h, c, window))
    for bad in [(h, c, window), RKMWindowState(h, c, window)]:
        with pytest.raises(ValueError, match="state"):
            plain(x, bad)
    for bad in [(h, c), RKMState(h, c), (h, c, window[:1]), (h, c, window.unsqueeze(0))]:
        with pytest.raises(ValueError, match="state"):
            rkm(x, bad)
    with pytest.raises(ValueError, match="state"):
        plain.cells[0](x[0], (h[0], c[0], x[:1]))
    stack = random_rkm(3, 4, ngram=3, num_layers=2)
    h, c = h.expand(2, -1, -1), c.expand(2, -1, -1)
    stack(x, (h, c, window.new_zeros(2, 5, 7)))
    with pytest.raises(ValueError, match="state"):
        stack(x, (h, c, window))
