"""Optimisers that answer to the validation error."""

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD, Adam, Optimizer

from benchmarks.harness.language_model.learner import NTASGD, RevertingAdam, build_optimizer
from benchmarks.harness.language_model.options import PRESETS


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
    assert optimizer.triggered
    assert not optimizer.note(7.1)
    assert optimizer.triggered


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
