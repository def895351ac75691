"""Long and wide texts, which may be read in chunks and blocks: still the equations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RKM
from tests.sequence.rkm_equations import random_rkm
from tests.sequence.rkm_variants import assert_equations
from tests.sequence.texts import random_text, texts

LONG: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "rkm-lstm": {"ngram": 3, "layer_norm": True},
    "rkm-cifg": {"cell": "rkm-cifg", "ngram": [1, 3], "dilation": 2},
    "linear-gated": {"cell": "linear-gated", "learn_static": True},
    "linear": {"cell": "linear", "ngram": 2},
    "gated-cnn": {"cell": "gated-cnn", "ngram": 3, "dilation": 2},
    "cnn": {"cell": "cnn", "ngram": [1, 2, 4], "layer_norm": True},
    "ran": {"cell": "ran"},
    "general": {"cell": "general", "q": "tanh", "ngram": 2},
    "scan-lstm": {"cell": "lstm", "feedback": False, "ngram": 3},
    "scan": {"feedback": False, "layer_norm": True},
    "scan-cifg": {"cell": "rkm-cifg", "feedback": False, "ngram": [1, 3], "dilation": 2},
    "scan-linear": {"cell": "linear", "feedback": False, "static": (0.1, 0.99)},
    "scan-linear-gated": {"cell": "linear-gated", "feedback": False, "learn_static": True},
    "scan-ran": {"cell": "ran", "feedback": False, "ngram": 2},
    "scan-general": {"cell": "general", "feedback": False, "q": "identity"},
    "stepped": {"cell": "general", "feedback": False, "q": "sigmoid", "ngram": 2},
    "wavelets": {"filters": "syncnet", "ngram": 6},
}
FEW_STEPS = ["linear", "scan", "scan-linear-gated", "scan-ran", "stepped"]  # not in every test
every = pytest.mark.parametrize("name", LONG)


@every
@pytest.mark.parametrize("lengths", [[60], [50, 0, 70, 3]], ids=["one", "ragged"])
def test_long(name: str, lengths: list[int]) -> None:
    rkm = random_rkm(2, 3, scale=0.4, **LONG[name])
    assert_equations(rkm, LONG[name], texts(*lengths, size=2))


@pytest.mark.parametrize("name", [name for name in LONG if name not in FEW_STEPS])
def test_texts_of_more_than_one_block(name: str) -> None:
    rkm = random_rkm(3, 4, scale=0.3, **LONG[name])
    assert_equations(rkm, LONG[name], texts(*[150] * 14, size=3))


@pytest.mark.parametrize("name", ["rkm-lstm", "rkm-cifg", "scan", "scan-cifg", "general", "cnn"])
def test_ragged_texts_of_more_than_one_block(name: str) -> None:
    rkm = random_rkm(3, 4, scale=0.3, **LONG[name])
    assert_equations(rkm, LONG[name], texts(150, 7, *[150] * 10, 7, 0, 64, size=3))


@pytest.mark.parametrize("name", ["rkm-lstm", "ran", "scan", "scan-cifg", "general"])
def test_more_than_4096_numbers_a_step(name: str) -> None:
    rkm = random_rkm(2, 520, scale=0.03, **LONG[name])
    assert_equations(rkm, LONG[name], texts(*[60] * 8, size=2))


@pytest.mark.parametrize("name", ["rkm-cifg", "scan"])
def test_more_than_4096_numbers_a_ragged_step(name: str) -> None:
    rkm = random_rkm(2, 520, scale=0.03, **LONG[name])
    assert_equations(rkm, LONG[name], texts(20, 60, 0, *[60] * 7, size=2))


WIDE: dict[str, dict[str, Any]] = {
    "dense": {"ngram": 9},
    "dilated": {"ngram": 12, "dilation": 3, "cell": "gated-cnn"},
    "wavelets": {"ngram": 40, "filters": "syncnet", "cell": "rkm-cifg"},
    "no-feedback": {"ngram": 10, "feedback": False, "cell": "lstm"},
    "widths": {"ngram": [1, 16, 8], "dilation": 2, "cell": "ran"},
    "stepped": {"ngram": 9, "cell": "general", "q": "tanh"},
    "cnn": {"ngram": [40, 2], "filters": "syncnet", "cell": "cnn", "layer_norm": True},
}


@pytest.mark.parametrize(
    ("lengths", "from_state"),
    [([30, 30], False), ([40, 0, 25, 3], True), ([5, 5], True), ([5, 5], False)],
    ids=str,
)
@pytest.mark.parametrize("name", WIDE)
def test_wide_windows(name: str, lengths: list[int], from_state: bool) -> None:
    """Wider than the texts, as well; of few features, as recordings have."""
    rkm = random_rkm(3, 4, scale=0.3, **WIDE[name])
    assert_equations(rkm, WIDE[name], texts(*lengths, size=3), from_state)


MANY = (40, 20, 160, 256)  # steps, texts, features and channels
LONGER = (420, 20, 40, 128)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [(name, MANY) for name in ["lstm", "rkm-lstm", "rkm-cifg", "ran", "general", "scan", "cnn"]]
    + [(name, LONGER) for name in ["rkm-lstm", "scan-cifg", "cnn", "wavelets"]],
    ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v)),
)
def test_single_precision(name: str, sizes: tuple[int, int, int, int]) -> None:
    """Large products, which in float32 may take another way, are those of float64."""
    steps, count, features, hidden = sizes
    torch.manual_seed(0)
    double = RKM(features, hidden, **LONG[name]).double()
    single = copy.deepcopy(double).float()
    x = random_text(steps, count, features)
    found = []
    for rkm, text in [(double, x.clone()), (single, x.float())]:
        output, state = rkm(text.requires_grad_())
        outputs = [output, state.h, state.c]
        total = sum((random_text(*t.shape, seed=9).to(t) * t).sum() for t in outputs)
        found.append([*outputs, *torch.autograd.grad(total, [text, *rkm.parameters()])])
    for wanted, given in zip(*found, strict=True):
        assert given.dtype == torch.float32
        assert (given - wanted).abs().max() <= 2e-5 * wanted.abs().max()


@pytest.mark.parametrize("name", ["lstm", "rkm-lstm", "rkm-cifg", "scan", "scan-cifg", "scan-ran"])
def test_gates_that_are_shut_or_open(name: str) -> None:
    """Gates of exactly 0 and 1, among others, in one text."""
    rkm = random_rkm(2, 3, scale=0.4, **LONG[name])
    with torch.no_grad():
        for weight in rkm.cells[0].filters["forget"].weights:
            weight.mul_(400.0)
    text = random_text(150, 2)
    text[::3] = 0.0
    assert_equations(rkm, LONG[name], [text])
