"""``python -m benchmarks.molecules`` from end to end: the user's own files, sets of the Open Graph
Benchmark, and ``--model chemprop``, a command of another package.
"""

import json
import math
import os
import re
import stat
import sys

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from benchmarks.harness.options import parse
from benchmarks.harness.task import PARTS
from benchmarks.molecules.__main__ import COMMANDS
from benchmarks.molecules.models import named_model
from benchmarks.molecules.options import OGB_SETS
from pyg_kernels.datasets.ogb import SETS
from pyg_kernels.molecules import KERNEL_METHODS, load
from pyg_kernels.molecules.command import main as pyg_kernels
from pyg_kernels.ops import backend
from tests.benchmarks.conftest import assert_refused, metrics_of, printed, runs_of, table_of
from tests.ogb_sets import SMILES, write_ogb_set

PROGRAM = "benchmarks.molecules"
SMALL = ("--hidden", 8, "--layers", 2, "--batch-size", 16, "--epochs", 2, "--quiet")
pytestmark = pytest.mark.usefixtures("few_rounds")


def rmse(rows: pandas.DataFrame) -> float:
    return math.sqrt(((rows["prediction"] - rows["y"]) ** 2).mean())


def test_compares_models_over_seeds_and_splits(compare, molecules_csv, tmp_path):
    words = ("--data", molecules_csv, "--model", "gine", "mean", "--seeds", 0, 1)
    out = printed(compare(*words, "--split", "random", "scaffold"))
    records, table = metrics_of(tmp_path / "out"), table_of(tmp_path / "out")
    found = sorted((r["split"], r["model"], r["seed"]) for r in records)
    runs = (("gine", 0), ("gine", 1), ("mean", 0))
    assert found == [(split, *run) for split in ("random", "scaffold") for run in runs]
    assert {(r["dataset"], r["metric"]) for r in records} == {("molecules", "rmse")}
    assert len({record["test"] for record in records}) == 6

    columns = ["dataset", "split", "model", "seed", "part", "row", "smiles", "target", "y"]
    assert list(table) == [*columns, "prediction", "std"]
    assert len(table) == 6 * 60 and (table["std"] > 0).all()
    for record, run in runs_of(tmp_path / "out", table, split="split"):
        network = record["model"] == "gine"
        assert (record["epochs"], record["fitted_on"]) == (2 if network else 0, 48)
        assert (record["num_parameters"] > 1) == network
        assert run["row"].nunique() == 60
        for part in PARTS:
            assert record[part] == pytest.approx(rmse(run[run["part"] == part]), rel=1e-4)
    mean = table[(table["model"] == "mean") & (table["split"] == "random")]
    fitted = mean[mean["part"] == "train"]["y"].mean()
    assert (mean["prediction"] - fitted).abs().max() < 1e-9
    source = molecules_csv.read_text().splitlines()
    for line, smiles, y in table[["row", "smiles", "y"]].head(60).itertuples(index=False):
        assert source[line - 1].startswith(smiles)
        assert float(source[line - 1].rpartition(",")[2]) == pytest.approx(y)
    assert re.search(r"gine .* yes .* \d\.\d{3} ± \d\.\d{3}", out)
    assert re.search(r"mean .* no ", out)


def test_runs_are_those_of_the_estimator_and_of_its_command(
    compare, sulfonamides, write_csv, tmp_path
):
    models, path = ("wl", "wl-subtree-3", "fingerprint-gp"), write_csv(sulfonamides[::2])
    assert compare("--data", path, "--model", *models)[0] == 0
    table = table_of(tmp_path / "out").sort_values("row")
    for model in models:
        run = tmp_path / "out" / "runs" / f"molecules-random-{model}-seed0"
        own = table[table["model"] == model]
        found = load(run / "model").predict(own["smiles"].tolist())
        assert found == pytest.approx(own["prediction"].to_numpy(), abs=1e-4)
        out = tmp_path / f"{model}.csv"
        assert pyg_kernels(["predict", str(run), str(path), "--out", str(out)]) == 0
        predicted = pandas.read_csv(out)
        assert predicted["predicted_pIC50"].to_numpy() == pytest.approx(found, abs=1e-4)
        assert predicted["low_pIC50"].isna().all() or (predicted["low_pIC50"] < found).all()


