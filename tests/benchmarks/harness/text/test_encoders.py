"""What makes one vector of a text: layers side by side, two directions, bags of vectors."""

import math
from dataclasses import replace

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.text.encoders import CNNEncoder, Encoder, LayeredEncoder
from benchmarks.harness.text.model_config import TextModelConfig, variant_name, variant_of
from benchmarks.harness.text.models import MODELS, build_text_model, count_parameters, has_model
from pyg_kernels.datasets.text import TextBatch

LENGTHS = (2, 4, 1)
BATCH = TextBatch(torch.arange(7), torch.tensor([0, 2, 6, 7]), torch.zeros(3, dtype=torch.long))


def config(name: str, **changes: object) -> TextModelConfig:
    return replace(
        TextModelConfig(name, 9, 4, False, 3, hidden=5, num_layers=3, dropout=0.4), **changes
    )


def built(settings: TextModelConfig) -> Encoder:
    torch.manual_seed(0)
    return build_text_model(settings).double().eval().encoder


def words() -> torch.Tensor:
    return torch.randn(7, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["rcnn", "lstm", "bi-lstm"])
def test_means_of_all_layers_stand_side_by_side(name: str) -> None:
    encoder = built(config(name, readout="mean"))
    assert isinstance(encoder, LayeredEncoder)
    x = words()
    found = encoder(x, BATCH)
    assert found.shape == (3, (30 if name == "bi-lstm" else 15))
    for row, text in zip(found, x.split(LENGTHS), strict=True):
        means, h = [], text
        for layer in encoder.layers:
            h, _ = layer(h)  # nn.LSTM and RCNN both read one text as (T, F)
            means.append(h.mean(dim=0))
        torch.testing.assert_close(row, torch.cat(means), rtol=1e-10, atol=1e-12)


def test_bidirectional_lstm_gives_both_ends() -> None:
    encoder = built(config("bi-lstm"))
    x = words()
    for row, text in zip(encoder(x, BATCH), x.split(LENGTHS), strict=True):
        output, _ = encoder.lstm(text)
        expected = torch.cat((output[-1, :5], output[0, 5:]))
        torch.testing.assert_close(row, expected, rtol=1e-10, atol=1e-12)


def test_bag_of_vectors_sees_no_order() -> None:
    encoder = built(config("bag-of-vectors"))
    x = words()
    found = encoder(x, BATCH)
    for row, text in zip(found, x.split(LENGTHS), strict=True):
        mean = sum(text) / len(text)
        expected = (encoder.lin.weight @ mean + encoder.lin.bias).clamp(min=0)
        torch.testing.assert_close(row, expected, rtol=1e-10, atol=1e-12)
    turned = torch.cat([text.flip(0) for text in x.split(LENGTHS)])
    torch.testing.assert_close(encoder(turned, BATCH), found)


@pytest.mark.parametrize(
    ("name", "readout", "whole"),
    [
        ("rcnn", "last", "last"),
        ("lstm", "last", "last"),
        ("rcnn", "mean", "mean"),
        ("lstm", "mean", "mean"),
        ("bi-lstm", "mean", "mean"),
        ("rkm-lstm-2gram", "last", "mean"),
        ("bag-of-vectors", "last", None),
        ("bi-lstm", "last", None),
    ],
)
def test_the_text_is_made_of_what_stands_at_its_words(name, readout, whole) -> None:
    encoder = built(config(name, readout=readout))
    x = words()
    here, found = encoder.at_words(x, BATCH), encoder(x, BATCH)
    assert here.shape == (7, encoder.out_features)
    torch.testing.assert_close(here[-1], found[-1])  # a text of one word
    for row, features in zip(found, here.split(LENGTHS), strict=True):
        if whole:
            made = features[-1] if whole == "last" else features.mean(dim=0)
            torch.testing.assert_close(row, made, rtol=1e-10, atol=1e-12)


