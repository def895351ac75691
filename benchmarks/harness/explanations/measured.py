"""Measured targets: the molecules that are drawn, and a network that the command line gives."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.errors import InputError, naming_files
from benchmarks.harness.explanations.attributions import Attribution, Attributor
from benchmarks.harness.explanations.networks import molecule_learner
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.molecules.learner import MoleculeLearner
from benchmarks.harness.molecules.regressor import MoleculeRegressor

Record = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """A network that was trained elsewhere.

    Args:
        path (str): Its checkpoint.
        learner: The network, in evaluation mode.
        digest (str): A fingerprint of the checkpoint.
    """

    path: str
    learner: MoleculeLearner
    digest: str

    def check(self, data: MoleculeData) -> None:
        """Explains one of the molecules, whose first target must be the network's.

        Raises:
            InputError: If the network was trained on another target or to classify, or has no
                attribution; the message names what differs.
        """
        expected, found = data.molecules.target_names[0], self.learner.scale.names[0]
        if found != expected:
            raise InputError(
                f"--checkpoint {self.path} was trained on the target {found!r}, not on {expected!r}"
            )
        if isinstance(self.learner, MoleculeRegressor) != (data.metric == "rmse"):
            kind, other = "predicts a number", "classes"
            if data.metric == "rmse":
                kind, other = "classifies", "a number"
            raise InputError(f"--checkpoint {self.path} {kind}, but {expected!r} is {other} here")
        measured_attributions(self.learner, data, number=1, best=1)


def given_network(path: str) -> Given:
    """The network of ``--checkpoint``.

    Raises:
        InputError: If it cannot be read, or is no network.
    """
    learner = molecule_learner(path)
    with naming_files(Path(path)):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    return Given(path, learner, digest)


def measured_attributions(
    learner: MoleculeLearner, data: MoleculeData, number: int, best: int
) -> list[Attribution]:
    """Attributions of test molecules, spread over their first target.

    Args:
        learner: On the CPU.
        data: The molecules.
        number (int): Of molecules, at most.
        best (int): Walks of each attribution.

    Raises:
        InputError: If the network has no attribution.
    """
    molecules: Any = data.molecules
    places: Sequence[int] = spread_places(data, number)
    if learner.features != molecules.featurizer.description():
        molecules, places = _featurised_anew(learner.features, molecules, places)
    attributor = Attributor(learner, best)
    return [attributor(molecules[place]) for place in places]


def spread_places(data: MoleculeData, number: int) -> list[int]:
    """Positions of test molecules from the smallest to the largest first target."""
    y = data.targets("test")[:, 0]
    known = data.parts["test"][~y.isnan()]
    order = known[y[~y.isnan()].argsort()]
    chosen = torch.linspace(0, len(order) - 1, min(number, len(order))).round().long()
    return [int(place) for place in order[chosen]]


def _featurised_anew(
    features: Record, molecules: Any, places: Sequence[int]
) -> tuple[Any, Sequence[int]]:
    """Some molecules with the features that a network was trained on."""
    from benchmarks.harness.molecules.featurizers import featurizer_of
    from pyg_kernels.datasets import MoleculeDataset

    chosen = MoleculeDataset.from_smiles(
        [molecules.smiles[place] for place in places],
        molecules.targets[list(places)],
        molecules.target_names,
        featurizer=featurizer_of(features),
    )
    return chosen, range(len(places))
