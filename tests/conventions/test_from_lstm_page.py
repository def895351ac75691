"""The snippets of "Coming from nn.LSTM" run as printed, and give what they replace gave."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from pyg_kernels.sequence import KBRN
from tests.pages import assert_same_shapes, code_blocks, run

START, *SNIPPETS, ONNX = code_blocks("from_lstm.rst")
ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))
COMPARED = {"output", "h", "ends", "input_map", "state_map", "bias"}


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_row(row: int) -> None:
    """Both sides give tensors of the same shapes and precisions by the same names."""
    torch.manual_seed(row)
    before, after = (run(START, block) for block in ROWS[row])
    assert_same_shapes(before, after, COMPARED)


def test_from_lstm_gives_the_same_numbers() -> None:
    (block,) = (after for _, after in ROWS if "from_lstm" in after)
    names = run(START, block)
    expected, _ = names["lstm"](names["x"])
    torch.testing.assert_close(names["output"], expected, rtol=1e-4, atol=1e-5)


def test_weight_dropping_drops() -> None:
    (block,) = (after for _, after in ROWS if "register_parametrization" in after)
    names = run(START, block)
    rkm: nn.Module = names["rkm"]
    assert not torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])
    rkm.eval()
    assert torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])


def test_onnx() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    small = START.replace("35, 20", "6, 3").replace("300", "4").replace("200", "5")
    small = small.replace("(1, 36, (20,))", "(1, 7, (3,))")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = run(small, ONNX)
        gaussian = run(small, "rcnn = KBRN(4, 5, green='gaussian').eval()", ONNX)
    for found in (names, gaussian):
        session = onnxruntime.InferenceSession(found["program"].model_proto.SerializeToString())
        x = torch.randn(6, 7, 4)
        (given,) = session.get_inputs()
        out = torch.from_numpy(session.run(None, {given.name: x.numpy()})[0])
        torch.testing.assert_close(out, found["rcnn"](x)[0].detach(), rtol=1e-5, atol=1e-5)
    assert isinstance(gaussian["rcnn"], KBRN)
