"""``python -m benchmarks.molecules`` from end to end."""

import json
import math
import re

import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from benchmarks.harness.options import parse
from benchmarks.harness.task import PARTS
from benchmarks.molecules.__main__ import COMMANDS
from benchmarks.molecules.models import named_model
from pyg_kernels.molecules import load
from pyg_kernels.molecules.command import main as pyg_kernels
from pyg_kernels.ops import backend
from tests.benchmarks.conftest import assert_refused, printed, runs_of
from tests.benchmarks.conftest import metrics_of as metrics


def rmse(rows: pandas.DataFrame) -> float:
    return math.sqrt(((rows["prediction"] - rows["y"]) ** 2).mean())


def test_compares_models_over_seeds_and_splits(compare, molecules_csv, tmp_path):
    words = ("--data", molecules_csv, "--model", "gine", "mean", "--seeds", 0, 1)
    out = printed(compare(*words, "--split", "random", "scaffold"))
    records = metrics(tmp_path / "out")
    found = sorted((r["split"], r["model"], r["seed"]) for r in records)
    runs = (("gine", 0), ("gine", 1), ("mean", 0))
    assert found == [(split, *run) for split in ("random", "scaffold") for run in runs]
    assert {(r["dataset"], r["metric"]) for r in records} == {("molecules", "rmse")}
    assert len({record["test"] for record in records}) == 6

    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    columns = ["dataset", "split", "model", "seed", "part", "row", "smiles", "target", "y"]
    assert list(table) == [*columns, "prediction", "std"]
    assert len(table) == 6 * 60
    assert (table["std"] > 0).all()
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

    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    kinds = ("learning-molecules", "predictions-molecules")
    assert pictures == [f"{kind}-{split}.png" for kind in kinds for split in ("random", "scaffold")]
    markdown = (tmp_path / "out" / "table.md").read_text()
    for text in (out, markdown):
        assert re.search(r"gine .* yes .* \d\.\d{3} ± \d\.\d{3}", text)
        assert re.search(r"mean .* no ", text)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "<script" not in page


@pytest.mark.usefixtures("undrawn")
def test_runs_are_those_of_the_estimator_and_of_its_command(
    compare, sulfonamides, write_csv, tmp_path
):
    models, path = ("wl", "wl-subtree-3", "fingerprint-gp"), write_csv(sulfonamides[::2])
    assert compare("--data", path, "--model", *models)[0] == 0
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv").sort_values("row")
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


@pytest.mark.usefixtures("undrawn")
def test_every_model_is_fitted(compare, sulfonamides, write_csv, tmp_path):
    """Those that are not the package's alone: names of the comparison, `auto`, one's own."""
    own = "tests.molecules.nets:TwoConvs"
    models = ("gin-relu", "gin-prelu", "gin-kernel", "auto", own)
    words = ("--data", write_csv(sulfonamides[::3]), "--epochs", 1)
    ensemble = ("gin", "fingerprint-gp", "--ensemble-size", 2, "--overwrite")
    for more in (models, ensemble):
        printed(compare(*words, "--model", *more))
        assert all(math.isfinite(record["test"]) for record in metrics(tmp_path / "out"))


@pytest.mark.usefixtures("undrawn")
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
    (record,) = metrics(tmp_path / "out")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert record["split"] == "column"
    assert table["y"].isna().sum() == 20 + 15
    assert table["prediction"].notna().all()
    test = table[(table["part"] == "test") & table["y"].notna()]
    assert set(test["row"]) <= {k + 2 for k in range(4, 60, 5)}
    each = [rmse(test[test["target"] == name]) for name in ("a", "b$|")]
    assert record["test"] == pytest.approx(sum(each) / 2, rel=1e-4)
    assert all(f"{error:.3f}" in out for error in each)
    assert r"| model | a | b$\| |" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_gaussian_processes_see_at_most_so_many_molecules(compare, molecules_csv, tmp_path):
    words = ("--model", "wl-gp", "--gp-molecules", 20, "--seeds", 0, 1)
    assert compare("--data", molecules_csv, *words)[0] == 0
    records = metrics(tmp_path / "out")
    assert [record["fitted_on"] for record in records] == [20] * 2
    run = tmp_path / "out" / "runs" / "molecules-random-wl-gp-seed0"
    assert json.loads((run / "record.json").read_text())["about"]["settings"]["gp_molecules"] == 20
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    train = table[table["part"] == "train"]
    first, second = (set(train["row"][train["seed"] == seed]) for seed in (0, 1))
    assert len(first) == len(second) == 20 and first != second