def test_every_model_is_fitted(compare, sulfonamides, write_csv, tmp_path):
    """Models that only the comparison names, `auto`, a user's own network, and ensembles."""
    models = ("gin-relu", "gin-prelu", "gin-kernel", "auto", "tests.molecules.nets:TwoConvs")
    words = ("--data", write_csv(sulfonamides[::3]), "--epochs", 1)
    ensemble = ("gin", "fingerprint-gp", "--ensemble-size", 2, "--overwrite")
    for more in (models, ensemble):
        printed(compare(*words, "--model", *more))
        assert all(math.isfinite(record["test"]) for record in metrics_of(tmp_path / "out"))


def test_split_column_and_several_targets_with_gaps(compare, sulfonamides, write_csv, tmp_path):
    rows = [
        {
            "SMI": row["smiles"],
            "part": ["Train", "train", "train", "val", "test"][k % 5],
            "a": row["pIC50"] if k % 3 else "",
            "b$|": str(-1000 * float(row["pIC50"])) if k % 4 else "nan",
        }
        for k, row in enumerate(sulfonamides)
    ]
    words = ("--data", write_csv(rows), "--smiles-column", "SMI", "--split-column", "part")
    out = printed(compare(*words, "--target-columns", "a", "b$|", "--model", "gin"))
    (record,) = metrics_of(tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert record["split"] == "column"
    assert table["y"].isna().sum() == 20 + 15
    assert table["prediction"].notna().all()
    test = table[(table["part"] == "test") & table["y"].notna()]
    assert set(test["row"]) <= {k + 2 for k in range(4, 60, 5)}
    each = [rmse(test[test["target"] == name]) for name in ("a", "b$|")]
    assert record["test"] == pytest.approx(sum(each) / 2, rel=1e-4)
    assert all(f"{error:.3f}" in out for error in each)
    assert r"| model | a | b$\| |" in (tmp_path / "out" / "table.md").read_text()


def test_gaussian_processes_see_at_most_so_many_molecules(compare, molecules_csv, tmp_path):
    words = ("--model", "wl-gp", "--gp-molecules", 20, "--seeds", 0, 1)
    assert compare("--data", molecules_csv, *words)[0] == 0
    assert [record["fitted_on"] for record in metrics_of(tmp_path / "out")] == [20] * 2
    run = tmp_path / "out" / "runs" / "molecules-random-wl-gp-seed0"
    assert json.loads((run / "record.json").read_text())["about"]["settings"]["gp_molecules"] == 20
    table = table_of(tmp_path / "out")
    train = table[table["part"] == "train"]
    first, second = (set(train["row"][train["seed"] == seed]) for seed in (0, 1))
    assert len(first) == len(second) == 20 and first != second


def test_invalid_molecules_are_listed_when_skipped(compare, sulfonamides, write_csv, tmp_path):
    rows = [dict(row) for row in sulfonamides]
    rows[3]["smiles"], rows[7]["smiles"] = "C1CC", "not-a-molecule"
    words = ("--model", "mean", "--skip-invalid", "--split", "random", "scaffold", "--data")
    status, _, err = compare(*words, write_csv(rows))
    assert status == 0
    assert all(text in err for text in ("left out 2", "line 5", "line 9"))
    assert len(table_of(tmp_path / "out")) == 2 * 58
    rows[3]["smiles"] = "CC"
    assert compare(*words, write_csv(rows, "others"), "--resume")[0] == 0
    for name, places in (("molecules", [5, 9]), ("others", [9])):
        skipped = pandas.read_csv(tmp_path / "out" / f"skipped-{name}.csv")
        assert list(skipped)[:2] == ["row", "smiles"]
        assert skipped["row"].tolist() == places


def test_shards_and_a_configuration_give_the_same_results(call, compare, molecules_csv, tmp_path):
    words = ("--data", molecules_csv, "--model", "wl", "mean", "--schedule", "exponential")
    words = (*words, "--resample", 0.5)
    assert compare(*words)[0] == 0
    assert compare(*words, "--shards", tmp_path / "shards", "--out", tmp_path / "on-disk")[0] == 0
    again, configuration = tmp_path / "again", tmp_path / "out" / "configuration.json"
    assert call("--config", configuration, "--out", again, "--device", "cpu")[0] == 0
    assert json.loads(configuration.read_text())["backend"] == backend()
    expected = [[record[part] for part in PARTS] for record in metrics_of(tmp_path / "out")]
    for out in (tmp_path / "on-disk", again):
        assert [[record[part] for part in PARTS] for record in metrics_of(out)] == expected
    record = again / "runs" / "molecules-random-wl-seed0" / "record.json"
    training = json.loads(record.read_text())["about"]["settings"]["training_options"]
    assert training == {"schedule": "exponential", "resample": 0.5}
    assert set(table_of(tmp_path / "on-disk")["part"]) == {"test"}


def test_names_of_the_preset_and_of_ogbs_sets():
    words = ["--preset", "lei2017", "--seeds", "1", "2", "--resample", "0.1"]
    options = parse(PROGRAM, COMMANDS[""], words)
    assert (options.data, options.schedule, options.resample) == (("cep",), "exponential", 0.1)
    assert options.seeds == (1, 2)
    for name in options.model:
        named_model(name)
    assert sorted(OGB_SETS) == sorted(SETS)


def test_processes_learn_from_the_training_part_alone(compare, sulfonamides, write_csv, tmp_path):
    """There are training and test parts alone; every third molecule is in a subset."""
    parts, far = ("test", "train", "train", "train"), (1, 0, 0)
    rows = [
        {"smiles": row["smiles"], "y": row["pIC50"], "part": parts[k % 4], "far": far[k % 3]}
        for k, row in enumerate(sulfonamides[::2])
    ]
    one = ("--target-columns", "y", "--split-column", "part", "--subset-column", "far")
    words = ("--data", write_csv(rows), write_csv(rows, "twin"), *one)
    out = printed(compare(*words, "--model", "wl-gp", "fingerprint-gp"))
    table = table_of(tmp_path / "out")
    assert set(table["part"]) == {"train", "test"}
    table = table[(table["part"] == "test") & (table["dataset"] == "molecules")]
    records = [r for r in metrics_of(tmp_path / "out") if r["dataset"] == "molecules"]
    assert [r["fitted_on"] for r in records] == [22] * 2
    for record in records:
        rows = table[table["model"] == record["model"]]
        assert record["test"] == pytest.approx(rmse(rows), rel=1e-6)
        assert record["subset"] == pytest.approx(rmse(rows[(rows["row"] - 2) % 3 == 0]), rel=1e-6)
        inside = (rows["prediction"] - rows["y"]).abs() < 1.2816 * rows["std"]
        assert record["covered"][1] == pytest.approx(inside.mean())
    last = [line.split() for line in out.splitlines() if line.startswith("mean ")][-1]
    assert sorted(last[1::2]) == sorted(f"{record['test']:.3f}" for record in records)


def test_other_molecules_and_damaged_runs_are_refused(compare, molecules_csv, tmp_path, drawn):
    words = ("--data", molecules_csv, "--model", "gin", "--resume")
    assert compare(*words[:-1])[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("out/*.*")}
    content = molecules_csv.read_text()
    molecules_csv.write_text(content + "CCO,X,5.0\n")
    assert_refused(compare(*words), "was made with data molecules-random")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("out/*.*")} == before
    molecules_csv.write_text(content)
    (tmp_path / "out/runs/molecules-random-gin-seed0/test.npz").write_bytes(b"PK")
    assert_refused(compare(*words), "remove its folder to fit this run again")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with three sets: of numbers, of one class target, of many with gaps."""
    pytest.importorskip("ogb", reason="the reference is the package ogb, of the extra 'test'")
    folder = tmp_path_factory.mktemp("sets")
    numbers = [[len(text) - 3.3 + 0.1 * k] for k, text in enumerate(SMILES)]
    write_ogb_set(folder, "ogbg-molesol", numbers, ["solubility"])
    single = [[float(text[0] == "C")] for text in SMILES]
    write_ogb_set(folder, "ogbg-molhiv", single, ["active"])
    # 17 class targets with gaps, as many as ogbg-molmuv has; one of them has no 1 at all.
    missing, drawn = np.random.default_rng(0).random((2, len(SMILES), 17))
    classes = np.where(missing < 0.1, math.nan, (drawn < 0.5) & (np.arange(17) != 3))
    write_ogb_set(folder, "ogbg-molmuv", classes.tolist(), [f"c{k}" for k in range(17)])
    return folder


def official(dataset, metric, table):
    """The score that OGB's evaluator gives to a table of predictions of one part."""
    from ogb.graphproppred import Evaluator

    wide = table.pivot(index="row", columns="target", values=["y", "prediction"])
    given = {"y_true": wide["y"].to_numpy(), "y_pred": wide["prediction"].to_numpy()}
    return Evaluator(dataset).eval(given)[metric]


