"""What answers from texts and molecules, whole or in part."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.goals import ClassGoal, NumberGoal, goal_for
from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.networks import RationaleNet
from benchmarks.harness.rationale.readers import SELECTED, Reader
from pyg_kernels.datasets.text import TextBatch

KINDS = ("dependent", "independent", "attention", "full")
SIZES: dict[str, Any] = {"num_words": 9, "rate": 0.3, "num_samples": 3, "share": 0.4}
IDS = torch.tensor([2, 3, 4, 5, 6, 7, 8, 2])
PTR = torch.tensor([0, 3, 3, 4, 8])  # the second text is empty


def text_reader(kind: str, **fields: Any) -> tuple[RationaleNet, Reader]:
    torch.manual_seed(0)
    options = SIZES | fields
    net = RationaleNet(RationaleModelConfig(kind, kind, "texts", 4, 2, 5, **options))
    return net.double(), net.reader


def batch() -> TextBatch:
    return TextBatch(IDS, PTR, torch.tensor([0, 1, 1, 0]))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_chosen_leaves_no_trace(kind: str) -> None:
    net, reader = text_reader(kind)
    net.eval()
    chosen = torch.tensor([1, 0, 1, 0, 0, 1, 1, 0]).bool()
    part = TextBatch(IDS[chosen], torch.tensor([0, 2, 2, 2, 4]), batch().y)
    whole, alone = net.inputs(batch()), net.inputs(part)
    every = torch.ones(4).bool()
    torch.testing.assert_close(
        reader.answer(whole, chosen), reader.answer(alone, every), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["dependent", "independent"])
def test_before_it_selects_the_encoder_learns_from_everything(kind: str) -> None:
    net, reader = text_reader(kind, warm_up=0.1, dropout=0.0)
    inputs, goal = net.inputs(batch()), ClassGoal()
    reader.whole = True
    lesson = reader.learn(inputs, lambda output: goal.losses(output, batch().y))
    every = torch.ones(len(IDS)).bool()
    losses = goal.losses(reader.answer(inputs, every), batch().y)
    torch.testing.assert_close(lesson.costs, losses)
    torch.testing.assert_close(lesson.objective, losses.mean())
    lesson.objective.backward()
    assert all(p.grad is None for p in reader.rationalizer.generator.parameters())
    assert any(p.grad is not None and bool(p.grad.any()) for p in reader.parameters())


@pytest.mark.parametrize("kind", ["dependent", "independent", "full"])
def test_the_answer_is_that_of_the_rationale(kind: str) -> None:
    net, reader = text_reader(kind)
    net.eval()
    inputs = net.inputs(batch())
    reading = reader.read(inputs)
    chosen = reading.scores >= SELECTED
    torch.testing.assert_close(reading.output, reader.answer(inputs, chosen))
    sizes = [int(some.sum()) for some in chosen.split(PTR.diff().tolist())]
    assert reading.size.tolist() == sizes
    changes = [int((some.int().diff() != 0).sum()) for some in chosen.split(PTR.diff().tolist())]
    assert reading.transitions.tolist() == changes


def test_attention_answers_from_all_words_and_takes_the_best() -> None:
    net, reader = text_reader("attention")
    net.eval()
    inputs = net.inputs(batch())
    reading = reader.read(inputs)
    torch.testing.assert_close(reading.output, reader.answer(inputs, torch.ones(8).bool()))
    chosen = reading.scores >= SELECTED
    sizes = [int(some.sum()) for some in chosen.split(PTR.diff().tolist())]
    assert sizes == [1, 0, 1, 2]  # 0.4 of 3, 0, 1 and 4 words, at least one
    weights: Tensor = reader.attention(**inputs).weights  # type: ignore[operator, union-attr]
    for some, scores in zip(
        weights.split(PTR.diff().tolist()), reading.scores.split(PTR.diff().tolist()), strict=True
    ):
        assert torch.equal(some.argsort(), scores.argsort())
    assert reading.size.tolist() == PTR.diff().tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_objectives_are_the_mean_cost_and_reach_every_weight(kind: str) -> None:
    net, reader = text_reader(kind)
    goal, y = ClassGoal(), batch().y
    lesson = reader.learn(net.inputs(batch()), lambda output: goal.losses(output, y).double())
    assert lesson.costs.shape == (3 if kind in ("dependent", "independent") else 1, 4)
    torch.testing.assert_close(lesson.objective.detach(), lesson.costs.mean())
    lesson.objective.backward()
    without = [name for name, p in reader.named_parameters() if p.grad is None]
    assert not without


def test_words_are_dropped_in_training_alone() -> None:
    net, _ = text_reader("full", dropout=0.5)
    assert (net.inputs(batch())["x"] == 0).any()
    assert not (net.eval().inputs(batch())["x"] == 0).any()
    assert isinstance(net.embedding, nn.Embedding)
    assert not net.embedding.weight.requires_grad
    net.set_word_vectors(torch.ones(9, 4))
    assert net.inputs(batch())["x"].tolist() == [[1.0] * 4] * 8


def test_classes_are_counted_and_numbers_scaled() -> None:
    output = torch.tensor([[2.0, 1], [0, 3], [1, 0], [5, 4]])
    y = torch.tensor([0, 0])
    classes = ClassGoal()
    losses = classes.losses(output, y)
    assert losses.shape == (2, 2)
    torch.testing.assert_close(losses, -output.log_softmax(1)[:, 0].view(2, 2))
    assert classes.answers(output).tolist() == [0, 1, 0, 0]
    assert classes.error(torch.tensor([0.0, 1, 1, 1]), torch.tensor([0, 1, 0, 0])) == 50
    numbers = goal_for(0, torch.tensor([1.0, 3, 5]))
    assert isinstance(numbers, NumberGoal)
    assert numbers.mean == 3
    assert numbers.std == pytest.approx((8 / 3) ** 0.5)
    output = torch.tensor([[0.0], [1.0]])
    found = numbers.losses(output, torch.tensor([3.0, 5.0]))
    assert found[0].tolist() == pytest.approx([0, (1 - 2 / numbers.std) ** 2], abs=1e-6)
    assert numbers.answers(output).tolist() == pytest.approx([3, 3 + numbers.std])
    assert numbers.error(torch.tensor([1.0, 2]), torch.tensor([1.0, 4])) == 2
    same = goal_for(0, torch.tensor([2.0, 2]))
    assert isinstance(same, NumberGoal)
    assert same.std == 1
