"""Split conformal intervals."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pyg_kernels.molecules import MoleculeRegressor
from tests.molecules.sets import LOGP, SMILES

POTENCIES = (
    Path(os.environ.get("PYG_KERNELS_DATA", "")) / "molecules/moleculeace/CHEMBL2047_EC50.csv"
)


def test_intervals_are_the_quantile_of_the_scores_times_the_deviation() -> None:
    fitted = MoleculeRegressor("wl-ridge", validation_fraction=0.5).fit(SMILES, LOGP)
    mean, std = fitted.predict(SMILES, return_std=True)
    low, high = fitted.predict_interval(SMILES, coverage=0.8)
    rank = math.ceil(21 * 0.8)
    width = np.sort(fitted.scores_[:, 0])[rank - 1]
    np.testing.assert_allclose(low, mean - width * std)
    np.testing.assert_allclose(high, mean + width * std)


@pytest.mark.parametrize("ensemble_size", [1, 3])  # one validation part counts once
def test_a_coverage_that_the_validation_part_cannot_show_is_refused(ensemble_size: int) -> None:
    made = MoleculeRegressor("wl-ridge", ensemble_size=ensemble_size)
    fitted = made.fit(SMILES, LOGP, validation=np.arange(4))
    assert fitted.scores_.shape == (4, 1)
    fitted.predict_interval(SMILES, coverage=0.8)
    with pytest.raises(
        ValueError, match=r"coverage=0.9 needs 9 validation molecules.* there are 4"
    ):
        fitted.predict_interval(SMILES, coverage=0.9)
    with pytest.raises(ValueError, match="coverage=1"):
        fitted.predict_interval(SMILES, coverage=1)


@pytest.mark.skipif(
    not POTENCIES.is_file(), reason="PYG_KERNELS_DATA names no folder with MoleculeACE"
)
@pytest.mark.parametrize("model", ["wl-gp", "wl-ridge"])
def test_intervals_cover_real_potencies(model: str) -> None:
    table = pd.read_csv(POTENCIES).sample(frac=1, random_state=0)
    smiles, y = table["smiles"].tolist(), table["y [pEC50/pKi]"].to_numpy()
    fitted = MoleculeRegressor(model, validation_fraction=0.3).fit(smiles[:400], y[:400])
    for coverage in (0.5, 0.8, 0.9):
        low, high = fitted.predict_interval(smiles[400:], coverage)
        covered = np.mean((low <= y[400:]) & (y[400:] <= high))
        # the standard errors of 120 validation molecules and of the test part, three times
        assert abs(covered - coverage) < 3 * math.sqrt(
            coverage * (1 - coverage) * (1 / 120 + 1 / 231)
        )
