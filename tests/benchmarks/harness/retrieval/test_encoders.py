"""Encoders of questions against definitions, word by word."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from benchmarks.harness.retrieval.models import ENCODERS, QuestionModelConfig, QuestionNet, pooled
from benchmarks.harness.retrieval.report import weights_by_position
from pyg_kernels.datasets.text import TextBatch

LENGTHS = (3, 1, 5)


X = torch.randn(sum(LENGTHS), 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def words() -> TextBatch:
    ptr = torch.tensor([0, *LENGTHS]).cumsum(0)
    return TextBatch(torch.arange(sum(LENGTHS)), ptr, torch.zeros(len(LENGTHS), dtype=torch.long))


def config(**options) -> QuestionModelConfig:
    usual = ("rcnn-last", "rcnn", "last", "title+body", False)
    return replace(QuestionModelConfig(*usual, 10, 200, fixed_embedding=True, hidden=1), **options)


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_a_text_is_read_alone(encoder, words) -> None:
    torch.manual_seed(0)
    net = ENCODERS[encoder](4, 6)
    states, _ = net(X, words)
    for x, found in zip(X.split(LENGTHS), states.split(LENGTHS), strict=True):
        one = TextBatch(torch.arange(len(x)), torch.tensor([0, len(x)]), torch.zeros(1))
        torch.testing.assert_close(found, net(x, one)[0])


def test_poolings_and_the_cnn_are_their_definitions(words) -> None:
    torch.manual_seed(0)
    net = ENCODERS["cnn"](4, 6)
    states, mean = net(X, words)
    (cell,) = net.windows.cells
    kernel = torch.stack([lin.weight for lin in cell.lins], dim=2)
    for text, (x, found) in enumerate(zip(X.split(LENGTHS), states.split(LENGTHS), strict=True)):
        windows = torch.tanh(F.conv1d(F.pad(x.T, (2, 0)), kernel, cell.bias)).T
        torch.testing.assert_close(found, windows)
        torch.testing.assert_close(mean[text], windows.mean(dim=0))
        torch.testing.assert_close(pooled(X, words, "last")[text], x[-1])
        torch.testing.assert_close(pooled(X, words, "mean")[text], x.mean(dim=0))
        torch.testing.assert_close(pooled(X, words, "max")[text], x.amax(dim=0))


def test_widths_of_the_thesis_within_equal_parameters() -> None:
    for encoder, width in (("rcnn", 400), ("cnn", 667), ("lstm", 231), ("gru", 278)):
        fitted, wider = (config(encoder=encoder, hidden=width + more) for more in (0, 1))
        assert fitted.encoder_parameters() <= 401_000 < wider.encoder_parameters()


@pytest.mark.parametrize(("encoder", "width"), [("rcnn", 6), ("rcnn-scalar", 1)])
def test_the_recurrence_with_the_gates_gives_the_outputs(encoder, width, words) -> None:
    torch.manual_seed(0)
    net = QuestionNet(config(encoder=encoder, embedding_dim=4, hidden=6)).double().eval()
    weights, x = net.gates(words), net.embedding(words.ids)
    assert weights.shape == (sum(LENGTHS), width)
    outputs, _ = net.encoder(x, words)
    (cell,) = net.encoder.rcnn.cells
    first, second = (lin(x) for lin in cell.lins)
    for text in range(len(LENGTHS)):
        h, c1, c2 = torch.zeros(3, 6, dtype=torch.double)
        for t in range(int(words.ptr[text]), int(words.ptr[text + 1])):
            logit = cell.decay_lin.weight @ x[t] + cell.decay_recurrent.weight @ h + cell.decay_bias
            torch.testing.assert_close(weights[t], 1 - torch.sigmoid(logit))
            c2 = (1 - weights[t]) * c2 + weights[t] * (c1 + second[t])
            c1 = (1 - weights[t]) * c1 + weights[t] * first[t]
            h = torch.tanh(c2 + cell.bias)
            torch.testing.assert_close(outputs[t], h)


def test_means_of_gates_by_position(words) -> None:
    torch.manual_seed(0)
    net = QuestionNet(config(embedding_dim=4, hidden=6)).eval()
    weights = net.gates(words)
    first = TextBatch(words.ids[:4], words.ptr[:3], words.y[:2])
    second = TextBatch(words.ids[4:], words.ptr[2:] - 4, words.y[2:])
    mean, largest, texts = weights_by_position(net, [first, second])
    assert texts.tolist() == [3, 2, 2, 1, 1]
    for position, rows in enumerate([[0, 3, 4], [1, 5], [2, 6], [7], [8]]):
        torch.testing.assert_close(mean[position], weights[rows].mean())
        torch.testing.assert_close(largest[position], weights[rows].amax(dim=1).mean())
