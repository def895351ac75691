"""What Lightning trains: the ranking of similar questions, and the writing of titles."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from benchmarks.harness.learner import Learner
from benchmarks.harness.retrieval.batches import QuestionBatch, TitleBatch
from benchmarks.harness.retrieval.metrics import evaluate
from benchmarks.harness.retrieval.models import QuestionModelConfig, QuestionNet, TitleGenerator


def hinge_loss(scores: Tensor, margin: float) -> Tensor:
    r"""By how much the best of the wrong questions comes too close to the similar one.

    .. math::
        \max_k \, [s_k - s_+ + \delta]_+

    The mean over B queries of scores ``(B, 1 + K)``, the first of them of the similar question.
    """
    right, wrong = scores[:, 0], scores[:, 1:].amax(dim=1)
    return (wrong - right + margin).clamp(min=0).mean()


class RankingError(Metric):
    """One minus the mean reciprocal rank of lists of candidates."""

    scores: list[Tensor]
    full_state_update = False

    def __init__(self, relevance: Sequence[Tensor]) -> None:
        super().__init__()
        self.relevance = list(relevance)
        self.add_state("scores", default=[], dist_reduce_fx="cat")

    def update(self, scores: Tensor) -> None:
        """Adds the scores of the next pairs, ``(P,)``, in the order of lists and candidates."""
        self.scores.append(scores.detach().float().cpu())

    def compute(self) -> Tensor:
        """The error, 0 to 1; NaN where a score is not a number."""
        lists = torch.cat(self.scores).split([len(similar) for similar in self.relevance])
        return torch.tensor(1 - evaluate(lists, self.relevance)["MRR"] / 100)


class QuestionRanker(Learner):
    """A network that ranks questions by their cosine with another."""

    UNSAVED = ("relevance",)

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        self.net: QuestionNet = QuestionNet(QuestionModelConfig(**model))
        self.valid_error = RankingError(relevance)

    def forward(self, batch: QuestionBatch) -> Tensor:
        """The cosine of each pair, ``(P,)``, on the CPU."""
        return self.net(batch).squeeze(1).float().cpu()

    def epoch_measures(self) -> dict[str, float]:
        """The mean reciprocal rank in percent.

        That of training (with dropout) is of a similar question among its random ones.
        """
        return {
            "train_MRR": 100 * (1 - self.train_error.compute().item()),
            "valid_MRR": 100 * (1 - self.valid_error.compute().item()),
        }

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        scores = self.net(batch).float()
        rank = 1 + (scores[:, 1:] >= scores[:, :1]).sum(dim=1)
        self.train_error.update(1 - 1 / rank)
        return hinge_loss(scores, self.net.config.margin)

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        self.valid_error.update(self(batch))


class TitleWriter(Learner):
    """An encoder-decoder, trained on the likelihood of titles."""

    UNSAVED = ("relevance",)

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        title_words: list[int],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        self.net: TitleGenerator = TitleGenerator(QuestionModelConfig(**model), title_words)
        self.ranking_error = RankingError(relevance)

    def epoch_measures(self) -> dict[str, float]:
        """Perplexities, and the mean reciprocal rank of the validation part by titles alone."""
        return {
            "train_perplexity": self.train_error.compute().exp().item(),
            "valid_perplexity": self.valid_error.compute().exp().item(),
            "valid_MRR": 100 * (1 - self.ranking_error.compute().item()),
        }

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self.ranking_error.reset()

    def training_step(self, batch: TitleBatch, batch_idx: int) -> Tensor:
        losses = self.net(batch)
        self.train_error.update(losses.detach())
        return losses.mean()

    def validation_step(
        self, batch: TitleBatch | QuestionBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Adds titles to the validation error, or candidates to the ranking error."""
        if isinstance(batch, TitleBatch):
            self.valid_error.update(self.net(batch))
        else:
            self.ranking_error.update(self.net.question(batch).squeeze(1))

    def predict_step(self, batch: TitleBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """For each title minus its log-probability and its words, the end too, ``(B, 2)``."""
        losses = self.net(batch).double()
        totals = losses.new_zeros(batch.before.num_texts).index_add(0, batch.before.text, losses)
        return torch.stack([totals, batch.before.lengths.to(totals)], dim=1).cpu()
