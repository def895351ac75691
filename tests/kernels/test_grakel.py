"""Parity with GraKeL where the definitions meet, and its reported faults, which are absent here."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DiscreteRelabeling,
    RandomWalkKernel,
    WLKernel,
    WLSubtreeKernel,
)
from tests.kernels.walks import close, graph_collection

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
@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_subtree_kernel(grakel: Any, directed: bool, iterations: int) -> None:
    graphs = labelled_graphs(60, directed)
    inputs = [as_dictionaries(g, g.kind) for g in graphs]
    options = {"n_iter": iterations, "base_graph_kernel": grakel.VertexHistogram}
    ours = WLSubtreeKernel(iterations, "kind")
    expected = grakel.WeisfeilerLehman(**options).fit_transform(inputs)
    assert np.array_equal(ours(graphs).numpy(), expected)
    features = ours.fit_transform(graphs)
    assert np.array_equal((features @ features.T).toarray(), expected)

    expected = grakel.WeisfeilerLehman(**options, normalize=True).fit_transform(inputs)
    ours = WLSubtreeKernel(iterations, "kind", normalize=True)
    np.testing.assert_allclose(ours(graphs).numpy(), expected, rtol=1e-12)
    features = ours.fit_transform(graphs)
    np.testing.assert_allclose((features @ features.T).toarray(), expected, rtol=1e-12)


def test_new_graphs(grakel: Any) -> None:
    graphs = labelled_graphs(60, directed=False)
    inputs = [as_dictionaries(g, g.kind) for g in graphs]
    theirs = grakel.WeisfeilerLehman(n_iter=3, base_graph_kernel=grakel.VertexHistogram)
    theirs.fit(inputs[:40])
    ours = WLSubtreeKernel(3, "kind", output="gram").fit(graphs[:40])
    assert np.array_equal(ours.transform(graphs[40:]), theirs.transform(inputs[40:]))


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
@pytest.mark.parametrize("decay", [0.1, 0.7])
@pytest.mark.parametrize("directed", [False, True])
def test_random_walk_kernel(grakel: Any, steps: int, decay: float, directed: bool) -> None:
    """RandomWalkLabeled(p, lamda) is |V| |V'| + Σ_{n=2}^{p+1} K_W^n with λ = lamda.

    Its walks have 0 to p steps, ours 1 to n nodes, so n = p + 1, with the same weights. Only
    walks of no step differ: there GraKeL does not look at labels and counts every pair of nodes.
    """
    graphs = labelled_graphs(12, directed)
    expected = grakel.RandomWalkLabeled(p=steps, lamda=decay).fit_transform(
        [as_matrices(g) for g in graphs]
    )
    options = {"decay": decay, "node_feature": "kind"}
    sizes = torch.tensor([g.num_nodes for g in graphs], dtype=torch.float64)
    found = torch.outer(sizes, sizes)
    for order in range(2, steps + 2):
        found = found + RandomWalkKernel(order, **options)(graphs)
    np.testing.assert_allclose(found, expected, rtol=1e-10)

    summed = RandomWalkKernel(steps + 1, sum_orders=True, **options)(graphs)
    alike = RandomWalkKernel(1, **options)(graphs)
    np.testing.assert_allclose(summed - alike + torch.outer(sizes, sizes), expected, rtol=1e-10)


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


def test_parallel_edges_are_weights_of_adjacency_matrices(grakel: Any) -> None:
    graphs = [g for g in GRAPHS if g.num_nodes > 0]
    theirs = grakel.RandomWalkLabeled(p=3, lamda=0.4)
    expected = theirs.fit_transform([as_matrices(g) for g in graphs])
    options = {"decay": 0.4, "node_feature": "kind", "edge_feature": None}
    found = RandomWalkKernel(4, sum_orders=True, **options)(graphs)
    found = found - RandomWalkKernel(1, **options)(graphs)
    sizes = torch.tensor([g.num_nodes for g in graphs], dtype=torch.float64)
    np.testing.assert_allclose(found + torch.outer(sizes, sizes), expected, rtol=1e-10)


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


# Faults that its users reported


def wl_kernels(edge_label: str | None) -> list[Any]:
    return [
        WLSubtreeKernel(2, "kind", edge_label),
        WLKernel(
            RandomWalkKernel(1, node_feature="kind"), DiscreteRelabeling("kind", edge_label), 2
        ),
    ]


def test_edge_labels_change_the_wl_kernel() -> None:
    """Rings of four equal nodes, whose bonds are equal, alternate, or come in pairs."""
    ring = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    orders = [[1, 1, 1, 1], [1, 2, 1, 2], [1, 1, 2, 2]]
    nodes = {"kind": torch.zeros(4).long(), "num_nodes": 4, "edge_index": ring}
    graphs = [Data(bond=torch.tensor(order).repeat_interleave(2), **nodes) for order in orders]
    for plain, bonds in zip(wl_kernels(None), wl_kernels("bond"), strict=True):
        assert (plain(graphs) == 3 * 16).all()
        found = bonds(graphs)
        assert (found.diagonal() == torch.tensor([48, 48, 16 + 6 + 6])).all()
        assert found[0, 1] == 16
        assert found[1, 2] == 16 + 4 * 2 + 0
        assert found[0, 2] == 16 + 4 * 1 + 0


NORMALISED = {
    "walk-1": RandomWalkKernel(1, normalize=True),
    "walk-3": RandomWalkKernel(3, 0.4, normalize=True),
    "walk-3-summed": RandomWalkKernel(3, 0.4, sum_orders=True, normalize=True),
    "walk-labels": RandomWalkKernel(3, 0.4, sum_orders=True, normalize=True, node_feature="kind"),
    "deep": DeepGraphKernel(normalize=True),
    "subtree": WLSubtreeKernel(3, "kind", normalize=True, output="gram"),
    "wl": WLKernel(
        RandomWalkKernel(2, node_feature="kind"), DiscreteRelabeling("kind"), normalize=True
    ),
}
PLAIN: dict[str, Callable[[], Any]] = {
    name: lambda k=kernel: type(k)(**(k.get_params(deep=False) | {"normalize": False}))
    for name, kernel in NORMALISED.items()
}


@pytest.mark.parametrize("name", list(NORMALISED))
def test_normalised_kernels_of_different_graphs_are_not_all_ones(name: str) -> None:
    found = torch.from_numpy(np.asarray(NORMALISED[name].fit_transform(GRAPHS)))
    assert found.abs().max() <= 1 + 1e-12
    different = found[:3, :3][~torch.eye(3, dtype=torch.bool)]
    assert (different < 0.999).all()
    assert different.round(decimals=9).unique().numel() == 3


@pytest.mark.parametrize("name", list(NORMALISED))
def test_a_graph_is_as_like_itself_as_can_be(name: str) -> None:
    """k(G, G) = 1 after normalisation where it was positive, and 0, not NaN, where it was 0."""
    kernel = NORMALISED[name]
    positive = (PLAIN[name]().diagonal(GRAPHS) > 0).double()
    assert 0 < positive.sum() < len(GRAPHS)
    close(kernel(GRAPHS).diagonal().double(), positive)
    close(kernel.diagonal(GRAPHS).double(), positive)
    found = torch.from_numpy(np.asarray(kernel.fit_transform(GRAPHS)))
    assert found.isfinite().all()
    close(found.diagonal().double(), positive)
    for graph, value in zip(GRAPHS, positive.tolist(), strict=True):
        assert kernel([graph], [graph.clone()]).item() == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", list(NORMALISED))
def test_new_graphs_as_in_the_whole(name: str, normalize: bool) -> None:
    """fit on A, then transform on B, is the block of fit_transform on A + B."""
    kernel = NORMALISED[name] if normalize else PLAIN[name]()
    if name == "subtree":
        kernel = WLSubtreeKernel(3, "kind", normalize=normalize, output="gram")
    old, new = GRAPHS[:4], GRAPHS[4:] + GRAPHS[:1]
    whole = torch.from_numpy(kernel.fit_transform(old + new))
    kernel.fit(old)
    close(torch.from_numpy(kernel.transform(new)), whole[4:, :4])
    close(torch.from_numpy(kernel.transform(old)), whole[:4, :4])
    close(torch.from_numpy(kernel.fit_transform(old)), whole[:4, :4])
