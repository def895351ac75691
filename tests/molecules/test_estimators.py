"""Fitting and predicting: what goes in, what comes out, what is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem
from sklearn.exceptions import NotFittedError

from pyg_kernels.kernels import KernelGP, KernelGPClassifier, molecule_kernels
from pyg_kernels.molecules import KERNEL_METHODS, NETWORKS, MoleculeClassifier, MoleculeRegressor
from pyg_kernels.molecules.inputs import read_molecules
from pyg_kernels.molecules.methods import Task, standardization
from tests.datasets.conftest import present
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES, regressor, reloaded

TWO_CONVS = "tests.molecules.nets:TwoConvs"
# Without the methods that the benchmarks add when they are imported.
OWN = [name for name, kind in KERNEL_METHODS.items() if kind.__module__.startswith("pyg_kernels.")]
MODELS = [*OWN, *NETWORKS, TWO_CONVS]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_fitted_and_comes_back_as_it_was(model: str, tmp_path: Path) -> None:
    y = np.stack([LOGP, -LOGP], 1)
    y[3, 0] = y[5, 1] = np.nan
    fitted = regressor(model).fit(SMILES, y)
    found = np.stack(fitted.predict(SMILES[:7], return_std=True))
    assert found.shape == (2, 7, 2) and (found[1] > 0).all()
    assert fitted.transform(SMILES[:3]).shape[0] == 3
    again = reloaded(fitted, tmp_path, trust=True)
    np.testing.assert_array_equal(again.predict(SMILES[:7], return_std=True), found)
    if model != "mean":
        with pytest.raises(ValueError, match=r"1 of 2 molecules .*: 1 'C1CC'"):
            fitted.predict(["C", "C1CC"])


def test_masked_labels_are_missing() -> None:
    labels = np.ma.masked_array([9, 9] + [0, 1] * 19, mask=[True] * 2 + [False] * 38)
    for made in (MoleculeClassifier("wl-ridge"), KernelGPClassifier(tune=False)):
        fitted = made.fit(SMILES, labels)
        assert list(fitted.classes_) == [0, 1]
        assert fitted.score(SMILES, labels) == fitted.score(SMILES[2:], labels[2:])


@pytest.mark.parametrize("model", ["wl-gp", "wl-ridge", "wl-forest", "wl"])
@pytest.mark.parametrize("kind", ["labels", "three", "several"])
def test_classes(model: str, kind: str, tmp_path: Path) -> None:
    labels: Any = {
        "labels": AROMATIC,
        "three": np.arange(len(SMILES)) % 3 + 5,
        "several": np.stack([LOGP > 1, LOGP > 2], 1).astype(float),
    }[kind]
    if kind == "several":
        labels[2, 0] = np.nan
    fitted = MoleculeClassifier(model, **SMALL).fit(SMILES, labels)
    found = fitted.predict_proba(SMILES[:9])
    assert found.shape == (9, 3 if kind == "three" else 2)
    assert ((found >= 0) & (found <= 1)).all()
    if kind != "several":
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
        expected = fitted.classes_[found.argmax(1)]
    else:
        expected = (found > 0.5).astype(int)
    np.testing.assert_array_equal(fitted.predict(SMILES[:9]), expected)
    assert 0 <= fitted.score(SMILES, labels) <= 1
    again = reloaded(fitted, tmp_path)
    np.testing.assert_array_equal(again.predict_proba(SMILES[:9]), found)


def test_methods_learn() -> None:
    for model in ("gp", "wl-gp", "wl-ridge"):
        assert MoleculeRegressor(model).fit(SMILES[:32], LOGP[:32]).score(SMILES, LOGP) > 0.8
    network = regressor("wl", epochs=30, hidden_channels=24, learning_rate=0.01)
    assert network.fit(SMILES, LOGP).score(SMILES, LOGP) > 0.8
    assert MoleculeClassifier("gp").fit(SMILES, AROMATIC).score(SMILES, AROMATIC) == 1
    # the strongest penalties differ by noise
    smiles = ["C" * n + end for n in range(1, 11) for end in "ONS"]
    fitted = MoleculeClassifier("wl-ridge").fit(smiles, ["O", "N", "S"] * 10)
    assert fitted.score(smiles, ["O", "N", "S"] * 10) == 1
    assert fitted.predict_proba(smiles).max(1).min() > 0.9


def test_forms_of_molecules_and_of_numbers() -> None:
    """RDKit's molecules, tables, nullable numbers, names that are numbers; dates are refused."""
    molecules = [Chem.MolFromSmiles(text) for text in SMILES]
    canonical = [Chem.MolToSmiles(mol) for mol in molecules]
    table = pd.DataFrame({"smiles": canonical})
    fitted = regressor("wl-ridge").fit(canonical, LOGP)
    again = regressor("wl-ridge").fit(table, pd.Series(LOGP))
    expected = fitted.predict(canonical)
    for X in (molecules, np.array(canonical), pd.Series(canonical), table):
        np.testing.assert_array_equal(fitted.predict(X), expected)
        np.testing.assert_array_equal(again.predict(X), expected)
    y = pd.DataFrame({"a": pd.Series(LOGP, dtype="Float64"), "b": LOGP})
    y.loc[3, "a"] = pd.NA
    plain = y.to_numpy(dtype=float, na_value=np.nan)
    found = [regressor("wl-ridge").fit(SMILES, each).predict(SMILES) for each in (y, plain)]
    np.testing.assert_array_equal(*found)
    table = pd.DataFrame({"smiles": SMILES, 0: LOGP, 1: -LOGP})
    assert regressor("wl-ridge").fit(table, LOGP).columns_ == ["0", "1"]
    with pytest.raises(ValueError, match="column 'd' has cells that are not numbers"):
        regressor("wl-ridge").fit(table.assign(d=pd.Timestamp("2020-01-01")), LOGP)


