"""Checkpoints on new molecules."""

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from benchmarks.harness.molecules.prediction import load_learner

ROOT = Path(__file__).parents[4]


@pytest.fixture
def trained(compare, molecules_csv, tmp_path):
    """A checkpoint, and the predictions that its run wrote, by SMILES."""
    assert compare("--csv", molecules_csv, "--model", "gine")[0] == 0
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    return (
        tmp_path / "out" / "runs" / "gine-seed0" / "best.ckpt",
        dict(zip(table["smiles"], table["prediction"], strict=True)),
    )


def test_predictions_are_those_of_the_run(call, trained, molecules_csv, tmp_path):
    checkpoint, expected = trained
    out = tmp_path / "predicted.csv"
    words = ("predict", "--checkpoint", checkpoint, "--csv", molecules_csv, "--device", "cpu")
    assert call(*words, "--out", out) == (0, "", "")
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["smiles", "id", "pIC50", "predicted_pIC50"]
    assert len(rows) == 60
    for row in rows:
        assert float(row["predicted_pIC50"]) == pytest.approx(expected[row["smiles"]], rel=1e-4)
    status, printed, err = call(*words)
    assert (status, printed, err) == (0, out.read_text(), "")


def test_only_a_smiles_column_is_needed(call, trained, tmp_path):
    checkpoint, expected = trained
    smiles = next(iter(expected))
    path = tmp_path / "new.csv.gz"
    path.write_bytes(gzip.compress(f"name,Molecule\nfirst,{smiles}\n\nsecond,C\n".encode()))
    words = ("predict", "--checkpoint", checkpoint, "--csv", path, "--smiles-column", "Molecule")
    status, out, err = call(*words)
    header, first, second = out.splitlines()
    assert (status, err, header) == (0, "", "name,Molecule,predicted_pIC50")
    assert float(first.rpartition(",")[2]) == pytest.approx(expected[smiles], rel=1e-4)
    assert second.startswith("second,C,")


def test_a_pipe_is_read_once(trained, molecules_csv, call):
    words = ("predict", "--checkpoint", trained[0], "--device", "cpu", "--quiet", "--csv")
    _, expected, _ = call(*words, molecules_csv)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.molecules", *map(str, words), "/dev/stdin"],
        input=molecules_csv.read_bytes(),
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == expected


def test_predictions_are_not_predicted_again(call, trained, tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("smiles,predicted_pIC50\nCCO,1\n")
    status, out, err = call("predict", "--checkpoint", trained[0], "--csv", path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'predicted_pIC50'" in err


def test_invalid_molecules_keep_their_row(call, trained, tmp_path):
    checkpoint, _ = trained
    path = tmp_path / "new.csv"
    path.write_text("smiles\nCCO\nC1CC\nCCN\n")
    words = ("predict", "--checkpoint", checkpoint, "--csv", path)
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert "line 3" in err
    assert "--skip-invalid" in err
    status, out, err = call(*words, "--skip-invalid")
    assert status == 0
    assert "line 3" in err
    assert [bool(line.partition(",")[2]) for line in out.splitlines()] == [True, True, False, True]


def test_checkpoint_carries_what_prediction_needs(trained):
    regressor = load_learner(trained[0])
    assert not regressor.training
    assert regressor.hparams["targets"]["names"] == ["pIC50"]
    assert regressor.hparams["model"]["name"] == "gine"


def test_bad_input_is_one_line_and_leaves_nothing(call, trained, molecules_csv, tmp_path):
    checkpoint, _ = trained
    (tmp_path / "text.ckpt").write_text("hello")
    (tmp_path / "table.ckpt").write_text("smiles,y\nCC,1\n")  # IndexError in torch.load
    torch.save({"weights": torch.zeros(2)}, tmp_path / "foreign.ckpt")
    content = torch.load(checkpoint, weights_only=True)
    content["hyper_parameters"]["features"]["atom_features"][0]["choices"].pop()
    torch.save(content, tmp_path / "features.ckpt")
    before = sorted(path.name for path in tmp_path.iterdir())
    good = {"--checkpoint": checkpoint, "--csv": molecules_csv, "--out": tmp_path / "p.csv"}
    for change, said in (
        ({"--checkpoint": tmp_path / "none.ckpt"}, "no such file"),
        ({"--checkpoint": tmp_path / "text.ckpt"}, "not a checkpoint"),
        ({"--checkpoint": tmp_path / "table.ckpt"}, "not a checkpoint"),
        ({"--checkpoint": tmp_path / "foreign.ckpt"}, "not a checkpoint"),
        ({"--checkpoint": tmp_path / "features.ckpt"}, "atom features differs"),
        ({"--csv": tmp_path / "none.csv"}, "none.csv"),
        ({"--smiles-column": "SMILES"}, "'SMILES'"),
        ({"--device": "tpu"}, "tpu"),
        ({"--out": molecules_csv}, "overwrite an input"),
        ({"--out": tmp_path / "nowhere" / "p.csv"}, "existing folder"),
        ({"--color": "red"}, "--color"),
    ):
        words = [word for pair in (good | change).items() for word in pair]
        status, out, err = call("predict", *words)
        assert (status, out, err.count("\n")) == (2, "", 1), change
        assert err.startswith("benchmarks.molecules: error: ")
        assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
