"""The base of all that Lightning trains: optimiser, schedule, validation error."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import lightning.pytorch as lightning
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import MeanMetric, Metric

from pyg_kernels.molecules.learning_rate import cosine


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its learning rate."""

    learning_rate: float = 1e-3  # the highest learning rate
    # ``'cosine'``: a linear warm-up over the first 5% of the steps, then a cosine down to 1%;
    # ``'exponential'``: multiplied by `factor` every epoch; ``'none'``: constant
    schedule: str = "cosine"
    factor: float = 0.9  # see `schedule`
    weight_decay: float = 0.0  # Adam's L2 penalty


@dataclass(frozen=True)
class TrainingConfig:
    """How a run is trained."""

    epochs: int = 0  # at most
    batch_size: int = 0
    patience: int = 0  # epochs without a better validation error after which training stops
    clip: float = 0.0  # largest gradient norm; 0: no clipping
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    device: str = "auto"
    precision: str = "auto"  # Lightning's name of a precision, or ``'auto'``
    # ``'bar'``; ``'lines'``: about ten per run; ``'epochs'``: one per epoch; or ``'nothing'``
    show: str = "nothing"
    logger: str = "none"  # ``'csv'`` or ``'tensorboard'``: where epochs are logged in addition


class Learner(lightning.LightningModule, ABC):
    """A network with its training and its measures.

    Logs ``valid_error``, for which lower is better, after each epoch. The epoch with the lowest
    error is kept, and early stopping follows the error. A subclass builds ``net`` and updates
    ``train_error`` and ``valid_error``, metrics that give one number such as a mean, in its steps.
    """

    UNSAVED: ClassVar[tuple[str, ...]] = ()  # arguments that a checkpoint does not keep
    ADDED: ClassVar[tuple[str, ...]] = ()  # arguments that earlier checkpoints do not have
    net: torch.nn.Module
    train_error: Metric
    valid_error: Metric

    def __init__(self, optimizer: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.optimizer = OptimizerConfig(**(optimizer or {}))
        self.train_error = MeanMetric(nan_strategy="disable")
        self.valid_error = MeanMetric(nan_strategy="disable")

    @abstractmethod
    def epoch_measures(self) -> dict[str, float]:
        """The epoch's measures to record, ``train_METRIC`` and ``valid_METRIC``, in shown units."""

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        return cast(Tensor, self(batch))

    def configure_optimizers(self) -> Any:
        config = self.optimizer
        # One pass over all parameters; Lightning refuses to clip its gradients in mixed precision.
        fused = "mixed" not in self.trainer.precision
        adam = torch.optim.Adam(
            self.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=fused,
        )
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        steps_per_epoch = max(1, steps // max(1, self.trainer.max_epochs or 1))
        factors: dict[str, Callable[[int], float]] = {
            "cosine": cosine(steps),
            "exponential": lambda step: config.factor ** (step // steps_per_epoch),
            "none": lambda step: 1.0,
        }
        return [adam], [{"scheduler": LambdaLR(adam, factors[config.schedule]), "interval": "step"}]

    def on_train_epoch_start(self) -> None:
        self.train_error.reset()

    def on_validation_epoch_start(self) -> None:
        self.valid_error.reset()

    def on_validation_epoch_end(self) -> None:
        error = self.valid_error.compute()
        # EpochHistory logs all of an epoch.
        self.log("valid_error", error, logger=False, prog_bar=True)
