"""What Lightning trains on texts: a network, its loss and its accuracy."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.classification import Classifier
from benchmarks.harness.text.model_config import TextModelConfig
from benchmarks.harness.text.models import TextNet, build_text_model
from pyg_kernels.datasets.text import TextBatch


class TextClassifier(Classifier):
    """A network on batches of texts, trained on the cross-entropy of their classes.

    All arguments are plain values, so that a checkpoint alone rebuilds the classifier.
    """

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(logger=False)
        self.net: TextNet = build_text_model(TextModelConfig(**model))

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Gives the words of the vocabulary these vectors, ``(V, D)``."""
        with torch.no_grad():
            self.net.embedding.weight.copy_(vectors)

    def scores(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        return self.net(batch), batch.y
