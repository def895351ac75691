"""The molecule benchmark on sets of the Open Graph Benchmark, and on classes of a CSV."""

import json
import math

import numpy as np
import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
pytest.importorskip("ogb", reason="the reference is the package ogb, of the extra 'test'")

import pandas

from benchmarks.harness.molecules.classifier import each_ranking_score
from benchmarks.harness.molecules.command_line import DATASETS, EPOCHS, compare_parser
from benchmarks.harness.molecules.data import DataChoice, MoleculeData, load_molecules
from benchmarks.harness.molecules.models import ModelConfig
from benchmarks.harness.molecules.ogb_sets import LARGE, OGB_SETS
from benchmarks.harness.molecules.prediction import load_learner
from benchmarks.harness.molecules.regressor import MoleculeRegressor
from benchmarks.harness.molecules.report import curves_plot
from benchmarks.harness.molecules.task import MoleculeTask
from benchmarks.harness.training import Run
from pyg_kernels.chem import MolFeaturizer, OGBFeaturizer
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.datasets.ogb import SETS
from tests.ogb_sets import SMILES, write_ogb_set

NAN = math.nan
NUMBERS = [[len(text) - 3.3 + 0.1 * k] for k, text in enumerate(SMILES)]
# 17 classes, as many as ogbg-molmuv has, with gaps; one has no 1 at all.
DRAWN = np.random.default_rng(0).random((2, len(SMILES), 17))
CLASSES = np.where(DRAWN[0] < 0.1, NAN, (DRAWN[1] < 0.5) & (np.arange(17) != 3)).tolist()


@pytest.fixture
def root(tmp_path):
    """A folder with a set of numbers, one of single classes and one of many classes with gaps."""
    write_ogb_set(tmp_path / "ogb", "ogbg-molesol", NUMBERS, ["solubility"])
    single = [[float(text[0] == "C")] for text in SMILES]
    write_ogb_set(tmp_path / "ogb", "ogbg-molhiv", single, ["active"])
    write_ogb_set(tmp_path / "ogb", "ogbg-molmuv", CLASSES, [f"c{k}" for k in range(17)])
    return tmp_path / "ogb"


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
        ("ogbg-molmuv", "ap", "AP", 17),
    ],
)
def test_results_are_those_of_ogbs_evaluator_over_seeds(
    compare, root, tmp_path, dataset, metric, title, targets
):
    words = ("--dataset", dataset, "--root", root, "--model", "gine", "mean", "--seeds", 0, 1)
    status, out, err = compare(*words)
    assert (status, err) == (0, "")
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert len(table) == 4 * 30 * targets
    for record in records:
        assert (record["split"], record["metric"]) == ("official", metric)
        run = table[(table["model"] == record["model"]) & (table["seed"] == record["seed"])]
        for part in ("train", "valid", "test"):
            expected = official(dataset, metric, run[run["part"] == part])
            assert record[part] == pytest.approx(expected, rel=1e-6)
    if metric != "rmse":
        assert table["prediction"].between(0, 1).all()
        assert [r["valid"] for r in records if r["model"] == "mean"] == [records[2]["valid"]] * 2
        if metric == "rocauc":
            assert records[2]["test"] == 0.5
    history = json.loads((tmp_path / "out/runs/gine-seed0/run.json").read_text())["history"]
    best = min(history, key=lambda epoch: epoch["valid_error"])
    assert best[f"valid_{metric}"] == pytest.approx(records[0]["valid"], rel=1e-5)
    picture = "parity.png" if metric == "rmse" else "curves.png"
    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert pictures == sorted([picture, "learning_curves.png"])
    for text in (out, (tmp_path / "out" / "table.md").read_text()):
        assert f"valid {title}" in text
        assert f"test {title}" in text
        assert "mean ± standard deviation over seeds 0, 1" in text
        assert f"{dataset}: 30 molecules, official split: 18 train, 6 valid, 6 test" in text
        assert (f"Test {title} of each target" in text) == (targets > 1)
    if targets > 1:  # more targets than columns: a row each, a dash where a class is absent
        rows = [line.split() for line in out.splitlines() if line.startswith("c3 ")]
        assert rows == [["c3", "-", "-"]]


