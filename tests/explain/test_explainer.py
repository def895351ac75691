"""The attributions of graphs and of texts in PyG's explainer and metrics."""

import re
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ReLU, Sequential, Tanh
from torch_geometric.explain import Explainer, Explanation, fidelity

from pyg_kernels.explain import (
    ModelContributions,
    NgramExplainer,
    TextNet,
    WalkExplainer,
    model_contributions,
    ngram_contributions,
)
from pyg_kernels.nn import RandomWalkNet, WLKernelNet
from pyg_kernels.sequence import KBRN, RCNN, path_batch
from tests.explain.values import close
from tests.graphs import Graph, batch_of, random_graph
from tests.sequence.rcnn import random_rcnn
from tests.sequence.texts import texts

BINARY, CLASSES = "binary_classification", "multiclass_classification"
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {"act": None, "bias": False},
    "relu": {"act": "relu", "decay": "recurrent", "readout": "sum"},
    "map": {"act": "leaky_relu", "output_map": True, "decay": "input", "combine": "add"},
}
TEXTS = texts(5, 0, 1, 7)
of_every_layer = pytest.mark.parametrize("name", LAYERS)


def network(out_channels: int = 1, **options: Any) -> WLKernelNet:
    torch.manual_seed(0)
    return WLKernelNet(4, 5, out_channels, num_iterations=2, edge_dim=3, **options).double()


def text_network(name: str = "relu", outputs: int = 1) -> TextNet:
    rcnn, norm = random_rcnn(4, 3, **LAYERS[name]), BatchNorm1d(5)
    torch.nn.init.normal_(norm.running_mean)
    return TextNet(rcnn, Sequential(Linear(3, 5), norm, ReLU(), Linear(5, outputs)).double())


def explainer(
    model: Module, mode: str = "regression", target: int | None = None, **options: Any
) -> Explainer:
    """An explainer of a network's nodes and edges, or of the tokens of its texts."""
    task = {"mode": mode, "task_level": "graph", "return_type": "raw"}
    task |= {name: options.pop(name) for name in task.keys() & options.keys()}
    settings: dict[str, Any] = {"explanation_type": "model", "node_mask_type": "object"}
    if isinstance(model, TextNet):
        settings["algorithm"] = NgramExplainer(target=target)
    else:
        settings |= {"algorithm": WalkExplainer(target=target), "edge_mask_type": "object"}
    return Explainer(model, model_config=task, **{**settings, **options})


def explained(explain: Explainer, graph: Graph, **options: Any) -> Explanation:
    return explain(graph.x, graph.edge_index, edge_attr=graph.edge_attr, **options)


def attribution(model: Module, graph: Graph, target: int = 0) -> ModelContributions:
    return model_contributions(model, graph.x, graph.edge_index, graph.edge_attr, target)


def test_masks_are_absolute_shares() -> None:
    model, graph = network(norm="batch").train(), random_graph(0)
    found, expected = explained(explainer(model), graph), attribution(model, graph)
    assert isinstance(found, Explanation) and model.training
    nodes, edges = expected.nodes.abs(), expected.edges.abs()
    close(found.node_mask, (nodes / nodes.max()).unsqueeze(1))
    close(found.edge_mask, edges / edges.max())
    close(found.contributions.nodes, expected.nodes)
    close(found.contributions.output, found.prediction.squeeze())
    assert found.contributions.walks == expected.walks
    weight = torch.ones(9).double().index_fill(0, torch.tensor([4]), 0.0)
    found = explained(explainer(model), graph, edge_weight=weight)
    assert found.edge_mask[4] == 0 and found.edge_mask.max() == 1
    for absent in ("node_mask", "edge_mask"):  # one kind of mask
        found = explained(explainer(model, **{f"{absent}_type": None}), graph)
        assert set(found.available_explanations) == {"node_mask", "edge_mask"} - {absent}
    graph = Graph(torch.zeros(3, 4).double(), torch.tensor([[0], [1]]), torch.ones(1, 3).double())
    found = explained(explainer(network()), graph)  # there is nothing to attribute
    assert not found.node_mask.any() and not found.edge_mask.any()


