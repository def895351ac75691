"""What Lightning trains on molecules, whatever it predicts of them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torchmetrics import Metric

from benchmarks.harness.learner import Learner, OptimizerConfig
from benchmarks.harness.molecules.models import ModelConfig, build_model


class TargetNotes(Protocol):
    """What a learner knows of its targets, from the training part."""

    @property
    def names(self) -> list[str]:
        """Their names."""

    def standardize(self, y: Tensor) -> Tensor:
        """``(B, T)`` float64 values as the float32 ones of training; a ValueError if unfit."""

    def texts(self, values: Sequence[float]) -> list[str]:
        """One prediction of each, with the digits that it deserves."""


class MoleculeLearner(Learner):
    """A network on batches of molecules, trained on measured targets alone.

    Batches to train and validate on carry the targets on the scale of training as ``y``, NaN where
    one was not measured. Loss: the sum of a loss over the batch's measured entries, divided by
    ``batch.divisor``: their number in all processes' batches over the number of processes. All
    arguments are plain values, so that a checkpoint alone rebuilds the learner.

    Args:
        model (dict): The fields of a :class:`ModelConfig`.
        features (dict): The featuriser's ``description()``.
        optimizer (dict, optional): The fields of an :class:`OptimizerConfig`.
        scale: What is known of the targets.
        **plain: Further arguments of the subclass, kept in checkpoints.
    """

    train_error: Metric
    valid_error: Metric

    def __init__(
        self,
        model: dict[str, Any],
        features: dict[str, Any],
        optimizer: dict[str, Any] | None,
        scale: TargetNotes,
        **plain: Any,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "features": features, "optimizer": optimizer, **plain}
        )
        self.features = features
        self.scale: Any = scale
        self.net = build_model(ModelConfig(**model))

    def outputs(self, batch: Batch) -> Tensor:
        """What the network makes of a batch, ``(B, T)`` float32, on the scale of training."""
        return self.net(batch).float()

    @abstractmethod
    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The sum of the losses of the measured entries; both ``(B, T)``."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        outputs = self.outputs(batch)
        self.train_error.update(outputs.detach(), batch.y)
        return self.loss(outputs, batch.y) / divisor(batch)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        self.valid_error.update(self.outputs(batch), batch.y)

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Predictions of a batch, ``(B, T)`` float64 on the CPU."""
        return self(batch)


def divisor(batch: Any) -> Tensor:
    """What the loss of a batch is divided by: ``batch.divisor``, or its own measured entries."""
    found: Tensor | None = getattr(batch, "divisor", None)
    return (~batch.y.isnan()).sum().clamp(min=1) if found is None else found


def where_measured(y: Tensor) -> tuple[Tensor, Tensor]:
    """``(B, T)`` whether each entry was measured, and the entries, 0 where one was not."""
    measured = ~y.isnan()
    return measured, torch.where(measured, y, 0.0)
