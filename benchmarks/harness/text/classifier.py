"""What Lightning trains on texts: a network, its loss and its accuracy."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.error_rate import ErrorRate
from benchmarks.harness.learner import Learner, OptimizerConfig, mean_cross_entropy
from benchmarks.harness.text.model_config import TextModelConfig
from benchmarks.harness.text.models import TextNet, build_text_model
from pyg_kernels.datasets.text import TextBatch


class TextClassifier(Learner):
    """A network on batches of texts, trained on the cross-entropy of their classes.

    All arguments are plain values, so that a checkpoint alone rebuilds the classifier.

    Args:
        model (dict): The fields of a :class:`TextModelConfig`.
        words (list of str): The vocabulary without padding and unknown word.
        classes (list of str): Names of the classes.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
    """

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "words": words, "classes": classes, "optimizer": optimizer}
        )
        self.net: TextNet = build_text_model(TextModelConfig(**model))
        self.train_error: ErrorRate = ErrorRate()
        self.valid_error: ErrorRate = ErrorRate()

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Gives the words of the vocabulary these vectors, ``(V, D)``."""
        with torch.no_grad():
            self.net.embedding.weight.copy_(vectors)

    def forward(self, batch: TextBatch) -> Tensor:
        """The most probable class of each text, ``(B,)``, on the CPU."""
        return self.net(batch).argmax(dim=1).cpu()

    def epoch_measures(self) -> dict[str, float]:
        """Accuracy in percent of training (with dropout) and validation so far."""
        errors = {"train": self.train_error, "valid": self.valid_error}
        return {
            f"{part}_accuracy": 100 * (1 - error.compute().item()) for part, error in errors.items()
        }

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        scores = self.net(batch).float()
        self.train_error.update(scores.detach(), batch.y)
        return mean_cross_entropy(scores, batch.y)

    def validation_step(self, batch: TextBatch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        self.valid_error.update(self.net(batch), batch.y)

    def predict_step(self, batch: TextBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The most probable class of each text of a batch, ``(B,)``."""
        return self(batch)
