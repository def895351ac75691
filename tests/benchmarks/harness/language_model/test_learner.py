"""Training of language models: what is carried, measured, kept; optimisers."""

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD, Adam, Optimizer

from benchmarks.corpora.language import LanguageVocabulary, TextStreams
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.language_model.learner import (
    NTASGD,
    LanguageLearner,
    RevertingAdam,
    build_optimizer,
    perplexity,
)
from benchmarks.harness.language_model.options import PRESETS, LanguageModel, Preset
from benchmarks.harness.language_model.task import LanguageTask, language_setups, load_corpus
from benchmarks.harness.training import Run, TrainingConfig, train
from tests.benchmarks.small_data import write_corpus


@pytest.fixture
def data(tmp_path: Path) -> TextStreams:
    return load_corpus(LanguageModel(data=str(write_corpus(tmp_path / "corpus", train=90))))


def setup(data: TextStreams, name: str = "rcnn-5m", **changes: Any) -> Preset:
    """A narrow network of a preset in a few streams."""
    small = {"batch_size": 4, "steps": 7, "epochs": 1, **changes}
    (found,) = language_setups(LanguageModel(models=(name,), hidden=12), data)
    model = replace(found.model, embedding=12 if found.model.embedding else 0)
    return replace(found, model=model, training=replace(found.training, **small))


def trained(data: TextStreams, found: Preset, folder: Path) -> Run:
    shared = TrainingConfig(device="cpu", precision="32-true")
    run = train(LanguageTask(data), found, 0, shared, folder)
    assert run is not None
    return run


