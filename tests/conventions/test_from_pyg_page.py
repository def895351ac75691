"""The snippets of "Coming from PyG's layers" run as printed, and say what the page says of them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GraphConv

from tests.pages import assert_same_shapes, code_blocks, run

START, *SNIPPETS, CAPTUM = code_blocks("from_pyg.rst")
ROWS = list(zip(SNIPPETS[::2], SNIPPETS[1::2], strict=True))


def after(word: str) -> str:
    """What the page puts in place of PyG's, in the only row with this word."""
    (block,) = (after for _, after in ROWS if word in after)
    return block


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_row(row: int) -> None:
    """Both sides give tensors of the same shapes and precisions by the same names."""
    if "CaptumExplainer" in ROWS[row][1]:
        pytest.importorskip("captum")
    torch.manual_seed(row)
    before, here = (run(START, block) for block in ROWS[row])
    assert_same_shapes(before, here, {"out", "mask"})
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
