"""What is to be predicted: classes or a number; losses, answers and errors."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.task import Measure


class Goal(ABC):
    """From outputs ``(B, out)`` and what is right, ``(B,)``, to losses and errors."""

    measure: ClassVar[Measure]

    @abstractmethod
    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """``(S, B)``, of the outputs ``(S B, out)`` of S selections of each item."""

    @abstractmethod
    def answers(self, output: Tensor) -> Tensor:
        """``(B,)`` float32: the number of a class, or a number in its own units."""

    @abstractmethod
    def error(self, answers: Tensor, y: Tensor) -> float:
        """The measure of answers."""


class ClassGoal(Goal):
    """One of several classes: cross-entropy, and the error rate in percent."""

    measure = Measure("error_rate", "error rate in percent", ".2f")

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """The cross-entropy."""
        samples = output.size(0) // max(1, y.size(0))
        right = y.long().repeat(samples)
        return F.cross_entropy(output.float(), right, reduction="none").view(samples, -1)

    def answers(self, output: Tensor) -> Tensor:
        """The most probable class."""
        return output.argmax(dim=1).float()

    def error(self, answers: Tensor, y: Tensor) -> float:
        """The share of wrong answers in percent."""
        return 100 * float((answers.long() != y.long()).double().mean())


class NumberGoal(Goal):
    """A number: the squared error on the scale of the training part, and that in its own units.

    Args:
        mean (float): Of the training part.
        std (float): Its standard deviation.
    """

    measure = Measure("MSE", "mean squared error")

    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """The squared error of standardised numbers."""
        samples = output.size(0) // max(1, y.size(0))
        right = ((y.double() - self.mean) / self.std).float().repeat(samples)
        return (output.float().squeeze(1) - right).square().view(samples, -1)

    def answers(self, output: Tensor) -> Tensor:
        """In the number's own units."""
        return (output.double().squeeze(1) * self.std + self.mean).float()

    def error(self, answers: Tensor, y: Tensor) -> float:
        """The mean squared error."""
        return float((answers.double() - y.double()).square().mean())


def goal_of(config: RationaleModelConfig) -> Goal:
    """What a network predicts."""
    return ClassGoal() if config.out > 1 else NumberGoal(config.mean, config.std)


def goal_for(num_classes: int, y: Tensor) -> Goal:
    """The goal of some classes or, where there are none, of numbers.

    Args:
        num_classes (int): 0 for numbers.
        y: ``(M,)``, those of the training part.
    """
    if num_classes:
        return ClassGoal()
    values = y.double()
    # Numbers that do not vary need no scale.
    return NumberGoal(float(values.mean()), float(values.std(unbiased=False)) or 1.0)
