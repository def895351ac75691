"""Encoders that make one vector of a text, and what a classifier says of it word by word."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from benchmarks.harness import sizes
from benchmarks.harness.summary import png
from benchmarks.harness.text import models, prediction
from benchmarks.harness.text.counts import NGramClassifier
from benchmarks.harness.text.options import CELLS, MODELS, TextModelConfig
from benchmarks.harness.text.prediction import explain
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import TextBatch, Vocabulary
from pyg_kernels.sequence import RKM

LENGTHS = (2, 4, 1)
BATCH = TextBatch(torch.arange(7), torch.tensor([0, 2, 6, 7]), torch.zeros(3, dtype=torch.long))


def config(kind: str, **changes: object) -> TextModelConfig:
    made = TextModelConfig(kind, 9, 4, False, 3, hidden=5, num_layers=3, dropout=0.4, kind=kind)
    return replace(made, **changes)


def built(settings: TextModelConfig) -> Any:
    torch.manual_seed(0)
    return models.TextNet(settings).double().eval().encoder


def recurrent(encoder: Any, x: torch.Tensor, is_mean: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """``nn.LSTM`` and the package's layers all read one text as ``(T, F)``."""
    outputs = []
    for layer in encoder.layers:
        x, _ = layer(x)
        outputs.append(x)
    features = torch.cat(outputs, dim=1)
    if is_mean:
        return features, features.mean(dim=0)
    return features, torch.cat((features[-1, :5], features[0, 5:]))  # both ends, if bidirectional


