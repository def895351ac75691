"""Kernel methods, and what all members of an estimator have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import expit, softmax
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from pyg_kernels import kernels
from pyg_kernels.kernels import Kernel, WLSubtreeKernel
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.trees import MoleculeTrees

# Two per decade, from strong to weak, since weak ones take the most iterations.
PENALTIES = tuple(10 ** (k / 2) for k in range(8, -7, -1))
TREES = 300  # of a random forest
WORSE = 2  # the search ends after so many penalties whose error is clearly above the lowest
CLEARLY = 1.01  # times the lowest error
_ROUNDS = 200  # of expectation-maximization
_PRIOR = 30  # the prior on weights of models counts as so many measurements; few choose badly
_FIRM = 1e4  # weight of the condition, in least squares, that weights of models add up to 1
Numbers = NDArray[np.float64]
POOL = (2.0, 1.0)  # weights of process and trees, of least error on validation parts of ten sets
UNSURE = 1e-3  # the least probability of either part of a hurdle that variances are computed with
NUM_LAYERS = 3  # iterations of Weisfeiler-Lehman, or nodes in a walk


@dataclass(frozen=True)
class Task:
    """What is learned.

    Args:
        kind: ``'regression'``, ``'binary'`` (one or several targets of two classes) or
            ``'multiclass'`` (one target).
        num_outputs: K, the number of targets, or of classes of the one target.
        spikes: In regression, those of :class:`Hurdles`; empty if no target has one. Otherwise the
            outputs are the targets' values elsewhere, then whether they are elsewhere.
    """

    kind: str
    num_outputs: int
    spikes: tuple[float, ...] = ()

    @property
    def hurdles(self) -> Hurdles:
        """Divides targets, and joins outputs."""
        return Hurdles(self.spikes)


@dataclass(frozen=True)
class Outputs:
    """Predictions of M molecules.

    Args:
        mean: ``(M, K)``, in the targets' own units; or probabilities of the second or each class.
        variance: ``(M, K)``, of new measurements, noise included; 0 for probabilities.
    """

    mean: Numbers
    variance: Numbers


class Hurdles:
    r"""Targets that often have one value, a spike, and vary otherwise (Cragg 1971).

    A spike, such as 0 where nothing is seen, is the value of at least 20, and at least 1%, of a
    target's measurements, and five times as frequent as any other. At least 20 are elsewhere, at
    two or more values. A target with a spike s is learned as two: its values elsewhere, with mean m
    and variance v, and whether it is elsewhere, 0 or 1, with the mean p clipped to [0, 1]. Then

    .. math::
        E[y] = s + p (m - s), \qquad \operatorname{Var}[y] = p v + p (1 - p) (m - s)^2

    In the variance, p is clipped to [0.001, 0.999], since no learned share is certain.

    Args:
        spikes: The spike of each target, ``(T,)``; NaN for a target without one.
    """

    def __init__(self, spikes: Any) -> None:
        self.spikes = np.asarray(spikes, np.float64)
        self.targets = np.flatnonzero(~np.isnan(self.spikes))

    @classmethod
    def of(cls, y: Numbers) -> Hurdles:
        """Finds the spikes of targets ``(M, T)``."""
        return cls([_spike(column[~np.isnan(column)]) for column in y.T])

    def divided(self, y: Numbers) -> Numbers:
        """The targets to learn: values elsewhere, then whether those with a spike are elsewhere."""
        y, spikes = y.copy(), self.spikes[self.targets]
        measured = y[:, self.targets]
        elsewhere = np.where(np.isnan(measured), np.nan, measured != spikes)
        y[:, self.targets] = np.where(elsewhere == 1, measured, np.nan)
        return np.concatenate([y, elsewhere], 1)

    def joined(self, found: Outputs) -> Outputs:
        """The mean and variance of the targets, from what was learned; of arrays or tensors."""
        if not len(self.targets):
            return found
        number = len(self.spikes)
        mean, variance = found.mean[:, :number] + 0, found.variance[:, :number] + 0  # copies
        for place, target in enumerate(self.targets.tolist(), start=number):
            mean[:, target], variance[:, target] = joined_moments(
                mean[:, target],
                variance[:, target],
                found.mean[:, place].clip(0, 1),
                float(self.spikes[target]),
            )
        return Outputs(mean, variance)


def joined_moments(mean: Any, variance: Any, share: Any, spike: Any) -> tuple[Any, Any]:
    """The mean and variance by :class:`Hurdles`, for arrays or tensors of one shape."""
    away, unsure = mean - spike, share.clip(UNSURE, 1 - UNSURE)
    return spike + share * away, unsure * variance + unsure * (1 - unsure) * away**2


def _spike(values: Numbers) -> float:
    """The spike of one target's measurements, or NaN."""
    different, counts = np.unique(values, return_counts=True)
    if len(different) < 3:
        return np.nan
    place = int(counts.argmax())
    others = np.delete(counts, place)
    count, rest = counts[place], others.sum()
    frequent = count >= max(20, len(values) / 100) and count >= 5 * others.max()
    return float(different[place]) if frequent and rest >= 20 else np.nan


