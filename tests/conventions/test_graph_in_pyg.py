"""The layers in PyTorch Geometric's containers and explainers."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, Explanation, GNNExplainer, PGExplainer
from torch_geometric.nn import HeteroConv, Linear, to_hetero
from torch_geometric.utils import get_embeddings

from pyg_kernels.nn import GatedWalkConv, WLKernelConv
from tests.conventions.graph_layers import NETS, C, E, every_conv, seeded
from tests.graphs import batch_of, random_graph

GRAPH = random_graph(0, dtype=torch.float32)


RELATIONS = {
    ("a", "to", "a"): torch.tensor([[0, 1], [1, 3]]),
    ("a", "to", "b"): torch.tensor([[0, 1, 3], [4, 0, 2]]),
    ("b", "to", "a"): torch.tensor([[4, 2], [0, 2]]),
}


def node_types(conv: Any) -> dict[str, Tensor]:
    """Features of two sizes; of one size for WL layers, whose labels never change their size."""
    square = isinstance(conv(8, 8), WLKernelConv)
    return {"a": torch.randn(4, 8 if square else 3), "b": torch.randn(5, 8 if square else 6)}


def assert_both_types(out: dict[str, Tensor]) -> None:
    assert {key: tuple(value.shape) for key, value in out.items()} == {"a": (4, 8), "b": (5, 8)}


@every_conv
def test_hetero_conv(conv) -> None:
    """Relations within and between node types, with edge weights for one of them."""
    layer = HeteroConv({relation: conv((-1, -1), 8) for relation in RELATIONS})
    weights = {("a", "to", "b"): torch.ones(3)}
    assert_both_types(layer(node_types(conv), RELATIONS, edge_weight_dict=weights))


@every_conv
def test_to_hetero(conv) -> None:
    class Net(Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = conv((-1, -1), 8), conv((-1, -1), 8)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    model = to_hetero(Net(), (["a", "b"], list(RELATIONS)))
    assert_both_types(model(node_types(conv), RELATIONS))


@every_conv
@pytest.mark.parametrize("order", [1, 2, 3])
def test_bipartite_graphs_have_walks_of_two_nodes(conv, order: int) -> None:
    source, target = torch.randn(7, 8), torch.randn(3, 8)
    index = torch.stack([torch.randint(7, (9,)), torch.randint(3, (9,))])
    if order == 2:
        layer, given = seeded(conv, (8, 8), 8, edge_dim=E), (torch.randn(9, E), torch.rand(9))
        found = layer((source, target), index, *given)
        union = torch.cat([source, target]), index + torch.tensor([[0], [7]])
        torch.testing.assert_close(found, layer(*union, *given)[7:])
        return
    layer = seeded(conv, 8, 8, order=order)
    with pytest.raises(ValueError, match=rf"order={order} with a bipartite graph: only walks of 2"):
        layer((source, target), index)
    same = layer((source, source), index)  # as PyG passes the nodes of one set
    assert torch.equal(same, layer(source, index))


@every_conv
def test_get_embeddings_of_convs(conv) -> None:
    """Each layer gives one embedding, which is its output."""
    layer = seeded(conv, C, C)
    (found,) = get_embeddings(layer, GRAPH.x, GRAPH.edge_index)
    assert torch.equal(found, layer(GRAPH.x, GRAPH.edge_index))


@pytest.mark.parametrize("name", ["RandomWalkNet", "GraphKernelNet", "WLKernelNet"])
def test_get_embeddings_of_networks(name: str) -> None:
    model = NETS[name](C, 6, 2)
    found = get_embeddings(model, GRAPH.x, GRAPH.edge_index, edge_weight=torch.ones(9))
    assert [tuple(t.shape) for t in found] == [(6, 6)] * len(model.convs)


def explained(
    model: Module, algorithm: Any, graph: Any, nodes: Any = (None,), **options: Any
) -> Explanation:
    """Explains classes of nodes or graphs; trains a PGExplainer on `nodes`, explains the last."""
    kinds = ("explanation_type", "node_mask_type", "mode")
    given = {kind: options.pop(kind) for kind in kinds if kind in options}
    mode = given.pop("mode", "multiclass_classification")
    level = "graph" if nodes == (None,) else "node"
    config = {"mode": mode, "task_level": level, "return_type": "raw"}
    explainer = Explainer(model, algorithm, edge_mask_type="object", model_config=config, **given)
    if isinstance(algorithm, PGExplainer):
        for epoch, node in itertools.product(range(2), nodes):
            algorithm.train(epoch, model, graph.x, graph.edge_index, index=node, **options)
    return explainer(graph.x, graph.edge_index, index=nodes[-1], **options)


class Nodes(Module):
    """Two layers and a linear head that classifies nodes."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.first, self.second = conv(C, C), conv(C, C)
        self.head = Linear(C, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = self.first(x, edge_index, edge_weight=edge_weight).tanh()
        return self.head(self.second(x, edge_index, edge_weight=edge_weight))


@every_conv
def test_explainers_of_nodes(conv) -> None:
    model, weight = seeded(Nodes, conv).eval(), torch.rand(9)
    masks = {"explanation_type": "model", "node_mask_type": "attributes"}
    found = explained(model, GNNExplainer(epochs=5), GRAPH, (1,), edge_weight=weight, **masks)
    assert found.node_mask.shape == (6, C) and found.validate()
    given = {"target": torch.tensor([0, 1, 2, 0, 1, 2]), "edge_weight": weight}
    masks = {"explanation_type": "phenomenon"}
    other = explained(model, PGExplainer(epochs=2), GRAPH, range(5), **given, **masks)
    for explanation in (found, other):
        assert explanation.edge_mask.shape == (9,) and explanation.edge_mask.any()


def test_gnn_explainer_finds_the_edges_that_matter() -> None:
    """The mask takes part in the sums: only walks into the explained node count."""
    graph = Data(GRAPH.x[:4], torch.tensor([[0, 2], [1, 3]]))
    kind = {"explanation_type": "model", "mode": "regression"}
    model = seeded(GatedWalkConv, C, 1)
    mask = explained(model, GNNExplainer(epochs=20), graph, (1,), **kind).edge_mask
    assert mask[0] > 0 and mask[1] == 0


def graphs() -> Batch:
    return batch_of([random_graph(s, dtype=torch.float32) for s in range(3)])


@pytest.mark.parametrize("algorithm", [GNNExplainer, PGExplainer])
@pytest.mark.parametrize("name", ["RandomWalkNet", "GraphKernelNet", "WLKernelNet"])
def test_explainers_of_networks(name: str, algorithm: Any) -> None:
    model, batch = seeded(NETS[name], C, 6, 2).eval(), graphs()
    inputs = {"batch": batch.batch, "batch_size": 3, "target": torch.tensor([0, 1, 1])}
    kind = {"explanation_type": "phenomenon"}
    explanation = explained(model, algorithm(epochs=2), batch, **inputs, **kind)
    assert explanation.edge_mask.shape == (27,) and explanation.edge_mask.any()
