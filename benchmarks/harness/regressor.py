"""What Lightning trains: a network, the scale of its targets, the loss and the optimiser."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torch_geometric.data import Batch
from torchmetrics import Metric

from benchmarks.harness.models import ModelConfig, build_model

SCHEDULES = ("cosine", "exponential", "plateau", "none")
WARMUP = 0.05  # fraction of all steps over which the learning rate rises from 0
FINAL_FRACTION = 0.01  # the cosine ends at this fraction of the learning rate


@dataclass(frozen=True)
class TargetScale:
    r"""Names, means and standard deviations of the targets: :math:`(y - \mu) / \sigma`.

    Args:
        names: Target names.
        mean: One mean a target, in the target's own units.
        std: One (population) standard deviation a target; 1 where a target is constant.
    """

    names: list[str]
    mean: list[float]
    std: list[float]

    @classmethod
    def fit(cls, names: Sequence[str], y: Tensor) -> "TargetScale":
        """The scale of the measured values of some molecules.

        Args:
            names: T target names.
            y: ``(M, T)``, NaN where a target was not measured.

        Raises:
            ValueError: If a target has no measured value.
        """
        mean, std = [], []
        for name, column in zip(names, y.double().t(), strict=True):
            measured = column[~column.isnan()]
            if not len(measured):
                raise ValueError(f"the training part has no measured value of target {name!r}")
            constant = bool(measured.min() == measured.max())
            mean.append(measured.mean().item())
            std.append(1.0 if constant else measured.std(unbiased=False).item())
        return cls(list(names), mean, std)


@dataclass(frozen=True)
class OptimiserConfig:
    """Adam and its learning rate.

    Args:
        learning_rate (float): The highest learning rate.
        schedule (str): ``'cosine'``: a linear warm-up over the first 5% of the steps, then a
            cosine down to 1%; ``'exponential'``: times `factor` every epoch; ``'plateau'``: times
            `factor` after 5 epochs without a better validation RMSE; ``'none'``: constant.
        factor (float): See `schedule`.
        weight_decay (float): Adam's L2 penalty.
    """

    learning_rate: float = 1e-3
    schedule: str = "cosine"
    factor: float = 0.9
    weight_decay: float = 0.0


def masked_mean_squared_error(prediction: Tensor, y: Tensor) -> Tensor:
    """Mean squared error over the measured entries of `y`; 0 where there are none.

    Args:
        prediction: ``(B, T)``.
        y: ``(B, T)``, NaN where a target was not measured.
    """
    measured = ~y.isnan()
    error = torch.where(measured, prediction - y.nan_to_num(), 0.0)
    return error.square().sum() / measured.sum().clamp(min=1)


class MaskedRMSE(Metric):
    """Root mean squared error over measured entries, averaged over the targets that have any.

    Args:
        num_targets (int): Number of columns.
    """

    higher_is_better = False
    full_state_update = False
    squared_error: Tensor
    count: Tensor

    def __init__(self, num_targets: int) -> None:
        super().__init__()
        zeros = torch.zeros(num_targets)
        self.add_state("squared_error", zeros, dist_reduce_fx="sum")
        self.add_state("count", zeros.clone(), dist_reduce_fx="sum")

    def update(self, prediction: Tensor, y: Tensor) -> None:
        """Adds a batch: both ``(B, T)``, `y` NaN where a target was not measured."""
        measured = ~y.isnan()
        error = torch.where(measured, prediction.float() - y.nan_to_num(), 0.0)
        self.squared_error += error.square().sum(dim=0)
        self.count += measured.sum(dim=0)

    def compute(self) -> Tensor:
        """The RMSE so far, NaN where nothing was measured."""
        measured = self.count > 0
        return (self.squared_error[measured] / self.count[measured]).sqrt().mean()


def learning_rate_factor(
    config: OptimiserConfig, num_steps: int, steps_per_epoch: int
) -> Callable[[int], float]:
    """The factor on the learning rate at each step, for every schedule but ``'plateau'``."""
    if config.schedule == "none":
        return lambda step: 1.0
    if config.schedule == "exponential":
        return lambda step: config.factor ** (step // steps_per_epoch)
    warmup = math.ceil(WARMUP * num_steps)

    def cosine(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, num_steps - warmup))
        return FINAL_FRACTION + (1 - FINAL_FRACTION) * 0.5 * (1 + math.cos(math.pi * progress))

    return cosine


class MoleculeRegressor(lightning.LightningModule):
    """A network on batches of molecules, trained on standardised targets.

    Loss: mean squared error of the standardised targets over measured entries. Metrics, logged as
    ``train_rmse`` (while training) and ``valid_rmse``: RMSE in the targets' own units. All
    arguments are plain values, so that a checkpoint alone rebuilds the regressor.

    Args:
        model (dict): The fields of a :class:`ModelConfig`.
        targets (dict): The fields of a :class:`TargetScale`.
        features (dict): ``MolFeaturizer().description()``.
        optimiser (dict): The fields of an :class:`OptimiserConfig`.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: dict[str, Any],
        targets: dict[str, Any],
        features: dict[str, Any],
        optimiser: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        optimiser = optimiser or asdict(OptimiserConfig())
        self.save_hyperparameters(
            {"model": model, "targets": targets, "features": features, "optimiser": optimiser}
        )
        self.optimiser = OptimiserConfig(**optimiser)
        self.net = build_model(ModelConfig(**model))
        self.register_buffer("mean", torch.tensor(targets["mean"]), persistent=False)
        self.register_buffer("std", torch.tensor(targets["std"]), persistent=False)
        self.train_rmse = MaskedRMSE(len(targets["names"]))
        self.valid_rmse = MaskedRMSE(len(targets["names"]))

    def forward(self, batch: Batch) -> Tensor:
        """Predictions ``(B, T)`` in the targets' own units."""
        return self.net(batch).float() * self.std + self.mean

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        standardised = self.net(batch).float()
        self.train_rmse.update(standardised.detach() * self.std + self.mean, batch.y)
        self.log("train_rmse", self.train_rmse, on_epoch=True, on_step=False, batch_size=len(batch))
        return masked_mean_squared_error(standardised, (batch.y - self.mean) / self.std)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation RMSE."""
        self.valid_rmse.update(self(batch), batch.y)
        self.log("valid_rmse", self.valid_rmse, on_epoch=True, on_step=False, batch_size=len(batch))

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Predictions of a batch, ``(B, T)``, on the CPU."""
        return self(batch).cpu()

    def configure_optimizers(self) -> Any:
        """Adam and its schedule."""
        config = self.optimiser
        adam = torch.optim.Adam(
            self.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        if config.schedule == "plateau":
            plateau = ReduceLROnPlateau(adam, factor=config.factor, patience=5)
            return [adam], [{"scheduler": plateau, "monitor": "valid_rmse"}]
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        steps_per_epoch = max(1, steps // max(1, self.trainer.max_epochs or 1))
        factor = learning_rate_factor(config, steps, steps_per_epoch)
        return [adam], [{"scheduler": LambdaLR(adam, factor), "interval": "step"}]

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Steps every schedule but ``plateau``."""
        # Lightning steps a plateau schedule after it has written the epoch's checkpoint, so that
        # a resumed run would miss a step; on_validation_epoch_end steps it before.
        if not isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step()

    def on_validation_epoch_end(self) -> None:
        """Steps the schedule ``plateau``."""
        scheduler = self.lr_schedulers()
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(self.valid_rmse.compute().item())
