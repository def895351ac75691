"""The numbers of weights are those of the paper."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.sequence import RKM
from tests.sequence.rkm_equations import GATES


def weights(rkm: RKM) -> int:
    return sum(p.numel() for p in rkm.parameters() if p.dim() > 1)


TABLE_2 = {  # thousands of parameters with 1-grams and 3-grams, 300 inputs and 300 units
    "lstm": (720, 1440),
    "rkm-lstm": (720, 1440),
    "rkm-cifg": (540, 1080),
    "linear-gated": (360, 720),
    "linear": (180, 360),
    "gated-cnn": (180, 540),
    "cnn": (90, 270),
}


@pytest.mark.parametrize("cell", TABLE_2)
def test_number_of_weights(cell: str) -> None:
    """Tables 1 and 2 of the paper, which count weights alone."""
    maps = len(GATES[cell]) + 1
    fed_back = cell not in ("gated-cnn", "cnn")
    for n, thousands in zip((1, 3), TABLE_2[cell], strict=True):
        with torch.device("meta"):
            assert weights(RKM(300, 300, cell=cell, ngram=n)) == 1000 * thousands
            assert weights(RKM(11, 30, cell=cell, ngram=n)) == maps * 30 * (11 * n + 30 * fed_back)
            biases = 30 * (maps if cell == "lstm" else maps - 1)
            rkm = RKM(11, 30, cell=cell, ngram=n)
            assert sum(p.numel() for p in rkm.parameters()) == weights(rkm) + biases
