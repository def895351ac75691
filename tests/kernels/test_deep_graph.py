"""The deep graph kernel (theorem 4 of Lei et al. 2017) against its recursion over node pairs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import (
    DeepGraphKernel,
    RandomWalkKernel,
    arc_cosine,
    inverse_polynomial,
    polynomial,
)
from tests.kernels.walks import (
    Activation,
    close,
    cosine,
    deep_graph_kernel,
    gram,
    graph_collection,
    random_data,
    random_walk_kernel,
)

GRAPHS = graph_collection()


def defined_inverse_polynomial(k: float, k_x: float, k_y: float) -> float:
    return 1 / (2 - (k / math.sqrt(k_x * k_y) if k_x * k_y > 0 else 0.0))


def defined_polynomial(k: float, k_x: float, k_y: float) -> float:
    return 0.3 + 0.5 * k + 0.2 * k**2


def defined_arc_cosine(k: float, k_x: float, k_y: float) -> float:
    """Cho and Saul 2009, degree 1."""
    root = math.sqrt(k_x * k_y)
    if root == 0:
        return 0.0
    angle = math.acos(max(-1.0, min(1.0, k / root)))
    return root / math.pi * (math.sin(angle) + (math.pi - angle) * math.cos(angle))


ACTIVATIONS: dict[str, tuple[Any, Activation]] = {
    "inverse-polynomial": (inverse_polynomial(), defined_inverse_polynomial),
    "polynomial": (polynomial([0.3, 0.5, 0.2]), defined_polynomial),
    "arc-cosine": (arc_cosine(1), defined_arc_cosine),
}


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("empty_walks", ["keep", "zero"])
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_recursion_over_node_pairs(
    num_layers: int, order: int, combine: str, empty_walks: str, name: str
) -> None:
    """With edge features in every second case; a small decay tames polynomials of degree 2^9."""
    activation, defined = ACTIVATIONS[name]
    edges = "edge_attr" if (num_layers + order) % 2 else None
    decay = 0.01 if name == "polynomial" else 0.4
    kernel = DeepGraphKernel(
        num_layers, order, decay, combine, activation, empty_walks, edge_feature=edges
    )
    graphs = [g.clone() for g in GRAPHS]
    for graph in graphs:
        graph.x = 0.5 * graph.x
    expected = gram(
        lambda x, y: deep_graph_kernel(
            x, y, num_layers, order, decay, combine, defined, empty_walks, edge_feature=edges
        ),
        graphs,
        graphs,
    )
    assert expected.isfinite().all()
    close(kernel(graphs), expected)
    close(kernel(graphs[:2], graphs[1:]), expected[:2, 1:])
    close(kernel.diagonal(graphs), expected.diagonal())


@pytest.mark.parametrize("nodes", ["x", "kind", "kind_vector"])
@pytest.mark.parametrize("edges", [None, "edge_attr", "length", "bond", "bond_vector"])
@pytest.mark.parametrize("combine", ["mul", "add"])
def test_sorts_of_features(nodes: str, edges: str | None, combine: str) -> None:
    kernel = DeepGraphKernel(2, 2, 0.4, combine, node_feature=nodes, edge_feature=edges)
    expected = gram(
        lambda x, y: deep_graph_kernel(
            x,
            y,
            2,
            2,
            0.4,
            combine,
            defined_inverse_polynomial,
            node_feature=nodes,
            edge_feature=edges,
        ),
        GRAPHS,
        GRAPHS,
    )
    close(kernel(GRAPHS), expected)


def test_defaults() -> None:
    """Two layers of walks of two nodes, added, decay 0.5, the inverse polynomial; edges unread."""
    expected = gram(
        lambda x, y: deep_graph_kernel(x, y, 2, 2, 0.5, "add", defined_inverse_polynomial),
        GRAPHS,
        GRAPHS,
    )
    close(DeepGraphKernel()(GRAPHS), expected)
    close(DeepGraphKernel()(Batch.from_data_list(GRAPHS)), expected)
    close(DeepGraphKernel(activation=inverse_polynomial())(GRAPHS), expected)


def test_arc_cosine_of_degree_0() -> None:
    """Between equal nodes of two graphs the angle is the root of a rounding error, 1e-8."""

    def defined(k: float, k_x: float, k_y: float) -> float:
        return 1 - math.acos(max(-1.0, min(1.0, k / math.sqrt(k_x * k_y)))) / math.pi

    graphs = [random_data(seed) for seed in range(3)]
    expected = gram(lambda x, y: deep_graph_kernel(x, y, 2, 2, 0.4, "add", defined), graphs, graphs)
    found = DeepGraphKernel(2, 2, 0.4, activation=arc_cosine(0))(graphs)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    different = ~torch.eye(3, dtype=torch.bool)
    close(found[different], expected[different])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("edges", [None, "edge_attr"])
@pytest.mark.parametrize("empty_walks", ["keep", "zero"])
def test_without_activation_it_is_the_random_walk_kernel(
    order: int, edges: str | None, empty_walks: str
) -> None:
    """One multiplicative layer with K_σ = K; both sides' code, and walks one by one."""
    linear = polynomial([0.0, 1.0])
    deep = DeepGraphKernel(1, order, 0.4, "mul", linear, empty_walks, edge_feature=edges)
    walk = RandomWalkKernel(order, 0.4, edge_feature=edges)
    close(deep(GRAPHS), walk(GRAPHS))
    close(
        deep(GRAPHS),
        gram(lambda x, y: random_walk_kernel(x, y, order, 0.4, edge_feature=edges), GRAPHS, GRAPHS),
    )


