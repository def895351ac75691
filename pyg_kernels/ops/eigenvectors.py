"""Eigenvectors of a symmetric matrix of each graph of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pyg_kernels::eigenvectors", mutates_args=())
def eigenvectors(
    diagonal: Tensor,
    coupling: Tensor,
    source: Tensor,
    target: Tensor,
    graph: Tensor,
    place: Tensor,
) -> Tensor:
    """Some eigenvectors of each graph's matrix, of unit length, node by node.

    They are held in gradients, which is right for what is the same to first order whatever they
    are, as eigenvalues are.

    Args:
        diagonal: The entries of nodes, float64 of shape :obj:`(N,)`.
        coupling: The entries of edges, :obj:`(E,)`, half of each on either side of the diagonal;
            those of one place are added up.
        source: The node that each edge leaves, int64 of shape :obj:`(E,)`.
        target: The node that it reaches, in the same graph.
        graph: The graph of each node, int64 of shape :obj:`(N,)`, in any order.
        place: Which of a graph's eigenvectors, by eigenvalues from the highest, int64 of shape
            :obj:`(B, K)`.

    Returns:
        Their numbers, :obj:`(N, K)`; NaN for a graph with a number that is not finite.

    Raises:
        ValueError: For an edge between two graphs.
        NotImplementedError: In a backward that is to have derivatives: it would lack a part.
    """
    of_edge = graph[source]
    if not of_edge.equal(graph[target]):
        raise ValueError("edge_index joins two graphs of the batch: they have no levels")
    size = torch.bincount(graph, minlength=place.size(0))
    first, order = size.cumsum(0) - size, torch.sort(graph, stable=True)[1]
    position = torch.empty_like(graph)
    position[order] = torch.arange(len(graph), device=graph.device) - first[graph[order]]
    found = diagonal.new_empty(len(graph), place.size(1))
    for nodes in size.unique().tolist():  # graphs of one size at a time
        if nodes:
            graphs = (size == nodes).nonzero()[:, 0]
            row = torch.full_like(size, -1)
            row[graphs] = torch.arange(len(graphs), device=graph.device)
            rows = order[first[graphs].unsqueeze(1) + torch.arange(nodes, device=graph.device)]
            edges = (row[of_edge] >= 0).nonzero()[:, 0]
            where = row[of_edge[edges]], position[target[edges]], position[source[edges]]
            matrix = torch.diag_embed(diagonal[rows])
            matrix.index_put_(where, coupling[edges], accumulate=True)
            matrix = (matrix + matrix.transpose(1, 2)) / 2
            finite = matrix.isfinite().all(2).all(1)[:, None, None]
            vectors = torch.linalg.eigh(torch.where(finite, matrix, 0.0))[1].flip(2)
            chosen = vectors.gather(2, place[graphs].unsqueeze(1).expand(-1, nodes, -1))
            found[rows] = torch.where(finite, chosen, torch.nan)
    return found


@eigenvectors.register_fake
def _(
    diagonal: Tensor,
    coupling: Tensor,
    source: Tensor,
    target: Tensor,
    graph: Tensor,
    place: Tensor,
) -> Tensor:
    return diagonal.new_empty(graph.size(0), place.size(1))


def _held(ctx: Any, grad: Tensor) -> tuple[None, ...]:
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise NotImplementedError("levels have no second derivatives, and none by torch.func")
    return (None,) * 6


eigenvectors.register_autograd(_held)
