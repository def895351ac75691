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
from scipy.special import expit, softmax
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from pyg_kernels.kernels import (
    Kernel,
    KernelGP,
    RandomWalkKernel,
    VectorKernel,
    WLSubtreeKernel,
    molecule_kernels,
)
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name

# Twice a decade, from strong to weak: weak ones take the most iterations.
PENALTIES = tuple(10 ** (k / 2) for k in range(8, -7, -1))
WORSE = 2  # penalties in a row with a larger validation error end the search
TREES = 300
NUM_LAYERS = 3  # iterations of Weisfeiler-Lehman, or nodes in a walk


@dataclass(frozen=True)
class Task:
    """What is learned.

    Args:
        kind: ``'regression'``, ``'binary'`` (one or several targets of two classes) or
            ``'multiclass'`` (one target).
        num_outputs: K: targets, or classes of the one target.
    """

    kind: str
    num_outputs: int


@dataclass(frozen=True)
class Outputs:
    """Predictions of M molecules.

    Args:
        mean: ``(M, K)``: in the targets' own units; probabilities of the second class, or of each.
        variance: ``(M, K)``, of new measurements, noise included; 0 for probabilities.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """What members of an estimator learn from.

    Args:
        molecules: M of them.
        y: ``(M, T)``, NaN where a target was not measured; classes are numbered.
        weight: ``(M,)``, of each molecule.
        train: The positions to learn from.
        valid: The positions to choose by.
        seed: Of what is drawn at random.
    """

    molecules: Molecules
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    train: NDArray[Any]
    valid: NDArray[Any]
    seed: int


def standardization(
    y: NDArray[np.float64], task: Task, weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What targets are standardized by, ``(T,)`` each, of weighted rows: 0 and 1 for classes.

    Raises:
        ValueError: If a target was never measured.
    """
    there = ~np.isnan(y) & (weight[:, None] > 0)
    measured = there.sum(0)
    if not measured.all():
        place = int(np.flatnonzero(measured == 0)[0])
        raise ValueError(f"target {place} was not measured on any of the {len(y)} molecules to fit")
    if task.kind != "regression":
        return np.zeros(y.shape[1]), np.ones(y.shape[1])
    shares = np.where(there, weight[:, None], 0.0)
    shares = shares / shares.sum(0)
    values = np.where(there, y, 0.0)
    mean = (shares * values).sum(0)
    std = np.sqrt((shares * (values - mean) ** 2).sum(0))
    flat = std <= 1e-12 * np.abs(mean)
    return mean, np.where(flat, 1.0, std)


