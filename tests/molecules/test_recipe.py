"""``model='auto'`` is what the task and the number of molecules say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("lightning")

from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor, load, recipe
from pyg_kernels.molecules.methods import Examples, Outputs, Task, stacked_weights
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES

NETWORKS = [*recipe.NETWORKS_OF_AUTO]
ONE, TWELVE, CLASSES = Task("regression", 1), Task("binary", 12), Task("multiclass", 3)


@pytest.mark.parametrize(
    ("task", "number", "weighted", "models"),
    [
        (ONE, 100, False, ["gp"]),
        (ONE, 100, True, ["wl-forest", *NETWORKS]),
        (ONE, 5_000, False, ["gp", *NETWORKS]),
        (ONE, 50_000, False, NETWORKS),
        (CLASSES, 100, False, ["gp", *NETWORKS]),
        (CLASSES, 100, True, ["wl-forest", *NETWORKS]),
        (TWELVE, 9_900, False, NETWORKS),  # 25 matrices of 392 MB
        (CLASSES, 50_000, False, NETWORKS),
    ],
)
def test_task_and_number_decide(task: Task, number: int, weighted: bool, models: list[str]) -> None:
    found, training = recipe.recipe(task, number, weighted)
    assert found == models
    assert bool(training) == (number == 50_000)


def test_it_is_the_models_that_it_stands_for(tmp_path: Path) -> None:
    auto = MoleculeRegressor("auto").fit(SMILES, LOGP)
    assert auto.models_ == ["gp"]
    same = MoleculeRegressor("gp").fit(SMILES, LOGP)
    np.testing.assert_array_equal(auto.predict(SMILES[:5]), same.predict(SMILES[:5]))
    classifier = MoleculeClassifier("auto", **SMALL).fit(SMILES, AROMATIC)
    assert classifier.models_ == ["gp", *NETWORKS]
    classifier.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert loaded.model == "auto" and loaded.models_ == classifier.models_
    np.testing.assert_array_equal(loaded.predict_proba(SMILES), classifier.predict_proba(SMILES))


def test_many_molecules_are_trained_on_in_fewer_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LARGE_FROM", 40)
    given = {name: value for name, value in SMALL.items() if name != "epochs"}
    monkeypatch.setattr("pyg_kernels.molecules.training.TrainedNetwork.fit", _kept)
    monkeypatch.setattr(MoleculeRegressor, "_validated", _nothing)
    fitted = MoleculeRegressor("auto", batch_size=7, **given).fit(SMILES, LOGP)
    options = fitted.members_[-1].options
    assert (options.epochs, options.batch_size, options.learning_rate) == (25, 7, 0.005)
    named = MoleculeRegressor("wl", **given).fit(SMILES, LOGP).members_[0].options
    assert (named.epochs, named.batch_size, named.learning_rate) == (60, 64, 0.001)


def _kept(member: Any, examples: Examples) -> None:
    member.noise = np.zeros(1)


def _nothing(estimator: Any, member: Any, examples: Examples) -> Outputs:
    zeros = np.zeros((len(examples.valid), 1))
    return Outputs(zeros, zeros + 1)


def test_it_starts_from_the_networks_that_are_given() -> None:
    start = MoleculeRegressor(["gp", "gine"], **SMALL).fit(SMILES, LOGP)
    fitted = MoleculeRegressor("auto", **SMALL).fit(SMILES, LOGP, start_from=start)
    assert fitted.models_ == ["gine"]
    process = MoleculeRegressor("gp").fit(SMILES, LOGP)
    with pytest.raises(ValueError, match="model='gp' is fitted at once: start_from takes networks"):
        MoleculeRegressor("auto").fit(SMILES, LOGP, start_from=process)
    with pytest.raises(ValueError, match="model='auto': expected auto alone, one of"):
        MoleculeRegressor(["auto", "gp"]).fit(SMILES, LOGP)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_small_validation_parts_choose_little(kind: str) -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 20_000)[:, None].astype(float)
    good, bad = (0.5 + share * (truth - 0.5) for share in (0.9, 0.2))
    noise = random.normal(size=(2, *truth.shape)) * (kind == "regression")
    means = [good + 0.1 * noise[0], bad + 0.3 * noise[1]]

    def weights(number: int) -> Any:
        parts = [Outputs(mean[:number], np.zeros((number, 1))) for mean in means]
        return stacked_weights([(truth[:number], parts)], Task(kind, 1))

    few, some, many = weights(2), weights(100), weights(20_000)
    assert few[0] < 0.7 < some[0] < 0.98 < many[0]
    for found in (few, some, many):
        assert found.sum() == pytest.approx(1) and (found >= 0).all()