@pytest.mark.usefixtures("undrawn")
def test_invalid_molecules_are_listed_when_skipped(compare, sulfonamides, write_csv, tmp_path):
    rows = [dict(row) for row in sulfonamides]
    rows[3]["smiles"], rows[7]["smiles"] = "C1CC", "not-a-molecule"
    words = ("--model", "mean", "--skip-invalid", "--split", "random", "scaffold", "--data")
    status, _, err = compare(*words, write_csv(rows))
    assert status == 0
    assert all(text in err for text in ("left out 2", "line 5", "line 9"))
    assert pandas.read_csv(tmp_path / "out" / "skipped-molecules.csv")["row"].tolist() == [5, 9]
    assert len(pandas.read_csv(tmp_path / "out" / "predictions.csv")) == 2 * 58
    rows[3]["smiles"] = "CC"
    assert compare(*words, write_csv(rows, "others"), "--resume")[0] == 0
    for name, places in (("molecules", [5, 9]), ("others", [9])):
        skipped = pandas.read_csv(tmp_path / "out" / f"skipped-{name}.csv")
        assert list(skipped)[:2] == ["row", "smiles"]
        assert skipped["row"].tolist() == places


@pytest.mark.usefixtures("undrawn")
def test_shards_and_a_configuration_give_the_same_results(call, compare, molecules_csv, tmp_path):
    words = ("--data", molecules_csv, "--model", "wl", "mean", "--schedule", "exponential")
    words = (*words, "--resample", 0.5)
    assert compare(*words)[0] == 0
    assert compare(*words, "--shards", tmp_path / "shards", "--out", tmp_path / "on-disk")[0] == 0
    again, configuration = tmp_path / "again", tmp_path / "out" / "configuration.json"
    assert call("--config", configuration, "--out", again, "--device", "cpu")[0] == 0
    assert json.loads(configuration.read_text())["backend"] == backend()
    expected = [[record[part] for part in PARTS] for record in metrics(tmp_path / "out")]
    for out in (tmp_path / "on-disk", again):
        assert [[record[part] for part in PARTS] for record in metrics(out)] == expected
    record = tmp_path / "again" / "runs" / "molecules-random-wl-seed0" / "record.json"
    training = json.loads(record.read_text())["about"]["settings"]["training_options"]
    assert training == {"schedule": "exponential", "resample": 0.5}
    table = pandas.read_csv(tmp_path / "on-disk" / "predictions.csv")
    assert set(table["part"]) == {"test"}


def test_the_preset_names_models():
    words = ["--preset", "lei2017", "--seeds", "1", "2", "--resample", "0.1"]
    options = parse("benchmarks.molecules", COMMANDS[""], words)
    assert (options.data, options.schedule, options.resample) == (("cep",), "exponential", 0.1)
    assert options.seeds == (1, 2)
    for name in options.model:
        named_model(name)


@pytest.mark.usefixtures("undrawn")
def test_processes_learn_from_the_training_part_alone(compare, sulfonamides, write_csv, tmp_path):
    """Parts of training and test alone, and every third molecule in a subset."""
    parts, far = ("test", "train", "train", "train"), (1, 0, 0)
    rows = [
        {"smiles": row["smiles"], "y": row["pIC50"], "part": parts[k % 4], "far": far[k % 3]}
        for k, row in enumerate(sulfonamides[::2])
    ]
    one = ("--target-columns", "y", "--split-column", "part", "--subset-column", "far")
    words = ("--data", write_csv(rows), write_csv(rows, "twin"), *one)
    out = printed(compare(*words, "--model", "wl-gp", "fingerprint-gp"))
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert set(table["part"]) == {"train", "test"}
    table = table[(table["part"] == "test") & (table["dataset"] == "molecules")]
    records = [r for r in metrics(tmp_path / "out") if r["dataset"] == "molecules"]
    assert [r["fitted_on"] for r in records] == [22] * 2
    for record in records:
        rows = table[table["model"] == record["model"]]
        assert record["test"] == pytest.approx(rmse(rows), rel=1e-6)
        assert record["subset"] == pytest.approx(rmse(rows[(rows["row"] - 2) % 3 == 0]), rel=1e-6)
        inside = (rows["prediction"] - rows["y"]).abs() < 1.2816 * rows["std"]
        assert record["covered"][1] == pytest.approx(inside.mean())
    last = [line.split() for line in out.splitlines() if line.startswith("mean ")][-1]
    found = {r["model"]: f"{r['test']:.3f}" for r in records}
    assert sorted(last[1::2]) == sorted(found.values())


@pytest.mark.usefixtures("undrawn")
def test_other_molecules_and_damaged_runs_are_refused(compare, molecules_csv, tmp_path):
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
