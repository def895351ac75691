"""The Weisfeiler-Lehman subtree kernel against patterns spelled out as strings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from pyg_kernels.kernels import WLSubtreeKernel, sparse_gram
from pyg_kernels.ops.operator import cpu_backend
from tests.graphs import SMILES
from tests.kernels.patterns import pattern_counts, subtree_gram
from tests.kernels.walks import close, cosine, graph_collection, random_data

GRAPHS = graph_collection()
ITERATIONS = [0, 1, 2, 3, 5]
LABELS = [("kind", None), ("kind", "bond"), (None, "bond"), (None, None)]


def features(kernel: WLSubtreeKernel, graphs: list[Data]) -> Tensor:
    matrix = kernel.transform(graphs)
    assert scipy.sparse.issparse(matrix)
    assert matrix.format == "csr"
    return torch.from_numpy(matrix.toarray()).double()


@pytest.mark.parametrize("iterations", ITERATIONS)
@pytest.mark.parametrize(("nodes", "edges"), LABELS)
def test_patterns_as_strings(iterations: int, nodes: str | None, edges: str | None) -> None:
    kernel = WLSubtreeKernel(iterations, nodes, edges)
    expected = subtree_gram(GRAPHS, GRAPHS, iterations, nodes, edges)
    assert torch.equal(kernel(GRAPHS).double(), expected)
    assert torch.equal(kernel(GRAPHS, GRAPHS).double(), expected)
    assert torch.equal(kernel(GRAPHS[:3], GRAPHS[2:]).double(), expected[:3, 2:])
    assert torch.equal(kernel.diagonal(GRAPHS).double(), expected.diagonal())
    as_gram = WLSubtreeKernel(iterations, nodes, edges, output="gram")
    found = as_gram.fit_transform(GRAPHS)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, expected.numpy())


@pytest.mark.parametrize("iterations", ITERATIONS)
@pytest.mark.parametrize(("nodes", "edges"), LABELS)
def test_features_count_patterns(iterations: int, nodes: str | None, edges: str | None) -> None:
    """The columns are those patterns, in some order: as many, with the same counts."""
    counts = [pattern_counts(g, iterations, nodes, edges) for g in GRAPHS]
    known = sorted(set().union(*counts))
    expected = torch.tensor([[c[p] for p in known] for c in counts], dtype=torch.float64)
    found = features(WLSubtreeKernel(iterations, nodes, edges).fit(GRAPHS), GRAPHS)
    assert sorted(found.t().tolist()) == sorted(expected.t().tolist())


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("nodes", "edges"), LABELS)
def test_transform_of_new_graphs(normalize: bool, nodes: str | None, edges: str | None) -> None:
    """Unknown patterns have no column, but count in a graph's norm."""
    old, new = GRAPHS[:2], GRAPHS[2:]
    kernel = WLSubtreeKernel(3, nodes, edges, normalize=normalize).fit(old)
    fitted, found = features(kernel, old), features(kernel, new)
    assert fitted.size(1) == found.size(1)
    close(fitted, features(kernel, old))
    plain = subtree_gram(GRAPHS, GRAPHS, 3, nodes, edges)
    expected = cosine(plain, plain.diagonal(), plain.diagonal()) if normalize else plain
    close(found @ fitted.t(), expected[2:, :2])
    close(fitted @ fitted.t(), expected[:2, :2])
    close(kernel(new, old).double(), expected[2:, :2])
    close(kernel(new).double(), expected[2:, 2:])
    matrix = WLSubtreeKernel(3, nodes, edges, normalize=normalize, output="gram").fit(old)
    close(torch.from_numpy(matrix.transform(new)), expected[2:, :2])
    if edges == "bond":
        whole = expected.diagonal()[2:]
        assert (found.square().sum(dim=1) < 0.99 * whole).any()  # the case is there


def test_rows_of_norm_one() -> None:
    found = features(WLSubtreeKernel(2, "kind", normalize=True).fit(GRAPHS), GRAPHS)
    empty = torch.tensor([g.num_nodes == 0 for g in GRAPHS])
    close(found.norm(dim=1), (~empty).double())


def test_fit_transform_is_fit_and_transform() -> None:
    kernel = WLSubtreeKernel(3, "kind", "bond")
    at_once = kernel.fit_transform(GRAPHS)
    assert (at_once != kernel.transform(GRAPHS)).nnz == 0
    assert (at_once != WLSubtreeKernel(3, "kind", "bond").fit(GRAPHS).transform(GRAPHS)).nnz == 0


