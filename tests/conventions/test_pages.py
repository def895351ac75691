"""The README and the pages run as printed, and their tables show the results of runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphConv

from tests.pages import DOCS, code_blocks, run
from tests.sequence.layers import lstm_runs_in_bfloat16

README = DOCS.parent / "README.md"
START, *SNIPPETS, CAPTUM = code_blocks("from_pyg.rst")
ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))
LSTM_START, *SNIPPETS, ONNX = code_blocks("from_lstm.rst")
LSTM_ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))
COMPARED = {"out", "mask", "output", "h", "ends", "input_map", "state_map", "bias"}


def only_row(word: str) -> tuple[str, str]:
    """Both sides of the only row of a page that has this word."""
    (row,) = (row for row in (*ROWS, *LSTM_ROWS) if word in row[1])
    return row


@pytest.mark.parametrize(
    ("start", "row"),
    [(start, row) for start, rows in ((START, ROWS), (LSTM_START, LSTM_ROWS)) for row in rows],
)
def test_row(start: str, row: tuple[str, str]) -> None:
    """Both sides define tensors with the same names, shapes and precisions."""
    if "CaptumExplainer" in row[1]:
        pytest.importorskip("captum")
    if "autocast" in row[0] and "lstm" in row[0] and not lstm_runs_in_bfloat16():
        pytest.skip("nn.LSTM has no bfloat16 on this processor")
    torch.manual_seed(0)
    before, here = (run(start, block) for block in row)
    shared = COMPARED & before.keys()
    assert shared and shared <= here.keys()
    for name in shared:
        assert (before[name].shape, before[name].dtype) == (here[name].shape, here[name].dtype)
    for name in {"out", "mask"} & here.keys():
        assert here[name].isfinite().all() and here[name].any()


def test_reach() -> None:
    """A layer with walks of four nodes reaches exactly as far as three layers of PyG's."""
    path = torch.stack([torch.arange(5), torch.arange(1, 6)])
    x = torch.randn(6, 16, dtype=torch.float64, requires_grad=True)
    before, here = (run(START, block) for block in only_row("order=4"))

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


def test_what_the_page_says_is_an_error() -> None:
    """Weights of edges are no features; captum calls by position."""
    names = run(START, "conv = GraphKernelConv(16, 32)")
    with pytest.raises(ValueError, match="edge_attr"):
        names["conv"](names["x"], names["edge_index"], names["edge_weight"])
    pytest.importorskip("captum")
    assert "takes 3 positional arguments but 4 were given" in run(START, CAPTUM)["message"]


def test_weight_dropping_drops() -> None:
    names = run(LSTM_START, only_row("register_parametrization")[1])
    rkm: nn.Module = names["rkm"]
    assert not torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])
    rkm.eval()
    assert torch.equal(rkm(names["x"])[0], rkm(names["x"])[0])


@pytest.mark.traces
def test_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call exports any size; sequence/test_module.py tests the export of such a layer."""

    def export(model: nn.Module, args: Any, *, dynamo: bool, dynamic_shapes: Any) -> Any:
        assert dynamo
        return torch.export.export(model, args, dynamic_shapes=dynamic_shapes, strict=False)

    monkeypatch.setattr(torch.onnx, "export", export)
    small = LSTM_START.replace("35, 20", "6, 3").replace("300", "4").replace("200", "5")
    names = run(small.replace("(1, 36, (20,))", "(1, 7, (3,))"), ONNX)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(names["program"].module()(x)[0], names["rcnn"](x)[0])


def test_readme() -> None:
    """This is the second example; the first, a network, trains in test_graph_training.py."""
    _, kernels = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert list(run(kernels)["guess"]) == [1, 0]


def test_first_page() -> None:
    molecules, texts = map(run, code_blocks("index.rst")[1:])  # the first: test_graph_training
    assert molecules["mean"].shape == molecules["std"].shape == (1,)
    assert molecules["low"] < molecules["mean"] < molecules["high"]
    assert molecules["shares"].shape == (5,)
    output, h, c = (texts[name] for name in ("output", "h", "c"))
    assert output.shape == (35, 20, 200) and torch.equal(h[0], output[-1])
    assert c.shape == (1, 20, 2, 200) and texts["scores"].shape == (20, 2)


def test_nothing_is_left_to_fill_in() -> None:
    for page in (README, *DOCS.rglob("*.rst")):
        assert "@@" not in page.read_text(), page


COUNTS = {"one": 1234, "two": None}


def test_a_column_has_means_and_the_best_in_bold(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("sphinx", reason="needs the dependency group dev")
    monkeypatch.syspath_prepend(DOCS / "extensions")
    from results import column

    for metric, best, texts in (
        ("rmse", "one", {"one": "**0.500**", "two": "0.700 ± 0.141"}),
        ("roc_auc", "two", {"one": "0.500", "two": "**0.700 ± 0.141**"}),
    ):
        path = tmp_path / "runs.json"
        runs = [
            {"model": model, "metric": metric, "test": test, "num_parameters": COUNTS[model]}
            for model, test in (("one", 0.5), ("two", 0.6), ("two", 0.8))
        ]
        path.write_text(json.dumps(runs))
        found = column(path)
        assert found["text"].to_dict() == texts
        assert found["rank"].idxmin() == best
        assert found["parameters"].to_dict() == {"one": "1,234", "two": ""}
