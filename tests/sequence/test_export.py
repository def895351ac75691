"""The layers compiled, exported and in ONNX, with any number of steps and texts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.nn import Module

from pyg_kernels.sequence import KBRN, RCNN, RKM
from tests.promises import assert_same_in_onnx

pytestmark = pytest.mark.traces


class Layers(Module):
    """One of each kind, side by side on the same texts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([RCNN(4, 5, decay="recurrent"), RKM(4, 5), KBRN(4, 5)])
        self.eval()

    def forward(self, x: Tensor) -> list[Tensor]:
        return [layer(x)[0] for layer in self.layers]


def test_other_sizes_than_those_exported() -> None:
    layers = Layers()
    layers.layers[0] = RCNN(4, 5, order=1, decay="input", bidirectional=True)
    sizes = ({0: Dim("steps", min=2, max=99), 1: Dim("texts", min=2, max=99)},)
    program = torch.export.export(layers, (torch.randn(6, 3, 4),), dynamic_shapes=sizes)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(program.module()(x), layers(x))


def test_compiles_in_one_graph() -> None:
    """In training, too: a norm keeps what it keeps uncompiled."""
    layers = Layers().train()
    plain = copy.deepcopy(layers)
    compiled = torch.compile(layers, fullgraph=True, dynamic=True, backend="aot_eager")
    for steps in (6, 9):
        x, results = torch.randn(steps, 3, 4, requires_grad=True), []
        for run, module in ((compiled, layers), (plain, plain)):
            outputs = run(x)
            total = sum(t.square().sum() for t in outputs)
            results.append([*outputs, *torch.autograd.grad(total, [x, *module.parameters()])])
        torch.testing.assert_close(*results)
    kept = [dict(module.layers[2].named_buffers()) for module in (layers, plain)]
    torch.testing.assert_close(*kept)


@pytest.mark.parametrize(
    "options",
    [
        {"act": "sigmoid"},
        {"output_map": True, "output_gate": True},
        {"pooling": "max", "combine": "add"},
    ],
)
def test_compiled_padding_is_zero_and_gives_no_gradient(options: dict[str, Any]) -> None:
    rcnn, x, lengths = RCNN(3, 4, **options), torch.randn(5, 2, 3), torch.tensor([5, 1])
    torch.nn.init.ones_(rcnn.cells[0].bias)
    found = []
    for run in (rcnn, torch.compile(rcnn, fullgraph=True, backend="aot_eager")):
        output, _ = run(x, lengths=lengths)
        assert not output[1:, 1].any()
        parameters = list(rcnn.parameters())
        found.append([output, *torch.autograd.grad(output.square().sum(), parameters)])
    torch.testing.assert_close(*found)


def test_onnx() -> None:
    if not hasattr(torch, "while_loop"):
        pytest.skip("loops of any length need torch.while_loop")
    layers, sizes = Layers(), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    layers.layers.append(KBRN(4, 5, green="gaussian").eval())
    others = [(torch.randn(*shape, 4),) for shape in ((6, 3), (9, 1), (1, 5))]
    assert_same_in_onnx(layers, (torch.randn(6, 3, 4),), sizes, others)
