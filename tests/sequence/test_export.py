"""The layers under ``torch.compile`` and ``torch.export``, with any number of steps and texts."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import Module

from pyg_kernels.sequence import KBRN, RCNN, RKM

LAYERS = {
    "rcnn": lambda: RCNN(4, 5, decay="input"),
    "rcnn-recurrent": lambda: RCNN(4, 5, decay="recurrent"),
    "rkm": lambda: RKM(4, 5),
    "kbrn": lambda: KBRN(4, 5).eval(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_other_sizes_than_those_exported(name: str) -> None:
    layer: Module = LAYERS[name]()
    sizes = ({0: Dim("steps", min=2, max=99), 1: Dim("texts", min=2, max=99)},)
    program = torch.export.export(layer, (torch.randn(6, 3, 4),), dynamic_shapes=sizes)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(program.module()(x)[0], layer(x)[0])


@pytest.mark.parametrize("name", LAYERS)
def test_compiles_in_one_graph(name: str) -> None:
    layer: Module = LAYERS[name]()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    x = torch.randn(6, 3, 4, requires_grad=True)
    results = []
    for run in (compiled, layer):
        output = run(x)[0]
        results.append([output, *torch.autograd.grad(output.square().sum(), x)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
