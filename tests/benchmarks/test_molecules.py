"""``python -m benchmarks.molecules`` from end to end."""

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from benchmarks.harness.molecules.command_line import main
from pyg_kernels.ops import backend

ROOT = Path(__file__).parents[2]
KEYS = [
    "dataset",
    "split",
    "model",
    "seed",
    "num_parameters",
    "metric",
    "train",
    "valid",
    "test",
    "epochs",
    "seconds_per_epoch",
]


def rmse(rows: pandas.DataFrame) -> float:
    return math.sqrt(((rows["prediction"] - rows["y"]) ** 2).mean())


def test_compares_models_over_seeds(compare, molecules_csv, tmp_path):
    status, out, err = compare(
        "--csv", molecules_csv, "--model", "gine", "mean", "--seeds", 0, 1, "--hidden", 8
    )
    assert (status, err) == (0, "")
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [list(record) for record in records] == [KEYS] * 4
    assert [(r["model"], r["seed"]) for r in records] == [
        ("gine", 0),
        ("gine", 1),
        ("mean", 0),
        ("mean", 1),
    ]
    assert {(r["dataset"], r["split"], r["metric"]) for r in records} == {("csv", "random", "rmse")}
    assert [r["epochs"] for r in records] == [2, 2, 0, 0]
    assert records[0]["seconds_per_epoch"] > 0
    assert records[2]["num_parameters"] == 1
    assert records[0]["test"] != records[1]["test"]
    assert records[2]["test"] == records[3]["test"]

    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(table) == ["model", "seed", "part", "row", "smiles", "target", "y", "prediction"]
    assert len(table) == 4 * 60
    assert set(table["target"]) == {"pIC50"}
    for record in records:
        run = table[(table["model"] == record["model"]) & (table["seed"] == record["seed"])]
        assert run["row"].nunique() == 60
        for part in ("train", "valid", "test"):
            assert record[part] == pytest.approx(rmse(run[run["part"] == part]), rel=1e-4)

    source = molecules_csv.read_text().splitlines()
    for line, smiles, y in table[["row", "smiles", "y"]].head(60).itertuples(index=False):
        assert source[line - 1].startswith(smiles)
        assert float(source[line - 1].rpartition(",")[2]) == pytest.approx(y)

    for name in ("parity.png", "learning_curves.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    markdown = (tmp_path / "out" / "table.md").read_text()
    for text in (out, markdown):
        assert re.search(r"gine .* yes .* random .* \d\.\d{3} ± \d\.\d{3}", text)
        assert re.search(r"mean .* no .* random ", text)
        assert "seeds 0, 1" in text


def test_mean_predictor_is_the_mean_of_the_training_part(compare, molecules_csv, tmp_path):
    compare("--csv", molecules_csv, "--model", "mean")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    mean = table[table["part"] == "train"]["y"].mean()
    assert (table["prediction"] - mean).abs().max() < 1e-4


@pytest.mark.parametrize("split", ["random", "scaffold"])
def test_built_in_data_needs_no_file(compare, tmp_path, split):
    status, out, _ = compare("--model", "mean", "--split", split)
    assert status == 0
    assert f"{split} split" in out
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert len(table) == 1017


def test_split_column_and_several_targets_with_gaps(compare, sulfonamides, write_csv, tmp_path):
    rows = [
        {
            "SMI": row["smiles"],
            "part": ["Train", "train", "train", "val", "test"][k % 5],
            "a": row["pIC50"] if k % 3 else "",
            "b": str(-1000 * float(row["pIC50"])) if k % 4 else "nan",
        }
        for k, row in enumerate(sulfonamides)
    ]
    status, out, err = compare(
        *("--csv", write_csv(rows), "--smiles-column", "SMI", "--split-column", "part"),
        *("--target-columns", "a", "b", "--model", "gin"),
    )
    assert (status, err) == (0, "")
    assert "column split" in out
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert len(table) == 120
    assert table["y"].isna().sum() == 20 + 15
    assert table["prediction"].notna().all()
    test = table[(table["part"] == "test") & table["y"].notna()]
    assert set(test["row"]) <= {k + 2 for k in range(4, 60, 5)}
    each = [rmse(test[test["target"] == name]) for name in ("a", "b")]
    assert record["test"] == pytest.approx(sum(each) / 2, rel=1e-4)
    assert f"{each[0]:.3f}" in out
    assert f"{each[1]:.3f}" in out


@pytest.mark.parametrize(
    "model",
    [
        *("wl-gated", "wl", "graph-kernel", "gated-walk", "random-walk", "neural-fingerprint"),
        *("gin-prelu", "gin-kernel"),
    ],
)
def test_every_model_trains(compare, molecules_csv, tmp_path, model):
    status, _, err = compare("--csv", molecules_csv, "--model", model, "--epochs", 1)
    assert (status, err) == (0, "")
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert math.isfinite(record["test"])
    assert record["num_parameters"] > 100


def test_training_beats_the_mean(compare, molecules_csv, tmp_path):
    status, _, _ = compare(
        *("--csv", molecules_csv, "--model", "gine", "mean", "--epochs", 40, "--hidden", 24),
        *("--patience", 40),
    )
    gine, mean = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert status == 0
    assert gine["train"] < 0.5 * mean["train"]


def test_invalid_molecules_are_listed_when_skipped(compare, sulfonamides, write_csv, tmp_path):
    rows = [dict(row) for row in sulfonamides]
    rows[3]["smiles"], rows[7]["smiles"] = "C1CC", "not-a-molecule"
    status, _, err = compare("--csv", write_csv(rows), "--model", "mean", "--skip-invalid")
    assert status == 0
    assert "left out 2" in err
    assert "line 5" in err
    assert "line 9" in err
    skipped = pandas.read_csv(tmp_path / "out" / "skipped.csv")
    assert skipped["row"].tolist() == [5, 9]
    assert len(pandas.read_csv(tmp_path / "out" / "predictions.csv")) == 58


def test_progress_is_silenced_by_quiet_only(compare, call, molecules_csv, tmp_path):
    words = ("--csv", molecules_csv, "--model", "gine", "--device", "cpu", "--hidden", 8)
    status, out, err = call(*words, "--epochs", 3, "--out", tmp_path / "loud")
    assert (status, err) == (0, "")
    assert "60 molecules" in out
    assert "gine (seed 0): epoch 3/3, valid RMSE" in out
    status, out, err = compare(*words)
    assert (status, err) == (0, "")
    assert "epoch 2/2" not in out


# One case a line: a name, the CSV's text (None: no file), the words, what the message must say.
GOOD = "smiles,y\n" + "".join(f"{'C' * k}O,{k}\n" for k in range(1, 41))
BAD_INPUT = [
    ("unknown model", GOOD, ("--model", "transformer"), "transformer"),
    ("unknown dataset", None, ("--dataset", "zinc"), "zinc"),
    ("unknown split", GOOD, ("--split", "date"), "date"),
    ("unknown option", GOOD, ("--color", "red"), "--color"),
    ("no epochs", GOOD, ("--epochs", "0"), "at least 1"),
    ("batch of one", GOOD, ("--batch-size", "1"), "at least 2"),
    ("negative rate", GOOD, ("--lr", "-1"), "above 0"),
    ("order zero", GOOD, ("--order", "0", "--model", "wl"), "at least 1"),
    ("too few parameters", GOOD, ("--parameters", "3", "--model", "gine"), "3 parameters"),
    ("unknown device", GOOD, ("--device", "tpu9"), "tpu9"),
    ("absent device", GOOD, ("--device", "cuda:99"), "cuda:99"),
    ("missing file", None, ("--dataset", "csv", "--csv", "nowhere.csv"), "nowhere.csv"),
    ("csv without file", None, ("--dataset", "csv"), "--csv"),
    ("file without csv", GOOD, ("--dataset", "chembl"), "--csv goes with"),
    ("resume and overwrite", GOOD, ("--resume", "--overwrite"), "exclude"),
    ("no file name", None, ("--csv", ""), "--csv: must not be empty"),
    ("no folder name", GOOD, ("--out", ""), "--out: must not be empty"),
    (
        "split seed of a column",
        "smiles,y,part\nCO,1,train\nCC,2,valid\nCCO,3,test\n",
        ("--split-column", "part", "--split-seed", "5"),
        "--split-seed goes with",
    ),
    ("size of no process", GOOD, ("--gp-molecules", "9", "--model", "gine"), "--gp-molecules goes"),
    ("root of a file", GOOD, ("--root", "data"), "--root goes with"),
    ("smiles column of chembl", None, ("--smiles-column", "s"), "--smiles-column goes with"),
    ("two sizes", GOOD, ("--hidden", "8", "--parameters", "900"), "--hidden and --parameters"),
    ("factor of cosine", GOOD, ("--lr-factor", "0.5"), "--lr-factor goes with"),
    ("factor of none", GOOD, ("--lr-factor", "0.5", "--schedule", "none"), "not none"),
    ("width beyond memory", GOOD, ("--hidden", "2147483647"), "at most 65536"),
    ("too many parameters", GOOD, ("--hidden", "65536", "--model", "gine"), "parameters; at most"),
    ("budget beyond memory", GOOD, ("--parameters", "2147483647"), "parameters; at most"),
    ("too many layers", GOOD, ("--layers", "2147483647"), "at most 1000"),
    ("missing smiles column", GOOD, ("--smiles-column", "SMILES"), "'SMILES'"),
    ("missing target column", GOOD, ("--target-columns", "z"), "'z'"),
    ("missing split column", GOOD, ("--split-column", "part"), "'part'"),
    ("split without column", GOOD, ("--split", "column"), "--split-column"),
    ("empty file", "", (), "empty"),
    ("header only", "smiles,y\n", (), "no molecules"),
    ("no targets", "smiles,name\nCO,a\nCC,b\n", (), "no column of numbers"),
    ("target not a number", "smiles,y\nCO,1\nCC,high\n", ("--target-columns", "y"), "line 3"),
    ("invalid molecule", GOOD + "C1CC,3\n", (), "line 42"),
    ("invalid molecule, option", GOOD + "C1CC,3\n", (), "--skip-invalid"),
    ("too few to split", "smiles,y\nCO,1\nCC,2\nCCO,3\n", (), "split leaves no molecules"),
    (
        "unknown part",
        "smiles,y,part\nCO,1,train\nCC,2,valid\nCCO,3,later\n",
        ("--split-column", "part"),
        "'later'",
    ),
    (
        "one training molecule",
        "smiles,y,part\nCO,1,train\nCC,2,valid\nCCO,3,test\n",
        ("--split-column", "part"),
        "single molecule",
    ),
    (
        "nothing measured in test",
        "smiles,y,part\nCO,1,train\nCC,2,train\nCCO,3,valid\nCCC,,test\n",
        ("--split-column", "part"),
        "test part has no measured",
    ),
    (
        "target not measured in train",
        "smiles,y,z,part\nCO,1,,train\nCC,2,,train\nCCO,3,1,valid\nCCC,2,2,test\n",
        ("--split-column", "part"),
        "target 'z'",
    ),
]


@pytest.mark.parametrize(
    ("text", "words", "said"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT]
)
def test_bad_input_is_one_line_and_leaves_nothing(call, tmp_path, text, words, said):
    file = ()
    if text is not None:
        (tmp_path / "input.csv").write_text(text)
        file = ("--csv", tmp_path / "input.csv")
    status, out, err = call(*file, "--out", tmp_path / "out", *words)
    assert (status, out) == (2, "")
    assert err.startswith("benchmarks.molecules: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.csv"] * bool(file)


def test_results_are_neither_mixed_nor_lost(compare, call, molecules_csv, tmp_path):
    words = ("--csv", molecules_csv, "--model", "mean")
    assert compare(*words)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("out/*.*")}

    status, _, err = compare(*words)
    assert status == 2
    assert "--resume" in err
    assert err.count("\n") == 1
    status, _, err = compare(*words, "--resume", "--lr", 0.5)
    assert status == 2
    assert "optimizer" in err
    assert err.count("\n") == 1
    molecules_csv.write_text(molecules_csv.read_text() + "CCO,X,5.0\n")
    status, _, err = compare(*words, "--resume")
    assert status == 2
    assert "61" in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.glob("out/*.*")} == before

    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert compare(*words, "--overwrite")[0] == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert len(pandas.read_csv(tmp_path / "out" / "predictions.csv")) == 61

    mine = tmp_path / "out" / "runs" / "thesis" / "chapter.tex"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert compare(*words, "--overwrite", "--model", "gin")[0] == 0
    assert sorted(p.name for p in (tmp_path / "out" / "runs").iterdir()) == ["gin-seed0", "thesis"]
    assert mine.read_text() == "mine"
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "configuration.json").write_text('{"name": "a robot"}')
    (tmp_path / "theirs" / "metrics.json").write_text("[]")
    status, _, err = compare(*words, "--out", tmp_path / "theirs", "--overwrite")
    assert (status, err.count("\n")) == (2, 1)
    assert "not of this module" in err
    assert len(list((tmp_path / "theirs").iterdir())) == 2

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    status, _, err = compare(*words, "--out", tmp_path / "other", "--overwrite")
    assert status == 2
    assert "not results" in err
    status, _, err = compare(*words, "--out", molecules_csv)
    assert status == 2
    assert err.count("\n") == 1


