"""What the rationalizers and their parts refuse, and what they say."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pyg_kernels.nn import RandomWalkNet
from pyg_kernels.rationale import Generator, Rationalizer, SequenceEncoder, WLStates
from pyg_kernels.sequence import KBRN, RCNN, RKM
from tests.graphs import random_graph
from tests.rationale.cases import encoder, generator, rationalizer
from tests.rationale.test_molecules import model
from tests.sequence.texts import F64, SIZE

NAN, INF = float("nan"), float("inf")
LAYER, BOTH = RCNN(SIZE, 3), RCNN(SIZE, 4, bidirectional=True)
X, Y, GRAPH = torch.zeros(3, SIZE), torch.zeros(4, SIZE, dtype=F64), random_graph(0)
NO_EDGES = torch.zeros(2, 0).long()
TWO, THREE, FOUR = (torch.tensor([0, end]) for end in (2, 3, 4))

UNPRICED = partial(Rationalizer, generator(), encoder())
PRICED = partial(UNPRICED, sparsity=0.1)
WRONG: list[tuple[Callable[..., Any], dict[str, list[Any]]]] = [
    (
        partial(SequenceEncoder, layer=LAYER, channels=3, out_channels=2),
        {"layer": ["rcnn"], "channels": [0], "out_channels": [0]},
    ),
    (partial(SequenceEncoder, LAYER, 3, 2), {"readout": ["sum"], "dropout": [1.0]}),
    (partial(Generator, network=nn.Identity(), channels=4), {"network": ["rcnn"], "channels": [0]}),
    (partial(Generator, nn.Identity(), 4), {"selection": ["both"], "hidden_size": [0]}),
    (partial(Generator, nn.Identity(), 4), {"initial_rate": [0.0, 1.0, NAN]}),
    (partial(WLStates, 4), {"channels": [0]}),
    (partial(WLStates, 4, 5), {"num_iterations": [0], "order": [0], "norm": ["head"]}),
    (partial(WLStates, 4, 5), {"dropout": [-0.1], "relabel": ["sum"]}),
    (UNPRICED, {"sparsity": [-0.1, NAN, "low"], "rate": [0.0, 1.0, 10]}),
    (PRICED, {"coherence": [-1.0], "estimator": ["kuma", ["gumbel"]]}),
    (PRICED, {"num_samples": [0], "temperature": [0.0, INF]}),
]


@pytest.mark.parametrize(("build", "wrong"), WRONG, ids=range(len(WRONG)))
def test_options(build: Callable[..., Any], wrong: dict[str, list[Any]]) -> None:
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}: expected")):
                build(**{name: value})


def test_numbers_of_numpy() -> None:
    half = np.float32(0.5)
    built = PRICED(coherence=half, temperature=half, estimator="gumbel")
    assert (built.coherence, UNPRICED(rate=half).control.rate) == (0.5, 0.5)


def of_graph(**changes: Any) -> dict[str, Any]:
    return {**vars(GRAPH), "batch": torch.zeros(6).long(), "batch_size": 1, **changes}


TEXTS, GRAPHS = rationalizer(), model(4, 3)
DRAW, WIDE = Generator(RCNN(SIZE, 4), 4), Generator(BOTH, 4)
ATOMS = Generator(WLStates(4, 5), 5, "dependent")
BOTH_PRICES = {"sparsity": 0.1, "rate": 0.1}
MIXED = Rationalizer(ATOMS, RandomWalkNet(4, 5, 2), sparsity=0.1).double()
LOG_PROB = DRAW(X, THREE).log_prob
CALLS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (UNPRICED, {}, "sparsity=None and rate=None"),
    (UNPRICED, BOTH_PRICES, "sparsity=0.1 and rate=0.1"),
    (TEXTS, {"x": Y}, "neither"),
    (TEXTS, {"x": Y, "ptr": FOUR, "edge_index": NO_EDGES}, "both"),
    (TEXTS, {"x": Y, "ptr": THREE}, "ptr ends at 3"),
    (TEXTS, {"x": Y, "ptr": FOUR, "batch": torch.zeros(4).long()}, "batch"),
    (TEXTS, {"x": Y, "ptr": FOUR, "batch_size": 1}, "batch_size"),
    (TEXTS, {"x": Y, "ptr": FOUR, "edge_attr": torch.zeros(0, 1)}, "edge_attr"),
    (TEXTS, {"x": [1.0], "ptr": FOUR}, "x: list"),
    *[
        (call, {"selection": z, "x": Y, "ptr": FOUR}, "selection")
        for call in (TEXTS.given, TEXTS.encode)
        for z in (torch.ones(3), torch.full((4,), 0.5), torch.ones(1, 1, 4), [1, 0, 1, 0])
    ],
    (GRAPHS, of_graph(edge_index=torch.zeros(3, 2).long()), "edge_index"),
    (GRAPHS, of_graph(edge_index=torch.zeros(2, 9)), "edge_index"),
    (GRAPHS, of_graph(edge_index=torch.full((2, 9), 6)), "edge_index names nodes 6 to 6"),
    (GRAPHS, of_graph(edge_index=torch.full((2, 9), -1)), "edge_index"),
    (GRAPHS, of_graph(edge_index=torch.eye(6).to_sparse()), "edge_index"),
    (GRAPHS, of_graph(edge_attr=torch.zeros(8, 3, dtype=F64)), "edge_attr"),
    (GRAPHS, of_graph(edge_attr=[[0.0] * 3] * 9), "edge_attr: list"),
    (GRAPHS, of_graph(batch=torch.zeros(5).long()), "batch"),
    (GRAPHS, of_graph(batch=None, batch_size=2), "batch_size=2"),
    (GRAPHS, of_graph(batch=torch.full((6,), 2)), "batch_size=1: expected at least 3"),
    (GRAPHS, of_graph(batch=torch.full((6,), -1)), "batch has -1"),
    (GRAPHS, of_graph(batch=torch.arange(6), batch_size=6), "edge_index joins nodes of different"),
    (DRAW, {"x": X}, "neither"),
    (DRAW, {"x": X, "ptr": THREE, "edge_index": NO_EDGES}, "both"),
    (DRAW, {"x": X, "ptr": THREE, "edge_attr": torch.zeros(0, 2)}, "edge_attr"),
    (DRAW, {"x": X, "ptr": TWO}, "ptr"),
    (WIDE, {"x": X, "ptr": THREE}, r"network gives \(3, 8\)"),
    (LOG_PROB, {"selection": torch.zeros(4)}, r"selection: \(1, 4\), expected"),
    (LOG_PROB, {"selection": torch.full((2, 3), 0.5)}, "nothing but 0 and 1"),
    (ATOMS, {"x": X, "edge_index": NO_EDGES}, "selection='dependent' with edge_index"),
    (MIXED, {"x": GRAPH.x, "edge_index": GRAPH.edge_index}, "selection='dependent'"),
    (model(4, 3, estimator="gumbel"), of_graph(), "estimator='gumbel' with graphs"),
    (model(4, 3, estimator="hardkuma").eval(), of_graph(), "estimator='hardkuma' with graphs"),
    (SequenceEncoder(BOTH, 4, 2), {"x": X, "ptr": THREE}, "channels=4: the layer gives 8"),
    (SequenceEncoder(BOTH, 8, 2), {"x": X, "ptr": TWO}, "ptr ends at 2"),
]


@pytest.mark.parametrize(("call", "given", "words"), CALLS, ids=range(len(CALLS)))
def test_inputs(call: Callable[..., Any], given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(**given)


def test_parts_that_are_none() -> None:
    """Layers that take no selection are refused as well."""
    made = partial(Rationalizer, sparsity=0.1)
    for words, call in (
        ("generator is a Linear", partial(made, nn.Linear(1, 1), encoder())),
        ("encoder is a str", partial(made, generator(), "rcnn")),
        *(
            (kind.__name__, partial(SequenceEncoder(kind(SIZE, 3), 3, 2), X, THREE, torch.ones(3)))
            for kind in (RKM, KBRN, nn.LSTM)
        ),
    ):
        with pytest.raises(TypeError, match=words):
            call()