def test_a_checkpoint_predicts_new_molecules_with_the_features_of_its_set(
    call, compare, root, tmp_path
):
    words = ("--dataset", "ogbg-molhiv", "--root", root, "--model", "gine")
    assert compare(*words)[0] == 0
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    checkpoint = tmp_path / "out" / "runs" / "gine-seed0" / "best.ckpt"
    path = tmp_path / "new.csv"
    path.write_text("smiles\n" + "\n".join(table["smiles"]) + "\n")
    status, out, err = call("predict", "--checkpoint", checkpoint, "--csv", path, "--device", "cpu")
    assert (status, err) == (0, "")
    predicted = [float(line.rpartition(",")[2]) for line in out.splitlines()[1:]]
    assert out.startswith("smiles,predicted_active\n")
    assert predicted == pytest.approx(table["prediction"].tolist(), abs=1e-5)

    learner = load_learner(checkpoint)
    assert learner.features == OGBFeaturizer().description()
    content = torch.load(checkpoint, weights_only=True)
    for change, said in (
        (MolFeaturizer().description() | {"version": 99}, "its version differs from this"),
        (OGBFeaturizer().description() | {"version": 99}, "its version differs from this"),
        (OGBFeaturizer().description() | {"source": "other"}, "features"),
    ):
        content["hyper_parameters"]["features"] = change
        torch.save(content, tmp_path / "changed.ckpt")
        status, out, err = call("predict", "--checkpoint", tmp_path / "changed.ckpt", "--csv", path)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "was trained on other features: " in err
        assert said in err


def test_kernel_methods_learn_numbers_and_refuse_classes(call, compare, root, tmp_path):
    words = ("--root", root, "--model", "wl-subtree-3", "random-walk-gp", "--gp-molecules", 12)
    status, _, err = compare(*words, "--dataset", "ogbg-molesol")
    assert (status, err) == (0, "")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    path = tmp_path / "new.csv"
    path.write_text("smiles\n" + "\n".join(SMILES) + "\n")
    for model in ("wl-subtree-3", "random-walk-gp"):
        checkpoint = tmp_path / "out" / "runs" / f"{model}-seed0" / "best.ckpt"
        status, out, err = call("predict", "--checkpoint", checkpoint, "--csv", path)
        assert (status, err) == (0, "")
        predicted = [float(line.rpartition(",")[2]) for line in out.splitlines()[1:]]
        rows = table[(table["model"] == model) & (table["part"] == "test")]
        assert [predicted[row - 2] for row in rows["row"]] == pytest.approx(
            rows["prediction"].tolist(), rel=1e-5
        )
    status, out, err = compare(*words, "--dataset", "ogbg-molhiv", "--out", tmp_path / "no")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "wl-subtree-3 is a method of regression" in err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(("dataset", "title"), [("ogbg-molhiv", ""), ("ogbg-molmuv", "17")])
def test_areas_under_the_curves_are_the_scores(compare, root, tmp_path, dataset, title):
    words = ("--dataset", dataset, "--root", root, "--model", "gine", "mean", "--epochs", 1)
    assert compare(*words)[0] == 0
    data = load_molecules(DataChoice(dataset, split="official", root=str(root)))
    runs = [Run.read(tmp_path / "out" / "runs" / f"{name}-seed0") for name in ("gine", "mean")]
    figure = curves_plot(runs, data)
    assert title in figure.get_suptitle()
    for axes, target in zip(figure.axes, data.molecules.target_names, strict=False):
        names = [line for line in axes.lines if line.get_label().startswith(("gine", "mean"))]
        for line, run in zip(names, runs, strict=True):
            rows = run.predictions
            rows = rows[(rows["part"] == "test") & (rows["target"] == target)]
            y, prediction = (rows[[name]].to_numpy() for name in ("y", "prediction"))
            (score,) = each_ranking_score(data.metric, y, prediction)
            x, height = line.get_xdata(), line.get_ydata()
            if score is None:
                assert line.get_label().endswith(" -")
                assert len(x) == 0
            elif data.metric == "rocauc":
                area = (np.diff(x) * (height[1:] + height[:-1]) / 2).sum()
                assert area == pytest.approx(score)
            else:
                assert line.get_drawstyle() == "steps-post"
                assert -(np.diff(x) * height[:-1]).sum() == pytest.approx(score)
    assert len(figure.axes) == (4 if title else 1)


@pytest.fixture
def classes_csv(tmp_path):
    """Two classes of a CSV, one with gaps."""
    lines = [
        f"{text},{k % 2},{'' if k % 3 == 0 else int(text[0] == 'C')}"
        for k, text in enumerate(SMILES * 2)
    ]
    path = tmp_path / "classes.csv"
    path.write_text("\n".join(["smiles,odd,aliphatic", *lines]) + "\n")
    return path


