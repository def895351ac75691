"""The encoder-decoder that writes titles, and what Lightning trains of it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MeanMetric

from benchmarks.harness.learner import Learner, OptimizerConfig
from benchmarks.harness.retrieval.batches import QuestionBatch
from benchmarks.harness.retrieval.learner import RankingError
from benchmarks.harness.retrieval.models import QuestionModelConfig, QuestionNet, build_encoder
from benchmarks.harness.retrieval.titles import TitleBatch


class TitleGenerator(nn.Module):
    """The probability of a title given a text, by an encoder and a decoder of its type.

    The decoder starts from the encoder's last state. Words that titles seldom have are one, the
    unknown word, where they are predicted.

    Args:
        config: Sizes of both.
        title_words (sequence of int): The words that can be written, besides the unknown one.
    """

    word_class: Tensor

    def __init__(self, config: QuestionModelConfig, title_words: Sequence[int]) -> None:
        super().__init__()
        self.question = QuestionNet(config)
        self.decoder = build_encoder(config)
        self.output = nn.Linear(config.hidden, 1 + len(title_words))
        word_class = torch.zeros(config.num_words, dtype=torch.long)
        word_class[list(title_words)] = torch.arange(1, 1 + len(title_words))
        self.register_buffer("word_class", word_class, persistent=False)

    def forward(self, batch: TitleBatch) -> Tensor:
        """Minus the log-probability of each word of the titles and of their ends, ``(N,)``."""
        question, context, before = self.question, batch.context, batch.before
        _, state = question.encoder(question.embed(context.ids), context)
        states, _ = self.decoder(question.embed(before.ids), before, state)
        states = F.dropout(states, question.config.dropout, self.training)
        scores = self.output(states).float()
        return F.cross_entropy(scores, self.word_class[batch.after], reduction="none")


class TitleWriter(Learner):
    """An encoder-decoder, trained on the likelihood of titles.

    Args:
        model (dict): The fields of a :class:`QuestionModelConfig`.
        words (list of str): The vocabulary without padding and unknown word.
        title_words (list of int): See :class:`TitleGenerator`.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
        relevance: For each list of the validation part, which candidates are similar.
    """

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        title_words: list[int],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "words": words, "title_words": title_words, "optimizer": optimizer}
        )
        self.net: TitleGenerator = TitleGenerator(QuestionModelConfig(**model), title_words)
        self.train_error: MeanMetric = MeanMetric(nan_strategy="disable")
        self.valid_error: MeanMetric = MeanMetric(nan_strategy="disable")
        self.ranking_error = RankingError(relevance)

    def epoch_measures(self) -> dict[str, float]:
        """Perplexities, and the mean reciprocal rank of the validation part by titles alone."""
        errors = {"train": self.train_error, "valid": self.valid_error}
        perplexities = {
            f"{part}_perplexity": error.compute().exp().item() for part, error in errors.items()
        }
        return {**perplexities, "valid_MRR": 100 * (1 - self.ranking_error.compute().item())}

    def on_validation_epoch_start(self) -> None:
        """Forgets the epoch before."""
        super().on_validation_epoch_start()
        self.ranking_error.reset()

    def training_step(self, batch: TitleBatch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
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
