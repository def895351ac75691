"""What the attributions refuse, and what they say."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GINConv

from pyg_kernels.explain import model_contributions, ngram_contributions, walk_contributions
from pyg_kernels.nn import GatedWalkConv, GraphKernelConv, RandomWalkConv, RandomWalkNet
from pyg_kernels.sequence import KBRN, RCNN, RCNNCell

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (torch.nn.Tanh(), "Tanh()"),
        (torch.tanh, "tanh"),
        ("sigmoid", "Sigmoid()"),
        (torch.nn.GELU(), "GELU(approximate='none')"),
        (lambda z: z, "<lambda>"),
    ],
    ids=["module", "function", "name", "gelu", "unknown"],
)
def test_other_activations(act: Any, name: str) -> None:
    words = f"conv, a RandomWalkConv, has the activation {name}: an exact attribution needs"
    with pytest.raises(ValueError, match=re.escape(words)):
        walk_contributions(RandomWalkConv(3, 2, act=act), X, EDGES)


@pytest.mark.parametrize("conv", [RandomWalkConv, GatedWalkConv])
def test_walks_that_never_turn_back(conv: Any) -> None:
    """At order 2 they are all walks."""
    layer = conv(3, 2, order=2, non_backtracking=True)
    assert len(walk_contributions(layer, X, EDGES).walks) == 3
    words = f"conv is a {conv.__name__} with non_backtracking=True"
    with pytest.raises(ValueError, match=words):
        walk_contributions(conv(3, 2, order=3, non_backtracking=True), X, EDGES)
    net = RandomWalkNet(3, 4, 1, order=3, act="relu", gated=conv is GatedWalkConv)
    net.convs[0] = conv(3, 4, order=3, non_backtracking=True)
    with pytest.raises(ValueError, match=words):
        model_contributions(net.eval(), X, EDGES)


def test_features_of_another_precision() -> None:
    with pytest.raises(ValueError, match=r"x has dtype torch\.float32"):
        walk_contributions(RandomWalkConv(3, 2).double(), X, EDGES)
    with pytest.raises(ValueError, match="x has 3 features: expected 4"):
        walk_contributions(RandomWalkConv(4, 2), X, EDGES)
    with pytest.raises(ValueError, match=r"x has dtype torch\.float64"):
        ngram_contributions(RCNN(3, 2), X.double())


@pytest.mark.parametrize(
    "conv", [GINConv(torch.nn.Linear(3, 2)), GraphKernelConv(3, 2)], ids=["gin", "deep"]
)
def test_other_layers(conv: Any) -> None:
    with pytest.raises(ValueError, match=f"conv is a {type(conv).__name__}: expected a RandomWalk"):
        walk_contributions(conv, X, EDGES)


@pytest.mark.parametrize(
    ("x", "edges", "words"),
    [
        (X, torch.tensor([[0, 4], [1, 2]]), "names source node 4, but there are 4 source nodes"),
        (X, torch.tensor([[0, 1], [1, -2]]), "names target node -2"),
        (X, torch.tensor([0, 1]), r"edge_index has shape \(2,\): expected \(2, num_edges\)"),
        (X[0], EDGES, r"x has shape \(3,\): expected \(N, F\)"),
        ((X, X), EDGES, "x is a tuple: expected the features of one set of nodes"),
        (X.clone().fill_(torch.nan), EDGES, "is nan: expected a finite one"),
        (X.clone().fill_(torch.inf), EDGES, "expected a finite one"),
    ],
    ids=["beyond", "negative", "flat-edges", "flat", "bipartite", "nan", "infinity"],
)
def test_bad_graphs(x: Tensor, edges: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        walk_contributions(RandomWalkConv(3, 2), x, edges)


def test_edge_features_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="the layer takes no edge features"):
        walk_contributions(RandomWalkConv(3, 2), X, EDGES, torch.ones(3, 1))
    with pytest.raises(ValueError, match="edge_attr is missing"):
        walk_contributions(RandomWalkConv(3, 2, edge_dim=1), X, EDGES)


@pytest.mark.parametrize(
    "head",
    [torch.ones(3), torch.ones(1, 2), torch.tensor(1.0), [1.0]],
    ids=["long", "matrix", "number", "list"],
)
def test_heads_that_do_not_fit(head: Any) -> None:
    with pytest.raises(ValueError, match=r"head has shape .*: expected one weight a channel, \(2,"):
        walk_contributions(RandomWalkConv(3, 2), X, EDGES, head=head)
    with pytest.raises(ValueError, match=r"head has shape .*: expected one weight a channel, \(2,"):
        ngram_contributions(RCNN(3, 2), X, head=head)


@pytest.mark.parametrize("k", [-1, 1.5, True, None])
def test_numbers_of_walks(k: Any) -> None:
    with pytest.raises(ValueError, match=f"k={k}: expected a whole number of at least 0"):
        walk_contributions(RandomWalkConv(3, 2), X, EDGES, k=k)
    with pytest.raises(ValueError, match=f"k={k}: expected a whole number of at least 0"):
        ngram_contributions(RCNN(3, 2), X, k=k)


@pytest.mark.parametrize(
    ("rcnn", "words"),
    [
        (RCNN(3, 2, num_layers=2), "num_layers=2: explain one of its cells"),
        (RCNN(3, 2, bidirectional=True), "bidirectional=True: explain one of its cells"),
        (RCNN(3, 2, pooling="max"), "pooling='max': a maximum is no sum"),
        (RCNNCell(3, 2, pooling="max", combine="add"), "pooling='max': a maximum is no sum"),
        (KBRN(3, 2), "rcnn is a KBRN: expected an RCNN or an RCNNCell"),
        (torch.nn.LSTM(3, 2), "rcnn is a LSTM"),
    ],
    ids=["layers", "directions", "max", "max-cell", "kbrn", "lstm"],
)
def test_other_layers_on_texts(rcnn: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ngram_contributions(rcnn, X)


@pytest.mark.parametrize("position", [4, -5, 100])
def test_positions_that_are_not_in_the_text(position: int) -> None:
    with pytest.raises(ValueError, match=f"position={position} with 4 tokens: expected -4 to 3"):
        ngram_contributions(RCNN(3, 2), X, position)


def test_other_positions() -> None:
    with pytest.raises(ValueError, match="position=-1 with 0 tokens: there is nothing to explain"):
        ngram_contributions(RCNN(3, 2), X[:0])
    with pytest.raises(ValueError, match=r"position=0\.5: expected a whole number"):
        ngram_contributions(RCNN(3, 2), X, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X[0], r"x: expected the features of one text"),
        (X.unsqueeze(0), r"x: expected the features of one text"),
        (X.long(), r"x: expected the features of one text"),
        ([1.0], r"x: expected the features of one text"),
        (X[:, :2], "x has 2 features: expected 3"),
        (X.clone().fill_(torch.nan), "expected a finite one"),
    ],
    ids=["flat", "batch", "ids", "list", "features", "nan"],
)
def test_bad_texts(x: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ngram_contributions(RCNN(3, 2), x)
