"""The embedded networks against their equations, with dense matrices of nodes and edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import EmbeddedLoopyBP, EmbeddedMeanField
from tests.conventions.graph_layers import NETS
from tests.graphs import SMILES, Graph, molecule, random_graph
from tests.nn.activation_equations import assert_same_function
from tests.promises import call

Activation = Callable[[Tensor], Tensor]


def graph_of(num_nodes: int, edges: list[tuple[int, int]], both_ways: bool = False) -> Graph:
    """A graph with exactly the listed edges, or with each in both directions, as in molecules."""
    generator = torch.Generator().manual_seed(num_nodes)
    x = torch.randn(num_nodes, 4, generator=generator, dtype=torch.float64)
    attr = torch.randn(len(edges), 3, generator=generator, dtype=torch.float64)
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    if both_ways:
        index, attr = torch.cat([index, index.flip(0)], dim=1), attr.repeat(2, 1)
    return Graph(x, index, attr)


GRAPHS: dict[str, Graph] = {
    "ring": graph_of(4, [(0, 1), (1, 2), (2, 0), (2, 3)], both_ways=True),
    "one-way": graph_of(4, [(0, 1), (1, 2), (2, 3), (3, 1)]),
    "one-way-and-back": graph_of(4, [(0, 1), (1, 0), (1, 2), (3, 2)]),
    "parallel": graph_of(3, [(0, 1), (0, 1), (1, 0), (1, 2), (2, 1), (2, 1), (2, 1)]),
    "self-loops": graph_of(3, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 1), (2, 1)]),
    "isolated": graph_of(5, [(0, 1), (1, 3)], both_ways=True),
    "no-edges": graph_of(3, []),
    "one-edge": graph_of(2, [(1, 0)]),
    "no-nodes": graph_of(0, []),
    "random": random_graph(9, 6, 14),
    "kinds": random_graph(10, 6, 24, kinds=3),
}


def ends(graph: Graph) -> tuple[Tensor, Tensor]:
    """Where edges begin and where they end, each (E, N): 1 at the node, 0 elsewhere."""
    source, target = torch.eye(graph.num_nodes, dtype=torch.float64)[graph.edge_index]
    return source, target


def normalized(model: torch.nn.Module, iteration: int, rows: Tensor) -> Tensor:
    return model.norms[iteration](rows) if len(model.norms) else rows


def mean_field(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> Tensor:
    """The node states of algorithm 1: each node sums over the edges that arrive."""
    source, target = ends(graph)
    potential = graph.x @ model.lin_node.weight.t() + model.bias
    if bonds:
        potential = potential + target.t() @ graph.edge_attr @ model.lin_edge.weight.t()
    state = act(normalized(model, 0, potential))
    for t in range(1, model.num_iterations + 1):
        arrived = target.t() @ source @ state @ model.lin_message.weight.t()
        state = act(normalized(model, t, potential + arrived))
    return state


def loopy_bp(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> Tensor:
    """The node states of algorithm 2: an edge reads those that end where it begins, none back."""
    source, target = ends(graph)
    before = (source @ target.t()) * (1 - target @ source.t())  # [edge, one that it reads]
    potential = source @ graph.x @ model.lin_node.weight.t() + model.bias
    if bonds:
        potential = potential + graph.edge_attr @ model.lin_edge.weight.t()
    message = act(normalized(model, 0, potential))
    for t in range(1, model.num_iterations + 1):
        read = before @ message @ model.lin_message.weight.t()
        message = act(normalized(model, t, potential + read))
    arrived = target.t() @ message @ model.lin_arrived.weight.t()
    state = graph.x @ model.lin_state.weight.t() + arrived
    return act(state if model.norm is None else model.norm(state))


def outputs(model: torch.nn.Module, states: Tensor, act: Activation = torch.relu) -> Tensor:
    """The outputs (1, out_channels) computed from the node states of one graph."""
    vector = act(states @ model.lin_out.weight.t()).sum(0, keepdim=True)
    *norm, first, last = (m for m in model.head if any(True for _ in m.parameters()))
    vector = norm[0](vector) if norm else vector
    return act(vector @ first.weight.t() + first.bias) @ last.weight.t() + last.bias


EQUATIONS: dict[str, tuple[type[torch.nn.Module], Callable[..., Tensor]]] = {
    "mean-field": (EmbeddedMeanField, mean_field),
    "loopy-bp": (EmbeddedLoopyBP, loopy_bp),
}
both = pytest.mark.parametrize(("net", "states"), EQUATIONS.values(), ids=list(EQUATIONS))
with_or_without_bonds = pytest.mark.parametrize("bonds", [False, True], ids=["plain", "bonds"])


def build(net: type[torch.nn.Module], bonds: bool = True, **kwargs: object) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {"norm": None, **kwargs}
    model = net(4, 6, 2, edge_dim=3 if bonds else None, **options).double()
    torch.nn.init.normal_(model.bias)
    return model


@both
@with_or_without_bonds
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
def test_equations(net, states, graph: Graph, bonds: bool) -> None:
    """Compares the outputs, and the gradients of every input and parameter."""
    model = build(net, bonds, num_iterations=3, act="tanh")
    graph = Graph(
        graph.x.clone().requires_grad_(), graph.edge_index, graph.edge_attr.clone().requires_grad_()
    )
    expected = outputs(model, states(model, graph, bonds, torch.tanh), torch.tanh)
    out, inputs = call(model, graph, bonds), [graph.x, graph.edge_attr, *model.parameters()]
    assert_same_function(out, expected, inputs)


@both
@pytest.mark.parametrize("norm", ["batch", "layer", "head"])
def test_normalization_and_dropout(net, states, norm: str, monkeypatch) -> None:
    """Every state is normalised, then activated, then subject to dropout."""
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, p, training: 3.0 * x + p)
    model = build(net, num_iterations=2, norm=norm, dropout=0.25)
    for seed in range(3):  # makes the running statistics differ from 0 and 1
        graph = random_graph(seed, 9, 30)
        batch = torch.arange(9) % 3
        model(graph.x, graph.edge_index, edge_attr=graph.edge_attr, batch=batch)
    model.eval()
    graph = GRAPHS["random"]
    found = states(model, graph, True, lambda before: 3.0 * torch.relu(before) + 0.25)
    expected = outputs(model, found)
    torch.testing.assert_close(call(model, graph, True), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", [None, "batch", "layer"])
@pytest.mark.parametrize("graph", ["no-nodes", "no-edges", "one-edge", "random"])
@pytest.mark.parametrize("net", NETS.values(), ids=list(NETS))
def test_training_on_one_graph(net, norm: str | None, graph: str) -> None:
    model = net(4, 6, 2, edge_dim=3, norm=norm).double().train()
    call(model, GRAPHS[graph], True).sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@both
def test_depth_keeps_the_scale(net, states) -> None:
    """At initialisation, states neither vanish nor explode as the iterations go on."""
    torch.manual_seed(0)
    graphs = [molecule(s) for s in SMILES]
    for depth in (1, 8):
        model = net(5, 64, 1, num_iterations=depth, edge_dim=7).double()
        scale = torch.cat([states(model, g, True) for g in graphs]).detach().std()
        assert 0.3 < scale < 30.0


@both
def test_reset_begins_anew(net, states) -> None:
    model = build(net, norm="batch")
    for _ in range(3):
        model.reset_parameters()
    assert not model.bias.any()
    for lin, bound in ((model.lin_message, (1 / 6) ** 0.5), (model.lin_out, (3 / 6) ** 0.5)):
        assert 0.8 * bound < lin.weight.abs().max() <= bound
