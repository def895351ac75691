"""Parts that are called one by one, for those who listen, compute what they do together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import Module

from tests.sequence.rkm_equations import CELLS, random_rkm
from tests.sequence.rkm_variants import HIDDEN, assert_equations, build
from tests.sequence.texts import SIZE, close, random_text, texts


@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer-norm"])
@pytest.mark.parametrize("cell", CELLS)
def test_parts_that_are_called_one_by_one_compute_the_equations(
    cell: str, layer_norm: bool
) -> None:
    options: dict[str, Any] = {"cell": cell, "ngram": [1, 3], "layer_norm": layer_norm}
    options |= {"q": torch.nn.Tanh()} if cell == "general" else {}
    rkm = random_rkm(SIZE, HIDDEN, **options)
    heard: list[int] = []
    for part in rkm.cells[0].modules():
        part.register_forward_hook(lambda *_: heard.append(1))
    assert_equations(rkm, options, texts(6, 0, 3, 1))
    assert_equations(rkm, options, texts(60, 60), from_state=False)
    assert heard


@pytest.mark.parametrize("feedback", [None, False], ids=["fed-back", "no-feedback"])
@pytest.mark.parametrize(
    "norm",
    [torch.nn.LayerNorm(HIDDEN, elementwise_affine=False), torch.nn.RMSNorm(HIDDEN)],
    ids=str,
)
def test_a_norm_of_ones_own_is_called(norm: Module, feedback: bool | None) -> None:
    rkm, plain = (
        build({"cell": "ran", "layer_norm": n, "feedback": feedback}) for n in (True, False)
    )
    rkm.cells[0].norm, x = norm.double(), random_text(5, 2, SIZE)
    output, state = rkm(x)
    close(output[-1], norm(state.c[0]))
    assert not torch.allclose(output, plain(x)[0])
