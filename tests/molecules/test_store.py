"""Saving and loading: what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.molecules import MoleculeRegressor, load, networks
from tests.molecules.sets import LOGP, SMALL, SMILES


@pytest.fixture(scope="module")
def fitted() -> MoleculeRegressor:
    return MoleculeRegressor(["wl-ridge", "wl"], ensemble_size=2, **SMALL).fit(SMILES, LOGP)


def test_a_stack_comes_back_with_its_intervals(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    found = load(tmp_path / "run")
    assert found.get_params() == fitted.get_params()
    for one, other in zip(
        fitted.predict_interval(SMILES, 0.8), found.predict_interval(SMILES, 0.8), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    found.save(tmp_path / "again")
    np.testing.assert_array_equal(load(tmp_path / "again").predict(SMILES), fitted.predict(SMILES))


def test_folders_with_files_are_left_alone(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fitted.save(tmp_path)
    fitted.save(tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    smaller = MoleculeRegressor("wl-ridge").fit(SMILES, LOGP)
    smaller.save(tmp_path, overwrite=True)
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), smaller.predict(SMILES))


def test_a_flipped_bit_is_an_error_of_one_line(tmp_path: Path) -> None:
    fitted = MoleculeRegressor("mean").fit(SMILES, LOGP)
    fitted.save(tmp_path)
    expected, path = fitted.predict(SMILES), tmp_path / "estimator.npz"
    content, refused = path.read_bytes(), 0
    directory = range(content.index(b"PK\x01\x02"), len(content))
    for place in (*range(0, len(content), 97), *directory):
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


def test_arrays_that_are_missing_are_told(fitted: MoleculeRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    path = tmp_path / "estimator.npz"
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files if name != "0/noise"}
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="is damaged: arrays are missing"):
        load(tmp_path)


def test_folders_of_another_version(
    fitted: MoleculeRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("pyg_kernels.molecules.store.FORMAT", 2)
        fitted.save(tmp_path)
    with pytest.raises(ValueError, match="saved by another version: fit it again"):
        load(tmp_path)


def test_folders_without_an_estimator_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no saved estimator"):
        load(tmp_path / "missing")


def test_featurizers_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    found = MoleculeRegressor("wl-ridge", featurizer=MolFeaturizer()).fit(SMILES, LOGP)
    with pytest.raises(ValueError, match="featurizer is a name"):
        found.save(tmp_path / "run")


def test_a_network_of_an_import_path_is_imported_only_on_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "tests.molecules.nets:TwoConvs"
    fitted = MoleculeRegressor(["wl-ridge", model], **SMALL).fit(SMILES, LOGP)
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
        fitted.save(tmp_path / "run")
    found = load(tmp_path / "run")
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
            MoleculeRegressor("wl-ridge").fit(SMILES, -LOGP).save(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["estimator.npz"]
    np.testing.assert_array_equal(load(tmp_path).predict(SMILES), fitted.predict(SMILES))


def test_options_that_cannot_be_saved_are_named(
    fitted: MoleculeRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted, "network_options", {"act": np.arange(3)})
    with pytest.raises(TypeError, match=r"array\(\[0, 1, 2\]\) cannot be saved"):
        fitted.save(tmp_path / "run")


def test_numbers_of_numpy_are_saved(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {
        "ensemble_size": np.int64(1),
        "random_state": np.int64(3),
        "learning_rate": np.float32(0.5),
    }
    fitted = MoleculeRegressor("wl-ridge", **numbers).fit(SMILES, LOGP)
    fitted.save(tmp_path / "run")
    found = load(tmp_path / "run")
    assert found.get_params() == fitted.get_params()
    assert type(found.ensemble_size) is type(found.random_state) is int