@pytest.mark.parametrize(
    ("dataset", "metric", "title", "targets"),
    [
        ("ogbg-molesol", "rmse", "RMSE", 1),
        ("ogbg-molhiv", "rocauc", "ROC-AUC", 1),
        ("ogbg-molmuv", "ap", "average precision", 17),
    ],
)
def test_results_are_ogbs_own(compare, root, tmp_path, dataset, metric, title, targets, drawn):
    words = ("--data", dataset, "--root", root, "--model", "gine", "wl-subtree-3", "mean")
    out = printed(compare(*words))
    records, table = metrics_of(tmp_path / "out"), table_of(tmp_path / "out")
    assert len(records) == 3 and len(table) == 3 * 30 * targets
    for record, run in runs_of(tmp_path / "out", table):
        assert record["split"] == "official"
        for part in PARTS:
            expected = official(dataset, metric, run[run["part"] == part])
            assert record[part] == pytest.approx(expected, rel=1e-6)
    if dataset == "ogbg-molhiv":  # a run reads new molecules with the features of its set
        own = table[table["model"] == "gine"]
        own[["smiles"]].to_csv(tmp_path / "new.csv", index=False)
        run = tmp_path / "out" / "runs" / "ogbg-molhiv-official-gine-seed0"
        given = ("predict", run, tmp_path / "new.csv", "--out", tmp_path / "predicted.csv")
        assert pyg_kernels([*map(str, given)]) == 0
        predicted = pandas.read_csv(tmp_path / "predicted.csv")["probability_active_1"]
        assert predicted.tolist() == pytest.approx(own["prediction"].tolist(), abs=1e-5)
    if metric != "rmse":
        assert table["prediction"].between(0, 1).all()
        (mean,) = (record for record in records if record["model"] == "mean")
        assert mean["test"] == 0.5 or metric == "ap"
    assert f"{title} of " in out
    assert f"{dataset}: 30 molecules, official split: 18 train, 6 valid, 6 test" in out
    assert (f"Test {title} of each target" in out) == (targets > 1)
    if targets > 1:  # each of many targets has a row, with a dash where a class is absent
        rows = [line.split() for line in out.splitlines() if line.startswith("c3 ")]
        assert rows == [["c3", "-", "-", "-"]]


