"""The comparison on sets of the Open Graph Benchmark, and on classes of a CSV."""

import math

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
pytest.importorskip("ogb", reason="the reference is the package ogb, of the extra 'test'")

import pandas

from benchmarks.molecules.options import OGB_SETS
from pyg_kernels.datasets.ogb import SETS
from pyg_kernels.molecules.command import main as pyg_kernels
from tests.benchmarks.conftest import metrics_of, printed, runs_of
from tests.ogb_sets import SMILES, write_ogb_set

NAN = math.nan
NUMBERS = [[len(text) - 3.3 + 0.1 * k] for k, text in enumerate(SMILES)]
# 17 classes, as many as ogbg-molmuv has, with gaps; one has no 1 at all.
DRAWN = np.random.default_rng(0).random((2, len(SMILES), 17))
CLASSES = np.where(DRAWN[0] < 0.1, NAN, (DRAWN[1] < 0.5) & (np.arange(17) != 3)).tolist()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a set of numbers, one of single classes and one of many classes with gaps."""
    folder = tmp_path_factory.mktemp("sets")
    write_ogb_set(folder, "ogbg-molesol", NUMBERS, ["solubility"])
    single = [[float(text[0] == "C")] for text in SMILES]
    write_ogb_set(folder, "ogbg-molhiv", single, ["active"])
    write_ogb_set(folder, "ogbg-molmuv", CLASSES, [f"c{k}" for k in range(17)])
    return folder


def official(dataset, metric, table):
    """What OGB's evaluator says of a table of predictions of one part."""
    from ogb.graphproppred import Evaluator

    places = {name: k for k, name in enumerate(dict.fromkeys(table["target"]))}
    rows = {row: k for k, row in enumerate(dict.fromkeys(table["row"]))}
    y, prediction = np.full((2, len(rows), len(places)), NAN)
    for line in table.itertuples():
        y[rows[line.row], places[line.target]] = line.y
        prediction[rows[line.row], places[line.target]] = line.prediction
    return Evaluator(dataset).eval({"y_true": y, "y_pred": prediction})[metric]


@pytest.mark.parametrize(
    ("dataset", "metric", "title", "targets"),
    [
        ("ogbg-molesol", "rmse", "RMSE", 1),
        ("ogbg-molhiv", "rocauc", "ROC-AUC", 1),
        ("ogbg-molmuv", "ap", "average precision", 17),
    ],
)
def test_results_are_ogbs_own(compare, root, tmp_path, dataset, metric, title, targets):
    words = ("--data", dataset, "--root", root, "--model", "gine", "wl-subtree-3", "mean")
    out = printed(compare(*words))
    records = metrics_of(tmp_path / "out")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert len(records) == 3 and len(table) == 3 * 30 * targets
    for record, run in runs_of(tmp_path / "out", table):
        assert record["split"] == "official"
        for part in ("train", "valid", "test"):
            expected = official(dataset, metric, run[run["part"] == part])
            assert record[part] == pytest.approx(expected, rel=1e-6)
    if dataset == "ogbg-molhiv":  # a run predicts new molecules with the features of its set
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
    if targets > 1:  # more targets than columns: a row each, a dash where a class is absent
        rows = [line.split() for line in out.splitlines() if line.startswith("c3 ")]
        assert rows == [["c3", "-", "-", "-"]]
    name = f"predictions-{dataset}-official.png"
    assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("undrawn")
def test_classes_of_a_csv(compare, tmp_path):
    second = [str(int(text[0] == "C")) if k % 3 else "" for k, text in enumerate(SMILES * 2)]
    lines = [f"{text},{k % 2},{second[k]}" for k, text in enumerate(SMILES * 2)]
    path = tmp_path / "classes.csv"
    path.write_text("\n".join(["smiles,odd,aliphatic", *lines]) + "\n")
    words = ("--data", path, "--task", "classification", "--model", "gine", "mean")
    out = printed(compare(*words, "fingerprint-gp"))
    found = {record["model"]: record for record in metrics_of(tmp_path / "out")}
    assert (found["gine"]["metric"], found["mean"]["test"]) == ("roc-auc", 0.5)
    assert found["fingerprint-gp"]["train"] > 0.5
    assert "Test ROC-AUC of each target" in out
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    train = table[(table["part"] == "train") & (table["model"] == "mean")]
    for _, rows in train.groupby("target"):
        assert rows["prediction"].tolist() == pytest.approx([rows["y"].mean()] * len(rows))
    # The same columns as numbers.
    assert "RMSE of" in compare("--data", path, "--model", "mean", "--out", tmp_path / "other")[1]


def test_names_are_those_of_ogbs_sets():
    assert sorted(OGB_SETS) == sorted(SETS)
