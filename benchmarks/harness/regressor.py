"""What Lightning trains on molecules: a network, the scale of its targets, the loss."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torchmetrics import Metric

from benchmarks.harness.learner import Learner, OptimiserConfig
from benchmarks.harness.models import ModelConfig, build_model


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


class MoleculeRegressor(Learner):
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
        optimiser = optimiser or asdict(OptimiserConfig())
        super().__init__(OptimiserConfig(**optimiser))
        self.save_hyperparameters(
            {"model": model, "targets": targets, "features": features, "optimiser": optimiser}
        )
        self.net = build_model(ModelConfig(**model))
        self.scale = TargetScale(**targets)
        # No buffers: float64 stays on the CPU, since not every device has it.
        self.mean = torch.tensor(self.scale.mean, dtype=torch.float64)
        self.std = torch.tensor(self.scale.std, dtype=torch.float64)
        self.train_error: MaskedRMSE = MaskedRMSE(len(self.scale.names))
        self.valid_error: MaskedRMSE = MaskedRMSE(len(self.scale.names))

    def forward(self, batch: Batch) -> Tensor:
        """Predictions ``(B, T)`` in the targets' own units, float64 on the CPU."""
        return self.net(batch).cpu().double() * self.std + self.mean

    def epoch_measures(self) -> dict[str, float]:
        """RMSE of training and validation so far."""
        return {
            "train_rmse": self.rmse(self.train_error),
            "valid_rmse": self.rmse(self.valid_error),
        }

    def rmse(self, error: MaskedRMSE) -> float:
        """The error so far in the targets' own units, averaged over targets."""
        measured = (error.count > 0).cpu()
        return (error.each().cpu().double() * self.std)[measured].mean().item()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        standardised = self.net(batch).float()
        self.train_error.update(standardised.detach(), batch.y)
        return masked_mean_squared_error(standardised, batch.y)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        self.valid_error.update(self.net(batch), batch.y)

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Predictions of a batch, ``(B, T)``, in the targets' own units."""
        return self(batch)
