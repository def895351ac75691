"""The attributions on graphs by definition: every walk's value, one by one, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.nn import GatedWalkConv, RandomWalkConv
from tests.graphs import Graph
from tests.walk_kernels import walks

#: An activation, and its slope at a number.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor] | None, Callable[[float], float]]] = {
    "identity": (None, lambda z: 1.0),
    "relu": (torch.nn.ReLU(), lambda z: 1.0 if z > 0 else 0.0),
    "leaky": (torch.nn.LeakyReLU(0.3), lambda z: 1.0 if z > 0 else 0.3),
    "abs": (torch.abs, lambda z: 1.0 if z > 0 else -1.0 if z < 0 else 0.0),
}


@dataclass
class Value:
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    value: float


def random_conv(gated: bool, order: int, act: str = "identity", **kwargs: Any) -> RandomWalkConv:
    """A layer in float64 in which no parameter is left at zero."""
    torch.manual_seed(order)
    kind = GatedWalkConv if gated else RandomWalkConv
    conv = kind(4, 3, order=order, act=ACTIVATIONS[act][0], **kwargs).double()
    for parameter in conv.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return conv


def edge_weights(conv: RandomWalkConv, graph: Graph) -> list[Tensor]:
    """The whole weight of each edge in steps 2, ..., n, each (E, D), one edge after the other."""
    weights = []
    for step in range(conv.order - 1):
        rows = []
        for edge, (u, v) in enumerate(graph.edge_index.t().tolist()):
            if isinstance(conv, GatedWalkConv):
                gate = conv.weighting
                logit = gate.lin_source.weight @ graph.x[u] + gate.lin_target.weight @ graph.x[v]
                if conv.edge_dim is not None:
                    logit = logit + gate.lin_edge.weight @ graph.edge_attr[edge]
                row = 1 / (1 + torch.exp(-logit - gate.bias))
            else:
                row = conv.decay * graph.x.new_ones(conv.out_channels)
            if conv.edge_dim is not None:
                row = row * (conv.edge_lins[step].weight @ graph.edge_attr[edge])
            rows.append(row)
        weights.append(torch.stack(rows) if rows else graph.x.new_zeros(0, conv.out_channels))
    return weights


def slopes(
    conv: RandomWalkConv, graph: Graph, weights: list[Tensor], act: str
) -> list[list[Tensor]]:
    """The activation's slope at c_1, ..., c_{n-1} of each node, by the layer's equation."""
    function, slope = ACTIVATIONS[act]
    projections = [graph.x @ lin.weight.t() for lin in conv.lins]
    state, found = projections[0], []
    for step, projection in enumerate(projections[1:]):
        found.append([row.clone().apply_(slope) for row in state])
        passed = state if function is None else function(state)
        arrived = torch.zeros_like(state)
        for edge, (u, v) in enumerate(graph.edge_index.t().tolist()):
            arrived[v] += weights[step][edge] * passed[u]
        state = arrived * projection if conv.combine == "mul" else arrived + projection
    return found


@torch.no_grad()
def walk_values(
    conv: RandomWalkConv, graph: Graph, head: Tensor, act: str = "identity"
) -> list[Value]:
    """All walks that the layer adds up, with their values."""
    order = conv.order
    weights = edge_weights(conv, graph)
    slope = slopes(conv, graph, weights, act)
    projections = [graph.x @ lin.weight.t() for lin in conv.lins]
    found = []
    for first in [0] if conv.combine == "mul" else range(order):
        for nodes, edges in walks(graph.edge_index, graph.num_nodes, order - first):
            value = head * projections[first][nodes[0]]
            for step, edge in enumerate(edges, start=first):
                value = value * slope[step][nodes[step - first]] * weights[step][edge]
                if conv.combine == "mul":
                    value = value * projections[step + 1][nodes[step + 1]]
            found.append(Value(nodes, edges, float(value.sum())))
    return found


def shares(found: list[Value], combine: str, graph: Graph) -> tuple[Tensor, Tensor, float]:
    """What nodes and edges get of each walk, and what walks of one node add."""
    nodes = torch.zeros(graph.num_nodes, dtype=torch.float64)
    edges = torch.zeros(graph.edge_index.size(1), dtype=torch.float64)
    for walk in found:
        for node in walk.nodes if combine == "mul" else walk.nodes[:1]:
            nodes[node] += walk.value / (len(walk.nodes) if combine == "mul" else 1)
        for edge in walk.edges:
            edges[edge] += walk.value / len(walk.edges)
    return nodes, edges, sum(walk.value for walk in found if not walk.edges)


def in_order(found: list[Value]) -> list[Value]:
    """The largest absolute value first, equal ones by nodes, then by edges."""
    return sorted(found, key=lambda w: (-float(f"{abs(w.value):.8e}"), w.nodes, w.edges))


def assert_best(best: list[tuple[tuple[int, ...], float]], found: list[Value], k: int) -> None:
    expected = in_order(found)[:k]
    assert [nodes for nodes, _ in best] == [walk.nodes for walk in expected]
    values = torch.tensor([value for _, value in best], dtype=torch.float64)
    wanted = torch.tensor([walk.value for walk in expected], dtype=torch.float64)
    torch.testing.assert_close(values, wanted, rtol=1e-10, atol=1e-12)
