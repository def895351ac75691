"""``--model chemprop``: what is handed to Chemprop's command, and what is made of its answers."""

import json
import math
import os
import stat
import sys

import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from pyg_kernels.molecules import KERNEL_METHODS, load
from tests.benchmarks.conftest import assert_refused, metrics_of

# It learns the mean of each target and answers it plus 0.01 a letter of the SMILES.
STAND_IN = """#!{python}
import csv, json, pathlib, sys
task, words = sys.argv[1], sys.argv[2:]
option = lambda name: words[words.index(name) + 1]
with open(option("-i")) as file:
    rows = list(csv.DictReader(file))
if task == "train":
    end = words.index("--task-type")
    targets = words[words.index("--target-columns") + 1 : end]
    train = [row for row in rows if row["part"] == "train"]
    values = {{t: [float(row[t]) for row in train if row[t]] for t in targets}}
    means = {{t: sum(values[t]) / len(values[t]) for t in targets}}
    out = pathlib.Path(option("--output-dir")) / "model_0"
    out.mkdir(parents=True)
    (out / "best.pt").write_text(json.dumps(means))
    parts = [row["part"] for row in rows]
    seen = {{"train": parts.count("train"), "val": parts.count("val"), "rows": len(rows)}}
    seen |= {{"kind": words[end + 1], "seed": option("--pytorch-seed")}}
    pathlib.Path({log!r}).write_text(json.dumps(seen))
else:
    means = json.loads(pathlib.Path(option("--model-path")).read_text())
    with open(option("--output"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["smiles", *means])
        for row in rows:
            s = row["smiles"]
            table.writerow([s, *(mean + 0.01 * len(s) for mean in means.values())])
"""


@pytest.fixture
def chemprop(tmp_path, monkeypatch):
    """A stand-in for the command; what it saw of the training table."""
    if sys.platform == "win32":
        pytest.skip("the stand-in is a script with a first line of Unix")
    folder, log = tmp_path / "bin", tmp_path / "seen.json"
    folder.mkdir()
    command = folder / "chemprop"
    command.write_text(STAND_IN.format(python=sys.executable, log=str(log)))
    command.chmod(command.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return log


@pytest.mark.usefixtures("undrawn")
def test_it_learns_and_is_measured(compare, chemprop, molecules_csv, tmp_path, monkeypatch):
    assert compare("--data", molecules_csv, "--model", "chemprop", "mean")[0] == 0
    seen = json.loads(chemprop.read_text())
    assert (seen["train"], seen["val"], seen["rows"]) == (48, 6, 54)
    assert seen["kind"] == "regression"
    records = {record["model"]: record for record in metrics_of(tmp_path / "out")}
    assert records["chemprop"]["fitted_on"] == 48
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    own, mean = (table[table["model"] == name].reset_index() for name in ("chemprop", "mean"))
    expected = mean["prediction"] + 0.01 * own["smiles"].str.len()
    assert own["row"].equals(mean["row"])
    assert (own["prediction"] - expected).abs().max() < 1e-6
    tested = own[own["part"] == "test"]
    error = math.sqrt(((tested["prediction"] - tested["y"]) ** 2).mean())
    assert records["chemprop"]["test"] == pytest.approx(error, rel=1e-6)
    (run,) = tmp_path.glob("out/runs/*chemprop-seed0")
    again = load(run / "model").predict(own["smiles"])
    assert (own["prediction"] - again).abs().max() < 1e-6
    monkeypatch.setenv("PATH", "")  # what is finished needs no command
    words = ("--data", molecules_csv, "--model", "chemprop", "mean", "--resume")
    assert compare(*words)[0] == 0
    monkeypatch.delitem(KERNEL_METHODS, "chemprop")  # as where benchmarks were not imported
    with pytest.raises(ValueError, match="has models that are unknown here: chemprop"):
        load(run / "model")


@pytest.mark.usefixtures("undrawn")
def test_classes_and_targets_that_are_missing(compare, chemprop, write_csv, tmp_path):
    rows = [
        {"smiles": "C" * (k % 7 + 1) + "NO"[k % 2], "a": k % 2, "b": "" if k % 3 else k % 2}
        for k in range(60)
    ]
    words = ("--data", write_csv(rows), "--task", "classification", "--model", "chemprop")
    assert compare(*words)[0] == 0
    assert json.loads(chemprop.read_text())["kind"] == "classification"
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert table["target"].value_counts().to_dict() == {"a": 60, "b": 60}
    for _, rows in table.groupby("target"):
        mean = rows[rows["part"] == "train"]["y"].mean()  # of those that there are
        expected = mean + 0.01 * rows["smiles"].str.len()
        assert (rows["prediction"] - expected).abs().max() < 1e-6


def test_what_went_wrong_is_one_line(compare, chemprop, molecules_csv, monkeypatch):
    words = ("--data", molecules_csv, "--model", "chemprop")
    command = chemprop.parent / "bin" / "chemprop"
    command.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such option')\n")
    assert_refused(compare(*words), "chemprop train ended with status 1: no such option")
    monkeypatch.setenv("PATH", "")
    assert_refused(compare(*words, "--overwrite"), "the command chemprop is not found")