class Method(ABC):
    """A member of an estimator: fitted on a part, measured on another.

    Args:
        model: Its name.
        task: What it learns.
        featurizer: As of :class:`MoleculeRegressor`.

    Attributes:
        mean, std: What targets are standardized by.
        noise: ``(T,)``, the mean squared error on the validation part, for methods without a
            variance of their own.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    noise: NDArray[np.float64]

    def __init__(self, model: str, task: Task, featurizer: Any) -> None:
        self.model, self.task, self.featurizer = model, task, featurizer

    @abstractmethod
    def fit(self, examples: Examples) -> None:
        """Learns from a part of the molecules, and chooses on another."""

    def start_from(self, other: Method, frozen: bool) -> None:
        """Makes :meth:`fit` start from what another member has learned.

        Raises:
            ValueError: If the method has no weights to start from.
        """
        raise ValueError(f"model={self.model!r} is fitted at once: start_from takes networks")

    def told(self) -> dict[str, Any]:
        """What :meth:`fit` goes by, beside model, task and examples."""
        return {"features": featurizer_by_name(self.featurizer).fingerprint}

    @abstractmethod
    def outputs(self, molecules: Molecules) -> Outputs:
        """Predictions of molecules."""

    @abstractmethod
    def vectors(self, molecules: Molecules) -> Any:
        """Vectors of molecules, ``(M, D)``."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings for JSON, and arrays, that :meth:`restore` takes up."""

    @abstractmethod
    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Takes up what was learned; kernel methods are then to be refitted."""

    def in_units(self, raw: NDArray[Any]) -> Outputs:
        """The predictions of outputs on the scale of training: logits of classes."""
        raw = raw.astype(np.float64)
        if self.task.kind == "regression":
            mean = raw * self.std + self.mean
            return Outputs(mean, np.broadcast_to(getattr(self, "noise", 0.0), mean.shape))
        found = expit(raw) if self.task.kind == "binary" else softmax(raw, axis=1)
        return Outputs(found, np.zeros_like(found))


class KernelMethod(Method):
    """A method that keeps its molecules, and is fitted again when it is loaded.

    Args:
        model: As of :class:`Method`, as are the next two.
        task: What it learns.
        featurizer: Of vectors of atoms.
        num_layers: Iterations of Weisfeiler-Lehman, or nodes in a walk; None: 3. ``gp`` has kernels
            of its own.
    """

    rows: NDArray[Any]
    seed: int
    _counting: WLSubtreeKernel | None = None

    def __init__(
        self, model: str, task: Task, featurizer: Any, num_layers: int | None = None
    ) -> None:
        super().__init__(model, task, featurizer)
        self.num_layers = num_layers or NUM_LAYERS

    def fit(self, examples: Examples) -> None:
        """Learns hyperparameters and conditions on the first part."""
        self.seed = examples.seed
        self._check(examples.y[examples.train])
        self.learn(examples)
        self.refit(examples)

    def refit(self, examples: Examples) -> None:
        """Conditions on the molecules to learn from, with the hyperparameters there are."""
        self.rows = rows = examples.train
        self._counting = None
        self.molecules = examples.molecules.part(rows)
        y, weight = examples.y[rows], examples.weight[rows]
        self.mean, self.std = standardization(y, self.task, weight)
        self.condition(y, weight)
        self.molecules = self.molecules.unread()

    def _check(self, y: NDArray[np.float64]) -> None:
        if self.task.kind == "regression":
            return
        for place, column in enumerate(y.T):
            if len(np.unique(column[~np.isnan(column)])) < 2:
                raise ValueError(
                    f"target {place} has a single class among the {len(y)} molecules to fit"
                )

    def told(self) -> dict[str, Any]:
        """Features and iterations."""
        return {**super().told(), "num_layers": self.num_layers}

    @abstractmethod
    def learn(self, examples: Examples) -> None:
        """Finds hyperparameters."""

    @abstractmethod
    def condition(self, y: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """Fits to ``molecules`` with the hyperparameters."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"seed": self.seed}, {"rows": self.rows}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.seed = settings["seed"]

    def probabilities(self, estimator: Any, x: Any) -> NDArray[np.float64]:
        """That of each class, ``(M, K)``, 0 of one without examples."""
        proba = estimator.predict_proba(x)
        found = np.zeros((len(proba), max(2, self.task.num_outputs)))
        found[:, estimator.classes_] = proba
        return found

    def classified(self, found: Sequence[NDArray[np.float64]]) -> Outputs:
        """From the probabilities of each target to those of all."""
        mean = found[0]
        if self.task.kind == "binary":
            mean = np.stack([column[:, 1] for column in found], 1)
        return Outputs(mean, np.zeros_like(mean))

    def counting(self) -> WLSubtreeKernel:
        """What counts the environments of atoms that the fitted molecules have."""
        if self._counting is None:
            kernel = WLSubtreeKernel(self.num_layers, edge_label="edge_attr", verbose=False)
            self._counting = kernel.fit(self.molecules.graphs())
        return self._counting

    def vectors(self, molecules: Molecules) -> Any:
        """Counts of the environments of atoms that the fitted molecules have, as a CSR matrix."""
        counts = self.counting().transform(molecules.graphs())
        return sparse.csr_matrix(sparse.hstack([counts, molecules.extra]))


