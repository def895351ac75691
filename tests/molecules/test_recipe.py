"""Several models together: ``model='auto'``, weights of members, one network taught by all."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem
from rdkit.Chem.Scaffolds.MurckoScaffold import MakeScaffoldGeneric

from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor, estimators, load, recipe
from pyg_kernels.molecules.analogues import analogues
from pyg_kernels.molecules.inputs import read_molecules
from pyg_kernels.molecules.methods import Outputs, Task, stacked_weights
from pyg_kernels.molecules.training import TrainedNetwork
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES, regressor, reloaded, run, train

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
        found, least, training = recipe.recipe(task, number, weighted)
        assert found == models and bool(training) == (number == 50_000), (task, number)
        assert least == (2 if training and task == ONE else 1)


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
    with patch.object(TrainedNetwork, "fit", autospec=True, side_effect=KeyError) as fit:
        for made, expected in (
            (MoleculeRegressor("auto", batch_size=7, **given), (25, 7, 0.005)),
            (MoleculeRegressor("wl", **given), (60, 64, 0.001)),
        ):
            with pytest.raises(KeyError):
                made.fit(SMILES, LOGP)
            options = fit.call_args.args[0].options
            assert (options.epochs, options.batch_size, options.learning_rate) == expected
    monkeypatch.setattr(recipe, "NETWORKS_FROM", 40)
    for size, number in ((1, 2), (3, 3)):
        fitted = regressor("auto", ensemble_size=size).fit(SMILES, LOGP)
        assert [member.model for member in fitted.members_] == NETWORKS * number


def test_the_command_says_what_it_is(folder: Path) -> None:
    pd.read_csv(folder / "m.csv")[:20].to_csv(folder / "m.csv", index=False)
    assert "auto is pooled for 18 molecules" in train(folder, "run", "y")
    assert json.loads((folder / "run" / "run.json").read_text())["model"] == ["pooled"]


def test_it_starts_from_the_networks_that_are_given() -> None:
    start = regressor(["gp", "gine"], learning_rate=1e-12).fit(SMILES, LOGP)
    made = regressor("auto", learning_rate=1e-12, random_state=1)
    fitted = made.fit(SMILES, LOGP, start_from=start)
    assert fitted.models_ == ["gine"]
    found, expected = fitted.members_[0].net, start.members_[1].net
    torch.testing.assert_close([*found.parameters()], [*expected.parameters()])
    process = MoleculeRegressor("gp").fit(SMILES, LOGP)
    with pytest.raises(ValueError, match="model='auto' starts from networks: start_from has gp"):
        MoleculeRegressor("auto").fit(SMILES, LOGP, start_from=process)


def weights(kind: str, truth: Any, *means: Any, number: int) -> Any:
    """The weights of models that the first `number` rows of the validation part give."""
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
    # a model that is far off is left out, however few rows there are
    assert weights("regression", truth, means[0], 100 * means[1], number=12)[1] < 1e-3
    truth = np.random.default_rng(0).integers(0, 2, (20_000, 1)).astype(float)
    means = 0.5 + 0.9 * (truth - 0.5), 0.5 + 0.2 * (truth - 0.5)
    few, some, many = (weights("binary", truth, *means, number=n)[0] for n in (2, 100, 20_000))
    assert few < 0.6 < some < 0.98 < many


# One network learns what an estimator's members predict for analogues of the molecules


def found_of(smiles: list[str], number: int, seed: int = 0) -> list[str]:
    return analogues(read_molecules(smiles), number, seed).smiles


def bare(text: str) -> str:
    """A molecule without its elements and bond types: only which atoms are bonded."""
    return str(Chem.MolToSmiles(MakeScaffoldGeneric(Chem.MolFromSmiles(text))))


def test_analogues_have_other_elements_in_the_same_places() -> None:
    found = found_of(SMILES, 200)
    assert len(found) == len(set(found)) == 200
    assert not {*found} & {Chem.CanonSmiles(text) for text in SMILES}
    assert {*map(bare, found)} <= {*map(bare, SMILES)}
    assert found == [Chem.CanonSmiles(text) for text in found]
    assert found == found_of(SMILES, 200) != found_of(SMILES, 200, seed=1)


def test_elements_are_those_of_atoms_with_as_many_bonds_frequent_ones_more_often() -> None:
    """In these rings oxygen and sulfur have two bonds; CH and N have three."""
    made = map(Chem.MolFromSmiles, found_of(["c1ccoc1", "c1ccsc1", "c1ccncc1"] * 4, 60))
    counts = [Counter(atom.GetSymbol() for atom in molecule.GetAtoms()) for molecule in made]
    assert set().union(*counts) == {"C", "N", "O", "S"}
    assert all(count["O"] + count["S"] == (count.total() == 5) for count in counts)
    found = found_of(["CC(C)(C)CC(C)(C)CC(C)(C)C", "CO", *["CF"] * 9], 60)
    ends = Counter(atom for text in found for atom in text if atom in "OF")
    assert ends["F"] > 2 * ends["O"] > 0


def test_charges_isotopes_radicals_and_hydrogen_stay() -> None:
    """They stay also beside other elements with as many bonds. A lone element cannot change."""
    for smiles in ("[2H]C([2H])[2H]", "[Na+].[Cl-]", "C", "[CH3]", "[H][H]", "*"):
        assert found_of([smiles], 5) == [], smiles
    given = ["CC(C)(C)CC([O-])=O", "C[N+](C)(C)CCS", "[13CH3]CO", "CC(C)(C)SN"]
    given += ["C=[N+]=[N-]", "CC[CH2]"]
    radical = Chem.Atom.GetNumRadicalElectrons

    def kept(text: str) -> list[Any]:
        atoms = Chem.MolFromSmiles(text).GetAtoms()
        return sorted(
            (atom.GetSymbol(), *marks)
            for atom in atoms
            if any(marks := (atom.GetFormalCharge(), atom.GetIsotope(), radical(atom)))
        )

    known = [kept(text) for text in given]
    found = [kept(text) for text in found_of(given, 40)]
    assert len(found) == 40 and all(each in known for each in found)


def test_stereo_centres_that_are_none_any_more_are_forgotten() -> None:
    given = ["C[C@H](F)Cl", "CC(F)Cl", "CN(F)Cl", "F/C=C/F", "FC=CF", "F/N=N/F", "ClC(Cl)Cl"]
    found = found_of(given, 40)
    assert len(found) == 40
    assert [Chem.CanonSmiles(text) for text in found] == found


def test_extra_numbers_are_those_of_the_molecule_it_was_made_of() -> None:
    rings = ["c1ccoc1", "c1ccccc1CC", "C1CCCCCC1", "c1ccncc1"]
    frame = pd.DataFrame({"smiles": rings, "atoms": [5.0, 8.0, 7.0, 6.0]})
    found = analogues(read_molecules(frame), 12, 0)
    assert found.columns == ["atoms"]
    sizes = [Chem.MolFromSmiles(text).GetNumAtoms() for text in found.smiles]
    np.testing.assert_array_equal(found.extra[:, 0], sizes)


@pytest.fixture
def learned() -> Iterator[Mock]:
    """Notes each member that is fitted, and the examples that it learns from."""
    store = estimators.store
    with patch.object(store, "fit_once", wraps=store.fit_once) as fit_once:
        yield fit_once


def test_a_network_learns_what_the_members_say(learned: Mock) -> None:
    y = np.stack([LOGP, np.arange(len(SMILES))], 1).astype(float)
    y[3, 0] = np.nan
    weight = 1.0 + np.arange(len(SMILES)) % 2
    made = partial(regressor, ["wl-ridge", "gine"], epochs=5, ensemble_size=2)
    held_out = np.arange(0, len(SMILES), 8)
    fitted = made(distill=1.5).fit(SMILES, y, weight, validation=held_out)
    *members, (student, examples, _) = (call.args for call in learned.call_args_list)
    assert [member.model for member, *_ in members] == ["wl-ridge", "gine"] * 2
    assert fitted.members_ == [student] and fitted.models_ == ["gine"]
    assert fitted.teachers_ == ["wl-ridge", "gine"]
    assert student.options.epochs == 3 and fitted.model_weights_ == [1]
    np.testing.assert_array_equal(examples.valid, held_out)
    number, new = len(SMILES), math.ceil(1.5 * (len(SMILES) - len(held_out)))
    fitted_to = {bare(SMILES[i]) for i in range(number) if i not in held_out}
    assert {*map(bare, examples.molecules.smiles[number:])} <= fitted_to
    assert examples.molecules.smiles[:number] == SMILES and len(examples.molecules) == number + new
    rest = [i for i in range(number + new) if i not in held_out]
    np.testing.assert_array_equal(examples.train, rest)
    np.testing.assert_array_equal(examples.y[:number], y)
    np.testing.assert_array_equal(examples.weight[number:], weight.mean())
    teacher = made(refit=False).fit(SMILES, y, weight, validation=held_out)
    said = teacher.predict(examples.molecules.smiles[number:])
    np.testing.assert_allclose(examples.y[number:], said, rtol=1e-5, atol=1e-5)
    errors = (y - fitted.predict(SMILES))[held_out] ** 2
    wanted = [np.average(e[~np.isnan(e)], weights=weight[held_out][~np.isnan(e)]) for e in errors.T]
    np.testing.assert_allclose(student.noise, wanted, rtol=1e-5)


def test_members_hold_the_same_molecules_out(learned: Mock) -> None:
    """Otherwise some would teach what they have seen of the others' validation parts."""
    regressor(["mean", "wl"], distill=1, ensemble_size=3).fit(SMILES, LOGP)
    first, *others = (call.args[1].valid for call in learned.call_args_list)
    assert len(others) == 6
    for valid in others:
        np.testing.assert_array_equal(valid, first)