@pytest.mark.parametrize("name", ["rcnn-5m", "lstm-5m", "awd-lstm", "awd-rkm-lstm"])
def test_state_is_carried_through_an_epoch(data: TextStreams, tmp_path: Path, name: str) -> None:
    """Without dropout and at no rate, the training loss is that of streams read at once."""
    changes = {"learning_rate": 1e-30, "alpha": 0.0, "beta": 0.0, "variable_steps": False}
    found = setup(data, name, **changes)
    dropouts = [name for name in vars(found.model) if name.endswith("dropout")]
    found = replace(found, model=replace(found.model, **dict.fromkeys(dropouts, 0.0)))
    run = trained(data, found, tmp_path / "run")
    net = load_learner(tmp_path / "run", LanguageLearner).net.double()
    stream = data.streams["train"]
    length = (len(stream) - 1) // 4
    ids, targets = (stream[k : k + 4 * length].view(4, length).t() for k in (0, 1))
    with torch.no_grad():
        assert len(ids) > 100, "many batches"
        whole = F.cross_entropy(net.scores(net(ids)[0]).flatten(0, 1), targets.flatten())
        reset = [
            F.cross_entropy(net.scores(net(x)[0]).flatten(0, 1), y.flatten(), reduction="sum")
            for x, y in zip(ids.split(7), targets.split(7), strict=True)
        ]
    loss = math.log(run.history[0]["train_perplexity"])
    assert loss == pytest.approx(whole.item(), abs=5e-6)
    assert loss != pytest.approx(torch.stack(reset).sum().item() / ids.numel(), abs=2e-5)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("rcnn-5m", {}),
        ("adam-rcnn-16m", {"learning_rate": 0.1}),  # goes back to the best epoch
        # Averages from the second epoch on.
        ("rcnn-5m", {"learning_rate": 0.2, "optimizer": "nt-asgd"}),
    ],
)
def test_best_epoch_is_kept_as_it_was_measured(data, tmp_path, monkeypatch, name, changes) -> None:
    average, averages = NTASGD.averaged, []

    def averaged(self: NTASGD) -> AbstractContextManager[None]:
        averages.append(self)
        return average(self)

    monkeypatch.setattr(NTASGD, "averaged", averaged)
    triggered = lambda self, error: self.param_groups[0].update(triggered=True)  # noqa: E731
    monkeypatch.setattr(NTASGD, "note", triggered)
    run = trained(data, setup(data, name, epochs=4, **changes), tmp_path / "run")
    valid = [epoch["valid_perplexity"] for epoch in run.history]
    best = valid.index(min(valid))
    if "optimizer" in changes:
        assert averages and best > 0, "the best epoch must be an averaged one"
    assert run.record["valid"] == pytest.approx(valid[best], rel=1e-5)
    assert run.record["test"] == pytest.approx(run.history[best]["test_perplexity"], rel=1e-5)
    # Once more, from the checkpoint alone: the streams of the validation part word by word.
    net, stream = load_learner(tmp_path / "run", LanguageLearner).net, data.streams["valid"]
    size = -(-len(stream) // max(1, min(10, len(stream) // 7)))
    follows = torch.cat([torch.tensor([LanguageVocabulary.end]), stream[:-1]])
    total = 0.0
    with torch.no_grad():
        for ids, targets in zip(follows.split(size), stream.split(size), strict=True):
            scores = net.scores(net(ids.unsqueeze(1))[0][:, 0])
            total += F.cross_entropy(scores, targets, reduction="sum").item()
    assert run.record["valid"] == pytest.approx(math.exp(total / len(stream)), rel=1e-4)


def test_learning_rate_follows_the_epoch(data: TextStreams, tmp_path: Path) -> None:
    found = setup(data, learning_rate=0.5, decay=0.8, decay_after=2, epochs=4, batch_size=20)
    run = trained(data, found, tmp_path / "run")
    rates = [epoch["learning_rate"] for epoch in run.history]
    assert rates == pytest.approx([0.5, 0.5, 0.4, 0.32])


def test_learning_rate_follows_a_varying_number_of_steps(data, tmp_path, monkeypatch) -> None:
    seen = []
    training_step = LanguageLearner.training_step

    def recorded(self: LanguageLearner, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = training_step(self, batch, batch_idx)
        seen.append((batch.ids.size(0), self.trainer.optimizers[0].param_groups[0]["lr"]))
        return loss

    monkeypatch.setattr(LanguageLearner, "training_step", recorded)
    found = setup(data, "awd-lstm", learning_rate=2.0, steps=12)
    trained(data, found, tmp_path / "run")
    assert len({steps for steps, _ in seen}) > 3
    assert [rate for _, rate in seen] == pytest.approx([2.0 * steps / 12 for steps, _ in seen])


def test_loss_is_summed_over_steps_or_not(data: TextStreams) -> None:
    task = LanguageTask(data)
    losses = []
    for sum_steps in (True, False):
        torch.manual_seed(0)
        learner = task.learner(setup(data, sum_steps=sum_steps), None).eval()  # type: ignore[arg-type]
        batch = next(iter(task.batches(learner, 4, 0).train_dataloader()))
        losses.append(learner.training_step(batch, 0).item())
    assert losses[0] == pytest.approx(7 * losses[1])


def test_perplexity() -> None:
    assert perplexity(math.log(73.6)) == pytest.approx(73.6)
    assert perplexity(1e5) == math.inf
    assert math.isnan(perplexity(math.nan))


def parameters() -> list[Parameter]:
    torch.manual_seed(0)
    return [Parameter(torch.randn(3)), Parameter(torch.randn(2, 2))]


def step(optimizer: Optimizer, held: list[Parameter], number: int) -> None:
    """A step with gradients that depend on its number."""
    generator = torch.Generator().manual_seed(number)
    for parameter in held:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def values(held: list[Parameter]) -> Tensor:
    return parameters_to_vector(held).detach().clone()


def test_averaging_begins_once_the_error_is_above_one_long_before() -> None:
    optimizer = NTASGD(parameters(), lr=0.1, non_monotone=2)
    for error in (9.0, 7.0, 8.0, 6.0, 6.5):  # the lowest but for the last two: 9, then 7
        assert not optimizer.note(error)
    assert not optimizer.note(6.9)  # below the 7 of four evaluations before
    assert optimizer.note(6.8)  # above the 6 of three before
    assert optimizer.param_groups[0]["triggered"]
    assert not optimizer.note(7.1)
    assert optimizer.param_groups[0]["triggered"]


def test_steps_are_those_of_sgd_and_the_average_is_over_all_since() -> None:
    held, plain = parameters(), parameters()
    optimizer = NTASGD(held, lr=0.1, weight_decay=0.01, non_monotone=1)
    sgd = SGD(plain, lr=0.1, weight_decay=0.01)
    trace = []
    for number in range(7):
        if number == 3:
            optimizer.note(1.0)
            optimizer.note(0.9)
            assert optimizer.note(2.0)
        step(optimizer, held, number)
        step(sgd, plain, number)
        trace.append(values(held))
        assert torch.equal(trace[-1], values(plain))
    with optimizer.averaged():
        torch.testing.assert_close(values(held), torch.stack(trace[3:]).mean(0))
    assert torch.equal(values(held), trace[-1])


def test_an_undone_epoch_and_half_the_learning_rate() -> None:
    held = parameters()
    optimizer = RevertingAdam(held, lr=0.1)
    step(optimizer, held, 0)
    assert not optimizer.note(5.0)
    kept = values(held)
    for number in (1, 2):
        step(optimizer, held, number)
    assert optimizer.note(5.0)  # not lower
    assert torch.equal(values(held), kept)
    assert optimizer.param_groups[0]["lr"] == 0.05
    step(optimizer, held, 3)
    assert not optimizer.note(4.0)
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert not torch.equal(values(held), kept)
    assert optimizer.note(float("nan"))


def test_settings_choose_the_optimizer() -> None:
    kinds = {"rcnn-5m": SGD, "adam-rcnn": Adam, "adam-rcnn-16m": RevertingAdam, "awd-lstm": NTASGD}
    for name, kind in kinds.items():
        settings = PRESETS[name].training
        optimizer = build_optimizer(settings, parameters())
        assert type(optimizer) is kind
        (group,) = optimizer.param_groups
        assert group["lr"] == settings.learning_rate
        assert group["weight_decay"] == settings.weight_decay
