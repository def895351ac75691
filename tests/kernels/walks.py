"""The independent side of the graph kernels: walks one by one, and recursions over node pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor
from torch_geometric.data import Data

from tests.graphs import Graph
from tests.walk_kernels import walks

Activation = Callable[[float, float, float], float]
GraphKernel = Callable[[Data, Data], float]


def as_data(graph: Graph, **attributes: Tensor) -> Data:
    """A test graph as PyG holds it; further attributes replace those of their name."""
    known = {"x": graph.x, "edge_index": graph.edge_index, "edge_attr": graph.edge_attr}
    return Data(num_nodes=graph.num_nodes, **(known | attributes))


def random_data(
    seed: int, num_nodes: int = 6, edges: int | list[tuple[int, int]] = 9, channels: int = 3
) -> Data:
    """A directed graph with every sort of feature.

    Vectors `x` and `edge_attr`, numbers `length`, labels `kind` and `bond`, and the one-hot
    vectors `kind_vector` and `bond_vector` of those labels.

    Args:
        seed: Of features, and of edges where these are random.
        num_nodes: N.
        edges: Sources and targets, or the number of random edges: with self-loops and parallel
            edges, and the last node isolated.
        channels: Of `x`; `edge_attr` has 2.
    """
    generator = torch.Generator().manual_seed(seed)
    if isinstance(edges, int):
        edge_index = torch.randint(num_nodes - 1, (2, edges), generator=generator)
    else:
        edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    num_edges = edge_index.size(1)
    kind = torch.randint(3, (num_nodes,), generator=generator)
    bond = torch.randint(2, (num_edges,), generator=generator)
    return Data(
        num_nodes=num_nodes,
        edge_index=edge_index,
        x=torch.randn(num_nodes, channels, generator=generator, dtype=torch.float64),
        edge_attr=torch.randn(num_edges, 2, generator=generator, dtype=torch.float64),
        length=torch.rand(num_edges, generator=generator, dtype=torch.float64),
        kind=kind,
        bond=bond,
        kind_vector=torch.eye(3, dtype=torch.float64)[kind],
        bond_vector=torch.eye(2, dtype=torch.float64)[bond],
    )


def graph_collection() -> list[Data]:
    """Random graphs, then awkward ones: no nodes, no edges, two loops on one node, one edge."""
    return [
        random_data(0),
        random_data(1, 8, 12),
        random_data(2, 5, 11),
        random_data(3, 0, []),
        random_data(4, 3, []),
        random_data(5, 1, [(0, 0), (0, 0)]),
        random_data(6, 3, [(0, 1)]),
    ]


def both_ways(graph: Data) -> Data:
    """The graph with every edge in both directions, self-loops twice."""
    found = graph.clone()
    found.edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    for name in ("edge_attr", "length", "bond", "bond_vector"):
        found[name] = torch.cat([graph[name], graph[name]])
    return found


def product_adjacency(
    first: Data, second: Data, node_feature: str, edge_feature: str | None
) -> tuple[Tensor, Tensor]:
    """Of the labelled direct product graph: the features of its nodes, and who leads to whom."""
    nodes, edges = (
        torch.tensor(values, dtype=torch.float64)
        for values in pair_features(first, second, node_feature, edge_feature)
    )
    size = (first.num_nodes, second.num_nodes)
    base = nodes.reshape(size)
    along = torch.zeros(*size, *size, dtype=torch.float64)
    for e, (u, v) in enumerate(first.edge_index.t().tolist()):
        for d, (s, t) in enumerate(second.edge_index.t().tolist()):
            along[v, t, u, s] += edges[e, d]
    return base.flatten(), (base[:, :, None, None] * along).reshape(base.numel(), base.numel())


def chain(nodes: Tensor, edges: Tensor | None = None) -> Data:
    """The directed reference walk: row j of `nodes` (n, F), then row j of `edges` (n - 1, D)."""
    first = torch.arange(len(nodes) - 1)
    return Data(x=nodes, edge_index=torch.stack([first, first + 1]), edge_attr=edges)


def gram(kernel: GraphKernel, xs: Iterable[Data], ys: Iterable[Data]) -> Tensor:
    ys = list(ys)
    rows = [[kernel(x, y) for y in ys] for x in xs]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(ys))


def cosine(values: Tensor, x_diagonal: Tensor, y_diagonal: Tensor) -> Tensor:
    """K(x, y) / sqrt(K(x, x) K(y, y)), or 0 where the root is 0."""
    root = (x_diagonal[:, None] * y_diagonal[None]).sqrt()
    return torch.where(root > 0, values / root.where(root > 0, torch.ones_like(root)), 0.0)


def similarities(first: Tensor, second: Tensor) -> list[list[float]]:
    """Inner products of vectors (rows, or single floats), or whether labels are equal."""
    if first.dim() == 1 and not first.is_floating_point():
        return (first[:, None] == second[None]).double().tolist()
    rows = [t.double() if t.dim() == 2 else t.double()[:, None] for t in (first, second)]
    return (rows[0] @ rows[1].t()).tolist()


def pair_features(
    first: Data, second: Data, node_feature: str, edge_feature: str | None
) -> tuple[list[list[float]], list[list[float]]]:
    """The inner products of all pairs of nodes, and those of all pairs of edges."""
    nodes = similarities(first[node_feature], second[node_feature])
    if edge_feature is None:
        return nodes, torch.ones(first.num_edges, second.num_edges).tolist()
    return nodes, similarities(first[edge_feature], second[edge_feature])


def random_walk_kernel(
    first: Data,
    second: Data,
    order: int,
    decay: float,
    node_feature: str = "x",
    edge_feature: str | None = None,
    non_backtracking: bool = False,
) -> float:
    """Lei et al. 2017, eq. 5, with edge features: pairs of walks of `order` nodes, one by one."""
    nodes, edges = pair_features(first, second, node_feature, edge_feature)
    own, others = (
        walks(g.edge_index, g.num_nodes, order, non_backtracking) for g in (first, second)
    )
    total = 0.0
    for path, steps in own:
        for other_path, other_steps in others:
            value = prod(nodes[v][w] for v, w in zip(path, other_path, strict=True))
            total += value * prod(edges[e][d] for e, d in zip(steps, other_steps, strict=True))
    return decay ** (order - 1) * total


def incoming(graph: Data) -> list[list[tuple[int, int]]]:
    """For each node the edges that end there: their sources and numbers."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    for edge, (source, target) in enumerate(graph.edge_index.t().tolist()):
        found[target].append((source, edge))
    return found


