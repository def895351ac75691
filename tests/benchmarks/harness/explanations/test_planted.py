"""Molecules with a planted target."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations.measured import spread_places
from benchmarks.harness.explanations.planted import PlantedData, planted_data
from benchmarks.harness.explanations.setting import Molecules
from benchmarks.harness.molecules.data import DataChoice, MoleculeData
from tests.benchmarks.harness.explanations.small import molecules


def measured(test: tuple[int, ...] = (6, 7, 9)) -> MoleculeData:
    parts = {"train": torch.arange(6), "valid": torch.tensor([8]), "test": torch.tensor(test)}
    return MoleculeData(molecules(), parts, DataChoice())


def test_counts_and_atoms_of_the_group() -> None:
    found = planted_data(Molecules(smarts="cF"), measured())
    assert found.data.molecules.targets.flatten().tolist() == [1, 2, 0, 0, 0, 1, 0, 1, 0, 3]
    assert found.evidence[0].tolist() == [False] * 5 + [True, True]
    assert not found.evidence[3].any()


def test_molecules_with_the_group_are_explained() -> None:
    data, found = measured(), planted_data(Molecules(smarts="cF"), measured())
    planted = PlantedData(
        MoleculeData(found.data.molecules, data.parts, data.choice), found.evidence
    )
    assert planted.explained(10, seed=0) == [7, 9]
    assert planted.explained(1, seed=0) in ([7], [9])
    assert planted.explained(1, seed=0) == planted.explained(1, seed=0)
    without = MoleculeData(found.data.molecules, {"test": torch.tensor([2, 3])}, data.choice)
    with pytest.raises(InputError, match="no molecule of the test part has the group"):
        PlantedData(without, found.evidence).explained(1, seed=0)


@pytest.mark.parametrize(
    ("smarts", "message"), [("c(", "SMARTS pattern"), ("[Si]", "0 times each|more often")]
)
def test_groups_that_cannot_be_planted(smarts: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        planted_data(Molecules(smarts=smarts), measured())


def test_drawn_molecules_are_spread_over_their_targets() -> None:
    data = measured((9, 0, 3, 7, 5))
    assert spread_places(data, 3) == [0, 5, 9]
    assert spread_places(data, 99) == [0, 3, 5, 7, 9]
