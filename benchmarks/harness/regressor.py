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
            ValueError: If a target has no measured value, or float64 cannot hold its scale.
        """
        mean, std = [], []
        for name, column in zip(names, y.double().t(), strict=True):
            measured = column[~column.isnan()]
            if not len(measured):
                raise ValueError(f"the training part has no measured value of target {name!r}")
            low, spread = measured.min().item(), (measured.max() - measured.min()).item()
            unit = (measured - low) / (spread or 1.0)  # its square neither vanishes nor overflows
            mean.append(low + spread * unit.mean().item())
            std.append(spread * unit.std(unbiased=False).item() if spread else 1.0)
            if not 0 < std[-1] < math.inf:
                raise ValueError(f"the values of target {name!r} are too large or small; scale it")
        return cls(list(names), mean, std)

    def standardise(self, y: Tensor) -> Tensor:
        """``(y - mean) / std`` of ``(M, T)`` values, computed in float64, as float32.

        Raises:
            ValueError: If a value is too far from the training part's for float32.
        """
        mean, std = (torch.tensor(values, dtype=torch.float64) for values in (self.mean, self.std))
        standardised = ((y.double() - mean) / std).float()
        for name, far in zip(self.names, standardised.isinf().any(dim=0).tolist(), strict=True):
            if far:
                raise ValueError(
                    f"target {name!r} has values too far from those of the training part"
                )
        return standardised


@dataclass(frozen=True)
class OptimiserConfig:
    """Adam and its learning rate.

    Args:
        learning_rate (float): The highest learning rate.
        schedule (str): ``'cosine'``: a linear warm-up over the first 5% of the steps, then a
            cosine down to 1%; ``'exponential'``: times `factor` every epoch; ``'plateau'``: times
            `factor` after 5 epochs without a better validation error; ``'none'``: constant.
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


def root_mean_square(errors: Sequence[float]) -> float:
    """The root mean square of at least one number, however large or small they are."""
    return math.hypot(*errors) / math.sqrt(len(errors))


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
        return self.each()[self.count > 0].mean()

    def each(self) -> Tensor:
        """``(T,)`` the RMSE of each target so far, NaN where nothing was measured."""
        return (self.squared_error / self.count).sqrt()


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

    Batches to train and validate on carry the standardised targets as ``y``. Loss: their mean
    squared error over measured entries. Logs ``valid_error``, the RMSE of the standardised targets
    averaged over them: every target weighs the same, whatever its unit. All arguments are plain
    values, so that a checkpoint alone rebuilds the regressor.

    Args:
        model (dict): The fields of a :class:`ModelConfig`.
        targets (dict): The fields of a :class:`TargetScale`.
        features (dict): ``MolFeaturizer().description()``.
        optimiser (dict): The fields of an :class:`OptimiserConfig`.
    """

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
        self.scale = TargetScale(**targets)
        # No buffers: float64 stays on the CPU, since not every device has it.
        self.mean = torch.tensor(self.scale.mean, dtype=torch.float64)
        self.std = torch.tensor(self.scale.std, dtype=torch.float64)
        self.train_error = MaskedRMSE(len(self.scale.names))
        self.valid_error = MaskedRMSE(len(self.scale.names))

    def forward(self, batch: Batch) -> Tensor:
        """Predictions ``(B, T)`` in the targets' own units, float64 on the CPU."""
        return self.net(batch).cpu().double() * self.std + self.mean

    def rmse(self, error: MaskedRMSE) -> float:
        """The error so far in the targets' own units, averaged over targets."""
        measured = (error.count > 0).cpu()
        return (error.each().cpu().double() * self.std)[measured].mean().item()

    def on_train_epoch_start(self) -> None:
        """Forgets the epoch before."""
        self.train_error.reset()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        standardised = self.net(batch).float()
        self.train_error.update(standardised.detach(), batch.y)
        return masked_mean_squared_error(standardised, batch.y)

    def on_validation_epoch_start(self) -> None:
        """Forgets the epoch before."""
        self.valid_error.reset()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        self.valid_error.update(self.net(batch), batch.y)

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Predictions of a batch, ``(B, T)``, in the targets' own units."""
        return self(batch)

    def configure_optimizers(self) -> Any:
        """Adam and its schedule."""
        config = self.optimiser
        adam = torch.optim.Adam(
            self.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        if config.schedule == "plateau":
            plateau = ReduceLROnPlateau(adam, factor=config.factor, patience=5)
            return [adam], [{"scheduler": plateau, "monitor": "valid_error"}]
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
        """Logs the validation error and steps the schedule ``plateau``."""
        error = self.valid_error.compute()
        self.log("valid_error", error)
        scheduler = self.lr_schedulers()
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(error.item())
