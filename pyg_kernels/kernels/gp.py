"""Gaussian processes with sums of kernels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels.arguments import checked_choice, checked_collection, checked_count
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.reading import with_molecules_read
from pyg_kernels.kernels.string import TextKernel
from pyg_kernels.kernels.wl_subtree import WLSubtreeKernel

_ROWS = 2048  # of a Gram matrix that are made at a time
_DOUBLE_UP_TO = 5000  # items; larger matrices are of single precision
_LOG_WEIGHT, _LOG_NOISE = (-9.0, 3.0), (-7.0, 2.0)  # bounds
_MOST_JITTER = 1e-2  # over the mean of the diagonal
_CONSTANT = 1e-12  # targets that differ by less than this share of them are equal
_LEAST_SHARE = 1e-3  # of the weights' sum; terms with less are left out


@dataclass
class _Fit:
    """The process of one target.

    Attributes:
        items: The items where the target was measured.
        mean, scale: What targets are standardized by.
        weights: Of the terms; the variance of the noise.
        cholesky: The factor of the Gram matrix with noise.
        alpha: Its solution for the standardized targets.
    """

    items: Tensor
    mean: float
    scale: float
    weights: NDArray[Any]
    noise: float
    cholesky: Tensor
    alpha: Tensor


class KernelGP(RegressorMixin, BaseEstimator):
    r"""Exact Gaussian-process regression with a weighted sum of kernels.

    .. math::
        y_i = f(x_i) + \epsilon_i, \qquad \epsilon_i \sim N(0, s), \qquad
        f \sim GP\Big(0, \sum_t w_t K_t\Big)

    on standardized targets. The weights :math:`w_t` and the variance s of the noise maximize the
    marginal likelihood times a prior :math:`N(0, 1 / (2 p))` on each logarithm (Rasmussen and
    Williams, *Gaussian Processes for Machine Learning*, 2006, chapter 5). A kernel of counts gives
    one term for its patterns up to each block: for each number of iterations of
    :class:`WLSubtreeKernel`, so that their weights are learned too.

    Args:
        kernel: A kernel of this package, or several, whose sum is learned; None:
            ``WLSubtreeKernel(compare='minmax')``.
        split: Whether kernels of counts give a term for each of their blocks; otherwise one.
        tune: Whether to learn weights and noise; otherwise all weights are 1 over the number of
            terms.
        noise: The variance of the noise, of standardized targets, where `tune` is False.
        tune_items: Learn them on that many items at most, drawn at random: for each term a matrix
            of them is held in double precision.
        prior: p, the precision of the priors.
        max_items: Refuse more items than that: memory grows with their square, time with their
            cube. See the Nystroem features of scikit-learn for more.
        random_state: Which items are drawn.

    Attributes:
        kernels_: The fitted kernels.
        weights_: The weights of all terms, ``(T, targets)``.
        noise_: The variances of the noise, ``(targets,)``.
        log_marginal_likelihood_: That of the standardized targets, ``(targets,)``.
        jitter_: What was added to the diagonal beside the noise, ``(targets,)``; a warning says
            where it is not 0.

    Targets are ``(n,)`` or ``(n, targets)``; NaN was not measured. Up to 5,000 items are computed
    in float64, more in float32.

    Raises:
        ValueError: On an argument out of range, targets that do not fit the items, or a target
            that was measured less than twice.

    Example:
        >>> gp = KernelGP(WLSubtreeKernel(compare="minmax", edge_label="edge_attr"))
        >>> mean, std = gp.fit(graphs, y).predict(others, return_std=True)
    """

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel] | None = None,
        *,
        split: bool = True,
        tune: bool = True,
        noise: float = 0.1,
        tune_items: int = 2000,
        prior: float = 0.02,
        max_items: int = 25_000,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.split = split
        self.tune = tune
        self.noise = noise
        self.tune_items = tune_items
        self.prior = prior
        self.max_items = max_items
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.multi_output = True
        return tags

    @torch.no_grad()
    def fit(self, X: Any, y: Any) -> Self:
        """Learns weights and noise, and conditions the process on the targets."""
        self._check()
        if y is None:
            raise ValueError("KernelGP requires y to be passed, but the target y is None")
        given = WLSubtreeKernel(compare="minmax") if self.kernel is None else self.kernel
        kernels: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise TypeError(f"kernel={given!r}: expected a kernel of this package, or several")
        X = _items(X, kernels)
        targets = np.asarray(y, dtype=float)
        if not len(X):
            raise ValueError("expected at least one item, got none")
        if targets.ndim not in (1, 2) or len(targets) != len(X) or not targets.size:
            raise ValueError(f"y has shape {targets.shape}: expected ({len(X)},) or ({len(X)}, T)")
        if np.isinf(targets).any():
            raise ValueError("y has infinite numbers")
        if len(X) > self.max_items:
            raise ValueError(
                f"{len(X)} items are more than max_items={self.max_items}: their Gram matrix takes "
                f"{4e-9 * len(X) ** 2:.1f} GB; fit a part of them, or raise it"
            )
        self._is_flat = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        self._dtype = torch.float64 if len(X) <= _DOUBLE_UP_TO else torch.float32
        self.kernels_ = [clone(kernel) for kernel in kernels]
        for kernel in self.kernels_:
            if "dtype" in kernel.get_params() and kernel.dtype is None:
                kernel.set_params(dtype=self._dtype)
            kernel.fit(X)
        self._scales = self._mean_diagonals()
        random = check_random_state(self.random_state)
        self._fits, likelihoods, jitters = [], [], []
        for number, column in enumerate(targets.T):
            fit, likelihood, jitter = self._fit_target(number, column, random)
            self._fits.append(fit)
            likelihoods.append(likelihood)
            jitters.append(jitter)
        self.weights_ = np.stack([fit.weights for fit in self._fits], 1)
        self.noise_ = np.array([fit.noise for fit in self._fits])
        self.log_marginal_likelihood_ = np.array(likelihoods)
        self.jitter_ = np.array(jitters)
        return self

    @torch.no_grad()
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of a new measurement of each item, and its standard deviation.

        Args:
            X: m items.
            return_std: Whether to return the standard deviation, noise included.

        Returns:
            ``(m,)``, or ``(m, targets)``; or two of them.
        """
        check_is_fitted(self, "weights_")
        X = _items(X, self.kernels_)
        collections = [kernel._read(X, kernel.collection_) for kernel in self.kernels_]
        means, stds = [], []
        for fit in self._fits:
            mean, std = self._predict_target(fit, collections, len(X), return_std)
            means.append(mean)
            stds.append(std)
        mean, std = np.stack(means, 1), np.stack(stds, 1)
        if self._is_flat:
            mean, std = mean[:, 0], std[:, 0]
        return (mean, std) if return_std else mean

    def _check(self) -> None:
        checked_choice(self.split, "split", (False, True))
        checked_choice(self.tune, "tune", (False, True))
        checked_count(self.tune_items, "tune_items", least=2)
        checked_count(self.max_items, "max_items", least=2)
        for name in ("noise", "prior"):
            value = getattr(self, name)
            known = isinstance(value, Real) and not isinstance(value, bool)
            if not known or not 0 < float(value) < np.inf:
                raise ValueError(f"{name}={value!r}: expected a finite number above 0")

    def _levels(self, kernel: Kernel, collection: Any) -> list[Any]:
        return kernel._levels(collection) if self.split else [collection]

    def _mean_diagonals(self) -> list[float]:
        """The mean of each term's diagonal, by which terms are divided."""
        found = []
        for kernel in self.kernels_:
            for level in self._levels(kernel, kernel.collection_):
                mean = float(kernel._diagonal(level).double().mean())
                found.append(mean if mean > 0 else 1.0)
        return found

    def _grams(self, items: Tensor) -> Tensor:
        """The Gram matrices of all terms, of fitted items, (T, n, n), in double precision."""
        found = torch.empty(len(self._scales), len(items), len(items), dtype=torch.float64)
        levels = (
            (kernel, level)
            for kernel in self.kernels_
            for level in self._levels(kernel, kernel.collection_)
        )
        for (kernel, level), gram, scale in zip(levels, found, self._scales, strict=True):
            gram.copy_(kernel._gram(level.part(items))).div_(scale)
        return found

    def _sum(self, first: Sequence[Any], second: Sequence[Any], weights: NDArray[Any]) -> Tensor:
        """The weighted sum of the terms between collections as the kernels read them."""
        total: Tensor | None = None
        factors = iter(weights / self._scales)
        for kernel, a, b in zip(self.kernels_, first, second, strict=True):
            for one, other in zip(self._levels(kernel, a), self._levels(kernel, b), strict=True):
                factor = float(next(factors))
                if not factor:
                    continue
                gram = kernel._gram(one, other).to("cpu", self._dtype)
                total = gram.mul_(factor) if total is None else total.add_(gram, alpha=factor)
        assert total is not None
        return total

    def _fit_target(
        self, number: int, column: NDArray[Any], random: Any
    ) -> tuple[_Fit, float, float]:
        items = np.flatnonzero(~np.isnan(column))
        if len(items) < 2:
            raise ValueError(
                f"target {number} was measured on {len(items)} samples: expected at least 2"
            )
        measured = column[items]
        mean, scale = float(measured.mean()), float(measured.std())
        if not np.isfinite(scale):
            raise ValueError("y has numbers whose squares are not finite: rescale them")
        if np.ptp(measured) <= _CONSTANT * np.abs(measured).max():
            scale = 1.0
        y = torch.from_numpy((measured - mean) / scale).to(self._dtype)
        terms = len(self._scales)
        weights, noise = np.full(terms, 1 / terms), float(self.noise)
        if self.tune:
            some = random.permutation(len(items))[: self.tune_items]
            grams = self._grams(torch.from_numpy(items[some]))
            weights, noise = learned_weights(grams, y[some].double(), self.prior)
            del grams
        rows = torch.from_numpy(items)
        gram = torch.empty(len(rows), len(rows), dtype=self._dtype)
        everything = [kernel.collection_.part(rows) for kernel in self.kernels_]
        for start in range(0, len(rows), _ROWS):
            some_rows = torch.arange(start, min(start + _ROWS, len(rows)))
            block = [collection.part(some_rows) for collection in everything]
            gram[start : start + _ROWS] = self._sum(block, everything, weights)
        gram.diagonal().add_(noise)
        cholesky, jitter = _factor(gram)
        if jitter:
            warnings.warn(f"{jitter:g} was added to the Gram matrix's diagonal", stacklevel=3)
        alpha = torch.cholesky_solve(y.unsqueeze(1), cholesky)
        likelihood = -0.5 * float(y @ alpha[:, 0]) - float(cholesky.diagonal().log().sum())
        likelihood -= 0.5 * len(y) * float(np.log(2 * np.pi))
        return _Fit(rows, mean, scale, weights, noise, cholesky, alpha), likelihood, jitter

    def _predict_target(
        self, fit: _Fit, collections: Sequence[Any], number: int, with_std: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        known = [kernel.collection_.part(fit.items) for kernel in self.kernels_]
        means, stds = torch.zeros(2, number, dtype=self._dtype)
        for start in range(0, number, _ROWS):
            rows = torch.arange(start, min(start + _ROWS, number))
            block = [collection.part(rows) for collection in collections]
            cross = self._sum(block, known, fit.weights)
            means[rows] = (cross @ fit.alpha)[:, 0]
            if with_std:
                explained = torch.linalg.solve_triangular(fit.cholesky, cross.t(), upper=False)
                variance = self._diagonals(block, fit.weights) - explained.square().sum(0)
                stds[rows] = (variance.clamp_min(0) + fit.noise).sqrt()
        return means.numpy() * fit.scale + fit.mean, stds.numpy() * fit.scale

    def _diagonals(self, collections: Sequence[Any], weights: NDArray[Any]) -> Tensor:
        factors, total = iter(weights / self._scales), torch.zeros((), dtype=self._dtype)
        for kernel, collection in zip(self.kernels_, collections, strict=True):
            for level in self._levels(kernel, collection):
                diagonal = kernel._diagonal(level).to("cpu", self._dtype)
                total = total + diagonal * float(next(factors))
        return total


def _items(X: Any, kernels: Sequence[Kernel]) -> Any:
    """A collection; a graph is a collection of one, and molecules are read once for all kernels."""
    is_one = isinstance(X, Data) and not isinstance(X, Batch)
    items = checked_collection([X] if is_one else X, "graphs or texts")
    if any(isinstance(kernel, TextKernel) for kernel in kernels):
        return items
    return with_molecules_read(items)


def learned_weights(grams: Tensor, y: Tensor, prior: float) -> tuple[NDArray[Any], float]:
    r"""The weights of kernels and the noise that maximize the marginal likelihood with a prior.

    Args:
        grams: The Gram matrices, ``(T, n, n)``, float64.
        y: The targets, ``(n,)``.
        prior: The precision p of :math:`-p a^2` on each logarithm a.

    Returns:
        The weights ``(T,)`` and the variance of the noise.
    """
    terms = len(grams)

    def loss(logs: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        weights, noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        total = torch.tensordot(torch.from_numpy(weights), grams, 1)
        total.diagonal().add_(noise)
        cholesky, _ = _factor(total)
        alpha = torch.cholesky_solve(y.unsqueeze(1), cholesky)[:, 0]
        value = 0.5 * float(y @ alpha) + float(cholesky.diagonal().log().sum())
        slope = torch.cholesky_inverse(cholesky) - torch.outer(alpha, alpha)
        of_terms = 0.5 * (grams.flatten(1) @ slope.flatten()).numpy() * weights
        of_noise = 0.5 * float(slope.diagonal().sum()) * noise
        gradient = np.append(of_terms, of_noise) + 2 * prior * logs
        return value + prior * float(logs @ logs), gradient

    start = np.append(np.full(terms, np.log(1 / terms)), np.log(0.1))
    bounds = [_LOG_WEIGHT] * terms + [_LOG_NOISE]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-6}
    ).x
    weights = np.exp(found[:-1])
    weights[weights < _LEAST_SHARE * weights.sum()] = 0
    return weights, float(np.exp(found[-1]))


def _factor(gram: Tensor) -> tuple[Tensor, float]:
    """The Cholesky factor, and what had to be added to the matrix's diagonal for it."""
    jitter, matrix, scale = 0.0, gram, float(gram.diagonal().double().mean())
    while True:
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not failed:
            return factor.to(gram.dtype), jitter
        if not bool(matrix.isfinite().all()):
            raise ValueError("a kernel's value is not finite")
        if matrix.dtype == torch.float32:
            matrix = matrix.double()
            continue
        more = max(1e-6 * scale, 10 * jitter)
        if more > _MOST_JITTER * scale:
            raise ValueError(
                f"the Gram matrix is not positive definite, even with {jitter:g} on its diagonal"
            )
        matrix.diagonal().add_(more - jitter)
        jitter = more
