"""Node states for generators: the summands of the network's graph vector."""

import copy
from typing import Any

import pytest
import torch

from pyg_kernels.nn import WLKernelNet
from pyg_kernels.rationale import WLStates
from tests.graphs import random_graph
from tests.promises import (
    assert_batch_invariant,
    assert_handles_degenerate_graphs,
    assert_permutation_equivariant,
    assert_survives_copies,
)
from tests.rationale.cases import randomized
from tests.sequence.texts import close

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "gated": {"order": 3, "num_iterations": 2, "norm": None},
    "plain": {"gated": False, "decay": "learned", "relabel": "mul", "act": "tanh"},
    "one": {"num_iterations": 1, "norm": None, "gated": False, "decay": 0.3},
}
of_every = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build(with_attr: bool, **options: Any) -> WLStates:
    return randomized(WLStates(4, 5, edge_dim=3 if with_attr else None, **options), scale=0.4)


@of_every
def test_sums_to_the_graph_vector(options: dict[str, Any]) -> None:
    """Over the nodes of a graph, without norm: what WLKernelNet's head reads."""
    given = {**options, "norm": None}
    of_net = {"num_iterations": 3, "tie_weights": None, **given}
    for with_attr in (False, True):
        layer = build(with_attr, **given)
        net = WLKernelNet(4, 5, 1, edge_dim=layer.edge_dim, **of_net).double()
        net.embedding, net.convs = copy.deepcopy(layer.embedding), copy.deepcopy(layer.convs)
        seen = []
        net.head.register_forward_pre_hook(lambda module, inputs, seen=seen: seen.append(inputs[0]))
        graph = random_graph(0)
        attr = graph.edge_attr if with_attr else None
        net(graph.x, graph.edge_index, edge_attr=attr)
        states = layer(graph.x, graph.edge_index, attr)
        assert states.shape == (6, 5)
        close(states.sum(dim=0, keepdim=True), seen[0])


@pytest.mark.parametrize(
    ("name", "with_attr"),
    [("default", True), ("gated", False), ("plain", True), ("plain", False), ("one", True)],
)
def test_promises(name: str, with_attr: bool) -> None:
    layer = build(with_attr, **OPTIONS[name])
    assert_permutation_equivariant(layer, random_graph(0), with_attr)
    assert_batch_invariant(layer, [random_graph(s, 3 + s, 4) for s in range(3)], with_attr)
    assert_survives_copies(layer, random_graph(0), with_attr)
    assert_handles_degenerate_graphs(layer, 4, 3, with_attr)


def test_dropout_and_lazy_sizes() -> None:
    torch.manual_seed(0)
    layer, graph = WLStates(-1, 20, dropout=0.5).double(), random_graph(0)
    assert not torch.equal(layer(graph.x, graph.edge_index), layer(graph.x, graph.edge_index))
    layer.eval()
    assert torch.equal(layer(graph.x, graph.edge_index), layer(graph.x, graph.edge_index))


def test_norms() -> None:
    graph = random_graph(0)
    states = WLStates(4, 8).double()(graph.x, graph.edge_index)
    close(states.mean(dim=1), torch.zeros(6).double(), atol=1e-10)
    states = WLStates(4, 8, norm="batch").double()(graph.x, graph.edge_index)
    close(states.mean(dim=0), torch.zeros(8).double(), atol=1e-10)