def deep_graph_kernel(
    first: Data,
    second: Data,
    num_layers: int,
    order: int,
    decay: float,
    combine: str,
    activation: Activation,
    empty_walks: str = "keep",
    node_feature: str = "x",
    edge_feature: str | None = None,
) -> float:
    """Lei et al. 2017, section 3.3 and supplement E: the sum of the local kernels K_σ^(L, n).

    K_σ^(0) = <f, f'>; K^(l, 1) = K_σ^(l - 1);
    K^(l, j)(v, v') = K_σ^(l - 1)(v, v') o λ Σ_u Σ_u' <e, e'> K_σ^(l, j - 1)(u, u').

    Args:
        activation: K_σ of K(v, v'), K(v, v) and K(v', v').
        empty_walks: 'zero' makes K^(l, j)(v, v') 0 where no walk of j nodes ends in v, or in v'.
    """
    graphs = (first, second)
    arriving = [incoming(graph) for graph in graphs]
    lasts = [
        [{path[-1] for path, _ in walks(g.edge_index, g.num_nodes, j)} for j in range(order + 1)]
        for g in graphs
    ]
    features = {
        (a, b): pair_features(graphs[a], graphs[b], node_feature, edge_feature)
        for a in (0, 1)
        for b in (0, 1)
    }

    @cache
    def before(a: int, v: int, b: int, w: int, layer: int, step: int) -> float:
        ends = v in lasts[a][step] and w in lasts[b][step]
        if empty_walks == "zero" and not ends:
            return 0.0
        own = after(a, v, b, w, layer - 1, order)
        if step == 1:
            return own
        total = 0.0
        for u, e in arriving[a][v]:
            for s, d in arriving[b][w]:
                total += features[a, b][1][e][d] * after(a, u, b, s, layer, step - 1)
        return own * decay * total if combine == "mul" else own + decay * total

    @cache
    def after(a: int, v: int, b: int, w: int, layer: int, step: int) -> float:
        if layer == 0:
            return features[a, b][0][v][w]
        return activation(
            before(a, v, b, w, layer, step),
            before(a, v, a, v, layer, step),
            before(b, w, b, w, layer, step),
        )

    return sum(
        after(0, v, 1, w, num_layers, order)
        for v in range(first.num_nodes)
        for w in range(second.num_nodes)
    )


def generalized_relabelling(
    graph: Data,
    own: Tensor,
    aggregated: Tensor,
    neighbour: Tensor,
    act: Callable[[Tensor], Tensor],
    combine: str = "add",
    edge_feature: str | None = None,
) -> Data:
    """Lei et al. 2017, eq. 10, node by node: σ(U_1 f_v o U_2 Σ_u σ(V [f_u, e_uv]))."""
    labels = []
    for v, edges in enumerate(incoming(graph)):
        total = torch.zeros(len(neighbour), dtype=torch.float64)
        for u, edge in edges:
            message = graph.x[u]
            if edge_feature is not None:
                message = torch.cat([message, graph[edge_feature][edge].reshape(-1)])
            total = total + act(neighbour @ message)
        f, rest = own @ graph.x[v], aggregated @ total
        labels.append(act(f + rest if combine == "add" else f * rest))
    found = graph.clone()
    found.x = torch.stack(labels) if labels else torch.zeros(0, len(own), dtype=torch.float64)
    return found


def iterated(graph: Data, relabel: Callable[[Data], Data], num_iterations: int) -> list[Data]:
    """r^0(G), ..., r^h(G)."""
    found = [graph]
    for _ in range(num_iterations):
        found.append(relabel(found[-1]))
    return found


def weighted(coefficients: Sequence[float], vector: Tensor) -> Tensor:
    """The direct sum of the tensor powers c_k v^{(x)k}, without the powers where c_k is 0."""
    parts, power = [], torch.ones(1, dtype=torch.float64)
    for k, coefficient in enumerate(coefficients):
        if k > 0:
            power = torch.outer(power, vector).flatten()
        if coefficient != 0:
            parts.append(coefficient * power)
    return torch.cat(parts)


def close(found: Tensor, expected: Tensor) -> None:
    """Equal to 1e-10; sums of terms of both signs to 1e-12 of the largest value."""
    scale = max([1.0, *expected.detach().abs().flatten().tolist()])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12 * scale)
