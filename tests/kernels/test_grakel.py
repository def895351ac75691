"""Parity with GraKeL where the definitions meet, and its reported faults, which are absent here."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    DiscreteRelabeling,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLKernel,
    WLSubtreeKernel,
)
from tests.kernels.cases import graph_collection

GRAPHS = graph_collection()


@pytest.fixture(scope="session")
def grakel() -> Any:
    return pytest.importorskip("grakel.kernels", reason="parity needs the extra 'test'")


def labelled_graphs(number: int, directed: bool) -> list[Data]:
    """Random graphs without parallel edges, which GraKeL cannot hold; some nodes are isolated."""
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


def as_dictionaries(graph: Data, labels: Tensor) -> tuple[dict, dict]:
    """Labels, and for each node those that GraKeL calls its neighbours: ours, the sources."""
    edges: dict[int, dict[int, float]] = {v: {} for v in range(graph.num_nodes)}
    for source, target in graph.edge_index.t().tolist():
        edges[target][source] = 1.0
    return edges, dict(enumerate(labels.tolist()))


def as_matrices(graph: Data) -> tuple[np.ndarray, dict[int, int]]:
    """The adjacency matrix, with the number of edges from v to w in row v and column w."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    for source, target in graph.edge_index.t().tolist():
        adjacency[source, target] += 1.0
    return adjacency, dict(enumerate(graph.kind.tolist()))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_subtree_kernel(grakel: Any, directed: bool, iterations: int) -> None:
    graphs = labelled_graphs(40, directed)
    inputs = [as_dictionaries(g, g.kind) for g in graphs]
    options = {"n_iter": iterations, "base_graph_kernel": grakel.VertexHistogram}
    ours = WLSubtreeKernel(iterations, "kind")
    expected = grakel.WeisfeilerLehman(**options).fit_transform(inputs)
    assert np.array_equal(ours(graphs).numpy(), expected)
    features = ours.fit_transform(graphs)
    assert np.array_equal((features @ features.T).toarray(), expected)
    unit = grakel.WeisfeilerLehman(**options, normalize=True).fit_transform(inputs)
    ours = WLSubtreeKernel(iterations, "kind", normalize=True)
    np.testing.assert_allclose(ours(graphs).numpy(), unit, rtol=1e-12)
    features = ours.fit_transform(graphs)
    np.testing.assert_allclose((features @ features.T).toarray(), unit, rtol=1e-12)
    theirs = grakel.WeisfeilerLehman(**options)
    theirs.fit(inputs[:30])
    ours = WLSubtreeKernel(iterations, "kind", output="gram").fit(graphs[:30])
    assert np.array_equal(ours.transform(graphs[30:]), theirs.transform(inputs[30:]))
    theirs = grakel.WeisfeilerLehmanOptimalAssignment(n_iter=iterations)
    ours = WLSubtreeKernel(iterations, "kind", compare="min")
    np.testing.assert_allclose(ours(graphs), theirs.fit_transform(inputs), rtol=1e-10)


def test_histograms(grakel: Any) -> None:
    graphs = [graph for graph in GRAPHS if graph.num_nodes]
    bonds = [dict(enumerate(graph.bond.tolist())) for graph in graphs]
    inputs = [[*as_dictionaries(g, g.kind), bond] for g, bond in zip(graphs, bonds, strict=True)]
    nodes, edges = (
        theirs().fit_transform(inputs) for theirs in (grakel.VertexHistogram, grakel.EdgeHistogram)
    )
    for ours in (LabelSequenceKernel(1, "kind"), WLSubtreeKernel(0, "kind")):
        assert np.array_equal(ours(graphs), nodes)
    assert np.array_equal(LabelSequenceKernel(2, None, "bond", min_nodes=2)(graphs), edges)


@pytest.mark.parametrize("normalize", [False, True])
def test_shortest_paths(grakel: Any, normalize: bool) -> None:
    """Graphs with paths: GraKeL normalises 0 to NaN."""
    ours = ShortestPathKernel(node_label="kind", normalize=normalize)
    graphs = labelled_graphs(40, directed=False)
    graphs = [g for g in graphs if any(ours.diagonal(g))]
    theirs = grakel.ShortestPath(normalize=normalize, algorithm_type="floyd_warshall")
    expected = theirs.fit_transform([as_matrices(g) for g in graphs])
    np.testing.assert_allclose(ours(graphs), expected, rtol=1e-10)


