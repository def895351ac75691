"""What makes one vector of a text, and what a classifier makes of it word by word."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.harness import sizes
from benchmarks.harness.summary import png
from benchmarks.harness.text import models, prediction
from benchmarks.harness.text.counts import NGramClassifier
from benchmarks.harness.text.options import CELLS, TextModelConfig
from benchmarks.harness.text.prediction import class_values, explain, explanation_plot
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import TextBatch, Vocabulary

LENGTHS = (2, 4, 1)
BATCH = TextBatch(torch.arange(7), torch.tensor([0, 2, 6, 7]), torch.zeros(3, dtype=torch.long))


def config(name: str, **changes: object) -> TextModelConfig:
    return replace(
        TextModelConfig(name, 9, 4, False, 3, hidden=5, num_layers=3, dropout=0.4), **changes
    )


def built(settings: TextModelConfig) -> models.Encoder:
    torch.manual_seed(0)
    return models.build_text_model(settings).double().eval().encoder


@pytest.fixture
def x() -> torch.Tensor:
    """Word vectors of the three texts."""
    return torch.randn(7, 4, dtype=torch.double)


@pytest.mark.parametrize("name", ["rcnn", "lstm", "bi-lstm"])
def test_means_of_all_layers_stand_side_by_side(name: str, x) -> None:
    encoder = built(config(name, readout="mean"))
    assert isinstance(encoder, models.LayeredEncoder)
    for row, text in zip(encoder(x, BATCH), x.split(LENGTHS), strict=True):
        means, h = [], text
        for layer in encoder.layers:
            h, _ = layer(h)  # nn.LSTM and RCNN both read one text as (T, F)
            means.append(h.mean(dim=0))
        torch.testing.assert_close(row, torch.cat(means), rtol=1e-10, atol=1e-12)


def test_both_ends_and_bags(x) -> None:
    both, bag = built(config("bi-lstm")), built(config("bag-of-vectors"))
    found = zip(both(x, BATCH), bag(x, BATCH), x.split(LENGTHS), strict=True)
    for ends, mean, text in found:
        output, _ = both.lstm(text)
        expected = torch.cat((output[-1, :5], output[0, 5:]))
        torch.testing.assert_close(ends, expected, rtol=1e-10, atol=1e-12)
        expected = (bag.lin.weight @ text.mean(dim=0) + bag.lin.bias).clamp(min=0)
        torch.testing.assert_close(mean, expected, rtol=1e-10, atol=1e-12)


def test_the_text_is_made_of_what_stands_at_its_words(x) -> None:
    for name, readout, whole in (
        *((name, "last", "last") for name in ("rcnn", "lstm")),
        *((name, "mean", "mean") for name in ("rcnn", "lstm", "bi-lstm")),
        ("rkm-lstm:2", "last", "mean"),
        *((name, "last", None) for name in ("bag-of-vectors", "bi-lstm")),
    ):
        kind, _, ngram = name.partition(":")
        encoder = built(config(name, kind=kind, ngram=int(ngram or 0), readout=readout))
        here, found = encoder.at_words(x, BATCH), encoder(x, BATCH)
        assert here.shape == (7, encoder.out_features)
        torch.testing.assert_close(here[-1], found[-1])  # a text of one word
        for row, features in zip(found, here.split(LENGTHS), strict=True):
            if whole:
                made = features[-1] if whole == "last" else features.mean(dim=0)
                torch.testing.assert_close(row, made, rtol=1e-10, atol=1e-12)


def test_cnn_is_the_maximum_over_windows_that_end_at_words(x) -> None:
    encoder = built(config("cnn"))
    assert isinstance(encoder, models.CNNEncoder)
    here = encoder.at_words(x, BATCH).split(LENGTHS)
    for whole, features, text in zip(encoder(x, BATCH), here, x.split(LENGTHS), strict=True):
        at_words, best = [], []
        for width, conv in zip((3, 4, 5), encoder.convs, strict=True):
            ends = torch.zeros(width - 1, 4, dtype=torch.double)
            windows = torch.cat([ends, text, ends]).unfold(0, width, 1)  # of features x words
            values = torch.einsum("hdw,tdw->th", conv.weight, windows) + conv.bias
            at_words.append(values[: len(text)].clamp(min=0))
            best.append(values.amax(0).clamp(min=0))
        torch.testing.assert_close(features, torch.cat(at_words, 1), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(whole, torch.cat(best), rtol=1e-10, atol=0)


TEXTS = ["a b a b", "c", "a c b", "b b", "c c c a", "b a"]


def text_batch(texts: list[str], words: str = "abc") -> TextBatch:
    """Classes are whether there is a word a."""
    ids, ptr = Vocabulary(words).encode([text.split() for text in texts])
    return TextBatch(ids, ptr, torch.tensor([int("a" in text) for text in texts]))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_ngrams_are_those_of_scikit_learn(order: int) -> None:
    batch = text_batch(TEXTS)
    made = NGramClassifier(order, 5, 0, 2).fit(batch, batch)
    counts = CountVectorizer(ngram_range=(1, order), token_pattern=r"\w", binary=True)
    x = counts.fit_transform(TEXTS).toarray()
    assert len(made.ngrams) == x.shape[1]
    places = made.ngrams.tolist()

    def key(ngram: str) -> int:  # in the base of the vocabulary, where a is 2
        return sum((ord(word) - 95) * 5**k for k, word in enumerate(ngram.split()[::-1]))

    columns = [places.index(key(ngram)) for ngram in counts.get_feature_names_out()]
    weight = made.weight[columns].double()
    expected = (torch.from_numpy(x).double() @ weight + made.bias).log_softmax(1)
    torch.testing.assert_close(made(batch).double(), expected, rtol=1e-5, atol=1e-5)
    assert made(batch).argmax(1).tolist() == batch.y.tolist()
    own = np.log1p(x[batch.y == 1].sum(0)) - np.log((1 + x[batch.y == 1].sum(0)).sum())
    others = np.log1p(x[batch.y == 0].sum(0)) - np.log((1 + x[batch.y == 0].sum(0)).sum())
    known = np.abs(own - others) > 1e-9  # no ratio, no weight
    assert not weight[:, 1].numpy()[~known].any()


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
    net, bare = (
        models.build_text_model(config("rcnn", **options)).double() for options in (counted, sizes)
    )
    net.counts.load_state_dict(fitted.state_dict())
    bare.load_state_dict(net.state_dict(), strict=False)
    alone = bare(batch)
    torch.testing.assert_close(net(batch), alone, rtol=0, atol=0)
    mean = (alone.log_softmax(1) + fitted(batch)) / 2
    torch.testing.assert_close(net.eval()(batch), mean, rtol=1e-5, atol=1e-5)
    assert {*dict(net.named_parameters())} == {*dict(bare.named_parameters())}


def test_the_paper_s_model() -> None:
    """Appendix B.2 with vectors of 300 numbers: W1 and W2 of three layers, biases, the output."""
    options = {"order": 2, "decay": 0.5, "activation": "relu"}
    paper = TextModelConfig("rcnn", 9, 300, True, 5, 200, 3, 0.35, "mean", **options)
    layers = 2 * (300 * 200 + 2 * 200 * 200) + 3 * 200
    head = 600 * 5 + 5
    assert models.count_parameters(paper) == layers + head
    decays = 300 * 200 + 2 * 200 * 200 + 3 * 200
    assert models.count_parameters(replace(paper, decay="input")) == layers + head + decays
    recurrent = models.count_parameters(replace(paper, decay="recurrent"))
    assert recurrent == layers + head + decays + 3 * 200 * 200
    net = models.build_text_model(paper)
    bounds = [(net.encoder.layers[0].cells[0].lins[0].weight, 300), (net.head.weight, 600)]
    for weight, inputs in bounds:
        assert weight.abs().max().item() == pytest.approx(math.sqrt(3 / inputs), rel=0.01)
    assert not net.head.bias.any()


@pytest.mark.parametrize(
    ("model", "ngram", "readout"),
    [
        *((model, 0, "mean") for model in models.MODELS),
        *(("rcnn", 0, "last"), ("lstm", 0, "last"), ("rkm-lstm", 1, "last"), ("cnn", 3, "last")),
    ],
)
def test_a_text_has_the_same_scores_alone_and_among_longer_ones(model, ngram, readout) -> None:
    own = {"kind": model, "ngram": ngram, "readout": readout}
    settings = TextModelConfig("a", 20, 6, False, 3, hidden=5, dropout=0.4, **own)
    net = models.build_text_model(settings).double().eval()
    texts = [torch.randint(20, (length,)) for length in (1, 9, 2, 30, 3)]

    def batch(chosen: list[torch.Tensor]) -> TextBatch:
        ptr = torch.tensor([0, *map(len, chosen)]).cumsum(0)
        return TextBatch(torch.cat(chosen), ptr, torch.zeros(len(chosen), dtype=torch.long))

    together = net(batch(texts))
    for text, scores in zip(texts, together, strict=True):
        torch.testing.assert_close(net(batch([text]))[0], scores, rtol=1e-10, atol=1e-12)
    # Nor do the other texts' gradients: those of the longest do not reach the shortest's word.
    others = [text.clamp(max=18) for text in texts[1:]]
    net(batch([torch.tensor([19]), *others]))[1:].sum().backward()
    assert not net.embedding.weight.grad[19].any()


# Thousands of weights of 1-gram and 3-gram cells: table 2 of Liang et al. 2019, and of RAN, which
# it does not have, three filters and two maps of the output before.
PAPER = {
    "lstm": (720, 1440),
    "rkm-lstm": (720, 1440),
    "rkm-cifg": (540, 1080),
    "linear-gated": (360, 720),
    "linear": (180, 360),
    "gated-cnn": (180, 540),
    "cnn": (90, 270),
    "ran": (3 * 90 + 2 * 90, 3 * 270 + 2 * 90),
}


def test_cells_have_the_weights_of_the_paper() -> None:
    assert set(PAPER) == set(CELLS)
    for cell, numbers in PAPER.items():
        for ngram, thousands in zip((1, 3), numbers, strict=True):
            made = TextModelConfig("a", 9, 300, True, 2, hidden=300, kind=cell, ngram=ngram)
            with torch.device("meta"):
                assert models.build_text_model(made).encoder.cell_parameters() == 1000 * thousands


def test_networks_get_about_the_same_number_of_parameters() -> None:
    config = TextModelConfig("rcnn", 50, 20, True, 6, hidden=1)
    for name in models.MODELS:
        fitted = models.fit_hidden_size(replace(config, name=name), 20_000)
        assert 19_000 < models.count_parameters(fitted) <= 20_000
        wider = replace(fitted, hidden=fitted.hidden + 1)
        assert models.count_parameters(wider) > 20_000
        learned = models.build_text_model(replace(fitted, fixed_embedding=False))
        assert sizes.num_parameters(learned) == models.count_parameters(fitted) + 50 * 20


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
