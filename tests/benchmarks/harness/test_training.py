"""Resumption: an interrupted run ends where the uninterrupted one does."""

import json
from random import Random

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

import pandas

from benchmarks.harness import training
from benchmarks.harness.learner import OptimizerConfig, learning_rate_factor
from benchmarks.harness.molecules.regressor import MoleculeRegressor
from benchmarks.harness.progress import EpochHistory
from tests.benchmarks.interruption import interrupt_once, results


@pytest.mark.parametrize(
    ("schedule", "model"),
    [("cosine", "wl-gated"), ("exponential", "gine"), ("plateau", "gine"), ("none", "gine")],
)
def test_resumed_run_equals_the_uninterrupted_one(
    compare, molecules_csv, tmp_path, monkeypatch, schedule, model
):
    words = ("--csv", molecules_csv, "--model", model, "--epochs", 9, "--schedule", schedule)
    words += ("--lr", 0.03)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    for place, epoch in (("on_train_epoch_start", 7), ("on_train_epoch_end", 2)):
        raised = interrupt_once(
            monkeypatch,
            EpochHistory,
            place,
            lambda self, trainer, module, epoch=epoch: trainer.current_epoch == epoch,
        )
        assert compare(*words, "--out", tmp_path / place)[0] == 130
        assert raised
        assert not (tmp_path / place / "metrics.json").exists()
        assert compare(*words, "--out", tmp_path / place, "--resume")[0] == 0
        assert results(tmp_path / place) == results(tmp_path / "whole")


def test_mixed_precision_clips_gradients(compare, molecules_csv, tmp_path):
    """What a GPU takes by itself; Lightning refuses to clip with Adam in one pass."""
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 1, "--clip", 5)
    assert compare(*words, "--precision", "bf16-mixed")[0] == 0


def test_resume_where_the_folder_was_moved(compare, molecules_csv, tmp_path, monkeypatch):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 8, "--lr", 0.05)
    words += ("--schedule", "none", "--patience", 8)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    (run,), _ = results(tmp_path / "whole")
    valid = [epoch["valid_rmse"] for epoch in run["history"]]
    best = valid.index(min(valid))
    assert best < 5, "the best epoch must come before the interruption"
    interrupt_once(
        monkeypatch,
        EpochHistory,
        "on_train_epoch_start",
        lambda self, trainer, module: trainer.current_epoch == best + 1,
    )
    assert compare(*words)[0] == 130
    (tmp_path / "out").rename(tmp_path / "moved")
    assert compare(*words, "--out", tmp_path / "moved", "--resume")[0] == 0
    assert results(tmp_path / "moved") == results(tmp_path / "whole")


@pytest.mark.parametrize("schedule", ["cosine", "exponential", "plateau", "none"])
def test_learning_rate_follows_the_schedule(compare, molecules_csv, tmp_path, schedule):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 12, "--patience", 12)
    assert compare(*words, "--schedule", schedule, "--lr", 0.05)[0] == 0
    (run,), _ = results(tmp_path / "out")
    rates = [epoch["learning_rate"] for epoch in run["history"]]
    if schedule == "plateau":
        adam = torch.optim.SGD([torch.zeros(1)], lr=0.05)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=0.5, patience=5)
        expected = []
        for epoch in run["history"]:
            plateau.step(epoch["valid_error"])
            expected.append(adam.param_groups[0]["lr"])
        assert expected[-1] < 0.05, "the schedule must have acted"
    else:
        config = OptimizerConfig(0.05, schedule, factor=0.9)
        factor = learning_rate_factor(config, 12 * 3, 3)  # 48 molecules in batches of 16
        expected = [0.05 * factor(3 * epoch) for epoch in range(1, 13)]
    assert rates == pytest.approx(expected)


