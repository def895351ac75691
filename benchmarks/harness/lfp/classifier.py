"""What Lightning trains on recordings: a network, its loss and its accuracy."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.checkpoint import UNREADABLE
from benchmarks.harness.error_rate import ErrorRate
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import Learner, OptimizerConfig, mean_cross_entropy
from benchmarks.harness.lfp.filters import FilterBank
from benchmarks.harness.lfp.models import (
    RecordingModelConfig,
    RecordingNet,
    build_recording_model,
)

Batch = tuple[Tensor, Tensor]


class RecordingClassifier(Learner):
    """A network on batches of standardised trials, trained on the cross-entropy of their classes.

    All arguments are plain values, so that a checkpoint alone rebuilds the classifier.

    Args:
        model (dict): The fields of a :class:`RecordingModelConfig`.
        classes (list of str): Names of the classes.
        rate (float): Samples a second, in Hz.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
    """

    def __init__(
        self,
        model: dict[str, Any],
        classes: list[str],
        rate: float,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "classes": classes, "rate": rate, "optimizer": optimizer}
        )
        self.net: RecordingNet = build_recording_model(RecordingModelConfig(**model))
        self.filters_at_start = FilterBank.of(self.net, rate)
        self.train_error: ErrorRate = ErrorRate()
        self.valid_error: ErrorRate = ErrorRate()

    def filters(self) -> FilterBank:
        """The filters as they are now; ``filters_at_start`` are those of the fresh network."""
        return FilterBank.of(self.net, self.hparams["rate"])

    def forward(self, batch: Batch) -> Tensor:
        """The most probable class of each trial, ``(B,)``, on the CPU."""
        return self.net(batch[0]).argmax(dim=1).cpu()

    def epoch_measures(self) -> dict[str, float]:
        """Accuracy in percent of training and validation so far."""
        errors = {"train": self.train_error, "valid": self.valid_error}
        return {
            f"{part}_accuracy": 100 * (1 - error.compute().item()) for part, error in errors.items()
        }

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        x, y = batch
        scores = self.net(x).float()
        self.train_error.update(scores.detach(), y)
        return mean_cross_entropy(scores, y)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        x, y = batch
        self.valid_error.update(self.net(x), y)

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The most probable class of each trial of a batch, ``(B,)``."""
        return self(batch)


def load_classifier(path: Path, seed: int) -> RecordingClassifier:
    """The classifier of a run's checkpoint, with the filters that it started from.

    Args:
        path (Path): Its ``best.ckpt``.
        seed (int): Of the run.

    Raises:
        InputError: If it is missing, damaged or of something else.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            classifier = RecordingClassifier(**checkpoint["hyper_parameters"])
        classifier.load_state_dict(checkpoint["state_dict"])
    except UNREADABLE as e:
        raise InputError(f"{path} is missing or damaged; remove its folder to train again") from e
    return classifier.eval()
