"""Equation 5 of Lei et al. 2017 against walks enumerated one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import RandomWalkKernel
from tests.kernels.walks import (
    both_ways,
    close,
    cosine,
    gram,
    graph_collection,
    product_adjacency,
    random_data,
    random_walk_kernel,
)

GRAPHS = graph_collection()
NODES = ["x", "kind", "kind_vector"]
EDGES = [None, "edge_attr", "length", "bond", "bond_vector"]


def expected_gram(xs: list[Data], ys: list[Data], orders: list[int], **options: Any) -> Tensor:
    """The sum of the brute-force kernels of some orders."""
    return sum(
        gram(lambda x, y, n=order: random_walk_kernel(x, y, n, **options), xs, ys)
        for order in orders
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("edges", EDGES)
def test_walks_one_by_one(order: int, nodes: str, edges: str | None) -> None:
    options = {"decay": 0.4, "node_feature": nodes, "edge_feature": edges}
    kernel = RandomWalkKernel(order, **options)
    expected = expected_gram(GRAPHS, GRAPHS, [order], **options)
    close(kernel(GRAPHS, GRAPHS), expected)
    close(kernel(GRAPHS), expected)
    close(kernel(GRAPHS[:2], GRAPHS[1:]), expected[:2, 1:])
    close(kernel.diagonal(GRAPHS), expected.diagonal())


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("nodes", "edges"), [("x", "edge_attr"), ("kind", None), ("kind", "bond")])
def test_walks_that_never_turn_back(order: int, nodes: str, edges: str | None) -> None:
    """With loops, parallel edges, isolated nodes, edges of one direction and of both."""
    graphs = [*GRAPHS[:3], *GRAPHS[5:], both_ways(GRAPHS[0]), both_ways(GRAPHS[6])]
    options = {"decay": 0.4, "node_feature": nodes, "edge_feature": edges, "non_backtracking": True}
    kernel = RandomWalkKernel(order, **options)
    close(kernel(graphs, GRAPHS), expected_gram(graphs, GRAPHS, [order], **options))
    close(kernel.diagonal(graphs), kernel(graphs).diagonal())
    summed = RandomWalkKernel(order, sum_orders=True, **options)
    orders = [RandomWalkKernel(n, **options)(graphs) for n in range(1, order + 1)]
    close(summed(graphs), sum(orders))


# All orders ---------------------------------------------------------------------------------------

LOOSE = [GRAPHS[0], *GRAPHS[2:], *map(both_ways, GRAPHS)]
FEATURES = [("x", "edge_attr"), ("kind_vector", None), ("kind", "bond")]


def dense_kernel(x: Data, y: Data, decay: float, *features: str | None) -> float:
    """Vishwanathan et al. 2010: from the inverse of the product graph's matrix."""
    base, adjacency = product_adjacency(x, y, *features)
    identity = torch.eye(len(base), dtype=torch.float64)
    return torch.linalg.solve(identity - decay * adjacency, base).sum().item()


def largest_decay(graphs: list[Data], *features: str | None) -> float:
    """1 / the spectral radius of the product graphs of each graph with itself."""
    matrices = (product_adjacency(g, g, *features)[1] for g in graphs)
    return 1 / max(torch.linalg.eigvals(m).abs().max().item() for m in matrices if m.numel())


@pytest.mark.parametrize(("nodes", "edges"), FEATURES)
@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("graphs", [GRAPHS, LOOSE[6:]], ids=["directed", "undirected"])
def test_all_orders(nodes: str, edges: str | None, share: float, graphs: list[Data]) -> None:
    """By conjugate gradients for labels on undirected graphs, term by term elsewhere."""
    decay = share * largest_decay(graphs, nodes, edges)
    kernel = RandomWalkKernel(None, decay, node_feature=nodes, edge_feature=edges)
    expected = gram(lambda x, y: dense_kernel(x, y, decay, nodes, edges), graphs, graphs)
    close(kernel(graphs), expected)
    close(kernel(graphs[:2], graphs), expected[:2])
    close(kernel.diagonal(graphs), expected.diagonal())
    normal = RandomWalkKernel(None, decay, normalize=True, node_feature=nodes, edge_feature=edges)
    close(normal(graphs), cosine(expected, expected.diagonal(), expected.diagonal()))


