"""``model='auto'`` is what the task and the number of molecules say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor, recipe
from pyg_kernels.molecules.methods import Examples, Outputs, Task, stacked_weights
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES, reloaded, train

NETWORKS = [*recipe.NETWORKS_OF_AUTO]
ONE, TWELVE, CLASSES = Task("regression", 1), Task("binary", 12), Task("multiclass", 3)


def test_task_and_number_decide() -> None:
    for task, number, weighted, models in (
        (ONE, 100, False, ["pooled"]),
        (ONE, 100, True, ["wl-forest", *NETWORKS]),
        (ONE, 5_000, False, ["pooled", *NETWORKS]),
        (ONE, 50_000, False, NETWORKS),
        (CLASSES, 100, False, ["gp", *NETWORKS]),
        (CLASSES, 100, True, ["wl-forest", *NETWORKS]),
        (TWELVE, 9_900, False, NETWORKS),  # 25 matrices of 392 MB
        (Task("regression", 40), 5_000, False, NETWORKS),  # 41 of 200 MB, in double precision
        (Task("regression", 40), 5_001, False, ["pooled", *NETWORKS]),
        (Task("regression", 50), 5_001, False, NETWORKS),  # 51 of 100 MB, and trees of 3.5 GB
        (CLASSES, 50_000, False, NETWORKS),
    ):
        found, training = recipe.recipe(task, number, weighted)
        assert found == models and bool(training) == (number == 50_000), (task, number)


def test_it_is_the_models_that_it_stands_for(tmp_path: Path) -> None:
    few = SMILES[:16], LOGP[:16]
    auto = MoleculeRegressor("auto").fit(*few)
    assert auto.models_ == ["pooled"]
    same = MoleculeRegressor("pooled").fit(*few)
    np.testing.assert_array_equal(auto.predict(SMILES[:5]), same.predict(SMILES[:5]))
    classifier = MoleculeClassifier("auto", **SMALL).fit(SMILES[:20], AROMATIC[:20])
    assert classifier.models_ == ["gp", *NETWORKS]
    loaded = reloaded(classifier, tmp_path)
    assert loaded.model == "auto" and loaded.models_ == classifier.models_
    np.testing.assert_array_equal(loaded.predict_proba(SMILES), classifier.predict_proba(SMILES))


def test_many_molecules_are_trained_on_in_fewer_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LARGE_FROM", 40)
    given = {name: value for name, value in SMALL.items() if name != "epochs"}
    seen = []

    def enough(member: Any, examples: Examples) -> None:
        options = member.options
        seen.append((options.epochs, options.batch_size, options.learning_rate))
        raise ValueError("enough")

    monkeypatch.setattr("pyg_kernels.molecules.training.TrainedNetwork.fit", enough)
    for made in (
        MoleculeRegressor("auto", batch_size=7, **given),
        MoleculeRegressor("wl", **given),
    ):
        with pytest.raises(ValueError, match="enough"):
            made.fit(SMILES, LOGP)
    assert seen == [(25, 7, 0.005), (60, 64, 0.001)]


def test_the_command_says_what_it_is(folder: Path) -> None:
    pd.read_csv(folder / "m.csv")[:20].to_csv(folder / "m.csv", index=False)
    assert "auto is pooled here, of 18 molecules" in train(folder, "run", "y")
    assert json.loads((folder / "run" / "run.json").read_text())["model"] == ["pooled"]


def test_it_starts_from_the_networks_that_are_given() -> None:
    options = {**SMALL, "learning_rate": 1e-12}
    start = MoleculeRegressor(["gp", "gine"], **options).fit(SMILES, LOGP)
    options["random_state"] = 1
    fitted = MoleculeRegressor("auto", **options).fit(SMILES, LOGP, start_from=start)
    assert fitted.models_ == ["gine"]
    for one, other in zip(
        fitted.members_[0].net.parameters(), start.members_[1].net.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other)
    process = MoleculeRegressor("gp").fit(SMILES, LOGP)
    with pytest.raises(ValueError, match="model='auto' starts from networks: start_from has gp"):
        MoleculeRegressor("auto").fit(SMILES, LOGP, start_from=process)


def weights(kind: str, truth: Any, *means: Any, number: int) -> Any:
    """The weights that so many rows of the validation part give."""
    parts = [Outputs(mean[:number], np.zeros((number, 1))) for mean in means]
    found = stacked_weights([(truth[:number], parts)], Task(kind, 1))
    assert found.sum() == pytest.approx(1) and (found >= 0).all()
    return found


def test_small_validation_parts_choose_little() -> None:
    truth, *noise = np.random.default_rng(0).normal(size=(3, 20_000, 1))
    means = truth + 0.3 * noise[0], truth + 0.6 * noise[1]  # the best weights are 0.8 and 0.2
    few, many = (weights("regression", truth, *means, number=number) for number in (4, 20_000))
    assert abs(few[0] - 0.5) < 0.1
    assert many[0] == pytest.approx(0.8, abs=0.01)
    # what is far off is left out, however few there are
    assert weights("regression", truth, means[0], 100 * means[1], number=12)[1] < 1e-3
    truth = np.random.default_rng(0).integers(0, 2, (20_000, 1)).astype(float)
    means = 0.5 + 0.9 * (truth - 0.5), 0.5 + 0.2 * (truth - 0.5)
    few, some, many = (weights("binary", truth, *means, number=n)[0] for n in (2, 100, 20_000))
    assert few < 0.6 < some < 0.98 < many
