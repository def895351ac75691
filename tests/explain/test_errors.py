"""What the attributions refuse, and with which messages."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import BatchNorm1d, Linear, Module, ModuleList
from torch_geometric.nn import GIN, GINConv

from pyg_kernels import nn
from pyg_kernels.explain import model_contributions, ngram_contributions, walk_contributions
from pyg_kernels.sequence import KBRN, RCNN, RCNNCell

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])
NAN = torch.full_like(X, torch.nan)
HEADS = [torch.ones(3), torch.ones(1, 2), torch.tensor(1.0), [1.0]]
HEAD, NUMBER = "expected one weight a channel, (2,", "k={}: expected a whole number of at least 0"
NO_NUMBERS = (-1, 1.5, True, None)
ONE_TEXT = "x: expected the features of one text"


def walks(*args: Any, conv: Any = None, **kwargs: Any) -> Any:
    return walk_contributions(conv or nn.RandomWalkConv(3, 2), *(args or (X, EDGES)), **kwargs)


def ngrams(*args: Any, rcnn: Any = None, **kwargs: Any) -> Any:
    return ngram_contributions(rcnn or RCNN(3, 2), *(args or (X,)), **kwargs)


def with_part(model: Module, name: str, part: Module) -> Module:
    """The model with one of its modules replaced."""
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, part)
    return model


GIN_LAYER, DEEP, TANH = GINConv(Linear(3, 3)), nn.GraphKernelConv(3, 3), "has the activation Tanh()"
OF_BATCHES = BatchNorm1d(3, track_running_stats=False)
NORMED = with_part(nn.RandomWalkNet(3, 3, 1, act="relu"), "norm", OF_BATCHES)
WITH_GIN = with_part(nn.GraphKernelNet(3, 3, 1, 3), "convs.1", GIN_LAYER)
WITH_DEEP = with_part(nn.WLKernelNet(3, 3, 1), "convs.2", DEEP)
NO_NUMBER = nn.WLKernelNet(3, 3, 1)
torch.nn.init.constant_(NO_NUMBER.head[-1].bias, torch.nan)
KERNEL, NO_SUM = nn.KernelActivation(3), "which is not a sum over walks: expected"
MODELS: list[tuple[str, Module]] = [
    (f"model (act) {TANH}: an exact attribution needs", nn.RandomWalkNet(3, 3, 1)),
    (f"model (head.1) {TANH}", nn.WLKernelNet(3, 3, 1, act="tanh", norm=None)),
    ("(convs.0.walk.act) has the activation SiLU()", nn.GraphKernelNet(3, 3, 1, 1, act="silu")),
    ("model has LayerNorm((3,)", nn.RandomWalkNet(3, 3, 1, act="relu", norm="layer")),
    ("(head.0), whose scale depends on what it", nn.WLKernelNet(3, 3, 1, norm="layer")),
    ("has the activation KernelActivation(3", nn.RandomWalkNet(3, 3, 1, act=KERNEL)),
    ("(norm), which normalises by the batch", NORMED),
    ("expected a finite one", NO_NUMBER),
    ("model is a GIN: expected a RandomWalkNet, a Graph", GIN(3, 3, 2, 1)),
    ("model is a EmbeddedMeanField: expected a RandomWalkNet, a", nn.EmbeddedMeanField(3, 3, 1)),
    ("layers alone are explained by walk_contrib", ModuleList([nn.RandomWalkConv(3, 3)])),
    (f"model has GINConv (convs.1), {NO_SUM} GraphKernelConv", WITH_GIN),
    (f"model has GraphKernelConv (convs.2), {NO_SUM} WLKernelConv", WITH_DEEP),
]
#: Networks of each kind with two outputs, and one whose output is not finite.
NETS = [
    nn.RandomWalkNet(3, 3, 2, act="relu"),
    nn.GraphKernelNet(3, 3, 2, 2),
    nn.WLKernelNet(3, 3, 2),
]
OF_NETS: list[tuple[str, dict[str, Any]]] = [
    *((f"target={t} with 2 outputs: expected -2 to 1", {"target": t}) for t in (2, -3)),
    ("x has 2 features: expected 3", {"x": X[:, :2]}),
    ("x has dtype torch.float64", {"x": X.double()}),
    ("source node 6, but there are 4 source nodes", {"edge_index": EDGES + 4}),
    ("expected a finite one", {"x": NAN}),
]
ACTIVATION = "conv, a RandomWalkConv, has the activation {}: an exact attribution needs"
REFUSED: list[tuple[str, Callable[..., Any]]] = [
    *[
        (ACTIVATION.format(name), partial(walks, conv=nn.RandomWalkConv(3, 2, act=act)))
        for act, name in [
            (torch.tanh, "tanh"),
            ("sigmoid", "Sigmoid()"),
            (torch.nn.GELU(), "GELU(approximate='none')"),
            (lambda z: z, "<lambda>"),
        ]
    ],
    *[
        (f"conv is a {type(conv).__name__}: expected a RandomWalk", partial(walks, conv=conv))
        for conv in (GIN_LAYER, DEEP)
    ],
    *[(words, partial(model_contributions, model, X, EDGES)) for words, model in MODELS],
    *[
        (words, partial(model_contributions, model, **{"x": X, "edge_index": EDGES, **given}))
        for model in NETS
        for words, given in OF_NETS
    ],
    ("x is a list: expected a tensor", partial(model_contributions, NORMED, X.tolist(), EDGES)),
    ("x has dtype torch.float32", partial(walks, conv=nn.RandomWalkConv(3, 2).double())),
    ("x has 3 features: expected 4", partial(walks, conv=nn.RandomWalkConv(4, 2))),
    ("names source node 4, but there are 4", partial(walks, X, torch.tensor([[0, 4], [1, 2]]))),
    ("edge_index has shape (2,): expected (2, num_edges)", partial(walks, X, EDGES[:, 0])),
    ("x has shape (3,): expected (N, F)", partial(walks, X[0], EDGES)),
    ("x is a tuple: expected a tensor of shape (N, F)", partial(walks, (X, X), EDGES)),
    ("is nan: expected a finite one", partial(walks, NAN, EDGES)),
    ("edge_attr is missing", partial(walks, conv=nn.RandomWalkConv(3, 2, edge_dim=1))),
    *[(HEAD, partial(made, head=head)) for made in (walks, ngrams) for head in HEADS],
    *[(NUMBER.format(k), partial(made, k=k)) for made in (walks, ngrams) for k in NO_NUMBERS],
    ("num_layers=2: explain one of its cells", partial(ngrams, rcnn=RCNN(3, 2, 2))),
    ("bidirectional=True: explain one of", partial(ngrams, rcnn=RCNN(3, 2, bidirectional=True))),
    ("pooling='max': a maximum is no sum", partial(ngrams, rcnn=RCNN(3, 2, pooling="max"))),
    ("pooling='max': a maximum is no sum", partial(ngrams, rcnn=RCNNCell(3, 2, pooling="max"))),
    ("rcnn is a KBRN: expected an RCNN or an RCNNCell", partial(ngrams, rcnn=KBRN(3, 2))),
    ("rcnn is a LSTM", partial(ngrams, rcnn=torch.nn.LSTM(3, 2))),
    *[(f"position={p} with 4 tokens: expected -4 to 3", partial(ngrams, X, p)) for p in (4, -5)],
    ("position=-1 with 0 tokens: there is nothing to explain", partial(ngrams, X[:0])),
    ("position=0.5: expected a whole number", partial(ngrams, X, 0.5)),
    *[(ONE_TEXT, partial(ngrams, x)) for x in (X[0], X.unsqueeze(0), X.long(), [1.0])],
    ("x has 2 features: expected 3", partial(ngrams, X[:, :2])),
    ("x has dtype torch.float64", partial(ngrams, X.double())),
    ("expected a finite one", partial(ngrams, NAN)),
]


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_refused(words: str, call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("conv", [nn.RandomWalkConv, nn.GatedWalkConv])
def test_walks_that_never_turn_back(conv: Any) -> None:
    """At order 2 they are all the walks, so they can be explained."""
    assert len(walks(conv=conv(3, 2, order=2, non_backtracking=True)).walks) == 3
    words = f"conv is a {conv.__name__} with non_backtracking=True"
    with pytest.raises(ValueError, match=words):
        walks(conv=conv(3, 2, order=3, non_backtracking=True))
    net = nn.RandomWalkNet(3, 4, 1, order=3, act="relu", gated=conv is nn.GatedWalkConv)
    net.convs[0] = conv(3, 4, order=3, non_backtracking=True)
    with pytest.raises(ValueError, match=words):
        model_contributions(net.eval(), X, EDGES)