def test_order_of_graphs_and_company() -> None:
    """Neither the order of a collection nor its other graphs touch a value."""
    kernel = WLSubtreeKernel(3, "kind", "bond")
    together = kernel(GRAPHS)
    assert torch.equal(kernel(GRAPHS[::-1]), together.flip(0, 1))
    for i, x in enumerate(GRAPHS):
        for j, y in enumerate(GRAPHS):
            assert kernel([x], [y]).item() == together[i, j]
    kernel.fit(GRAPHS)
    found = features(kernel, GRAPHS)
    assert torch.equal(features(kernel, GRAPHS[::-1]), found.flip(0))
    for graph, row in zip(GRAPHS, found, strict=True):
        assert torch.equal(features(kernel, [graph])[0], row)


def test_relabelled_nodes_and_shuffled_edges() -> None:
    generator = torch.Generator().manual_seed(0)
    others = []
    for graph in GRAPHS:
        new = torch.randperm(graph.num_nodes, generator=generator)
        order = torch.randperm(graph.num_edges, generator=generator)
        kind = torch.empty_like(graph.kind)
        kind[new] = graph.kind
        index = new[graph.edge_index][:, order]
        others.append(Data(kind=kind, edge_index=index, bond=graph.bond[order]))
    kernel = WLSubtreeKernel(3, "kind", "bond").fit(GRAPHS)
    assert torch.equal(features(kernel, others), features(kernel, GRAPHS))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda kind: kind.to(torch.int32), id="int32"),
        pytest.param(lambda kind: kind.to(torch.uint8), id="uint8"),
        pytest.param(lambda kind: kind.double(), id="float"),
        pytest.param(lambda kind: kind[:, None], id="column"),
        pytest.param(lambda kind: torch.eye(3)[kind], id="one-hot-float"),
        pytest.param(lambda kind: torch.eye(3, dtype=torch.long)[kind], id="one-hot-integer"),
        pytest.param(lambda kind: torch.eye(3, dtype=torch.bool)[kind], id="one-hot-boolean"),
        pytest.param(lambda kind: 7 - 3 * kind, id="other-numbers"),
        pytest.param(lambda kind: 2**53 + kind, id="large-numbers"),
        pytest.param(lambda kind: torch.stack([kind % 2, kind], dim=1), id="rows"),
        pytest.param(lambda kind: torch.stack([kind / 7.0, -kind / 3.0], dim=1), id="float-rows"),
    ],
)
def test_forms_of_labels(change: Callable[[Tensor], Tensor]) -> None:
    others = [g.clone() for g in GRAPHS]
    for graph in others:
        graph.kind, graph.bond = change(graph.kind), change(graph.bond)
    expected = subtree_gram(GRAPHS, GRAPHS, 3, "kind", "bond")
    assert torch.equal(WLSubtreeKernel(3, "kind", "bond")(others).double(), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float32, torch.float64])
def test_equal_numbers_of_any_type_are_one_label(dtype: torch.dtype) -> None:
    others = [g.clone() for g in GRAPHS]
    for graph in others:
        graph.kind, graph.bond = graph.kind.to(dtype), graph.bond.to(dtype)
    expected = subtree_gram(GRAPHS, GRAPHS, 3, "kind", "bond")
    kernel = WLSubtreeKernel(3, "kind", "bond")
    assert torch.equal(kernel(GRAPHS, others).double(), expected)
    kernel.fit(others)
    assert torch.equal(features(kernel, GRAPHS), features(kernel, others))


def test_minus_zero_is_zero() -> None:
    edge = torch.tensor([[0], [1]])
    graphs = [Data(x=torch.tensor([[a], [1.0]]), edge_index=edge) for a in (0.0, -0.0)]
    assert WLSubtreeKernel(2)(graphs).tolist() == [[6, 6], [6, 6]]


