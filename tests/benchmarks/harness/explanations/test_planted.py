"""Molecules with a planted target, and runs of measured ones."""

from dataclasses import replace

import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
pytest.importorskip("captum", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations.study import Planted, planted, spread_places
from tests.benchmarks.harness.explanations.small import split


def test_counts_and_atoms_of_the_group() -> None:
    found = planted(split(), "cF")
    assert found.split.data.targets.ravel().tolist() == [1, 2, 0, 0, 0, 1, 0, 1, 0, 3]
    assert found.evidence[0].tolist() == [False] * 5 + [True, True]
    assert not found.evidence[3].any()


def test_molecules_with_the_group_are_explained() -> None:
    made = planted(split(), "cF")
    found = Planted(replace(made.split, parts=split().parts), made.evidence)
    assert found.explained(10, seed=0) == [7, 9]
    assert found.explained(1, seed=0) in ([7], [9])
    assert found.explained(1, seed=0) == found.explained(1, seed=0)
    assert found.chance([7, 9]) == pytest.approx((2 / 7 + 6 / 9) / 2)
    without = Planted(replace(made.split, parts=split((2, 3)).parts), made.evidence)
    with pytest.raises(InputError, match="no molecule of the test part has the group"):
        without.explained(1, seed=0)


@pytest.mark.parametrize(
    ("smarts", "message"), [("c(", "SMARTS pattern"), ("[Si]", "0 times each|more often")]
)
def test_groups_that_cannot_be_planted(smarts: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        planted(split(), smarts)


def test_drawn_molecules_are_spread_over_their_targets() -> None:
    data = split((9, 0, 3, 7, 5))
    assert spread_places(data, 3) == [0, 5, 9]
    assert spread_places(data, 99) == [0, 3, 5, 7, 9]
