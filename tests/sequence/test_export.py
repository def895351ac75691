"""The layers compiled, exported and in ONNX, with any number of steps and texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch.export import Dim
from torch.nn import Module

from pyg_kernels.sequence import KBRN, RCNN, RKM

pytestmark = pytest.mark.traces

LAYERS: dict[str, Callable[[], Module]] = {
    "rcnn-bidirectional": lambda: RCNN(4, 5, order=1, decay="input", bidirectional=True),
    "rcnn-recurrent": lambda: RCNN(4, 5, decay="recurrent"),
    "rkm": lambda: RKM(4, 5),
    "kbrn": lambda: KBRN(4, 5).eval(),
}


@pytest.mark.parametrize("name", ["rcnn-bidirectional", "rkm", "kbrn"])
def test_other_sizes_than_those_exported(name: str) -> None:
    layer: Module = LAYERS[name]()
    sizes = ({0: Dim("steps", min=2, max=99), 1: Dim("texts", min=2, max=99)},)
    program = torch.export.export(layer, (torch.randn(6, 3, 4),), dynamic_shapes=sizes)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(program.module()(x)[0], layer(x)[0])


@pytest.mark.parametrize("name", ["rcnn-recurrent", "rkm", "kbrn"])
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


@pytest.mark.parametrize("name", ["rcnn-recurrent", "rkm", "kbrn"])
def test_onnx(name: str) -> None:
    if not hasattr(torch, "while_loop"):
        pytest.skip("loops of any length need torch.while_loop")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer: Module = LAYERS[name]().eval()
    sizes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            layer, (torch.randn(6, 3, 4),), dynamo=True, dynamic_shapes=sizes, verbose=False
        )
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for steps, texts in ((6, 3), (9, 1), (1, 5)):
        x = torch.randn(steps, texts, 4)
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
        torch.testing.assert_close(
            torch.from_numpy(found), layer(x)[0].detach(), rtol=1e-5, atol=1e-5
        )
