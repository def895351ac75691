"""``python -m benchmarks.activations`` from end to end, on networks of a few units."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.activations import _grid, main, parser
from benchmarks.harness.activations import charging, long_term, xor
from benchmarks.harness.activations.setting import KBRN, Charging, Optimization, Units
from benchmarks.harness.activations.trial import Training, trained_network

ROOT = Path(__file__).parents[2]
SMALL = ("--device", "cpu", "--quiet", "--centers", 7, "--seeds", 0)
SEQUENCES = ("--batch-size", 20)
WORDS: dict[str, tuple[object, ...]] = {
    "xor": (*SMALL, "--inputs", 2, "--max-iterations", 30),
    "charging": (*SMALL, *SEQUENCES, "--models", "kbrn", "lstm", "--max-iterations", 12),
    "long-term": (
        *(*SMALL, *SEQUENCES, "--models", "kbrn", "lstm", "--max-iterations", 12),
        *("--functions", "xor", "--lengths", 6, "--hidden", 3),
    ),
}
PICTURES = {
    "xor": ("functions-2-inputs.png",),
    "charging": ("accuracy.png", "activations.png"),
    "long-term": ("successes.png",),
}
COMMANDS = tuple(WORDS)
KEYS = [
    *("model", "seed", "device", "num_parameters", "learned", "diverged", "iterations"),
    *("iterations_training", "accuracy", "accuracy_running", "train_accuracy"),
    *("seconds", "cpu_seconds"),
]
OWN_KEYS = {"xor": ["inputs", "centers", "l1"], "charging": [], "long-term": ["function", "length"]}


@pytest.fixture
def call(call_main) -> Callable[..., tuple[int, str, str]]:
    return partial(call_main, main)


@pytest.fixture
def train(call, tmp_path: Path, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Trains tiny networks into ``out`` unless the words say otherwise."""
    monkeypatch.setattr(charging, "TEST_SEQUENCES", 500)
    monkeypatch.setattr(long_term, "TEST_SEQUENCES", 500)

    def run(command: str, *words: object) -> tuple[int, str, str]:
        return call(command, *WORDS[command], "--out", tmp_path / "out", *words)

    return run


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the pictures out, which take most of the time of a small experiment."""
    for report in (xor.XorReport, charging.ChargingReport, long_term.LongTermReport):
        monkeypatch.setattr(report, "pictures", lambda *args: {})


def records_of(out: Path) -> list[dict[str, Any]]:
    return json.loads((out / "metrics.json").read_text())


def history_of(out: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((out / "trials" / f"{name}.json").read_text())["history"]


def numbers(out: Path) -> dict[str, Any]:
    """Everything that must not depend on interruptions; seconds do."""
    found = {}
    for path in sorted((out / "trials").iterdir()):
        if path.suffix == ".json":
            record = json.loads(path.read_text())
            del record["seconds"], record["cpu_seconds"]
            found[path.name] = record
        else:
            content = torch.load(path, weights_only=True)
            found[path.name] = {name: value.tolist() for name, value in content["network"].items()}
    return found


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Sends the signal of Ctrl+C to this process at an iteration, counted over all trials."""
    seen: list[Training] = []
    iterate = Training.iterate

    def counted(self: Training) -> None:
        seen.append(self)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGINT)
        iterate(self)

    monkeypatch.setattr(Training, "iterate", counted)


