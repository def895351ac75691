"""What a classifier makes of a text, word by word."""

from dataclasses import asdict

import pytest
import torch

from benchmarks.harness.summary import png
from benchmarks.harness.text import prediction
from benchmarks.harness.text.options import TextModelConfig
from benchmarks.harness.text.prediction import class_values, explain, explanation_plot
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import TextBatch

WORDS = ["a", "good", "bad", "film", "silent"]


def classifier(name: str = "rcnn", classes: str = "01234", **options: object) -> TextClassifier:
    torch.manual_seed(0)
    config = TextModelConfig(name, len(WORDS) + 2, 4, True, len(classes), 5, dropout=0.5, **options)
    learner = TextClassifier(asdict(config), WORDS, list(classes))
    learner.net.embedding.weight.data[-1] = 0  # no vector of "silent"
    return learner.eval()


@pytest.mark.parametrize("name", ["rcnn", "lstm", "bi-lstm", "cnn", "bag-of-vectors", "ran"])
def test_the_text_so_far_is_classified_as_a_text(name: str, monkeypatch) -> None:
    monkeypatch.setattr(prediction, "PREFIXES", 2)
    learner = classifier(name, readout="mean", kind=name, ngram=2 * (name == "ran"))
    text = ["a", "bad", "film", "nowhere", "good"]
    found = explain(learner, text)
    numbers = [2, 4, 5, 1, 3]
    for t in range(5):
        batch = TextBatch(torch.tensor(numbers[: t + 1]), torch.tensor([0, t + 1]), torch.zeros(1))
        expected = learner.net(batch).softmax(dim=1)[0]
        torch.testing.assert_close(found.so_far[t], expected)
    assert found.here.shape == (5, 5)
    torch.testing.assert_close(found.here.sum(dim=1), torch.ones(5))


def test_the_local_sentiment_is_the_output_layer_at_each_word() -> None:
    learner = classifier(readout="mean", num_layers=2)
    found = explain(learner, ["good", "bad", "film"])
    x = learner.net.embedding.weight[torch.tensor([3, 4, 5])]
    first, _ = learner.net.encoder.layers[0](x)
    second, _ = learner.net.encoder.layers[1](first)
    scores = torch.cat((first, second), dim=1) @ learner.net.head.weight.T + learner.net.head.bias
    torch.testing.assert_close(found.here, scores.softmax(dim=1))


def test_table_of_scores_and_unknown_words() -> None:
    found = explain(classifier(), ["a", "nowhere", "silent", "good"])
    assert found.known == [True, False, False, True]
    assert found.unknown() == "2 of 4 words are unknown: nowhere, silent"
    table = found.table()
    assert "from -2 (class 0) to 2 (class 4)" in table.caption
    scores = [sum(k * float(p) for k, p in enumerate(row)) - 2 for row in found.here]
    assert [row[1] for row in table.rows] == [f"{score:+.2f}" for score in scores]
    assert [row[0] for row in table.rows] == ["a", "nowhere (unknown)", "silent (unknown)", "good"]
    best = int(found.so_far[-1].argmax())
    assert f"class {best} ({found.so_far[-1, best]:.2f})" in table.text()
    assert explain(classifier(), ["a"]).unknown() == "every word is known"


def test_classes_without_an_order_and_pictures() -> None:
    found = explain(classifier(classes="ABC"), ["a", "film"])
    best = int(found.so_far[-1].argmax())
    assert f"probability of {'ABC'[best]}, at each word" in found.table().caption
    assert [row[1] for row in found.table().rows] == [f"{p:+.2f}" for p in found.here[:, best]]
    assert png(explanation_plot([found])).startswith(b"\x89PNG")
    ordered = [explain(classifier(), words) for words in (["a"], ["good", "film"])]
    figure = explanation_plot(ordered)
    assert [len(axes.patches) for axes in figure.axes] == [1, 2]
    heights = [patch.get_height() for patch in figure.axes[1].patches]
    assert heights == pytest.approx(prediction.expected(ordered[1].here, [-2, -1, 0, 1, 2]))


def test_values_of_classes() -> None:
    for classes, values in (
        (list("01234"), [-2, -1, 0, 1, 2]),
        (["negative", "positive"], [-1, 1]),
        ([str(k) for k in range(1, 11)], [k - 4.5 for k in range(10)]),
        (["0", "2", "3"], None),
        (["1", "10", "2", "3", "4", "5", "6", "7", "8", "9"], None),
        (["0"], None),
    ):
        assert class_values(classes) == values