def test_best_epoch_weighs_every_target_alike(compare, sulfonamides, write_csv, tmp_path):
    noise = Random(0)
    rows = [
        {"smiles": r["smiles"], "a": r["pIC50"], "b": 1000 * noise.gauss()} for r in sulfonamides
    ]
    words = ("--csv", write_csv(rows), "--target-columns", "a", "b", "--model", "gine")
    words += ("--epochs", 12, "--schedule", "none", "--lr", 0.01, "--patience", 12)
    assert compare(*words)[0] == 0
    (run,), _ = results(tmp_path / "out")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    table["error"] = (table["prediction"] - table["y"]) ** 2
    std = table[table["part"] == "train"].groupby("target")["y"].std(ddof=0)
    each = table[table["part"] == "valid"].groupby("target")["error"].mean() ** 0.5
    lowest = min(epoch["valid_error"] for epoch in run["history"])
    assert (each / std).mean() == pytest.approx(lowest, rel=1e-4)
    by_unit = min(run["history"], key=lambda epoch: epoch["valid_rmse"])
    assert by_unit["valid_error"] > lowest, "the test must tell the two criteria apart"


def test_damaged_results_are_one_line(compare, molecules_csv, tmp_path, monkeypatch):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 3)
    interrupt_once(
        monkeypatch,
        EpochHistory,
        "on_train_epoch_start",
        lambda self, trainer, module: trainer.current_epoch == 1,
    )
    assert compare(*words)[0] == 130
    folder = tmp_path / "out" / "runs" / "gine-seed0"
    best, last = ((folder / name).read_bytes() for name in ("best.ckpt", "last.ckpt"))

    def refused(name):
        status, out, err = compare(*words, "--resume")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{name} is" in err
        assert "remove" in err

    for content in (last[:1000], b"smiles,y\nCC,1\n"):  # the latter is read as instructions
        (folder / "last.ckpt").write_bytes(content)
        refused("last.ckpt")
    (folder / "last.ckpt").write_bytes(last)
    (folder / "best.ckpt").unlink()
    refused("best.ckpt")
    (folder / "best.ckpt").write_bytes(best)
    assert compare(*words, "--resume")[0] == 0
    whole = results(tmp_path / "out")
    (folder / "predictions.csv").unlink()  # then it is not finished, and is trained again
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == whole
    (folder / "run.json").write_text("{")
    refused("run.json")
    for text in ("[]", "{", '{"seeds": [0]}'):
        (tmp_path / "out" / "configuration.json").write_text(text)
        refused("configuration.json")


def test_resume_in_the_middle_of_an_epoch_and_of_the_table(
    compare, molecules_csv, tmp_path, monkeypatch
):
    words = ("--csv", molecules_csv, "--model", "gin", "gine", "--seeds", 0, 1, "--epochs", 3)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    raised = interrupt_once(
        monkeypatch,
        EpochHistory,
        "on_train_batch_end",
        lambda self, trainer, module, outputs, batch, index: (
            self.seed == 1 and trainer.current_epoch == 1 and index == 1
        ),
    )
    assert compare(*words)[0] == 130
    assert raised
    done = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [(r["model"], r["seed"]) for r in done] == [("gin", 0)]
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_resume_after_early_stopping_trains_no_further(
    compare, molecules_csv, tmp_path, monkeypatch
):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 60, "--patience", 2)
    words += ("--schedule", "none", "--lr", 0.05)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    (record,) = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    assert record["epochs"] < 60
    raised = interrupt_once(monkeypatch, training, "_predict", lambda *args: True)
    assert compare(*words)[0] == 130
    assert raised
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_metrics_are_those_of_the_best_epoch(compare, molecules_csv, tmp_path):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 6, "--lr", 0.05)
    assert compare(*words, "--schedule", "none", "--patience", 6)[0] == 0
    (run,), _ = results(tmp_path / "out")
    valid = [epoch["valid_rmse"] for epoch in run["history"]]
    assert len(valid) == run["record"]["epochs"]
    assert min(valid) < valid[-1]
    assert run["record"]["valid"] == pytest.approx(min(valid), rel=1e-5)
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    rows = table[table["part"] == "valid"]
    error = ((rows["prediction"] - rows["y"]) ** 2).mean() ** 0.5
    assert error == pytest.approx(min(valid), rel=1e-4)


def test_divergence_is_one_line_and_status_1(compare, molecules_csv, monkeypatch):
    original = MoleculeRegressor.on_validation_epoch_end

    def not_a_number(self):
        self.valid_error.squared_error.fill_(float("nan"))
        original(self)

    monkeypatch.setattr(MoleculeRegressor, "on_validation_epoch_end", not_a_number)
    status, out, err = compare("--csv", molecules_csv, "--model", "gine")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "gine (seed 0)" in err
    assert "epoch 1" in err
