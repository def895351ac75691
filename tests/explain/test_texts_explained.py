"""Networks over texts in PyG's explainer and metrics."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ReLU, Sequential, Tanh
from torch_geometric.explain import Explainer, fidelity

from pyg_kernels.explain import NgramExplainer, TextNet, WalkExplainer, ngram_contributions
from pyg_kernels.sequence import KBRN, RCNN, path_batch
from tests.explain.values import close
from tests.sequence.rcnn import random_rcnn

LENGTHS = [5, 0, 1, 7]
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {"act": None, "bias": False},
    "relu": {"act": "relu", "decay": "recurrent", "readout": "sum"},
    "map": {"act": "leaky_relu", "output_map": True, "decay": "input", "combine": "add"},
}


def network(name: str = "relu", outputs: int = 1) -> TextNet:
    rcnn = random_rcnn(4, 3, **LAYERS[name])
    norm = BatchNorm1d(5).double()
    torch.nn.init.normal_(norm.running_mean)
    return TextNet(
        rcnn, Sequential(Linear(3, 5).double(), norm, ReLU(), Linear(5, outputs).double())
    )


def explainer(model: Module, mode: str = "regression", **options: Any) -> Explainer:
    settings = {"algorithm": NgramExplainer(), "node_mask_type": "object", **options}
    task = {"mode": mode, "task_level": "graph", "return_type": "raw"}
    return Explainer(model, explanation_type="model", model_config=task, **settings)


def texts() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in LENGTHS]


def test_a_head_with_a_module_twice() -> None:
    twice, act = Linear(3, 3), ReLU()
    head = Sequential(twice, act, Sequential(twice, act), Linear(3, 1)).double()
    model, x = TextNet(random_rcnn(4, 3, **LAYERS["relu"]), head), texts()[3]
    attribution = explainer(model)(x, None).contributions
    close(attribution.total + attribution.remainder, model.eval()(x)[0, 0])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("text", [0, 1, 2, 3])
def test_adds_up_to_the_output(name: str, text: int) -> None:
    model, x = network(name), texts()[text]
    found = explainer(model)(x, None)
    attribution = found.contributions
    close(attribution.total + attribution.remainder, found.prediction[0, 0])
    close(attribution.tokens.sum(), attribution.total)
    largest = max(attribution.tokens.abs().tolist(), default=0.0) or 1.0  # too short for a bigram
    close(found.node_mask, (attribution.tokens.abs() / largest).unsqueeze(1))


@pytest.mark.parametrize("name", LAYERS)
def test_is_the_attribution_of_its_layer(name: str) -> None:
    """With the head that autograd finds at the layer's state."""
    model, x = network(name).eval(), texts()[0]
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


def test_several_texts() -> None:
    model, parts = network(outputs=3), texts()
    batch = path_batch(parts)
    graph = {"batch": batch.batch, "batch_size": len(parts)}
    found = explainer(model, "multiclass_classification")(batch.x, batch.edge_index, **graph)
    rows = [
        explainer(model, algorithm=NgramExplainer(target=int(target)))(text, None)
        for text, target in zip(parts, found.target, strict=True)
    ]
    alone = [row.contributions for row in rows]
    close(found.prediction, torch.cat([row.prediction for row in rows]))
    close(found.contributions.tokens, torch.cat([attribution.tokens for attribution in alone]))
    close(found.contributions.total, sum(attribution.total for attribution in alone))
    close(found.contributions.remainder, sum(attribution.remainder for attribution in alone))
    values = [value for attribution in alone for _, value in attribution.ngrams]
    best = sorted(values, key=abs, reverse=True)[:10]
    assert [value for _, value in found.contributions.ngrams] == pytest.approx(best)
    one = explainer(model, "multiclass_classification")(
        batch.x, batch.edge_index, **graph, index=3
    ).contributions
    close(one.tokens[6:], alone[3].tokens)
    assert not one.tokens[:6].any()


def test_metrics_and_modes() -> None:
    model, x = network().train(), texts()[3]
    explain = explainer(model, "binary_classification", threshold_config=("topk_hard", 2))
    found = explain(x, torch.empty(2, 0, dtype=torch.long))
    assert model.training and model.rcnn.training
    assert found.node_mask.sum() == 2
    assert all(score in (0.0, 1.0) for score in fidelity(explain, found))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (TextNet(RCNN(4, 3), Linear(3, 1)), "(rcnn.cells.0.act) has the activation Tanh()"),
        (TextNet(RCNN(4, 3, act=None), Tanh()), "model (head) has the activation Tanh()"),
        (TextNet(RCNN(4, 3, output_gate=True), Linear(3, 1)), "model has output_gate_lin (rcnn."),
        (TextNet(RCNN(4, 4, highway=True), Linear(4, 1)), "model has highway_lin (rcnn.cells.0)"),
        (RCNN(4, 3), "model is a RCNN: expected a TextNet"),
    ],
    ids=["tanh", "head", "gate", "highway", "layer"],
)
def test_models_that_have_no_attribution(model: Module, words: str) -> None:
    algorithm = NgramExplainer(target=0)
    algorithm.connect(
        {"explanation_type": "model", "node_mask_type": "object"},
        {"mode": "regression", "task_level": "graph"},
    )
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below, as it is
        algorithm(model, torch.ones(2, 4), target=torch.zeros(1))
    assert words in str(error.value)


def test_inputs_that_do_not_fit() -> None:
    algorithm, model, x = NgramExplainer(), network(), texts()[0]
    for words, call in (
        ("x has 3 features: expected 4", lambda: algorithm(model, x[:, :3], target=torch.zeros(1))),
        ("x has dtype", lambda: algorithm(model, x.float(), target=torch.zeros(1))),
        ("rcnn is a KBRN", lambda: TextNet(KBRN(4, 3), Linear(3, 1))),
        ("rcnn has num_layers=2", lambda: TextNet(RCNN(4, 3, num_layers=2), Linear(3, 1))),
        ("expected numbers that never fall", lambda: model(x, batch=torch.arange(5).flip(0))),
        ("batch_size=2 without a batch vector", lambda: model(x, batch_size=2)),
        ("batch_size=1: batch has 2", lambda: model(x, batch=torch.arange(5) // 3, batch_size=1)),
        ("'NgramExplainer' does not supp", lambda: explainer(model, edge_mask_type="object")),
        (
            "model is a TextNet: expected a RandomWalkNet",
            lambda: explainer(model, algorithm=WalkExplainer())(x, torch.empty(2, 0).long()),
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