def test_classes_of_a_csv(compare, write_csv, tmp_path):
    rows = [
        {"smiles": text, "odd": k % 2, "aliphatic": int(text[0] == "C") if k % 3 else ""}
        for k, text in enumerate(SMILES * 2)
    ]
    words = ("--data", write_csv(rows), "--model", "gine", "mean")
    out = printed(compare(*words, "fingerprint-gp", "--task", "classification"))
    found = {record["model"]: record for record in metrics_of(tmp_path / "out")}
    assert (found["gine"]["metric"], found["mean"]["test"]) == ("roc-auc", 0.5)
    assert found["fingerprint-gp"]["train"] > 0.5
    assert "Test ROC-AUC of each target" in out
    table = table_of(tmp_path / "out")
    train = table[(table["part"] == "train") & (table["model"] == "mean")]
    for _, rows in train.groupby("target"):
        assert rows["prediction"].tolist() == pytest.approx([rows["y"].mean()] * len(rows))
    # The same columns, learned as numbers.
    assert "RMSE of" in compare(*words[:3], "mean", "--out", tmp_path / "other")[1]


# Stands in for Chemprop's command: it learns the mean of each target and predicts this mean plus
# 0.01 for each letter of the SMILES.
STAND_IN = """#!{python}
import pathlib, sys
import pandas
task, words = sys.argv[1], sys.argv[2:]
option = lambda name: words[words.index(name) + 1]
rows = pandas.read_csv(option("-i"))
if task == "train":
    targets = words[words.index("--target-columns") + 1 : words.index("--task-type")]
    rows.assign(kind=option("--task-type")).to_csv({log!r})
    out = pathlib.Path(option("--output-dir")) / "model_0"
    out.mkdir(parents=True)
    rows[rows["part"] == "train"][targets].mean().to_json(out / "best.pt")
else:
    means = pandas.read_json(option("--model-path"), typ="series")
    answers = {{name: mean + 0.01 * rows["smiles"].str.len() for name, mean in means.items()}}
    rows[["smiles"]].assign(**answers).to_csv(option("--output"), index=False)
"""


