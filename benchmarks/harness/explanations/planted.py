"""Molecules of which it is known which atoms make the target."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.explanations.setting import Molecules
from benchmarks.harness.molecules.data import DataChoice, MoleculeData, load_molecules
from benchmarks.harness.task import PARTS


@dataclass(frozen=True)
class PlantedData:
    """Molecules whose target is the number of a functional group.

    Args:
        data: The molecules, the target and the split.
        evidence: ``(N,)`` bool of each molecule, True for atoms of the group.
    """

    data: MoleculeData
    evidence: list[Tensor]

    def explained(self, number: int, seed: int) -> list[int]:
        """Positions of test molecules that have the group, drawn at random if there are more.

        Raises:
            InputError: If the test part has none.
        """
        places = [i for i in self.data.parts["test"].tolist() if self.evidence[i].any()]
        if not places:
            raise InputError("no molecule of the test part has the group of --smarts")
        order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
        return sorted(places[i] for i in order[:number].tolist())


def measured_data(choice: Molecules, progress: bool = False) -> MoleculeData:
    """The molecules with their measured targets, split at random.

    Raises:
        InputError: If they cannot be read.
    """
    return load_molecules(_choice(choice), progress)


def planted_data(choice: Molecules, measured: MoleculeData) -> PlantedData:
    """The same molecules with the number of a group as their target, split at random.

    Raises:
        InputError: If there is no such group, or all molecules have equally many.
    """
    from benchmarks.corpora.planted_substructure import PlantedSubstructure

    with as_input_error():
        molecules: Any = PlantedSubstructure(measured.molecules, choice.smarts)
    parts = {part: getattr(molecules.split, part) for part in PARTS}
    return PlantedData(MoleculeData(molecules, parts, _choice(choice)), molecules.evidence)


def _choice(choice: Molecules) -> DataChoice:
    return DataChoice(
        dataset=choice.dataset,
        split="random",
        split_seed=0,
        root=choice.root,
        csv=choice.csv,
        smiles_column=choice.smiles_column,
        target_columns=choice.target_columns,
    )
