"""The independent side of the Weisfeiler-Lehman kernel: patterns spelled out as strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from tests.kernels.walks import incoming


def spelled(labels: Tensor) -> list[str]:
    """One string a label; rows of numbers are labels too, and -0.0 is 0."""
    return [str(label) for label in (labels + 0).tolist()]


def patterns(
    graph: Data, num_iterations: int, node_label: str | None, edge_label: str | None = None
) -> list[list[str]]:
    """For each iteration 0..h the pattern of every node, one inside the other."""
    labels = ["node"] * graph.num_nodes if node_label is None else spelled(graph[node_label])
    bonds = ["edge"] * graph.num_edges if edge_label is None else spelled(graph[edge_label])
    found = [labels]
    for _ in range(num_iterations):
        labels = [
            f"<{labels[v]} | {' & '.join(sorted(f'{bonds[e]}: {labels[u]}' for u, e in edges))}>"
            for v, edges in enumerate(incoming(graph))
        ]
        found.append(labels)
    return found


def pattern_counts(
    graph: Data, num_iterations: int, node_label: str | None, edge_label: str | None = None
) -> Counter[tuple[int, str]]:
    """How many nodes have each pattern, patterns of different iterations apart."""
    rounds = patterns(graph, num_iterations, node_label, edge_label)
    return Counter((i, pattern) for i, labels in enumerate(rounds) for pattern in labels)


def subtree_kernel(first: Counter[tuple[int, str]], second: Counter[tuple[int, str]]) -> float:
    return float(sum(count * second[pattern] for pattern, count in first.items()))


def subtree_gram(
    xs: Sequence[Data],
    ys: Sequence[Data],
    num_iterations: int,
    node_label: str | None = "x",
    edge_label: str | None = None,
) -> Tensor:
    left, right = (
        [pattern_counts(g, num_iterations, node_label, edge_label) for g in graphs]
        for graphs in (xs, ys)
    )
    rows = [[subtree_kernel(x, y) for y in right] for x in left]
    return torch.tensor(rows, dtype=torch.float64)
