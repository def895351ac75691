"""What Lightning trains: a network that answers from a rationale, its goals and its measures.

A goal turns the outputs ``(S T, out)`` of S selections of T texts or molecules into ``losses``
``(S, T)``. From what is ``predicted`` with one selection it computes the ``risk``, by which an
epoch is chosen, and the ``answers``, whose ``error`` is its ``measure``.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import scatter, to_dense_batch
from torchmetrics import Metric

from benchmarks.harness.learner import Learner
from benchmarks.harness.retrieval.data import QuestionBatch
from benchmarks.harness.retrieval.models import question_cosines
from benchmarks.harness.retrieval.task import evaluate, hinge_losses
from benchmarks.harness.task import Measure
from benchmarks.rationales.networks import SELECTED, ModelConfig, RationaleNet, Reading, network
from benchmarks.rationales.options import SELECTING
from benchmarks.rationales.selections import precision
from pyg_kernels.rationale.structures import read_structure

READINGS = ("rationale", "full", "rest")  # the first columns of predictions of texts and molecules
EXCESS = 0.5  # cost of selecting twice the given rate
MARGIN = 1.0  # by which a similar question has to be closer than the best random one


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
        return float(self.each_loss(predicted.float(), right).double().mean())

    def answers(self, predicted: Tensor) -> Tensor:
        """The number of the most probable class, ``(B,)`` float32."""
        return predicted.argmax(dim=1).float()

    def error(self, answers: Tensor, right: Tensor) -> float:
        """The share of wrong answers in percent."""
        return 100 * float((answers.long() != right.long()).double().mean())


class NumberGoal(ClassGoal):
    """A number: the squared error on the training part's scale, and the error in its own units."""

    measure = Measure("MSE", "mean squared error")

    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def each_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """``(B,)``, the squared errors of standardised numbers."""
        right = ((y.double() - self.mean) / self.std).float()
        return (output.squeeze(1) - right).square()

    def answers(self, predicted: Tensor) -> Tensor:
        """Predictions in the number's own units, ``(B,)`` float32."""
        return (predicted.double().squeeze(1) * self.std + self.mean).float()

    def error(self, answers: Tensor, right: Tensor) -> float:
        return float((answers.double() - right.double()).square().mean())


class RankingGoal:
    """Which questions are similar: a margin between cosines, and the mean average precision.

    The right answers are ``(C,)`` bool for each list of candidates.
    """

    measure = Measure("MAP", "MAP", ".1f")

    def losses(self, output: Tensor, batch: QuestionBatch) -> Tensor:
        """``(S, T)``: for each text, the sum of the losses of the groups that contain it.

        The other losses do not depend on the text, so they say nothing about its selection.
        """
        vectors = output.view(-1, batch.words.num_texts, output.size(1))
        losses = hinge_losses(question_cosines(vectors, batch), MARGIN)
        groups, size = batch.groups.shape
        spread = losses.unsqueeze(2).expand(-1, groups, size).reshape(len(losses), -1)
        of_question = scatter(spread, batch.groups.flatten(), dim=1, dim_size=batch.num_questions)
        return of_question.index_select(1, batch.question)

    def predicted(self, output: Tensor, batch: QuestionBatch) -> Tensor:
        """The cosine of each pair, ``(P,)``."""
        return question_cosines(output, batch)[:, 0]

    def risk(self, predicted: Tensor, right: Sequence[Tensor]) -> float:
        return 1 - self.error(predicted, right) / 100

    def answers(self, predicted: Tensor) -> Tensor:
        return predicted.float()

    def error(self, answers: Tensor, right: Sequence[Tensor]) -> float:
        """The mean average precision in percent; NaN if a score is not a number."""
        return evaluate(answers, right)["MAP"]


Goal = ClassGoal | NumberGoal | RankingGoal