class ProcessMethod(KernelMethod):
    """Gaussian processes: a :class:`KernelGP` of all targets, or a classifier for each.

    ``gp`` has the kernels of :func:`molecule_kernels`, ``wl-gp`` min-max of WL counts,
    ``random-walk-gp`` the random-walk kernel of the featurizer's vectors. Extra columns are a
    :class:`VectorKernel`.
    """

    weights: Sequence[NDArray[Any]] = ()  # of each process
    noises: Sequence[NDArray[Any]] = ()

    def learn(self, examples: Examples) -> None:
        """Weights and noise by marginal likelihood."""
        if not (examples.weight == 1).all():
            raise ValueError(f"model={self.model!r} takes no sample_weight")
        train = examples.train
        learned = self._processes(examples.molecules.part(train), examples.y[train], None)
        self.weights = [process.weights_ for process in learned]
        self.noises = [process.noise_ for process in learned]

    def condition(self, y: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """The processes with the learned weights."""
        given = list(zip(self.weights, self.noises, strict=True))
        self.processes = self._processes(self.molecules, y, given)
        if self.task.kind != "regression":
            self.weights = [process.weights_ for process in self.processes]
            self.noises = [process.noise_ for process in self.processes]

    def _processes(
        self, molecules: Molecules, y: NDArray[np.float64], given: list[Any] | None
    ) -> list[Any]:
        graphs = self._graphs(molecules)
        if self.task.kind == "regression":
            process = KernelGP(**self._arguments(molecules, None if given is None else given[0]))
            return [process.fit(graphs, y)]
        from pyg_kernels.kernels.gp import KernelGPClassifier

        found = []
        for place, column in enumerate(y.T):
            some = np.flatnonzero(~np.isnan(column))
            arguments = self._arguments(molecules, None if given is None else given[place])
            labels = column[some].astype(int)
            if given is not None and given[place][0].shape[-1] != len(np.unique(labels)):
                # Classes that were not there when the weights were learned.
                arguments = self._arguments(molecules, None)
            found.append(KernelGPClassifier(**arguments).fit([graphs[i] for i in some], labels))
        return found

    def _arguments(self, molecules: Molecules, given: Any) -> dict[str, Any]:
        kernels: list[Kernel]
        if self.model == "gp":
            kernels = molecule_kernels()
        elif self.model == "wl-gp":
            kernels = [WLSubtreeKernel(self.num_layers, edge_label="edge_attr", compare="minmax")]
        else:
            kernels = [RandomWalkKernel(self.num_layers, 1.0, normalize=True, dtype=torch.float64)]
        if molecules.columns:
            kernels.append(VectorKernel("extra"))
        found: dict[str, Any] = {"kernel": kernels, "random_state": self.seed}
        return found if given is None else {**found, **_fixed(given)}

    def _graphs(self, molecules: Molecules) -> list[Any]:
        if self.model == "random-walk-gp":
            graphs = list(molecules.dataset(self.featurizer))
            for graph, row in zip(graphs, molecules.extra, strict=True):
                graph.extra = torch.from_numpy(row[None])
            return graphs
        return molecules.graphs()

    def outputs(self, molecules: Molecules) -> Outputs:
        graphs = self._graphs(molecules)
        if self.task.kind == "regression":
            mean, std = self.processes[0].predict(graphs, return_std=True)
            return Outputs(mean.astype(np.float64), std.astype(np.float64) ** 2)
        return self.classified([self.probabilities(each, graphs) for each in self.processes])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        settings, arrays = super().state()
        for place, (weights, noises) in enumerate(zip(self.weights, self.noises, strict=True)):
            arrays |= {f"weights.{place}": weights, f"noises.{place}": noises}
        return settings, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super().restore(settings, arrays)
        number = sum(key.startswith("weights.") for key in arrays)
        self.weights = [arrays[f"weights.{place}"] for place in range(number)]
        self.noises = [arrays[f"noises.{place}"] for place in range(number)]


def _fixed(given: tuple[NDArray[Any], NDArray[Any]]) -> dict[str, Any]:
    weights, noises = given
    return {"tune": False, "weights": weights, "noise": noises}


class CountMethod(KernelMethod):
    """scikit-learn's estimators on counts of atoms' environments, one for each target.

    ``wl-ridge``: ridge or logistic regression, whose penalty has the lowest validation error;
    ``wl-forest``: a random forest.
    """

    penalties: Sequence[float] = ()

    def learn(self, examples: Examples) -> None:
        """Penalties by the validation error."""
        if self.model != "wl-ridge":
            return
        y, train, valid, weight = examples.y, examples.train, examples.valid, examples.weight
        self.molecules = examples.molecules.part(train)
        self.mean, self.std = standardization(y[train], self.task, weight[train])
        x, valid_x = self.vectors(self.molecules), self.vectors(examples.molecules.part(valid))
        self.penalties = [
            self._chosen((x, column[train], weight[train]), (valid_x, column[valid], weight[valid]))
            for column in self._scaled(y).T
        ]

    def _scaled(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return (y - self.mean) / self.std

    def _chosen(self, learned: tuple[Any, Any, Any], held: tuple[Any, Any, Any]) -> float:
        """The penalty of the lowest error of vectors, targets and weights that are held out."""
        best, lowest, worse = PENALTIES[len(PENALTIES) // 2], np.inf, 0
        there = ~np.isnan(held[1]) & (held[2] > 0)
        if not there.any():
            return best
        x, y, weight = (values[there] for values in held)
        for penalty in PENALTIES:
            found = self._predicted(self._fitted(*learned, penalty), x)
            if self.task.kind == "regression":
                errors = (found[:, 0] - y) ** 2
            else:
                own = found[np.arange(len(found)), y.astype(int)]
                errors = -np.log(np.maximum(own, 1e-12))
            error = float(np.average(errors, weights=weight))
            worse = 0 if error < lowest else worse + 1
            if error < lowest:
                best, lowest = penalty, error
            if worse == WORSE:
                break
        return best

    def _fitted(
        self, x: Any, y: NDArray[np.float64], weight: NDArray[np.float64], penalty: float | None
    ) -> Any:
        x, y, weight = _measured(x, y, weight)
        if self.task.kind == "regression":
            if penalty is not None:
                return Ridge(penalty, solver="sparse_cg", tol=1e-8).fit(x, y, weight)
            forest = RandomForestRegressor(TREES, max_features=1 / 3, random_state=self.seed)
            return forest.fit(x, y, weight)
        y = y.astype(int)
        if penalty is not None:
            return LogisticRegression(C=1 / penalty, max_iter=2000).fit(x, y, weight)
        return RandomForestClassifier(TREES, random_state=self.seed).fit(x, y, weight)

    def _predicted(self, estimator: Any, x: Any) -> NDArray[np.float64]:
        """``(M, 1)``, or the probability of each class; one without examples has 0."""
        if self.task.kind == "regression":
            return np.asarray(estimator.predict(x))[:, None]
        return self.probabilities(estimator, x)

    def condition(self, y: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """One estimator for each target."""
        x, y = self.vectors(self.molecules), self._scaled(y)
        penalties: list[float | None] = [*self.penalties] or [None] * y.shape[1]
        self.estimators = [
            self._fitted(x, column, weight, penalty)
            for column, penalty in zip(y.T, penalties, strict=True)
        ]

    def outputs(self, molecules: Molecules) -> Outputs:
        x = self.vectors(molecules)
        found = [self._predicted(estimator, x) for estimator in self.estimators]
        if self.task.kind == "regression":
            return self.in_units(np.concatenate(found, 1))
        return self.classified(found)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        settings, arrays = super().state()
        return {**settings, "penalties": self.penalties}, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super().restore(settings, arrays)
        self.penalties = settings["penalties"]


def _measured(x: Any, y: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    there = ~np.isnan(y)
    return x[there], y[there], weight[there]


class MeanMethod(CountMethod):
    """The mean of the fitted targets, or how frequent classes are, whatever the molecule."""

    def vectors(self, molecules: Molecules) -> Any:
        """No numbers, ``(M, 0)``."""
        return sparse.csr_matrix((len(molecules), 0))

    def _fitted(
        self, x: Any, y: NDArray[np.float64], weight: NDArray[np.float64], penalty: float | None
    ) -> Any:
        x, y, weight = _measured(x, y, weight)
        if self.task.kind == "regression":
            return DummyRegressor().fit(x, y, weight)
        return DummyClassifier(strategy="prior").fit(x, y.astype(int), weight)


KERNEL_METHODS: dict[str, type[Any]] = {
    "gp": ProcessMethod,
    "wl-gp": ProcessMethod,
    "random-walk-gp": ProcessMethod,
    "wl-ridge": CountMethod,
    "wl-forest": CountMethod,
    "mean": MeanMethod,
}