def test_close_to_the_largest_decay() -> None:
    """0.9999 of it, where the series takes over 100,000 terms."""
    graphs = LOOSE[6:]
    decay = 0.9999 * largest_decay(graphs, "kind", None)
    expected = gram(lambda x, y: dense_kernel(x, y, decay, "kind", None), graphs, graphs)
    found = RandomWalkKernel(None, decay, node_feature="kind", edge_feature=None)(graphs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("nodes", "edges"), FEATURES)
def test_all_orders_that_never_turn_back(nodes: str, edges: str | None) -> None:
    options = {"decay": 0.2 * largest_decay(LOOSE, nodes, edges), "non_backtracking": True}
    options |= {"node_feature": nodes, "edge_feature": edges}
    orders = [RandomWalkKernel(n, **options)(LOOSE) for n in range(1, 25)]
    close(RandomWalkKernel(None, **options)(LOOSE), sum(orders))


@pytest.mark.parametrize(("nodes", "edges"), FEATURES)
@pytest.mark.parametrize("size", [5, 12])
def test_a_decay_that_is_too_large(nodes: str, edges: str | None, size: int) -> None:
    """The error names the largest that is admissible; of small graphs, and of large ones."""
    graphs = [*GRAPHS[3:], random_data(8, size, 30)]
    most = largest_decay(graphs, nodes, edges)
    options = {"order": None, "node_feature": nodes, "edge_feature": edges}
    with pytest.raises(ValueError, match="expected less than") as error:
        RandomWalkKernel(decay=1.001 * most, **options)(graphs)
    named = float(str(error.value).partition("less than ")[2].partition(",")[0])
    assert named == pytest.approx(most, rel=1e-5)
    for collection in (graphs[:1], graphs):
        RandomWalkKernel(decay=0.9 * most, **options).fit(graphs[:1]).transform(collection)
    kernel = RandomWalkKernel(decay=1.001 * most, **options).fit(graphs[:1])
    with pytest.raises(ValueError, match="expected less than"):
        kernel.transform(graphs)


def test_walks_that_end_have_all_orders_with_any_decay() -> None:
    path = Data(x=torch.ones(4, 1).double(), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert RandomWalkKernel(None, 3.0)([path]).item() == 16 + 3 * 9 + 9 * 4 + 27
    both = Data(x=path.x, edge_index=torch.cat([path.edge_index, path.edge_index.flip(0)], 1))
    kernel = RandomWalkKernel(None, 3.0, non_backtracking=True)
    assert kernel([both]).item() == 16 + 3 * 36 + 9 * 16 + 27 * 4
    for size in (3, 12):
        tree = random_data(size, size, [(v // 2, v) for v in range(1, size)])
        trees = [tree, both_ways(tree)]
        for feature, decay in (("x", 3.0), (None, 5.0)):
            options = {"decay": decay, "node_feature": feature, "non_backtracking": True}
            longest = RandomWalkKernel(size, sum_orders=True, **options)(trees)
            close(RandomWalkKernel(None, **options)(trees), longest)


@pytest.mark.parametrize("decay", [0.0, 0.7, 1.0, 2.5])
@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("sum_orders", [False, True])
def test_decay_and_orders(decay: float, order: int, sum_orders: bool) -> None:
    kernel = RandomWalkKernel(order, decay, sum_orders=sum_orders)
    orders = list(range(1, order + 1)) if sum_orders else [order]
    options = {"decay": decay, "edge_feature": "edge_attr"}
    close(kernel(GRAPHS), expected_gram(GRAPHS, GRAPHS, orders, **options))


@pytest.mark.parametrize("sum_orders", [False, True])
def test_normalised(sum_orders: bool) -> None:
    kernel = RandomWalkKernel(3, 0.4, sum_orders=sum_orders, normalize=True)
    orders = [1, 2, 3] if sum_orders else [3]
    plain = expected_gram(GRAPHS, GRAPHS, orders, decay=0.4, edge_feature="edge_attr")
    diagonal = plain.diagonal()
    expected = cosine(plain, diagonal, diagonal)
    close(kernel(GRAPHS), expected)
    close(kernel(GRAPHS[:3], GRAPHS[2:]), expected[:3, 2:])
    close(kernel.diagonal(GRAPHS), (diagonal > 0).double())


def test_two_graphs_by_hand() -> None:
    """A path 1 -> 2 -> 3 and an edge 5 -> 7, each node's feature its name."""
    path = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
    edge = Data(x=torch.tensor([[5.0], [7.0]]), edge_index=torch.tensor([[0], [1]]))
    kernels = [RandomWalkKernel(order, 0.5) for order in (1, 2, 3)]
    assert [k([path], [edge]).item() for k in kernels] == [6 * 12, 0.5 * (2 + 6) * 35, 0.0]
    backwards = Data(x=edge.x, edge_index=edge.edge_index.flip(0))
    diamond = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 0, 1], [1, 1, 0]]))
    assert kernels[1]([edge], [edge]).item() == 0.5 * 35**2
    assert kernels[1]([path], [diamond]).item() == 0.5 * (2 + 6) * 3  # parallel edges count apart
    labelled = [Data(kind=torch.tensor([4, 9]), edge_index=g.edge_index) for g in (edge, backwards)]
    by_label = RandomWalkKernel(2, 0.5, node_feature="kind")
    assert by_label(labelled).tolist() == [[0.5, 0.0], [0.0, 0.5]]  # 4 -> 9 is not 9 -> 4


