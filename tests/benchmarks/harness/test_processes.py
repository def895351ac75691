"""Several processes learn what one learns, and say once what one says."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

import pandas

from benchmarks.harness import errors, options
from benchmarks.harness.collective import from_first, in_all, in_first, in_turn, put_together
from benchmarks.harness.commit import commit_of_code
from benchmarks.harness.devices import check_devices, trainer_devices
from benchmarks.harness.errors import InputError, say, tell
from benchmarks.harness.processes import Processes, is_first, processes
from benchmarks.papers.lfp.data import RecordingBatches
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import NETWORKS
from pyg_kernels.molecules.networks import MoleculeNet, Sizes, build_network
from tests.benchmarks.conftest import metrics_of
from tests.benchmarks.harness.in_processes import (
    WRONG,
    carry_out,
    experiment,
    write_molecules,
    write_texts,
)

ROOT = Path(__file__).parents[3]
NUMBER = 2
TOLERANCE = 1e-5
OF_EACH = 1e-4  # for single predictions and weights, which no mean evens out


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """The results of one process and of three, and what these have printed."""
    one, several = (tmp_path_factory.mktemp(name) for name in ("one", "several"))
    for folder in (one, several):
        write_molecules(folder)
        write_texts(folder)
    carry_out(one)
    words = ("--standalone", "--nproc-per-node", str(NUMBER))
    module = ("-m", "tests.benchmarks.harness.in_processes", str(several))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, *module],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return one, several, done


def history(folder: Path, name: str, model: str) -> pandas.DataFrame:
    """Everything that was recorded of the epochs of a run but the seconds."""
    content = json.loads((folder / name / "runs" / f"{model}-seed0" / "record.json").read_text())
    return pandas.DataFrame(content["history"]).drop(columns="seconds")


def losses(folder: Path, name: str, model: str) -> pandas.DataFrame:
    """The same of a run on molecules."""
    run = folder / name / "runs" / f"molecules-column-{model}-seed0"
    content = json.loads((run / "record.json").read_text())
    return pandas.DataFrame(content["history"]).drop(columns="seconds")


def assert_same_results(one: Path, several: Path, name: str) -> None:
    records = [metrics_of(folder / name) for folder in (one, several)]
    for first, second in zip(*records, strict=True):
        assert first.keys() == second.keys()
        for key in set(first) - {"seconds_per_epoch", "seconds"}:
            is_number = isinstance(first[key], float)
            same = pytest.approx(first[key], TOLERANCE) if is_number else first[key]
            assert second[key] == same, key
    tables = [pandas.read_csv(folder / name / "predictions.csv") for folder in (one, several)]
    pandas.testing.assert_frame_equal(*tables, rtol=OF_EACH, atol=OF_EACH)


def test_same_molecules_as_in_one_process(folders):
    one, several, done = folders
    assert (several / "molecules" / "metrics.json").exists(), done.stderr
    first, second = (losses(folder, "molecules", "wl-gated") for folder in (one, several))
    assert len(first) == 4 and first["train_loss"].nunique() > 1
    pandas.testing.assert_frame_equal(first, second, rtol=TOLERANCE, atol=TOLERANCE)
    assert_same_results(one, several, "molecules")
    assert [r["model"] for r in metrics_of(several / "molecules")] == [
        *("mean", "wl-gated", "wl-subtree-3")
    ]
    configuration = json.loads((several / "molecules" / "configuration.json").read_text())
    assert configuration["processes"] == NUMBER
    assert done.stdout.count("43 molecules, column split") == 2  # two tables, said once each


@pytest.mark.parametrize(("name", "model"), [("texts", "rcnn"), ("interrupted", "rcnn")])
def test_same_curves_and_predictions_as_in_one_process(folders, name, model):
    one, several, done = folders
    assert (several / name / "metrics.json").exists(), done.stderr
    first, second = (history(folder, name, model) for folder in (one, several))
    assert len(first) == 4
    assert first.drop(columns="epoch").nunique().max() > 1, "it must have learned something"
    pandas.testing.assert_frame_equal(first, second, rtol=TOLERANCE, atol=TOLERANCE)
    assert_same_results(one, several, name)
    path = Path(name) / "runs" / f"{model}-seed0" / "best.ckpt"
    weights = [torch.load(folder / path)["state_dict"] for folder in (one, several)]
    torch.testing.assert_close(*weights, rtol=OF_EACH, atol=OF_EACH)
    configuration = json.loads((several / name / "configuration.json").read_text())
    assert configuration["processes"] == NUMBER


def test_batch_normalization_and_dropout_are_those_of_each_process(folders):
    one, several, _ = folders
    first, second = (losses(folder, "normalized", "gine") for folder in (one, several))
    assert first.shape == second.shape
    assert bool(second.map(math.isfinite).all(axis=None))
    assert not (first["train_loss"] == second["train_loss"]).any()
    # The same epoch of the same weights: only statistics and masks differ.
    assert second["train_loss"][0] == pytest.approx(first["train_loss"][0], rel=0.7)


def test_interrupted_in_several_processes_and_resumed_in_one(folders, tmp_path):
    one, several, _ = folders
    (several / "half").rename(several / "resumed")
    resumed = experiment(several, "resumed", resume=True)
    assert not (several / "resumed" / "metrics.json").exists()
    resumed.open()
    resumed.run()
    first = history(one, "interrupted", "rcnn")
    second = history(several, "resumed", "rcnn")
    pandas.testing.assert_frame_equal(first, second, rtol=TOLERANCE, atol=TOLERANCE)


def test_an_error_in_one_process_ends_all_with_one_line(folders):
    _, _, done = folders
    assert done.stderr.count("error:") == done.stderr.count(f"in_processes: error: {WRONG}") == 1
    assert re.findall(r"exitcode *: (-?\d+) +\(", done.stderr) == ["2"] * NUMBER
    assert WRONG not in done.stdout


def environment(monkeypatch, rank: int, number: int, local_number: int | None = None) -> None:
    local = local_number or number
    values = {"RANK": rank, "WORLD_SIZE": number}
    values |= {"LOCAL_RANK": rank % local, "LOCAL_WORLD_SIZE": local}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def test_one_process_shares_nothing(monkeypatch):
    for number in (None, "1"):
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        if number:
            monkeypatch.setenv("WORLD_SIZE", number)
        assert processes() == Processes()
        assert is_first()
        assert [work(lambda: 7) for work in (in_first, from_first, in_turn, in_all)] == [7] * 4
    rows = [torch.arange(4), torch.arange(4, 6)]
    whole = put_together(rows, 6, 4)
    assert whole is not None
    assert whole.tolist() == list(range(6))


def test_processes_of_torchrun(monkeypatch):
    environment(monkeypatch, 5, 6, 2)
    here = processes()
    assert here == Processes(5, 6, 1, 2)
    assert (here.machines, here.share, here.is_first, is_first()) == (3, (5, 6), False, False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="as many processes as the others; here 6 in all and 4"):
        processes()
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(ValueError, match="WORLD_SIZE is 6 and not all of them are numbers"):
        processes()
    monkeypatch.delenv("RANK")
    assert is_first(), "somebody must say so"


def test_what_cannot_be_shared_is_refused_once(monkeypatch, capsys):
    monkeypatch.setattr(errors, "_end_together", lambda status, line: status)
    parser = options.parser("p", options.Command(options.Device, print, "a line"))
    for rank, printed in ((0, 1), (1, 0)):
        environment(monkeypatch, rank, 2)
        assert errors.exit_status("p", lambda: 0) == 2
        assert errors.exit_status("p", lambda: 0, several=True) == 0
        out, err = capsys.readouterr()
        assert (
            err
            == "p: error: this runs in one process, not 2; start it without torchrun\n" * printed
        )
        say("a table")
        tell("a note")
        out, err = capsys.readouterr()
        assert (out, err) == ("a table\n" * printed, "a note\n" * printed)
        assert errors.exit_status("p", lambda: parser.parse_args(["x"]), several=True) == 2
        assert capsys.readouterr().err == "p: error: unrecognized arguments: x\n" * printed


def test_each_process_has_a_cuda_device_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    environment(monkeypatch, 3, 4, 2)
    options = trainer_devices("cuda")
    assert (options["accelerator"], options["devices"], options["num_nodes"]) == ("gpu", 2, 2)
    assert options["sync_batchnorm"]
    assert options["strategy"].process_group_backend == "nccl"
    options = trainer_devices("cpu")
    assert (options["accelerator"], options["devices"], options["num_nodes"]) == ("cpu", 2, 2)
    assert not options["sync_batchnorm"]
    assert options["strategy"].process_group_backend == "gloo"
    with pytest.raises(InputError, match="cuda:1 is for one process, not 4"):
        trainer_devices("cuda:1")
    with pytest.raises(InputError, match="--batch-size 3 is shared by 4 processes"):
        check_devices("cpu", 3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="2 processes on this machine need as many CUDA devices"):
        trainer_devices("auto")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("smiles", [("CCO", "CC(N)C"), ("C", "O")], ids=["bonds", "no-bonds"])
def test_gradients_that_processes_wait_for(name, smiles):
    batch = MoleculeDataset.from_smiles(smiles).batch([0, 1])
    net = MoleculeNet(build_network(name, Sizes(65, 2, 7, 4, 2)), 0, name)
    net(batch).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


def test_recordings_are_shared_without_a_gap(monkeypatch):
    x, y = torch.arange(11.0).view(11, 1, 1), torch.arange(11) % 2
    parts = {part: torch.arange(11) for part in ("train", "valid", "test")}
    shares = []
    for rank in range(3):
        environment(monkeypatch, rank, 3)
        shares.append(list(RecordingBatches(x, y, parts, 10, seed=0).val_dataloader()))
    for batches in zip(*shares, strict=True):
        own = torch.cat([samples[classes >= 0] for samples, classes in batches])
        assert own.flatten().sort().values.tolist() in ([*range(10)], [10])
    assert [len(classes) for _, classes in shares[1]] == [3, 1]
    assert shares[1][1][1].tolist() == [-100]
    environment(monkeypatch, 2, 3)
    (samples, classes), *_ = RecordingBatches(x, y, parts, 4, seed=0).train_dataloader()
    assert len(samples) == len(classes) == 2
    assert (classes == -100).sum() == 1


def test_commit_is_that_of_the_repository():
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    found = commit_of_code()
    if git("ls-files", "benchmarks/harness/commit.py"):
        changed = git("status", "--porcelain", "--untracked-files=no")
        assert found == git("rev-parse", "HEAD") + "+" * bool(changed)
    else:
        assert found is None
