"""Parity with GraKeL where the definitions meet."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
)
from tests.kernels.cases import graph_collection

grakel = pytest.importorskip("grakel.kernels", reason="parity needs the extra 'test'")

# Not graphs of no nodes, which GraKeL cannot hold.
GRAPHS = [graph for graph in graph_collection() if graph.num_nodes]


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


def pairs_of_nodes(graphs: list[Data]) -> Tensor:
    """How many more pairs of nodes there are than pairs of equal labels: GraKeL counts them all."""
    every, alike = (RandomWalkKernel(1, node_feature=name)(graphs) for name in (None, "kind"))
    return every - alike


def same(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol)


def assert_same_subtrees(graphs: list[Data], inputs: list[Any], iterations: int, few: int) -> None:
    """Integers are equal to the last bit; of `few` graphs also normalized."""
    options = {"n_iter": iterations, "base_graph_kernel": grakel.VertexHistogram}
    label = "kind" if "kind" in graphs[0] else "x"
    expected = grakel.WeisfeilerLehman(**options).fit_transform(inputs)
    assert np.array_equal(WLSubtreeKernel(iterations, label)(graphs), expected)
    graphs, inputs = graphs[:few], inputs[:few]
    expected = grakel.WeisfeilerLehman(**options, normalize=True).fit_transform(inputs)
    same(WLSubtreeKernel(iterations, label, normalize=True)(graphs), expected, 1e-12)
    expected = grakel.WeisfeilerLehmanOptimalAssignment(n_iter=iterations).fit_transform(inputs)
    same(WLSubtreeKernel(iterations, label, compare="min")(graphs), expected)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_subtree_kernel(directed: bool, iterations: int) -> None:
    graphs = labelled_graphs(40, directed)
    assert_same_subtrees(graphs, [as_dictionaries(g, g.kind) for g in graphs], iterations, 30)


def test_subtree_kernel_on_real_molecules(real_data: Path) -> None:
    """Every ninth molecule of CEP, 3,000 of them; rows of atom features are the labels."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import MoleculeDataset

    path = real_data / "molecules" / "cep-processed.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with open(path, newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][::9][:3000]
    molecules = list(MoleculeDataset.from_smiles(smiles, num_workers=1))
    assert len(molecules) == 3000
    labels = torch.unique(torch.cat([m.x for m in molecules]), dim=0, return_inverse=True)[1]
    parts = labels.split([m.num_nodes for m in molecules])
    inputs = [as_dictionaries(m, part) for m, part in zip(molecules, parts, strict=True)]
    assert_same_subtrees(molecules, inputs, 3, 300)


def test_histograms() -> None:
    bonds = [dict(enumerate(graph.bond.tolist())) for graph in GRAPHS]
    inputs = [[*as_dictionaries(g, g.kind), bond] for g, bond in zip(GRAPHS, bonds, strict=True)]
    nodes, edges = (
        theirs().fit_transform(inputs) for theirs in (grakel.VertexHistogram, grakel.EdgeHistogram)
    )
    for ours in (LabelSequenceKernel(1, "kind"), WLSubtreeKernel(0, "kind")):
        assert np.array_equal(ours(GRAPHS), nodes)
    assert np.array_equal(LabelSequenceKernel(2, None, "bond", min_nodes=2)(GRAPHS), edges)


@pytest.mark.parametrize("normalize", [False, True])
def test_shortest_paths(normalize: bool) -> None:
    """Graphs with paths: GraKeL normalises 0 to NaN."""
    ours = ShortestPathKernel(node_label="kind", normalize=normalize)
    graphs = [g for g in labelled_graphs(40, directed=False) if any(ours.diagonal([g]))]
    theirs = grakel.ShortestPath(normalize=normalize, algorithm_type="floyd_warshall")
    same(ours(graphs), theirs.fit_transform([as_matrices(g) for g in graphs]))


@pytest.mark.parametrize(
    ("kind", "steps"), [("directed", 1), ("undirected", 4), ("parallel edges", 2)]
)
def test_random_walk_kernel(kind: str, steps: int) -> None:
    """RandomWalkLabeled(p, lamda) is |V| |V'| + Σ_{n=2}^{p+1} K_W^n with λ = lamda.

    Its walks have 0 to p steps, ours 1 to n nodes, so n = p + 1, with the same weights. Only
    walks of no step differ: there GraKeL does not look at labels and counts every pair of nodes.
    Parallel edges are weights of its adjacency matrices.
    """
    graphs = GRAPHS if kind == "parallel edges" else labelled_graphs(12, kind == "directed")
    inputs = [as_matrices(g) for g in graphs]
    for decay in (0.1, 0.7):
        expected = grakel.RandomWalkLabeled(p=steps, lamda=decay).fit_transform(inputs)
        options = {"decay": decay, "node_feature": "kind", "edge_feature": None}
        summed = RandomWalkKernel(steps + 1, sum_orders=True, **options)(graphs)
        same(summed + pairs_of_nodes(graphs), expected)


@pytest.mark.parametrize("directed", [False, True])
def test_geometric_kernel(directed: bool) -> None:
    """All orders: GraKeL's baselines, which invert the matrix of the product graph.

    Without labels both are the same. With them GraKeL's walks of no step are every pair of nodes.
    """
    graphs = labelled_graphs(12, directed)
    inputs = [as_matrices(g) for g in graphs]
    decay = 0.8 / max(np.abs(np.linalg.eigvals(adjacency)).max() for adjacency, _ in inputs) ** 2
    options = {"lamda": decay, "method_type": "baseline"}
    found = RandomWalkKernel(None, decay, node_feature=None)(graphs)
    same(found, grakel.RandomWalk(**options).fit_transform(inputs))
    found = RandomWalkKernel(None, decay, node_feature="kind")(graphs) + pairs_of_nodes(graphs)
    same(found, grakel.RandomWalkLabeled(**options).fit_transform(inputs))
