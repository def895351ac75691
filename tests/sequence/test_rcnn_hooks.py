"""With hooks on them maps are called one by one, and compute what they do together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn_variants import FULL, SUM, build
from tests.sequence.texts import SIZE, close, pointers, random_text, texts

RECURRENT = [name for name, options in SUM.items() if options.get("decay") == "recurrent"]


def results(rcnn: RCNN, parameters: list[Tensor]) -> list[Tensor]:
    """Output, state and gradients of ragged texts that are continued, with dropout's masks."""
    pieces = texts(5, 0, 2, 7)
    ptr = pointers(pieces)
    x = torch.cat(pieces).requires_grad_()
    torch.manual_seed(0)
    _, state = rcnn(x, ptr=ptr)
    output, state = rcnn(x, state, ptr=ptr)
    total = output.sin().sum() + state[0].cos().sum() + state[1].square().sum()
    gradients = torch.autograd.grad(total, [x, *parameters])
    return [output, *state, *gradients]


@pytest.mark.parametrize("name", RECURRENT)
def test_maps_that_are_called_token_by_token_give_the_same(name: str) -> None:
    rcnn = build(SUM[name], state_dropout=0.3)
    expected = results(rcnn, list(rcnn.parameters()))
    for cell in rcnn.cells:
        cell.decay_recurrent.register_forward_hook(lambda *_: None)
    for a, b in zip(results(rcnn, list(rcnn.parameters())), expected, strict=True):
        close(a, b, rtol=1e-9, atol=1e-10)


def test_a_backward_hook_beside_a_forward_hook() -> None:
    """What a backward hook hands out must not be written to."""
    rcnn, x = build({"decay": "input", **FULL}), random_text(5, 2, SIZE)
    expected, _ = rcnn(x)
    cell = rcnn.cells[0]
    cell.decay_lin.register_full_backward_hook(lambda *_: None)
    cell.lins[0].register_forward_hook(lambda *_: None)
    found, _ = rcnn(x.requires_grad_())
    close(found, expected)
    found.sum().backward()