def certain(mean: Numbers) -> Outputs:
    """Probabilities, which have no variance."""
    return Outputs(mean, np.zeros_like(mean))


def likelihoods(y: Numbers, mean: Numbers, task: Task) -> Numbers:
    """The predicted probability of each measured class, for targets ``(M, T)``."""
    there = ~np.isnan(y)
    if task.kind == "binary":
        return np.where(y == 1, mean, 1 - mean)[there]
    rows = np.flatnonzero(there[:, 0])
    return mean[rows, y[rows, 0].astype(int)]


@dataclass(frozen=True)
class Examples:
    """The M molecules that members of an estimator learn from.

    Args:
        y: ``(M, T)``, NaN where a target was not measured; classes are numbered.
        weight: ``(M,)``.
        train, valid: The positions of the training part, and of the validation part.
    """

    molecules: Molecules
    y: Numbers
    weight: Numbers
    train: NDArray[Any]
    valid: NDArray[Any]
    seed: int


def standardization(y: Numbers, task: Task, weight: Numbers) -> tuple[Numbers, Numbers]:
    """The weighted mean and scale of targets, ``(T,)`` each; 0 and 1 for classes."""
    measured = (~np.isnan(y) & (weight[:, None] > 0)).any(0)
    if not measured.all():
        place = int(np.flatnonzero(~measured)[0])
        raise ValueError(
            f"target {place} was not measured on any of the {len(y)} molecules to fit whose weight "
            "is above 0"
        )
    if task.kind != "regression":
        return np.zeros(y.shape[1]), np.ones(y.shape[1])
    # StandardScaler's test for constant columns depends on the sum of weights: keep it small.
    scaler = StandardScaler().fit(y, sample_weight=weight / weight.max())
    return scaler.mean_, scaler.scale_


def mixture_of(parts: Sequence[Outputs], weights: Numbers) -> Outputs:
    r"""The mean and variance of a mixture.

    .. math::
        \mu = \sum_m w_m \mu_m, \qquad
        \sigma^2 = \sum_m w_m \big(\sigma_m^2 + (\mu_m - \mu)^2\big)
    """
    pairs = list(zip(weights, parts, strict=True))
    with np.errstate(invalid="ignore"):  # values that are not finite are reported later
        mean: Any = sum(weight * part.mean for weight, part in pairs)
        apart = (part.variance + (part.mean - mean) ** 2 for part in parts)
        variance: Any = sum(weight * each for weight, each in zip(weights, apart, strict=True))
    return Outputs(mean, variance)


