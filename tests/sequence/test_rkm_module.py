"""Initial values, dropout and repr of the machines."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RKM
from tests.sequence.rkm_equations import CELLS
from tests.sequence.texts import SIZE, close, random_text


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


def sums(options: dict[str, Any]) -> RKM:
    """Layers whose outputs are tanh of their input: W = 1, no memory."""
    rkm = RKM(SIZE, SIZE, cell="cnn", **options).double()
    with torch.no_grad():
        for cell in rkm.cells:
            cell.filters["candidate"].weight.copy_(torch.eye(SIZE)[:, :, None])
    return rkm.train()


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_dropout_is_between_layers(rate: float) -> None:
    torch.manual_seed(0)
    x = random_text(60, 5, SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as nn.LSTM's: one layer has nothing to drop between
        close(sums({"dropout": rate})(x)[0], x.tanh())
    rkm = sums({"dropout": rate, "num_layers": 2})
    found, _ = rkm(x)
    kept = (x.tanh() / (1 - rate)).tanh()
    dropped = found == 0
    close(found[~dropped], kept[~dropped])
    assert abs(dropped.double().mean().item() - rate) < 0.05
    torch.manual_seed(3)
    first, _ = rkm(x)
    torch.manual_seed(3)
    assert torch.equal(rkm(x)[0], first)
    close(rkm.eval()(x)[0], x.tanh().tanh())
