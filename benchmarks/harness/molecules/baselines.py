"""Kernel methods as rows of the molecule benchmark: fitted at once, without epochs."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.estimator import Estimator
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.molecules.featurizers import featurizer_of
from benchmarks.harness.molecules.regressor import TargetScale
from benchmarks.harness.task import PARTS

NODES_IN_A_WALK = 3  # longer walks predicted CEP's validation part worse
PROBED = 16  # molecules whose predictions a checkpoint repeats


@dataclass(frozen=True)
class BaselineConfig:
    """Everything that a baseline is told; plain values, so a checkpoint can carry it.

    Args:
        name (str): A key of :data:`BASELINES`.
        order (int): Weisfeiler-Lehman iterations, or nodes in a walk.
        most_molecules (int, optional): How many training molecules it can take; ``None``: all.
    """

    name: str
    order: int
    most_molecules: int | None = None


class Baseline(Estimator):
    """Regression on molecules from standardised targets, fitted at once.

    Args:
        config: Name and sizes.
        scale: Of the training part's targets.
        features (dict): The featuriser's ``description()``.
    """

    def __init__(self, config: BaselineConfig, scale: TargetScale, features: dict[str, Any]):
        self.config, self.scale, self.features = config, scale, features
        self.mean = torch.tensor(scale.mean, dtype=torch.float64)
        self.std = torch.tensor(scale.std, dtype=torch.float64)
        self.device = torch.device("cpu")
        self.reference: Any = None  # the molecules that new ones are compared with
        self.data: MoleculeData | None = None

    @abstractmethod
    def learn(self, y: Tensor, valid_y: Tensor, seed: int, progress: bool) -> None:
        """Chooses ``reference`` among the training molecules and learns from them.

        Args:
            y: ``(M, T)`` standardised targets of the training part, NaN where one is missing.
            valid_y: ``(V, T)`` those of the validation part.
            seed (int): Of what is drawn at random.
            progress (bool): Show how far it is.
        """

    @abstractmethod
    def standardized(self, molecules: Any, progress: bool) -> Tensor:
        """Predictions ``(M, T)`` of molecules on the standardised scale, float64."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """What was learned, besides ``reference``."""

    @abstractmethod
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Takes up ``weights`` of a checkpoint whose ``reference`` is there already."""

    def on(self, data: MoleculeData) -> "Baseline":
        """This baseline, to be fitted to the training part of `data`."""
        self.data = data
        return self

    def to(self, device: torch.device) -> "Baseline":
        """This fitted baseline, computing on a device."""
        if device != self.device:
            self.device = device
            self.restore(self.weights())
        return self

    def fit(self, seed: int, device: torch.device, progress: bool) -> None:
        """Learns from the training part."""
        assert self.data is not None
        self.device = device
        y, valid_y = (
            self.scale.standardize(self.data.targets(part)).double() for part in ("train", "valid")
        )
        self.learn(y, valid_y, seed, progress)

    def predict(self, molecules: Any, progress: bool = False) -> Tensor:
        """Predictions ``(M, T)`` in the targets' own units, float64."""
        return self.in_units(self.standardized(molecules, progress))

    def in_units(self, y: Tensor) -> Tensor:
        """Standardised values in the targets' own units."""
        return y * self.std + self.mean

    def predictions(self, progress: bool) -> dict[str, Tensor]:
        """Predictions of every molecule of every part."""
        assert self.data is not None
        molecules, parts = self.data.molecules, self.data.parts
        return {part: self.predict(molecules[parts[part]], progress) for part in PARTS}

    def checkpoint(self) -> dict[str, Any]:
        """Configuration, weights, and the SMILES that new molecules are compared with."""
        probed = self.reference[:PROBED]
        return {
            "baseline": asdict(self.config),
            "targets": asdict(self.scale),
            "features": self.features,
            "smiles": list(self.reference.smiles),
            "weights": self.weights(),
            "probe": self.standardized(probed, progress=False),
        }

    def num_parameters(self) -> int:
        """Number of learned weights, all targets together."""
        return sum(weight.numel() for weight in self.weights().values())


def baseline_config(name: str, walk: int | None, gp_molecules: int | None) -> BaselineConfig:
    """The configuration of a baseline.

    Args:
        name (str): A key of :data:`BASELINES`.
        walk (int, optional): Nodes in a walk; ``None``: :data:`NODES_IN_A_WALK`.
        gp_molecules (int, optional): Training molecules of a Gaussian process at most.
    """
    iterations = BASELINES[name].iterations
    if iterations is not None:
        return BaselineConfig(name, iterations)
    return BaselineConfig(name, walk or NODES_IN_A_WALK, gp_molecules)


def new_baseline(config: BaselineConfig, scale: TargetScale, features: dict[str, Any]) -> Baseline:
    """The baseline of a configuration, not fitted."""
    return BASELINES[config.name].build(config, scale, features)


def restored_baseline(checkpoint: Mapping[str, Any]) -> Baseline:
    """The baseline of :meth:`Baseline.checkpoint`.

    Raises:
        ValueError: If it predicts something else than the fitted one did.
        KeyError, TypeError: If it is no such checkpoint.
    """
    from pyg_kernels.datasets import MoleculeDataset

    featurizer = featurizer_of(checkpoint["features"])
    config = BaselineConfig(**checkpoint["baseline"])
    scale = TargetScale(**checkpoint["targets"])
    baseline = new_baseline(config, scale, checkpoint["features"])
    baseline.reference = MoleculeDataset.from_smiles(checkpoint["smiles"], featurizer=featurizer)
    baseline.restore(checkpoint["weights"])
    found = baseline.standardized(baseline.reference[:PROBED], progress=False)
    if not torch.allclose(found, checkpoint["probe"], rtol=1e-4, atol=1e-4):
        raise ValueError("its predictions of molecules that it was fitted to have changed")
    return baseline


@dataclass(frozen=True)
class BaselineKind:
    """One row of the comparison.

    Args:
        build: From a :class:`BaselineConfig`, scale and features to a baseline.
        iterations (int, optional): Of Weisfeiler-Lehman; ``None`` for a Gaussian process on walks.
        bond_features (bool): Whether the kernel reads bond features.
    """

    build: Callable[[BaselineConfig, TargetScale, dict[str, Any]], Baseline]
    iterations: int | None = None
    bond_features: bool = True


def _subtree_ridge(
    config: BaselineConfig, scale: TargetScale, features: dict[str, Any]
) -> Baseline:
    from benchmarks.harness.molecules.subtree_ridge import SubtreeRidge

    return SubtreeRidge(config, scale, features)


def _walk_process(config: BaselineConfig, scale: TargetScale, features: dict[str, Any]) -> Baseline:
    from benchmarks.harness.molecules.walk_process import WalkProcess

    return WalkProcess(config, scale, features)


BASELINES: dict[str, BaselineKind] = {
    "wl-subtree-3": BaselineKind(_subtree_ridge, iterations=3),
    "wl-subtree-6": BaselineKind(_subtree_ridge, iterations=6),
    "random-walk-gp": BaselineKind(_walk_process),
}