def stacked_weights(held: Sequence[tuple[Numbers, Sequence[Outputs]]], task: Task) -> Numbers:
    """Weights of models, at least 0 and with the sum 1, that fit the validation parts.

    Regression minimizes squared standardized errors; classification maximizes the likelihood of the
    mixture of probabilities. A prior favours equal weights. Each part has targets ``(V, T)``, and
    the predictions of each model.
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
    goal = ((y - center) / scale)[there]
    least = ((columns - goal[:, None]) ** 2).mean(0).min()  # limits the prior
    prior = np.eye(number) * np.sqrt(_PRIOR * min(columns.var(1).mean(), least))
    rows = np.concatenate([columns, prior, np.full((1, number), _FIRM)])
    goals = [goal, prior.sum(1) / number, [_FIRM]]
    found: Any = nnls(rows, np.concatenate(goals))[0]
    return np.asarray(found / found.sum())


def _mixed(of_each: Numbers) -> Numbers:
    weights = np.full(of_each.shape[1], 1 / of_each.shape[1])
    of_each = np.maximum(of_each, 1e-12)
    for _ in range(_ROUNDS):
        shares = weights * of_each
        counts = (shares / shares.sum(1, keepdims=True)).sum(0) + _PRIOR / len(weights)
        weights = counts / counts.sum()
    return weights


class Method:
    """A member of an estimator: fitted on one part, evaluated on another.

    It has ``fit(examples)``, ``outputs`` and ``vectors`` of molecules, and ``state()``, whose
    arrays ``restore`` reads; a kernel method must then be refitted.
    """

    mean: Numbers
    std: Numbers
    noise: Numbers

    def __init__(self, model: str, task: Task, featurizer: Any) -> None:
        self.model, self.task, self.featurizer = model, task, featurizer
        self.is_regression = task.kind == "regression"

    def told(self) -> dict[str, Any]:
        """What identifies a fit, apart from its examples."""
        features = featurizer_by_name(self.featurizer).fingerprint
        task = {name: value for name, value in vars(self.task).items() if value != ()}
        return {"model": self.model, "task": task, "features": features}

    def in_units(self, raw: NDArray[Any]) -> Outputs:
        """The predictions, from outputs on the scale of training (logits for classes)."""
        raw = raw.astype(np.float64)
        if self.is_regression:
            mean = raw * self.std + self.mean
            return Outputs(mean, np.broadcast_to(getattr(self, "noise", 0.0), mean.shape))
        return certain(expit(raw) if self.task.kind == "binary" else softmax(raw, axis=1))


class KernelMethod(Method, ABC):
    """A method that keeps its molecules, and is fitted again when it is loaded."""

    learned: Sequence[str] = ("seed", "rows")  # attributes that are kept
    molecules: Molecules
    rows: NDArray[Any]

    def __init__(
        self, model: str, task: Task, featurizer: Any, num_layers: int | None = None
    ) -> None:
        super().__init__(model, task, featurizer)
        self.num_layers, self.seed = num_layers or NUM_LAYERS, 0
        self._counting: WLSubtreeKernel | None = None

    def fit(self, examples: Examples) -> None:
        self.seed = examples.seed
        for place, column in enumerate(examples.y[examples.train].T):
            if not self.is_regression and len(np.unique(column[~np.isnan(column)])) < 2:
                raise ValueError(
                    f"target {place} has a single class among the {len(column)} molecules to fit"
                )
        self.learn(examples)
        self.refit(examples)

    def refit(self, examples: Examples) -> None:
        """Conditions on the training molecules, with the current hyperparameters."""
        self.rows = rows = examples.train
        y, weight = examples.y[rows], examples.weight[rows]
        self._take_up(examples.molecules.part(rows), y, weight)
        self.condition(y, weight)
        self.molecules = self.molecules.unread()

    def _take_up(self, molecules: Molecules, y: Numbers, weight: Numbers) -> None:
        self.molecules, self._counting = molecules, None
        self.mean, self.std = standardization(y, self.task, weight)

    def told(self) -> dict[str, Any]:
        return {**super().told(), "num_layers": self.num_layers}

    @abstractmethod
    def learn(self, examples: Examples) -> None:
        """Finds hyperparameters."""

    @abstractmethod
    def condition(self, y: Numbers, weight: Numbers) -> None:
        """Fits to ``molecules`` with the hyperparameters."""

    def state(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in self.learned}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name in self.learned:
            setattr(self, name, arrays[name])
        self.seed = int(self.seed)

    def combined(self, classes: Sequence[Any], probabilities: Sequence[Numbers]) -> Numbers:
        """The probability of each class (0 without examples), or of each target's second class."""
        found = []
        for own, proba in zip(classes, probabilities, strict=True):
            whole = np.zeros((len(proba), max(2, self.task.num_outputs)))
            whole[:, own.astype(int)] = proba
            found.append(whole)
        if self.task.kind == "multiclass":
            return found[0]
        return np.stack([column[:, 1] for column in found], 1)

    def counting(self) -> WLSubtreeKernel:
        """The kernel that counts the atom environments of the fitted molecules."""
        if self._counting is None:
            kernel = WLSubtreeKernel(self.num_layers, edge_label="edge_attr", verbose=False)
            kernel.set_output(transform="default")  # whatever scikit-learn's configuration says
            self._counting = kernel.fit(self.molecules.graphs())
        return self._counting

    def vectors(self, molecules: Molecules) -> Any:
        """Counts of the atom environments that the fitted molecules have, as a CSR matrix."""
        counts = self.counting().transform(molecules.graphs())
        return sparse.csr_matrix(sparse.hstack([counts, molecules.extra]))