@pytest.fixture(scope="module")
def molecules(real_data: Path) -> list[Data]:
    """Every ninth molecule of CEP, 3,000 of them."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import MoleculeDataset

    path = real_data / "molecules" / "cep-processed.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with open(path, newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][::9][:3000]
    assert len(smiles) == 3000
    return list(MoleculeDataset.from_smiles(smiles, num_workers=1))


def test_subtree_kernel_on_real_molecules(grakel: Any, molecules: list[Data]) -> None:
    """Integers, so equal to the last bit; rows of atom features are the labels."""
    rows = torch.cat([m.x for m in molecules])
    labels = torch.unique(rows, dim=0, return_inverse=True)[1]
    parts = labels.split([m.num_nodes for m in molecules])
    inputs = [as_dictionaries(m, part) for m, part in zip(molecules, parts, strict=True)]
    options = {"n_iter": 3, "base_graph_kernel": grakel.VertexHistogram}
    expected = grakel.WeisfeilerLehman(**options).fit_transform(inputs)
    kernel = WLSubtreeKernel(3)
    assert np.array_equal(kernel(molecules).numpy(), expected)
    features = kernel.fit_transform(molecules)
    assert np.array_equal((features @ features.T).toarray(), expected)

    root = np.sqrt(expected.diagonal())
    found = WLSubtreeKernel(3, normalize=True)(molecules).double().numpy()
    np.testing.assert_allclose(found, expected / np.outer(root, root), rtol=1e-12)
    few = grakel.WeisfeilerLehman(**options, normalize=True).fit_transform(inputs[:300])
    np.testing.assert_allclose(found[:300, :300], few, rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("kind", ["directed", "undirected", "parallel edges"])
def test_random_walk_kernel(grakel: Any, steps: int, kind: str) -> None:
    """RandomWalkLabeled(p, lamda) is |V| |V'| + Σ_{n=2}^{p+1} K_W^n with λ = lamda.

    Its walks have 0 to p steps, ours 1 to n nodes, so n = p + 1, with the same weights. Only
    walks of no step differ: there GraKeL does not look at labels and counts every pair of nodes.
    Parallel edges are weights of its adjacency matrices.
    """
    graphs = labelled_graphs(12, kind == "directed")
    graphs = [g for g in GRAPHS if g.num_nodes] if kind == "parallel edges" else graphs
    inputs = [as_matrices(g) for g in graphs]
    for decay in (0.1, 0.7):
        expected = grakel.RandomWalkLabeled(p=steps, lamda=decay).fit_transform(inputs)
        options = {"decay": decay, "node_feature": "kind", "edge_feature": None}
        summed = RandomWalkKernel(steps + 1, sum_orders=True, **options)(graphs)
        sizes = torch.tensor([g.num_nodes for g in graphs], dtype=torch.float64)
        found = summed - RandomWalkKernel(1, **options)(graphs) + torch.outer(sizes, sizes)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("directed", [False, True])
def test_geometric_kernel(grakel: Any, directed: bool) -> None:
    """All orders: GraKeL's baselines, which invert the matrix of the product graph.

    Without labels both are the same. With them GraKeL's walks of no step are every pair of nodes.
    """
    graphs = labelled_graphs(12, directed)
    inputs = [as_matrices(g) for g in graphs]
    radius = max(np.abs(np.linalg.eigvals(adjacency)).max() for adjacency, _ in inputs)
    options = {"lamda": 0.8 / radius**2, "method_type": "baseline"}
    expected = grakel.RandomWalk(**options).fit_transform(inputs)
    found = RandomWalkKernel(None, 0.8 / radius**2, node_feature=None)(graphs)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    expected = grakel.RandomWalkLabeled(**options).fit_transform(inputs)
    found = RandomWalkKernel(None, 0.8 / radius**2, node_feature="kind")(graphs)
    sizes = torch.tensor([g.num_nodes for g in graphs], dtype=torch.float64)
    alike = RandomWalkKernel(1, node_feature="kind")(graphs)
    np.testing.assert_allclose(found - alike + torch.outer(sizes, sizes), expected, rtol=1e-10)


def test_two_graphs_that_show_the_difference(grakel: Any) -> None:
    """Single nodes with different labels: GraKeL finds them as alike as equal ones, 1."""
    none = torch.zeros(2, 0).long()
    graphs = [Data(kind=torch.tensor([k]), edge_index=none, num_nodes=1) for k in (0, 1)]
    theirs = grakel.RandomWalkLabeled(p=2, lamda=0.5).fit_transform(
        [as_matrices(g) for g in graphs]
    )
    ours = RandomWalkKernel(3, 0.5, sum_orders=True, node_feature="kind")(graphs)
    assert theirs.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert ours.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_edge_labels_change_the_wl_kernel() -> None:
    """A fault that its users reported. Rings of four equal nodes, whose bonds are equal, alternate,
    or come in pairs.
    """
    ring = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    orders = [[1, 1, 1, 1], [1, 2, 1, 2], [1, 1, 2, 2]]
    nodes = {"kind": torch.zeros(4).long(), "num_nodes": 4, "edge_index": ring}
    graphs = [Data(bond=torch.tensor(order).repeat_interleave(2), **nodes) for order in orders]
    walk = RandomWalkKernel(1, node_feature="kind")
    expected = {None: [[48] * 3] * 3, "bond": [[48, 16, 20], [16, 48, 24], [20, 24, 28]]}
    for label, gram in expected.items():
        for kernel in (
            WLSubtreeKernel(2, "kind", label),
            WLKernel(walk, DiscreteRelabeling("kind", label), 2),
        ):
            assert kernel(graphs).tolist() == gram
