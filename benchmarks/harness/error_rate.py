"""The error rate of a classifier over an epoch."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric

from benchmarks.harness.learner import IGNORED


class ErrorRate(Metric):
    """The fraction of texts whose best class is not theirs; NaN where a loss was not finite.

    Of texts with the class -100, which stand in for others, nothing is counted.
    """

    higher_is_better = False
    full_state_update = False
    wrong: Tensor
    count: Tensor
    loss: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("wrong", "count", "loss"):
            self.add_state(name, torch.zeros(()), dist_reduce_fx="sum")

    def update(self, scores: Tensor, y: Tensor) -> None:
        """Adds a batch: scores ``(B, C)`` and classes ``(B,)``."""
        counted = y != IGNORED
        self.wrong += ((scores.argmax(dim=1) != y) & counted).sum()
        self.count += counted.sum()
        self.loss += F.cross_entropy(scores.float(), y, reduction="sum")

    def compute(self) -> Tensor:
        """The error rate so far."""
        # Where a loss is not finite its zero multiple is NaN.
        return self.wrong / self.count + 0 * self.loss