class ProcessMethod(KernelMethod):
    r"""A Gaussian process: a :class:`KernelGP` or :class:`KernelGPClassifier` of all targets.

    ``gp`` has the kernels of :func:`molecule_kernels`, ``wl-gp`` the min-max kernel of WL counts,
    ``random-walk-gp`` the random-walk kernel of the featurizer's vectors. Extra columns have a
    :class:`VectorKernel`. ``pooled`` is ``gp`` and
    :class:`~pyg_kernels.molecules.trees.MoleculeTrees` with its noise. In regression, it is the
    logarithmic pool (Genest and Zidek 1986) of their Gaussians with the weights 2/3 and 1/3,

    .. math::
        \frac{1}{\sigma^2} = \sum_p \frac{w_p}{\sigma_p^2}, \qquad
        \mu = \sigma^2 \, \sum_p w_p \frac{\mu_p}{\sigma_p^2},

    which favours the smaller variance; for classes, the weighted mean of their probabilities.

    Attributes:
        pool: The process and, in ``pooled``, the trees; each predicts all targets.
    """

    learned = ("seed", "rows", "weights", "noises")  # the latter two of the process
    pool: list[Any]
    weights: Any
    noises: Any

    def learn(self, examples: Examples) -> None:
        self.weights = None

    def condition(self, y: Numbers, weight: Numbers) -> None:
        """Fits to ``molecules``, with the known hyperparameters if their number fits."""
        graphs = self.graphs(self.molecules)
        kind: Any = kernels.KernelGP if self.is_regression else kernels.KernelGPClassifier
        compared = self.kernels()
        if self.molecules.columns:
            compared.append(kernels.VectorKernel("extra"))
        process = kind(compared, random_state=self.seed)
        if self.weights is not None and self.noises.size == self._columns(y):
            process.set_params(tune=False, weights=self.weights, noise=self.noises)
        self.pool = [process.fit(graphs, y)]
        self.weights, self.noises = process.weights_, process.noise_
        if self.model == "pooled":
            noise = self.noises if self.is_regression else None
            self.pool.append(MoleculeTrees(noise, self.seed).fit(graphs, y))

    def _columns(self, y: Numbers) -> int:
        """How many functions a process learns: one per target, or per class that occurs in `y`."""
        if self.is_regression:
            return y.shape[1]
        return sum(len(np.unique(column[~np.isnan(column)])) for column in y.T)

    def kernels(self) -> list[Kernel]:
        """The kernels of the process."""
        if self.model == "wl-gp":
            return [WLSubtreeKernel(self.num_layers, edge_label="edge_attr", compare="minmax")]
        if self.model == "random-walk-gp":
            options: dict[str, Any] = {"normalize": True, "dtype": torch.float64}
            return [kernels.RandomWalkKernel(self.num_layers, 1.0, **options)]
        return kernels.molecule_kernels()

    def graphs(self, molecules: Molecules) -> list[Any]:
        """What the kernels compare."""
        if self.model != "random-walk-gp":
            return molecules.graphs()
        graphs = list(molecules.dataset(self.featurizer))
        for graph, row in zip(graphs, molecules.extra, strict=True):
            graph.extra = torch.from_numpy(row[None])
        return graphs

    def outputs(self, molecules: Molecules) -> Outputs:
        graphs = self.graphs(molecules)
        if not self.is_regression:
            pairs = ((each.classes_, each.predict_proba(graphs)) for each in self.pool)
            parts = [self.combined(*pair) for pair in pairs]
            return certain(np.average(parts, 0, POOL[: len(parts)]))
        means, shares, variance = self.pooled(graphs)
        return Outputs((shares * means).sum(0), variance)

    def pooled(self, graphs: Sequence[Any]) -> tuple[Numbers, Numbers, Numbers]:
        """The means of each of the pool, their shares in its mean, (P, M, T), and its variance."""
        found = [each.predict(graphs, return_std=True) for each in self.pool]
        means, stds = (np.stack(each).astype(np.float64) for each in zip(*found, strict=True))
        weights = np.array(POOL[: len(found)])[:, None, None]
        precisions = weights / weights.sum() / stds**2
        return means, precisions / precisions.sum(0), 1 / precisions.sum(0)


