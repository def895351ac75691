"""Gathered tables: lines, sections, what is beyond chance, what is damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.molecules.__main__ import main
from benchmarks.molecules.scores import each_score, paired_differences, score
from tests.benchmarks.conftest import assert_refused, printed

Y = np.random.default_rng(0).normal(size=(80, 1))


def write(folder: Path, model: str, seed: int, error: float, history=(), **more: Any) -> Path:
    """A finished run whose predictions err by noise of this size."""
    prediction = Y + error * np.random.default_rng([seed, len(model)]).normal(size=Y.shape)
    about = {"program": "benchmarks.molecules", "digest": "d", "molecules": "set: 80"}
    about |= {"targets": ["a<b>"], "bonds": True, "settings": {"lr": 0.1}, **more}
    record = {"dataset": "set", "split": "random", "model": model, "seed": seed, "metric": "rmse"}
    record |= {"train": error, "valid": error, "test": score("rmse", Y, prediction)}
    record |= {"epochs": 1, "seconds_per_epoch": 0.5, "seconds": 1.0, "fitted_on": 9}
    record |= {"num_parameters": 7, "history": history, "about": about}
    run = folder / "runs" / f"set-random-{model}-seed{seed}"
    run.mkdir(parents=True)
    (run / "record.json").write_text(json.dumps(record))
    np.savez(run / "test.npz", y=Y, prediction=prediction)
    made = {"versions": {"torch": "2"}, "commit": "c", "backend": "b"}
    configuration = {**made, "threads": 1, "options": {"model": [model], "root": None}}
    (folder / "configuration.json").write_text(json.dumps(configuration))
    return run


@pytest.fixture
def gather(call_main, tmp_path):
    return lambda *words: call_main(main, "report", tmp_path, *words)


def rows(out: str) -> dict[str, list[str]]:
    lines = [line.split("  ") for line in out.splitlines() if "  " in line]
    found = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {line[0]: line[1:] for line in found}


def test_lines_are_models_over_seeds_and_folders_the_best_first(gather, tmp_path):
    history = [{"epoch": 1, "train_loss": 1.0, "valid_loss": 1.0, "seconds": 0.5}]
    for seed in (0, 1):
        write(tmp_path / "deep" / f"part{seed}", "good", seed, 0.1, history)
        write(tmp_path / "all", "bad", seed, 1.0)
    write(tmp_path / "all", "equal", 0, 0.1)
    found = rows(printed(gather("--out", tmp_path / "report")))
    names = [name for name in found if name in ("good", "bad", "equal")]
    assert names[-1] == "bad" and found[names[0]][-2] == "best"
    assert found["good"][1] == "2" and "±" in found["good"][6]
    assert "*" in found["bad"][-2] and "*" not in found[names[1]][-2]
    report = tmp_path / "report"
    pictures = [f"{kind}-set-random.png" for kind in ("learning", "predictions")]
    names = [*pictures, "report.html", "table.md"]
    assert sorted(path.name for path in report.iterdir()) == names
    page = (report / "report.html").read_text()
    assert "a&lt;b&gt;" in page and "<b>" not in page and "<script" not in page
    assert page.count("data:image/png;base64,") == 2
    assert "commit c; torch 2; backend b; 1 threads; model [&#39;good&#39;]" in page
    first = {path.name: path.read_bytes() for path in report.iterdir()}
    gather("--out", report)
    assert {path.name: path.read_bytes() for path in report.iterdir()} == first


@pytest.mark.usefixtures("undrawn")
def test_settings_and_folders_that_differ_name_lines_apart(gather, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    write(tmp_path / "b", "net", 0, 0.2, settings={"lr": 0.5})
    for seed in (0, 1):
        write(tmp_path / "z", "net", seed, 0.3)
    out = printed(gather())
    found = {name: line[1] for name, line in rows(out).items() if name.startswith("net")}
    a, z = (f"net (lr 0.1) in {tmp_path / name}" for name in "az")
    assert found == {a: "1", "net (lr 0.5)": "1", z: "2"}


@pytest.mark.usefixtures("undrawn")
def test_sections_are_of_the_same_molecules_and_one_kind_of_score(gather, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    run = write(tmp_path / "b", "net", 0, 0.1)
    content = json.loads((run / "record.json").read_text())
    content["metric"] = "roc-auc"
    (run / "record.json").write_text(json.dumps(content))
    np.savez(run / "test.npz", y=(Y > 0).astype(float), prediction=Y)
    for names in (("rmse", "roc-auc"), ("rmse-d", "rmse-e", "roc-auc-d")):
        out = printed(gather("--out", tmp_path / str(len(names))))
        assert "RMSE of a<b>" in out and "ROC-AUC of a<b>" in out
        found = {path.name for path in (tmp_path / str(len(names))).glob("*.png")}
        assert found == {f"predictions-set-random-{name}.png" for name in names}
        if len(names) == 2:
            assert "identity" not in out
            write(tmp_path / "c", "net", 0, 0.1, digest="e")
    assert "set: 80 (identity d)" in out and "set: 80 (identity e)" in out


@pytest.mark.usefixtures("undrawn")
def test_what_is_damaged_or_unfinished_is_named(gather, call_main, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    (write(tmp_path / "a", "net", 1, 0.1) / "record.json").unlink()
    for name, file, content in (("record", "record.json", b"{"), ("numbers", "test.npz", b"PK")):
        run = write(tmp_path / name, "net", 2, 0.1)
        (run / file).write_bytes(content)
    (write(tmp_path / "other", "net", 3, 0.1) / "record.json").write_text('{"task": "lfp"}')
    status, out, err = gather()
    assert status == 1
    assert rows(out)["net"][1] == "1"
    assert err.count("is damaged") == 2 and err.count("unfinished: ") == 1
    assert (tmp_path / "report.html").read_text().count("is damaged") == 2
    assert gather("--out", tmp_path / "a" / "configuration.json")[0] == 2
    (tmp_path / "empty").mkdir()
    assert_refused(call_main(main, "report", tmp_path / "empty"), "no finished run")


def test_intervals_of_paired_differences_contain_the_true_one_as_often_as_said():
    """Predictions that share most of their error: the difference is known well, the errors not."""
    random, inside, widths = np.random.default_rng(0), 0, []
    for _ in range(30):
        y, shared = random.normal(size=(2, 60, 1))
        seeds = [[y + shared + random.normal(size=y.shape) * 0.1 for _ in range(3)] for _ in "ab"]
        same, (low, high) = paired_differences("rmse", y, seeds, rounds=100)
        assert same == (0, 0)
        inside += low <= 0 <= high
        widths.append(high - low)
    assert inside >= 25
    assert np.mean(widths) < 0.1  # of errors of about 1, whose own intervals are four times as wide


@pytest.mark.parametrize(
    ("metric", "definition"), [("roc-auc", roc_auc_score), ("pr-auc", average_precision_score)]
)
def test_scores_of_drawn_molecules_are_those_of_their_copies(metric, definition):
    random = np.random.default_rng(0)
    y = random.integers(2, size=(50, 3)).astype(float)
    y[random.random(y.shape) < 0.2] = np.nan
    y[:, 2] = np.where(np.isnan(y[:, 2]), np.nan, 1.0)  # a single class
    prediction = random.random(y.shape).round(1)  # with ties
    drawn = random.integers(4, size=50)
    found = each_score(metric, y, prediction, drawn)
    for k in (0, 1):
        there = np.repeat(np.arange(50), drawn)
        there = there[~np.isnan(y[there, k])]
        expected = definition(y[there, k], prediction[there, k])
        assert found[k] == pytest.approx(expected)
    assert np.isnan(found[2])
    assert score(metric, y, prediction, drawn) == pytest.approx(found[:2].mean())
