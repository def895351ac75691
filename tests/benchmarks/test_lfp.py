"""``python -m benchmarks.papers.lfp`` from end to end, on recordings made here."""

import json
import math
import re
import shutil
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch.utils.data import TensorDataset

from benchmarks.corpora.recordings import PlantedRecordings, PlantedState, Recordings
from benchmarks.harness import study
from benchmarks.papers.lfp.networks import FilterBank, RecordingModelConfig, RecordingNet, found
from benchmarks.papers.lfp.task import TrialLoader, load_classifier, recording_tasks
from tests.benchmarks.conftest import (
    assert_refused,
    done,
    metrics_of,
    outcome,
    printed,
    runs_of,
    table_of,
)

PROGRAM = "benchmarks.papers.lfp"
SUBJECTS = ("s01", "s02", "s03")
SMALL = ("--hidden", 4, "--ngram", 9, "--batch-size", 16, "--epochs", 1, "--quiet")
STILL = ("--lr", 1e-6)
STATES = (
    PlantedState("up", 50.0, math.pi / 2),
    PlantedState("down", 50.0, -math.pi / 2),
    PlantedState("fast", 120.0, math.pi / 2),
)


def planted(**options: Any) -> PlantedRecordings:
    """Trials of 0.1 s with four channels; two of the three states differ in phase alone."""
    defaults = {"num_subjects": 3, "trials": 8, "num_channels": 4, "seconds": 0.1}
    return PlantedRecordings(**{**defaults, "states": STATES, "amplitude": 1.0, **options})


def save(path: Path, data: Recordings, **changes: Any) -> Path:
    names, subjects = np.array(data.classes), np.array(data.subjects)
    arrays = {"x": data.x.numpy(), "y": names[data.y], "subject": subjects[data.subject]}
    np.savez(path, **{**arrays, **changes})
    return path


def net_of(hidden: int, model: str = "cnn", channels: int = 4, **options: Any) -> RecordingNet:
    torch.manual_seed(0)
    return RecordingNet(RecordingModelConfig(model, channels, 2, hidden=hidden, **options))


@pytest.fixture(scope="module")
def mice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("mice") / "mice.npz", planted())


@pytest.fixture(scope="module")
def whole(mice: Path) -> Path:
    """Results of one model with two seeds, which hardly move from where they start."""
    words = (*SMALL, *STILL, "--device", "cpu", "--data", mice, "--models", "cnn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_png", lambda draw: b"")
        done(PROGRAM, *words, "--seeds", 0, 1, "--out", mice.with_name("out"))
    return mice.with_name("out")


@pytest.fixture
def compare(compare, mice: Path):
    """Calls the command on the recordings of ``mice``."""
    return partial(compare, "--data", mice)


def test_leaves_out_every_subject(whole) -> None:
    records, table, data = metrics_of(whole), table_of(whole), planted()
    runs = sorted((r["subject"], r["model"], r["seed"]) for r in records)
    assert runs == list(product(SUBJECTS, ["cnn"], (0, 1)))
    columns = "model seed part left_out row subject label predicted"
    assert list(table) == columns.split()
    for record, run in runs_of(whole, table, left_out="subject"):
        assert (record["dataset"], record["metric"], record["epochs"]) == ("npz", "accuracy", 1)
        assert sorted(run["row"]) == list(range(72))
        for row, subject, label in run[["row", "subject", "label"]].itertuples(index=False):
            assert data.subjects[data.subject[row]] == subject
            assert data.classes[data.y[row]] == label
        place = SUBJECTS.index(record["subject"])
        left_out, following, other = SUBJECTS[place:] + SUBJECTS[:place]
        assert record["split"] == f"{left_out} left out, {following} validated on"
        for part, held in (("test", left_out), ("valid", following), ("train", other)):
            rows = run[run["part"] == part]
            assert set(rows["subject"]) == {held}
            accuracy = 100 * (rows["label"] == rows["predicted"]).mean()
            assert record[part] == pytest.approx(accuracy)

    text = (whole / "table.md").read_text()
    assert "72 trials of 4 channels and 100 samples (0.1 s at 1000 Hz)" in text
    assert "mean over seeds 0, 1" in text
    assert "the largest class has 33.33" in text
    means = pandas.DataFrame(records).groupby("subject")["test"].mean()  # over seeds, then subjects
    assert f"{means.mean():.2f} ± {means.std():.2f}" in text


