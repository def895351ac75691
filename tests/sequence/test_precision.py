"""What layers in other precisions than their operands compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RCNN

LOW = {torch.float16: 5e-3, torch.bfloat16: 5e-2}


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"decay": "input"}, {"decay": "recurrent"}, {"output_map": True}, {"highway": True}],
    ids=str,
)
def test_selections_of_half_precision(options: dict[str, Any], dtype: torch.dtype) -> None:
    """They are computed in single precision, as the tokens are."""
    torch.manual_seed(0)
    layer, x, chosen = RCNN(6, 6, **options), torch.randn(5, 3, 6), torch.rand(5, 3)
    wanted, _ = layer(x, selection=chosen)
    found, _ = layer.to(dtype)(x.to(dtype), selection=chosen.to(dtype))
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=LOW[dtype])


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_dropout_of_what_gates_read(dtype: torch.dtype) -> None:
    layer = RCNN(6, 6, decay="recurrent", state_dropout=0.5).to(dtype)
    layer(torch.randn(5, 3, 6, dtype=dtype))[0].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("decay", ["input", "recurrent"])
def test_outputs_can_be_changed_in_place(decay: str) -> None:
    layer, x = RCNN(6, 6, decay=decay), torch.randn(5, 3, 6)
    chosen = torch.rand(5, 3)
    for given in ({}, {"selection": chosen}):
        output, _ = layer(x, **given)
        assert torch.equal(output.detach().clone() * 2, output.mul_(2).detach())