@pytest.mark.parametrize("command", COMMANDS)
def test_trains_and_reports(train, tmp_path, command) -> None:
    status, out, err = train(command)
    assert (status, err) == (0, "")
    records = records_of(tmp_path / "out")
    for record in records:
        own = [key for key in record if key not in KEYS]
        assert own[: len(OWN_KEYS[command])] == OWN_KEYS[command]
        assert [key for key in record if key in KEYS] == KEYS
        assert record["iterations"] == (30 if command == "xor" else 12)
        assert not record["diverged"]
        assert record["cpu_seconds"] > 0
    assert len(records) == 2
    table = (tmp_path / "out" / "table.md").read_text()
    for text in (out, table):
        assert "7 centres" in text or "centres in [-2, 2]" in text
    for name in PICTURES[command]:
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    left = {path.name for path in (tmp_path / "out").iterdir()}
    files = {"metrics.json", "table.md", "configuration.json", "trials"}
    assert left - {"activations.png"} == {*files, *PICTURES[command]} - {"activations.png"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("undrawn")
def test_resumed_run_equals_the_uninterrupted_one(train, tmp_path, monkeypatch, command) -> None:
    assert train(command, "--out", tmp_path / "whole")[0] == 0
    middle = 47 if command == "xor" else 17
    with monkeypatch.context() as patch:
        interrupt_at(patch, middle)
        status, _, err = train(command)
    assert status == 130
    assert "continue with the same command and --resume" in err
    assert len(records_of(tmp_path / "out")) == 1
    assert train(command, "--resume")[0] == 0
    assert numbers(tmp_path / "out") == numbers(tmp_path / "whole")


@pytest.mark.usefixtures("undrawn")
def test_a_trial_goes_on_at_the_iteration_where_it_was_stopped(
    train, tmp_path, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        assert train("charging", "--models", "kbrn")[0] == 130
    seen = []
    iterate = Training.iterate
    monkeypatch.setattr(Training, "iterate", lambda self: (seen.append(1), iterate(self)))
    assert train("charging", "--models", "kbrn", "--resume")[0] == 0
    assert len(seen) == 12 - 5
    iterations = [check["iteration"] for check in history_of(tmp_path / "out", "kbrn-seed0")]
    assert iterations == [1, 2, 3, 4, 5, 6, 8, 10, 12]


@pytest.mark.usefixtures("undrawn")
def test_processes_give_the_numbers_of_one(call, tmp_path) -> None:
    words = (*WORDS["long-term"], "--max-iterations", 2)
    for out, processes in (("one", 1), ("two", 2)):
        assert call("long-term", *words, "--out", tmp_path / out, "--processes", processes)[0] == 0
    assert len(records_of(tmp_path / "two")) == 2
    assert numbers(tmp_path / "two") == numbers(tmp_path / "one")


@pytest.mark.usefixtures("undrawn")
def test_a_folder_grows_by_functions_seeds_and_iterations(train, tmp_path) -> None:
    assert train("long-term")[0] == 0
    first = numbers(tmp_path / "out")
    words = ("--functions", "and", "--models", "kbrn", "--seeds", 1)
    assert train("long-term", *words, "--resume")[0] == 0
    grown = numbers(tmp_path / "out")
    assert {name: grown[name] for name in first} == first
    assert set(grown) - set(first) == {f"and-T006-kbrn-seed1.{end}" for end in ("json", "pt")}
    # More iterations go on where fewer had ended, and give the network of a longer run.
    assert train("long-term", "--max-iterations", 20, "--resume")[0] == 0
    assert train("long-term", "--max-iterations", 20, "--out", tmp_path / "long")[0] == 0
    longer, whole = numbers(tmp_path / "out"), numbers(tmp_path / "long")
    for name in ("xor-T006-kbrn-seed0.pt", "xor-T006-lstm-seed0.pt"):
        assert longer[name] == whole[name]
    checks = [check["iteration"] for check in longer["xor-T006-kbrn-seed0.json"]["history"]]
    assert checks == [12, 20]


@pytest.mark.usefixtures("undrawn")
def test_other_settings_are_never_mixed(train, tmp_path) -> None:
    assert train("charging", "--models", "kbrn")[0] == 0
    before = numbers(tmp_path / "out")
    for words, said in (
        ((), "already holds results; give --resume"),
        (("--resume", "--learning-rate", 0.5), "was made with learning_rate 0.001, not 0.5"),
        (("--resume", "--centers", 8), "was made with centers 7, not 8"),
    ):
        status, out, err = train("charging", *words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert said in err
    status, _, err = train("xor", "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert "not of this module" in err
    assert numbers(tmp_path / "out") == before
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert train("charging", "--models", "rnn", "--centers", 8, "--overwrite")[0] == 0
    assert set(numbers(tmp_path / "out")) == {"rnn-seed0.json", "rnn-seed0.pt"}
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_report_of_what_is_finished(train, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, 17)
        assert train("charging")[0] == 130
    assert not (tmp_path / "out" / "table.md").exists()
    before = numbers(tmp_path / "out")
    # The options of the networks are those of the folder.
    status, out, err = train("charging", "--report", "--centers", 9)
    assert (status, err) == (0, "")
    assert "7 centres" in out
    assert re.search(r"^KBRN +\d+ +0 ", out, re.MULTILINE)
    assert "LSTM  " not in out
    for name in ("table.md", *PICTURES["charging"]):
        assert (tmp_path / "out" / name).exists()
    assert numbers(tmp_path / "out") == before


def test_report_of_nothing_is_one_line(train, tmp_path) -> None:
    status, out, err = train("xor", "--report")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "configuration.json: No such file" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("undrawn")
def test_report_before_the_first_trial_ends_is_one_line(train, tmp_path, monkeypatch) -> None:
    interrupt_at(monkeypatch, 3)
    assert train("xor")[0] == 130
    status, out, err = train("xor", "--report")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "holds no finished trial" in err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trials/kbrn-seed0.json", ("--resume",)),
        ("trials/kbrn-seed0.json", ("--report",)),
        ("trials/kbrn-seed0.pt", ("--resume", "--max-iterations", 20)),
        ("trials/kbrn-seed0.pt", ("--report",)),
        ("configuration.json", ("--resume",)),
        ("configuration.json", ("--report",)),
    ],
)
def test_damaged_files_are_named(train, tmp_path, name, words) -> None:
    assert train("charging", "--models", "kbrn", "--max-iterations", 1)[0] == 0
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes()[:40])
    status, _, err = train("charging", "--models", "kbrn", *words)
    assert (status, err.count("\n")) == (2, 1)
    assert str(path) in err
    assert "damaged" in err


def step_accuracy(trial: Any, folder: Path, running: bool) -> float:
    """Accuracy of a KBRN of the long-term problem, by its equations in float64."""
    net = trained_network(trial, folder).double()
    cell = net.recurrent.cells[0]
    function, norm = cell.activation, cell.activation.norm
    x, y = trial.test_set()
    h = torch.zeros(x.size(1), trial.hidden, dtype=torch.double)
    for step in x.double():
        a = cell.lin_input(step[:, None]) + h @ cell.lin_recurrent.weight.t()
        mean = norm.running_mean if running else a.mean(0)
        var = norm.running_var if running else a.var(0, correction=0)
        a = norm.weight * (a - mean) / (var + norm.eps).sqrt() + norm.bias
        terms = function.coefficients * torch.relu(a[..., None] - function.centers)
        h = terms.sum(-1) + function.slope * a + function.intercept
    logits = net.readout(h).squeeze(-1).detach()
    return ((logits > 0) == (y > 0.5)).double().mean().item()


@pytest.mark.usefixtures("undrawn")
def test_accuracies_are_by_the_statistics_of_steps_and_by_running_ones(train, tmp_path) -> None:
    words = ("--models", "kbrn", "--functions", "or", "--max-iterations", 49)
    assert train("long-term", *words)[0] == 0
    assert train("long-term", *words, "--statistics", "running", "--out", tmp_path / "run")[0] == 0
    (record,), (running,) = records_of(tmp_path / "out"), records_of(tmp_path / "run")
    trial = long_term.LongTermTrial(
        *(KBRN, 0, Units(7, init="tanh", affine=True, normalize=True), Optimization()),
        *(49, "cpu", "or", 6, 3, 1.0),
    )
    folder = tmp_path / "out" / "trials"
    for key, kind in (("accuracy", False), ("accuracy_running", True)):
        # 500 sequences; one may lie on the other side in single precision.
        assert record[key] == pytest.approx(step_accuracy(trial, folder, kind), abs=0.005)
    assert record["accuracy"] != record["accuracy_running"]
    # What is trained does not depend on how it is tested.
    assert running["accuracy"] == running["accuracy_running"] == record["accuracy_running"]
    assert (
        numbers(tmp_path / "out")["or-T006-kbrn-seed0.pt"]
        == (numbers(tmp_path / "run")["or-T006-kbrn-seed0.pt"])
    )


@pytest.mark.usefixtures("undrawn")
def test_long_term_trials_end_when_they_have_learned(train, tmp_path) -> None:
    words = ("--functions", "or", "--lengths", 3, "--hidden", 8, "--batch-size", 100)
    status, out, _ = train("long-term", *words, "--max-iterations", 600, "--lr", 0.02)
    assert status == 0
    for record in records_of(tmp_path / "out"):
        assert record["learned"]
        assert record["accuracy"] == 1
        assert record["iterations"] % 50 == 0
        assert record["iterations"] < 600
        history = history_of(tmp_path / "out", f"or-T003-{record['model']}-seed0")
        assert [check["iteration"] for check in history] == list(
            range(50, record["iterations"] + 1, 50)
        )
        assert [check["accuracy"] for check in history].count(1) == 1
        assert record["iterations_training"] is None or record["iterations_training"] >= 10
        assert re.search(rf"1 of 1 +{record['iterations']} ", out)


@pytest.mark.usefixtures("undrawn")
def test_learned_in_training_is_ten_right_batches_in_a_row(train, tmp_path, monkeypatch) -> None:
    batches = []

    def right(self: Any, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if len(output) == 20:  # a training batch
            batches.append(len(batches) + 1)
        wrong = len(output) == 500 or batches[-1] in (5, 12)
        return torch.full_like(target, not wrong, dtype=torch.bool)

    monkeypatch.setattr(long_term.LongTermTrial, "right", right)
    assert train("long-term", "--models", "kbrn", "--max-iterations", 40)[0] == 0
    (record,) = records_of(tmp_path / "out")
    assert (record["iterations_training"], record["accuracy"]) == (22, 0)
    assert record["train_accuracy"] == pytest.approx(38 / 40)


@pytest.mark.usefixtures("undrawn")
def test_xor_of_two_bits_is_solved_by_one_unit(train, tmp_path) -> None:
    words = ("--centers", 20, "--l1", 0, 0.01, "--max-iterations", 400, "--lr", 0.02)
    status, out, _ = train("xor", *words)
    assert status == 0
    plain, smooth = records_of(tmp_path / "out")
    assert (plain["l1"], smooth["l1"]) == (0, 0.01)
    for record in (plain, smooth):
        assert record["learned"]
        assert record["iterations"] == 400
        assert record["solved_after"] % 100 == 0
        trial = xor.XorTrial(
            *("unit", 0, Units(20, green="abs"), Optimization(l1=record["l1"])),
            *(400, "cpu", 2),
        )
        unit = trained_network(trial, tmp_path / "out" / "trials").double()
        z, y = xor.patterns(2, "cpu")
        error = (unit(z.double()) - y).square().mean().item()
        assert record["squared_error"] == pytest.approx(error, abs=1e-9)
        assert record["l1_norm"] == pytest.approx(unit.activation.coefficients.abs().sum().item())
        # No two centres coincide, so each bends f by twice its coefficient.
        assert record["variation"] == pytest.approx(2 * record["l1_norm"], rel=1e-5)
        centers = unit.activation.centers.flatten()
        a = unit.lin(z.double())
        inside = (centers > a.min()) & (centers < a.max())
        bent = 2 * unit.activation.coefficients.flatten()[inside].abs().sum().item()
        assert record["variation_over_data"] == pytest.approx(bent, rel=1e-5)
        scaled = bent * (a.max() - a.min()).item()
        assert record["variation_times_range"] == pytest.approx(scaled, rel=1e-5)
    assert smooth["variation"] < plain["variation"]
    assert out.count("1 of 1") == 2


def test_xor_pictures_of_every_number_of_inputs(train, tmp_path) -> None:
    words = ("--inputs", 2, 3, "--centers", 3, 9, "--seeds", 0, 1, "--max-iterations", 2)
    assert train("xor", *words)[0] == 0
    assert len(records_of(tmp_path / "out")) == 2 * 2 * 2 * 2
    for inputs in (2, 3):
        assert (tmp_path / "out" / f"functions-{inputs}-inputs.png").exists()
    assert train("xor", "--overwrite", "--max-iterations", 2)[0] == 0
    assert not (tmp_path / "out" / "functions-3-inputs.png").exists()


def test_charging_table_has_means_over_seeds() -> None:
    def record(seed: int, accuracies: list[float], ended: bool) -> dict[str, Any]:
        iterations = [1, 10, 100, 1000][: len(accuracies)]
        checks = zip(iterations, accuracies, strict=True)
        history = [{"iteration": n, "accuracy": a} for n, a in checks]
        known = {"model": "kbrn", "seed": seed, "device": "cpu", "num_parameters": 45}
        times = {"iterations": iterations[-1], "seconds": 9.0, "cpu_seconds": 4.0}
        return {**known, **times, "accuracy": accuracies[-1], "learned": ended, "history": history}

    records = [record(1, [0.5, 0.75, 1.0], True), record(0, [0.25, 0.5, 0.7, 0.6], False)]
    settings = Charging(Units(20), Optimization(), 1.0).settings()
    (table,) = charging.ChargingReport().tables(settings, records)
    mean, deviation = 100 * np.mean([1.0, 0.6]), 100 * np.std([1.0, 0.6], ddof=1)
    assert table.rows == [
        [
            *("KBRN", "45", "0, 1", f"{mean:.2f} ± {deviation:.2f}", "85.00 ± 21.21"),
            *("85.00 ± 21.21", "80.00 ± 28.28", "1 of 2", "550", f"{8000 / 1100:.1f}"),
        ]
    ]


def test_a_trial_that_diverges_ends_as_not_learned(train, tmp_path, monkeypatch) -> None:
    loss = charging.ChargingTrial.loss
    monkeypatch.setattr(
        charging.ChargingTrial, "loss", lambda self, output, y: loss(self, output, y) * np.nan
    )
    status, out, err = train("charging", "--models", "kbrn")
    assert (status, err) == (0, "")
    (record,) = records_of(tmp_path / "out")
    assert record["diverged"]
    assert not record["learned"]
    assert record["iterations"] == 1
    assert "0 of 1" in out
    assert train("charging", "--models", "kbrn", "--resume")[0] == 0


def test_says_how_long_it_takes_and_how_trials_end(call, tmp_path) -> None:
    words = [word for word in WORDS["long-term"] if word != "--quiet"]
    status, out, err = call("long-term", *words, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert re.match(r"2 trials, at most \d+ seconds with 1 process ", lines[0])
    assert re.match(r"1/2 xor, T = 6, kbrn, seed 0: (not )?learned", lines[1])
    assert re.match(r"2/2 xor, T = 6, lstm, seed 0: (not )?learned", lines[2])
    assert lines[-1] == f"results in {tmp_path / 'out'}"


def test_options_replace_what_a_preset_says() -> None:
    def lengths(*words: str) -> tuple[set[int], set[str]]:
        grid = _grid(parser().parse_args(["long-term", "--preset", "practical", *words]))
        return {cell[0] for cell in grid.cells()}, {cell[2] for cell in grid.cells()}

    assert lengths() == ({10, 30, 50, 60, 100}, {"kbrn", "lstm"})
    assert lengths("--models", "kbrn") == ({10, 30, 50, 60, 100}, {"kbrn"})
    assert lengths("--models", "lstm") == ({10, 30, 50}, {"lstm"})
    assert lengths("--functions", "or") == ({10, 30, 50}, {"kbrn", "lstm"})
    assert lengths("--lengths", "7", "9", "7") == ({7, 9}, {"kbrn", "lstm"})


BAD_INPUT = [
    ("no command", (), "EXPERIMENT"),
    ("unknown command", ("spiral",), "spiral"),
    ("unknown option", ("xor", "--color", "red"), "--color"),
    ("no centre", ("xor", "--centers", "0"), "at least 1"),
    ("one bit", ("xor", "--inputs", "1"), "at least 2"),
    ("smooth green", ("xor", "--green", "gaussian"), "gaussian"),
    ("no batches", ("xor", "--normalize"), "--normalize"),
    ("negative l1", ("xor", "--l1", "-1"), "at least 0"),
    ("unknown green", ("charging", "--green", "cubic"), "cubic"),
    ("unknown model", ("charging", "--models", "gru"), "gru"),
    ("sigmoid units", ("long-term", "--models", "rnn"), "rnn"),
    ("unknown function", ("long-term", "--functions", "nand"), "nand"),
    ("one step", ("long-term", "--lengths", "1"), "at least 2"),
    ("unknown preset", ("long-term", "--preset", "huge"), "huge"),
    ("no rate", ("charging", "--lr", "0"), "above 0"),
    ("batch of one", ("charging", "--batch-size", "1"), "at least 2"),
    ("no iterations", ("charging", "--iterations", "0"), "at least 1"),
    ("range upside down", ("xor", "--init-range", "2", "-2"), "increasing numbers, got 2 -2"),
    ("endless range", ("xor", "--init-range", "0", "inf"), "must be a finite number, got inf"),
    (
        "identity of rectifiers",
        ("charging", "--init", "identity", "--no-affine"),
        "init='identity' with green='relu'",
    ),
    ("unknown device", ("charging", "--device", "tpu9"), "tpu9"),
    ("resume and overwrite", ("xor", "--resume", "--overwrite"), "exclude"),
    ("report and resume", ("xor", "--report", "--resume"), "--report trains nothing"),
    ("no folder name", ("xor", "--out", ""), "--out: must not be empty"),
]


@pytest.mark.parametrize(
    ("words", "said"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT]
)
def test_bad_input_is_one_line_and_leaves_nothing(call, tmp_path, words, said) -> None:
    command, options = words[:1], words[1:]
    common = ("--device", "cpu", "--out", tmp_path / "out") if command else ()
    status, out, err = call(*command, *common, *options)
    assert (status, out) == (2, "")
    assert err.startswith("benchmarks.activations: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_files_is_left_alone(train, tmp_path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("chapter 1")
    for words in ((), ("--resume",), ("--overwrite",)):
        status, _, err = train("xor", *words)
        assert (status, err.count("\n")) == (2, 1)
        assert "not results of this module" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_help_answers_without_torch() -> None:
    code = (
        "import contextlib, io, sys\n"
        "from benchmarks.activations import parser\n"
        "for words in ([], ['xor'], ['charging'], ['long-term']):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        parser().parse_args([*words, '--help'])\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_names_what_is_missing_without_lightning() -> None:
    code = (
        "import sys; sys.modules['lightning'] = None\n"
        "from benchmarks.activations import main\n"
        "sys.exit(main(['xor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    said = "error: lightning is not installed: pip install '.[bench]'\n"
    assert (done.returncode, done.stderr) == (2, f"benchmarks.activations: {said}")