def test_made_recordings_say_what_was_found_of_them(call, tmp_path, drawn) -> None:
    words = ("--subjects", 3, "--trials", 2, "--models", "gated-cnn", "--folds", 1, "--hidden", 3)
    out = printed(call(*words, "--epochs", 1, "--device", "cpu", "--out", tmp_path / "out"))
    assert "made recordings: 18 trials of 11 channels and 1,000 samples (1 s at 1000 Hz)" in out
    assert "one seed" in out
    assert "gated-cnn without s01 (seed 0): epoch 1/1, valid accuracy" in out
    (record,) = metrics_of(tmp_path / "out")
    assert (record["filters"], record["ngram"], record["dataset"]) == ("syncnet", 40, "planted")
    # Twice 3 wavelets, each with 11 amplitudes, 11 phases, a frequency and a decay; 3 biases; the
    # norm's 3 scales and 3 shifts; the classifier's 3 * 3 weights and 3 biases.
    assert record["num_parameters"] == 2 * 3 * 24 + 3 + 6 + 12
    frequencies = {state["state"]: state["hz"] for state in record["planted"]}
    assert frequencies == {"backward": 40.0, "fast": 80.0, "forward": 40.0}
    for state in record["planted"]:
        distances = [abs(hz - state["hz"]) for hz in record["center_hz"]]
        nearest = record["center_hz"][int(np.argmin(distances))]
        assert state["trained"]["nearest_hz"] == pytest.approx(nearest)
    assert "planted oscillations" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.parametrize(("model", "filters"), [("cnn", "dense"), ("rkm-lstm", "syncnet")])
def test_learns_frequency_and_phase(compare, tmp_path, model, filters) -> None:
    data = save(tmp_path / "more.npz", planted(num_subjects=4, trials=12, seconds=0.15))
    words = ("--model", model, "--filters", filters, "--folds", 1, "--data", data, "--hidden", 12)
    printed(compare(*words, "--epochs", 6, "--lr", 0.03, "--ngram", 20))
    (record,) = metrics_of(tmp_path / "out")
    # Without the phases, at most two of three trials could be right.
    assert record["test"] > 80


def test_folds_and_cells_are_added_to_a_folder_and_never_mixed(compare, whole, tmp_path) -> None:
    shutil.copytree(whole, tmp_path / "out")
    moved = save(tmp_path / "moved.npz", planted())
    linear = ("--models", "linear", "--folds", 2)
    out = printed(compare(*linear, *STILL, "--resume", "--data", moved))
    assert re.search(r"cnn +\S+ +3 ", out) and re.search(r"linear +\S+ +2 ", out)
    assert "mean over seeds 0, 1, as far as there are runs" in " ".join(out.split())
    other = save(tmp_path / "other.npz", planted(seed=1))
    assert_refused(compare(*STILL, "--resume", "--data", other), "digest")


def test_training_knows_nothing_of_the_subject_left_out(compare, tmp_path) -> None:
    data = planted()
    spoilt = data.x.clone()
    spoilt[data.subject == 0] = 100 * torch.randn(24, 4, 100) + 7
    other = save(tmp_path / "spoilt.npz", data, x=spoilt.numpy())
    words = ("--model", "rkm-cifg", "--folds", 1)
    assert compare(*words)[0] == 0
    assert compare(*words, "--data", other, "--out", tmp_path / "other")[0] == 0
    weights, others = (
        outcome(tmp_path / out)["runs/fold01-rkm-cifg-seed0/best.ckpt"] for out in ("out", "other")
    )
    assert weights == others
    tables = [table_of(tmp_path / out) for out in ("out", "other")]
    known = [table[table["part"] != "test"] for table in tables]
    pandas.testing.assert_frame_equal(*known)
    assert not tables[0].equals(tables[1])


