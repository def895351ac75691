"""What trains language models: SGD, Adam, and those that answer to the validation error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer

from benchmarks.harness.language_model.config import TrainingSettings

NON_MONOTONE = 5  # evaluations without progress before averaging begins (Merity et al. 2018)


class NTASGD(SGD):
    """Gradient descent whose average counts once the validation error has stopped falling.

    Non-monotonically triggered averaged gradient descent (Merity et al. 2018, algorithm 1). Call
    :meth:`note` after each evaluation: once an error is above the lowest of those more than
    :obj:`non_monotone` evaluations before it, parameters are averaged over all steps from there on,
    and :meth:`averaged` exchanges them for their averages, to evaluate and to keep. The learning
    rate stays as it is. What was noted and the averages are part of ``state_dict()``.
    """

    def __init__(
        self, params: Iterable[Parameter], non_monotone: int = NON_MONOTONE, **options: Any
    ) -> None:
        super().__init__(params, **options)
        self.non_monotone = non_monotone
        # In a group, so that a checkpoint has them: the evaluations, and the steps averaged over.
        self.param_groups[0].update(noted=[], averaged_steps=0, triggered=False)

    @property
    def triggered(self) -> bool:
        """Whether parameters are averaged."""
        return bool(self.param_groups[0]["triggered"])

    def note(self, error: float) -> bool:
        """Takes note of a validation error."""
        group = self.param_groups[0]
        if group["triggered"]:
            return False
        before = group["noted"][: -self.non_monotone or None]
        group["triggered"] = bool(before) and error > min(before)
        group["noted"] = [*group["noted"], float(error)]
        return bool(group["triggered"])

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = super().step(closure)
        first = self.param_groups[0]
        if first["triggered"]:
            first["averaged_steps"] += 1
            for parameter in self._parameters():
                state = self.state[parameter]
                if "average" not in state:
                    state["average"] = parameter.clone()
                else:
                    state["average"].lerp_(parameter, 1.0 / first["averaged_steps"])
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """While this lasts, the parameters are their averages; nothing changes before there are."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for parameter in self._parameters():
            average = self.state[parameter].get("average") if parameter in self.state else None
            if average is not None:
                kept = parameter.clone()
                parameter.copy_(average)
                average.copy_(kept)

    def _parameters(self) -> Iterator[Parameter]:
        for group in self.param_groups:
            yield from group["params"]


class RevertingAdam(Adam):
    """Adam that undoes an epoch without progress and halves the learning rate.

    Lei's thesis (2017), appendix B.1, for its larger networks: where the validation error is not
    lower than the lowest before, parameters go back to what they were before the epoch. Adam's
    moments go on as they are. Call :meth:`note` after each epoch's evaluation; the parameters to go
    back to and the lowest error are part of ``state_dict()``.
    """

    def __init__(self, params: Iterable[Parameter], factor: float = 0.5, **options: Any) -> None:
        super().__init__(params, **options)
        self.factor = factor
        self.param_groups[0]["lowest"] = math.inf

    @torch.no_grad()
    def note(self, error: float) -> bool:
        """Takes note of the validation error after an epoch."""
        undo = not error < self.param_groups[0]["lowest"]
        for group in self.param_groups:
            if not undo:
                group["kept"] = [parameter.clone() for parameter in group["params"]]
                continue
            group["lr"] *= self.factor
            for parameter, kept in zip(group["params"], group.get("kept", ()), strict=False):
                parameter.copy_(kept)
        if not undo:
            self.param_groups[0]["lowest"] = float(error)
        return undo


def build_optimizer(settings: TrainingSettings, parameters: Iterable[Parameter]) -> Optimizer:
    """The optimiser of some settings at its first learning rate."""
    common: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        return SGD(parameters, **common)
    if settings.optimizer == "adam":
        return (RevertingAdam if settings.revert else Adam)(parameters, **common)
    return NTASGD(parameters, **common)
