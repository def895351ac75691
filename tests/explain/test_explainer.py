"""The attribution in PyG's explainer and metrics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.explain import Explainer, Explanation, fidelity, unfaithfulness

from pyg_kernels.explain import ModelContributions, WalkExplainer, model_contributions
from pyg_kernels.nn import RandomWalkNet, WLKernelNet
from tests.graphs import Graph, random_graph


def network(out_channels: int = 1, **options: Any) -> WLKernelNet:
    torch.manual_seed(0)
    return WLKernelNet(4, 5, out_channels, num_iterations=2, edge_dim=3, **options).double()


def explainer(
    model: torch.nn.Module,
    mode: str = "regression",
    algorithm: WalkExplainer | None = None,
    **options: Any,
) -> Explainer:
    settings: dict[str, Any] = {"node_mask_type": "object", "edge_mask_type": "object", **options}
    task = {"mode": mode, "task_level": "graph", "return_type": "raw"}
    return Explainer(
        model, algorithm or WalkExplainer(), explanation_type="model", model_config=task, **settings
    )


def union(graphs: list[Graph]) -> tuple[Graph, torch.Tensor]:
    sizes = [graph.num_nodes for graph in graphs]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    joined = Graph(
        torch.cat([g.x for g in graphs]),
        torch.cat([g.edge_index + s for g, s in zip(graphs, starts, strict=True)], dim=1),
        torch.cat([g.edge_attr for g in graphs]),
    )
    return joined, torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes))


def attribution(model: torch.nn.Module, graph: Graph, target: int = 0) -> ModelContributions:
    return model_contributions(model, graph.x, graph.edge_index, graph.edge_attr, target)


def test_masks_are_absolute_shares() -> None:
    model, graph = network(norm="batch").train(), random_graph(0)
    found = explainer(model)(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
    expected = attribution(model, graph)
    assert isinstance(found, Explanation) and model.training
    nodes, edges = expected.nodes.abs(), expected.edges.abs()
    torch.testing.assert_close(found.node_mask, (nodes / nodes.max()).unsqueeze(1))
    torch.testing.assert_close(found.edge_mask, edges / edges.max())
    torch.testing.assert_close(found.contributions.nodes, expected.nodes)
    torch.testing.assert_close(found.contributions.output, found.prediction.squeeze())
    assert found.contributions.walks == expected.walks


def test_one_kind_of_masks() -> None:
    graph = random_graph(0)
    for absent in ("node_mask", "edge_mask"):
        found = explainer(network(), **{f"{absent}_type": None})(
            graph.x, graph.edge_index, edge_attr=graph.edge_attr
        )
        assert found.get(absent) is None
        assert set(found.available_explanations) == {"node_mask", "edge_mask"} - {absent}


def test_nothing_to_share() -> None:
    graph = Graph(torch.zeros(3, 4).double(), torch.tensor([[0], [1]]), torch.ones(1, 3).double())
    found = explainer(network())(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
    assert not found.node_mask.any() and not found.edge_mask.any()


@pytest.mark.parametrize("kind", ["topk", "topk_hard", "hard"])
def test_thresholds(kind: str) -> None:
    graph = random_graph(0)
    threshold = (kind, 0.5 if kind == "hard" else 2)
    found = explainer(network(), threshold_config=threshold)(
        graph.x, graph.edge_index, edge_attr=graph.edge_attr
    )
    kept = attribution(network(), graph).nodes.abs().topk(2).indices
    if kind != "hard":
        assert found.node_mask.count_nonzero() == 2 and bool(found.node_mask[kept].all())
    subgraph = found.get_explanation_subgraph()
    assert subgraph.num_nodes == found.node_mask.count_nonzero()


@pytest.mark.parametrize(
    ("mode", "outputs"), [("binary_classification", 1), ("multiclass_classification", 3)]
)
def test_metrics(mode: str, outputs: int) -> None:
    model, graph = network(outputs, norm="head"), random_graph(0)
    explain = explainer(model, mode, threshold_config=("topk", 2))
    found = explain(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
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


def test_several_graphs() -> None:
    graphs = [random_graph(seed, num_nodes=5 + seed) for seed in range(3)]
    joined, batch = union(graphs)
    model = network(3, readout="concat")
    for mode, index in [("regression", None), ("multiclass_classification", None)]:
        algorithm = WalkExplainer(target=2 if mode == "regression" else None)
        found = explainer(model, mode, algorithm)(
            joined.x, joined.edge_index, edge_attr=joined.edge_attr, batch=batch, index=index
        )
        targets = [2] * 3 if mode == "regression" else found.target.tolist()
        alone = [attribution(model, g, t) for g, t in zip(graphs, targets, strict=True)]
        torch.testing.assert_close(found.contributions.nodes, torch.cat([a.nodes for a in alone]))
        torch.testing.assert_close(found.contributions.edges, torch.cat([a.edges for a in alone]))
        torch.testing.assert_close(found.contributions.output, sum(a.output for a in alone))
        torch.testing.assert_close(found.contributions.remainder, sum(a.remainder for a in alone))


def test_targets_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match=r"target=0\.5"):
        WalkExplainer(target=0.5)  # type: ignore[arg-type]
    graph, model = random_graph(0), network(3)
    explain = explainer(model, "multiclass_classification", WalkExplainer(target=2))
    with pytest.raises(ValueError, match="target=2 with several classes"):
        explain(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
    explain = explainer(model, "multiclass_classification")
    with pytest.raises(ValueError, match="index=5 with 1 graphs"):
        explain(graph.x, graph.edge_index, edge_attr=graph.edge_attr, index=5)


@pytest.mark.parametrize("index", [1, torch.tensor([1]), torch.tensor([False, True, False])])
def test_one_of_several_graphs(index: Any) -> None:
    graphs = [random_graph(seed) for seed in range(3)]
    joined, batch = union(graphs)
    model = network(3)
    found = explainer(model, "multiclass_classification")(
        joined.x,
        joined.edge_index,
        edge_attr=joined.edge_attr,
        batch=batch,
        batch_size=3,
        index=index,
    )
    expected = attribution(model, graphs[1], int(found.target[1]))
    torch.testing.assert_close(found.contributions.nodes[batch == 1], expected.nodes)
    torch.testing.assert_close(found.contributions.output, expected.output)
    assert not found.contributions.nodes[batch != 1].any()


def test_phenomenon_explains_the_given_class() -> None:
    model, graph = network(3), random_graph(0)
    explain = Explainer(
        model,
        WalkExplainer(),
        explanation_type="phenomenon",
        node_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "graph",
            "return_type": "raw",
        },
    )
    for label in range(3):
        given = {"edge_attr": graph.edge_attr, "target": torch.tensor([label])}
        found = explain(graph.x, graph.edge_index, **given)
        expected = attribution(model, graph, label)
        torch.testing.assert_close(found.contributions.nodes, expected.nodes)


def test_several_outputs_need_a_target() -> None:
    graph = random_graph(0)
    model = network(2)
    with pytest.raises(ValueError, match=r"the model has 2 outputs: name one, WalkExplainer\("):
        explainer(model)(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
    with pytest.raises(ValueError, match="target=2 with 2 outputs: expected -2 to 1"):
        explainer(model, algorithm=WalkExplainer(target=2))(
            graph.x, graph.edge_index, edge_attr=graph.edge_attr
        )


@pytest.mark.parametrize(
    "changed",
    [{"node_mask_type": "attributes"}, {"edge_mask_type": "attributes"}],
    ids=["nodes", "edges"],
)
def test_settings_of_masks(changed: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"'(node|edge)_mask_type'|does not support"):
        explainer(network(), **changed)


@pytest.mark.parametrize(
    "changed",
    [{"task_level": "node"}, {"return_type": "probs", "mode": "binary_classification"}],
    ids=["task", "outputs"],
)
def test_settings_of_models(changed: dict[str, str]) -> None:
    task = {"mode": "regression", "task_level": "graph", "return_type": "raw", **changed}
    with pytest.raises(ValueError, match="'WalkExplainer' does not support the given"):
        Explainer(
            network(),
            WalkExplainer(),
            explanation_type="model",
            node_mask_type="object",
            model_config=task,
        )
