"""Initial values, dropout and repr of the machines."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.sequence import RKM
from tests.sequence.rkm_equations import CELLS


def test_repr() -> None:
    text = repr(
        RKM(3, 4, cell="linear-gated", ngram=[1, 3], dilation=2, filters="syncnet", layer_norm=True,
            num_layers=2, batch_first=True, bidirectional=True, feedback=False)
    )  # fmt: skip
    for part in ["cell='linear-gated'", "ngram=[1, 3]", "dilation=2", "filters='syncnet'",
                 "layer_norm=True", "num_layers=2", "batch_first=True", "bidirectional=True",
                 "feedback=False"]:  # fmt: skip
        assert (
            part in text or part.replace("'", "") in text or part.split("=")[1].strip("'") in text
        )
    assert "\n" not in text


@pytest.mark.parametrize("cell", CELLS)
def test_initial_values_are_of_a_reasonable_size(cell: str) -> None:
    """Deep in a text, outputs of white input neither vanish nor blow up; gates begin half open."""
    torch.manual_seed(0)
    q = {"q": "tanh"} if cell == "general" else {}
    for ngram in (1, [1, 3]):
        rkm = RKM(50, 60, cell=cell, ngram=ngram, **q)
        output, _ = rkm(torch.randn(40, 8, 50))
        assert 0.01 < output[-1].std() < 10
        weights = [p for p in rkm.parameters() if p.dim() > 1]
        assert all(p.std() > 0 and p.isfinite().all() for p in weights)
