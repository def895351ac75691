"""Windows before a text, and those that its state carries on."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.sequence import RKMState, RKMWindowState
from tests.sequence.rkm_equations import CELLS, random_rkm
from tests.sequence.rkm_variants import HIDDEN, ONE_WAY, build, reach_of
from tests.sequence.texts import SIZE, close, pointers, random_text, texts


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm"])  # which has b_c
def test_texts_shorter_than_the_window(cell: str) -> None:
    """Zeros stand before a text: it is the end of the same text with zeros in front."""
    q = {"q": "tanh"} if cell == "general" else {}
    rkm = random_rkm(SIZE, HIDDEN, cell=cell, ngram=[6, 2], dilation=3, **q)
    pieces = texts(1, 3, 0, 5)
    output, _ = rkm(torch.cat(pieces), ptr=pointers(pieces))
    for found, piece in zip(output.split([1, 3, 0, 5]), pieces, strict=True):
        close(found, rkm(torch.cat([piece.new_zeros(20, SIZE), piece]))[0][20:])


@pytest.mark.parametrize("name", ONE_WAY)
def test_state(name: str) -> None:
    """Its type and, where windows reach back, the last inputs."""
    rkm, x, reach = build(ONE_WAY[name]), random_text(6, 3, SIZE), reach_of(ONE_WAY[name])
    output, state = rkm(x)
    close(state.h[-1], output[-1])
    if not reach:
        assert isinstance(state, RKMState) and len(state) == 2
        return
    assert isinstance(state, RKMWindowState) and len(state) == 3
    kept = torch.cat([x.new_zeros(reach, 3, SIZE), x])[-reach:]
    close(state.x[:, :, :SIZE], kept)
    _, short = rkm(x[:1])
    close(short.x[-1, :, :SIZE], x[0])
    assert (short.x[:-1] == 0).all()


def test_windows_of_a_stack_hold_the_inputs_of_each_layer() -> None:
    rkm, x = random_rkm(SIZE, HIDDEN, num_layers=2, ngram=3), random_text(6, 3, SIZE)
    first = random_rkm(SIZE, HIDDEN, ngram=3)
    first.cells[0].load_state_dict(rkm.cells[0].state_dict())
    middle, _ = first(x)
    _, state = rkm(x)
    close(state.x, torch.cat([x[-2:], middle[-2:]], dim=-1))
