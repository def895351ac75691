"""``pyg-kernels export``: the numbers of ONNX Runtime are those of ``predict``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from pyg_kernels.molecules import load  # noqa: E402
from pyg_kernels.molecules.inputs import read_molecules  # noqa: E402
from pyg_kernels.molecules.onnx import _check_range  # noqa: E402
from pyg_kernels.molecules.training import MoleculeBatches  # noqa: E402
from tests.molecules.sets import AROMATIC, LOGP, NETWORK, SMILES, run, train  # noqa: E402

FEW = [["C"], ["CCO"], SMILES[:7], [*SMILES, "[Na+].[Cl-]"]]  # an atom alone has no bonds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    frame = pd.DataFrame({"smiles": SMILES, "y": 10 * LOGP + 5, "z": -LOGP, "kind": AROMATIC})
    frame.loc[::2, "z"] = 0.0  # z is learned as two targets
    frame = frame.assign(pH=np.linspace(2, 9, len(SMILES)), tiny=1e-30 * LOGP)
    pd.concat([frame, frame]).to_csv(folder / "m.csv", index=False)
    for name, words in {
        "two": f"y z --model wl gine --extra-columns pH {NETWORK}",
        "classes": f"kind --model random-walk {NETWORK}",
        "ridge": "y --model wl-ridge",
        "tiny": f"tiny --model wl {NETWORK}",
        "attentive": f"y --model attentive-fp {NETWORK}",
    }.items():
        train(folder, name, words)
    return folder


def assert_same(folder: Path, name: str, X: Any, expected: Any) -> None:
    """Compares the outputs of ONNX Runtime; extra numbers are given as they are in the table."""
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
    molecules = read_molecules(X)
    batch = next(iter(MoleculeBatches(molecules, "default", batch_size=len(molecules))))
    given = [put.name for put in session.get_inputs()]
    found = session.run(None, {name: getattr(batch, name).numpy() for name in given})
    for one, own in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, own, rtol=1e-5, atol=1e-5)


@pytest.mark.traces
def test_means_and_deviations_are_those_of_predict(folder: Path) -> None:
    """For two networks that learn one of the targets as two."""
    run(folder, "export +two +two.onnx")
    estimator = load(folder / "two" / "model")
    assert [len(member.task.spikes) for member in estimator.members_] == [2, 2]
    np.testing.assert_array_equal(estimator.spikes_, [np.nan, 0.0])
    for smiles in FEW:
        X = pd.DataFrame({"smiles": smiles, "pH": np.linspace(1, 11, len(smiles))})
        assert_same(folder, "two", X, estimator.predict(X, return_std=True))
    described = json.loads((folder / "two.json").read_text())
    assert described["outputs"] == ["mean", "std"] and described["targets"] == ["y", "z"]
    assert described["extra_columns"] == ["pH"] and described["featurizer"] == "default"
    session = onnxruntime.InferenceSession(folder / "two.onnx")
    assert [put.name for put in session.get_inputs()] == list(described["inputs"])


@pytest.mark.traces
def test_probabilities_are_those_of_predict(folder: Path) -> None:
    (folder / "classes.onnx").write_text("mine")
    said = run(folder, "export +classes +classes.onnx", status=2)
    assert "--overwrite replaces it" in said
    run(folder, "export +classes +classes.onnx --overwrite")
    estimator = load(folder / "classes" / "model")
    for smiles in FEW:
        assert_same(folder, "classes", smiles, [estimator.predict_proba(smiles)[:, 1:]])
    assert json.loads((folder / "classes.json").read_text())["classes"] == [["no", "yes"]]


def test_numbers_that_single_precision_does_not_hold_are_refused() -> None:
    one = np.ones(1)
    for mean, variance, message in (
        (0 * one, 1e-50 * one, "variances of y do not fit single precision"),
        (0 * one, 1e50 * one, "variances of y do not fit single precision"),
        (1.7e9 * one, 2500 * one, "y are too far from 0 for single precision"),
    ):
        with pytest.raises(ValueError, match=message):
            _check_range("y", mean, variance)
    _check_range("y", np.array([1e40, -2.0, 500.0]), np.array([np.inf, 1.0, 4.0]))  # a constant


def test_what_is_no_graph_is_refused_in_one_line(folder: Path) -> None:
    for words, message in (
        ("+ridge +o.onnx", "wl-ridge keeps its molecules"),
        ("+attentive +o.onnx", "cannot export attentive-fp"),
        ("+tiny +o.onnx", "variances of targets do not fit single precision: rescale them"),
        ("+ridge +o.txt", "expected a file .onnx in a folder that exists"),
    ):
        *before, last = run(folder, f"export {words}", status=2).splitlines()
        assert last.startswith("pyg-kernels export: error: ") and message in last
        assert len(before) <= 2 and all(line.endswith(" ...") for line in before)
        assert not (folder / "o.onnx").exists()