def bag(encoder: Any, x: torch.Tensor, _: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return encoder.lin(x).clamp(min=0), encoder.lin(x.mean(dim=0)).clamp(min=0)


def cnn(encoder: Any, x: torch.Tensor, _: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Features are those of the windows that end at a word; the text is the maximum over all."""
    at_words, best = [], []
    for width, conv in zip((3, 4, 5), encoder.convs, strict=True):
        ends = torch.zeros(width - 1, 4, dtype=torch.double)
        windows = torch.cat([ends, x, ends]).unfold(0, width, 1)  # each is features x words
        values = torch.einsum("hdw,tdw->th", conv.weight, windows) + conv.bias
        at_words.append(values[: len(x)].clamp(min=0))
        best.append(values.amax(0).clamp(min=0))
    return torch.cat(at_words, 1), torch.cat(best)


ENCODERS = dict.fromkeys(("rcnn", "lstm", "bi-lstm", "rkm-lstm:2", "cnn:3"), recurrent)
ENCODERS |= {"bag-of-vectors": bag, "cnn": cnn}


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_texts_of_a_batch_are_read_as_each_alone(kind: str, readout: str) -> None:
    name, _, ngram = kind.partition(":")
    encoder = built(config(name, ngram=int(ngram or 0), readout=readout))
    if ENCODERS[kind] is recurrent:
        assert len(encoder.layers) == (3 if readout == "mean" and not ngram else 1)
    x = torch.randn(7, 4, dtype=torch.double)
    here = encoder.at_words(x, BATCH).split(LENGTHS)
    for whole, features, text in zip(encoder(x, BATCH), here, x.split(LENGTHS), strict=True):
        expected = ENCODERS[kind](encoder, text, readout == "mean" or bool(ngram))
        torch.testing.assert_close((features, whole), expected, rtol=1e-10, atol=1e-12)


TEXTS = ["a b a b", "c", "a c b", "b b", "c c c a", "b a"]


def text_batch(texts: list[str], words: str = "abc") -> TextBatch:
    """A batch of texts; the class of a text says whether it has the word a."""
    ids, ptr = Vocabulary([*words]).encode([text.split() for text in texts])
    return TextBatch(ids, ptr, torch.tensor([int("a" in text) for text in texts]))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_ngrams_are_those_of_scikit_learn(order: int) -> None:
    batch = text_batch(TEXTS)
    made = NGramClassifier(order, 5, 0, 2).fit(batch, batch)
    counts = CountVectorizer(ngram_range=(1, order), token_pattern=r"\w", binary=True)
    x = counts.fit_transform(TEXTS).toarray()
    assert len(made.ngrams) == x.shape[1]
    places = made.ngrams.tolist()

    def key(ngram: str) -> int:  # digits in base 5, the size of the vocabulary; a is 2
        return sum((ord(word) - 95) * 5**k for k, word in enumerate(ngram.split()[::-1]))

    columns = [places.index(key(ngram)) for ngram in counts.get_feature_names_out()]
    weight = made.weight[columns].double()
    expected = (torch.from_numpy(x).double() @ weight + made.bias).log_softmax(1)
    torch.testing.assert_close(made(batch).double(), expected, rtol=1e-5, atol=1e-5)
    assert made(batch).argmax(1).tolist() == batch.y.tolist()
    ratios = np.diff(MultinomialNB().fit(x, batch.y.numpy()).feature_log_prob_, axis=0)[0]
    assert not weight[np.abs(ratios) < 1e-9].any()  # where the log-ratio is 0, so is the weight


def test_unknown_ngrams_leave_the_bias_and_nothing_is_an_empty_batch() -> None:
    made = NGramClassifier(2, 5, 0, 2).fit(text_batch(TEXTS), text_batch(TEXTS))
    found = made(text_batch(["x", "x y x"]))
    torch.testing.assert_close(found, made.bias.log_softmax(0).expand(2, 2))
    empty = torch.zeros(0, dtype=torch.long)
    assert made(TextBatch(empty, torch.zeros(1, dtype=torch.long), empty)).shape == (0, 2)


def test_a_network_is_trained_without_ngrams_and_averaged_with_them() -> None:
    batch = text_batch(TEXTS)
    fitted = NGramClassifier(2, 5, 0, 2).fit(batch, batch)
    sizes = {"num_words": 5, "num_classes": 2, "num_layers": 1, "dropout": 0.0}
    counted = {**sizes, "counts": 2, "num_ngrams": len(fitted.ngrams)}
    net, bare = (models.TextNet(config("rcnn", **options)).double() for options in (counted, sizes))
    net.counts.load_state_dict(fitted.state_dict())
    bare.load_state_dict(net.state_dict(), strict=False)
    alone = bare(batch)
    torch.testing.assert_close(net(batch), alone, rtol=0, atol=0)
    mean = (alone.log_softmax(1) + fitted(batch)) / 2
    torch.testing.assert_close(net.eval()(batch), mean, rtol=1e-5, atol=1e-5)
    assert {*dict(net.named_parameters())} == {*dict(bare.named_parameters())}


def test_the_paper_s_model() -> None:
    """Appendix B.2, with vectors of 300 numbers: three layers of W1, W2 and biases; the output."""
    options = {"order": 2, "decay": 0.5, "activation": "relu"}
    paper = TextModelConfig("rcnn", 9, 300, True, 5, 200, 3, 0.35, "mean", **options)
    layers = 2 * (300 * 200 + 2 * 200 * 200) + 3 * 200
    head = 600 * 5 + 5
    assert models.count_parameters(paper) == layers + head
    decays = 300 * 200 + 2 * 200 * 200 + 3 * 200
    assert models.count_parameters(replace(paper, decay="input")) == layers + head + decays
    recurrent = models.count_parameters(replace(paper, decay="recurrent"))
    assert recurrent == layers + head + decays + 3 * 200 * 200
    net = models.TextNet(paper)
    bounds = [(net.encoder.layers[0].cells[0].lins[0].weight, 300), (net.head.weight, 600)]
    for weight, inputs in bounds:
        assert weight.abs().max().item() == pytest.approx(math.sqrt(3 / inputs), rel=0.01)
    assert not net.head.bias.any()


@pytest.mark.parametrize("ngram", [1, 3])
def test_weights_of_cells_are_those_of_their_layers(ngram: int) -> None:
    """Biases and what surrounds a cell do not count, as in table 2 of Liang et al. 2019."""
    for cell in CELLS:
        made = TextModelConfig("a", 9, 30, True, 2, hidden=20, kind=cell, ngram=ngram)
        layer = RKM(30, 20, cell=cell, ngram=ngram)
        weights = sum(p.numel() for p in layer.parameters() if p.dim() > 1)
        assert models.TextNet(made).encoder.cell_parameters() == weights
    assert weights == 3 * ngram * 30 * 20 + 2 * 20 * 20  # for a RAN, which is not in the paper


def test_networks_get_about_the_same_number_of_parameters() -> None:
    for kind in MODELS:
        made = TextModelConfig(kind, 50, 20, True, 6, hidden=1, kind=kind)
        fitted = models.fit_hidden_size(made, 20_000)
        assert 19_000 < models.count_parameters(fitted) <= 20_000
        learned = models.TextNet(replace(fitted, fixed_embedding=False))
        assert sizes.num_parameters(learned) == models.count_parameters(fitted) + 50 * 20


WORDS = ["a", "good", "bad", "film", "silent"]


def classifier(kind: str = "rcnn", classes: str = "01234", **options: object) -> TextClassifier:
    torch.manual_seed(0)
    made = TextModelConfig(kind, len(WORDS) + 2, 4, True, len(classes), 5, dropout=0.5, kind=kind)
    learner = TextClassifier(asdict(replace(made, **options)), WORDS, list(classes))
    learner.net.embedding.weight.data[-1] = 0  # "silent" has no vector
    return learner.eval()


@pytest.mark.parametrize("kind", ["rcnn", "lstm", "bi-lstm", "cnn", "bag-of-vectors", "ran"])
def test_each_word_is_classified_and_the_text_up_to_it(kind: str, monkeypatch) -> None:
    monkeypatch.setattr(prediction, "PREFIXES", 2)
    learner = classifier(kind, readout="mean", ngram=2 * (kind == "ran"))
    found = explain(learner, ["a", "bad", "film", "nowhere", "good"])
    numbers = torch.tensor([2, 4, 5, 1, 3])
    for t in range(5):
        batch = TextBatch(numbers[: t + 1], torch.tensor([0, t + 1]), torch.zeros(1))
        torch.testing.assert_close(found.so_far[t], learner.net(batch).softmax(dim=1)[0])
    features = learner.net.encoder.at_words(learner.net.embedding(numbers), batch)
    torch.testing.assert_close(found.here, learner.net.head(features).softmax(dim=1))


def test_table_of_scores_and_unknown_words() -> None:
    found = explain(classifier(), ["a", "nowhere", "silent", "good"])
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
    ordered = [explain(classifier(), words) for words in (["a"], ["good", "film"])]
    figure = prediction.explanation_plot(ordered)
    assert png(figure).startswith(b"\x89PNG")
    heights = [[patch.get_height() for patch in axes.patches] for axes in figure.axes]
    for bars, shown in zip(heights, ordered, strict=True):
        assert bars == pytest.approx((shown.here @ torch.arange(-2.0, 3.0)).tolist())


def test_values_of_classes() -> None:
    for classes, values in (
        (list("01234"), [-2, -1, 0, 1, 2]),
        (["negative", "positive"], [-1, 1]),
        ([str(k) for k in range(1, 11)], [k - 4.5 for k in range(10)]),
        (["0", "2", "3"], None),
        (["1", "10", "2", "3", "4", "5", "6", "7", "8", "9"], None),
        (["0"], None),
    ):
        assert prediction.class_values(classes) == values
