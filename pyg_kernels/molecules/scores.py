"""How good predictions are: the usual figures, of what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn import metrics
from sklearn.preprocessing import label_binarize

METRICS = {
    "regression": ("rmse", "mae", "r2", "spearman", "coverage"),
    "classification": ("roc-auc", "pr-auc", "log-loss"),
}


def regression_scores(
    y: NDArray[Any], mean: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
) -> dict[str, float]:
    """Scores of one target.

    Args:
        y: ``(n,)``, NaN where it was not measured.
        mean: The predictions.
        low: The lower ends of their intervals, NaN where there are none.
        high: The upper ends.

    Returns:
        ``rmse``, ``mae``, ``r2``, ``spearman`` and ``coverage``, the share of measurements within
        the intervals; NaN where a score is not defined.
    """
    there = ~np.isnan(y)
    y, mean, low, high = y[there], mean[there], low[there], high[there]
    if not len(y):
        return dict.fromkeys(METRICS["regression"], np.nan)
    varied = np.ptp(y) > 0
    covered = np.nan if np.isnan(low).any() else float(((low <= y) & (y <= high)).mean())
    return {
        "rmse": float(metrics.root_mean_squared_error(y, mean)),
        "mae": float(metrics.mean_absolute_error(y, mean)),
        "r2": float(metrics.r2_score(y, mean)) if varied else np.nan,
        "spearman": float(spearmanr(y, mean)[0]) if varied and np.ptp(mean) > 0 else np.nan,
        "coverage": covered,
    }


def classification_scores(y: NDArray[Any], probability: NDArray[Any]) -> dict[str, float]:
    """Scores of one target.

    Args:
        y: ``(n,)``, numbers of classes, NaN where one is missing.
        probability: ``(n, K)``.

    Returns:
        ``roc-auc``, ``pr-auc`` (average precision) and ``log-loss``; of more than two classes the
        first two are means over each class against the rest. NaN where a score is not defined.
    """
    there = ~np.isnan(y)
    classes, probability = y[there].astype(int), probability[there]
    number = probability.shape[1]
    if not len(classes):
        return dict.fromkeys(METRICS["classification"], np.nan)
    if number == 2:
        truth, scores = classes[:, None], probability[:, 1:]
    else:
        truth, scores = label_binarize(classes, classes=range(number)), probability
    defined = bool(((truth.min(0) == 0) & (truth.max(0) == 1)).all())
    loss = metrics.log_loss(classes, probability, labels=range(number))
    return {
        "roc-auc": float(metrics.roc_auc_score(truth, scores)) if defined else np.nan,
        "pr-auc": float(metrics.average_precision_score(truth, scores)) if defined else np.nan,
        "log-loss": float(loss),
    }
