r"""Ridge regression with the random-walk kernel, by random features and by the Gram matrix.

Both use the same kernel, centred (an intercept that is not penalised). Both choose the penalty on
the validation part, from the same fractions of the mean of the centred :math:`K(G, G)` over the
training molecules. As the number of random features grows, they become the same method.
"""

from typing import Any

import numpy as np
import torch
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.preprocessing import KernelCenterer

from benchmarks.harness.devices import timed
from benchmarks.kernels.libraries import PARTS, drawn, labeled, parts_of
from benchmarks.kernels.options import ITERATIONS, ORDER, SEED
from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import KernelGP, RandomWalkKernel, WLSubtreeKernel

Numbers = NDArray[np.float64]
FRACTIONS = tuple(10.0**k for k in range(-10, 1))
MOST_VALID = 1000  # validation molecules on which the penalty is chosen


class Parts:
    """The molecules of a split and their first target; at most 1,000 are for validation."""

    def __init__(self, molecules: Any, device: torch.device, size: int | None = None) -> None:
        places = parts_of(len(molecules))
        generator = torch.Generator().manual_seed(SEED)
        for part, most in (("train", size), ("valid", MOST_VALID)):
            order = torch.randperm(len(places[part]), generator=generator)
            places[part] = places[part][order[:most]]
        self.graphs = {part: molecules.batch(rows).to(device) for part, rows in places.items()}
        self.y = {part: molecules.targets[rows, 0].numpy() for part, rows in places.items()}


def walk_kernel() -> RandomWalkKernel:
    """The kernel of both methods: all atom and bond features, walks of exactly ``ORDER`` atoms."""
    return RandomWalkKernel(ORDER, decay=1.0, verbose=False)


def regress_with_features(parts: Parts, number: int) -> dict[str, Any]:
    """Random features of all training molecules, then :class:`~sklearn.linear_model.Ridge`."""

    def mapped() -> dict[str, Numbers]:
        features = RandomFeatures(walk_kernel(), number, random_state=SEED)
        features.fit(parts.graphs["train"])
        return {part: np.asarray(features.transform(parts.graphs[part]), float) for part in PARTS}

    x, seconds = timed(mapped)
    return _fitted(parts, x, x["train"].var(axis=0).sum(), seconds, Ridge(solver="cholesky"))


def regress_with_gram(parts: Parts) -> dict[str, Any]:
    """The Gram matrix, then :class:`~sklearn.kernel_ridge.KernelRidge`."""

    def grams() -> dict[str, Numbers]:
        kernel, center = walk_kernel().set_params(dtype=torch.float64), KernelCenterer()
        train = center.fit_transform(kernel.fit_transform(parts.graphs["train"]))
        others = {p: center.transform(kernel.transform(parts.graphs[p])) for p in PARTS[1:]}
        return {"train": train, **others}

    gram, seconds = timed(grams)
    mean = gram["train"].diagonal().mean()
    return _fitted(parts, gram, mean, seconds, KernelRidge(kernel="precomputed"))


def _fitted(
    parts: Parts, x: dict[str, Numbers], mean_kernel: float, seconds: float, ridge: Any
) -> dict[str, Any]:
    """The errors with the penalty that has the lowest validation error, and the seconds of the
    kernel and of one fit with its predictions.
    """
    penalties = np.array(FRACTIONS) * mean_kernel
    mean = parts.y["train"].mean()
    y, valid = parts.y["train"] - mean, parts.y["valid"] - mean

    def errors_of(alpha: Numbers) -> Numbers:
        """Errors of all penalties in one fit, so that products are made once."""
        each = clone(ridge).set_params(alpha=alpha)
        each.fit(x["train"], np.tile(y[:, None], len(alpha)))
        return np.square(each.predict(x["valid"]) - valid[:, None]).mean(axis=0)

    try:
        errors = errors_of(penalties)
    except LinAlgError:  # KernelRidge solves singular equations for a single penalty only
        errors = np.concatenate([errors_of(penalties[k : k + 1]) for k in range(len(penalties))])
    best = clone(ridge).set_params(alpha=float(penalties[errors.argmin()]))

    def predicted() -> dict[str, Numbers]:
        best.fit(x["train"], y)
        return {part: best.predict(x[part]) + mean for part in PARTS}

    values, seconds_fit = timed(predicted)
    return {
        "fitted_on": len(y),
        **{part: root_mean_squared_error(parts.y[part], values[part]) for part in PARTS},
        "penalty": best.alpha,
        "seconds_kernel": seconds,
        "seconds_fit": seconds_fit,
        "seconds": seconds + seconds_fit,
    }


def regress_with_process(molecules: Any, size: int) -> dict[str, Any]:
    """A Gaussian process with the min-max kernel on subtrees, on `size` training molecules."""
    places = parts_of(len(molecules))
    chosen = drawn(len(places["train"]), size, SEED)
    rows, number = torch.cat([places["train"][chosen], places["test"]]), len(chosen)
    graphs, y = labeled(molecules, rows), molecules.targets[rows, 0].numpy()
    kernel = WLSubtreeKernel(ITERATIONS, "atom", "bond", compare="minmax", verbose=False)
    process = KernelGP(kernel, random_state=SEED)
    (mean, deviation), seconds = timed(
        lambda: process.fit(graphs[:number], y[:number]).predict(graphs[number:], return_std=True)
    )
    error = np.abs(mean - y[number:]) / deviation
    return {
        "fitted_on": number,
        "test": root_mean_squared_error(y[number:], mean),
        "covered": [float((error < width).mean()) for width in (0.6745, 1.2816, 1.96)],
        "seconds": seconds,
    }