def test_reversing_every_edge_changes_nothing() -> None:
    reverse = [g.clone() for g in GRAPHS]
    for graph in reverse:
        graph.edge_index = graph.edge_index.flip(0)
    kernel = RandomWalkKernel(4, 0.4)
    close(kernel(reverse), kernel(GRAPHS))
    assert not torch.allclose(kernel(reverse, GRAPHS), kernel(GRAPHS))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_integer_rows_are_vectors(dtype: torch.dtype) -> None:
    graphs = [random_data(seed) for seed in range(3)]
    for graph in graphs:
        graph.x = (graph.x > 0).to(dtype)
    found = RandomWalkKernel(3, 0.5, edge_feature=None, dtype=torch.float64)(graphs)
    close(found, expected_gram(graphs, graphs, [3], decay=0.5))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_integers_are_labels(dtype: torch.dtype) -> None:
    graphs = [random_data(seed) for seed in range(3)]
    for graph in graphs:
        graph.bond = graph.bond.to(dtype)
        graph.kind = graph.kind.to(torch.int32)
    options = {"node_feature": "kind", "edge_feature": "bond", "decay": 0.5}
    expected = expected_gram(graphs, graphs, [3], **options)
    close(RandomWalkKernel(3, **options)(graphs), expected)


def test_large_labels_are_told_apart() -> None:
    """Neighbouring integers beyond those that a float64 holds."""
    big = 2**53
    graphs = [
        Data(kind=torch.tensor([big + i, -7]), edge_index=torch.tensor([[0], [1]])) for i in (0, 1)
    ]
    kernel = RandomWalkKernel(1, node_feature="kind")
    assert kernel(graphs).tolist() == [[2.0, 1.0], [1.0, 2.0]]


def test_edge_features_are_read_unless_told_not_to() -> None:
    graphs = GRAPHS[:3]
    plain = expected_gram(graphs, graphs, [2], decay=0.5)
    bonds = expected_gram(graphs, graphs, [2], decay=0.5, edge_feature="edge_attr")
    assert (plain - bonds).abs().max() > 1
    close(RandomWalkKernel(2)(graphs), bonds)
    close(RandomWalkKernel(2, edge_feature=None)(graphs), plain)
    bare = [Data(x=g.x, edge_index=g.edge_index) for g in graphs]
    close(RandomWalkKernel(2)(bare), plain)
    close(RandomWalkKernel(2, edge_feature="absent")(graphs), plain)


def test_collections() -> None:
    """A list, a tuple, a batch and a single graph are the same graphs."""
    kernel = RandomWalkKernel(3, 0.4)
    expected = expected_gram(GRAPHS, GRAPHS, [3], decay=0.4, edge_feature="edge_attr")
    batch = Batch.from_data_list(GRAPHS)
    close(kernel(batch), expected)
    close(kernel(tuple(GRAPHS), batch), expected)
    close(kernel(batch, GRAPHS[1]), expected[:, 1:2])
    trailing = Batch.from_data_list([GRAPHS[0], GRAPHS[3]])  # the last graph has no nodes
    close(kernel(trailing), expected[[0, 3]][:, [0, 3]])


