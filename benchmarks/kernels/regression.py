r"""Ridge regression with the random-walk kernel, by random features and by the Gram matrix.

Both have the same kernel, are centred (an intercept that is not penalised) and choose their penalty
on the validation part from the same fractions of the mean of :math:`K(G, G)`, centred, over the
training molecules: as the number of random features grows, they become the same method.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import KernelCenterer

from benchmarks.kernels.labels import labeled
from benchmarks.kernels.libraries import PARTS, as_list, parts_of
from benchmarks.kernels.options import ITERATIONS, ORDER, SEED
from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import KernelGP, RandomWalkKernel, WLSubtreeKernel

Numbers = NDArray[np.float64]
FRACTIONS = tuple(10.0**k for k in range(-10, 1))
MOST_VALID = 1000  # molecules of the validation part that choose the penalty


class Parts:
    """The molecules of a split and their first target; of the validation part at most 1,000."""

    def __init__(self, molecules: Any, device: torch.device, size: int | None = None) -> None:
        places = parts_of(len(molecules))
        generator = torch.Generator().manual_seed(SEED)
        for part, most in (("train", size), ("valid", MOST_VALID)):
            order = torch.randperm(len(places[part]), generator=generator)
            places[part] = places[part][order[:most]]
        self.graphs = {part: molecules.batch(rows).to(device) for part, rows in places.items()}
        self.y = {part: molecules.targets[rows, 0].numpy() for part, rows in places.items()}


def walk_kernel() -> RandomWalkKernel:
    """The kernel of both: all atom and bond features, walks of exactly `order` atoms."""
    return RandomWalkKernel(ORDER, decay=1.0, verbose=False)


def regress_with_features(parts: Parts, number: int) -> dict[str, Any]:
    """Random features of all training molecules, then :class:`~sklearn.linear_model.Ridge`."""
    with Clock() as kernel_clock:
        features = RandomFeatures(walk_kernel(), number, random_state=SEED)
        features.fit(parts.graphs["train"])
        x = {part: np.asarray(features.transform(parts.graphs[part]), float) for part in PARTS}

    def predicted(penalty: float) -> dict[str, Numbers]:
        ridge = Ridge(penalty, solver="cholesky").fit(x["train"], parts.y["train"])
        return {part: ridge.predict(x[part]) for part in PARTS}

    return _fitted(parts, kernel_clock, lambda: _feature_penalty(x, parts.y), predicted)


def regress_with_gram(parts: Parts) -> dict[str, Any]:
    """The Gram matrix, then :class:`~sklearn.kernel_ridge.KernelRidge`."""
    with Clock() as kernel_clock:
        kernel = walk_kernel().set_params(dtype=torch.float64)
        center = KernelCenterer()
        gram = {"train": center.fit_transform(kernel.fit_transform(parts.graphs["train"]))}
        for part in PARTS[1:]:
            gram[part] = center.transform(kernel.transform(parts.graphs[part]))
    mean = parts.y["train"].mean()
    y = parts.y["train"] - mean

    def predicted(penalty: float) -> dict[str, Numbers]:
        ridge = KernelRidge(alpha=penalty, kernel="precomputed").fit(gram["train"], y)
        return {part: ridge.predict(gram[part]) + mean for part in PARTS}

    def best() -> float:
        penalties = [fraction * np.trace(gram["train"]) / len(y) for fraction in FRACTIONS]
        return min(penalties, key=lambda one: _rmse(predicted(one)["valid"], parts.y["valid"]))

    return _fitted(parts, kernel_clock, best, predicted)


def _fitted(
    parts: Parts,
    kernel_clock: "Clock",
    best: Callable[[], float],
    predicted: Callable[[float], dict[str, Numbers]],
) -> dict[str, Any]:
    """RMSE of each part by the best penalty; seconds of the kernel, of one fit with its predictions
    and of the choice of the penalty.
    """
    with Clock() as search_clock:
        penalty = float(best())
    with Clock() as fit_clock:
        values = predicted(penalty)
    return {
        "fitted_on": len(parts.y["train"]),
        **{part: _rmse(values[part], parts.y[part]) for part in PARTS},
        "penalty": penalty,
        "seconds_kernel": kernel_clock.seconds,
        "seconds_fit": fit_clock.seconds,
        "seconds_search": search_clock.seconds,
    }


def regress_with_process(molecules: Any, size: int) -> dict[str, Any]:
    """A Gaussian process with the min-max kernel on subtrees, on as many training molecules."""
    places = parts_of(len(molecules))
    generator = torch.Generator().manual_seed(SEED)
    chosen = torch.randperm(len(places["train"]), generator=generator)[:size]
    rows = {"train": places["train"][chosen], "test": places["test"]}
    graphs = {part: as_list(labeled(molecules, found)) for part, found in rows.items()}
    y = {part: molecules.targets[found, 0].numpy() for part, found in rows.items()}
    kernel = WLSubtreeKernel(ITERATIONS, "atom", "bond", compare="minmax", verbose=False)
    with Clock() as clock:
        process = KernelGP(kernel, random_state=SEED).fit(graphs["train"], y["train"])
        mean, deviation = process.predict(graphs["test"], return_std=True)
    error = np.abs(mean - y["test"]) / deviation
    return {
        "fitted_on": len(y["train"]),
        "test": _rmse(mean, y["test"]),
        "covered": [float((error < width).mean()) for width in (0.6745, 1.2816, 1.96)],
        "seconds": clock.seconds,
    }


def _feature_penalty(x: dict[str, Numbers], y: dict[str, Numbers]) -> float:
    """The penalty with the lowest validation error, from the normal equations, made once."""
    mean, mean_y = x["train"].mean(axis=0), y["train"].mean()
    centered = x["train"] - mean
    product, right = centered.T @ centered, centered.T @ (y["train"] - mean_y)
    errors = {}
    for penalty in (fraction * np.trace(product) / len(centered) for fraction in FRACTIONS):
        with suppress(LinAlgError):
            weights = cho_solve(cho_factor(product + penalty * np.eye(len(product))), right)
            errors[penalty] = _rmse((x["valid"] - mean) @ weights + mean_y, y["valid"])
    return min(errors, key=lambda penalty: errors[penalty])


def _rmse(prediction: Numbers, y: Numbers) -> float:
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def timed(call: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """What a call gives, and its seconds."""
    with Clock() as clock:
        result = call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return result, clock.seconds


class Clock:
    """Seconds of a block."""

    def __enter__(self) -> "Clock":
        self.started = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self.started
