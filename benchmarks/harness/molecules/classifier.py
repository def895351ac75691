"""Binary classification of molecules: the classes, the loss, ROC-AUC and average precision."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor
from torch_geometric.data import Batch
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from benchmarks.harness.molecules.learner import MoleculeLearner, where_measured

MISSING = -1  # of a class that was not measured, where classes are kept as small integers
RANKINGS: dict[str, Callable[..., float]] = {
    "rocauc": roc_auc_score,
    "ap": average_precision_score,
}


@dataclass(frozen=True)
class BinaryTargets:
    r"""Names of targets that are 0 or 1, and the log odds of 1 in the training part.

    The probability of class 1 is :math:`\operatorname{sigmoid}(o + f(G))`, with o the log odds and
    f the network: one that gives 0 predicts how frequent the class is.

    Args:
        names: Target names.
        log_odds: One number a target, :math:`\log((n_1 + 1/2) / (n_0 + 1/2))` of the numbers of
            training molecules of each class.
    """

    names: list[str]
    log_odds: list[float]

    @classmethod
    def fit(cls, names: Sequence[str], y: Tensor) -> "BinaryTargets":
        """The classes' frequencies among the measured values of some molecules.

        Args:
            names: T target names.
            y: ``(M, T)`` of 0 and 1, NaN where a target was not measured.

        Raises:
            ValueError: If a value is neither.
        """
        _check_classes(names, y)
        ones, zeros = ((y == k).sum(dim=0).double() + 0.5 for k in (1, 0))
        return cls(list(names), (ones / zeros).log().tolist())

    def standardize(self, y: Tensor) -> Tensor:
        """The classes ``(B, T)`` as float32.

        Raises:
            ValueError: If a value is neither 0 nor 1 nor missing.
        """
        _check_classes(self.names, y)
        return y.float()

    def texts(self, values: Sequence[float]) -> list[str]:
        """One probability of each target, with six digits."""
        return [f"{value:.6g}" for value in values]


def _check_classes(names: Sequence[str], y: Tensor) -> None:
    other = ~((y == 0) | (y == 1) | y.isnan())
    for name, column, unfit in zip(names, y.t(), other.t(), strict=True):
        if unfit.any():
            raise ValueError(
                f"classification needs targets of 0 and 1, but {name!r} has a value "
                f"{column[unfit][0].item():g}"
            )


def masked_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """The sum of binary cross-entropies over the measured entries of `y`.

    Args:
        logits: ``(B, T)``, the log odds of class 1.
        y: ``(B, T)`` of 0 and 1, NaN where a target was not measured.
    """
    measured, known = where_measured(y)
    losses = F.binary_cross_entropy_with_logits(logits, known, reduction="none")
    return torch.where(measured, losses, 0.0).sum()


def ranking_score(metric: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """ROC-AUC or average precision, averaged over the targets that have both classes.

    This is how the Open Graph Benchmark's ``Evaluator`` averages.

    Args:
        metric (str): ``'rocauc'`` or ``'ap'``.
        y: ``(M, T)`` of 0, 1, and anything else where a target was not measured.
        prediction: ``(M, T)``, the larger the likelier class 1.

    Returns:
        NaN where no target has both classes, or a prediction of a measured entry is not finite.
    """
    scores = each_ranking_score(metric, y, prediction)
    both = [score for score in scores if score is not None]
    return sum(both) / len(both) if both else math.nan


def each_ranking_score(metric: str, y: np.ndarray, prediction: np.ndarray) -> list[float | None]:
    """That of each target; ``None`` where it has not both classes.

    Args:
        metric (str): As in :func:`ranking_score`, as are the next two.
        y: ``(M, T)``.
        prediction: ``(M, T)``.
    """
    scores: list[float | None] = []
    for classes, column in zip(y.T, prediction.T, strict=True):
        one = classes == 1
        measured = one | (classes == 0)
        if not one.any() or one.sum() == measured.sum():
            scores.append(None)
        elif not np.isfinite(column[measured]).all():
            scores.append(math.nan)
        else:
            scores.append(float(RANKINGS[metric](one[measured], column[measured])))
    return scores


class RankingError(Metric):
    """One minus ROC-AUC or average precision, averaged over the targets that have both classes.

    Keeps all predictions since the last reset: neither is a sum over batches. NaN where a
    prediction of a measured entry is not finite.

    Args:
        metric (str): ``'rocauc'`` or ``'ap'``.
    """

    higher_is_better = False
    full_state_update = False
    prediction: list[Tensor]
    classes: list[Tensor]

    def __init__(self, metric: str) -> None:
        super().__init__()
        self.metric = metric
        self.add_state("prediction", [], dist_reduce_fx="cat")
        self.add_state("classes", [], dist_reduce_fx="cat")

    def update(self, prediction: Tensor, y: Tensor) -> None:
        """Adds a batch: both ``(B, T)``, `y` of 0 and 1, NaN where a target was not measured."""
        self.prediction.append(prediction.float())
        self.classes.append(y.nan_to_num(MISSING).to(torch.int8))

    def compute(self) -> Tensor:
        """The error so far, NaN before the first batch."""
        if not len(self.classes):
            return torch.tensor(math.nan)
        y, prediction = (dim_zero_cat(state).cpu() for state in (self.classes, self.prediction))
        return torch.tensor(1 - ranking_score(self.metric, y.numpy(), prediction.numpy()))


class MoleculeClassifier(MoleculeLearner):
    """A network on batches of molecules, trained on classes 0 and 1.

    Loss: the binary cross-entropy over measured entries. Logs ``valid_error``, one minus ROC-AUC or
    average precision.

    Args:
        model (dict): The fields of a :class:`ModelConfig`.
        targets (dict): The fields of :class:`BinaryTargets`.
        features (dict): The featuriser's ``description()``.
        metric (str): ``'rocauc'`` or ``'ap'``.
        optimizer (dict, optional): The fields of an :class:`OptimizerConfig`.
    """

    log_odds: Tensor

    def __init__(
        self,
        model: dict[str, Any],
        targets: dict[str, Any],
        features: dict[str, Any],
        metric: str,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        scale = BinaryTargets(**targets)
        super().__init__(model, features, optimizer, scale, targets=targets, metric=metric)
        self.metric = metric
        self.register_buffer("log_odds", torch.tensor(scale.log_odds), persistent=False)
        self.train_error: RankingError = RankingError(metric)
        self.valid_error: RankingError = RankingError(metric)

    def outputs(self, batch: Batch) -> Tensor:
        """The log odds of class 1, ``(B, T)`` float32."""
        return super().outputs(batch) + self.log_odds

    def forward(self, batch: Batch) -> Tensor:
        """The probabilities of class 1, ``(B, T)`` float64 on the CPU."""
        return self.outputs(batch).cpu().double().sigmoid()

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The sum of binary cross-entropies."""
        return masked_cross_entropy(outputs, y)

    def epoch_measures(self) -> dict[str, float]:
        """ROC-AUC or average precision of training and validation so far."""
        return {
            f"{part}_{self.metric}": 1 - error.compute().item()
            for part, error in (("train", self.train_error), ("valid", self.valid_error))
        }