def test_gradients() -> None:
    """Those of the brute-force value, written out for order 2."""
    first, second = random_data(0), random_data(1)
    for graph in (first, second):
        graph.x.requires_grad_()
        graph.edge_attr.requires_grad_()
    inputs = [first.x, first.edge_attr, second.x, second.edge_attr]
    products = first.x @ second.x.t()
    bonds = first.edge_attr @ second.edge_attr.t()
    (a, b), (c, d) = first.edge_index, second.edge_index
    expected = 0.4 * (products[a][:, c] * products[b][:, d] * bonds).sum()
    found = RandomWalkKernel(2, 0.4)([first], [second])[0, 0]
    close(found.detach(), expected.detach())
    for one, other in zip(
        torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        close(one, other)


def test_permuted_nodes_and_edges() -> None:
    generator = torch.Generator().manual_seed(0)
    kernel = RandomWalkKernel(4, 0.4)
    for graph in GRAPHS[:3]:
        new = torch.randperm(graph.num_nodes, generator=generator)
        order = torch.randperm(graph.num_edges, generator=generator)
        x = torch.empty_like(graph.x)
        x[new] = graph.x
        index = new[graph.edge_index][:, order]
        other = Data(x=x, edge_index=index, edge_attr=graph.edge_attr[order])
        close(kernel([other], GRAPHS), kernel([graph], GRAPHS))


def broken(**changes: Tensor | None) -> list[Data]:
    """Two good graphs and a bad one."""
    graph = random_data(2)
    for name, value in changes.items():
        if value is None:
            del graph[name]
        else:
            graph[name] = value
    return [random_data(0), random_data(1), graph]


ones = partial(torch.ones, dtype=torch.float64)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        pytest.param(broken(x=None), "graph 2.*x", id="no-features"),
        pytest.param(broken(x=float("nan") * ones(6, 3)), "graph 2", id="nan"),
        pytest.param(broken(x=ones(6, 4)), "graph 2.*4", id="sizes"),
        pytest.param(broken(x=ones(5, 3)), "graph 2", id="rows"),
        pytest.param(broken(edge_attr=None), "graph 2.*edge_attr", id="some-edge-features"),
        pytest.param(broken(edge_attr=ones(9, 3)), "graph 2", id="edge-sizes"),
        pytest.param(broken(edge_attr=ones(8, 2)), "graph 2", id="edge-rows"),
        pytest.param(broken(edge_index=torch.full((2, 9), 6)), "graph 2", id="node-out-of-range"),
        pytest.param(broken(edge_index=torch.full((2, 9), -1)), "graph 2", id="negative-node"),
        pytest.param(broken(edge_index=torch.zeros(3, 9).long()), "graph 2", id="three-rows"),
        pytest.param(broken(edge_attr=float("inf") * ones(9, 2)), "graph 2", id="infinite"),
        pytest.param([], "at least one graph", id="no-graphs"),
    ],
)
def test_bad_graphs(graphs: list[Data], message: str) -> None:
    for call in (RandomWalkKernel(), RandomWalkKernel().fit):
        with pytest.raises(ValueError, match=message):
            call(graphs)
    with pytest.raises(ValueError, match=message):
        RandomWalkKernel()([random_data(0)], graphs)


def test_vectors_are_not_labels() -> None:
    labels = broken(x=torch.tensor([0, 1, 2, 0, 1, 2]))
    with pytest.raises(ValueError, match="graph 2"):
        RandomWalkKernel()(labels)


@pytest.mark.parametrize(
    "options",
    [
        {"order": 0},
        {"order": 1.5},
        {"order": True},
        {"decay": -0.1},
        {"decay": float("nan")},
        {"decay": float("inf")},
        {"normalize": "weights"},
        {"non_backtracking": 1},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_bad_options(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        RandomWalkKernel(**options)([random_data(0)])


@pytest.mark.parametrize("graphs", [[torch.ones(3, 2)], 3, [None]], ids=str)
def test_not_graphs(graphs: object) -> None:
    with pytest.raises(TypeError):
        RandomWalkKernel()(graphs)


def test_sums_over_all_orders_end() -> None:
    kernel = RandomWalkKernel(order=None, decay=0.999999, non_backtracking=True)
    with pytest.raises(ValueError, match="has not converged"):
        kernel(["c1ccccc1"])