def test_windows_end_at_their_word() -> None:
    encoder = built(config("cnn"))
    assert isinstance(encoder, CNNEncoder)
    x = words()
    here = encoder.at_words(x, BATCH).split(LENGTHS)
    for features, text in zip(here, x.split(LENGTHS), strict=True):
        for t, row in enumerate(features):
            expected = []
            for width, conv in zip((3, 4, 5), encoder.convs, strict=True):
                before = torch.zeros(width, 4, dtype=torch.double)
                window = torch.cat([before, text[: t + 1]])[-width:]
                expected.append(torch.einsum("hdw,wd->h", conv.weight, window) + conv.bias)
            expected = torch.cat(expected).clamp(min=0)
            torch.testing.assert_close(row, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["rcnn", "lstm", "bi-lstm", "bag-of-vectors"])
@pytest.mark.parametrize("readout", ["last", "mean"])
def test_dropout_is_for_training_alone(name: str, readout: str) -> None:
    torch.manual_seed(0)
    net = build_text_model(config(name, readout=readout))
    first, second = net(BATCH), net(BATCH)
    assert not torch.equal(first, second)
    net.eval()
    assert torch.equal(net(BATCH), net(BATCH))


def test_the_paper_s_model() -> None:
    """Appendix B.2 with vectors of 300 numbers: W1 and W2 of three layers, biases, the output."""
    paper = TextModelConfig(
        *("rcnn", 9, 300, True, 5, 200, 3, 0.35, "mean"), order=2, decay=0.5, activation="relu"
    )
    layers = 2 * (300 * 200 + 2 * 200 * 200) + 3 * 200
    head = 600 * 5 + 5
    assert count_parameters(paper) == layers + head
    assert count_parameters(replace(paper, decay="input")) == layers + head + (
        300 * 200 + 2 * 200 * 200 + 3 * 200
    )
    recurrent = count_parameters(replace(paper, decay="recurrent"))
    assert recurrent == count_parameters(replace(paper, decay="input")) + 3 * 200 * 200
    torch.manual_seed(0)
    net = build_text_model(paper)
    bounds = [(net.encoder.layers[0].cells[0].lins[0].weight, 300), (net.head.weight, 600)]
    for weight, inputs in bounds:
        assert weight.abs().max().item() == pytest.approx(math.sqrt(3 / inputs), rel=0.01)
    assert not net.head.bias.any()


def test_a_constant_decay_of_zero_reads_pairs_of_words() -> None:
    settings = config("rcnn", num_layers=1, readout="mean", decay=0.0, activation="none")
    encoder = built(settings)
    x = words()[:4]
    batch = TextBatch(torch.arange(4), torch.tensor([0, 4]), torch.zeros(1))
    (cell,) = encoder.layers[0].cells
    first, second = (lin.weight for lin in cell.lins)
    pairs = [(first @ x[t - 1]) * (second @ x[t]) for t in range(1, 4)]
    expected = torch.stack([torch.zeros(5), *pairs])
    torch.testing.assert_close(encoder.at_words(x, batch), expected, rtol=1e-10, atol=1e-12)
    both = built(replace(settings, rcnn_readout="sum")).at_words(x, batch)
    torch.testing.assert_close(both, expected + x @ first.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "layers", "decay", "name"),
    [
        ("rcnn", None, None, "rcnn"),
        ("bi-lstm", 2, None, "bi-lstm-2layers"),
        ("rcnn", None, 0.5, "rcnn-decay-0.5"),
        ("rcnn", 12, "recurrent", "rcnn-12layers-decay-recurrent"),
        ("rcnn", 3, 0.0, "rcnn-3layers-decay-0.0"),
    ],
)
def test_names_of_variants(kind, layers, decay, name) -> None:
    assert variant_name(kind, layers, decay) == name
    assert variant_of(name) == (kind, layers, decay)
    assert has_model(name)


def test_names_of_no_model() -> None:
    for name in ("gru", "rcnn-0layers", "rcnn-decay-", "rkm-lstm", "bag"):
        assert not has_model(name)
    assert all(map(has_model, [*MODELS, "cnn-3gram"]))
