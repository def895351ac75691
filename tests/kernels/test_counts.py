"""Kernels of counts against dictionaries of what occurs, compared pattern by pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    CountKernel,
    DiscreteRelabeling,
    LabelSequenceKernel,
    ShortestPathKernel,
    WLKernel,
    WLSubtreeKernel,
    sparse_gram,
)
from tests.kernels.patterns import pattern_counts
from tests.kernels.test_grakel import as_dictionaries, as_matrices, grakel, labelled_graphs
from tests.kernels.walks import both_ways, close, cosine, graph_collection

__all__ = ["grakel"]

COMPARISONS = ["dot", "min", "minmax"]
Counts = dict[Any, float]


GRAPHS = graph_collection()
GRAPHS = GRAPHS + [both_ways(graph) for graph in GRAPHS[:2] + GRAPHS[4:]]
OLD, NEW = GRAPHS[:4], GRAPHS[4:] + GRAPHS[1:2]


# Definitions -------------------------------------------------------------------------------------


def compared(compare: str, a: Counts, b: Counts) -> float:
    if compare == "dot":
        return float(sum(a[pattern] * b[pattern] for pattern in a.keys() & b.keys()))
    least, most = 0.0, 0.0
    for pattern in a.keys() | b.keys():
        pair = a.get(pattern, 0.0), b.get(pattern, 0.0)
        least, most = least + min(pair), most + max(pair)
    if compare == "min":
        return least
    return least / most if most else 0.0


def gram(compare: str, xs: list[Counts], ys: list[Counts]) -> Tensor:
    return torch.tensor([[compared(compare, x, y) for y in ys] for x in xs], dtype=torch.float64)


def subtrees(
    graph: Data,
    compare: str,
    num_iterations: int = 3,
    edge_label: str | None = None,
    iteration_weights: list[float] | None = None,
) -> Counts:
    counts = pattern_counts(graph, num_iterations, "kind", edge_label)
    weights = np.array(iteration_weights or [1.0] * (num_iterations + 1))
    factors = np.sqrt(weights) if compare == "dot" else weights
    return {pattern: count * factors[pattern[0]] for pattern, count in counts.items()}


def sequences(
    graph: Data,
    compare: str,
    num_nodes: int = 4,
    edge_label: str | None = None,
    non_backtracking: bool = True,
    min_nodes: int = 1,
) -> Counts:
    kind, ends = graph.kind.tolist(), graph.edge_index.t().tolist()
    bonds = graph[edge_label].tolist() if edge_label else [None] * len(ends)
    found: Counter[Any] = Counter()

    def extend(walk: list[int], sequence: tuple[Any, ...]) -> None:
        found[sequence] += len(walk) >= min_nodes
        if len(walk) == num_nodes:
            return
        for (source, target), bond in zip(ends, bonds, strict=True):
            turns_back = len(walk) > 1 and target == walk[-2]
            if source == walk[-1] and not (non_backtracking and turns_back):
                extend([*walk, target], (*sequence, bond, kind[target]))

    for v in range(graph.num_nodes):
        extend([v], (kind[v],))
    return dict(found)


def distances(graph: Data) -> list[list[float]]:
    """Floyd and Warshall's; inf where no path leads."""
    nodes = range(graph.num_nodes)
    found = [[0.0 if u == v else inf for v in nodes] for u in nodes]
    for u, v in graph.edge_index.t().tolist():
        found[u][v] = min(found[u][v], 1.0)
    for k, u, v in product(nodes, nodes, nodes):
        found[u][v] = min(found[u][v], found[u][k] + found[k][v])
    return found


def pairs(graph: Data, compare: str, max_length: float | None = None) -> Counts:
    kind = graph.kind.tolist()
    return dict(
        Counter(
            (kind[u], kind[v], distance)
            for u, row in enumerate(distances(graph))
            for v, distance in enumerate(row)
            if 0 < distance < inf and distance <= (max_length or inf)
        )
    )


@dataclass(frozen=True)
class Definition:
    """A kernel, its counts, and arguments of both."""

    kernel: type[CountKernel]
    counts: Callable[..., Counts]
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, compare: str, **options: Any) -> CountKernel:
        return self.kernel(node_label="kind", compare=compare, **self.options, **options)

    def gram(self, compare: str, xs: list[Data], ys: list[Data]) -> Tensor:
        left, right = ([self.counts(g, compare, **self.options) for g in gs] for gs in (xs, ys))
        return gram(compare, left, right)