def test_metrics_and_modes_of_texts() -> None:
    model = text_network().train()
    explain = explainer(model, BINARY, threshold_config=("topk_hard", 2))
    found = explain(TEXTS[3], torch.empty(2, 0, dtype=torch.long))
    assert model.training and model.rcnn.training
    assert found.node_mask.sum() == 2
    assert all(score in (0.0, 1.0) for score in fidelity(explain, found))


def test_important_parts_carry_the_prediction() -> None:
    """With the attribution's best nodes alone the prediction stays; without them it changes."""
    model = RandomWalkNet(1, 1, 1, order=2, decay=1.0, act=None).double()
    for parameter in model.parameters():
        torch.nn.init.ones_(parameter)
    torch.nn.init.constant_(model.head.bias, -5.0)
    x = torch.tensor([[0.1], [3.0], [3.0], [0.1]], dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    explain = explainer(model, BINARY, threshold_config=("topk_hard", 2))
    found = explain(x, edge_index)
    assert found.node_mask.flatten().tolist() == [0, 1, 1, 0]
    assert fidelity(explain, found) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"target": 2}, {}),
        ({"mode": CLASSES}, {}),
        ({"mode": CLASSES, "explanation_type": "phenomenon"}, {"target": torch.tensor([0, 2, 1])}),
    ],
)
def test_several_graphs(options: dict[str, Any], given: dict[str, Tensor]) -> None:
    """Outputs are explained, or given classes; of all graphs or of one."""
    graphs = [random_graph(seed, num_nodes=5 + seed) for seed in range(3)]
    model, joined = network(3, readout="concat"), batch_of(graphs)
    explain = explainer(model, **options)
    found = explained(explain, joined, batch=joined.batch, **given)
    targets = [2] * 3 if "target" in options else found.target.tolist()
    alone = [attribution(model, g, t) for g, t in zip(graphs, targets, strict=True)]
    assert_joined(found.contributions, alone, ("nodes", "edges"), ("output", "remainder"))
    for index in (1, torch.tensor([1]), torch.tensor([False, True, False])):
        of_one = {"batch": joined.batch, "batch_size": 3, "index": index, **given}
        one = explained(explain, joined, **of_one).contributions
        close(one.nodes[joined.batch == 1], alone[1].nodes)
        close(one.output, alone[1].output)
        assert not one.nodes[joined.batch != 1].any()


def assert_joined(found: Any, alone: list[Any], of_parts: Any, of_wholes: Any) -> None:
    """The attribution of several inputs joins the parts of each, and adds up the totals."""
    for names, joint in ((of_parts, torch.cat), (of_wholes, sum)):
        for name in names:
            close(getattr(found, name), joint([getattr(one, name) for one in alone]))


@of_every_layer
def test_several_texts(name: str) -> None:
    """Each text by itself: shares add up to the output, even of a text too short for a bigram."""
    model, batch = text_network(name, outputs=3), path_batch(TEXTS)
    given = {"batch": batch.batch, "batch_size": len(TEXTS)}
    found = explainer(model, CLASSES)(batch.x, batch.edge_index, **given)
    rows = [
        explainer(model, target=int(target))(text, None)
        for text, target in zip(TEXTS, found.target, strict=True)
    ]
    alone = [row.contributions for row in rows]
    for row, label in zip(rows, found.target, strict=True):
        attribution, shares = row.contributions, row.contributions.tokens
        close(attribution.total + attribution.remainder, row.prediction[0, label])
        close(shares.sum(), attribution.total)
        largest = max(shares.abs().tolist(), default=0.0) or 1.0
        close(row.node_mask, (shares.abs() / largest).unsqueeze(1))
    close(found.prediction, torch.cat([row.prediction for row in rows]))
    assert_joined(found.contributions, alone, ["tokens"], ("total", "remainder"))
    values = [value for attribution in alone for _, value in attribution.ngrams]
    best = sorted(values, key=abs, reverse=True)[:10]
    assert [value for _, value in found.contributions.ngrams] == pytest.approx(best)
    one = explainer(model, CLASSES)(batch.x, batch.edge_index, **given, index=3).contributions
    close(one.tokens[6:], alone[3].tokens)
    assert not one.tokens[:6].any()