def test_it_is_one_network_ever_after(tmp_path: Path) -> None:
    """Predictions, intervals, vectors, explanations, saved and loaded."""
    y = np.where(np.arange(len(SMILES)) % 2, LOGP, 0.0)
    fitted = regressor(["wl", "graph-kernel"], distill=1, ensemble_size=2).fit(SMILES, y)
    alone = regressor("wl").fit(SMILES, y)
    assert fitted.transform(SMILES).shape == alone.transform(SMILES).shape
    assert np.isnan(fitted.spikes_).all()
    low, high = fitted.predict_interval(SMILES, coverage=0.5)
    mean, std = fitted.predict(SMILES, return_std=True)
    assert (low < mean).all() and (mean < high).all() and np.ptp(std) == 0
    found = fitted.explain(SMILES[:2])
    np.testing.assert_allclose(found.output, mean[:2], rtol=1e-4, atol=1e-4)
    again = reloaded(fitted, tmp_path)
    np.testing.assert_array_equal(again.predict(SMILES), mean)
    assert again.models_ == fitted.models_ and again.distill == 1
    assert again.teachers_ == ["wl", "graph-kernel"]
    other = regressor("wl", distill=0).fit(SMILES, LOGP, start_from=fitted)
    assert other.models_ == ["wl"]
    with pytest.raises(ValueError, match="anew: expected start_from"):
        regressor("wl", distill=1).fit(SMILES, LOGP, start_from=fitted)