def test_forms_of_labels() -> None:
    """Classes are sorted, whatever a categorical's order; NaN among words is a missing label."""
    categories = pd.CategoricalDtype(["yes", "no"], ordered=True)
    missing: list[Any] = AROMATIC.tolist()
    missing[2] = float("nan")
    for labels in (pd.Series(AROMATIC).astype(categories), missing):
        fitted = MoleculeClassifier("wl-ridge").fit(SMILES, labels)
        assert fitted.classes_.tolist() == ["no", "yes"]
        assert ((fitted.predict_proba(SMILES)[:, 1] > 0.5) == (AROMATIC == "yes")).all()
        assert fitted.score(SMILES, labels) == 1
    table = pd.DataFrame({"number": (AROMATIC == "yes").astype(int), "word": AROMATIC})
    fitted = MoleculeClassifier("wl-ridge").fit(SMILES, table)
    assert (fitted.predict(SMILES) == table.to_numpy()).all()
    assert fitted.score(SMILES, table) == 1


@pytest.mark.parametrize(
    "model", ["pooled", "random-walk-gp", "wl-ridge", "wl-forest", "wl", "attentive-fp"]
)
def test_extra_columns_are_read(model: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"smiles": SMILES, "pH": generator.normal(7, 2, len(SMILES)), "one": 1.0})
    fitted = regressor(model, epochs=5, learning_rate=0.01).fit(table, 3 * table["pH"])
    found = fitted.predict(table)
    other = table.assign(pH=table["pH"] + 3, unused="text")
    assert np.abs(fitted.predict(other) - found).max() > 1e-3
    np.testing.assert_array_equal(fitted.predict(table.assign(one=1e9)), found)  # was constant
    reordered = table[["one", "pH", "smiles"]]
    np.testing.assert_array_equal(fitted.predict(reordered), found)
    if model != "random-walk-gp":
        assert fitted.transform(table[:2]).shape[0] == 2
    np.testing.assert_array_equal(reloaded(fitted, tmp_path).predict(table), found)
    for X in (SMILES, pd.DataFrame({"smiles": SMILES})):
        with pytest.raises(ValueError, match="X has no column 'pH', 'one'"):
            fitted.predict(X)


