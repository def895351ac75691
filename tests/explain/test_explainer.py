"""The attribution in PyG's explainer and metrics."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, Explanation, fidelity, unfaithfulness

from pyg_kernels.explain import ModelContributions, WalkExplainer, model_contributions
from pyg_kernels.nn import RandomWalkNet, WLKernelNet
from tests.graphs import Graph, random_graph

CLASSES = "multiclass_classification"


def network(out_channels: int = 1, **options: Any) -> WLKernelNet:
    torch.manual_seed(0)
    return WLKernelNet(4, 5, out_channels, num_iterations=2, edge_dim=3, **options).double()


def explainer(
    model: torch.nn.Module, mode: str = "regression", target: int | None = None, **options: Any
) -> Explainer:
    task = {"mode": mode, "task_level": "graph", "return_type": "raw"}
    task |= {name: options.pop(name) for name in task.keys() & options.keys()}
    settings: dict[str, Any] = {"explanation_type": "model", "node_mask_type": "object"}
    settings |= {"edge_mask_type": "object", "model_config": task, **options}
    return Explainer(model, WalkExplainer(target=target), **settings)


def explained(explain: Explainer, graph: Graph, **options: Any) -> Explanation:
    return explain(graph.x, graph.edge_index, edge_attr=graph.edge_attr, **options)


def union(graphs: list[Graph]) -> Batch:
    return Batch.from_data_list([Data(**vars(graph)) for graph in graphs])


def attribution(model: torch.nn.Module, graph: Graph, target: int = 0) -> ModelContributions:
    return model_contributions(model, graph.x, graph.edge_index, graph.edge_attr, target)


def test_masks_are_absolute_shares() -> None:
    model, graph = network(norm="batch").train(), random_graph(0)
    found, expected = explained(explainer(model), graph), attribution(model, graph)
    assert isinstance(found, Explanation) and model.training
    nodes, edges = expected.nodes.abs(), expected.edges.abs()
    torch.testing.assert_close(found.node_mask, (nodes / nodes.max()).unsqueeze(1))
    torch.testing.assert_close(found.edge_mask, edges / edges.max())
    torch.testing.assert_close(found.contributions.nodes, expected.nodes)
    torch.testing.assert_close(found.contributions.output, found.prediction.squeeze())
    assert found.contributions.walks == expected.walks
    for absent in ("node_mask", "edge_mask"):  # one kind of masks alone
        found = explained(explainer(model, **{f"{absent}_type": None}), graph)
        assert set(found.available_explanations) == {"node_mask", "edge_mask"} - {absent}
    graph = Graph(torch.zeros(3, 4).double(), torch.tensor([[0], [1]]), torch.ones(1, 3).double())
    found = explained(explainer(network()), graph)  # there is nothing to share
    assert not found.node_mask.any() and not found.edge_mask.any()


@pytest.mark.parametrize("kind", ["topk", "topk_hard", "hard"])
def test_thresholds(kind: str) -> None:
    model, graph = network(), random_graph(0)
    threshold = (kind, 0.5 if kind == "hard" else 2)
    found = explained(explainer(model, threshold_config=threshold), graph)
    kept = attribution(model, graph).nodes.abs().topk(2).indices
    if kind != "hard":
        assert found.node_mask.count_nonzero() == 2 and bool(found.node_mask[kept].all())
    subgraph = found.get_explanation_subgraph()
    assert subgraph.num_nodes == found.node_mask.count_nonzero()


@pytest.mark.parametrize(("mode", "outputs"), [("binary_classification", 1), (CLASSES, 3)])
def test_metrics(mode: str, outputs: int) -> None:
    model, graph = network(outputs, norm="head"), random_graph(0)
    explain = explainer(model, mode, threshold_config=("topk", 2))
    found = explained(explain, graph)
    assert all(score in (0.0, 1.0) for score in fidelity(explain, found))
    if outputs > 1:
        assert unfaithfulness(explain, found) <= 1
        expected = attribution(model, graph, int(found.target))
        torch.testing.assert_close(found.contributions.nodes, expected.nodes)


def test_important_parts_carry_the_prediction() -> None:
    """With the attribution's best nodes the prediction stays; without them it goes."""
    torch.manual_seed(0)
    model = RandomWalkNet(1, 1, 1, order=2, decay=1.0, act=None).double()
    for parameter in model.parameters():
        torch.nn.init.ones_(parameter)
    torch.nn.init.constant_(model.head.bias, -5.0)
    x = torch.tensor([[0.1], [3.0], [3.0], [0.1]], dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    explain = explainer(model, "binary_classification", threshold_config=("topk_hard", 2))
    found = explain(x, edge_index)
    assert found.node_mask.flatten().tolist() == [0, 1, 1, 0]
    assert fidelity(explain, found) == (1.0, 0.0)


@pytest.mark.parametrize(("mode", "target"), [("regression", 2), (CLASSES, None)])
def test_several_graphs(mode: str, target: int | None) -> None:
    graphs = [random_graph(seed, num_nodes=5 + seed) for seed in range(3)]
    model, joined = network(3, readout="concat"), union(graphs)
    found = explained(explainer(model, mode, target), joined, batch=joined.batch, index=None)
    targets = [2] * 3 if mode == "regression" else found.target.tolist()
    alone = [attribution(model, g, t) for g, t in zip(graphs, targets, strict=True)]
    for name, joint in (
        ("nodes", torch.cat),
        ("edges", torch.cat),
        ("output", sum),
        ("remainder", sum),
    ):
        expected = joint([getattr(one, name) for one in alone])
        torch.testing.assert_close(getattr(found.contributions, name), expected)


@pytest.mark.parametrize("index", [1, torch.tensor([1]), torch.tensor([False, True, False])])
def test_one_of_several_graphs(index: Any) -> None:
    graphs = [random_graph(seed) for seed in range(3)]
    model, joined = network(3), union(graphs)
    given = {"batch": joined.batch, "batch_size": 3, "index": index}
    found = explained(explainer(model, CLASSES), joined, **given)
    expected = attribution(model, graphs[1], int(found.target[1]))
    torch.testing.assert_close(found.contributions.nodes[joined.batch == 1], expected.nodes)
    torch.testing.assert_close(found.contributions.output, expected.output)
    assert not found.contributions.nodes[joined.batch != 1].any()


def test_phenomenon_explains_the_given_class() -> None:
    model, graph = network(3), random_graph(0)
    explain = explainer(model, CLASSES, explanation_type="phenomenon", edge_mask_type=None)
    for label in range(3):
        found = explained(explain, graph, target=torch.tensor([label]))
        expected = attribution(model, graph, label)
        torch.testing.assert_close(found.contributions.nodes, expected.nodes)


@pytest.mark.parametrize(
    ("outputs", "mode", "target", "index", "words"),
    [
        (3, "regression", 0.5, None, r"target=0\.5"),
        (3, CLASSES, 2, None, "target=2 with several classes"),
        (3, CLASSES, None, 5, "index=5 with 1 graphs"),
        (2, "regression", None, None, r"the model has 2 outputs: name one, WalkExplainer\("),
        (2, "regression", 2, None, "target=2 with 2 outputs: expected -2 to 1"),
    ],
)
def test_targets_that_make_no_sense(
    outputs: int, mode: str, target: Any, index: int | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        explained(explainer(network(outputs), mode, target), random_graph(0), index=index)


UNSUPPORTED = "'WalkExplainer' does not support the given"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"node_mask_type": "attributes"}, "'node_mask_type'|does not support"),
        ({"edge_mask_type": "attributes"}, "'edge_mask_type'|does not support"),
        ({"task_level": "node"}, UNSUPPORTED),
        ({"return_type": "probs", "mode": "binary_classification"}, UNSUPPORTED),
    ],
)
def test_settings_that_are_not_supported(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        explainer(network(), **changed)
