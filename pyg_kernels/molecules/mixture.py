"""Mixtures of members, and the weights of models in a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from pyg_kernels.molecules.methods import Outputs, Task, likelihoods, standardization

_ROUNDS = 200  # of expectation-maximization
_FIRM = 1e4  # how much the sum of the weights counts, over the errors


def mixture_of(parts: Sequence[Outputs], weights: NDArray[np.float64]) -> Outputs:
    r"""The mean and variance of a mixture.

    .. math::
        \mu = \sum_m w_m \mu_m, \qquad
        \sigma^2 = \sum_m w_m \big(\sigma_m^2 + (\mu_m - \mu)^2\big)
    """
    means, variances = (
        np.stack([getattr(part, name) for part in parts]) for name in ("mean", "variance")
    )
    mean = np.tensordot(weights, means, 1)
    with np.errstate(invalid="ignore"):  # what is not finite is reported by its molecule
        return Outputs(mean, np.tensordot(weights, variances + (means - mean) ** 2, 1))


def stacked_weights(
    held: Sequence[tuple[NDArray[np.float64], Sequence[Outputs]]], task: Task
) -> NDArray[np.float64]:
    """Weights of models, at least 0 with the sum 1, that fit validation parts.

    By least squares of standardized errors in regression; by the likelihood of the mixture of
    probabilities in classification.

    Args:
        held: For each validation part its targets ``(V, T)`` and the predictions of each model.
        task: What is learned.
    """
    number = len(held[0][1])
    if number == 1:
        return np.ones(1)
    y = np.concatenate([targets for targets, _ in held])
    means = [np.concatenate([parts[i].mean for _, parts in held]) for i in range(number)]
    there = ~np.isnan(y)
    if not there.any():
        return np.full(number, 1 / number)
    if task.kind != "regression":
        return _mixed(np.stack([likelihoods(y, mean, task) for mean in means], 1))
    measured = there.any(0)
    y, there, means = y[:, measured], there[:, measured], [mean[:, measured] for mean in means]
    center, scale = standardization(y, task, np.ones(len(y)))
    columns = np.stack([((mean - center) / scale)[there] for mean in means], 1)
    rows = np.append(columns, np.full((1, number), _FIRM), 0)
    found: Any = nnls(rows, np.append(((y - center) / scale)[there], _FIRM))[0]
    return np.asarray(found / found.sum())


def _mixed(of_each: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expectation-maximization of the weights of a mixture."""
    weights = np.full(of_each.shape[1], 1 / of_each.shape[1])
    of_each = np.maximum(of_each, 1e-12)
    for _ in range(_ROUNDS):
        shares = weights * of_each
        weights = (shares / shares.sum(1, keepdims=True)).mean(0)
    return weights