def test_classes_of_a_csv(compare, call, classes_csv, tmp_path):
    words = ("--csv", classes_csv, "--task", "classification", "--target-columns")
    status, out, err = compare(*words, "odd", "aliphatic", "--model", "gine", "mean")
    assert (status, err) == (0, "")
    gine, mean = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (gine["metric"], mean["test"]) == ("rocauc", 0.5)
    assert "Test ROC-AUC of each target" in out
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    train = table[(table["part"] == "train") & (table["model"] == "mean")]
    for _, rows in train.groupby("target"):
        ones, zeros = (rows["y"] == 1).sum() + 0.5, (rows["y"] == 0).sum() + 0.5
        assert rows["prediction"].tolist() == pytest.approx([ones / (ones + zeros)] * len(rows))
    assert compare(*words, "odd", "aliphatic", "--model", "gine", "mean", "--resume")[0] == 0
    # The same columns as numbers.
    status, out, _ = compare("--csv", classes_csv, "--model", "mean", "--out", tmp_path / "numbers")
    assert status == 0
    assert "test RMSE" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dataset", "ogbg-molesol", "--split", "random"), "has its official split alone"),
        (("--dataset", "chembl", "--split", "official"), "official goes with a set of OGB"),
        (("--dataset", "ogbg-molesol", "--split-seed", "3"), "--split-seed goes with"),
        (("--dataset", "ogbg-molesol", "--task", "classification"), "--task goes with"),
        (("--dataset", "ogbg-ppa"), "ogbg-ppa"),
        (("--dataset", "ogbg-molbace", "--root", "NOWHERE"), "is not in NOWHERE/ogbg_molbace"),
        (("--dataset", "cep", "--csv", "a.csv"), "--csv goes with"),
    ],
)
def test_bad_input_is_one_line(call, tmp_path, monkeypatch, words, said):
    import urllib.request

    def unreachable(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    words = [str(tmp_path / "no") if word == "NOWHERE" else word for word in words]
    status, out, err = call("--out", tmp_path / "out", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said.replace("NOWHERE", str(tmp_path / "no")) in err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CO,1,train\nCC,0,train\nCCO,0.5,valid\nCCC,1,test\n", "line 4 has 'y' = 0.5"),
        ("CO,1,train\nCC,0,train\nCCO,0,valid\nC,1,valid\nCCC,1,test\n", "test part has no"),
    ],
)
def test_what_is_no_classification_is_one_line(call, tmp_path, text, said):
    path = tmp_path / "m.csv"
    path.write_text(f"smiles,y,part\n{text}")
    words = ("--csv", path, "--split-column", "part", "--task", "classification")
    status, out, err = call(*words, "--out", tmp_path / "out")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_names_and_defaults_are_those_of_ogbs_sets():
    assert sorted(OGB_SETS) == sorted(SETS)
    assert set(OGB_SETS) < set(DATASETS)
    assert set(EPOCHS) == set(DATASETS)
    assert set(LARGE) < set(OGB_SETS)
    help_text = " ".join(compare_parser().format_help().split())
    assert "100 for ogbg-mol*" in help_text


def test_a_network_that_diverges_has_no_score(root):
    data = load_molecules(DataChoice("ogbg-molesol", split="official", root=str(root)))
    task = MoleculeTask(data)
    predictions = {part: data.targets(part).clone() for part in ("train", "valid", "test")}
    assert task.scores(predictions) == {"train": 0, "valid": 0, "test": 0}
    predictions["train"][0] = NAN  # a baseline leaves it out
    assert task.scores(predictions)["train"] == 0
    predictions["test"][0] = NAN
    assert math.isnan(task.scores(predictions)["test"])


class OnDisk:
    """Molecules that are not held in memory, as the shards of a large file are not."""

    def __init__(self, held: MoleculeDataset) -> None:
        self.held = held

    def __len__(self) -> int:
        return len(self.held)

    def __getattr__(self, name):
        return getattr(self.held, name)


def test_the_table_of_molecules_on_disk_has_the_test_part_alone(root):
    data = load_molecules(DataChoice("ogbg-molesol", split="official", root=str(root)))
    on_disk = MoleculeData(OnDisk(data.molecules), data.parts, data.choice)
    predictions = {part: data.targets(part) for part in ("train", "valid", "test")}
    record = {"model": "gine", "seed": 0}
    table = MoleculeTask(on_disk).prediction_table(record, predictions)
    whole = MoleculeTask(data).prediction_table(record, predictions)
    test = whole[whole["part"] == "test"].reset_index(drop=True)
    assert (table["smiles"] == "").all()
    pandas.testing.assert_frame_equal(table.drop(columns="smiles"), test.drop(columns="smiles"))
    assert (len(whole), len(table)) == (30, 6)


def test_a_learner_says_what_it_was_trained_on(root):
    data = load_molecules(DataChoice("ogbg-molesol", split="official", root=str(root)))
    from benchmarks.harness.learner import OptimizerConfig

    learner = MoleculeTask(data).learner(
        ModelConfig("mean", 174, 13, 1, hidden=1), OptimizerConfig()
    )
    assert isinstance(learner, MoleculeRegressor)
    assert learner.hparams["features"]["source"] == "ogb"
