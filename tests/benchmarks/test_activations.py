"""``python -m benchmarks.papers.activations`` on networks of a few units, and its data."""

import errno
import itertools
import json
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from benchmarks.harness.options import parse
from benchmarks.papers.activations import report, trials
from benchmarks.papers.activations.__main__ import COMMANDS
from benchmarks.papers.activations.options import FUNCTIONS, Charging, Init, LongTerm, Xor
from benchmarks.papers.activations.report import activation_plot
from pyg_kernels.nn import KernelActivation
from pyg_kernels.nn.activation import Init as LibraryInit
from tests.benchmarks.conftest import assert_refused, metrics_of, outcome, printed
from tests.benchmarks.interruption import interrupt_once

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
    """Trains tiny networks, with results in ``out`` unless the options say otherwise."""
    for kind in (trials.LongTermTrial, trials.ChargingTrial):
        monkeypatch.setattr(kind, "test_sequences", 500)
    return lambda command, *words: call(command, *WORDS[command], "--out", tmp_path / "out", *words)


def test_more_iterations_go_on_where_fewer_had_ended(train, tmp_path) -> None:
    """The result is the network of a single longer run."""
    runs = tmp_path / "out" / "runs"
    assert train("long-term")[0] == 0
    first = outcome(runs)
    assert train("long-term", "--max-iterations", 20, "--resume")[0] == 0
    assert train("long-term", "--max-iterations", 20, "--out", tmp_path / "long")[0] == 0
    longer, whole = outcome(runs), outcome(tmp_path / "long" / "runs")
    for path in (path for path in first if path.endswith(trials.CHECKPOINT)):
        assert longer[path] == whole[path]
        record = json.loads((runs / path).with_name("record.json").read_text())
        assert [check["iteration"] for check in record["history"]] == [12, 20]


def test_a_report_needs_a_finished_trial(train, monkeypatch) -> None:
    interrupt_once(monkeypatch, trials.Training, "iterate", lambda training: True)
    assert train("charging")[0] == 130
    assert_refused(train("charging", "--report"), "holds no finished trial")