def test_two_subjects_of_any_names_and_any_classes(compare, tmp_path) -> None:
    data = planted(num_subjects=2, trials=10)
    subjects = np.array(["a/b $1_{", "c|d\né"])[data.subject]
    path = save(tmp_path / "two.npz", data, subject=subjects, y=10 * data.y.numpy())
    printed(compare("--data", path, "--models", "cnn"))
    records = metrics_of(tmp_path / "out")
    assert {record["subject"] for record in records} == set(subjects)
    table = table_of(tmp_path / "out", dtype=str)
    assert set(table["label"]) == {"0", "10", "20"}
    # Every fifth trial of each class of the other subject chooses the epoch.
    for (left_out, _), run in table.groupby(["left_out", "model"]):
        for part, number in (("train", 8), ("valid", 2), ("test", 10)):
            rows = run[run["part"] == part]
            counts = rows["label"].value_counts()
            assert dict(counts) == dict.fromkeys(["0", "10", "20"], number)
            assert set(rows["subject"] == left_out) == {part == "test"}


def test_subjects_may_have_the_names_of_parts(compare, tmp_path) -> None:
    data = planted()
    subjects = np.array(["test", "train", "valid"])[data.subject]
    words = ("--data", save(tmp_path / "names.npz", data, subject=subjects), "--models", "cnn")
    printed(compare(*words))
    for number, path in enumerate(sorted(tmp_path.glob("out/runs/*/record.json"))):
        known = {"train": 90.0, "valid": 60.0 + number, "test": 10.0 * number}
        path.write_text(json.dumps(json.loads(path.read_text()) | known))
    printed(compare(*words, "--report"))
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| 90.00 ± 0.00 | 61.00 ± 1.00 | 10.00 ± 10.00 |" in text


def test_a_class_of_one_subject_cannot_be_learned() -> None:
    data = planted()
    names = np.array(data.classes)[data.y]
    names[np.flatnonzero((data.subject == 2).numpy() & (names == "fast"))[0]] = "rare"
    recordings = Recordings(data.x, names, np.array(data.subjects)[data.subject])
    with pytest.raises(ValueError, match=r"s02 left out, s03 validated on.*'rare'"):
        recording_tasks(recordings)


def test_a_last_batch_of_one_trial_is_not_trained_on() -> None:
    """A batch of one trial cannot be normalised."""
    trials, places = TensorDataset(torch.arange(9.0), torch.zeros(9)), torch.arange(0, 9, 2)
    for size, sizes in ((3, [3, 2]), (4, [4])):
        loader = TrialLoader(trials, places, size, shuffle=True, seed=1)
        assert [len(some) for some, _ in loader] == sizes
    loader = TrialLoader(trials, places, 4, shuffle=False, seed=0)
    assert [some.tolist() for some, _ in loader] == [[0, 2, 4, 6], [8]]


