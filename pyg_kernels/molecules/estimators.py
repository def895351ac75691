"""Estimators of properties of molecules, in scikit-learn's conventions."""

from __future__ import annotations

import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from pyg_kernels.checks import check_flags
from pyg_kernels.chem import featurizer_by_name, standardize_many
from pyg_kernels.kernels.arguments import label_array, label_columns
from pyg_kernels.kernels.gp import accuracy, mean_score
from pyg_kernels.kernels.kernel import Forgetful
from pyg_kernels.molecules import inputs, methods, store
from pyg_kernels.molecules.analogues import analogues
from pyg_kernels.molecules.inputs import Molecules
from pyg_kernels.molecules.methods import KERNEL_METHODS, Examples, KernelMethod, Outputs, Task
from pyg_kernels.molecules.networks import NETWORKS, imported
from pyg_kernels.molecules.recipe import AUTO, recipe

WHOLE = ("ensemble_size", "epochs", "batch_size", "patience", "hidden_channels", "num_layers")
OPTIONAL = (*WHOLE[1:], "learning_rate")
OF_TRAINING = ("epochs", "batch_size", "learning_rate", "patience", "device", "progress")
LOGGER = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class MoleculeEstimator(TransformerMixin, Forgetful, ABC):
    """Base class of both estimators: fits members, and mixes their predictions."""

    _no_matter: ClassVar[set[str]] = {"device", "progress"}

    model: str | Sequence[str] = "gp"
    ensemble_size: int = 1
    epochs: int | None = None
    featurizer: Any = "default"
    random_state: Any = 0
    device: str | None = None
    progress: bool | None = None
    _: KW_ONLY
    validation_fraction: float = 0.1
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None
    hidden_channels: int | None = None
    num_layers: int | None = None
    dropout: float = 0.0
    standardize: bool = False
    network_options: dict[str, Any] | None = None
    training_options: dict[str, Any] | None = None
    refit: bool = True
    hurdle: bool = True
    distill: float = 0.0
    task_: Task = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation: Any = None,
        start_from: MoleculeEstimator | None = None,
        frozen: bool = False,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fits all members, and the weights of models where there are several.

        Args:
            X: M SMILES or molecules of RDKit, or a table with a column ``smiles`` whose other
                columns are numbers, which are standardized.
            y: ``(M,)`` or ``(M, T)``, NaN where a target was not measured.
            sample_weight: ``(M,)``. Networks use their ratios only, other models use them as
                scikit-learn does; Gaussian processes take none. Weights of a stack, and intervals,
                count all measurements in the validation part with weights above 0 equally.
            validation: The positions of the validation part, or a mask. None: drawn at random, anew
                for each member of an ensemble. ``[]`` is possible with Gaussian processes only;
                there are then no intervals, and several processes have equal weights.
            start_from: A fitted estimator with the same networks, from whose weights training
                starts (``'auto'`` means these). Heads start from them only if sizes and ``spikes_``
                are the same, and both learn targets with a spike as one, or both as two.
            frozen: Whether to train only the heads; needs `start_from`.
            checkpoint: A folder to keep each member in when it is fitted. Members that an
                interrupted call with the same arguments has kept there are taken over.

        Raises:
            IndexError: If a position of `validation` is too large, or a mask has another length.
            ValueError: If an argument is out of range, molecules cannot be read (the message has
                their positions), or targets or networks do not fit.
        """
        fitted = copy(self)  # an interrupted fit leaves the estimator unchanged
        fitted._fit(X, y, sample_weight, validation, start_from, frozen, checkpoint)
        self.__dict__.update(vars(fitted))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, validation: Any, *how: Any) -> None:
        start_from, frozen, checkpoint = how
        models = self.check_arguments(start_from, frozen)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        molecules = self._cleaned(inputs.read_molecules(X))
        self.flat_ = np.asarray(y).ndim == 1
        measured = self._read_targets(y, len(molecules))
        weight = inputs.read_weights(sample_weight, len(molecules))
        learned = weight > 0
        if validation is not None:
            learned[self._validation(measured, validation, None)] = False
        targets = self._divided(measured, learned)
        usual: dict[str, Any] = {}
        size = self.ensemble_size
        if self._models() == [AUTO]:
            chosen, least, usual = recipe(self.task_, len(molecules), bool((weight != 1).any()))
            models, size = chosen if start_from is None else models, max(size, least)
            several = f", {size} of each" if size > 1 else ""
            LOGGER.info(f"auto is {', '.join(models)}{several} for {len(molecules):,} molecules")
            if self.distill:
                self._check_distill(models, start_from)
        self.check_data(models, molecules, weight, start_from)
        self.models_ = models
        self.columns_ = molecules.columns
        extra = molecules.extra[learned if learned.any() else slice(None)]
        self.extra_mean_, spread = extra.mean(0), extra.std(0)
        varies = spread > 1e-12 * np.abs(self.extra_mean_)
        self.extra_scale_ = np.where(varies, spread, np.inf)  # constant columns become 0
        molecules = self._scaled(molecules)
        if {*models} & {*KERNEL_METHODS}:
            molecules.graphs()  # all at once, so that an error names positions in X
        random = check_random_state(self.random_state)
        everything = np.arange(len(molecules))
        members: list[Any] = []
        held = []
        for number in range(size):
            valid = self._validation(targets, validation, random)
            if self.distill:  # all hold out the same part: none may teach what it learned from it
                validation = valid
            train = np.setdiff1d(everything, valid)
            if not len(train):
                raise ValueError(f"{len(valid)} molecules leave none to fit: expected at least 2")
            seed = int(random.randint(2**31 - 1))
            examples = Examples(molecules, targets, weight, train, valid, seed)
            parts = []
            for model in models:
                member = self._member(model, self.task_, **usual)
                if start_from is not None:
                    member.start_from(start_from._starting(model, number), frozen)
                store.fit_once(member, examples, checkpoint)
                members.append(member)
                parts.append(self._validated(member, examples))
            held.append((np.where(weight[valid, None] > 0, measured[valid], np.nan), parts))
        self.members_ = members
        self.model_weights_ = methods.stacked_weights(held, self.task_)
        self.teachers_: list[str] = []
        if self.distill:
            own = replace(examples, y=measured, seed=int(random.randint(2**31 - 1)))
            student = self._student(own, usual, checkpoint)
            if student is not None:
                self.teachers_, self.models_ = models, [student.model]
                self.members_, self.task_ = [student], student.task
                self.model_weights_ = np.ones(1)
                held = [(held[0][0], [self._validated(student, own)])]
        self.scores_ = self._conformal_scores(held, validation is not None)
        kept = [member for member in self.members_ if isinstance(member, KernelMethod)]
        if self.refit and self.ensemble_size == 1:
            for member in kept:  # the validation part is no longer needed
                member.refit(replace(examples, train=everything))
        self.training_ = (molecules.unread(), targets, weight) if kept else None

    def _student(self, examples: Examples, usual: dict[str, Any], checkpoint: Any) -> Any:
        """A network that learns the examples, and the members' predictions for analogues.

        It learns a target with a spike as one target, and for half as many epochs. None if fewer
        than half of the wanted analogues are found.
        """
        there, weight = examples.molecules, examples.weight
        number = math.ceil(self.distill * len(examples.train))
        new = analogues(there.part(examples.train), number, examples.seed)
        if len(new) < number / 2:
            LOGGER.warning(f"found {len(new):,} of {number:,} analogues: all members are kept")
            return None
        model = next(model for model in self.models_ if model not in KERNEL_METHODS)
        LOGGER.info(f"{model} learns what all members predict of {len(new):,} analogues")
        task = self.task_
        plain = replace(task, num_outputs=len(task.spikes), spikes=()) if task.spikes else task
        student = self._member(model, plain, **usual)
        student.options = replace(student.options, epochs=math.ceil(student.options.epochs / 2))
        extra = np.concatenate([there.extra, new.extra])
        learned = replace(
            examples,
            molecules=Molecules(there.smiles + new.smiles, there.columns, extra),
            y=np.concatenate([examples.y, self._mixture(new).mean]),
            weight=np.append(weight, np.full(len(new), weight[weight > 0].mean())),
            train=np.append(examples.train, len(there) + np.arange(len(new))),
        )
        store.fit_once(student, learned, checkpoint)
        return student

    def check_arguments(
        self, start_from: MoleculeEstimator | None = None, frozen: bool = False
    ) -> list[str]:
        """Raises the errors that :meth:`fit` can raise before it reads data; returns the models."""
        models = self._models()
        if start_from is not None:
            models = self._that_start(models, start_from)
        elif frozen:
            raise ValueError("frozen=True freezes what start_from has learned: expected one")
        for name in WHOLE:
            _check(name, getattr(self, name), Integral, min_val=1)
        check_flags(standardize=self.standardize, refit=self.refit, hurdle=self.hurdle)
        for name, most, included in (
            ("validation_fraction", 1, "neither"),
            ("learning_rate", math.inf, "neither"),
            ("dropout", 1, "left"),
            ("distill", 1000, "both"),
        ):
            limits = {"min_val": 0, "max_val": most, "include_boundaries": included}
            _check(name, getattr(self, name), Real, **limits)
        featurizer_by_name(self.featurizer)
        for name in {*(self.training_options or {})} - {"schedule", "resample"}:
            raise ValueError(f"training_options has {name!r}: expected schedule and resample")
        networks = [model for model in models if model not in KERNEL_METHODS]
        if networks and self.device is not None:
            torch.empty(0, device=self.device)
        for model in networks:
            if ":" in model:
                imported(model)
        if self.distill:
            self._check_distill(models, start_from)
        return models

    @staticmethod
    def _that_start(models: list[str], start_from: Any) -> list[str]:
        """The networks that start from another estimator's; for ``'auto'``, all that it has."""
        if not isinstance(start_from, MoleculeEstimator):
            raise ValueError(f"start_from={start_from!r}: expected a fitted estimator")
        check_is_fitted(start_from, "members_")
        if models == [AUTO]:
            models = [model for model in start_from.models_ if model not in KERNEL_METHODS]
            if not models:
                others = ", ".join(start_from.models_)
                raise ValueError(f"model={AUTO!r} starts from networks: start_from has {others}")
        for model in models:
            start_from._starting(model)
            if model in KERNEL_METHODS:
                raise ValueError(f"model={model!r} is fitted at once: start_from takes networks")
        return models

    def check_data(
        self,
        models: Sequence[str],
        molecules: Molecules,
        weight: NDArray[np.float64],
        start_from: MoleculeEstimator | None = None,
    ) -> None:
        """Raises if weights or extra columns do not suit the models or `start_from`.

        Raises:
            ValueError: If weights ``(M,)`` of a Gaussian process are not 1, or extra columns
                ``(M, C)`` have squares that are not finite or other names than in `start_from`.
        """
        processes = [
            m for m in models if issubclass(KERNEL_METHODS.get(m, object), methods.ProcessMethod)
        ]
        if processes and bool((weight != 1).any()):
            raise ValueError(f"model={processes[0]!r} takes no sample_weight")
        before = molecules.columns if start_from is None else start_from.columns_
        if len(before) == len(molecules.columns) and before != molecules.columns:
            raise ValueError(
                f"start_from has the extra columns {before}, X has {molecules.columns}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            spread = molecules.extra.std(0)
        if not np.isfinite(spread).all():
            raise ValueError("extra columns have squares that are not finite: rescale them")

    def _check_distill(self, models: Sequence[str], start_from: Any) -> None:
        reason = ""
        if isinstance(self, ClassifierMixin):
            reason = "is for regression"
        elif start_from is not None:
            reason = "trains a network anew: expected start_from=None"
        elif {*models} <= {*KERNEL_METHODS}:
            reason = f"trains a network: there is none among {', '.join(models)}, name one in model"
        if reason:
            raise ValueError(f"distill={self.distill} {reason}")

    def _starting(self, model: str, number: int = 0) -> Any:
        """The member of this model from which another estimator's member starts."""
        found = [member for member in self.members_ if member.model == model]
        if not found:
            raise ValueError(f"start_from has no {model!r}, it has {', '.join(self.models_)}")
        return found[number % len(found)]

    def _models(self) -> list[str]:
        several = isinstance(self.model, (list, tuple, np.ndarray))
        models: list[Any] = list(self.model) if several else [self.model]
        if models == [AUTO]:
            return models
        known = [*KERNEL_METHODS, *NETWORKS]
        for model in models:
            if not isinstance(model, str) or (model not in known and ":" not in model):
                raise ValueError(
                    f"model={model!r}: expected {AUTO} alone, one of {', '.join(known)}, or an "
                    "import path 'package.module:Class'"
                )
        if not models or len(set(models)) < len(models):
            raise ValueError(f"model={self.model!r}: expected different models, at least one")
        return models

    def _member(self, model: str, task: Task, **usual: Any) -> Any:
        """An unfitted member; `usual` has training options of networks where none are given."""
        if model in KERNEL_METHODS:
            return KERNEL_METHODS[model](model, task, self.featurizer, self.num_layers)
        from pyg_kernels.molecules.training import TrainedNetwork, TrainingOptions

        given = {name: getattr(self, name) for name in OF_TRAINING}
        known = {name: value for name, value in given.items() if value is not None}
        options = TrainingOptions(**{**usual, **known, **(self.training_options or {})})
        sizes = {
            "hidden_channels": self.hidden_channels,
            "num_layers": self.num_layers,
            "dropout": self.dropout,
            "options": self.network_options or {},
        }
        return TrainedNetwork(model, task, self.featurizer, sizes, options)

    @abstractmethod
    def _read_targets(self, y: Any, number: int) -> NDArray[np.float64]:
        """Numbers, or the numbers of classes, ``(M, T)``; sets ``task_``."""

    def _divided(self, y: NDArray[np.float64], learned: Any) -> NDArray[np.float64]:
        """The targets as members learn them; spikes are found in the rows that are learned."""
        resamples = (self.training_options or {}).get("resample") is not None
        if not self.hurdle or resamples or self.task_.kind != "regression":
            return y
        hurdles = methods.Hurdles.of(y[learned])
        if not len(hurdles.targets):
            return y
        divided = hurdles.divided(y)
        self.task_ = Task("regression", divided.shape[1], tuple(hurdles.spikes))
        return divided

    def _cleaned(self, molecules: Molecules) -> Molecules:
        if not self.standardize:
            return molecules
        return Molecules(standardize_many(molecules.smiles)[0], molecules.columns, molecules.extra)

    def _scaled(self, molecules: Molecules) -> Molecules:
        if not molecules.columns:
            return molecules
        extra = (molecules.extra - self.extra_mean_) / self.extra_scale_
        return molecules.with_extra(molecules.columns, extra)

    def _read(self, X: Any) -> Molecules:
        check_is_fitted(self, "members_")
        return self._scaled(self._cleaned(inputs.read_molecules(X, self.columns_)))

    def _validation(self, y: NDArray[np.float64], given: Any, random: Any) -> NDArray[Any]:
        """The positions of the validation part; of each class a share is drawn, never all."""
        if given is not None:
            try:
                chosen = np.asarray(given)
            except ValueError:  # ragged
                chosen = np.array(None)
            if not chosen.size:
                chosen = chosen.astype(int)
            if chosen.ndim != 1 or chosen.dtype.kind not in "biu" or (chosen < 0).any():
                raise ValueError(f"validation: expected positions of 0 to {len(y) - 1}, or a mask")
            positions = np.unique(np.arange(len(y))[chosen])
        else:
            order = random.permutation(len(y))
            positions = order[: max(1, round(self.validation_fraction * len(y)))]
            if self.task_.kind != "regression" and y.shape[1] == 1:
                of_each = [order[y[order, 0] == code] for code in np.unique(y[~np.isnan(y)])]
                shares = [rows[: int(self.validation_fraction * len(rows))] for rows in of_each]
                kept = [rows[0] for rows in of_each]  # if all shares are 0, these are not held out
                others = order[~np.isin(order, kept)][: len(positions)]
                positions = np.concatenate(shares) if any(map(len, shares)) else others
        names = self.models_ if given is None else self._models()
        kinds = [KERNEL_METHODS.get(name, object) for name in names]
        if not len(positions) and not all(issubclass(k, methods.ProcessMethod) for k in kinds):
            raise ValueError(
                "validation is empty: only models that are Gaussian processes need none"
            )
        return np.sort(positions)

    def _validated(self, member: Any, examples: Examples) -> Outputs:
        """The predictions for the validation part; their errors give the member's noise.

        If a target was not measured there, the noise is its variance among the fitted molecules.
        """
        valid = examples.valid
        member.noise = np.zeros(member.task.num_outputs)
        if not len(valid):
            nothing = np.zeros((0, member.task.num_outputs))
            return member.task.hurdles.joined(Outputs(nothing, nothing))
        found = member.outputs(examples.molecules.part(valid))
        if member.task.kind == "regression" and not found.variance.any():
            errors = (examples.y[valid] - found.mean) ** 2
            weight = np.where(np.isnan(errors), 0, examples.weight[valid, None])
            total = np.where(weight > 0, weight * errors, 0).sum(0)
            member.noise = np.divide(total, weight.sum(0), out=member.std**2, where=weight.any(0))
            found = Outputs(found.mean, np.broadcast_to(member.noise, found.mean.shape))
        return member.task.hurdles.joined(found)

    def _conformal_scores(self, held: Any, shared: bool) -> NDArray[np.float64]:
        """Errors on the validation parts, divided by standard deviations, ``(V, T)``.

        If all members share one validation part, the errors are those of the whole mixture.
        """
        if self.task_.kind != "regression":
            return np.zeros((0, 0))
        weights = self.model_weights_
        if shared:
            held = [(held[0][0], [part for _, parts in held for part in parts])]
            weights = self.member_weights()
        scores = []
        for y, parts in held:
            found = methods.mixture_of(parts, weights)
            scores.append(np.abs(y - found.mean) / _deviation(found))
        return np.concatenate(scores)

    def _outputs(self, X: Any) -> Outputs:
        return self._mixture(self._read(X))

    def _mixture(self, molecules: Molecules) -> Outputs:
        """The mixture of all members; a prediction that is not finite is an error."""
        networks = [m for m in self.members_ if not isinstance(m, KernelMethod)]
        own = iter(networks[0].together(networks, molecules) if networks else ())
        found = [m.outputs(molecules) if m not in networks else next(own) for m in self.members_]
        pairs = zip(self.members_, found, strict=True)
        joined = [member.task.hurdles.joined(one) for member, one in pairs]
        mixture = methods.mixture_of(joined, self.member_weights())
        unfit: Any = ~(np.isfinite(mixture.mean) & np.isfinite(mixture.variance)).all(1)
        if unfit.any():
            place = int(np.flatnonzero(unfit)[0])
            raise ValueError(
                f"{unfit.sum()} of {len(unfit)} predictions are not finite, the first of molecule "
                f"{place}, {molecules.smiles[place]!r}"
            )
        return mixture

    def member_weights(self) -> NDArray[np.float64]:
        """The weight of each member in the mixture."""
        each = len(self.members_) // len(self.model_weights_)
        return np.tile(self.model_weights_, each) / each

    def transform(self, X: Any) -> Any:
        """Graph vectors ``(M, D)``; those of several networks are concatenated.

        Without networks, they are a sparse matrix of counts of the atom environments that the
        fitted molecules have.
        """
        molecules = self._read(X)
        networks = [m for m in self.members_ if not isinstance(m, KernelMethod)]
        if not networks:
            return self.members_[0].vectors(molecules)
        return np.concatenate([network.vectors(molecules) for network in networks], 1)

    def explain(self, X: Any, k: int = 5, target: int = 0) -> Any:
        """The shares of atoms and bonds in predictions, and the walks that add most.

        Args:
            X: Molecules. Atoms of RDKit molecules are numbered as in their canonical SMILES.
            k: How many walks.
            target: The target, or one of three or more classes. For a target with a value in
                ``spikes_``, its value elsewhere is explained. Numbers after the last target, one
                for each of these, explain whether it is elsewhere: as a share for kernel methods,
                as log odds for networks.

        Returns:
            A :class:`MoleculeExplanation`.

        Raises:
            ValueError: If a member is none of these: a network of this package that is not an
                embedded one; ``'gp'``, ``'wl-gp'``; in regression ``'pooled'``; ``'wl-ridge'``
                without extra columns.
        """
        from pyg_kernels.molecules.explanation import explained

        for name, value in (("k", k), ("target", target)):
            _check(name, value, Integral, min_val=0)
        molecules = self._read(X)
        members = list(zip(self.members_, self.member_weights(), strict=True))
        return explained(members, self.task_, molecules, k, target)

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Writes the fitted estimator; :func:`load` reads it.

        Args:
            folder: Made if missing.
            overwrite: Whether to replace what an earlier call wrote there.

        Raises:
            FileExistsError: If the folder has files, and `overwrite` is false.
        """
        check_is_fitted(self, "members_")
        store.save(self, folder, overwrite)


def _check(name: str, value: Any, kind: type, **limits: Any) -> None:
    if value is None and name in OPTIONAL:
        return
    try:
        check_scalar(value, name, kind, **limits)
    except TypeError as error:
        raise ValueError(str(error)) from error
    if math.isnan(value):  # which is within all limits
        raise ValueError(f"{name} is NaN: expected a number")


def _deviation(found: Outputs) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.maximum(found.variance, np.finfo(float).tiny)))


class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Regression on molecules: Gaussian processes, kernel methods, networks, their stacks.

    Args:
        model: One or several models. Gaussian processes: ``'gp'``, with the kernels of
            :func:`molecule_kernels`; ``'pooled'``, which is ``'gp'`` and randomized trees
            (:class:`~pyg_kernels.molecules.methods.ProcessMethod`); ``'wl-gp'``,
            ``'random-walk-gp'``. Other kernel methods: ``'wl-ridge'``, ``'wl-forest'``. The mean of
            the targets: ``'mean'``. Networks of this package: ``'wl'``, ``'wl-gated'``,
            ``'graph-kernel'``, ``'random-walk'``, ``'gated-walk'``, ``'embedded-mean-field'``,
            ``'embedded-loopy-bp'``. Networks of PyG: ``'gin'``, ``'gine'``, ``'attentive-fp'``,
            ``'neural-fingerprint'``. Other networks by import path: ``'mypkg.nets:Net'``
            (:func:`~pyg_kernels.molecules.networks.build_network`). Several models are added up
            with weights of at least 0 that fit the validation part. ``'auto'`` chooses by the task
            and the number of molecules: :func:`~pyg_kernels.molecules.recipe.recipe`.
        ensemble_size: How many members each model has. Each has its own seed and, without
            `distill`, its own validation part. ``'auto'`` has at least two in regression from
            10,000 molecules on.
        epochs: The most epochs of networks. None: 60; for ``'auto'``, 25 from 10,000 molecules on.
        featurizer: The features of networks: ``'default'``, ``'duvenaud'``, ``'ogb'`` or a
            :class:`~pyg_kernels.chem.Featurizer`.
        random_state: Determines validation parts, initial weights and the order of molecules.
        device: The device of networks. None: CUDA if it is available, else the CPU.
        progress: Whether to show a progress bar. None: only on a terminal.
        validation_fraction: The share of molecules that are held out to stop training, to choose
            penalties and weights of models, and to compute intervals. With one member per model,
            kernel methods are finally fitted to all molecules (see `refit`).
        batch_size, learning_rate, patience: How networks are trained. None: 64 and 0.001; for
            ``'auto'``, 128 and 0.005 from 10,000 molecules on. Training ends after `patience`
            epochs without a lower validation loss; None: a third of the epochs, at least 10.
        hidden_channels, num_layers, dropout: The width, depth and dropout of networks. None: a
            width for about 260,000 parameters. In ``wl-...`` methods `num_layers` is the number of
            iterations, in ``random-walk-gp`` of nodes in a walk; None: 3.
        standardize: Whether to standardize molecules first, in fitting and in prediction:
            :func:`~pyg_kernels.chem.standardize`.
        network_options: Further arguments of networks, such as ``{'norm': 'head'}``.
        training_options: ``schedule`` and ``resample`` of
            :class:`~pyg_kernels.molecules.training.TrainingOptions`.
        refit: Whether kernel methods, with one member per model, are finally fitted to all
            molecules, including those that were held out.
        hurdle: Whether a target that often has one value is learned as two targets: its other
            values, and whether it has one of them. See
            :class:`~pyg_kernels.molecules.methods.Hurdles`. Ignored if targets are resampled.
        distill: How many analogues per molecule that is not held out; 0: no distillation. Above 0,
            one network replaces all members (Hinton et al., *Distilling the Knowledge in a Neural
            Network*, 2015): the first network of the models. It learns the molecules, and what the
            members predict for :func:`~pyg_kernels.molecules.analogues.analogues` of them, in half
            as many epochs. All members are kept if fewer than half of the analogues are found.

    Attributes:
        models_: The models; after distillation, only the network that is left.
        teachers_: After distillation, the models that the network has learned from; else empty.
        members_: The fitted members, models varying fastest.
        model_weights_: The weight of each model, ``(models,)``.
        spikes_: The frequent value of each target that is learned as two, ``(T,)``; NaN for others.
        scores_: The absolute errors on the validation parts divided by the standard deviations,
            ``(V, T)``; NaN where a target was not measured.

    Example:
        >>> from pyg_kernels.molecules import MoleculeRegressor
        >>> smiles = ["C" * n + "O" for n in range(1, 11)]
        >>> reg = MoleculeRegressor(model="wl-gp", validation_fraction=0.5)
        >>> mean, std = reg.fit(smiles, range(1, 11)).predict(["CCCCCCO"], return_std=True)
        >>> mean.shape, std.shape
        ((1,), (1,))
        >>> low, high = reg.predict_interval(["CCCCCCO"], coverage=0.8)
        >>> low < mean, mean < high
        (array([ True]), array([ True]))

    See Also:
        :class:`MoleculeClassifier`; :class:`~pyg_kernels.kernels.KernelGP` and
        :class:`~pyg_kernels.nn.WLKernelNet`, two of the models; :func:`load`.
    """

    def _read_targets(self, y: Any, number: int) -> NDArray[np.float64]:
        values = inputs.read_numbers(y, number)
        self.task_ = Task("regression", values.shape[1])
        return values

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of new measurements, and their standard deviation.

        The variance is that of the mixture of all members: the mean of their variances plus the
        variance of their means. The variance of a network, a ridge regression or a forest is its
        mean squared error on the validation part.

        Args:
            X: As for :meth:`fit`; a table needs the columns that :meth:`fit` had.
            return_std: Whether to return the standard deviation.

        Returns:
            The mean, ``(M,)`` or ``(M, T)``; with `return_std`, also the standard deviation.
        """
        found = self._outputs(X)
        mean, std = self._shaped(found.mean), self._shaped(_deviation(found))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        r"""Intervals that contain new measurements with a given probability.

        Split conformal prediction (Lei et al., *Distribution-Free Predictive Inference for
        Regression*, 2018): :math:`\mu(x) \pm q \sigma(x)`, with q the
        :math:`\lceil (V + 1) c \rceil`-th smallest of the V scores
        :math:`|y - \mu(x)| / \sigma(x)` of the validation part. The coverage holds on average over
        molecules of the same origin as the fitted ones. Intervals are slightly too narrow, since
        the validation part also chooses the end of training, penalties and weights of models.

        Args:
            X: As of :meth:`predict`.
            coverage: The probability c.

        Returns:
            The lower and the upper ends, ``(M,)`` or ``(M, T)``.

        Raises:
            ValueError: If the validation part is too small for this coverage. If it is too small
                for some targets only, their intervals are NaN, with a warning.
        """
        width = self.interval_scale(coverage)
        few = np.flatnonzero(np.isnan(width))
        if len(few):
            needed = math.ceil(round(coverage / (1 - coverage), 9))
            known = (~np.isnan(self.scores_[:, few])).sum(0).min()
            message = f"coverage={coverage} needs {needed} validation molecules with the target, "
            message += f"there are {known} with target {', '.join(map(str, few))}"
            message += ": raise validation_fraction, or give more of them to fit"
            if len(few) == len(width):
                raise ValueError(message)
            warnings.warn(f"{message}; their intervals are NaN", stacklevel=2)
        found = self._outputs(X)
        half = width * _deviation(found)
        return self._shaped(found.mean - half), self._shaped(found.mean + half)

    def interval_scale(self, coverage: float = 0.9) -> NDArray[np.float64]:
        """The q of :meth:`predict_interval`, ``(T,)``.

        NaN for a target whose validation measurements are too few for this coverage.
        """
        _check("coverage", coverage, Real, min_val=0, max_val=1, include_boundaries="neither")
        check_is_fitted(self, "members_")
        scales = []
        for column in self.scores_.T:
            known = np.sort(column[~np.isnan(column)])
            rank = math.ceil(round((len(known) + 1) * coverage, 9))
            scales.append(math.nan if rank > len(known) else known[rank - 1])
        return np.array(scales)

    @property
    def spikes_(self) -> NDArray[np.float64]:
        check_is_fitted(self, "members_")
        return np.array(self.task_.spikes or [np.nan] * self.task_.num_outputs)

    def _shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[:, 0] if self.flat_ else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination on measured values, averaged over the targets."""
        found = self._outputs(X).mean
        values = inputs.read_numbers(y, len(found))
        return mean_score(r2_score, 2, values, found, sample_weight)


class MoleculeClassifier(ClassifierMixin, MoleculeEstimator):
    """Classification of molecules; arguments are those of :class:`MoleculeRegressor`.

    Targets are ``(M,)`` labels of two or more classes, or ``(M, T)`` of two classes each; None or
    NaN is a missing label. Members' probabilities are averaged; ``wl-ridge`` is logistic
    regression.

    Attributes:
        classes_: The sorted classes of the target; for ``(M, T)`` targets, a list of those of each.

    Example:
        >>> from pyg_kernels.molecules import MoleculeClassifier
        >>> smiles = ["C" * n + end for n in range(1, 6) for end in "ON"]
        >>> clf = MoleculeClassifier(model="wl-gp").fit(smiles, ["alcohol", "amine"] * 5)
        >>> clf.predict(["CCCCCCO", "CCCCCCN"])
        array(['alcohol', 'amine'], dtype='<U7')
        >>> clf.predict_proba(["CCCCCCO"]).shape
        (1, 2)

    See Also:
        :class:`MoleculeRegressor`; :class:`~pyg_kernels.kernels.KernelGPClassifier`, one of the
        models; :func:`load`.
    """

    def _read_targets(self, y: Any, number: int) -> NDArray[np.float64]:
        codes, self.each_classes_ = inputs.read_classes(y, number)
        self.classes_: Any = self.each_classes_[0] if self.flat_ else self.each_classes_
        classes = len(self.each_classes_[0])
        self.task_ = Task("multiclass", classes) if classes > 2 else Task("binary", codes.shape[1])
        return codes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, ``(M, classes)``.

        For ``(M, T)`` targets it is that of the second class of each, ``(M, T)``.
        """
        found = self._outputs(X).mean
        if self.flat_ and self.task_.kind == "binary":
            return np.concatenate([1 - found, found], 1)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable classes, ``(M,)`` or ``(M, T)``."""
        found = self.predict_proba(X)
        if self.flat_:
            return np.asarray(self.each_classes_[0][found.argmax(1)])
        if self.task_.kind == "multiclass":
            return np.asarray(self.each_classes_[0][found.argmax(1)][:, None])
        pairs = zip(self.each_classes_, (found > 0.5).astype(int).T, strict=True)
        return label_columns([classes[codes] for classes, codes in pairs])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on measured labels, averaged over the targets."""
        found = self.predict(X)
        return mean_score(accuracy, 1, label_array(y), found, sample_weight)
