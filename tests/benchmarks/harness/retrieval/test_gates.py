"""What an RCNN takes in of each word."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.retrieval.gates import gate_weights, weights_by_position
from benchmarks.harness.retrieval.models import QuestionModelConfig, QuestionNet
from pyg_kernels.datasets.text import TextBatch


def net(encoder: str) -> QuestionNet:
    torch.manual_seed(0)
    config = QuestionModelConfig(
        f"{encoder}-last", encoder, "last", "title", False, 10, 4, False, hidden=5
    )
    return QuestionNet(config).double().eval()


@pytest.fixture
def words() -> TextBatch:
    ids = torch.tensor([2, 3, 4, 5, 2, 2, 9])
    return TextBatch(ids, torch.tensor([0, 3, 4, 7]), torch.zeros(3, dtype=torch.long))


@pytest.mark.parametrize(("encoder", "width"), [("rcnn", 5), ("rcnn-scalar", 1)])
def test_the_recurrence_with_these_weights_gives_the_outputs(encoder, width, words) -> None:
    model = net(encoder)
    weights = gate_weights(model, words)
    assert weights.shape == (7, width)
    x = model.embedding(words.ids)
    outputs, _ = model.encoder(x, words)
    (cell,) = model.encoder.rcnn.cells
    first, second = (lin(x) for lin in cell.lins)
    for text in range(3):
        c1 = c2 = torch.zeros(5, dtype=torch.double)
        for t in range(int(words.ptr[text]), int(words.ptr[text + 1])):
            c2 = (1 - weights[t]) * c2 + weights[t] * (c1 + second[t])
            c1 = (1 - weights[t]) * c1 + weights[t] * first[t]
            torch.testing.assert_close(outputs[t], torch.tanh(c2 + cell.bias))


def test_means_by_position(words) -> None:
    model = net("rcnn")
    weights = gate_weights(model, words)
    parts = [
        TextBatch(words.ids[:4], words.ptr[:3], words.y[:2]),
        TextBatch(words.ids[4:], words.ptr[2:] - 4, words.y[2:]),
    ]
    found = weights_by_position(model, parts)
    assert found.texts.tolist() == [3, 2, 2]
    for position, rows in enumerate([[0, 3, 4], [1, 5], [2, 6]]):
        torch.testing.assert_close(found.mean[position], weights[rows].mean())
        torch.testing.assert_close(found.largest[position], weights[rows].amax(dim=1).mean())


def test_other_encoders_have_no_such_gate(words) -> None:
    with pytest.raises(TypeError, match="expected an RCNN, got the encoder gru"):
        gate_weights(net("gru"), words)