def test_damaged_checkpoints_and_full_disks_are_named(train, tmp_path, monkeypatch, drawn) -> None:
    small = ("--max-iterations", 1, "--l1", 0)
    assert train("xor", *small)[0] == 0
    (path,) = (tmp_path / "out" / "runs").glob(f"*/{trials.CHECKPOINT}")
    whole, more = path.read_bytes(), ("--resume", "--max-iterations", 20)
    for size in (40, len(whole) // 2):  # PyTorch calls half a file an invalid argument
        path.write_bytes(whole[:size])
        for words in (more, ("--report",)):
            assert_refused(train("xor", *small, *words), f"{path} is damaged")
    path.unlink()

    def write(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(trials, "write_bytes", write)
    assert_refused(train("xor", *small, *more), "No space left")


def test_accuracies_are_by_the_statistics_of_steps_and_by_running_ones(train, tmp_path) -> None:
    words = ("--models", "kbrn", "--functions", "or", "--max-iterations", 49)
    assert train("long-term", *words)[0] == 0
    (record,) = metrics_of(tmp_path / "out")
    place = {"function": "or", "length": 6}
    trial = trials.LongTermTrial(LongTerm(centers=7, hidden=3), "cpu", "kbrn", 0, place)
    network = trials.trained_network(trial, tmp_path / "out" / "runs" / trial.name)
    x, y = trial.test_set()
    for key, of_steps in (("accuracy_running", False), ("accuracy", True)):
        right = (network.train(of_steps)(x) > 0) == (y > 0.5)
        assert record[key] == right.double().mean().item()
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
        trial = trials.XorTrial(Xor(), "cpu", "unit", 0, place)
        unit = trials.trained_network(trial, tmp_path / "out" / "runs" / trial.name).double()
        z, y = trials.patterns(2, "cpu")
        error = (unit(z.double()) - y).square().mean().item()
        assert record["squared_error"] == pytest.approx(error, abs=1e-9)
        # No two centres coincide, so each bends f by twice its coefficient.
        bends = 2 * unit.activation.coefficients.flatten().abs()
        assert record["variation"] == pytest.approx(bends.sum().item(), rel=1e-5)
        centers, a = unit.activation.centers.flatten(), unit.lin(z.double())
        bent = bends[(centers > a.min()) & (centers < a.max())].sum().item()
        scaled = bent * (a.max() - a.min()).item()
        assert record["variation_times_range"] == pytest.approx(scaled, rel=1e-5)
    assert smooth["variation"] < plain["variation"]
    assert out.count("1 of 1") == 2


def record(model: str, seed: int, checks: dict[int, float], ended: bool) -> dict[str, Any]:
    """A charging trial with the accuracies of its checks, by iteration."""
    history = [{"iteration": n, "accuracy": accuracy} for n, accuracy in checks.items()]
    known = {"model": model, "seed": seed, "num_parameters": 45, "seconds": 9.0, "learned": ended}
    return {
        **known,
        "iterations": max(checks),
        "accuracy": [*checks.values()][-1],
        "history": history,
    }


def test_charging_report_has_means_over_seeds() -> None:
    """A trial that ended early keeps its last accuracy, unless it gave up."""
    records = [
        record("kbrn", 1, {1: 0.5, 10: 0.75, 100: 1.0}, True),
        record("kbrn", 0, {1: 0.25, 10: 0.5, 1000: 0.7, 10000: 0.6}, False),
        record("lstm", 0, {1: 0.25, 7: 0.75}, False),
    ]
    made = report.charging_report(Charging(), records, None)
    kbrn, lstm = made.tables[0].rows
    assert kbrn[:5] == ["KBRN", "45", "0, 1", "80.00 ± 28.28", "85.00 ± 21.21"]
    assert kbrn[5:] == ["1 of 2", "5,050", "18"]
    assert lstm[3:6] == ["75.00", "-", "0 of 1"]
    (axes,) = made.pictures["accuracy.png"]().axes
    lines = [line.get_ydata(orig=False).tolist() for line in axes.lines]
    assert axes.lines[0].get_xdata(orig=False).tolist() == [1, 10, 100, 1000, 10000]
    assert lines[1] == [0.5, 0.75, 1, 1, 1]
    assert lines[2] == pytest.approx([0.375, 0.625, 0.75, 0.85, 0.8])
    assert lines[3:] == [[0.25, 0.75]] * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["KBRN", "LSTM"]


def test_a_trial_that_diverges_ends_as_not_learned(train, tmp_path, monkeypatch, drawn) -> None:
    loss = trials.ChargingTrial.loss
    spoilt = lambda *words: loss(*words) * np.nan  # noqa: E731
    monkeypatch.setattr(trials.ChargingTrial, "loss", spoilt)
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
    words = ("--preset", "practical", "--lengths", "7", "9", "7")
    assert {cell[0] for cell in grid(*words)} == {7, 9, 60, 100}
    assert {cell[0] for cell in grid(*words, "--models", "lstm")} == {7, 9}
    assert len(grid()) == 4


TRUTH = {"or": "0111", "and": "0001", "xor": "0110", "equivalence": "1001"}  # of 00, 01, 10, 11


@pytest.mark.parametrize("name", FUNCTIONS)
def test_class_of_a_sequence_depends_on_its_first_two_bits_alone(name) -> None:
    options = LongTerm(centers=5, hidden=3)
    trial = trials.LongTermTrial(options, "cpu", "kbrn", 0, {"function": name, "length": 6})
    x, y = trial.sequences(400, torch.Generator().manual_seed(0))
    assert (x.shape, y.shape) == ((6, 400), (400,))
    assert set(x.flatten().tolist()) == {-1.0, 1.0}
    places = 2 * (x[0] > 0) + 1 * (x[1] > 0)
    assert y.tolist() == [float(TRUTH[name][place]) for place in places.tolist()]
    assert len(x.t().unique(dim=0)) >= 60  # of 64


def test_charging_sequences_follow_equation_7() -> None:
    # The two examples of section 4.2, whose last step is left open there.
    known = [[0, 0, 0, 4, 0, 0, 0, 0, 0, 0], [0, 0, 0, 4, 0, 2, 0, 0, 0, 0]]
    states = [[0, 0, 0, 1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]]
    assert trials.charged(torch.tensor(known, dtype=torch.float).t()).t().int().tolist() == states
    trial = trials.ChargingTrial(Charging(centers=5), "cpu", "kbrn", 0)
    x, y = trial.sequences(400, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (30, 400)
    assert torch.equal(y, trials.charged(x).float())
    assert set(x.flatten().tolist()) == set(range(10))
    assert (x > 0).sum(dim=0).max() == 3
    assert ((x > 0).sum(dim=1) > 0).all()
    assert [each.shape for each in trial.test_set()] == [(30, 25_000)] * 2


def test_patterns_and_checks() -> None:
    """Patterns are all corners of the cube and their parity; checks are evenly spaced in log."""
    for inputs in (2, 3, 4):
        z, y = trials.patterns(inputs, "cpu")
        corners = itertools.product((-1.0, 1.0), repeat=inputs)
        assert sorted(map(tuple, z.tolist())) == sorted(corners)
        # An odd number of ones makes the product's sign that of (-1)^(inputs - 1).
        assert torch.equal(z.prod(dim=1), (1 - 2 * y) * (-1) ** inputs)
    checks = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100, 126, 158]
    assert sorted(trials.log_spaced(170)) == [*checks, 170] and trials.log_spaced(1) == {1}
    assert get_args(LibraryInit) == get_args(Init)  # the command line repeats these names


def test_weights_of_a_unit_are_drawn_after_its_activation() -> None:
    """So that the documented trials start from the weights that they had."""
    options = Xor(init="random")
    found = trials.fresh_network(
        trials.XorTrial(options, "cpu", "unit", 7, {"inputs": 2, "centers": 5})
    )
    torch.manual_seed(7)
    KernelActivation(1, 5, **trials.activation_options(options))
    assert torch.equal(found.get_submodule("lin").weight, torch.nn.Linear(2, 1).weight)


def test_recurrent_networks_beside_the_learned_ones() -> None:
    """The recurrence of the sigmoid RNN, and the LSTM's forget bias in the forget gates alone."""
    net, x = trials.SigmoidRNN(2, 3).double(), torch.randn(4, 5, 2, dtype=torch.double)
    output, last = net(x)
    before = torch.cat([torch.zeros_like(output[:1]), output[:-1]])
    a = net.lin_input(x) + before @ net.lin_recurrent.weight.t()
    torch.testing.assert_close(output, 1 / (1 + torch.exp(-a)), rtol=1e-10, atol=1e-10)
    assert torch.equal(last, output[-1])
    torch.manual_seed(0)
    ours = trials.sequence_network("lstm", LongTerm(), 3, False).recurrent
    torch.manual_seed(0)
    plain = torch.nn.LSTM(1, 3)
    expected = torch.tensor([0.0] * 3 + [1.0] * 3 + [0.0] * 6)
    torch.testing.assert_close(ours.bias_ih_l0 - plain.bias_ih_l0, expected)
    assert torch.equal(ours.weight_hh_l0, plain.weight_hh_l0)


@pytest.mark.parametrize(
    ("green", "options"),
    [("abs", {"shared": True}), ("relu", {"affine": True, "init": "tanh", "normalize": True})],
)
def test_expansions_are_the_functions_of_the_module_piece_by_piece(green, options) -> None:
    module = KernelActivation(3, 9, green, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        module.centers[..., 5] = module.centers[..., 2]  # two centres coincide
    module.norm = None
    a = torch.linspace(-4, 4, 33, dtype=torch.double)
    expected = module(a[:, None].expand(-1, 3)).detach().numpy()
    for unit, function in enumerate(trials.expansions(module)):
        np.testing.assert_allclose(function(a.numpy()), expected[:, unit], rtol=1e-10, atol=1e-10)
        for low, high in ((-0.5, 1.0), (10.0, 11.0), (-9.0, 9.0)):
            ends, slopes = function.slopes(low, high)
            assert (ends[0], ends[-1]) == (low, high) and (np.diff(ends) > 0).all()
            thirds = function(np.linspace(ends[:-1], ends[1:], 4))
            rises = np.broadcast_to(slopes * np.diff(ends) / 3, (3, len(slopes)))
            np.testing.assert_allclose(np.diff(thirds, axis=0), rises, atol=1e-10)
            bends = np.abs(np.diff(slopes)).sum()
            assert function.variation(low, high) == pytest.approx(bends, abs=1e-10)
        assert function.variation() == pytest.approx(bends, abs=1e-10)


def test_picture_marks_exactly_the_steep_parts() -> None:
    kinks, jumps = np.array([-5.0, -1, 0, 2, 3]), np.array([0.25, 1.5, -3.0, 1.25, 0.5])
    steep = trials.Expansion(kinks, jumps, 0.5, 0.3)  # slopes 0.75, 2.25, -0.75, 0.5, 1 on [-4, 4]
    flat = trials.Expansion(kinks, jumps / 4, 0.0, 0.0)
    panels = activation_plot([steep, flat, *[steep] * 5], "title").axes
    assert [panel.axison for panel in panels] == [True] * 7 + [False] * 3
    for panel, function, red in ((panels[0], steep, [[-1, 0]]), (panels[1], flat, [])):
        whole, *parts = (np.asarray(line.get_xydata()) for line in panel.lines)
        assert whole[:, 0].tolist() == [-4, -1, 0, 2, 3, 4]
        assert [part[:, 0].tolist() for part in parts] == red
        for line in (whole, *parts):
            np.testing.assert_allclose(line[:, 1], function(line[:, 0]))
        assert (panel.spines["left"].get_linestyle() != "solid") == bool(red)