def test_pooled() -> None:
    y = np.stack([LOGP, -2 * LOGP], 1)
    y[3, 1] = np.nan
    fitted = MoleculeRegressor("pooled").fit(SMILES[:20], y[:20])
    found = fitted.predict(SMILES[30:], return_std=True)
    process, trees = fitted.members_[0].pool
    known = {"weights": process.weights_, "noise": process.noise_}
    gp = KernelGP(molecule_kernels(), random_state=0, tune=False, **known)
    each = [gp.fit(SMILES[:20], y[:20]).predict(SMILES[30:], return_std=True)]
    each.append(trees.predict(read_molecules(SMILES[30:]).graphs()))
    means, stds = map(np.stack, zip(*each, strict=True))
    weights = np.array([2 / 3, 1 / 3])
    precision = np.tensordot(weights, stds**-2, 1)
    expected = np.tensordot(weights, means / stds**2, 1) / precision
    np.testing.assert_allclose(found, (expected, precision**-0.5), rtol=1e-10)
    classes = MoleculeClassifier("pooled").fit(SMILES[:20], AROMATIC[:20])
    graphs = read_molecules(SMILES).graphs()
    pairs = [part.predict_proba(graphs)[0][:, 1] for part in classes.members_[0].pool]
    np.testing.assert_allclose(classes.predict_proba(SMILES)[:, 1], weights @ np.stack(pairs))


def test_processes_need_no_validation(tmp_path: Path) -> None:
    y = np.stack([LOGP, -2 * LOGP], 1)
    fitted = MoleculeRegressor(["gp", "wl-gp"]).fit(SMILES, y, validation=[])
    np.testing.assert_array_equal(fitted.model_weights_, [0.5, 0.5])
    assert all(len(member.rows) == len(SMILES) for member in fitted.members_)
    with pytest.raises(ValueError, match="needs 9 validation molecules"):
        fitted.predict_interval(SMILES)
    again = reloaded(fitted, tmp_path)
    np.testing.assert_array_equal(again.predict(SMILES), fitted.predict(SMILES))
    assert MoleculeClassifier("wl-gp").fit(SMILES, AROMATIC, validation=[]).score(SMILES, AROMATIC)
    for models in (["gp", "wl-ridge"], "wl", "auto"):
        with pytest.raises(ValueError, match="validation is empty"):
            MoleculeRegressor(models).fit(SMILES, LOGP, validation=[])
    with pytest.raises(ValueError, match="validation is empty"):  # each class must be learned
        MoleculeClassifier("wl").fit(SMILES[:2], ["a", "b"])


def test_weights_of_molecules_count() -> None:
    y = np.where(np.arange(len(SMILES)) % 2, 1.0, -1.0)
    weight = np.where(y > 0, 1.0, 1e-3)
    for model in ("wl-ridge", "wl-forest", "wl"):
        plain, fitted = (
            regressor(model, epochs=8, learning_rate=0.05).fit(["CCO"] * len(y), y, sample_weight)
            for sample_weight in (None, weight)
        )
        assert fitted.predict(["CCO"])[0] > plain.predict(["CCO"])[0] + 0.1


@pytest.mark.parametrize("model", ["wl-ridge", "gin"])
def test_molecules_of_weight_zero_have_no_influence(model: str) -> None:
    """They influence neither what is learned nor the validation nor the deviation."""
    y, weight = LOGP.copy(), np.ones(40)
    y[[0, *range(10, 20)]], weight[[0, *range(10, 20)]] = 1e4, 0
    there = np.flatnonzero(weight)
    valid = np.array([0, 1, 2, 3, 4, 12, 13])
    fitted = regressor(model).fit(SMILES, y, weight, validation=valid)
    mean, std = fitted.predict(SMILES, return_std=True)
    assert std.max() < 2 and np.abs(mean).max() < 10
    assert np.isnan(fitted.scores_).sum() == 3
    columns = [pd.DataFrame({"smiles": SMILES, "pH": LOGP}) for _ in range(2)]
    columns[1].loc[[0, 12], "pH"] = 1e9  # nothing is learned from these rows
    found = [regressor(model).fit(X, y, weight, validation=valid) for X in columns]
    assert found[0].extra_mean_ == found[1].extra_mean_
    if model == "gin":
        without = regressor("gin").fit(
            [SMILES[place] for place in there], LOGP[there], validation=np.arange(4)
        )
        np.testing.assert_allclose(mean, without.predict(SMILES), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-50, 1e50])