def test_models_can_be_added_with_resume(compare, molecules_csv, tmp_path):
    assert compare("--csv", molecules_csv, "--model", "gine")[0] == 0
    first = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert compare("--csv", molecules_csv, "--model", "gine", "mean", "--resume")[0] == 0
    both = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert both[0] == first[0]
    assert both[1]["model"] == "mean"
    assert compare("--csv", molecules_csv, "--model", "mean", "--resume")[0] == 0
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == both
    assert compare("--csv", molecules_csv, "--model", "mean", "--seed", 1, "--resume")[0] == 0
    more = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [(r["model"], r["seed"]) for r in more] == [("gine", 0), ("mean", 0), ("mean", 1)]
    predicted = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert len(predicted.groupby(["model", "seed"])) == 3
    assert "| gine |" in (tmp_path / "out" / "table.md").read_text()
    status, _, err = compare("--csv", molecules_csv, "--model", "gine", "--resume", "--hidden", 9)
    assert (status, err.count("\n")) == (2, 1)
    assert "gine of another size" in err


def test_resume_compares_molecules_not_paths(compare, molecules_csv, tmp_path):
    assert compare("--csv", molecules_csv, "--model", "mean")[0] == 0
    moved = molecules_csv.rename(tmp_path / "renamed.csv")
    assert compare("--csv", moved, "--model", "mean", "--resume")[0] == 0
    configuration = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert configuration["data"]["csv"] == str(moved)
    assert configuration["backend"] == backend()