@pytest.mark.parametrize("backend", ["numba", "definition"])
@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 1), (37, 50), (130, None)])
@pytest.mark.parametrize("whole", [True, False])
def test_products_of_counts(
    backend: str, n: int, m: int | None, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frequent columns and rare ones, in one block and in many."""
    if backend == "definition" or cpu_backend() == "numba":
        monkeypatch.setattr(sparse_gram, "cpu_backend", lambda: backend)
    random = np.random.default_rng(0)
    chance = np.linspace(0, 1, 40) ** 4
    x, y = (
        (random.random((rows, 40)) < chance) * random.integers(1, 9, (rows, 40))
        for rows in (n, m or 0)
    )
    x, y = (values / (1.0 if whole else 7.0) for values in (x, y))
    expected = x @ (x if m is None else y).T
    other = None if m is None else scipy.sparse.csr_matrix(y)
    for max_memory in (1, 2**20):
        for dtype in (np.float32, np.float64):
            sides = (None if side is None else side.astype(dtype) for side in (x, other))
            found = sparse_gram.sparse_gram(
                scipy.sparse.csr_matrix(next(sides)), next(sides), max_memory, False
            )
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_by_hand() -> None:
    """A triangle of A, and a path of A: one iteration parts the ends from the middle."""
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    nodes = {"kind": torch.zeros(3).long(), "num_nodes": 3}
    graphs = [Data(edge_index=triangle[:, :k], **nodes) for k in (6, 4)]
    for label in ("kind", None):
        assert WLSubtreeKernel(0, label)(graphs).tolist() == [[9, 9], [9, 9]]
        assert WLSubtreeKernel(1, label)(graphs).tolist() == [[18, 12], [12, 9 + 1 + 4]]
        assert WLSubtreeKernel(2, label)(graphs).tolist() == [[27, 12], [12, 14 + 1 + 4]]


def test_directions() -> None:
    """A node reads the sources of its edges."""
    there = Data(kind=torch.tensor([0, 1]), edge_index=torch.tensor([[0], [1]]))
    back = Data(kind=torch.tensor([0, 1]), edge_index=torch.tensor([[1], [0]]))
    assert WLSubtreeKernel(1, "kind")([there, back]).tolist() == [[4, 2], [2, 4]]


def test_all_nodes_alike_without_labels() -> None:
    """With node_label=None nothing is read but edges, not even a missing attribute."""
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in GRAPHS]
    expected = subtree_gram(GRAPHS, GRAPHS, 2, None)
    assert torch.equal(WLSubtreeKernel(2, None)(bare).double(), expected)


def test_molecules() -> None:
    """A data set of molecules, its batch, its list and slices of it; distinct rows are labels."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import MoleculeDataset

    dataset = MoleculeDataset.from_smiles(SMILES)
    listed = [dataset[i] for i in range(len(dataset))]
    for edges in (None, "edge_attr"):
        expected = subtree_gram(listed, listed, 3, "x", edges)
        kernel = WLSubtreeKernel(3, edge_label=edges).fit(dataset)
        forms = [dataset, listed, tuple(listed), Batch.from_data_list(listed)]
        forms.append(dataset.batch(range(len(dataset))))
        for graphs in forms:
            assert torch.equal(kernel(graphs).double(), expected)
            assert torch.equal(features(kernel, graphs), features(kernel, listed))
        backwards = dataset[list(range(len(dataset)))[::-1]]
        assert torch.equal(kernel(backwards, dataset).double(), expected.flip(0))
        assert torch.equal(kernel(dataset[1:3]).double(), expected[1:3, 1:3])


class Two(InMemoryDataset):
    """A data set of PyTorch Geometric, of the first two graphs."""

    def __init__(self, transform: Callable[[Data], Data] | None = None) -> None:
        super().__init__(transform=transform)
        self.data, self.slices = self.collate(GRAPHS[:2])


def test_data_sets() -> None:
    expected = subtree_gram(GRAPHS[:2], GRAPHS[:2], 3, "kind", "bond")
    kernel = WLSubtreeKernel(3, "kind", "bond")
    assert torch.equal(kernel(Two()).double(), expected)
    assert torch.equal(kernel(Two()[1:]).double(), expected[1:, 1:])

    def alike(data: Data) -> Data:
        data.kind = torch.zeros_like(data.kind)
        return data

    expected = subtree_gram([alike(g.clone()) for g in GRAPHS[:2]], [GRAPHS[0]], 3, "kind", "bond")
    assert torch.equal(kernel(Two(alike), GRAPHS[0]).double(), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"kind": None}, "graph 1.*kind", id="no-labels"),
        pytest.param({"bond": None}, "graph 1.*bond", id="no-edge-labels"),
        pytest.param({"kind": torch.zeros(5).long()}, "graph 1", id="too-few-labels"),
        pytest.param({"bond": torch.zeros(8).long()}, "graph 1", id="too-few-edge-labels"),
        pytest.param({"kind": torch.full((6,), float("nan"))}, "graph 1", id="nan"),
        pytest.param({"edge_index": torch.full((2, 9), 6)}, "graph 1", id="node-out-of-range"),
    ],
)
def test_bad_graphs(change: dict[str, Tensor | None], message: str) -> None:
    graph = random_data(2)
    for name, value in change.items():
        if value is None:
            del graph[name]
        else:
            graph[name] = value
    kernel = WLSubtreeKernel(2, "kind", "bond")
    for call in (kernel, kernel.fit, kernel.fit_transform):
        with pytest.raises(ValueError, match=message):
            call([random_data(0), graph])
    with pytest.raises(ValueError, match=message):
        kernel.fit([random_data(0)]).transform([random_data(0), graph])


@pytest.mark.parametrize("count", [-1, 1.5, None])
def test_bad_number_of_iterations(count: object) -> None:
    with pytest.raises(ValueError, match="num_iterations"):
        WLSubtreeKernel(count, "kind")(GRAPHS)


def test_bad_output() -> None:
    with pytest.raises(ValueError, match="output"):
        WLSubtreeKernel(2, "kind", output="dense").fit(GRAPHS)
    with pytest.raises(ValueError, match="at least one graph"):
        WLSubtreeKernel(2, "kind").fit([])