DEFINITIONS = {
    f"subtrees-{edges}-{weights}": Definition(
        WLSubtreeKernel,
        subtrees,
        {"num_iterations": 2, "edge_label": edges, "iteration_weights": weights},
    )
    for edges in (None, "bond")
    for weights in (None, [0.0, 0.0, 0.0], [0.0, 0.3, 2.5], [1.0, 0.0, 0.1])
}
DEFINITIONS |= {
    f"sequences-{number}-{edges}-{forward}": Definition(
        LabelSequenceKernel,
        sequences,
        {"num_nodes": number, "edge_label": edges, "non_backtracking": forward},
    )
    for number in (1, 2, 3, 4)
    for edges in (None, "bond")
    for forward in (False, True)
}
DEFINITIONS |= {
    f"pairs-{most}": Definition(ShortestPathKernel, pairs, {"max_length": most})
    for most in (None, 1, 2, 3)
}
DEFINITIONS |= {
    f"sequences-from-{number}": Definition(
        LabelSequenceKernel,
        sequences,
        {"num_nodes": 3, "edge_label": "bond", "min_nodes": number},
    )
    for number in (2, 3)
}
of_every = pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
of_every_comparison = pytest.mark.parametrize("compare", COMPARISONS)


# Gram matrices -----------------------------------------------------------------------------------


@of_every
@of_every_comparison
@pytest.mark.parametrize("backend", ["numba", "definition"])
def test_dictionaries_of_counts(
    definition: Definition, compare: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown patterns of new graphs count in min-max's totals."""
    if backend == "definition":
        monkeypatch.setattr(sparse_gram, "cpu_backend", lambda: backend)
    expected = definition.gram(compare, GRAPHS, GRAPHS)
    kernel = definition.build(compare, output="gram")
    close(kernel(GRAPHS), expected)
    close(kernel(GRAPHS, GRAPHS), expected)
    close(kernel.diagonal(GRAPHS), expected.diagonal())
    close(torch.from_numpy(kernel.fit_transform(GRAPHS)), expected)
    expected = definition.gram(compare, NEW, OLD)
    close(kernel(NEW, OLD), expected)
    close(torch.from_numpy(kernel.fit(OLD).transform(NEW)), expected)
    if expected.any():
        assert kernel(NEW, OLD)[-1, 1] == kernel(OLD)[1, 1]  # the same graph on both sides

    normal = definition.build(compare, output="gram", normalize=True)
    diagonals = [definition.gram(compare, gs, gs).diagonal() for gs in (NEW, OLD)]
    close(normal(NEW, OLD), cosine(expected, *diagonals))
    close(torch.from_numpy(normal.fit(OLD).transform(NEW)), cosine(expected, *diagonals))
    for max_memory in (1, 500):
        blocks = definition.build(compare, output="gram", max_memory=max_memory)
        close(blocks(NEW, OLD), expected)


@of_every
@pytest.mark.parametrize("normalize", [False, True])
def test_features_multiply_to_the_gram_matrix(definition: Definition, normalize: bool) -> None:
    kernel = definition.build("dot", normalize=normalize).fit(OLD)
    fitted, found = kernel.transform(OLD), kernel.transform(NEW)
    assert fitted.shape[1] == found.shape[1] == len(kernel.get_feature_names_out())
    for rows, graphs in ((fitted, OLD), (found, NEW)):
        expected = definition.gram("dot", graphs, OLD)
        if normalize:
            norms = [definition.gram("dot", gs, gs).diagonal() for gs in (graphs, OLD)]
            expected = cosine(expected, *norms)
        close(torch.from_numpy((rows @ fitted.T).toarray()), expected)


@of_every
@of_every_comparison
def test_float32(definition: Definition, compare: str) -> None:
    kernel = definition.build(compare, output="gram", dtype=torch.float32)
    found, expected = kernel(NEW, OLD), definition.gram(compare, NEW, OLD)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=1e-6)
    features = definition.build(compare, dtype=torch.float32).fit_transform(OLD)
    assert features.dtype == np.float32


