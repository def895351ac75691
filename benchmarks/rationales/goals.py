"""What is to be predicted, and how right it is: classes, a number, which questions are similar.

A goal makes ``losses`` ``(S, T)`` of the outputs ``(S T, out)`` of S selections of T texts or
molecules; of what is ``predicted`` of one selection the ``risk``, by which an epoch is chosen, the
``answers`` and their ``error``, its ``measure``.
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.harness.retrieval.batches import QuestionBatch
from benchmarks.harness.retrieval.metrics import evaluate
from benchmarks.harness.retrieval.models import group_cosines
from benchmarks.harness.task import Measure

MARGIN = 1.0  # by which a similar question is to be closer than the best of random ones


class ClassGoal:
    """One of several classes: cross-entropy, and the error rate in percent."""

    measure = Measure("error_rate", "error rate in percent", ".2f")

    def each_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """``(B,)``."""
        return F.cross_entropy(output, y.long(), reduction="none")

    def losses(self, output: Tensor, batch: Any) -> Tensor:
        """``(S, B)``."""
        y = batch.y.squeeze(1) if batch.y.dim() == 2 else batch.y
        samples = output.size(0) // max(1, y.size(0))
        return self.each_loss(output.float(), y.repeat(samples)).view(samples, -1)

    def predicted(self, output: Tensor, batch: Any) -> Tensor:
        return output

    def risk(self, predicted: Tensor, right: Tensor) -> float:
        """The mean loss."""
        return float(self.each_loss(predicted.float(), right).double().mean())

    def answers(self, predicted: Tensor) -> Tensor:
        """The number of the most probable class, ``(B,)`` float32."""
        return predicted.argmax(dim=1).float()

    def error(self, answers: Tensor, right: Tensor) -> float:
        """The share of wrong answers in percent."""
        return 100 * float((answers.long() != right.long()).double().mean())


class NumberGoal(ClassGoal):
    """A number: the squared error on the scale of the training part, and that in its own units."""

    measure = Measure("MSE", "mean squared error")

    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def each_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """``(B,)``, of standardized numbers."""
        right = ((y.double() - self.mean) / self.std).float()
        return (output.squeeze(1) - right).square()

    def answers(self, predicted: Tensor) -> Tensor:
        """In the number's own units, ``(B,)`` float32."""
        return (predicted.double().squeeze(1) * self.std + self.mean).float()

    def error(self, answers: Tensor, right: Tensor) -> float:
        """The mean squared error."""
        return float((answers.double() - right.double()).square().mean())


class RankingGoal:
    """Which questions are similar: a margin between cosines, and the mean average precision.

    What is right are, list by list of candidates, ``(C,)`` bool.
    """

    measure = Measure("MAP", "MAP", ".1f")

    def losses(self, output: Tensor, batch: QuestionBatch) -> Tensor:
        """``(S, T)``, of each text the losses of the groups that it stands in.

        The other losses do not depend on it, so that these alone tell its selection how good it is.
        """
        scores = cosines(output.view(-1, batch.words.num_texts, output.size(1)), batch)
        wrong = scores[:, :, 1:].amax(dim=2)
        losses = (wrong - scores[:, :, 0] + MARGIN).clamp(min=0)
        groups, size = batch.groups.shape
        spread = losses.unsqueeze(2).expand(-1, groups, size).reshape(len(losses), -1)
        of_question = scatter(spread, batch.groups.flatten(), dim=1, dim_size=batch.num_questions)
        return of_question.index_select(1, batch.question)

    def predicted(self, output: Tensor, batch: QuestionBatch) -> Tensor:
        """The cosine of each pair, ``(P,)``."""
        return cosines(output.unsqueeze(0), batch)[0, :, 0]

    def risk(self, predicted: Tensor, right: Sequence[Tensor]) -> float:
        """One minus the mean average precision."""
        return 1 - self.error(predicted, right) / 100

    def answers(self, predicted: Tensor) -> Tensor:
        return predicted.float()

    def error(self, answers: Tensor, right: Sequence[Tensor]) -> float:
        """The mean average precision in percent; NaN where a score is not a number."""
        return evaluate(answers.float().split([len(similar) for similar in right]), right)["MAP"]


Goal = ClassGoal | NumberGoal | RankingGoal


def cosines(vectors: Tensor, batch: QuestionBatch) -> Tensor:
    """The cosine between the first question of each group and the others, ``(S, B, K - 1)``.

    Vectors are ``(S, T, H)``, of the T texts of the batch; a question without a text has 0.
    """
    questions = scatter(vectors, batch.question, dim=1, dim_size=batch.num_questions)
    return group_cosines(questions, batch.groups)