@pytest.mark.parametrize(("unit", "offset"), [(1.0, -1e8), (1e-30, 0.0), (1e30, 0.0)])
def test_metrics_scale_with_the_unit(
    compare, call, sulfonamides, write_csv, tmp_path, unit, offset
):
    rows = [
        {"smiles": r["smiles"], "y": repr(float(r["pIC50"]) * unit + offset)} for r in sulfonamides
    ]
    words = ("--model", "gine", "mean", "--csv")
    assert compare(*words, write_csv(sulfonamides), "--target-columns", "pIC50")[0] == 0
    expected = json.loads((tmp_path / "out" / "metrics.json").read_text())
    path = write_csv(rows, "scaled")
    status, out, _ = compare(*words, path, "--out", tmp_path / "scaled")
    assert status == 0
    found = json.loads((tmp_path / "scaled" / "metrics.json").read_text())
    for mine, theirs in zip(found, expected, strict=True):
        for part in ("train", "valid", "test"):
            # Adam makes much of rounding where a bias has no effect before batch normalisation.
            tolerance = 1e-6 if mine["model"] == "mean" else 0.02
            assert mine[part] / unit == pytest.approx(theirs[part], rel=tolerance)
    assert not re.search(r" 0\.000 ", out)
    checkpoint = tmp_path / "scaled" / "runs" / "gine-seed0" / "best.ckpt"
    call("predict", "--checkpoint", checkpoint, "--csv", path, "--out", tmp_path / "p.csv")
    table = pandas.read_csv(tmp_path / "scaled" / "predictions.csv").sort_values("row")
    table = table[table["model"] == "gine"]
    predicted = pandas.read_csv(tmp_path / "p.csv")["predicted_y"]
    error = (predicted.to_numpy() - table["prediction"].to_numpy()) / unit
    assert abs(error).max() < 1e-4