def test_ratios_of_weights_train_networks(scale: float) -> None:
    weight = np.linspace(0.5, 2, len(SMILES))
    found, expected = (
        regressor("wl", epochs=np.int64(2)).fit(SMILES, LOGP, factor * weight).predict(SMILES)
        for factor in (scale, 1)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not np.allclose(found, regressor("wl").fit(SMILES, LOGP).predict(SMILES), rtol=1e-5)


@pytest.mark.parametrize("model", ["gp", "wl"])
def test_units_of_targets(model: str) -> None:
    std, small = (
        regressor(model).fit(SMILES, unit * LOGP).predict(SMILES[:5], return_std=True)[1] / unit
        for unit in (1.0, 1e-30)
    )
    np.testing.assert_allclose(small, std, rtol=1e-2)


def test_arguments_that_change_forget_what_was_fitted(tmp_path: Path) -> None:
    fitted = regressor("wl-ridge").fit(SMILES, LOGP)
    fitted.set_params(progress=None, num_layers=2).predict(SMILES[:2])
    with pytest.raises(NotFittedError):
        fitted.set_params(num_layers=4).predict(SMILES[:2])
    with pytest.raises(NotFittedError):
        fitted.save(tmp_path)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_targets_are_standardized_whatever_the_scale_of_weights(scale: float) -> None:
    y, weight = 1e-3 * LOGP[:, None] + 5, np.linspace(0, 2, len(SMILES))
    mean, std = standardization(y, Task("regression", 1), scale * weight)
    expected = np.average(y, 0, weights=weight)
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_allclose(std**2, np.average((y - expected) ** 2, 0, weights=weight))


def test_members_of_an_ensemble_differ_and_their_means_are_averaged() -> None:
    fitted = regressor("wl", ensemble_size=3).fit(SMILES, LOGP)
    molecules = read_molecules(SMILES[:5])
    each = np.stack([member.outputs(molecules).mean[:, 0] for member in fitted.members_])
    assert len(np.unique(each[:, 0])) == 3
    mean, std = fitted.predict(SMILES[:5], return_std=True)
    np.testing.assert_allclose(mean, each.mean(0))
    noise = np.mean([member.noise[0] for member in fitted.members_])
    np.testing.assert_allclose(std**2, noise + each.var(0))


def test_a_stack_prefers_the_better_model() -> None:
    """Two epochs with 6 channels teach a network nothing.

    12 molecules are held out, and the prior towards equal weights counts as 30.
    """
    fitted = regressor(["wl-ridge", "wl"], validation_fraction=0.3).fit(SMILES, LOGP)
    assert fitted.model_weights_.sum() == pytest.approx(1)
    assert fitted.model_weights_[0] > 0.7


def test_the_same_seed_gives_the_same_and_leaves_torchs_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (
        regressor("wl", dropout=0.3, random_state=seed).fit(SMILES, LOGP).predict(SMILES)
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(again, first)
    assert np.abs(other - first).max() > 1e-4


def test_the_validation_part_can_be_given() -> None:
    mask = np.arange(len(SMILES)) % 4 == 0
    fitted = regressor("wl-ridge").fit(SMILES, LOGP, validation=mask)
    assert len(fitted.scores_) == mask.sum()
    again = regressor("wl-ridge").fit(SMILES, LOGP, validation=np.flatnonzero(mask))
    np.testing.assert_array_equal(again.scores_, fitted.scores_)


def test_predictions_that_are_not_finite_name_the_molecule() -> None:
    fitted = regressor("tests.molecules.nets:Infinite").fit(SMILES, LOGP, validation=np.arange(8))
    assert np.isfinite(fitted.predict(SMILES)).all()
    with pytest.raises(ValueError, match=r"2 of 2 predictions are not finite.* 0, 'CCO'"):
        fitted.predict(["CCO", "C"])


@pytest.mark.parametrize("model", ["wl", TWO_CONVS])
def test_networks_start_from_another_ones_weights(model: str) -> None:
    first = regressor(model, epochs=20, learning_rate=0.01).fit(SMILES, LOGP)
    options = {"epochs": 1, "learning_rate": 1e-12}  # too small to move a weight
    again = regressor(model, **options).fit(SMILES, LOGP, start_from=first)
    for name, weight in first.members_[0].net.named_parameters():
        assert torch.equal(again.members_[0].net.state_dict()[name], weight)
    for made, start, message in (
        (regressor(model, featurizer="duvenaud"), first, "expected the same sizes and features"),
        (regressor("gin"), first, "start_from has no 'gin'"),
        (regressor("mean"), regressor("mean").fit(SMILES, LOGP), "fitted at once"),
    ):
        with pytest.raises(ValueError, match=message):
            made.fit(SMILES, LOGP, start_from=start)
    tables = [pd.DataFrame({"smiles": SMILES, name: LOGP}) for name in ("T", "pH")]
    first = regressor(model).fit(tables[0], LOGP)
    with pytest.raises(ValueError, match="start_from has the extra columns"):
        regressor(model).fit(tables[1], LOGP, start_from=first)


def test_a_class_is_never_held_out_as_a_whole() -> None:
    """This holds even if every class is too small for a share of its own."""
    for seed in range(12):
        made = MoleculeClassifier("wl-ridge", random_state=seed).fit(SMILES[:5], [*"aaaab"])
        assert made.classes_.tolist() == ["a", "b"]


def with_ph(*cells: Any) -> pd.DataFrame:
    return pd.DataFrame({"smiles": SMILES[: len(cells)], "pH": cells})


BAD = [*SMILES[:3], "C1CC", *SMILES[4:], "", "not"]
ALONE = "expected auto alone, one of gp, "
UNREAD = r"3 of 42 molecules .* read.*: 3 'C1CC' .*; 40 ''"
PLACES = "validation: expected positions of 0 to 39, or a"
CLASSIFIER = MoleculeClassifier("gp")
# Estimators, what they are fitted to in place of `SMILES` and `LOGP`, and what they say.
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (regressor("tests.molecules.nets:no_class"), {}, "expected a class of torch.nn.Module"),
    (regressor("tests.molecules.nets:Missing"), {}, "cannot be imported"),
    (regressor("tests.no_such:Net"), {}, "cannot be imported"),
    (regressor("wll"), {}, ALONE),
    (regressor(["auto", "gp"]), {}, f"model='auto': {ALONE}"),
    (regressor([]), {}, "at least one"),
    *((regressor(model), {}, f"model={model}: {ALONE}") for model in (None, 3)),
    (regressor(["wl", "wl"]), {}, "different models"),
    (regressor("wl", ensemble_size=0), {}, "ensemble_size == 0"),
    (regressor("wl", epochs=1.5), {}, "epochs must be an instance of"),
    *(
        (regressor("wl", **{name: "no"}), {}, f"{name}='no'")
        for name in ("standardize", "refit", "hurdle")
    ),
    (regressor("wl", validation_fraction=1.0), {}, "validation_fraction == 1.0"),
    (regressor("wl", learning_rate=0.0), {}, "learning_rate == 0.0"),
    *(
        (regressor("wl", **{name: np.nan}), {}, f"{name} is NaN")
        for name in ("learning_rate", "validation_fraction", "dropout", "distill")
    ),
    *(
        (regressor("wl", network_options={name: 1}), {}, repr(name))
        for name in ("hidden_channels", "dropout", "out_channels", "in_channels")
    ),
    (regressor("gine", network_options={"color": 1}), {}, r"network_options=.*'color'.* of gine"),
    (
        regressor("wl", training_options={"epochs": 3}),
        {},
        "'epochs': expected schedule and resample",
    ),
    (regressor("wl", training_options={"schedule": "linear"}), {}, "schedule='linear': expected"),
    (
        regressor("gin", training_options={"resample": 1.0}),
        {"y": np.stack([LOGP, LOGP], 1)},
        "one target of regression",
    ),
    (regressor("wl", distill=-1), {}, "distill == -1, must be >= 0"),
    (regressor("gp", distill=1), {}, "trains a network: there is none among gp"),
    (regressor("auto", distill=1), {}, "none among pooled, name one in model"),
    (MoleculeClassifier("wl", distill=1), {"y": AROMATIC}, "distill=1 is for regression"),
    (regressor("gp"), {"sample_weight": 1.0 + (LOGP > 1)}, "'gp' takes no sample_weight"),
    (regressor("wl-ridge"), {"y": LOGP[:5]}, r"y has shape \(5,\)"),
    (regressor("wl-ridge"), {"y": np.full(40, np.inf)}, "infinite"),
    (regressor("wl-ridge"), {"y": LOGP * 1e-200}, "squares vanish"),
    (regressor("mean"), {"y": LOGP * 1e160}, "squares are not finite"),
    (regressor("wl-ridge"), {"y": np.full(40, np.nan)}, "target 0 was not measured"),
    (regressor("gp"), {"X": np.array(3), "y": [1.0]}, r"X has shape \(\): expected a SMILES"),
    *((regressor(model), {"X": BAD, "y": np.zeros(42)}, UNREAD) for model in ("gp", "wl")),
    *(
        (regressor("wl-gp"), {"X": with_ph(*cells), "y": LOGP[: len(cells)]}, message)
        for cells, message in (
            ([1.0, None, 2.0], "column 'pH' has no finite number at position 1"),
            ([1.0, 2.0, np.inf], "column 'pH' has no finite number at position 2"),
            ([1.0, "x", 2.0], "column 'pH' has cells that are not numbers"),
            ([1e200, 0.0], "extra columns have squares that are not finite"),
        )
    ),
    *(
        (regressor("wl-ridge"), {"validation": wrong}, PLACES)
        for wrong in ([-1], (SMILES[:4], LOGP[:4]), (SMILES[:4], np.ones((4, 2))))
    ),
    *((regressor("mean"), {"validation": wrong}, PLACES) for wrong in (SMILES[:4], [0.5], 0.2, 3)),
    (regressor("mean"), {"validation": np.zeros(40, bool)}, "validation is empty"),
    (CLASSIFIER, {"y": [0, "a"] * 20}, "has words and numbers as labels"),
    (CLASSIFIER, {"y": np.ones(40)}, "target 0 has 1 classes"),
]


@pytest.mark.parametrize(("made", "given", "message"), REFUSED)
def test_what_does_not_fit_is_refused(made: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made.fit(**{"X": SMILES, "y": LOGP, **given})


def test_what_is_no_list_positions_beyond_and_vectors_of_atoms_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a sequence"):
        regressor("gp").fit("CCO", [1.0])
    with pytest.raises(IndexError, match="index 40 is out of bounds"):
        regressor("mean").fit(SMILES, LOGP, validation=[40])
    fitted = regressor("tests.molecules.nets:OnNodes").fit(SMILES, LOGP)
    with pytest.raises(ValueError, match="expected one a graph"):
        fitted.transform(SMILES)


@pytest.mark.parametrize("model", ["wl-gp", "wl-ridge"])
def test_a_class_that_is_not_fitted_is_not_another_one(model: str) -> None:
    names = np.array(["a"] * 10 + ["b"] * 15 + ["c"] * 15)
    fitted = MoleculeClassifier(model, ensemble_size=2).fit(SMILES, names, validation=np.arange(10))
    assert (fitted.predict_proba(SMILES)[:, 0] == 0).all()
    again = MoleculeClassifier(model).fit(SMILES, names, validation=np.arange(10))
    assert again.predict_proba(SMILES).shape == (40, 3)  # refitted to all molecules


def test_a_target_that_the_validation_part_lacks() -> None:
    y = np.stack([LOGP, LOGP], 1)
    y[:5, 1] = np.nan
    fitted = regressor("wl-ridge").fit(SMILES, y, validation=np.arange(5))
    _, std = fitted.predict(SMILES, return_std=True)
    np.testing.assert_allclose(std[:, 1], np.nanstd(y[5:, 1]))
    with pytest.warns(UserWarning, match="with target 1"):
        low, _ = fitted.predict_interval(SMILES, coverage=0.8)
    assert np.isfinite(low[:, 0]).all() and np.isnan(low[:, 1]).all()


def test_a_fit_that_fails_leaves_what_was_there() -> None:
    fitted = regressor("gin").fit(SMILES, LOGP)
    expected = fitted.predict(SMILES[:3])
    with pytest.raises(IndexError, match="boolean"):
        fitted.fit(SMILES, LOGP, validation=np.array([True, False]))
    np.testing.assert_array_equal(fitted.predict(SMILES[:3]), expected)
    fitted.fit(SMILES, LOGP, start_from=fitted)
    with pytest.raises(ValueError, match="expected one"):
        fitted.fit(SMILES, LOGP, frozen=True)


# Split conformal intervals -----------------------------------------------------------------------


def test_intervals_are_the_quantile_of_the_scores_times_the_deviation() -> None:
    fitted = MoleculeRegressor("wl-ridge", validation_fraction=0.5).fit(SMILES, LOGP)
    mean, std = fitted.predict(SMILES, return_std=True)
    rank = math.ceil(21 * 0.8)
    width = np.sort(fitted.scores_[:, 0])[rank - 1] * std
    found = fitted.predict_interval(SMILES, coverage=0.8)
    np.testing.assert_allclose(found, (mean - width, mean + width))


@pytest.mark.parametrize("ensemble_size", [1, 3])  # a shared validation part counts once
def test_a_coverage_that_the_validation_part_cannot_show_is_refused(ensemble_size: int) -> None:
    made = MoleculeRegressor("wl-ridge", ensemble_size=ensemble_size)
    fitted = made.fit(SMILES, LOGP, validation=np.arange(4))
    assert fitted.scores_.shape == (4, 1)
    fitted.predict_interval(SMILES, coverage=0.8)
    with pytest.raises(ValueError, match=r"coverage=0.9 needs 9 validation .* there are 4"):
        fitted.predict_interval(SMILES, coverage=0.9)
    for coverage in (1, "0.9", None):
        with pytest.raises(ValueError, match=r"^coverage "):
            fitted.predict_interval(SMILES, coverage=coverage)
    for wrong in ({"k": -1}, {"k": 1.5}, {"target": 0.5}, {"target": -1}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} "):
            fitted.explain(SMILES[:2], **wrong)


@pytest.mark.parametrize("model", ["wl-gp", "wl-ridge"])
def test_intervals_cover_real_potencies(model: str, real_data: Path) -> None:
    path = present(real_data / "molecules" / "moleculeace" / "CHEMBL2047_EC50.csv")
    table = pd.read_csv(path).sample(frac=1, random_state=0)
    smiles, y = table["smiles"].tolist(), table["y [pEC50/pKi]"].to_numpy()
    fitted = MoleculeRegressor(model, validation_fraction=0.3).fit(smiles[:400], y[:400])
    for coverage in (0.5, 0.8, 0.9):
        low, high = fitted.predict_interval(smiles[400:], coverage)
        covered = np.mean((low <= y[400:]) & (y[400:] <= high))
        # the standard error from 120 validation molecules and the test part
        error = math.sqrt(coverage * (1 - coverage) * (1 / 120 + 1 / 231))
        assert abs(covered - coverage) < 3 * error