@pytest.fixture
def chemprop(tmp_path, monkeypatch):
    """Puts a stand-in for the command on ``PATH``; gives the table that it saw in training."""
    if sys.platform == "win32":
        pytest.skip("the stand-in is a script with a first line of Unix")
    folder, log = tmp_path / "bin", tmp_path / "seen.csv"
    folder.mkdir()
    command = folder / "chemprop"
    command.write_text(STAND_IN.format(python=sys.executable, log=str(log)))
    command.chmod(command.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return log


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_chemprop_learns_and_is_measured(
    compare, chemprop, sulfonamides, write_csv, tmp_path, monkeypatch, kind
):
    rows = [{"smiles": row["smiles"], "a": float(row["pIC50"])} for row in sulfonamides]
    if kind == "classification":
        for k, row in enumerate(rows):
            row.update(a=k % 2, b="" if k % 3 else k % 2)
    words = ("--data", write_csv(rows), "--task", kind, "--model", "chemprop")
    assert compare(*words)[0] == 0
    seen = pandas.read_csv(chemprop)
    assert seen["part"].value_counts().to_dict() == {"train": 48, "val": 6}
    assert set(seen["kind"]) == {kind}
    (record,), table = metrics_of(tmp_path / "out"), table_of(tmp_path / "out")
    assert record["fitted_on"] == 48
    for _, rows in table.groupby("target"):
        mean = rows[rows["part"] == "train"]["y"].mean()  # of the values that are not missing
        expected = mean + 0.01 * rows["smiles"].str.len()
        assert len(rows) == 60 and (rows["prediction"] - expected).abs().max() < 1e-6
    (run,) = tmp_path.glob("out/runs/*chemprop-seed0")
    if kind == "regression":
        assert record["test"] == pytest.approx(rmse(table[table["part"] == "test"]), rel=1e-6)
        found = load(run / "model").predict(table["smiles"])
        assert found == pytest.approx(table["prediction"].to_numpy(), abs=1e-6)
    monkeypatch.setenv("PATH", "")  # finished runs need no command
    assert compare(*words, "--resume")[0] == 0
    monkeypatch.delitem(KERNEL_METHODS, "chemprop")  # as if benchmarks were not imported
    with pytest.raises(ValueError, match="has models that are unknown here: chemprop"):
        load(run / "model")


def test_what_went_wrong_with_chemprop_is_one_line(compare, chemprop, molecules_csv, monkeypatch):
    words = ("--data", molecules_csv, "--model", "chemprop")
    command = chemprop.parent / "bin" / "chemprop"
    command.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such option')\n")
    assert_refused(compare(*words), "chemprop train ended with status 1: no such option")
    monkeypatch.setenv("PATH", "")
    assert_refused(compare(*words, "--overwrite"), "the command chemprop is not found")