def test_target_names_are_shown_as_they_are(compare, sulfonamides, write_csv, tmp_path):
    names = ("NA", "$a_$", "a|b$", "two\nlines", "five")
    rows = [{"smiles": r["smiles"]} | dict.fromkeys(names, r["pIC50"]) for r in sulfonamides]
    words = ("--csv", write_csv(rows), "--model", "mean")
    status, out, err = compare(*words)
    assert status == 0
    assert err.count("\n") == 1
    assert "predicts 5 columns: 'NA', '$a_$', 'a|b$', 'two\\nlines', 'five'" in err
    lines = out.splitlines()
    start = lines.index("Test RMSE of each target")
    assert len({len(line) for line in lines[start + 2 :]}) == 1
    markdown = (tmp_path / "out" / "table.md").read_text()
    assert r"| model | NA | $a_$ | a\|b$ | two lines | five |" in markdown
    status, again, _ = compare(*words, "--resume")
    assert (status, again) == (0, out)
    assert "nan" not in again


def test_chosen_or_single_targets_are_not_named(compare, sulfonamides, write_csv):
    rows = [{"smiles": r["smiles"], "a": r["pIC50"], "b": r["pIC50"]} for r in sulfonamides]
    words = ("--csv", write_csv(rows), "--model", "mean", "--target-columns", "a", "b")
    assert compare(*words)[::2] == (0, "")


