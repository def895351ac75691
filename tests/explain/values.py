"""The attributions by definition: the values of all walks and of all n-grams, in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN
from tests.graphs import Graph
from tests.sequence.rcnn import projections
from tests.string_kernels import ngrams
from tests.walk_kernels import edge_weights, walks

HEAD = torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64)
#: An activation and its slope at a number.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor] | None, Callable[[float], float]]] = {
    "identity": (None, lambda z: 1.0),
    "relu": (torch.nn.ReLU(), lambda z: 1.0 if z > 0 else 0.0),
    "leaky": (torch.nn.LeakyReLU(0.3), lambda z: 1.0 if z > 0 else 0.3),
    "abs": (torch.abs, lambda z: 1.0 if z > 0 else -1.0 if z < 0 else 0.0),
}


def close(found: Tensor, expected: Tensor | float) -> None:
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def edgeless(num_nodes: int) -> Graph:
    x = torch.randn(num_nodes, 4, dtype=torch.float64)
    return Graph(x, torch.empty(2, 0, dtype=torch.long), x.new_empty(0, 3))


@dataclass
class Value:
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    value: float


def slopes(conv: RandomWalkConv, graph: Graph, weights: list[Tensor], act: str) -> list[Tensor]:
    """The activation's slopes at c_1, ..., c_{n-1} of each node, by the layer's equation."""
    function, slope = ACTIVATIONS[act]
    source, target = graph.edge_index
    state, *others = (graph.x @ lin.weight.t() for lin in conv.lins)
    found = []
    for own, weight in zip(others, weights, strict=True):
        found.append(state.clone().apply_(slope))
        passed = state if function is None else function(state)
        arrived = torch.zeros_like(state).index_add(0, target, weight * passed[source])
        state = arrived * own if conv.combine == "mul" else arrived + own
    return found


@torch.no_grad()
def walk_values(
    conv: RandomWalkConv,
    graph: Graph,
    head: Tensor,
    act: str = "identity",
    edge_weight: Tensor | None = None,
) -> list[Value]:
    """The values of all walks that the layer adds up; each last node may have its own head."""
    order, ends = conv.order, head.expand(graph.num_nodes, -1)
    given = 1.0 if edge_weight is None else edge_weight[:, None]
    weights = [given * row for row in edge_weights(conv, graph)]
    slope = slopes(conv, graph, weights, act)
    projections = [graph.x @ lin.weight.t() for lin in conv.lins]
    found = []
    for first in [0] if conv.combine == "mul" else range(order):
        for nodes, edges in walks(graph.edge_index, graph.num_nodes, order - first):
            value = ends[nodes[-1]] * projections[first][nodes[0]]
            for step, edge in enumerate(edges, start=first):
                value = value * slope[step][nodes[step - first]] * weights[step][edge]
                if conv.combine == "mul":
                    value = value * projections[step + 1][nodes[step + 1]]
            found.append(Value(nodes, edges, float(value.sum())))
    return found


def node_shares(found: list[Value], combine: str, number: int) -> Tensor:
    """The share of each node in all walks, or of each token in all n-grams."""
    nodes = torch.zeros(number, dtype=torch.float64)
    for one in found:
        for node in one.nodes if combine == "mul" else one.nodes[:1]:
            nodes[node] += one.value / (len(one.nodes) if combine == "mul" else 1)
    return nodes


def assert_best(best: list[tuple[tuple[int, ...], float]], found: list[Value], k: int) -> None:
    """The largest absolute values come first; ties are in the order of nodes, then of edges."""
    expected = sorted(found, key=lambda w: (-float(f"{abs(w.value):.8e}"), w.nodes, w.edges))[:k]
    assert [nodes for nodes, _ in best] == [walk.nodes for walk in expected]
    values = torch.tensor([value for _, value in best], dtype=torch.float64)
    wanted = torch.tensor([walk.value for walk in expected], dtype=torch.float64)
    torch.testing.assert_close(values, wanted, rtol=1e-10, atol=1e-12)


def assert_attributed(
    found: Any, single: Tensor, every: list[Value], combine: str, graph: Graph, k: int
) -> None:
    """The attribution, with the sum of walks of one node, equals that of all walks."""
    edges = torch.zeros(graph.edge_index.size(1), dtype=torch.float64)
    for walk in every:
        for edge in walk.edges:
            edges[edge] += walk.value / len(walk.edges)
    close(found.nodes, node_shares(every, combine, graph.num_nodes))
    close(found.edges, edges)
    close(single, sum(walk.value for walk in every if not walk.edges))
    assert_best(found.walks, every, k)


@torch.no_grad()
def gates(rcnn: RCNN, x: Tensor) -> Tensor:
    """The decay of every token and channel, (T, H); recurrent gates read the previous output."""
    (cell,) = rcnn.cells
    if cell.decay_lin is None:
        return torch.as_tensor(cell.decay, dtype=x.dtype).expand(len(x), rcnn.hidden_size)
    logit = x @ cell.decay_lin.weight.t() + cell.decay_bias
    if cell.decay_recurrent is not None:
        before = torch.cat((x.new_zeros(1, rcnn.hidden_size), rcnn(x)[0][:-1]))
        logit = logit + before @ cell.decay_recurrent.weight.t()
    return torch.sigmoid(logit).expand(len(x), rcnn.hidden_size)


@torch.no_grad()
def ngram_values(rcnn: RCNN, x: Tensor, head: Tensor) -> list[Value]:
    """All n-grams that the state at the last token adds up; edges repeat the positions."""
    (cell,) = rcnn.cells
    decay, maps, last = gates(rcnn, x), projections(cell, x), len(x) - 1
    totals: dict[tuple[int, ...], float] = {}
    for order in range(1, cell.order + 1) if cell.readout == "sum" else [cell.order]:
        for first in [1] if cell.combine == "mul" else range(1, order + 1):
            for picked in ngrams(len(x), order - first + 1):
                if cell.readout == "z" and picked[-1] != last:
                    continue
                value = head * maps[first - 1][picked[0]]
                if cell.combine == "mul":
                    for step, i in enumerate(picked[1:], start=1):
                        value = value * maps[step][i]
                for r in range(picked[0], last + 1):
                    if r not in picked:
                        value = value * decay[r]
                    elif cell.normalize and not (cell.readout == "z" and r == last):
                        value = value * (1 - decay[r])
                totals[picked] = totals.get(picked, 0.0) + float(value.sum())
    return [Value(picked, picked, value) for picked, value in totals.items()]
