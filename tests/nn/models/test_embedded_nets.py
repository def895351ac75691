"""The embedded networks against their equations, and what PyG's users do with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import EmbeddedLoopyBP, EmbeddedMeanField
from tests.graphs import SMILES, Graph, molecule, random_graph
from tests.nn.models import embedded_equations
from tests.nn.models.embedded_equations import GRAPHS, loopy_bp, mean_field, outputs
from tests.promises import assert_same

NETS: dict[str, tuple[type[torch.nn.Module], Callable[..., list[Tensor]]]] = {
    "mean-field": (EmbeddedMeanField, mean_field),
    "loopy-bp": (EmbeddedLoopyBP, loopy_bp),
}
both = pytest.mark.parametrize(("net", "states"), NETS.values(), ids=list(NETS))
with_or_without_bonds = pytest.mark.parametrize("bonds", [False, True], ids=["plain", "bonds"])


def call(model: torch.nn.Module, graph: Graph, bonds: bool) -> Tensor:
    return model(graph.x, graph.edge_index, edge_attr=graph.edge_attr if bonds else None)


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
    """Outputs, and the gradients of every input and parameter."""
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
    """Every state is normalised, activated, and a channel of it dropped, in this order."""
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, p, training: 3.0 * x + p)
    activated = embedded_equations.activated

    def dropped(*arguments: object) -> list[Tensor]:
        return [3.0 * row + 0.25 for row in activated(*arguments)]

    monkeypatch.setattr(embedded_equations, "activated", dropped)
    model = build(net, num_iterations=2, norm=norm, dropout=0.25)
    for seed in range(3):  # statistics away from 0 and 1
        graph = random_graph(seed, 9, 30)
        batch = torch.arange(9) % 3
        model(graph.x, graph.edge_index, edge_attr=graph.edge_attr, batch=batch)
    model.eval()
    graph = GRAPHS["random"]
    expected = outputs(model, states(model, graph, True))
    torch.testing.assert_close(call(model, graph, True), expected, rtol=1e-10, atol=1e-10)


@both
@pytest.mark.parametrize("norm", [None, "batch", "layer"])
@pytest.mark.parametrize("graph", ["no-nodes", "no-edges", "one-edge"])
def test_training_on_little(net, states, norm: str | None, graph: str) -> None:
    model = build(net, norm=norm, dropout=0.2).train()
    call(model, GRAPHS[graph], True).sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@both
def test_depth_keeps_the_scale(net, states) -> None:
    """At the start, states neither vanish nor explode as iterations follow each other."""
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


def test_a_message_is_not_answered() -> None:
    """On one bond nothing comes back: more iterations of belief propagation change nothing."""
    graph = GRAPHS["no-edges"]
    pair = Graph(graph.x[:2], torch.tensor([[0, 1], [1, 0]]), GRAPHS["ring"].edge_attr[:2])
    once, more = (build(EmbeddedLoopyBP, num_iterations=n) for n in (1, 5))
    assert_same(call(once, pair, True), call(more, pair, True))
    once, more = (build(EmbeddedMeanField, num_iterations=n) for n in (1, 5))
    assert not torch.allclose(call(once, pair, True), call(more, pair, True))
