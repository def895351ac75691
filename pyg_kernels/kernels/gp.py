"""Gaussian processes with sums of kernels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats.qmc import MultivariateNormalQMC
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.checks import check_flags, checked_count, is_number
from pyg_kernels.kernels.arguments import (
    checked_collection,
    label_array,
    label_columns,
    number_array,
)
from pyg_kernels.kernels.kernel import Forgetful, Kernel, full_precision
from pyg_kernels.kernels.random_walk import RandomWalkKernel
from pyg_kernels.kernels.reading import graph_collection, with_molecules_read
from pyg_kernels.kernels.string import TextKernel
from pyg_kernels.kernels.wl import WLKernel, WLSubtreeKernel

_ROWS = 2048  # of a Gram matrix that are computed at a time
DOUBLE_UP_TO = 5000  # items; larger matrices have single precision
_LOG_WEIGHT, _LOG_NOISE = (-9.0, 3.0), (-7.0, 2.0)  # bounds
_MOST_JITTER = 1e-2  # relative to the mean of the diagonal
_CONSTANT = 1e-12  # targets whose range is at most this share of the largest one are constant
_LEAST_SHARE = 1e-3  # of the weights' sum; terms with less are left out
_ALPHA = 0.01  # the Dirichlet parameter of the classes that an item does not have
_DRAWS = 256  # samples of a posterior, for probabilities


@dataclass
class _Fit:
    """The process of one target."""

    items: Tensor  # the indices of the items on which it was measured
    mean: float
    scale: float  # the deviation by which it is standardized
    y: Tensor  # standardized
    variances: Tensor  # of known noise, for the standardized target
    scales: NDArray[Any]  # the mean of each term's diagonal over the items
    weights: NDArray[Any]  # of the terms divided by their scales
    noise: float
    cholesky: Tensor = field(init=False)  # of the Gram matrix with noise
    alpha: Tensor = field(init=False)  # the solution for the standardized target
    likelihood: float = field(init=False)
    jitter: float = field(init=False)

    @property
    def factors(self) -> NDArray[Any]:
        """The factors of the terms in the sum."""
        return self.weights / self.scales


@dataclass(eq=False, repr=False)
class _Process(Forgetful):
    """What regression and classification share: processes of one or several targets."""

    kernel: Kernel | Sequence[Kernel] | None = None
    _: KW_ONLY
    split: bool = True
    tune: bool = True
    weights: Any = None
    noise: Any = 0.1
    tune_items: int = 1000
    prior: float = 0.02
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.multi_output = True
        return tags

    def _read(
        self, X: Any, y: Any, read: Callable[[Any], NDArray[Any]]
    ) -> tuple[Any, NDArray[Any]]:
        """Checks arguments and kernels, and returns the items and their targets, ``(n, T)``."""
        check_flags(split=self.split, tune=self.tune)
        checked_count(self.tune_items, "tune_items", least=2)
        for name, several in (("noise", True), ("prior", False)):
            value = getattr(self, name)
            known = is_number(value) or (several and isinstance(value, np.ndarray))
            if not known or not np.all((np.asarray(value) > 0) & (np.asarray(value) < np.inf)):
                raise ValueError(f"{name}={value!r}: expected a finite number above 0")
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        given = WLSubtreeKernel(compare="minmax") if self.kernel is None else self.kernel
        kernels: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise TypeError(f"kernel={given!r}: expected a kernel of this package, or several")
        self.__dict__.pop("weights_", None)  # a fit that fails leaves no weights
        X = _items(X, kernels)
        if not len(X):
            raise ValueError("expected at least one item, got none")
        targets = read(y)
        if targets.ndim not in (1, 2) or len(targets) != len(X) or not targets.size:
            raise ValueError(f"y has shape {targets.shape}: expected ({len(X)},) or ({len(X)}, T)")
        self._is_flat = targets.ndim == 1
        self.kernels_ = [clone(kernel) for kernel in kernels]
        return X, targets.reshape(len(targets), -1)

    def _condition(self, X: Any, targets: NDArray[Any], variances: NDArray[Any]) -> Self:
        """Conditions a process on each column of the targets; `variances` are of known noise."""
        there = ~np.isnan(targets)
        measured = there.sum(0)
        if measured.min() < 2:
            number = int(measured.argmin())
            raise ValueError(
                f"target {number} was measured on {measured[number]} samples: expected at least 2"
            )
        most = int(measured.max())
        self._dtype = torch.float64 if most <= DOUBLE_UP_TO else torch.float32
        needed = self._dtype.itemsize * (most**2 + np.square(measured.astype(float)).sum())
        if needed > (machine := _machine_memory()):
            raise MemoryError(
                f"the Gram matrix of {most} items and its factors take {needed / 1e9:.1f} GB, "
                f"the machine has {machine / 1e9:.1f}: fit a part of them, or Nyström features"
            )
        everything = X
        if not (some := there.any(1)).all():
            X = [X[i] for i in np.flatnonzero(some).tolist()]
            targets, variances, there = targets[some], variances[some], there[some]
        for kernel in self.kernels_:
            if isinstance(kernel, WLKernel) and kernel.base is None:
                kernel.set_params(base=RandomWalkKernel())
            for name, value in kernel.get_params().items():
                if name.rpartition("__")[2] == "dtype" and value is None:
                    kernel.set_params(**{name: self._dtype})
            try:
                kernel.fit(X)
            except (TypeError, ValueError):
                if not some.all():  # so that the error names an item by its index among all
                    clone(kernel).fit(everything)
                raise
        collections = [kernel.collection_ for kernel in self.kernels_]
        diagonals = torch.stack([own.double() for own in self._diagonals(collections)])
        weights, noises = self._given(len(diagonals), targets.shape[1])
        random = check_random_state(self.random_state)
        groups: list[list[_Fit]] = []  # of consecutive targets, measured on the same items
        drawn, grams = None, None
        for number, column in enumerate(targets.T):
            items = np.flatnonzero(there[:, number])
            scales = diagonals[:, items].mean(1).numpy()
            fit = _Fit(
                torch.from_numpy(items),
                *_standardized(column[items], variances[items, number]),
                scales=np.where(scales == 0, 1.0, scales),
                weights=weights[:, number],
                noise=float(noises[number]),
            )
            if not groups or not np.array_equal(items, groups[-1][0].items.numpy()):
                groups.append([])
                if self.tune:
                    drawn = random.permutation(len(items))[: self.tune_items]
                    grams = self._grams(torch.from_numpy(items[drawn]), fit.scales)
            if grams is not None:
                y, known = fit.y[drawn], fit.variances[drawn]
                fit.weights, fit.noise = learned_weights(grams, y, self.prior, known)
            groups[-1].append(fit)
        del grams  # the Gram matrices of all items need the memory
        for group in groups:
            self._solve(group)
        self._groups, self._fits = groups, [fit for group in groups for fit in group]
        self.scales_ = np.stack([fit.scales for fit in self._fits], 1)
        self.weights_ = np.stack([fit.weights for fit in self._fits], 1)
        numbers = [(fit.noise, fit.likelihood, fit.jitter) for fit in self._fits]
        self.noise_, self.log_marginal_likelihood_, self.jitter_ = np.array(numbers).T
        return self

    def _given(self, terms: int, targets: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The weights and noises that are not learned, ``(T, targets)`` and ``(targets,)``."""
        weights = 1 / terms if self.weights is None else np.asarray(self.weights, float)
        known = np.ndim(weights) == 0 or np.shape(weights) in ((terms,), (terms, targets))
        if not known or not np.all(np.isfinite(weights) & np.greater_equal(weights, 0)):
            raise ValueError(
                f"weights={self.weights!r}: expected ({terms},) or ({terms}, {targets}) finite "
                "numbers of at least 0"
            )
        noises = np.asarray(self.noise, float)
        if noises.shape not in ((), (targets,)):
            raise ValueError(f"noise has shape {noises.shape}: expected a number or ({targets},)")
        columns = np.reshape(weights, (-1, 1)) if np.ndim(weights) < 2 else weights
        return np.broadcast_to(columns, (terms, targets)), np.broadcast_to(noises, (targets,))

    def _posterior(self, X: Any, with_variance: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """The means and the variances of the functions, without noise, ``(m, targets)`` each."""
        check_is_fitted(self, "weights_")
        X = _items(X, self.kernels_)
        collections = [kernel._read(X, kernel.collection_) for kernel in self.kernels_]
        found = [self._of_group(g, collections, len(X), with_variance) for g in self._groups]
        means, variances = np.concatenate(found, 2)
        return means, variances

    def _levels(self, kernel: Kernel, collection: Any) -> list[Any]:
        return kernel._levels(collection) if self.split else [collection]

    def _terms(self, kernel: Kernel, a: Any, b: Any = None) -> Iterator[Tensor]:
        """The Gram matrix of each of a kernel's terms."""
        return kernel._level_grams(a, b) if self.split else iter([kernel._gram(a, b)])

    def _diagonals(self, collections: Sequence[Any]) -> list[Tensor]:
        """The diagonal of each term's Gram matrix."""
        pairs = zip(self.kernels_, collections, strict=True)
        return [k._diagonal(level).to("cpu") for k, c in pairs for level in self._levels(k, c)]

    def _grams(self, items: Tensor, scales: NDArray[Any]) -> Tensor:
        """The Gram matrices of all terms on fitted items, (T, n, n), in double precision."""
        found = torch.empty(len(scales), len(items), len(items), dtype=torch.float64)
        pairs = zip(self.kernels_, self._fitted(items), strict=True)
        terms = (term for kernel, part in pairs for term in self._terms(kernel, part))
        for term, gram, scale in zip(terms, found, scales.tolist(), strict=True):
            gram.copy_(term).div_(scale)
        return found

    def _sums(
        self, first: Sequence[Any], second: Sequence[Any], factors: NDArray[Any]
    ) -> list[Tensor]:
        """Weighted sums of the terms between collections, one for each column of factors."""
        shape = len(first[0]), len(second[0])
        totals = [torch.zeros(shape, dtype=self._dtype) for _ in factors.T]
        rows = iter(factors)
        for kernel, a, b in zip(self.kernels_, first, second, strict=True):
            own = np.array([next(rows) for _ in self._levels(kernel, a)])
            needed = own[: np.flatnonzero(own.any(1)).max(initial=-1) + 1]
            terms = self._terms(kernel, a, b) if len(needed) else ()
            for row, gram in zip(needed, terms, strict=False):
                gram = gram.to("cpu", self._dtype)
                for total, factor in zip(totals, row, strict=True):
                    if factor:
                        total.add_(gram, alpha=float(factor))
        return totals

    def _gram(self, rows: Tensor, factors: NDArray[Any]) -> list[Tensor]:
        """The lower halves of weighted sums of the terms' Gram matrices on fitted items."""
        grams = [torch.zeros(len(rows), len(rows), dtype=self._dtype) for _ in factors.T]
        for start in range(0, len(rows), _ROWS):
            stop = min(start + _ROWS, len(rows))
            sums = self._sums(self._fitted(rows[start:stop]), self._fitted(rows[:stop]), factors)
            for gram, block in zip(grams, sums, strict=True):
                gram[start:stop, :stop] = block
        return grams

    def _fitted(self, rows: Tensor) -> list[Any]:
        return [kernel.collection_.part(rows) for kernel in self.kernels_]

    def _solve(self, group: list[_Fit]) -> None:
        """Factors the Gram matrices of targets measured on the same items, and solves for alpha."""
        grams = self._gram(group[0].items, np.stack([fit.factors for fit in group], 1))
        for fit in group:
            y, gram = fit.y.to(self._dtype), grams.pop(0)
            gram.diagonal().add_((fit.variances + fit.noise).to(self._dtype))
            fit.cholesky, fit.jitter = _factor(gram)
            del gram  # frees memory: the next step may copy the factor
            fit.alpha = torch.cholesky_solve(y.unsqueeze(1), fit.cholesky)
            if fit.jitter:
                message = f"{fit.jitter:g} was added to the Gram matrix's diagonal"
                warnings.warn(message, stacklevel=4)
            fit.likelihood = -0.5 * float(y @ fit.alpha[:, 0])
            fit.likelihood -= float(fit.cholesky.diagonal().log().sum())
            fit.likelihood -= 0.5 * len(y) * float(np.log(2 * np.pi))

    def _of_group(
        self, group: list[_Fit], collections: Sequence[Any], number: int, with_variance: bool
    ) -> NDArray[Any]:
        """Means and variances of targets measured on the same items, ``(2, number, targets)``."""
        known, factors = self._fitted(group[0].items), np.stack([fit.factors for fit in group], 1)
        found = torch.zeros(2, number, len(group), dtype=self._dtype)
        means, variances = found
        step = max(1, _ROWS // len(group))
        for start in range(0, number, step):
            rows = torch.arange(start, min(start + step, number))
            block = [collection.part(rows) for collection in collections]
            if with_variance:
                diagonals = torch.stack([own.to(self._dtype) for own in self._diagonals(block)], 1)
                variances[rows] = diagonals @ torch.from_numpy(factors).to(self._dtype)
            for place, cross in enumerate(self._sums(block, known, factors)):
                fit = group[place]
                means[rows, place] = (cross @ fit.alpha)[:, 0]
                if with_variance:
                    half = torch.linalg.solve_triangular(fit.cholesky, cross.t(), upper=False)
                    variances[rows, place] -= half.square().sum(0)
        variances.clamp_min_(0)
        scale, mean = np.array([[fit.scale, fit.mean] for fit in group]).T
        means, variances = found.double().numpy()
        return np.stack((means * scale + mean, variances * scale**2))


class KernelGP(RegressorMixin, _Process):
    r"""Exact Gaussian-process regression with a weighted sum of kernels.

    .. math::
        y_i = f(x_i) + \epsilon_i, \qquad \epsilon_i \sim N(0, s), \qquad
        f \sim GP\Big(0, \sum_t w_t K_t / k_t\Big)

    The targets y are standardized. :math:`k_t` is the mean of :math:`K_t(x_i, x_i)` over the
    measured items, or 1 where that is 0. The weights :math:`w_t` and the variance s of the noise
    maximize the marginal likelihood times a prior :math:`N(0, 1 / (2 p))` on each logarithm
    (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, chapter 5). A kernel
    of counts gives one term for its patterns up to each block, such as one for each number of
    iterations of :class:`WLSubtreeKernel`. The weights of these terms are learned, too. An item
    without any target is ignored.

    Args:
        kernel: A kernel of this package, or a list of kernels, whose weighted sum is learned; None:
            ``WLSubtreeKernel(compare='minmax')``.
        split: Whether a kernel of counts gives one term for each of its blocks, and
            :class:`VectorKernel` one for each summand; otherwise every kernel gives one term.
        tune: Whether to learn weights and noise.
        weights: Where `tune` is False, the weights of all terms, ``(T,)`` or ``(T, targets)``, such
            as ``weights_`` of another process; None: 1 over the number of terms.
        noise: Where `tune` is False, the variance of the noise on standardized targets: a number,
            or an array ``(targets,)``, such as ``noise_``.
        tune_items: The most items on which weights and noise are learned. They are drawn at random;
            for each term, their Gram matrix is held in double precision.
        prior: p, which gives the priors the variance 1 / (2 p).
        random_state: The seed or generator that draws these items.

    Attributes:
        kernels_: The fitted kernels.
        weights_: The weights of all terms, ``(T, targets)``.
        scales_: :math:`k_t`, by which terms are divided, ``(T, targets)``.
        noise_: The variances of the noise, ``(targets,)``.
        log_marginal_likelihood_: The log likelihood of the standardized targets, ``(targets,)``.
        jitter_: Added to the diagonal besides the noise, ``(targets,)``; a warning says if not 0.

    Targets are ``(n,)`` or ``(n, targets)``; NaN means that a target was not measured. Up to 5,000
    items are computed in float64, more in float32.

    Raises:
        ValueError: On an argument out of range, targets that do not fit the items, or a target
            that was measured less than twice.
        MemoryError: If the Gram matrix and one factor per target do not fit into memory. Memory
            grows with the square of the number of items, time with its cube.

    Example:
        >>> from pyg_kernels.kernels import KernelGP, WLSubtreeKernel
        >>> smiles, y = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1"], [0.0, 0.3, 0.8, 2.1, 2.7]
        >>> gp = KernelGP(WLSubtreeKernel(compare="minmax", edge_label="edge_attr")).fit(smiles, y)
        >>> mean, std = gp.predict(["CCCCCO", "CCc1ccccc1"], return_std=True)
        >>> bool(mean[0] < mean[1]), std.shape
        (True, (2,))

    See Also:
        :class:`KernelGPClassifier`; :func:`molecule_kernels`, kernels for molecules;
        :func:`explain`; :class:`~pyg_kernels.molecules.MoleculeRegressor`.
    """

    @torch.no_grad()
    @full_precision()
    def fit(self, X: Any, y: Any) -> Self:
        """Learns weights and noise, and conditions the process on the targets."""
        X, targets = self._read(X, y, number_array)
        if np.isinf(targets).any():
            raise ValueError("y has infinite numbers")
        return self._condition(X, targets, np.zeros_like(targets))

    @torch.no_grad()
    @full_precision()
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of a new measurement of each item, and its standard deviation.

        Args:
            X: m items.
            return_std: Whether to return the standard deviation, noise included.

        Returns:
            The means, ``(m,)`` or ``(m, targets)``; with `return_std` also the deviations.
        """
        mean, variance = self._posterior(X, return_std)
        std = np.sqrt(variance + [fit.noise * fit.scale**2 for fit in self._fits])
        if self._is_flat:
            mean, std = mean[:, 0], std[:, 0]
        return (mean, std) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination on measured values, averaged over the targets.

        Targets that were measured less than twice do not count.
        """
        return mean_score(r2_score, 2, number_array(y), self.predict(X), sample_weight)


class KernelGPClassifier(ClassifierMixin, _Process):
    r"""Classification by Gaussian-process regression of Dirichlet's parameters.

    The class probabilities of an item of class k have a Dirichlet distribution with parameters
    :math:`\alpha_k = 1 + \alpha` and :math:`\alpha_c = \alpha` for all others. Its gamma variables
    are approximated by log-normal ones, so that each class is a regression with known noise (Milios
    et al., *Dirichlet-based Gaussian Processes for Large-scale Calibrated Classification*, 2018):

    .. math::
        y_c = \log \alpha_c - s_c / 2, \qquad s_c = \log(1 + 1 / \alpha_c), \qquad
        p = E[\operatorname{softmax}(f)]

    with :math:`\alpha = 0.01`. The arguments are those of :class:`KernelGP`; its noise is added to
    the known noise, on the scale of the standardized targets.

    Attributes:
        classes_: The sorted classes; with several targets, a list of the classes of each.
        kernels_, weights_, scales_, noise_, log_marginal_likelihood_, jitter_: See
            :class:`KernelGP`; each class is a target there.

    Labels are ``(n,)`` or ``(n, targets)``; NaN and None mean that a label was not measured.
    Consecutive targets measured on the same items share their Gram matrices.

    Raises:
        ValueError, MemoryError: As for :class:`KernelGP`, and if there are fewer than two classes.

    Example:
        >>> from pyg_kernels.kernels import KernelGPClassifier, WLSubtreeKernel
        >>> smiles = ["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1"]
        >>> kernel = WLSubtreeKernel(compare="minmax")
        >>> gp = KernelGPClassifier(kernel).fit(smiles, ["chain", "chain", "ring", "ring"])
        >>> gp.predict(["CCCCO", "CCc1ccccc1"])
        array(['chain', 'ring'], dtype='<U5')
        >>> gp.predict_proba(["CCCCO"]).shape  # (m, classes), in the order of gp.classes_
        (1, 2)

    See Also:
        :class:`KernelGP`; :class:`~pyg_kernels.molecules.MoleculeClassifier`.
    """

    @torch.no_grad()
    @full_precision()
    def fit(self, X: Any, y: Any) -> Self:
        """Learns weights, and conditions a process for each class on the labels."""
        X, targets = self._read(X, y, label_array)
        self._every_class, columns = [], []
        for number, labels in enumerate(targets.T):
            there = _measured(labels)
            measured = labels[there]
            if measured.dtype == object:
                if len({isinstance(label, str) for label in measured}) > 1:
                    raise ValueError(f"target {number} has words and numbers as labels")
                measured = np.array(measured.tolist())
            check_classification_targets(measured)
            classes, places = np.unique(measured, return_inverse=True)
            if len(classes) < 2:
                raise ValueError(
                    f"target {number} has {len(classes)} class, {classes.tolist()}: expected at "
                    "least two"
                )
            parameters = np.full((len(X), len(classes)), np.nan)
            parameters[there] = _ALPHA + np.eye(len(classes))[places]
            self._every_class.append(classes)
            columns.append(parameters)
        self.classes_ = self._every_class[0] if self._is_flat else self._every_class
        parameters = np.concatenate(columns, 1)
        variances = np.log1p(1 / parameters)
        return self._condition(X, np.log(parameters) - variances / 2, variances)

    @torch.no_grad()
    @full_precision()
    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, ``(m, classes)``: the mean over the posterior.

        With several targets, a list of the probabilities for each target.
        """
        means, variances = self._posterior(X, with_variance=True)
        found = []
        for classes in self._every_class:
            draws = MultivariateNormalQMC(np.zeros(len(classes)), seed=0).random(_DRAWS)
            own, means = np.split(means.astype(float), [len(classes)], 1)
            variance, variances = np.split(variances.astype(float), [len(classes)], 1)
            total = np.zeros_like(own)
            for draw in draws:
                total += softmax(own + draw * np.sqrt(variance), axis=1)
            found.append(total / _DRAWS)
        return found[0] if self._is_flat else found

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each item, ``(m,)`` or ``(m, targets)``."""
        probabilities = self.predict_proba(X)
        if self._is_flat:
            return self.classes_[probabilities.argmax(1)]
        every = zip(self.classes_, probabilities, strict=True)
        return label_columns([classes[proba.argmax(1)] for classes, proba in every])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on measured labels, averaged over the targets."""
        return mean_score(accuracy, 1, label_array(y), self.predict(X), sample_weight)


def _standardized(
    measured: NDArray[Any], variances: NDArray[Any]
) -> tuple[float, float, Tensor, Tensor]:
    """The mean and the deviation of a target, the standardized target, and its known noise."""
    mean, scale = float(measured.mean()), float(measured.std())
    if not np.isfinite(scale):
        raise ValueError("y has numbers whose squares are not finite: rescale them")
    if np.ptp(measured) <= _CONSTANT * np.abs(measured).max():
        scale = 1.0
    if not scale:
        raise ValueError("y has numbers whose squares vanish: rescale them")
    y, known = (measured - mean) / scale, variances / scale**2
    return mean, scale, torch.from_numpy(y), torch.from_numpy(known)


def _measured(labels: NDArray[Any]) -> NDArray[Any]:
    """Which labels were measured: all but None, NaN and pandas' values for these."""

    def is_one(label: Any) -> bool:
        equal = label == label  # neither true nor false for pandas' NA
        return label is not None and isinstance(equal, bool | np.bool_) and bool(equal)

    return np.array(list(map(is_one, labels.tolist())), dtype=bool)


def accuracy(labels: Any, found: Any, sample_weight: Any) -> Any:
    """The share of labels that were predicted; strings never equal numbers."""
    return np.average(labels == found, weights=sample_weight)


def mean_score(score: Callable[..., Any], least: int, y: Any, found: Any, weights: Any) -> float:
    """The mean score over the targets that were measured at least `least` times."""
    if not y.ndim or y.size != found.size or len(y) != len(found):
        raise ValueError(f"y has shape {y.shape}: expected {found.shape}")
    if weights is not None and np.shape(weights) != (len(y),):
        raise ValueError(f"sample_weight has shape {np.shape(weights)}: expected ({len(y)},)")
    scores = []
    for column, own in zip(*(v.reshape(len(v), -1).T for v in (y, found)), strict=True):
        there = _measured(column)
        if there.sum() >= least:
            weight = None if weights is None else np.asarray(weights)[there]
            scores.append(score(column[there], own[there], sample_weight=weight))
    if not scores:
        raise ValueError(f"no target has {least} measurement{'s' * (least > 1)} or more")
    return float(np.mean(scores))


def _machine_memory() -> float:
    """The machine's memory in bytes, infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return np.inf


def _items(X: Any, kernels: Sequence[Kernel]) -> Any:
    """The items as a collection (of one for a graph), with molecules read once for all kernels."""
    if any(isinstance(kernel, TextKernel) for kernel in kernels):
        return checked_collection(X, "texts")
    params = [item for kernel in kernels for item in kernel.get_params().items()]
    own = any(name.endswith("featurizer") and value is not None for name, value in params)
    return graph_collection(X) if own else with_molecules_read(X)


def learned_weights(
    grams: Tensor, y: Tensor, prior: float, variances: Tensor | float = 0.0
) -> tuple[NDArray[Any], float]:
    """The weights of kernels and the noise that maximize the marginal likelihood with a prior.

    `grams` is ``(T, n, n)`` and `y` is ``(n,)``, in float64; `variances` are those of known noise.
    """
    terms = len(grams)

    def loss(logs: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        weights, noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        total = torch.tensordot(torch.from_numpy(weights), grams, 1)
        total.diagonal().add_(variances + noise)
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
    given = {"method": "L-BFGS-B", "bounds": bounds, "options": {"ftol": 1e-6}}
    found = minimize(loss, start, jac=True, **given).x
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
