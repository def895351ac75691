"""Resumption: an interrupted run ends where the uninterrupted one does."""

import json

import pandas
import pytest

from benchmarks.harness import training
from benchmarks.harness.progress import EpochHistory


def results(folder):
    """Everything that must not depend on interruptions; seconds do."""
    runs = []
    for path in sorted(folder.glob("runs/*/run.json")):
        content = json.loads(path.read_text())
        content["record"].pop("seconds_per_epoch")
        for epoch in content["history"]:
            epoch.pop("seconds")
        runs.append(content)
    return runs, (folder / "predictions.csv").read_text()


def interrupt_once(monkeypatch, owner, name, when):
    """Makes a function raise KeyboardInterrupt the first time that `when` says so."""
    original = getattr(owner, name)
    raised = []

    def wrapped(*args, **kwargs):
        if not raised and when(*args, **kwargs):
            raised.append(True)
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return raised


@pytest.mark.parametrize("schedule", ["cosine", "exponential", "plateau", "none"])
def test_resumed_run_equals_the_uninterrupted_one(
    compare, molecules_csv, tmp_path, monkeypatch, schedule
):
    words = ("--csv", molecules_csv, "--model", "gine", "--epochs", 9, "--schedule", schedule)
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
    original = EpochHistory.on_train_epoch_end

    def not_a_number(self, trainer, module):
        trainer.callback_metrics["valid_rmse"].fill_(float("nan"))
        original(self, trainer, module)

    monkeypatch.setattr(EpochHistory, "on_train_epoch_end", not_a_number)
    status, out, err = compare("--csv", molecules_csv, "--model", "gine")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "gine (seed 0)" in err
    assert "epoch 1" in err
