import numpy as np
import pytest
from rdkit import Chem

from pyg_kernels.chem import ATOM_FEATURES, BOND_FEATURES, Feature

EVERY = ATOM_FEATURES + BOND_FEATURES


def test_names_and_widths_are_those_of_the_paper() -> None:
    assert [(f.name, f.width) for f in ATOM_FEATURES] == [
        ("element", 44),
        ("degree", 7),
        ("hydrogens", 6),
        ("implicit valence", 7),
        ("aromatic", 1),
    ]
    assert [(f.name, f.width) for f in BOND_FEATURES] == [
        ("type", 5),
        ("conjugated", 1),
        ("in ring", 1),
    ]


@pytest.mark.parametrize("feature", EVERY, ids=lambda feature: feature.name)
def test_each_listed_value_has_its_own_code(feature: Feature) -> None:
    assert feature.encode(feature.values).tolist() == list(range(len(feature.choices)))
    assert feature.num_codes == len(feature.choices) + feature.has_unknown


@pytest.mark.parametrize("feature", [f for f in EVERY if f.has_unknown], ids=lambda f: f.name)
def test_every_other_value_is_unknown(feature: Feature) -> None:
    others = sorted(set(range(300)) - set(feature.values))
    assert set(feature.encode(others).tolist()) == {len(feature.choices)}


def test_elements_are_named_by_their_atomic_numbers() -> None:
    element = ATOM_FEATURES[0]
    table = Chem.GetPeriodicTable()
    assert [table.GetElementSymbol(number) for number in element.values] == list(element.choices)
    assert element.encode([6, 7, 8, 14, 34, 0, 92]).tolist() == [0, 1, 2, 5, 26, 43, 43]


def test_an_indicator_fills_one_column() -> None:
    aromatic = ATOM_FEATURES[-1]
    assert aromatic.is_indicator
    assert aromatic.encode([False, True]).tolist() == [0, 1]
    assert aromatic.encode([False]).dtype == np.uint8
