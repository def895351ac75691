"""The independent reference: walks enumerated one by one, in plain loops, in float64."""

import torch
from torch import Tensor

from pyg_kernels.nn import GatedWalkConv, RandomWalkConv
from tests.graphs import Graph

Walk = tuple[tuple[int, ...], tuple[int, ...]]  # nodes, edges


def walks(
    edge_index: Tensor, num_nodes: int, length: int, non_backtracking: bool = False
) -> list[Walk]:
    """All walks of `length` nodes, or only non-backtracking ones; parallel edges are distinct."""
    leaving: dict[int, list[tuple[int, int]]] = {v: [] for v in range(num_nodes)}
    for edge, (source, target) in enumerate(edge_index.t().tolist()):
        leaving[source].append((target, edge))
    found: list[Walk] = [((v,), ()) for v in range(num_nodes)]
    for _ in range(length - 1):
        found = [
            ((*nodes, target), (*edges, edge))
            for nodes, edges in found
            for target, edge in leaving[nodes[-1]]
            if not (non_backtracking and target in nodes[-2:-1])
        ]
    return found


def walk_kernel(
    x: Tensor,
    edge_index: Tensor,
    weights: list[Tensor],
    edge_weights: list[Tensor],
    combine: str = "mul",
    non_backtracking: bool = False,
) -> Tensor:
    """The kernel (D,) between the graph's walks and the reference walks, summed over walks.

    The weights W^(1), ..., W^(n) are (D, F). Full edge weights for steps 2, ..., n (decay or gate
    times bond factor) are (E, D). 'mul' sums over walks of n nodes, 'add' over the suffix walks of
    1 to n nodes.
    """
    order, num_nodes = len(weights), x.size(0)
    total = torch.zeros(weights[0].size(0), dtype=torch.float64)
    for first in [0] if combine == "mul" else range(order):
        for nodes, edges in walks(edge_index, num_nodes, order - first, non_backtracking):
            value = weights[first] @ x[nodes[0]]
            for step, edge in enumerate(edges, start=first):
                value = value * edge_weights[step][edge]
                if combine == "mul":
                    value = value * (weights[step + 1] @ x[nodes[step + 1]])
            total = total + value
    return total


def edge_weights(conv: RandomWalkConv, graph: Graph) -> list[Tensor]:
    """The full weight of each edge in steps 2, ..., n, each (E, D), computed edge by edge."""
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