class CountMethod(KernelMethod):
    """scikit-learn's estimators on counts of atoms' environments, one for each target.

    ``wl-ridge`` is ridge or logistic regression with the penalty of the lowest validation error;
    ``wl-forest`` is a random forest; ``mean`` predicts the mean of the fitted targets, or the
    frequencies of classes, for every molecule.
    """

    learned = ("seed", "rows", "penalties")

    def learn(self, examples: Examples) -> None:
        self.penalties = np.ones(examples.y.shape[1])
        if self.model != "wl-ridge":
            return
        train, held = (
            (examples.molecules.part(rows), examples.y[rows], examples.weight[rows])
            for rows in (examples.train, examples.valid)
        )
        self._take_up(*train)
        x, held_x = self.vectors(train[0]), self.vectors(held[0])
        columns = zip(self._scaled(train[1]).T, self._scaled(held[1]).T, strict=True)
        for place, (y, held_y) in enumerate(columns):
            chosen = self._chosen((x, y, train[2]), (held_x, held_y, held[2]))
            self.penalties[place] = chosen

    def _scaled(self, y: Numbers) -> Numbers:
        return (y - self.mean) / self.std

    def _chosen(self, learned: tuple[Any, Any, Any], held: tuple[Any, Any, Any]) -> float:
        """The penalty with the lowest error on held-out vectors, targets and weights."""
        best, lowest, worse = PENALTIES[len(PENALTIES) // 2], np.inf, 0
        there = ~np.isnan(held[1]) & (held[2] > 0)
        if not there.any():
            return best
        x, y, weight = (values[there] for values in held)
        for penalty in PENALTIES:
            found = self._predicted([self._fitted(*learned, penalty)], x)
            if self.is_regression:
                errors = (found[:, 0] - y) ** 2
            else:
                errors = -np.log(np.maximum(likelihoods(y[:, None], found, self.task), 1e-12))
            error = float(np.average(errors, weights=weight))
            if error < lowest:
                best, lowest, worse = penalty, error, 0
            worse += error > CLEARLY * lowest  # strong penalties differ only by noise
            if worse == WORSE:
                break
        return best

    def _fitted(self, x: Any, y: Numbers, weight: Numbers, penalty: float) -> Any:
        there = ~np.isnan(y)
        y = y[there] if self.is_regression else y[there].astype(int)
        return self._estimator(penalty).fit(x[there], y, weight[there])

    def _estimator(self, penalty: float) -> Any:
        if self.model == "mean":
            return DummyRegressor() if self.is_regression else DummyClassifier(strategy="prior")
        if self.model == "wl-forest":
            if self.is_regression:
                return RandomForestRegressor(TREES, max_features=1 / 3, random_state=self.seed)
            return RandomForestClassifier(TREES, random_state=self.seed)
        if self.is_regression:
            return Ridge(penalty, solver="sparse_cg", tol=1e-8)
        return LogisticRegression(C=1 / penalty, max_iter=2000)

    def condition(self, y: Numbers, weight: Numbers) -> None:
        x, y = self.vectors(self.molecules), self._scaled(y)
        self.estimators = [
            self._fitted(x, column, weight, penalty)
            for column, penalty in zip(y.T, self.penalties, strict=True)
        ]

    def vectors(self, molecules: Molecules) -> Any:
        if self.model == "mean":
            return sparse.csr_matrix((len(molecules.rdkit()), 0))  # raises if one cannot be read
        return super().vectors(molecules)

    def outputs(self, molecules: Molecules) -> Outputs:
        found = self._predicted(self.estimators, self.vectors(molecules))
        return self.in_units(found) if self.is_regression else certain(found)

    def _predicted(self, estimators: Sequence[Any], x: Any) -> Numbers:
        if self.is_regression:
            return np.stack([estimator.predict(x) for estimator in estimators], 1)
        probabilities = [estimator.predict_proba(x) for estimator in estimators]
        return self.combined([estimator.classes_ for estimator in estimators], probabilities)


KERNEL_METHODS: dict[str, type[Any]] = {
    "gp": ProcessMethod,
    "pooled": ProcessMethod,
    "wl-gp": ProcessMethod,
    "random-walk-gp": ProcessMethod,
    "wl-ridge": CountMethod,
    "wl-forest": CountMethod,
    "mean": CountMethod,
}
