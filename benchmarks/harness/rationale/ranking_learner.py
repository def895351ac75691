"""What Lightning trains to find similar questions by some words of each."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import scatter
from torchmetrics import MeanMetric, Metric

from benchmarks.harness.learner import Learner, OptimizerConfig
from benchmarks.harness.rationale.annealing import set_stage
from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.networks import RationaleNet
from benchmarks.harness.rationale.progress import EXCESS
from benchmarks.harness.rationale.readers import SELECTED
from benchmarks.harness.retrieval.batches import QuestionBatch
from benchmarks.harness.retrieval.metrics import evaluate


class RankingCost(Metric):
    r"""One minus the mean average precision of lists of candidates, by which an epoch is chosen.

    Where a rate r of the words is wanted, plus :math:`\tfrac12 [p / r - 1]_+` for the share p of
    words that is selected: an epoch that selects more than the rate pays for it.

    Args:
        relevance: For each list ``(C,)`` bool, whether a candidate is similar.
        rate (float, optional): r.
    """

    higher_is_better = False
    full_state_update = False
    scores: list[Tensor]
    size: Tensor
    rows: Tensor

    def __init__(self, relevance: Sequence[Tensor], rate: float | None = None) -> None:
        super().__init__()
        self.relevance, self.rate = list(relevance), rate
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        for name in ("size", "rows"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, scores: Tensor, chosen: Tensor) -> None:
        """Adds the scores of the next pairs, ``(P,)``, and the selections of their words."""
        self.scores.append(scores.detach().float().cpu())
        self.size += chosen.sum()
        self.rows += len(chosen)

    def share(self) -> float:
        """The share of words that is selected."""
        return float(self.size / self.rows)

    def mean_average_precision(self) -> float:
        """In percent; NaN where a score is not a number."""
        scores = torch.cat(self.scores)
        if bool(scores.isnan().any()):
            return float("nan")
        lists = scores.split([len(similar) for similar in self.relevance])
        return evaluate(lists, self.relevance)["MAP"]

    def compute(self) -> Tensor:
        """The cost so far."""
        cost = 1 - self.mean_average_precision() / 100
        if self.rate is not None:
            cost += EXCESS * max(0.0, self.share() / self.rate - 1)
        return torch.tensor(cost)


class RationaleRanker(Learner):
    """A network that ranks questions by the cosine of what it makes of some of their words.

    Args:
        model (dict): The fields of a :class:`RationaleModelConfig`.
        words (list of str): The vocabulary without padding and unknown word.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
        relevance: For each list of the validation part, which candidates are similar.
        longest (int): Words of the longest question, the columns of predicted scores.
    """

    net: RationaleNet
    train_error: MeanMetric
    valid_error: RankingCost

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
        longest: int = 0,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters({"model": model, "words": words, "optimizer": optimizer})
        config = RationaleModelConfig(**model)
        self.longest = longest
        self.net = RationaleNet(config)
        self.train_error = MeanMetric(nan_strategy="disable")
        self.valid_error = RankingCost(relevance, config.rate)

    def forward(self, batch: QuestionBatch) -> tuple[Tensor, Tensor]:
        """The cosine of each pair, ``(P,)``, and the score of each word, ``(N,)``."""
        reading = self.net.reader.read(self.net.inputs(batch.words))
        return cosines(reading.output.unsqueeze(0), batch)[0, :, 0], reading.scores

    def epoch_measures(self) -> dict[str, float]:
        """The cost of training, and of validation; MAP in percent and the share selected."""
        return {
            "train_cost": self.train_error.compute().item(),
            "valid_cost": self.valid_error.compute().item(),
            "valid_MAP": self.valid_error.mean_average_precision(),
            "share": 100 * self.valid_error.share(),
        }

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Moves the share to select."""
        set_stage(self, self.net.config)

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        """The objective of a batch."""
        margin = self.net.config.margin

        def losses(output: Tensor) -> Tensor:
            vectors = output.view(-1, batch.words.num_texts, output.size(1))
            return losses_of_texts(hinge_losses(cosines(vectors, batch), margin), batch)

        lesson = self.net.reader.learn(self.net.inputs(batch.words), losses)
        self.train_error.update(lesson.costs.mean())
        return lesson.objective

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        """Adds pairs to the cost."""
        scores, words = self(batch)
        self.valid_error.update(scores, words >= SELECTED)

    def predict_step(self, batch: QuestionBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """For each pair its cosine, and the scores of the words of both, ``(P, 1 + 2 longest)``."""
        cosine, scores = self(batch)
        words = batch.words
        place = torch.arange(len(scores), device=scores.device) - words.ptr[words.text]
        of_question = scores.new_zeros(batch.num_questions, self.longest)
        of_question[batch.question[words.text], place] = scores
        pairs = of_question.index_select(0, batch.groups.flatten()).view(len(cosine), -1)
        return torch.cat([cosine.unsqueeze(1), pairs], dim=1).float().cpu()


def cosines(vectors: Tensor, batch: QuestionBatch) -> Tensor:
    """The cosine between the first question of each group and the others.

    Args:
        vectors: ``(S, T, H)``, of the T texts of the batch, S times. A question without a text has
            the vector 0.
        batch: B groups of K questions.

    Returns:
        ``(S, B, K - 1)``.
    """
    questions = scatter(vectors, batch.question, dim=1, dim_size=batch.num_questions)
    questions = F.normalize(questions.float(), dim=2)
    groups, size = batch.groups.shape
    grouped = questions.index_select(1, batch.groups.flatten())
    grouped = grouped.view(len(vectors), groups, size, -1)
    # No product of matrices: in mixed precision its digits would not tell candidates apart.
    return (grouped[:, :, 1:] * grouped[:, :, :1]).sum(dim=3)


def hinge_losses(scores: Tensor, margin: float) -> Tensor:
    r"""By how much the best of the wrong questions comes too close to the similar one, (S, B).

    Args:
        scores: ``(S, B, 1 + K)``, of the similar question, then of K wrong ones.
        margin (float): What it has to be ahead by.
    """
    wrong = scores[:, :, 1:].amax(dim=2)
    return (wrong - scores[:, :, 0] + margin).clamp(min=0)


def losses_of_texts(losses: Tensor, batch: QuestionBatch) -> Tensor:
    """What each text has a part in: the sum of the losses of the groups that it stands in.

    The other losses do not depend on the text, so that these alone tell its selection how good it
    is.

    Args:
        losses: ``(S, B)``.
        batch: B groups of T texts.

    Returns:
        ``(S, T)``.
    """
    groups, size = batch.groups.shape
    spread = losses.unsqueeze(2).expand(-1, groups, size).reshape(len(losses), -1)
    of_question = scatter(spread, batch.groups.flatten(), dim=1, dim_size=batch.num_questions)
    return of_question.index_select(1, batch.question)
