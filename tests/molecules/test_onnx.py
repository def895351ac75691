"""``pyg-kernels export``: the numbers of ONNX Runtime are those of ``predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from pyg_kernels.molecules import MoleculeRegressor, load  # noqa: E402
from pyg_kernels.molecules.command import main  # noqa: E402
from pyg_kernels.molecules.inputs import read_molecules  # noqa: E402
from pyg_kernels.molecules.training import MoleculeBatches  # noqa: E402
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES  # noqa: E402

NETWORK = "--epochs 2 --hidden-channels 6 --num-layers 2 --device cpu"
FEW = [["C"], ["CCO"], SMILES[:7], [*SMILES, "[Na+].[Cl-]"]]  # an atom alone has no bonds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    frame = pd.DataFrame({"smiles": SMILES, "y": 10 * LOGP + 5, "z": -LOGP, "kind": AROMATIC})
    frame.assign(pH=np.linspace(2, 9, len(SMILES))).to_csv(folder / "m.csv", index=False)
    trained = {
        "two": f"y z --model wl gine --ensemble-size 2 --extra-columns pH {NETWORK}",
        "classes": f"kind --model random-walk {NETWORK}",
        "ridge": "y --model wl-ridge",
        "attentive": f"y --model attentive-fp {NETWORK}",
    }
    for name, words in trained.items():
        given = [str(folder / "m.csv"), "--out", str(folder / name), "--target-columns"]
        assert main(["train", *given, *words.split()]) == 0
    return folder


def export(folder: Path, name: str, *words: str) -> int:
    return main(["export", str(folder / name), str(folder / f"{name}.onnx"), *words])


def answers(folder: Path, name: str, X: Any) -> list[Any]:
    """What ONNX Runtime gives for molecules; numbers beside them come as they are in the table."""
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
    molecules = read_molecules(X)
    batch = next(iter(MoleculeBatches(molecules, "default", batch_size=len(molecules))))
    given = [put.name for put in session.get_inputs()]
    return session.run(None, {name: getattr(batch, name).numpy() for name in given})


@pytest.mark.traces
def test_means_and_deviations_are_those_of_predict(folder: Path) -> None:
    assert export(folder, "two") == 0
    estimator = load(folder / "two" / "model")
    for smiles in FEW:
        X = pd.DataFrame({"smiles": smiles, "pH": np.linspace(1, 11, len(smiles))})
        for found, expected in zip(
            answers(folder, "two", X), estimator.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    described = json.loads((folder / "two.json").read_text())
    assert described["outputs"] == ["mean", "std"] and described["targets"] == ["y", "z"]
    assert described["extra_columns"] == ["pH"] and described["featurizer"] == "default"
    session = onnxruntime.InferenceSession(folder / "two.onnx")
    assert [put.name for put in session.get_inputs()] == list(described["inputs"])


@pytest.mark.traces
def test_targets_with_a_spike_are_joined(folder: Path) -> None:
    y = np.stack([LOGP, np.where(np.arange(len(LOGP)) % 2, 0.0, LOGP)], 1)
    estimator = MoleculeRegressor(["wl", "gine"], **SMALL).fit(SMILES * 2, np.tile(y, (2, 1)))
    estimator.save(folder / "hurdle")
    assert export(folder, "hurdle") == 0
    np.testing.assert_array_equal(estimator.spikes_, [np.nan, 0.0])
    for smiles in FEW:
        expected = estimator.predict(smiles, return_std=True)
        for found, own in zip(answers(folder, "hurdle", smiles), expected, strict=True):
            np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-5)


@pytest.mark.traces
def test_probabilities_are_those_of_predict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(folder, "classes") == 0
    estimator = load(folder / "classes" / "model")
    for smiles in FEW:
        found = answers(folder, "classes", smiles)[0]
        expected = estimator.predict_proba(smiles)[:, 1:]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert json.loads((folder / "classes.json").read_text())["classes"] == [["no", "yes"]]
    assert export(folder, "classes") == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert export(folder, "classes", "--overwrite") == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [("ridge", "wl-ridge keeps its molecules"), ("attentive", "cannot export attentive-fp")],
)
def test_what_is_no_graph_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    capsys.readouterr()
    assert export(folder, name) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("pyg-kernels export: error: ") and message in last
    assert not (folder / f"{name}.onnx").exists()
    assert main(["export", str(folder / name), str(folder / "name.txt")]) == 2