@pytest.mark.parametrize("pooling", ["power", "max"])
def test_network_pools_its_layer_over_time(pooling) -> None:
    net = net_of(5, "rkm-lstm", 3, ngram=6, pooling=pooling).double().eval()
    net.norm.running_mean.normal_()
    net.norm.running_var.uniform_(0.5, 2.0)
    x = torch.randn(4, 20, 3, dtype=torch.double)
    output, _ = net.rkm(x)
    if pooling == "power":
        pooled = torch.log((output**2).sum(dim=1) / 20)
    else:
        pooled = output.amax(dim=1).clamp(min=0)
    scaled = (pooled - net.norm.running_mean) / torch.sqrt(net.norm.running_var + 1e-5)
    expected = scaled @ net.head.weight.t() + net.head.bias
    torch.testing.assert_close(net(x), expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_center_frequencies_and_spectra_are_those_of_the_wavelets() -> None:
    net = net_of(3, ngram=200)
    # 20 Hz and 100 Hz at 500 samples a second; -20 Hz and 600 Hz are their mirror images.
    net.filters.omega.copy_(2 * math.pi * torch.tensor([20.0, -20.0, 600.0]) / 500)
    net.filters.raw_beta.fill_(math.log(math.expm1(1e-3)))
    bank = FilterBank.of(net, 500.0)
    expected = torch.tensor([20.0, 20, 100]).double()
    torch.testing.assert_close(bank.frequency, expected, rtol=1e-6, atol=0)
    axis, amplitude = bank.spectra()
    assert (axis[amplitude.argmax(dim=1)] - bank.frequency).abs().max() < 500 / 1024
    # The norm is 1. By Parseval, all frequencies but the first and the last count twice.
    energy = 2 * amplitude.square().sum(dim=1) - amplitude[:, [0, -1]].square().sum(dim=1)
    torch.testing.assert_close(energy / 1024, torch.ones(3).double())
    # Dense filters have the frequency of their peak.
    net = net_of(2, "gated-cnn", 2, ngram=100, filters="dense")
    waves, time = torch.tensor([50.0, 210.0]), torch.arange(100) / 1000
    net.filters.weight.copy_(torch.cos(2 * math.pi * waves[:, None] * time)[:, None])
    assert (FilterBank.of(net, 1000.0).frequency - waves).abs().max() < 1000 / 1024


@torch.no_grad()
def test_influence_is_the_share_of_the_weights_that_tell_classes_apart() -> None:
    net = net_of(4, ngram=200)
    # The third filter adds the same to both classes; the fourth has 3 of 6 shares.
    net.head.weight.copy_(torch.tensor([[1.0, 0, 7, 3], [-1.0, 4, 7, -3]]))
    bank = FilterBank.of(net, 1000.0)
    torch.testing.assert_close(bank.influence, torch.tensor([1.0, 2, 0, 3]).double() / 6)
    assert bank.influential().tolist() == [3]
    net.head.weight[:, 3] *= 0.9
    assert FilterBank.of(net, 1000.0).influential().tolist() == [3, 1]


@torch.no_grad()
def test_agreement_is_1_for_the_phases_planted_and_0_for_the_other_direction() -> None:
    net, phases = net_of(2, ngram=200), math.pi / 2 * torch.arange(4)
    net.filters.omega.fill_(2 * math.pi * 100 / 1000)
    net.filters.raw_beta.fill_(math.log(math.expm1(1e-4)))
    net.filters.alpha.fill_(1.5)
    net.filters.phi.copy_(torch.stack([phases + 0.3, -phases]))
    agreement = FilterBank.of(net, 1000.0).agreement(100.0, phases)
    torch.testing.assert_close(agreement, torch.tensor([1.0, 0.0]).double(), atol=1e-3, rtol=0)


def test_what_is_found_compares_influential_filters_with_their_start() -> None:
    def bank(frequency: list[float], influence: list[float]) -> FilterBank:
        weight = torch.ones(len(frequency), 2, 10, dtype=torch.double)
        return FilterBank(weight, torch.tensor(frequency), torch.tensor(influence), 1000.0)

    shares = [0.3, 0.25, 0.2, 0.25]
    start, trained = bank([5, 70, 44, 41], shares), bank([41, 75, 44, 200], shares)
    states = (PlantedState("a", 40.0, 0.0), PlantedState("b", 80.0, math.pi))
    slow, fast = found(trained, start, states)
    # The first two filters have more than half of the influence.
    assert (slow["state"], slow["hz"]) == ("a", 40.0)
    assert slow["trained"] == {"nearest_hz": 41.0, "share": 0.5, "agreement": 1.0}
    assert slow["start"] == {"nearest_hz": 70.0, "share": 0.45, "agreement": None}
    assert fast["trained"] == {"nearest_hz": 75.0, "share": 0.25, "agreement": 0.0}
    assert fast["start"]["share"] == 0.25


def test_a_checkpoint_knows_the_filters_that_training_started_from(whole) -> None:
    """This training moves them by less than a thousandth."""
    first, second = (
        load_classifier(whole / "runs" / f"fold01-cnn-seed{seed}" / "best.ckpt", seed)
        for seed in (0, 1)
    )
    for classifier in (first, second):
        start, trained = classifier.filters_at_start.weight, classifier.filters().weight
        torch.testing.assert_close(start, trained, rtol=0, atol=1e-4)
        assert not torch.equal(start, trained)
    assert (first.filters_at_start.weight - second.filters_at_start.weight).abs().max() > 0.1
