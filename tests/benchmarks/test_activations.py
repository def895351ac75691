"""``python -m benchmarks.papers.activations`` from end to end, on networks of a few units."""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.harness.options import parse
from benchmarks.papers.activations import report
from benchmarks.papers.activations.__main__ import COMMANDS
from benchmarks.papers.activations.options import Charging, LongTerm, Xor
from benchmarks.papers.activations.problems import ChargingTrial, LongTermTrial, XorTrial, patterns
from benchmarks.papers.activations.trial import CHECKPOINT, Training, trained_network
from tests.benchmarks.conftest import assert_refused, interrupt_once, metrics_of, outcome, printed

PROGRAM = "benchmarks.papers.activations"
SMALL = ("--device", "cpu", "--quiet", "--centers", 7, "--seeds", 0)
SEQUENCES = (*SMALL, "--batch-size", 20, "--models", "kbrn", "lstm", "--max-iterations", 12)
WORDS: dict[str, tuple[object, ...]] = {
    "xor": (*SMALL, "--inputs", 2, "--max-iterations", 30),
    "charging": SEQUENCES,
    "long-term": (*SEQUENCES, "--functions", "xor", "--lengths", 6, "--hidden", 3),
}


@pytest.fixture
def train(call, tmp_path: Path, monkeypatch):
    """Trains tiny networks into ``out`` unless the words say otherwise."""
    for kind in (LongTermTrial, ChargingTrial):
        monkeypatch.setattr(kind, "test_sequences", 500)
    return lambda command, *words: call(command, *WORDS[command], "--out", tmp_path / "out", *words)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Interrupts training at an iteration, counted over all trials."""
    counter = count(1)
    interrupt_once(monkeypatch, Training, "iterate", lambda training: next(counter) == number)


def test_more_iterations_go_on_where_fewer_had_ended(train, tmp_path) -> None:
    """They give the network of a longer run."""
    runs = tmp_path / "out" / "runs"
    assert train("long-term")[0] == 0
    first = outcome(runs)
    assert train("long-term", "--max-iterations", 20, "--resume")[0] == 0
    assert train("long-term", "--max-iterations", 20, "--out", tmp_path / "long")[0] == 0
    longer, whole = outcome(runs), outcome(tmp_path / "long" / "runs")
    for path in (path for path in first if path.endswith(CHECKPOINT)):
        assert longer[path] == whole[path]
        record = json.loads((runs / path).with_name("record.json").read_text())
        assert [check["iteration"] for check in record["history"]] == [12, 20]


def test_report_of_what_is_finished(train, tmp_path, monkeypatch, drawn) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, 17)
        assert train("charging")[0] == 130
    out = printed(train("charging", "--report"))
    assert re.search(r"^KBRN +\d+ +0 ", out, re.MULTILINE)
    assert "LSTM  " not in out
    assert {"table.md", "accuracy.png"} <= {path.name for path in (tmp_path / "out").iterdir()}
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        assert train("xor", "--overwrite", "--out", tmp_path / "xor")[0] == 130
    assert_refused(train("xor", "--report", "--out", tmp_path / "xor"), "holds no finished trial")


def test_damaged_checkpoints_are_named(train, tmp_path, drawn) -> None:
    small = ("--max-iterations", 1, "--l1", 0)
    assert train("xor", *small)[0] == 0
    (path,) = (tmp_path / "out" / "runs").glob(f"*/{CHECKPOINT}")
    whole = path.read_bytes()
    for size in (40, len(whole) // 2):  # of half of one PyTorch says that an argument is invalid
        path.write_bytes(whole[:size])
        for words in (("--resume", "--max-iterations", 20), ("--report",)):
            assert_refused(train("xor", *small, *words), f"{path} is damaged")


def step_accuracy(trial: Any, folder: Path, running: bool) -> float:
    """Accuracy of a KBRN of the long-term problem, by its equations in float64."""
    net = trained_network(trial, folder).double()
    cell = net.recurrent.cells[0]
    function, norm = cell.activation, cell.activation.norm
    x, y = trial.test_set()
    h = torch.zeros(x.size(1), trial.options.hidden, dtype=torch.double)
    for step in x.double():
        a = cell.lin_input(step[:, None]) + h @ cell.lin_recurrent.weight.t()
        mean = norm.running_mean if running else a.mean(0)
        var = norm.running_var if running else a.var(0, correction=0)
        a = norm.weight * (a - mean) / (var + norm.eps).sqrt() + norm.bias
        terms = function.coefficients * torch.relu(a[..., None] - function.centers)
        h = terms.sum(-1) + function.slope * a + function.intercept
    logits = net.readout(h).squeeze(-1).detach()
    return ((logits > 0) == (y > 0.5)).double().mean().item()


def test_accuracies_are_by_the_statistics_of_steps_and_by_running_ones(train, tmp_path) -> None:
    words = ("--models", "kbrn", "--functions", "or", "--max-iterations", 49)
    assert train("long-term", *words)[0] == 0
    (record,) = metrics_of(tmp_path / "out")
    place = {"function": "or", "length": 6}
    trial = LongTermTrial(LongTerm(centers=7, hidden=3), "cpu", "kbrn", 0, place)
    folder = tmp_path / "out" / "runs" / trial.name
    for key, kind in (("accuracy", False), ("accuracy_running", True)):
        # 500 sequences; one may lie on the other side in single precision.
        assert record[key] == pytest.approx(step_accuracy(trial, folder, kind), abs=0.005)
    assert record["accuracy"] != record["accuracy_running"]


def test_long_term_trials_end_when_they_have_learned(train, tmp_path, drawn) -> None:
    words = ("--functions", "or", "--lengths", 3, "--hidden", 8, "--batch-size", 100)
    out = printed(train("long-term", *words, "--max-iterations", 600, "--lr", 0.02))
    for record in metrics_of(tmp_path / "out"):
        assert record["learned"] and record["accuracy"] == 1
        assert record["iterations"] % 50 == 0 and record["iterations"] < 600
        run = tmp_path / "out" / "runs" / f"function-or-length-3-{record['model']}-seed0"
        history = json.loads((run / "record.json").read_text())["history"]
        checks = [check["iteration"] for check in history]
        assert checks == list(range(50, record["iterations"] + 1, 50))
        assert [check["accuracy"] for check in history].count(1) == 1
        assert re.search(rf"1 of 1 +{record['iterations']} ", out)
    assert (tmp_path / "out" / "activations.png").exists()


def test_xor_of_two_bits_is_solved_by_one_unit(train, tmp_path) -> None:
    words = ("--centers", 20, "--l1", 0, 0.01, "--max-iterations", 200, "--lr", 0.03)
    out = printed(train("xor", *words))
    plain, smooth = metrics_of(tmp_path / "out")
    assert (plain["l1"], smooth["l1"]) == (0, 0.01)
    for record in (plain, smooth):
        assert record["learned"] and record["iterations"] == 200
        assert record["solved_after"] % 100 == 0
        place = {"inputs": 2, "centers": 20, "l1": record["l1"]}
        trial = XorTrial(Xor(), "cpu", "unit", 0, place)
        unit = trained_network(trial, tmp_path / "out" / "runs" / trial.name).double()
        z, y = patterns(2, "cpu")
        error = (unit(z.double()) - y).square().mean().item()
        assert record["squared_error"] == pytest.approx(error, abs=1e-9)
        # No two centres coincide, so each bends f by twice its coefficient.
        norm = unit.activation.coefficients.abs().sum().item()
        assert record["variation"] == pytest.approx(2 * norm, rel=1e-5)
        centers = unit.activation.centers.flatten()
        a = unit.lin(z.double())
        inside = (centers > a.min()) & (centers < a.max())
        bent = 2 * unit.activation.coefficients.flatten()[inside].abs().sum().item()
        assert record["variation_over_data"] == pytest.approx(bent, rel=1e-5)
        scaled = bent * (a.max() - a.min()).item()
        assert record["variation_times_range"] == pytest.approx(scaled, rel=1e-5)
    assert smooth["variation"] < plain["variation"]
    assert out.count("1 of 1") == 2


def test_charging_table_has_means_over_seeds() -> None:
    def record(seed: int, accuracies: list[float], ended: bool) -> dict[str, Any]:
        iterations = [1, 10, 100, 1000][: len(accuracies)]
        checks = zip(iterations, accuracies, strict=True)
        history = [{"iteration": n, "accuracy": a} for n, a in checks]
        known = {"model": "kbrn", "seed": seed, "device": "cpu", "num_parameters": 45}
        times = {"iterations": iterations[-1], "seconds": 9.0, "cpu_seconds": 4.0}
        return {**known, **times, "accuracy": accuracies[-1], "learned": ended, "history": history}

    records = [record(1, [0.5, 0.75, 1.0], True), record(0, [0.25, 0.5, 0.7, 0.6], False)]
    (table,), _ = report.charging_report(Charging(), records, None)
    (row,) = table.rows
    assert row[:5] == ["KBRN", "45", "0, 1", "80.00 ± 28.28", "85.00 ± 21.21"]
    assert row[5:] == ["85.00 ± 21.21", "80.00 ± 28.28", "1 of 2", "550", f"{8000 / 1100:.1f}"]
    records[1] = record(0, [0.25, 0.5, 0.7], False)  # that never came to iteration 1,000
    (table,), _ = report.charging_report(Charging(), records, None)
    assert table.rows[0][5:7] == ["85.00 ± 21.21", "-"]


def test_a_trial_that_diverges_ends_as_not_learned(train, tmp_path, monkeypatch, drawn) -> None:
    loss = ChargingTrial.loss
    spoilt = lambda *words: tuple(each * np.nan for each in loss(*words))  # noqa: E731
    monkeypatch.setattr(ChargingTrial, "loss", spoilt)
    assert "0 of 1" in printed(train("charging", "--models", "kbrn"))
    (record,) = metrics_of(tmp_path / "out")
    assert record["diverged"] and not record["learned"] and record["iterations"] == 1
    assert train("charging", "--models", "kbrn", "--resume")[0] == 0


def test_presets_are_the_grids_of_the_paper_and_of_two_cores() -> None:
    def grid(*words: str) -> list[tuple[int, str, str, int]]:
        return parse("", COMMANDS["long-term"], words).grid()

    practical, paper = grid("--preset", "practical"), grid("--preset=paper")
    assert len(practical) == len(set(practical)) == 3 * 4 * 2 * 3 + 2 * 3
    assert len(paper) == len(set(paper)) == 6 * 4 * 2 * 5 + 5 * 5
    assert [cell[0] for cell in paper] == sorted(cell[0] for cell in paper)
    assert {cell[1:3] for cell in paper if cell[0] > 50} == {("equivalence", "kbrn")}
    assert {cell[3] for cell in paper if cell[0] == 200} == {0, 1, 2, 3, 4}
    words = ("--preset", "practical", "--lengths", "7", "9", "7")
    assert {cell[0] for cell in grid(*words)} == {7, 9, 60, 100}
    assert {cell[0] for cell in grid(*words, "--models", "lstm")} == {7, 9}
    assert len(grid()) == 4
