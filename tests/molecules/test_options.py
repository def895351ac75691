"""Further options of networks, training and kernel methods; what is saved and loaded."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from sklearn.base import clone

from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor, load, networks
from pyg_kernels.molecules.inputs import Molecules
from pyg_kernels.molecules.training import DECAY, Learner
from tests.molecules.sets import AROMATIC, LOGP, SMILES, regressor, reloaded


def test_options_reach_the_network_and_are_saved(tmp_path: Path) -> None:
    options = {"norm": None, "readout": "concat"}
    first = regressor("wl", network_options=options, dropout=0.1).fit(SMILES, LOGP)
    assert not any("Norm" in type(m).__name__ for m in first.members_[0].net.modules())
    assert clone(first).get_params()["network_options"] == options
    again = reloaded(first, tmp_path)
    np.testing.assert_array_equal(again.predict(SMILES), first.predict(SMILES))


def test_schedules_of_the_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    step = Learner.training_step

    def watched(self: Learner, *arguments: Any) -> Any:
        seen.append(self.trainer.optimizers[0].param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(Learner, "training_step", watched)
    options = {"epochs": 3, "batch_size": 18, "training_options": {"schedule": "exponential"}}
    regressor("gin", **options).fit(SMILES, LOGP)
    assert seen == pytest.approx([1e-3 * DECAY**epoch for epoch in (0, 0, 1, 1, 2, 2)])


def test_molecules_are_drawn_from_equal_bins() -> None:
    y = np.zeros(40)
    y[:2] = 10.0
    options = {"epochs": 3, "hidden_channels": 4}
    found = []
    for resample in (None, 5.0):
        reg = regressor("gin", training_options={"resample": resample}, **options)
        reg.fit(SMILES, y, validation=[38, 39])
        found.append(reg.members_[0].history[0]["train_loss"])
    assert found[1] > 3 * found[0]  # half of what is drawn is far from the mean


def test_epochs_are_kept() -> None:
    reg = regressor("gin", epochs=3).fit(SMILES, LOGP)
    history = reg.members_[0].history
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3]
    assert all(np.isfinite(list(epoch.values())).all() for epoch in history)
    noise = min(epoch["valid_loss"] for epoch in history) * reg.members_[0].std ** 2
    assert reg.members_[0].noise == pytest.approx(noise, rel=1e-4)  # of the best epoch's weights


def test_kernel_methods_without_what_was_held_out() -> None:
    held = np.arange(8)
    for refit in (True, False):
        reg = regressor("wl-ridge", refit=refit).fit(SMILES, LOGP, validation=held)
        assert set(held).issubset(reg.members_[0].rows) == refit
        assert len(reg.members_[0].rows) == (40 if refit else 32)


def test_iterations_of_kernel_methods() -> None:
    sizes = []
    for number in (1, 3):
        reg = regressor("wl-ridge", num_layers=number).fit(SMILES, LOGP)
        sizes.append(reg.transform(SMILES).shape[1])
    usual = MoleculeRegressor("wl-ridge").fit(SMILES, LOGP).transform(SMILES).shape[1]
    assert sizes[0] < sizes[1] == usual


def test_the_mean_is_that_of_what_was_measured() -> None:
    y = np.stack([LOGP, np.where(LOGP > 2, np.nan, LOGP)], 1)
    reg = MoleculeRegressor("mean", refit=False).fit(SMILES, y, validation=np.arange(5))
    np.testing.assert_allclose(reg.predict(SMILES[:2]), [np.nanmean(y[5:], 0)] * 2)
    clf = MoleculeClassifier("mean").fit(SMILES, AROMATIC)
    assert clf.predict_proba(["C"])[0] == pytest.approx([0.25, 0.75])
    for call in (clf.predict, lambda smiles: clf.fit(smiles, ["a", "b"])):
        with pytest.raises(ValueError, match=r"1 of 2 molecules cannot be read.* 1 'C1'"):
            call(["C", "C1"])


def test_data_sets_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = MoleculeDataset.from_smiles(SMILES, featurizer=MolFeaturizer())
    expected = regressor("gin", featurizer="duvenaud").fit(SMILES, LOGP)
    monkeypatch.setattr(MoleculeDataset, "from_smiles", None)
    molecules = Molecules.of_dataset(dataset)
    found = regressor("gin", featurizer="duvenaud").fit(molecules, LOGP)
    assert torch.equal(
        found.members_[0].net.reader().weight, expected.members_[0].net.reader().weight
    )
    part = molecules.part(np.arange(3, 9))
    assert found.predict(part) == pytest.approx(found.predict(molecules)[3:9], rel=1e-5)


def test_what_is_frozen_is_never_in_training_mode() -> None:
    options = {"dropout": 0.5, "epochs": 1}
    first = regressor("gin", **options).fit(SMILES, LOGP).members_[0].net
    net = first.train()
    assert all(module.training for module in net.modules())
    net.start_from(first, frozen=True)
    for module in (net, torch.nn.ModuleList([net])):
        module.train()
        in_training = {name for name, part in net.net.named_modules() if part.training}
        assert in_training
        assert all(name.split(".")[0] == "head" for name in in_training)
        module.eval()
        assert not any(part.training for part in net.modules())


# Saving and loading: what is written, and what is refused


@pytest.fixture(scope="module")
def fitted() -> MoleculeRegressor:
    return regressor(["wl-ridge", "wl"], ensemble_size=2).fit(SMILES, LOGP)


def test_a_stack_comes_back_with_its_intervals(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    found = reloaded(fitted, tmp_path)
    assert found.get_params() == fitted.get_params()
    ends = fitted.predict_interval(SMILES, 0.8)
    np.testing.assert_array_equal(found.predict_interval(SMILES, 0.8), ends)
    again = reloaded(found, tmp_path / "again")
    np.testing.assert_array_equal(again.predict(SMILES), fitted.predict(SMILES))


def test_folders_with_files_are_left_alone(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fitted.save(tmp_path)
    fitted.save(tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    smaller = MoleculeRegressor("mean").fit(SMILES, LOGP)
    smaller.save(tmp_path, overwrite=True)
    drawn = torch.get_rng_state()
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), smaller.predict(SMILES))
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_flipped_bit_is_an_error_of_one_line(tmp_path: Path) -> None:
    fitted = MoleculeRegressor("mean").fit(SMILES, LOGP)
    fitted.save(tmp_path)
    expected, path = fitted.predict(SMILES), tmp_path / "estimator.npz"
    content, refused = path.read_bytes(), 0
    directory = range(content.index(b"PK\x01\x02"), len(content))
    for place in (*range(0, len(content), 97), *directory[::3]):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = load(tmp_path)
        except ValueError as error:
            refused += "is damaged" in str(error) and "\n" not in str(error)
        else:  # the bit is in a date or another field of the archive without effect
            np.testing.assert_array_equal(found.predict(SMILES), expected)
            assert found.get_params() == fitted.get_params()
    assert refused > 0.8 * len(range(0, len(content), 97))


def test_what_cannot_be_loaded_is_told(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="of a saved estimator: it is none"):
        load(tmp_path / "missing")
    fitted.save(tmp_path / "run" / "model")
    with pytest.raises(FileNotFoundError, match=r"that of the run is .*model"):
        load(tmp_path / "run")
    fitted.save(tmp_path, overwrite=True)
    with np.load(tmp_path / "estimator.npz") as found:
        arrays = {name: found[name] for name in found.files if name != "0/noise"}
    np.savez(tmp_path / "estimator.npz", **arrays)
    with pytest.raises(ValueError, match="is damaged: arrays are missing"):
        load(tmp_path)
    with patch("pyg_kernels.molecules.store.FORMAT", 2):
        fitted.save(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match="saved by another version: fit it again"):
        load(tmp_path)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    for options, error, message in (
        ({"featurizer": MolFeaturizer()}, ValueError, "featurizer is a name"),
        ({"network_options": {"act": np.arange(2)}}, TypeError, r"array\(\[0, 1\]\) cannot be"),
    ):
        found = regressor("mean", **options).fit(SMILES, LOGP)
        with pytest.raises(error, match=message):
            found.save(tmp_path / "run")


def test_a_network_of_an_import_path_is_imported_only_on_trust(tmp_path: Path) -> None:
    model = "tests.molecules.nets:TwoConvs"
    fitted = regressor(["wl-ridge", model]).fit(SMILES, LOGP)
    fitted.save(tmp_path / "run")
    expected = fitted.predict(SMILES)
    with patch.object(networks, "import_module") as imported:
        with pytest.raises(ValueError, match=rf"{model}.*trust=True"):
            load(tmp_path / "run")
        imported.assert_not_called()
    np.testing.assert_array_equal(load(tmp_path / "run", trust=True).predict(SMILES), expected)


def test_a_device_that_is_not_there_is_left_out(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    with patch.object(fitted, "device", "cuda:99"):
        found = reloaded(fitted, tmp_path)
    assert found.device is None
    np.testing.assert_allclose(found.predict(SMILES), fitted.predict(SMILES), rtol=1e-4, atol=1e-4)


def test_where_writing_fails_the_earlier_estimator_is_whole(
    fitted: MoleculeRegressor, tmp_path: Path
) -> None:
    fitted.save(tmp_path)

    def failing(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError("no space left")

    smaller = MoleculeRegressor("mean").fit(SMILES, LOGP)
    with patch.object(np, "savez", failing), pytest.raises(OSError, match="no space left"):
        smaller.save(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["estimator.npz"]
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), fitted.predict(SMILES))


def test_numbers_of_numpy_are_saved(tmp_path: Path) -> None:
    made = regressor("mean", ensemble_size=np.int64(1), random_state=np.int64(3))
    fitted = made.set_params(learning_rate=np.float32(0.5)).fit(SMILES, LOGP)
    found = reloaded(fitted, tmp_path)
    assert found.get_params() == fitted.get_params()
    assert type(found.ensemble_size) is type(found.random_state) is int


@pytest.mark.cuda
@pytest.mark.parametrize(
    "model",
    ["wl", "wl-gated", "graph-kernel", "random-walk", "gated-walk", "gine", "attentive-fp", "gp"],
)
def test_what_a_device_fitted_works_without(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimators train, predict and explain on a CUDA device; once fitted, they work on the CPU."""
    fitted = regressor(model, device="cuda").fit(SMILES, LOGP)
    found = fitted.predict(SMILES)
    assert np.isfinite(found).all()
    fitted.save(tmp_path)
    shares = fitted.explain(SMILES[:2]) if model not in ("gine", "attentive-fp") else None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    other = load(tmp_path)
    np.testing.assert_allclose(other.predict(SMILES), found, rtol=1e-3, atol=1e-3)
    if shares is not None:
        for here, there in zip(other.explain(SMILES[:2]).atoms, shares.atoms, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-3)
