"""How good predictions are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

TITLES = {"rmse": "RMSE", "roc-auc": "ROC-AUC", "pr-auc": "average precision"}
LEVELS = {"50 %": 0.6745, "80 %": 1.2816, "95 %": 1.96}  # of a normal distribution, in deviations
Numbers = NDArray[Any]


def score(metric: str, y: Numbers, prediction: Numbers, drawn: Numbers | None = None) -> float:
    """The mean of targets' scores, as in the Open Graph Benchmark; NaN if no target has one."""
    found = each_score(metric, y, prediction, drawn)
    known = found[~np.isnan(found)]
    return float(known.mean()) if len(known) else float("nan")


def each_score(
    metric: str, y: Numbers, prediction: Numbers, drawn: Numbers | None = None
) -> Numbers:
    """The scores, ``(T,)``; NaN if a target was not measured or has a single class."""
    weight = np.ones(len(y)) if drawn is None else drawn
    scores = {"rmse": _rmse, "roc-auc": _roc_auc, "pr-auc": _average_precision}
    found = []
    for column, own in zip(y.T, prediction.T, strict=True):
        there = ~np.isnan(column)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(scores[metric](column[there], own[there], weight[there]))
    return np.array(found, dtype=float)


def covered(y: Numbers, prediction: Numbers, std: Numbers) -> list[float] | None:
    """The shares of measurements in the intervals of `LEVELS`; None without standard deviations."""
    there = ~(np.isnan(y) | np.isnan(std))
    if not there.any():
        return None
    distance = np.abs(y - prediction)[there] / np.maximum(std[there], np.finfo(float).tiny)
    return [float((distance < width).mean()) for width in LEVELS.values()]


def _rmse(y: Numbers, prediction: Numbers, weight: Numbers) -> float:
    return float(np.sqrt((weight @ (y - prediction) ** 2) / weight.sum()))


def _by_threshold(y: Numbers, prediction: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """The weight of either class at each predicted value, the highest value first."""
    _, place = np.unique(-prediction, return_inverse=True)
    number = int(place.max(initial=-1)) + 1
    return tuple(np.bincount(place, weight * (y == c), number) for c in (0, 1))  # type: ignore[return-value]


def _roc_auc(y: Numbers, prediction: Numbers, weight: Numbers) -> float:
    negative, positive = _by_threshold(y, prediction, weight)
    above = positive.cumsum() - positive / 2
    return float((negative @ above) / (negative.sum() * positive.sum()))


def _average_precision(y: Numbers, prediction: Numbers, weight: Numbers) -> float:
    negative, positive = _by_threshold(y, prediction, weight)
    if not negative.any():
        return float("nan")
    found = positive.cumsum()
    precision = np.where(found > 0, found / (found + negative.cumsum()), 0.0)
    return float((positive @ precision) / positive.sum())
