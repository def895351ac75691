"""Parity with GraKeL where the definitions meet; of real molecules see the benchmarks' tests."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import RandomWalkKernel, ShortestPathKernel, WLSubtreeKernel
from tests.kernels.cases import graph_collection

grakel = pytest.importorskip("grakel.kernels", reason="parity needs the extra 'test'")

# Not graphs of no nodes, which GraKeL cannot hold.
GRAPHS = [graph for graph in graph_collection() if graph.num_nodes]
WALK = {"node_feature": "kind", "edge_feature": None}


def labelled_graphs(number: int, directed: bool) -> list[Data]:
    """Random graphs without parallel edges; some nodes are isolated."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for _ in range(number):
        n = int(torch.randint(1, 12, (1,), generator=generator))
        adjacency = torch.rand(n, n, generator=generator) < 0.2
        if not directed:
            adjacency = adjacency | adjacency.t()
        kind = torch.randint(3, (n,), generator=generator)
        edges = adjacency.nonzero().t().contiguous()
        graphs.append(Data(kind=kind, edge_index=edges, num_nodes=n))
    return graphs


def as_matrices(graph: Data) -> tuple[np.ndarray, dict[int, int]]:
    """The number of edges from v to w in row v and column w, and the labels of nodes."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(adjacency, tuple(graph.edge_index.numpy()), 1.0)
    return adjacency, dict(enumerate(graph.kind.tolist()))


def pairs_of_nodes(graphs: list[Data]) -> Tensor:
    """How many more pairs of nodes there are than pairs of equal labels: GraKeL counts them all."""
    every, alike = (RandomWalkKernel(1, node_feature=name)(graphs) for name in (None, "kind"))
    return every - alike


def same(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_subtree_kernel(directed: bool, iterations: int) -> None:
    """Integers are equal to the last bit; what GraKeL calls neighbors are to us the sources."""
    graphs = labelled_graphs(40, directed)
    inputs = [(matrix.T, labels) for matrix, labels in map(as_matrices, graphs)]
    options = {"n_iter": iterations, "base_graph_kernel": grakel.VertexHistogram}
    expected = grakel.WeisfeilerLehman(**options).fit_transform(inputs)
    assert np.array_equal(WLSubtreeKernel(iterations, "kind")(graphs), expected)
    expected = grakel.WeisfeilerLehman(**options, normalize=True).fit_transform(inputs)
    same(WLSubtreeKernel(iterations, "kind", normalize=True)(graphs), expected, 1e-12)
    expected = grakel.WeisfeilerLehmanOptimalAssignment(n_iter=iterations).fit_transform(inputs)
    same(WLSubtreeKernel(iterations, "kind", compare="min")(graphs), expected)


def test_shortest_paths() -> None:
    """Graphs with paths: GraKeL normalises 0 to NaN."""
    for normalize in (False, True):
        ours = ShortestPathKernel(node_label="kind", normalize=normalize)
        graphs = [g for g in labelled_graphs(40, directed=False) if any(ours.diagonal([g]))]
        theirs = grakel.ShortestPath(normalize=normalize, algorithm_type="floyd_warshall")
        same(ours(graphs), theirs.fit_transform(list(map(as_matrices, graphs))))


@pytest.mark.parametrize(
    ("graphs", "steps"),
    [(labelled_graphs(12, True), 1), (labelled_graphs(12, False), 4), (GRAPHS, 2)],
    ids=["directed", "undirected", "parallel edges"],
)
def test_random_walk_kernel(graphs: list[Data], steps: int) -> None:
    """RandomWalkLabeled(p, lamda) is |V| |V'| + Σ_{n=2}^{p+1} K_W^n with λ = lamda.

    Its walks have 0 to p steps, ours 1 to n nodes, so n = p + 1, with the same weights. Only
    walks of no step differ: there GraKeL does not look at labels and counts every pair of nodes.
    Parallel edges are weights of its adjacency matrices.
    """
    inputs = list(map(as_matrices, graphs))
    for decay in (0.1, 0.7):
        expected = grakel.RandomWalkLabeled(p=steps, lamda=decay).fit_transform(inputs)
        summed = RandomWalkKernel(steps + 1, decay, sum_orders=True, **WALK)(graphs)
        same(summed + pairs_of_nodes(graphs), expected)
    # All orders: its baselines, which invert the matrix of the product graph.
    most = max(np.abs(np.linalg.eigvals(adjacency)).max() for adjacency, _ in inputs)
    options = {"lamda": 0.8 / most**2, "method_type": "baseline"}
    found = RandomWalkKernel(None, options["lamda"], node_feature=None, edge_feature=None)(graphs)
    same(found, grakel.RandomWalk(**options).fit_transform(inputs))
    found = RandomWalkKernel(None, options["lamda"], **WALK)(graphs) + pairs_of_nodes(graphs)
    same(found, grakel.RandomWalkLabeled(**options).fit_transform(inputs))
