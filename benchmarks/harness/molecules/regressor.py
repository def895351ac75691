"""Regression on molecules: the scale of the targets, the loss, the error."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch
from torchmetrics import Metric

from benchmarks.harness.molecules.learner import MoleculeLearner, where_measured


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

    def standardize(self, y: Tensor) -> Tensor:
        """``(y - mean) / std`` of ``(M, T)`` values, computed in float64, as float32.

        Raises:
            ValueError: If a value is too far from the training part's for float32.
        """
        mean, std = (torch.tensor(values, dtype=torch.float64) for values in (self.mean, self.std))
        standardized = ((y.double() - mean) / std).float()
        for name, far in zip(self.names, standardized.isinf().any(dim=0).tolist(), strict=True):
            if far:
                raise ValueError(
                    f"target {name!r} has values too far from those of the training part"
                )
        return standardized

    def texts(self, values: Sequence[float]) -> list[str]:
        """One prediction of each target, with the digits that a float32 network can tell apart.

        These are a millionth of the standard deviation.
        """
        return [
            f"{round(value, 6 - math.floor(math.log10(std))):.15g}"
            for value, std in zip(values, self.std, strict=True)
        ]


def masked_squared_error(prediction: Tensor, y: Tensor) -> Tensor:
    """The sum of squared errors over the measured entries of `y`; 0 where there are none.

    Args:
        prediction: ``(B, T)``.
        y: ``(B, T)``, NaN where a target was not measured.
    """
    measured, known = where_measured(y)
    return torch.where(measured, prediction - known, 0.0).square().sum()


def root_mean_square(errors: NDArray[np.float64]) -> float:
    """The root mean square of a vector of at least one number, however large or small they are."""
    largest = float(np.abs(errors).max())
    if not largest or not math.isfinite(largest):
        return largest
    return largest * float(np.sqrt(np.mean(np.square(errors / largest))))


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
        measured, known = where_measured(y)
        error = torch.where(measured, prediction - known, 0.0)
        self.squared_error += error.square().sum(dim=0)
        self.count += measured.sum(dim=0)

    def compute(self) -> Tensor:
        """The RMSE so far, NaN where nothing was measured."""
        return self.each()[self.count > 0].mean()

    def each(self) -> Tensor:
        """``(T,)`` the RMSE of each target so far, NaN where nothing was measured."""
        return (self.squared_error / self.count).sqrt()


class MoleculeRegressor(MoleculeLearner):
    """A network on batches of molecules, trained on standardised targets.

    Loss: the mean squared error of the standardised targets over measured entries. Logs
    ``valid_error``, their RMSE averaged over them: every target weighs the same, whatever its unit.

    Args:
        model (dict): The fields of a :class:`ModelConfig`.
        targets (dict): The fields of a :class:`TargetScale`.
        features (dict): The featuriser's ``description()``.
        optimizer (dict, optional): The fields of an :class:`OptimizerConfig`.
    """

    def __init__(
        self,
        model: dict[str, Any],
        targets: dict[str, Any],
        features: dict[str, Any],
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        scale = TargetScale(**targets)
        super().__init__(model, features, optimizer, scale, targets=targets)
        # No buffers: float64 stays on the CPU, since not every device has it.
        self.mean = torch.tensor(scale.mean, dtype=torch.float64)
        self.std = torch.tensor(scale.std, dtype=torch.float64)
        self.train_error: MaskedRMSE = MaskedRMSE(len(scale.names))
        self.valid_error: MaskedRMSE = MaskedRMSE(len(scale.names))

    def forward(self, batch: Batch) -> Tensor:
        """Predictions ``(B, T)`` in the targets' own units, float64 on the CPU."""
        return self.outputs(batch).cpu().double() * self.std + self.mean

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The sum of squared errors."""
        return masked_squared_error(outputs, y)

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