@of_every
@of_every_comparison
def test_positive_semi_definite(definition: Definition, compare: str) -> None:
    values = torch.linalg.eigvalsh(definition.build(compare, output="gram")(GRAPHS))
    assert values.min() >= -1e-10 * max(values.max(), 1)


@of_every
@of_every_comparison
def test_order_of_nodes_and_edges(definition: Definition, compare: str) -> None:
    generator = torch.Generator().manual_seed(0)
    others = []
    for graph in GRAPHS:
        new = torch.randperm(graph.num_nodes, generator=generator)
        order = torch.randperm(graph.num_edges, generator=generator)
        kind = torch.empty_like(graph.kind)
        kind[new] = graph.kind
        ends, bond = new[graph.edge_index][:, order], graph.bond[order]
        others.append(Data(kind=kind, edge_index=ends, bond=bond, num_nodes=graph.num_nodes))
    kernel = definition.build(compare)
    close(kernel(others, GRAPHS), kernel(GRAPHS))
    assert (kernel.fit(GRAPHS).transform(others) != kernel.transform(GRAPHS)).nnz == 0


@pytest.mark.parametrize("kernel", [WLSubtreeKernel, LabelSequenceKernel, ShortestPathKernel])
@of_every_comparison
def test_collections_that_are_read_in_chunks(
    kernel: type[CountKernel], compare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = kernel(node_label="kind", compare=compare)(GRAPHS)
    for module in ("label_counts", "reading"):
        monkeypatch.setattr(f"pyg_kernels.kernels.{module}.GRAPHS_AT_A_TIME", 3)
    found = kernel(node_label="kind", compare=compare)
    close(found(GRAPHS), expected)
    close(found(NEW, OLD), definition_of(kernel).gram(compare, NEW, OLD))


def definition_of(kernel: type[CountKernel]) -> Definition:
    counts = {WLSubtreeKernel: subtrees, LabelSequenceKernel: sequences, ShortestPathKernel: pairs}
    return Definition(kernel, counts[kernel])


@of_every_comparison
def test_dense_and_rare_columns_in_many_blocks(
    compare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that are whole and small are added in single precision, others are not."""
    random = np.random.default_rng(0)
    for scale in (1.0, 1 / 7, 2.0**22):
        full = [
            scale * random.integers(1, 9, (rows, 30)) * (random.random((rows, 30)) < chance)
            for rows, chance in ((40, 0.3), (55, np.linspace(0, 1, 30) ** 4))
        ]
        x, y = map(sparse_gram.sparse.csr_matrix, full)
        counts = [[dict(enumerate(row)) for row in rows] for rows in full]
        expected = gram(compare, *counts).numpy()
        for backend, rows in (("numba", 2048), ("numba", 7), ("definition", 7)):
            with monkeypatch.context() as patch:
                patch.setattr(sparse_gram, "_ROWS", rows)
                if backend == "definition":
                    patch.setattr(sparse_gram, "cpu_backend", lambda: "definition")
                found = sparse_gram.sparse_gram(x, y, 2**20, False, compare)
                np.testing.assert_allclose(found, expected, rtol=1e-12)


# By hand, and beside GraKeL ----------------------------------------------------------------------


def test_paths_by_hand() -> None:
    """A - B - A: three nodes, two edges both ways, and one path of three nodes both ways."""
    graph = Data(x=torch.tensor([0, 1, 0]), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    assert sorted(LabelSequenceKernel(3).fit_transform([graph]).data) == [1, 2, 2, 2, 2]
    assert sorted(ShortestPathKernel().fit_transform([graph]).data) == [2, 2, 2]
    all_walks = LabelSequenceKernel(3, non_backtracking=False).fit_transform([graph])
    assert sorted(all_walks.data) == [1, 2, 2, 2, 2, 4]  # A-B-A also by way of the same A


def test_more_labels_than_columns_of_the_fitted_graphs() -> None:
    """Two thirds of the nodes are known: 1 / (1 + 2), not 1 / 1."""
    none = torch.zeros(2, 0).long()
    old = Data(x=torch.tensor([0]), edge_index=none)
    new = Data(x=torch.tensor([0, 1, 2]), edge_index=none)
    for kernel in (
        WLSubtreeKernel(0, compare="minmax", output="gram"),
        LabelSequenceKernel(1, compare="minmax", output="gram"),
    ):
        assert kernel.fit([old]).transform([new]).item() == pytest.approx(1 / 3, abs=1e-15)
        assert kernel.fit([new]).transform([old]).item() == pytest.approx(1 / 3, abs=1e-15)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_grakel_subtrees(grakel: Any, directed: bool, iterations: int) -> None:
    graphs = labelled_graphs(40, directed)
    inputs = [as_dictionaries(g, g.kind) for g in graphs]
    for compare, theirs in (
        (
            "dot",
            grakel.WeisfeilerLehman(n_iter=iterations, base_graph_kernel=grakel.VertexHistogram),
        ),
        ("min", grakel.WeisfeilerLehmanOptimalAssignment(n_iter=iterations)),
    ):
        ours = WLSubtreeKernel(iterations, "kind", compare=compare)
        expected = theirs.fit_transform(inputs)
        np.testing.assert_allclose(ours(graphs), expected, rtol=1e-10)


def test_grakel_histograms(grakel: Any) -> None:
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
def test_grakel_shortest_paths(grakel: Any, normalize: bool) -> None:
    """Graphs with paths: GraKeL normalises 0 to NaN."""
    ours = ShortestPathKernel(node_label="kind", normalize=normalize)
    graphs = labelled_graphs(40, directed=False)
    graphs = [g for g in graphs if any(ours.diagonal(g))]
    theirs = grakel.ShortestPath(normalize=normalize, algorithm_type="floyd_warshall")
    expected = theirs.fit_transform([as_matrices(g) for g in graphs])
    np.testing.assert_allclose(ours(graphs), expected, rtol=1e-10)


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WLSubtreeKernel(compare="max"), "compare='max'"),
        (WLSubtreeKernel(2, iteration_weights=[1.0, 1.0]), "3 finite numbers"),
        (WLSubtreeKernel(1, iteration_weights=[1.0, -1.0]), "at least 0"),
        (WLSubtreeKernel(1, iteration_weights=[1.0, inf]), "iteration_weights"),
        (WLSubtreeKernel(1, iteration_weights=[1.0, float("nan")]), "iteration_weights"),
        (LabelSequenceKernel(0), "num_nodes=0"),
        (LabelSequenceKernel(non_backtracking=1), "non_backtracking=1"),
        (LabelSequenceKernel(edge_label="length_"), "length_"),
        (LabelSequenceKernel(2, min_nodes=3), "min_nodes=3: expected at most 2"),
        (ShortestPathKernel(0), "max_length=0"),
        (ShortestPathKernel(1.5), "max_length=1.5"),
        (ShortestPathKernel(node_label="colour"), "colour"),
    ],
)
def test_errors(kernel: CountKernel, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel.fit(GRAPHS)


def test_relabeled_graphs() -> None:
    """As the base of a WLKernel; walks of one node are the subtree kernel."""
    relabel = DiscreteRelabeling("kind")
    for number in (1, 2):
        found = WLKernel(LabelSequenceKernel(number), relabel, 2)(GRAPHS)
        expected = WLSubtreeKernel(2, "kind")(GRAPHS)
        assert torch.equal(found, expected) == (number == 1)
    paths = WLKernel(ShortestPathKernel(), relabel, 0)(GRAPHS)
    close(paths, ShortestPathKernel(node_label="kind")(GRAPHS))
    matrices = (torch.eye(3, dtype=torch.float64),) * 3
    for kernel in (LabelSequenceKernel(2), ShortestPathKernel(), WLSubtreeKernel(1)):
        with pytest.raises(TypeError, match=f"{type(kernel).__name__} counts labels"):
            WLKernel(kernel, matrices, 1)(GRAPHS)


def test_gram_matrices_as_pandas() -> None:
    kernel = WLSubtreeKernel(1, output="gram").set_output(transform="pandas")
    found = kernel.fit_transform(["CCO", "CCN", "C"])
    assert found.shape == (3, 3)
    assert list(found.columns) == list(kernel.get_feature_names_out())
