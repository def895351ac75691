"""All methods on all explained molecules, each result kept as soon as it is there."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.harness.errors import InputError, naming_files
from benchmarks.harness.explanations.measures import (
    Fidelity,
    NumberNet,
    precision,
    selected_atoms,
)
from benchmarks.harness.explanations.methods import explain, explainer_of
from benchmarks.harness.explanations.planted import PlantedData
from benchmarks.harness.explanations.setting import Compared
from benchmarks.harness.files import write_text

Record = dict[str, Any]
MEASURES = ("precision", "fid+", "fid-", "change without", "change alone", "seconds")


@dataclass(frozen=True)
class Comparison:
    """Methods that explain the same predictions.

    Args:
        planted: The molecules.
        places: Positions of those that are explained.
        net: The network, in evaluation mode, on `device`.
        scale: Mean and standard deviation of the number that it predicts.
        compared: How hard methods try.
        seed (int): Of methods that draw.
        device: Of the computations.
        folder (Path): Where the results of each method lie.
    """

    planted: PlantedData
    places: Sequence[int]
    net: nn.Module
    scale: tuple[float, float]
    compared: Compared
    seed: int
    device: torch.device
    folder: Path

    def run(
        self, methods: Sequence[str], tell: Callable[[str, int], None]
    ) -> dict[str, list[Record]]:
        """The records of each method, one a molecule, in the order of the molecules.

        Args:
            methods: Keys of ``methods.METHODS``.
            tell: Called with the method and the number of its molecules that are done.
        """
        return {name: self._records(name, tell) for name in methods}

    def _records(self, name: str, tell: Callable[[str, int], None]) -> list[Record]:
        path = self.folder / f"{name}.json"
        done = {record["molecule"]: record for record in read_records(path)}
        todo = [place for place in self.places if place not in done]
        most = int(self.planted.data.molecules.targets.max())
        fidelity = Fidelity(NumberNet(self.net, *self.scale), most)
        explainer = explainer_of(name, self.net, self.compared)
        if todo:  # what is done once must not be counted as the time of the first molecule
            explain(explainer, self._molecule(todo[0]), self.seed)
        for place in todo:
            molecule, evidence = self._molecule(place), self.planted.evidence[place]
            found = explain(explainer, molecule, self.seed + place)
            selected = selected_atoms(found.nodes, int(evidence.sum()))
            done[place] = {
                "molecule": place,
                "smiles": molecule.smiles,
                "precision": precision(selected, evidence),
                **fidelity(molecule, selected),
                "seconds": found.seconds,
                "nodes": found.nodes.tolist(),
                "edges": found.edges.tolist(),
            }
            with naming_files(path):
                write_text(path, json.dumps(list(done.values())))
            tell(name, len(done))
        return [done[place] for place in self.places]

    def _molecule(self, place: int) -> Any:
        return self.planted.data.molecules[place].to(self.device)


def read_records(path: Path) -> list[Record]:
    """The records of a method that lie in a file, none where there is no file.

    Raises:
        InputError: If the file is damaged.
    """
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        if all({"molecule", "nodes", "edges", *MEASURES} <= set(record) for record in records):
            return list(records)
    except (OSError, ValueError, TypeError):
        pass
    raise InputError(f"{path} is damaged; remove it to explain its molecules again")