@of_every_layer
def test_is_the_attribution_of_the_layer(name: str) -> None:
    """The head is the gradient that autograd finds at the layer's state."""
    model, x = text_network(name).eval(), TEXTS[0]
    (cell,) = model.rcnn.cells
    units = torch.eye(3, dtype=torch.float64)  # one channel at a time gives the state
    state = torch.stack([ngram_contributions(cell, x, head=u, k=0).total for u in units])
    state.requires_grad_()
    h = state if cell.output_lin is None else state @ cell.output_lin.weight.t()
    h = h if cell.bias is None else h + cell.bias
    h = h if cell.act is None else cell.act(h)
    (theta,) = torch.autograd.grad(model.head(h.unsqueeze(0)).sum(), state)
    found = explainer(model)(x, None).contributions
    expected = ngram_contributions(cell, x, head=theta)
    close(found.tokens, expected.tokens)
    assert [positions for positions, _ in found.ngrams] == [p for p, _ in expected.ngrams]


UNSUPPORTED = "'WalkExplainer' does not support the given"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"outputs": 3, "target": 0.5}, r"target=0\.5"),
    ({"outputs": 3, "mode": CLASSES, "target": 2}, "target=2 with several classes"),
    ({"outputs": 3, "mode": CLASSES, "index": 5}, "index=5 with 1 graphs"),
    ({"outputs": 2}, r"the model has 2 outputs: name one, WalkExplainer\("),
    ({"outputs": 2, "target": 2}, "target=2 with 2 outputs: expected -2 to 1"),
    ({"node_mask_type": "attributes"}, "'node_mask_type'|does not support"),
    ({"edge_mask_type": "attributes"}, "'edge_mask_type'|does not support"),
    ({"task_level": "node"}, UNSUPPORTED),
    ({"return_type": "probs", "mode": BINARY}, UNSUPPORTED),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_targets_and_settings_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    options = {"outputs": 1, "index": None, **options}
    model, index = network(options.pop("outputs")), options.pop("index")
    with pytest.raises(ValueError, match=words):
        explained(explainer(model, **options), random_graph(0), index=index)


def explains(model: Module, x: Tensor = TEXTS[0]) -> Any:
    algorithm = NgramExplainer(target=0)
    settings = {"explanation_type": "model", "node_mask_type": "object"}
    algorithm.connect(settings, {"mode": "regression", "task_level": "graph"})
    return partial(algorithm, model.double(), x, target=torch.zeros(1))


def test_what_texts_have_no_attribution() -> None:
    model, x, head, order = text_network(), TEXTS[0], Linear(4, 1), torch.arange(5)
    tanh, linear = RCNN(4, 4), RCNN(4, 4, act=None)
    gated, highway = RCNN(4, 4, output_gate=True), RCNN(4, 4, highway=True)
    for words, call in (
        ("(rcnn.cells.0.act) has the activation Tanh()", explains(TextNet(tanh, head))),
        ("model (head) has the activation Tanh()", explains(TextNet(linear, Tanh()))),
        ("model has output_gate_lin (rcnn.", explains(TextNet(gated, head))),
        ("model has highway_lin (rcnn.cells.0)", explains(TextNet(highway, head))),
        ("model is a RCNN: expected a TextNet", explains(tanh)),
        ("x has 3 features: expected 4", explains(model, x[:, :3])),
        ("x has dtype", explains(model, x.float())),
        ("rcnn is a KBRN", partial(TextNet, KBRN(4, 3), head)),
        ("rcnn has num_layers=2", partial(TextNet, RCNN(4, 3, num_layers=2), head)),
        ("expected numbers that never fall", partial(model, x, batch=order.flip(0))),
        ("batch_size=2 without a batch vector", partial(model, x, batch_size=2)),
        ("batch_size=1: batch has 2", partial(model, x, batch=order // 3, batch_size=1)),
        ("'NgramExplainer' does not supp", partial(explainer, model, edge_mask_type="object")),
        (
            "model is a TextNet: expected a RandomWalkNet",
            partial(explainer(model, algorithm=WalkExplainer()), x, torch.empty(2, 0).long()),
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            call()
