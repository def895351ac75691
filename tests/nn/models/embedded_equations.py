"""The independent side of the embedded networks: node by node and message by message."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tests.graphs import Graph, random_graph

Activation = Callable[[Tensor], Tensor]


def directed(seed: int, num_nodes: int, edges: list[tuple[int, int]]) -> Graph:
    """The edges as they are listed."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, 4, generator=generator, dtype=torch.float64)
    attr = torch.randn(len(edges), 3, generator=generator, dtype=torch.float64)
    return Graph(x, torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), attr)


def undirected(seed: int, num_nodes: int, bonds: list[tuple[int, int]]) -> Graph:
    """Every bond in both directions with the same features, as in molecules."""
    graph = directed(seed, num_nodes, bonds)
    index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    return Graph(graph.x, index, graph.edge_attr.repeat(2, 1))


GRAPHS: dict[str, Graph] = {
    "ring": undirected(0, 4, [(0, 1), (1, 2), (2, 0), (2, 3)]),
    "one-way": directed(1, 4, [(0, 1), (1, 2), (2, 3), (3, 1)]),
    "one-way-and-back": directed(2, 4, [(0, 1), (1, 0), (1, 2), (3, 2)]),
    "parallel": directed(3, 3, [(0, 1), (0, 1), (1, 0), (1, 2), (2, 1), (2, 1), (2, 1)]),
    "self-loops": directed(4, 3, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 1), (2, 1)]),
    "isolated": undirected(5, 5, [(0, 1), (1, 3)]),
    "no-edges": directed(6, 3, []),
    "one-edge": directed(7, 2, [(1, 0)]),
    "no-nodes": directed(8, 0, []),
    "random": random_graph(9, 6, 14),
    "kinds": random_graph(10, 6, 24, kinds=3),
}


def mean_field(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> list[Tensor]:
    """The node states of algorithm 1, one sum over neighbours after the other."""
    edges = graph.edge_index.t().tolist()
    potential = []
    for v in range(graph.num_nodes):
        value = model.lin_node.weight @ graph.x[v] + model.bias
        for edge, (_, target) in enumerate(edges):
            if bonds and target == v:
                value = value + model.lin_edge.weight @ graph.edge_attr[edge]
        potential.append(value)
    state = activated(potential, norm_of(model, 0), act)
    for t in range(1, model.num_iterations + 1):
        before = []
        for v in range(graph.num_nodes):
            value = potential[v]
            for source, target in edges:
                if target == v:
                    value = value + model.lin_message.weight @ state[source]
            before.append(value)
        state = activated(before, norm_of(model, t), act)
    return state


def loopy_bp(
    model: torch.nn.Module, graph: Graph, bonds: bool, act: Activation = torch.relu
) -> list[Tensor]:
    """The node states of algorithm 2, one message after the other."""
    edges = graph.edge_index.t().tolist()
    potential = []
    for edge, (i, _) in enumerate(edges):
        value = model.lin_node.weight @ graph.x[i] + model.bias
        if bonds:
            value = value + model.lin_edge.weight @ graph.edge_attr[edge]
        potential.append(value)
    message = activated(potential, norm_of(model, 0), act)
    for t in range(1, model.num_iterations + 1):
        before = []
        for (i, j), value in zip(edges, potential, strict=True):
            for other, (k, target) in enumerate(edges):
                if target == i and k != j:
                    value = value + model.lin_message.weight @ message[other]
            before.append(value)
        message = activated(before, norm_of(model, t), act)
    states = []
    for i in range(graph.num_nodes):
        value = model.lin_state.weight @ graph.x[i]
        for edge, (_, target) in enumerate(edges):
            if target == i:
                value = value + model.lin_arrived.weight @ message[edge]
        states.append(value)
    return activated(states, model.norm, act)


def outputs(model: torch.nn.Module, states: list[Tensor], act: Activation = torch.relu) -> Tensor:
    """From the node states of one graph to its outputs, (1, out_channels)."""
    vector = torch.zeros_like(model.bias)
    for state in states:
        vector = vector + act(model.lin_out.weight @ state)
    *norm, first, last = (m for m in model.head if any(True for _ in m.parameters()))
    vector = norm[0](vector[None]) if norm else vector[None]
    return act(vector @ first.weight.t() + first.bias) @ last.weight.t() + last.bias


def norm_of(model: torch.nn.Module, iteration: int) -> torch.nn.Module | None:
    return model.norms[iteration] if len(model.norms) else None


def activated(rows: list[Tensor], norm: torch.nn.Module | None, act: Activation) -> list[Tensor]:
    """Normalises the rows together where there is a norm, and activates each."""
    if norm is not None and rows:
        rows = list(norm(torch.stack(rows)))
    return [act(row) for row in rows]
