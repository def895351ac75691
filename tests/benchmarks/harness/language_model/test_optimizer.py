"""Optimisers that answer to the validation error."""

import copy
import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer

from benchmarks.harness.language_model.optimiser import (
    NTASGD,
    RevertingAdam,
    build_optimiser,
)
from benchmarks.harness.language_model.presets import PRESETS


def parameters() -> list[Parameter]:
    torch.manual_seed(0)
    return [Parameter(torch.randn(3)), Parameter(torch.randn(2, 2))]


def step(optimiser: Optimizer, held: list[Parameter], number: int) -> None:
    """A step with gradients that depend on its number."""
    generator = torch.Generator().manual_seed(number)
    for parameter in held:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimiser.step()


def values(held: list[Parameter]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in held]


def test_averaging_begins_once_the_error_is_above_one_long_before() -> None:
    optimiser = NTASGD(parameters(), lr=0.1, non_monotone=2)
    for error in (9.0, 7.0, 8.0, 6.0, 6.5):  # the lowest but for the last two: 9, then 7
        assert not optimiser.note(error)
    assert not optimiser.note(6.9)  # below the 7 of four evaluations before
    assert optimiser.note(6.8)  # above the 6 of three before
    assert optimiser.triggered
    assert not optimiser.note(7.1)
    assert optimiser.triggered


def test_a_falling_error_never_begins_it() -> None:
    optimiser = NTASGD(parameters(), lr=0.1)
    assert not any(optimiser.note(20.0 - number) for number in range(20))


def test_steps_are_those_of_sgd_and_the_average_is_over_all_since() -> None:
    held, plain = parameters(), parameters()
    optimiser = NTASGD(held, lr=0.1, weight_decay=0.01, non_monotone=1)
    sgd = SGD(plain, lr=0.1, weight_decay=0.01)
    trace = []
    for number in range(7):
        if number == 3:
            optimiser.note(1.0)
            optimiser.note(0.9)
            assert optimiser.note(2.0)
        step(optimiser, held, number)
        step(sgd, plain, number)
        for one, other in zip(held, plain, strict=True):
            assert torch.equal(one, other)
        trace.append(values(held))
    current = values(held)
    with optimiser.averaged():
        for place, parameter in enumerate(held):
            mean = torch.stack([step[place] for step in trace[3:]]).mean(0)
            torch.testing.assert_close(parameter.detach(), mean)
    for parameter, before in zip(held, current, strict=True):
        assert torch.equal(parameter, before)


def test_without_an_average_nothing_is_exchanged() -> None:
    held = parameters()
    optimiser = NTASGD(held, lr=0.1)
    before = values(held)
    with optimiser.averaged():
        assert all(map(torch.equal, held, before))
    optimiser.note(1.0)
    step(optimiser, held, 0)
    with optimiser.averaged():
        pass
    assert not optimiser.triggered


def test_parameters_come_back_after_an_error() -> None:
    held = parameters()
    optimiser = NTASGD(held, lr=0.1, non_monotone=1)
    for error in (1.0, 2.0, 3.0):
        optimiser.note(error)
    assert optimiser.triggered
    for number in range(3):
        step(optimiser, held, number)
    before = values(held)
    with pytest.raises(RuntimeError), optimiser.averaged():
        raise RuntimeError
    assert all(map(torch.equal, held, before))


def test_an_undone_epoch_and_half_the_learning_rate() -> None:
    held = parameters()
    optimiser = RevertingAdam(held, lr=0.1)
    step(optimiser, held, 0)
    assert not optimiser.note(5.0)
    kept = values(held)
    for number in (1, 2):
        step(optimiser, held, number)
    assert optimiser.note(5.0)  # not lower
    assert all(map(torch.equal, held, kept))
    assert optimiser.param_groups[0]["lr"] == 0.05
    step(optimiser, held, 3)
    assert not optimiser.note(4.0)
    assert optimiser.param_groups[0]["lr"] == 0.05
    assert not all(map(torch.equal, held, kept))
    assert optimiser.note(float("nan"))


def test_a_first_epoch_without_a_number_is_not_kept() -> None:
    held = parameters()
    optimiser = RevertingAdam(held, lr=0.1)
    before = values(held)
    assert optimiser.note(float("nan"))
    assert all(map(torch.equal, held, before))
    step(optimiser, held, 0)
    assert not optimiser.note(3.0)


@pytest.mark.parametrize("kind", ["nt-asgd", "adam"])
def test_a_checkpoint_goes_on_exactly(kind: str, tmp_path: Path) -> None:
    def made(held: list[Parameter]) -> NTASGD | RevertingAdam:
        if kind == "adam":
            return RevertingAdam(held, lr=0.1)
        return NTASGD(held, lr=0.1, non_monotone=1)

    def go_on(optimiser: NTASGD | RevertingAdam, held: list[Parameter], epochs: range) -> None:
        for epoch in epochs:
            for number in range(3):
                step(optimiser, held, 3 * epoch + number)
            optimiser.note(abs(2.5 - epoch))  # the best epochs are 2 and 3

    held = parameters()
    optimiser = made(held)
    go_on(optimiser, held, range(5))
    torch.save([optimiser.state_dict(), values(held)], tmp_path / "c.pt")
    state, kept = torch.load(tmp_path / "c.pt", weights_only=True)
    resumed = parameters()
    for parameter, value in zip(resumed, kept, strict=True):
        parameter.data.copy_(value)
    continued = made(resumed)
    continued.load_state_dict(state)
    go_on(optimiser, held, range(5, 8))
    go_on(continued, resumed, range(5, 8))
    assert all(map(torch.equal, held, resumed))
    assert continued.param_groups[0]["lr"] == optimiser.param_groups[0]["lr"]
    if isinstance(optimiser, NTASGD) and isinstance(continued, NTASGD):
        assert optimiser.triggered
        with optimiser.averaged(), continued.averaged():
            assert all(map(torch.equal, held, resumed))


def test_settings_choose_the_optimiser() -> None:
    kinds = {"rcnn-5m": SGD, "adam-rcnn": Adam, "adam-rcnn-16m": RevertingAdam, "awd-lstm": NTASGD}
    for name, kind in kinds.items():
        settings = PRESETS[name].training
        optimiser = build_optimiser(settings, parameters())
        assert type(optimiser) is kind
        (group,) = optimiser.param_groups
        assert group["lr"] == settings.learning_rate
        assert group["weight_decay"] == settings.weight_decay
    wrong = dataclasses.replace(settings, optimiser="lbfgs")
    with pytest.raises(ValueError, match="'lbfgs': expected one of sgd, adam, nt-asgd"):
        build_optimiser(wrong, parameters())
    assert copy.deepcopy(optimiser.state_dict())["param_groups"][0]["noted"] == []
