"""The snippets of the pages on coming from PyG's layers and from nn.LSTM run as printed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphConv

from tests.pages import assert_same_shapes, code_blocks, run
from tests.sequence.layers import lstm_runs_in_bfloat16

START, *SNIPPETS, CAPTUM = code_blocks("from_pyg.rst")
ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))
LSTM_START, *SNIPPETS, ONNX = code_blocks("from_lstm.rst")
LSTM_ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))
COMPARED = {"out", "mask", "output", "h", "ends", "input_map", "state_map", "bias"}


def after(word: str, rows: list[tuple[str, str]] = ROWS) -> str:
    """What a page puts in place of the other's, in the only row with this word."""
    (block,) = (after for _, after in rows if word in after)
    return block


@pytest.mark.parametrize(
    ("start", "row"),
    [
        pytest.param(start, row, marks=[pytest.mark.traces] * ("torch.compile" in row[1]))
        for start, rows in ((START, ROWS), (LSTM_START, LSTM_ROWS))
        for row in rows
    ],
)
def test_row(start: str, row: tuple[str, str]) -> None:
    """Both sides give tensors of the same shapes and precisions by the same names."""
    if "CaptumExplainer" in row[1]:
        pytest.importorskip("captum")
    if "autocast" in row[0] and "lstm" in row[0] and not lstm_runs_in_bfloat16():
        pytest.skip("nn.LSTM has no bfloat16 on this processor")
    torch.manual_seed(0)
    before, here = (run(start, block) for block in row)
    assert_same_shapes(before, here, COMPARED)
    for name in {"out", "mask"} & here.keys():
        assert here[name].isfinite().all() and here[name].any()


def test_edge_weights_and_adjacency_agree() -> None:
    torch.manual_seed(0)
    names = run(START, after("out = conv(\n    x, edge_index, edge_weight=edge_weight\n)"))
    adj = run("from torch_geometric.utils import to_torch_csr_tensor as made")["made"]
    found = names["conv"](names["x"], adj(names["edge_index"], names["edge_weight"]).t())
    torch.testing.assert_close(found, names["out"])


def test_reach() -> None:
    """A layer of walks of four nodes reaches as far as three layers of PyG's, and no further."""
    path = torch.stack([torch.arange(5), torch.arange(1, 6)])
    x = torch.randn(6, 16, dtype=torch.float64, requires_grad=True)
    (row,) = (row for row in ROWS if "order=4" in row[1])
    before, here = (run(START, block) for block in row)

    def deep(x: torch.Tensor) -> torch.Tensor:
        for conv in before["convs"]:
            assert isinstance(conv, GraphConv)
            x = conv.double()(x, path).tanh()
        return x

    layer = here["conv"].double()
    layer.act = torch.nn.Tanh()
    for out in (deep(x), layer(x, path)):
        (grad,) = torch.autograd.grad(out[4].sum(), x)
        assert grad.any(1).tolist() == [False, True, True, True, True, False]


def test_weights_of_edges_are_no_features() -> None:
    names = run(START, "conv = GraphKernelConv(16, 32)")
    with pytest.raises(ValueError, match="edge_attr"):
        names["conv"](names["x"], names["edge_index"], names["edge_weight"])


def test_captum_calls_by_position() -> None:
    pytest.importorskip("captum")
    assert "takes 3 positional arguments but 4 were given" in run(START, CAPTUM)["message"]


def test_from_lstm_gives_the_same_numbers() -> None:
    names = run(LSTM_START, after("from_lstm", LSTM_ROWS))
    expected, _ = names["lstm"](names["x"])
    torch.testing.assert_close(names["output"], expected, rtol=1e-4, atol=1e-5)


def test_weight_dropping_drops() -> None:
    names = run(LSTM_START, after("register_parametrization", LSTM_ROWS))
    rkm: nn.Module = names["rkm"]
    assert not torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])
    rkm.eval()
    assert torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])


@pytest.mark.traces
def test_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call exports any size; what ONNX makes of such a call runs in sequence/test_export.py."""

    def export(model: nn.Module, args: Any, *, dynamo: bool, dynamic_shapes: Any) -> Any:
        assert dynamo
        return torch.export.export(model, args, dynamic_shapes=dynamic_shapes, strict=False)

    monkeypatch.setattr(torch.onnx, "export", export)
    small = LSTM_START.replace("35, 20", "6, 3").replace("300", "4").replace("200", "5")
    names = run(small.replace("(1, 36, (20,))", "(1, 7, (3,))"), ONNX)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(names["program"].module()(x)[0], names["rcnn"](x)[0])
