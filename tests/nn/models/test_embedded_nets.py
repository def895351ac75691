"""The embedded networks against their equations, node by node and message by message."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import EmbeddedLoopyBP, EmbeddedMeanField
from tests.conventions.graph_layers import NETS
from tests.graphs import SMILES, Graph, molecule, random_graph
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


def mean_field(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> list[Tensor]:
    """The node states of algorithm 1, computed one sum over neighbours after the other."""
    edges = graph.edge_index.t().tolist()
    arriving = [[e for e, (_, j) in enumerate(edges) if j == i] for i in range(graph.num_nodes)]
    potential = []
    for x, into in zip(graph.x, arriving, strict=True):
        bond = sum(model.lin_edge.weight @ graph.edge_attr[e] for e in into) if bonds else 0.0
        potential.append(model.lin_node.weight @ x + model.bias + bond)
    state = activated(potential, norm_of(model, 0), act)
    for t in range(1, model.num_iterations + 1):
        before = [
            value + sum(model.lin_message.weight @ state[edges[e][0]] for e in into)
            for value, into in zip(potential, arriving, strict=True)
        ]
        state = activated(before, norm_of(model, t), act)
    return state


def loopy_bp(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> list[Tensor]:
    """The node states of algorithm 2, computed one message after the other."""
    edges = graph.edge_index.t().tolist()
    potential = []
    for (i, _), attr in zip(edges, graph.edge_attr, strict=True):
        bond = model.lin_edge.weight @ attr if bonds else 0.0
        potential.append(model.lin_node.weight @ graph.x[i] + model.bias + bond)
    message = activated(potential, norm_of(model, 0), act)
    for t in range(1, model.num_iterations + 1):
        before = []
        for (i, j), value in zip(edges, potential, strict=True):
            others = zip(edges, message, strict=True)
            into = [m for (k, target), m in others if target == i and k != j]
            before.append(value + sum(model.lin_message.weight @ m for m in into))
        message = activated(before, norm_of(model, t), act)
    states = []
    for i, x in enumerate(graph.x):
        into = [m for (_, target), m in zip(edges, message, strict=True) if target == i]
        states.append(model.lin_state.weight @ x + sum(model.lin_arrived.weight @ m for m in into))
    return activated(states, model.norm, act)


def outputs(model: torch.nn.Module, states: list[Tensor], act: Activation = torch.relu) -> Tensor:
    """The outputs (1, out_channels) computed from the node states of one graph."""
    vector = torch.zeros_like(model.bias)
    for state in states:
        vector = vector + act(model.lin_out.weight @ state)
    *norm, first, last = (m for m in model.head if any(True for _ in m.parameters()))
    vector = norm[0](vector[None]) if norm else vector[None]
    return act(vector @ first.weight.t() + first.bias) @ last.weight.t() + last.bias


def norm_of(model: torch.nn.Module, iteration: int) -> torch.nn.Module | None:
    return model.norms[iteration] if len(model.norms) else None


def activated(rows: list[Tensor], norm: torch.nn.Module | None, act: Activation) -> list[Tensor]:
    """Normalises the rows together if there is a norm, then applies the activation to each."""
    if norm is not None and rows:
        rows = list(norm(torch.stack(rows)))
    return [act(row) for row in rows]


EQUATIONS: dict[str, tuple[type[torch.nn.Module], Callable[..., list[Tensor]]]] = {
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
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    options = {"allow_unused": True, "materialize_grads": True}
    weights = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    gradients = [torch.autograd.grad(t, inputs, weights, **options) for t in (out, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@both
@pytest.mark.parametrize("norm", ["batch", "layer", "head"])
def test_normalization_and_dropout(net, states, norm: str, monkeypatch) -> None:
    """Every state is normalised, then activated, then subject to dropout."""
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, p, training: 3.0 * x + p)
    plain = activated

    def dropped(*arguments: object) -> list[Tensor]:
        return [3.0 * row + 0.25 for row in plain(*arguments)]

    monkeypatch.setattr(sys.modules[__name__], "activated", dropped)
    model = build(net, num_iterations=2, norm=norm, dropout=0.25)
    for seed in range(3):  # makes the running statistics differ from 0 and 1
        graph = random_graph(seed, 9, 30)
        batch = torch.arange(9) % 3
        model(graph.x, graph.edge_index, edge_attr=graph.edge_attr, batch=batch)
    model.eval()
    graph = GRAPHS["random"]
    expected = outputs(model, states(model, graph, True))
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
        scale = torch.cat([torch.stack(states(model, g, True)) for g in graphs]).detach().std()
        assert 0.3 < scale < 30.0


@both
def test_reset_begins_anew(net, states) -> None:
    model = build(net, norm="batch")
    for _ in range(3):
        model.reset_parameters()
    assert not model.bias.any()
    for lin, bound in ((model.lin_message, (1 / 6) ** 0.5), (model.lin_out, (3 / 6) ** 0.5)):
        assert 0.8 * bound < lin.weight.abs().max() <= bound
