"""Saving and loading: what is written, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.molecules import MoleculeRegressor, load, networks
from tests.molecules.sets import LOGP, SMILES, regressor, reloaded


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
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), smaller.predict(SMILES))


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
        else:  # a date, and other words of the archive that say nothing
            np.testing.assert_array_equal(found.predict(SMILES), expected)
            assert found.get_params() == fitted.get_params()
    assert refused > 0.8 * len(range(0, len(content), 97))


def test_what_cannot_be_loaded_is_told(
    fitted: MoleculeRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="no saved estimator"):
        load(tmp_path / "missing")
    fitted.save(tmp_path)
    with np.load(tmp_path / "estimator.npz") as found:
        arrays = {name: found[name] for name in found.files if name != "0/noise"}
    np.savez(tmp_path / "estimator.npz", **arrays)
    with pytest.raises(ValueError, match="is damaged: arrays are missing"):
        load(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("pyg_kernels.molecules.store.FORMAT", 2)
        fitted.save(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match="saved by another version: fit it again"):
        load(tmp_path)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    for option, value, error, message in (
        ("featurizer", MolFeaturizer(), ValueError, "featurizer is a name"),
        ("network_options", {"act": np.arange(2)}, TypeError, r"array\(\[0, 1\]\) cannot be saved"),
    ):
        found = MoleculeRegressor("mean", **{option: value}).fit(SMILES, LOGP)
        with pytest.raises(error, match=message):
            found.save(tmp_path / "run")


def test_a_network_of_an_import_path_is_imported_only_on_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "tests.molecules.nets:TwoConvs"
    fitted = regressor(["wl-ridge", model]).fit(SMILES, LOGP)
    fitted.save(tmp_path / "run")
    expected = fitted.predict(SMILES)
    with monkeypatch.context() as patch:
        patch.setattr(networks, "import_module", lambda path: pytest.fail(f"{path} imported"))
        with pytest.raises(ValueError, match=rf"{model}.*trust=True"):
            load(tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run", trust=True).predict(SMILES), expected)


def test_a_device_that_is_not_there_is_left_out(
    fitted: MoleculeRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fitted, "device", "cuda:99")
        found = reloaded(fitted, tmp_path)
    assert found.device is None
    np.testing.assert_allclose(found.predict(SMILES), fitted.predict(SMILES), rtol=1e-4, atol=1e-4)


def test_where_writing_fails_the_earlier_estimator_is_whole(
    fitted: MoleculeRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path)

    def failing(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", failing)
        with pytest.raises(OSError, match="no space left"):
            MoleculeRegressor("mean").fit(SMILES, LOGP).save(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["estimator.npz"]
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), fitted.predict(SMILES))


def test_numbers_of_numpy_are_saved(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {
        "ensemble_size": np.int64(1),
        "random_state": np.int64(3),
        "learning_rate": np.float32(0.5),
    }
    fitted = MoleculeRegressor("mean", **numbers).fit(SMILES, LOGP)
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
    """On a CUDA device estimators train, predict and explain; what they fitted works on the CPU."""
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