def shell(command, tmp_path, molecules_csv):
    words = f"--csv {molecules_csv} --model gine mean --hidden 8 --device cpu --epochs 3"
    program = f"{sys.executable} -m benchmarks.molecules {words} --out {tmp_path / 'out'}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} {command}"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )


def test_training_goes_on_when_nobody_reads(tmp_path, molecules_csv):
    done = shell("| head -1", tmp_path, molecules_csv)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert len(json.loads((tmp_path / "out" / "metrics.json").read_text())) == 2
    assert (tmp_path / "out" / "parity.png").exists()


def test_output_need_not_be_utf8(tmp_path, molecules_csv):
    done = shell("--seeds 0 1", tmp_path, molecules_csv)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\d \? \d", done.stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_full_disk_is_one_line(tmp_path, molecules_csv):
    done = shell("> /dev/full", tmp_path, molecules_csv)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("benchmarks.molecules: error: standard output: ")


@pytest.mark.parametrize("model", ["gine", "wl-subtree-3"])
def test_results_that_cannot_be_written_are_one_line(tmp_path, molecules_csv, model):
    """A limit on the size of files stands for a full disk."""
    words = [*("--csv", str(molecules_csv), "--model", model, "--epochs", "1", "--hidden", "1")]
    words += ["--layers", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path / "out")]
    program = shlex.join([sys.executable, "-B", "-m", "benchmarks.molecules", *words])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 4; {program}"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "File too large" in done.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.endswith(".part")]
    assert main([*words, "--resume"]) == 0


def test_interrupt_says_how_to_continue(molecules_csv, tmp_path):
    words = ["--csv", str(molecules_csv), "--model", "gine", "--hidden", "8", "--device", "cpu"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.molecules", *words),
            *("--epochs", "100000", "--patience", "100000", "--out", str(tmp_path / "out")),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell inherit that interrupts are ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    checkpoint = tmp_path / "out" / "runs" / "gine-seed0" / "last.ckpt"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == (
        "benchmarks.molecules: interrupted; continue with the same command and --resume"
    )


def test_help_answers_without_torch():
    code = (
        "import sys; from benchmarks.harness.molecules.command_line import compare_parser as p;"
        "p().format_help(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
