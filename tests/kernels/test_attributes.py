"""What graph kernels read: networkx's graphs, several attributes at once, one against many."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import (
    DeepGraphKernel,
    GeneralizedRelabeling,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    VectorKernel,
    WLKernel,
    WLSubtreeKernel,
    count_kernel,
)
from tests.kernels.cases import CASES
from tests.kernels.texts import close
from tests.kernels.walks import graph_collection

GRAPHS = graph_collection()
NAMES = ["a", "b", "c"]


def products(labels: Tensor, vectors: Tensor) -> Tensor:
    """Vectors whose inner products are those of `vectors` where labels are equal, and else 0."""
    return (torch.eye(3).double()[labels][:, :, None] * vectors[:, None]).flatten(1)


def several(graph: Data) -> Data:
    """The graph with what several attributes amount to."""
    found = graph.clone()
    degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    found.degree, found.name = degree, [NAMES[k] for k in graph.kind.tolist()]
    found.both = graph.kind * 100 + degree
    found.pair = torch.stack([graph.kind, degree], dim=1)
    found.wide = torch.cat([graph.x, graph.kind_vector], dim=1)
    found.product = products(graph.kind, graph.x)
    found.edge_wide = torch.cat([graph.edge_attr, graph.length[:, None]], dim=1)
    found.edge_product = products(graph.bond, graph.edge_attr)
    return found


SEVERAL = [several(graph) for graph in GRAPHS]
SAME: list[tuple[type[Any], dict[str, Any], dict[str, Any]]] = [
    (WLSubtreeKernel, {"node_label": ["kind", "degree"]}, {"node_label": "both"}),
    (WLSubtreeKernel, {"node_label": "pair"}, {"node_label": "both"}),
    (WLSubtreeKernel, {"node_label": ["name"]}, {"node_label": "kind"}),
    (LabelSequenceKernel, {"node_label": ("name", "degree")}, {"node_label": "both"}),
    (ShortestPathKernel, {"node_label": ["degree", "kind"]}, {"node_label": "both"}),
    (WLSubtreeKernel, {"node_label": []}, {"node_label": None}),
    *(
        (kernel, {"edge_feature": "edge_attr"} | one, {"edge_feature": "edge_attr"} | other)
        for kernel in (RandomWalkKernel, DeepGraphKernel)
        for one, other in (
            ({"node_feature": ["x", "kind_vector"]}, {"node_feature": "wide"}),
            ({"node_feature": ["kind", "degree"]}, {"node_feature": "both"}),
            ({"node_feature": None, "node_label": "pair"}, {"node_feature": "both"}),
            ({"node_label": "kind"}, {"node_feature": "product"}),
            ({"node_feature": ["name", "x"]}, {"node_feature": "product"}),
            ({"edge_feature": ["edge_attr", "length"]}, {"edge_feature": "edge_wide"}),
            ({"edge_label": "bond"}, {"edge_feature": "edge_product"}),
            (
                {"node_label": "kind", "edge_label": "bond"},
                {"node_feature": "product", "edge_feature": "edge_product"},
            ),
        )
    ),
]


@pytest.mark.parametrize(("kernel", "one", "other"), SAME)
def test_several_attributes_at_once(
    kernel: type[Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    found, expected = kernel(**one), kernel(**other)(SEVERAL)
    close(found(SEVERAL), expected)
    close(found(SEVERAL[1:3], SEVERAL), expected[1:3])
    close(kernel(**one, max_memory=3000)(SEVERAL), expected)
    if "name" not in str(one):
        close(found(Batch.from_data_list(SEVERAL)), expected)
    for base in (kernel(**one, max_memory=3000), kernel(**one)):
        close(WLKernel(base, num_iterations=0)(SEVERAL), _exact(kernel, one)(SEVERAL))


def _exact(kernel: type[Any], options: dict[str, Any]) -> Any:
    """The kernel with all attributes of nodes as labels, as a WLKernel has them."""
    if issubclass(kernel, (WLSubtreeKernel, LabelSequenceKernel, ShortestPathKernel)):
        return kernel(**options)
    features = options.get("node_feature", "x") or []
    names = [features] if isinstance(features, str) else list(features)
    if "node_label" in options:
        names.append(options["node_label"])
    return kernel(**options | {"node_feature": None, "node_label": names})


def test_labels_stay_beside_vectors_that_are_relabeled() -> None:
    """The kernel of every iteration is the product of the labels' and the new vectors'."""
    matrices = torch.eye(3).double(), torch.eye(3).double(), torch.eye(3).double() / 2
    relabel = GeneralizedRelabeling(*matrices)
    found = WLKernel(RandomWalkKernel(2, node_label="kind"), relabel, 2)(SEVERAL)
    read = relabel.read(SEVERAL, "x", None)
    expected, state = torch.zeros_like(found), relabel.start(read)
    for iteration in range(3):
        parts = state.split(read.ptr.diff().tolist())
        graphs = [g.clone().update({"x": p}) for g, p in zip(SEVERAL, parts, strict=True)]
        expected += RandomWalkKernel(2, node_label="kind")(graphs)
        state = relabel.step(state, read) if iteration < 2 else state
    close(found, expected)


def test_random_features_of_labels_and_vectors() -> None:
    graphs = SEVERAL[:3]
    for graph in graphs:
        graph.x /= 2
    kernel = RandomWalkKernel(2, 0.5, node_label="kind", edge_label="bond")
    rows = torch.tensor(RandomFeatures(kernel, 2**14, 0).fit_transform(graphs))
    expected = kernel(graphs)
    assert ((rows @ rows.t() - expected).abs() < 0.2 * expected.diagonal().max()).all()


# networkx ----------------------------------------------------------------------------------------


def as_networkx(graph: Data, kind: type[Any]) -> Any:
    """The graph with names of nodes that are no numbers, in another order."""
    found = kind()
    for k in range(graph.num_nodes):
        values = {"x": graph.x[k].tolist(), "kind": int(graph.kind[k]), "name": "ab"[k % 2]}
        found.add_node(f"node {k}", **values)
    for k, (u, v) in enumerate(graph.edge_index.t().tolist()):
        values = {"edge_attr": graph.edge_attr[k].numpy(), "length": float(graph.length[k])}
        found.add_edge(f"node {u}", f"node {v}", **values, bond=int(graph.bond[k]))
    found.graph["descriptors"] = [float(graph.num_nodes), 1.0 + graph.num_edges]
    return found


def undirected(graph: Data) -> Data:
    """Each edge, between different nodes, also the other way, with the same features."""
    others = graph.edge_index[0] != graph.edge_index[1]
    found = graph.clone()
    found.edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)[:, others]], dim=1)
    for name in ("edge_attr", "length", "bond"):
        found[name] = torch.cat([graph[name], graph[name][others]])
    return found


@pytest.mark.parametrize(
    "kernel",
    [
        RandomWalkKernel(),
        RandomWalkKernel(node_label=["kind", "name"], edge_feature=["length", "edge_attr"]),
        DeepGraphKernel(node_feature="kind", edge_feature="length"),
        WLSubtreeKernel(2, "name", ["bond", "length"]),
        LabelSequenceKernel(3, "kind", edge_label="bond"),
        ShortestPathKernel(node_label=None),
        WLKernel(RandomWalkKernel(2, node_feature="kind", edge_feature="edge_attr")),
        VectorKernel(),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize(
    ("kind", "data"), [(nx.MultiDiGraph, lambda graph: graph), (nx.MultiGraph, undirected)]
)
def test_networkx(kernel: Any, kind: type[Any], data: Any) -> None:
    expected = []
    for graph in GRAPHS:
        graph = data(graph)
        graph.name = ["ab"[k % 2] for k in range(graph.num_nodes)]
        edges = len(as_networkx(graph, nx.MultiDiGraph).edges)
        graph.descriptors = torch.tensor([[graph.num_nodes, 1.0 + edges]]).double()
        expected.append(graph)
    found = [as_networkx(graph, kind) for graph in GRAPHS]
    if isinstance(kernel, VectorKernel):
        found = [as_networkx(graph, nx.MultiDiGraph) for graph in expected]
    close(kernel(found), kernel(expected))
    close(kernel(found[:2], expected), kernel(expected[:2], expected))


def test_what_networkx_graphs_lack() -> None:
    path = nx.path_graph(3)
    assert WLSubtreeKernel(1, None)(path).item() == 9 + 5
    with pytest.raises(ValueError, match="graph 1 has no 'x': name another attribute, or node_la"):
        WLSubtreeKernel()([nx.Graph(), path])
    path.nodes[0]["x"] = 1
    with pytest.raises(ValueError, match="graph 0 has no 'x' at node 1"):
        WLSubtreeKernel()([path])
    path.nodes[1]["x"] = path.nodes[2]["x"] = "one"
    with pytest.raises(ValueError, match="graph 0 has 'x' of type int, str: expected strings, n"):
        WLSubtreeKernel()([path])


@pytest.mark.parametrize("value", [3, ["x", None], {"x": 1}])
def test_names_of_attributes(value: Any) -> None:
    for kernel in (WLSubtreeKernel(node_label=value), RandomWalkKernel(edge_feature=value)):
        with pytest.raises(ValueError, match=r"_(label|feature)=.*: expected the name of an attri"):
            kernel(GRAPHS)


# One against many --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.kernel is not WLKernel]
)
def test_one_against_many_is_one_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair of the many is compared; with itself each one is, where that normalizes."""
    case, sizes = CASES[name], []
    kernel, one, many = case.build(), case.collection(1), case.collection(8, seed=50)
    expected = kernel([*one, *many])[:1, 1:]
    place, method = (
        (count_kernel, "sparse_gram") if hasattr(kernel, "compare") else (kernel, "_values")
    )
    compared = getattr(place, method)

    def noted(*args: Any) -> Any:
        found = compared(*args)
        sizes.append(found.size if isinstance(found, np.ndarray) else found.numel())
        return found

    monkeypatch.setattr(place, method, noted)
    close(kernel(one, many), expected, atol=case.tolerance)
    itself = "_self_values" in vars(type(kernel)) or not kernel._is_cosine()
    assert sum(sizes) == 8 if itself or place is count_kernel else max(sizes) <= 64


def test_one_vector_against_many() -> None:
    """Numbers are standardized by all of them, not by the one."""
    graphs = [
        Data(descriptors=row)
        for row in torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    ]
    close(VectorKernel()(graphs[:1], graphs[1:]), VectorKernel()(graphs)[:1, 1:])
    with pytest.raises(ValueError, match="'descriptors' of graph 0 has 2 numbers: expected 3"):
        VectorKernel()(graphs, [Data(descriptors=torch.ones(2))])
