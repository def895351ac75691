"""The layers in PyTorch Geometric's containers and explainers."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.explain import Explainer, GNNExplainer, PGExplainer
from torch_geometric.nn import HeteroConv, MessagePassing, to_hetero
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils import get_embeddings

from pyg_kernels.nn import GatedWalkConv, WLKernelConv
from tests.conventions.graph_layers import CONVS, NETS, C, E, every_conv, seeded
from tests.graphs import batch_of, random_graph

GRAPH = random_graph(0, dtype=torch.float32)
WALK_NETS = ["RandomWalkNet", "GraphKernelNet", "WLKernelNet"]
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


def test_get_embeddings() -> None:
    """Each layer gives one embedding, which is its output."""
    for conv in CONVS.values():
        layer = seeded(conv, C, C)
        (found,) = get_embeddings(layer, GRAPH.x, GRAPH.edge_index)
        assert torch.equal(found, layer(GRAPH.x, GRAPH.edge_index))
    for name in WALK_NETS:
        model = NETS[name](C, 6, 2)
        found = get_embeddings(model, GRAPH.x, GRAPH.edge_index, edge_weight=torch.ones(9))
        assert [tuple(t.shape) for t in found] == [(6, 6)] * len(model.convs)


def network_of(conv: Any) -> Module:
    """Two layers that classify nodes, in the frame of PyG's own models."""

    class KernelGNN(BasicGNN):
        supports_edge_weight = supports_edge_attr = True
        supports_norm_batch = False

        def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
            return conv(in_channels, out_channels, **kwargs)

    return seeded(KernelGNN, C, C, 2, C, act="tanh", norm="batch", jk="cat", edge_dim=E)


def explainer(model: Module, algorithm: Any, level: str, kind: str, **options: Any) -> Explainer:
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    given = {"edge_mask_type": "object", "explanation_type": kind, "model_config": config}
    return Explainer(model, algorithm, **given, **options)


@every_conv
def test_explainers_of_nodes(conv) -> None:
    model = network_of(conv).eval()
    inputs = {"edge_weight": torch.rand(9), "edge_attr": GRAPH.edge_attr}
    explain = explainer(model, GNNExplainer(epochs=5), "node", "model", node_mask_type="attributes")
    found = explain(GRAPH.x, GRAPH.edge_index, index=1, **inputs)
    assert found.node_mask.shape == (6, C) and found.validate()
    explain = explainer(model, PGExplainer(epochs=2), "node", "phenomenon")
    inputs["target"] = torch.tensor([0, 1, 2, 0, 1, 2])
    for epoch, node in itertools.product(range(2), range(5)):
        explain.algorithm.train(epoch, model, GRAPH.x, GRAPH.edge_index, index=node, **inputs)
    other = explain(GRAPH.x, GRAPH.edge_index, index=4, **inputs)
    for explanation in (found, other):
        assert explanation.edge_mask.shape == (9,) and explanation.edge_mask.any()


def test_gnn_explainer_finds_the_edges_that_matter() -> None:
    """The mask takes part in the sums: only walks into the explained node count."""
    explain = explainer(seeded(GatedWalkConv, C, 2), GNNExplainer(epochs=20), "node", "model")
    mask = explain(GRAPH.x[:4], torch.tensor([[0, 2], [1, 3]]), index=1).edge_mask
    assert mask[0] > 0 and mask[1] == 0


@pytest.mark.parametrize("algorithm", [GNNExplainer, PGExplainer])
@pytest.mark.parametrize("name", WALK_NETS)
def test_explainers_of_networks(name: str, algorithm: Any) -> None:
    model = seeded(NETS[name], C, 6, 2).eval()
    batch = batch_of([random_graph(seed, dtype=torch.float32) for seed in range(3)])
    inputs = {"batch": batch.batch, "batch_size": 3, "target": torch.tensor([0, 1, 1])}
    explain = explainer(model, algorithm(epochs=2), "graph", "phenomenon")
    if algorithm is PGExplainer:
        for epoch in range(2):
            explain.algorithm.train(epoch, model, batch.x, batch.edge_index, **inputs)
    mask = explain(batch.x, batch.edge_index, **inputs).edge_mask
    assert mask.shape == (27,) and mask.any()