def test_an_interrupted_fit_is_taken_up(tmp_path: Path) -> None:
    made = regressor(["gp", "wl"], distill=1)
    interrupted = patch.object(estimators, "analogues", side_effect=KeyboardInterrupt)
    with interrupted, pytest.raises(KeyboardInterrupt):
        made.fit(SMILES, LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    made.fit(SMILES, LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    whole = regressor(["gp", "wl"], distill=1).fit(SMILES, LOGP)
    np.testing.assert_array_equal(made.predict(SMILES), whole.predict(SMILES))


def test_auto_distills_where_it_has_networks(learned: Mock) -> None:
    """Members learn the target's spike separately; the network that they teach does not."""
    y = np.where(np.arange(len(SMILES)) % 2, LOGP, 0.0)
    with patch.multiple(recipe, LARGE_FROM=40, NETWORKS_FROM=40):
        fitted = regressor("auto", distill=4, ensemble_size=2).fit(SMILES, y)
    assert fitted.models_ == ["wl"]
    members = [call.args[0] for call in learned.call_args_list]
    found = [(member.model, len(member.task.spikes)) for member in members]
    assert found == [("wl", 1), ("graph-kernel", 1)] * 2 + [("wl", 0)]


def test_members_stay_where_few_analogues_are_found(caplog: pytest.LogCaptureFixture) -> None:
    chains = ["C" * n for n in range(1, 21)]
    y = np.arange(20) / 10
    fitted = regressor(["gp", "wl"], distill=0.01).fit(chains, y)
    assert "found 0 of 1 analogues: all members are kept" in caplog.text
    alone = regressor(["gp", "wl"]).fit(chains, y)
    assert fitted.models_ == ["gp", "wl"] and fitted.teachers_ == []
    np.testing.assert_array_equal(fitted.predict(chains), alone.predict(chains))


def test_the_command_distills(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "y --model gp wl --epochs 2 --ensemble-size 2 --distill"
    said = train(folder, "run", f"{words} 2")
    assert "wl learns what all members predict of 64 analogues" in said
    assert load(folder / "run" / "model").models_ == ["wl"]
    assert json.loads((folder / "run" / "run.json").read_text())["teachers"] == ["gp", "wl"]
    run(folder, "report +.")
    assert "wl, taught by gp + wl" in capsys.readouterr().out
    said = train(folder, "other", f"{words} nan", status=2)
    assert "--distill: 'nan': expected a number from 0 to 1000" in said
