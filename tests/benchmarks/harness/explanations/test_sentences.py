"""Attributions of what a text classifier says."""

from dataclasses import asdict, replace

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations import sentences
from benchmarks.harness.explanations.sentences import TextAttributor
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.model_config import TextModelConfig
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.explain import NgramContributions
from pyg_kernels.explain.text_net import text_contributions
from pyg_kernels.sequence import RCNN

WORDS = ["a", "good", "bad", "film", "silent"]
TEXT = ("a", "good", "silent", "unheard", "film")


def classifier(classes: str = "01", name: str = "rcnn", **options: object) -> TextClassifier:
    torch.manual_seed(2)
    config = TextModelConfig(
        name,
        len(WORDS) + 2,
        4,
        True,
        len(classes),
        5,
        **{"num_layers": 1, "activation": "relu", "rcnn_readout": "sum", "dropout": 0.5, **options},
    )
    learner = TextClassifier(asdict(config), WORDS, list(classes))
    for parameter in learner.net.parameters():  # biases are zero at the start
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    return learner.eval()


def scores_of(learner: TextClassifier) -> torch.Tensor:
    ids = torch.tensor([2, 3, 6, 1, 5])
    with torch.no_grad():
        return learner.net(TextBatch(ids, torch.tensor([0, 5]), torch.zeros(1)))[0].double()


@pytest.mark.parametrize("activation", ["relu", "none"])
@pytest.mark.parametrize("rcnn_readout", ["c", "z", "sum"])
@pytest.mark.parametrize("decay", ["input", 0.5, "learned"], ids=str)
def test_words_and_constant_are_the_score(
    activation: str, rcnn_readout: str, decay: object
) -> None:
    learner = classifier(activation=activation, rcnn_readout=rcnn_readout, decay=decay)
    found = TextAttributor(learner, best=4)(TEXT)
    scores = scores_of(learner)
    assert found.score == pytest.approx((scores[1] - scores[0]).item(), abs=1e-5)
    assert found.gap < 1e-10
    assert found.question == "score of class 1 over class 0"
    assert found.predicted == "01"[int(scores.argmax())]
    assert len(found.tokens) == len(found.gates) == 5


def test_of_more_classes_the_predicted_one_against_the_others() -> None:
    learner = classifier("ABC")
    found, scores = TextAttributor(learner, best=1)(TEXT), scores_of(learner)
    best = int(scores.argmax())
    others = (scores.sum() - scores[best]) / 2
    assert found.score == pytest.approx((scores[best] - others).item(), abs=1e-5)
    assert found.question == f"score of class {'ABC'[best]} over the others"
    assert f"predicted {'ABC'[best]}" in found.title()


def test_gates_are_the_decays_at_words() -> None:
    learner = classifier()
    found = TextAttributor(learner, best=1)(TEXT)
    cell, x = learner.net.encoder.rcnn.cells[0], learner.net.embedding.weight[[2, 3, 6, 1, 5]]
    expected = torch.sigmoid(x @ cell.decay_lin.weight.t() + cell.decay_bias)
    torch.testing.assert_close(found.gates, expected.double(), atol=1e-6, rtol=0)
    constant = TextAttributor(classifier(decay=0.25), best=1)(TEXT).gates
    assert constant.unique().tolist() == [0.25]


def test_record_names_ngrams_by_their_words() -> None:
    found = TextAttributor(classifier(), best=30)(TEXT)
    record = found.record()
    assert record["text"] == " ".join(TEXT)
    # 5 words and 10 pairs of words.
    assert len({positions for positions, _ in found.ngrams}) == len(record["ngrams"]) == 15
    assert sum(value for _, value in record["ngrams"]) == pytest.approx(sum(record["tokens"]))


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (classifier(num_layers=2), "no attribution for this classifier: .*num_layers=2"),
        (classifier(name="lstm"), "one layer of an RCNN"),
        (classifier(readout="mean"), "one layer of an RCNN"),
        (classifier(activation="tanh"), "no attribution for this classifier: .*[tT]anh"),
        (classifier(activation="sigmoid"), "no attribution for this classifier: .*[sS]igmoid"),
    ],
    ids=["two-layers", "lstm", "mean", "tanh", "sigmoid"],
)
def test_other_classifiers_have_no_attribution(learner: TextClassifier, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TextAttributor(learner, best=1)(TEXT)


def test_a_sum_that_is_not_the_score_is_no_attribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*arguments: object) -> NgramContributions:
        found = text_contributions(*arguments)
        return replace(found, remainder=found.remainder + 1e-4)

    monkeypatch.setattr(sentences, "text_contributions", shifted)
    with pytest.raises(InputError, match=r"words add up to .*, its score is"):
        TextAttributor(classifier(), best=1)(TEXT)


def test_an_output_map_is_read() -> None:
    learner = classifier()
    torch.manual_seed(3)
    rcnn = RCNN(4, 5, act="relu", decay="input", output_map=True)
    assert rcnn.cells[0].output_lin is not None
    learner.net.encoder.rcnn = rcnn
    found, scores = TextAttributor(learner, best=1)(TEXT), scores_of(learner)
    assert found.gap < 1e-10
    assert found.score == pytest.approx((scores[1] - scores[0]).item(), abs=1e-5)


def test_gates_that_read_the_output_are_those_of_the_layer() -> None:
    learner = classifier(decay="recurrent")
    found = TextAttributor(learner, best=1)(TEXT)
    assert found.gap < 1e-10
    rcnn = learner.net.encoder.rcnn
    cell, x = rcnn.cells[0], learner.net.embedding.weight[[2, 3, 6, 1, 5]]
    with torch.no_grad():
        h, _ = rcnn(x, ptr=torch.tensor([0, 5]))
        before = torch.cat((torch.zeros_like(h[:1]), h[:-1]))
        logits = x @ cell.decay_lin.weight.t() + cell.decay_bias + cell.decay_recurrent(before)
    torch.testing.assert_close(found.gates, logits.sigmoid().double(), atol=1e-6, rtol=0)