@pytest.mark.parametrize("combine", ["mul", "add"])
def test_nodes_that_end_no_walk(combine: str) -> None:
    """An edge 0 -> 1: only node 1 ends a walk of two nodes, and no node one of three."""
    graph = Data(x=torch.tensor([[1.0], [2.0]]).double(), edge_index=torch.tensor([[0], [1]]))
    quadratic = polynomial([0.25, 0.0, 1.0])

    def value(order: int, empty_walks: str) -> float:
        kernel = DeepGraphKernel(1, order, 0.5, combine, quadratic, empty_walks)
        return kernel([graph], [graph]).item()

    def sigma(k: float) -> float:
        return 0.25 + k * k

    end = 4 * 0.5 * sigma(1) if combine == "mul" else 4 + 0.5 * sigma(1)
    kept = 0 if combine == "mul" else 1
    mixed = 0 if combine == "mul" else 2
    assert value(2, "keep") == sigma(end) + sigma(kept) + 2 * sigma(mixed)
    assert value(2, "zero") == sigma(end) + 3 * 0.25
    assert value(3, "zero") == 4 * 0.25
    if combine == "add":
        assert value(3, "keep") == sigma(4 + 0.5 * sigma(1)) + sigma(1) + 2 * sigma(2)


@pytest.mark.parametrize("empty_walks", ["keep", "zero"])
def test_normalised(empty_walks: str) -> None:
    expected = gram(
        lambda x, y: deep_graph_kernel(
            x, y, 2, 2, 0.4, "mul", defined_inverse_polynomial, empty_walks
        ),
        GRAPHS,
        GRAPHS,
    )
    expected = cosine(expected, expected.diagonal(), expected.diagonal())
    kernel = DeepGraphKernel(2, 2, 0.4, "mul", empty_walks=empty_walks, normalize=True)
    close(kernel(GRAPHS), expected)
    close(kernel(GRAPHS[:3], GRAPHS[2:]), expected[:3, 2:])
    assert kernel.diagonal(GRAPHS).tolist() == pytest.approx(
        [float(g.num_nodes > 0) for g in GRAPHS]
    )


def test_permuted_nodes_and_edges() -> None:
    generator = torch.Generator().manual_seed(0)
    kernel = DeepGraphKernel(2, 3, 0.4, "add", empty_walks="zero", edge_feature="edge_attr")
    for graph in GRAPHS[:3]:
        new = torch.randperm(graph.num_nodes, generator=generator)
        order = torch.randperm(graph.num_edges, generator=generator)
        x = torch.empty_like(graph.x)
        x[new] = graph.x
        index = new[graph.edge_index][:, order]
        other = Data(x=x, edge_index=index, edge_attr=graph.edge_attr[order])
        close(kernel([other], GRAPHS), kernel([graph], GRAPHS))


def test_gradients() -> None:
    """Of x and of edge features, by finite differences of the definition."""
    graph, other = random_data(0), random_data(1)
    graph.x.requires_grad_()
    graph.edge_attr.requires_grad_()
    kernel = DeepGraphKernel(2, 2, 0.4, edge_feature="edge_attr")
    found = torch.autograd.grad(kernel([graph], [other])[0, 0], [graph.x, graph.edge_attr])
    generator = torch.Generator().manual_seed(3)
    direction = [torch.randn(g.shape, generator=generator, dtype=g.dtype) for g in found]

    def value(step: float) -> float:
        x, edge_attr = (
            t.detach() + step * d
            for t, d in zip([graph.x, graph.edge_attr], direction, strict=True)
        )
        moved = Data(x=x, edge_index=graph.edge_index, edge_attr=edge_attr)
        options = {"activation": defined_inverse_polynomial, "edge_feature": "edge_attr"}
        return deep_graph_kernel(moved, other, 2, 2, 0.4, "add", **options)

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    total = sum((g * d).sum().item() for g, d in zip(found, direction, strict=True))
    assert math.isclose(total, slope, rel_tol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"num_layers": 0},
        {"order": 0},
        {"order": 2.0},
        {"decay": -1.0},
        {"decay": float("nan")},
        {"combine": "max"},
        {"empty_walks": "drop"},
        {"edge_feature": "absent"},
        {"node_feature": "absent"},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_errors(options: dict[str, Any]) -> None:
    (name,) = options
    message = "graph 0.*absent" if name.endswith("feature") else name
    with pytest.raises(ValueError, match=message):
        DeepGraphKernel(**options)(GRAPHS[:2])


def test_bad_graphs() -> None:
    nan = random_data(1)
    nan.x[0, 0] = float("nan")
    with pytest.raises(ValueError, match="graph 1"):
        DeepGraphKernel()([random_data(0), nan])
    with pytest.raises(ValueError, match="at least one graph"):
        DeepGraphKernel()([])
    with pytest.raises(ValueError, match="graph 1"):
        DeepGraphKernel()([random_data(0), random_data(1, channels=4)])


def test_too_large_for_the_plain_inverse_polynomial() -> None:
    """1 / (2 - K) needs K(x, x) < 2."""
    with pytest.raises(ValueError, match="2"):
        DeepGraphKernel(activation=inverse_polynomial(normalize=False))(GRAPHS[:2])