class SelectionCost(Metric):
    r"""The cost of a part with the most probable selections, by which the best epoch is chosen.

    .. math::
        R + \lambda_2 \overline{\Omega} + \tfrac12 [p / r - 1]_+

    for the goal's risk R, transitions :math:`\Omega` and the selected share p of all words or
    atoms. Selecting more than the rate r costs extra. For models that do not learn to select: R.
    """

    full_state_update = False
    higher_is_better = False
    predicted: list[Tensor]
    chosen: list[Tensor]
    transitions: list[Tensor]

    def __init__(self, goal: Goal, config: ModelConfig, right: Any) -> None:
        super().__init__()
        self.goal, self.config, self.right = goal, config, right
        for name in ("predicted", "chosen", "transitions"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, reading: Reading) -> None:
        self.predicted.append(predicted.detach().cpu())
        self.chosen.append((reading.scores >= SELECTED).cpu())
        self.transitions.append(reading.transitions.cpu())

    def share(self) -> float:
        return float(torch.cat(self.chosen).double().mean())

    def error(self) -> float:
        return self.goal.error(self.goal.answers(torch.cat(self.predicted)), self.right)

    def compute(self) -> Tensor:
        cost = self.goal.risk(torch.cat(self.predicted), self.right)
        if self.config.kind in SELECTING:
            changes = float(torch.cat(self.transitions).double().mean())
            excess = max(0.0, self.share() / self.config.rate - 1)
            cost += self.config.coherence * changes + EXCESS * excess
        return torch.tensor(cost, dtype=torch.double)


class RationaleLearner(Learner):
    """A network on batches of texts, molecules or groups of questions.

    A checkpoint keeps the fields of ``ModelConfig`` and ``OptimizerConfig``, the vocabulary without
    padding and unknown word, and the names of classes. Training also needs the ``right`` answers of
    the validation part, and its ``evidence`` with a mask of where it is known. Prediction needs the
    number of words of the ``longest`` item.
    """

    UNSAVED = ("longest", "right", "evidence")
    net: RationaleNet
    valid_error: SelectionCost

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
        longest: int = 0,
        right: Any = None,
        evidence: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        config = ModelConfig(**model)
        self.longest, self.evidence = longest, evidence
        self.net = network(config)
        self.goal: Goal = RankingGoal()
        if config.inputs != "questions":
            self.goal = ClassGoal() if config.out > 1 else NumberGoal(config.mean, config.std)
        self.valid_error = SelectionCost(self.goal, config, right)

    def epoch_measures(self) -> dict[str, float]:
        """Costs of training and validation; error, share and precision of the validation part."""
        measures = {
            "train_cost": self.train_error.compute().item(),
            "valid_cost": self.valid_error.compute().item(),
            f"valid_{self.goal.measure.key}": self.valid_error.error(),
            "share": 100 * self.valid_error.share(),
        }
        if self.evidence is not None:
            found = precision(torch.cat(self.valid_error.chosen), *self.evidence)
            measures |= {} if found is None else {"precision": found}
        return measures

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        self.net.set_stage(self.global_step / steps)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        inputs = self.net.inputs(batch)
        objective, cost = self.net.learn(inputs, lambda output: self.goal.losses(output, batch))
        self.train_error.update(cost)
        return objective

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        reading = self.net.read(self.net.inputs(batch))
        self.valid_error.update(self.goal.predicted(reading.output, batch), reading)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The answers from rationale, everything and the rest, ``(B, 3)``, then the scores of words
        or atoms, ``(B, longest)``. For pairs of questions, their cosine and the scores of both.
        """
        inputs = self.net.inputs(batch)
        reading = self.net.read(inputs)
        items = read_structure(**inputs)
        size = {"max_num_nodes": self.longest, "batch_size": items.num_groups}
        scores: Tensor = to_dense_batch(reading.scores, items.group, **size)[0]
        if isinstance(self.goal, RankingGoal):
            each = scores.new_zeros(batch.num_questions, self.longest)
            each[batch.question] = scores
            scores = each[batch.groups].flatten(1)
            answers = [self.goal.answers(self.goal.predicted(reading.output, batch))]
        else:
            chosen = reading.scores >= SELECTED
            parts = (chosen, torch.ones_like(chosen), ~chosen)
            answers = [self.goal.answers(self.net.answer(inputs, part)) for part in parts]
        return torch.cat([torch.stack(answers, dim=1), scores], dim=1).float().cpu()
