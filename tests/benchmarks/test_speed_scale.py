"""Many molecules from few: as many as were asked for, other orders of atoms, resumable stages."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lightning", reason="training needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from rdkit import Chem

from benchmarks.harness.errors import InputError, MeasurementError
from benchmarks.speed import process_memory, scale, scale_replication, scale_study, scale_worker
from benchmarks.speed.__main__ import main
from benchmarks.speed.process_memory import ProcessMemory
from benchmarks.speed.scale_replication import Source, orders, write_replicas
from benchmarks.speed.scale_study import RESULTS, ScaleSetting, ScaleStudy
from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.datasets import MoleculeCSV

Call = Callable[..., tuple[int, str, str]]
Rows = list[dict[str, str]]
MIB = 2**20


@pytest.fixture
def source(sulfonamides: Rows) -> Source:
    few = sulfonamides[:7]
    return Source([row["smiles"] for row in few], [[row["pIC50"]] for row in few], ["pIC50"])


def numbered(smiles: str) -> str:
    """The SMILES with each atom's place in it as its map number."""
    molecule = Chem.MolFromSmiles(smiles)
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(molecule, canonical=False))


def features(smiles: str) -> tuple[Any, Any]:
    """The multisets of atoms' codes and of bonds' with those of their atoms."""
    codes = MolFeaturizer().encode(smiles)
    atoms = [tuple(atom) for atom in codes.atoms.tolist()]
    bonds = [
        (atoms[begin], atoms[end], tuple(bond))
        for (begin, end), bond in zip(
            codes.edge_index.T.tolist(), codes.bonds.tolist(), strict=True
        )
    ]
    return Counter(atoms), Counter(bonds)


@pytest.mark.parametrize("smiles", ["CC", "CCO", "[Na+].[Cl-]", "c1ccccc1C(F)(F)F", "N[C@@H](C)O"])
def test_copies_have_other_orders_of_atoms(smiles: str) -> None:
    """Map numbers travel with the atoms, so that a copy says where each of them has gone."""
    first, *copies = orders(numbered(smiles), 9, np.random.default_rng(0))
    assert first == numbered(smiles)
    assert len(copies) == 8
    for copy in copies:
        order = [atom.GetAtomMapNum() for atom in Chem.MolFromSmiles(copy).GetAtoms()]
        assert sorted(order) == list(range(1, len(order) + 1))
        assert order != sorted(order)


def test_copies_have_the_same_features(sulfonamides: Rows) -> None:
    generator = np.random.default_rng(0)
    for row in sulfonamides:
        first, *copies = orders(row["smiles"], 4, generator)
        assert first == row["smiles"]
        assert first not in copies
        assert all(features(copy) == features(first) for copy in copies)


def test_a_single_atom_has_one_order() -> None:
    assert list(orders("C", 3, np.random.default_rng(0))) == ["C", "C", "C"]


@pytest.mark.parametrize("number", [1, 6, 7, 8, 30])
def test_as_many_molecules_as_were_asked_for(source: Source, number: int, tmp_path: Path) -> None:
    write_replicas(source, number, tmp_path / "file.csv")
    molecules = MoleculeCSV(tmp_path / "file.csv")
    assert len(molecules) == number
    assert molecules.target_names == ["pIC50"]
    canonical = [Chem.CanonSmiles(smiles) for smiles in source.smiles]
    found = [canonical.index(Chem.CanonSmiles(smiles)) for smiles in molecules.smiles]
    assert found == sorted(found)  # copies follow each other
    times = [found.count(k) for k in range(7)]
    assert times == [source.copies(k, number) for k in range(7)]
    assert max(times) - min(times) <= 1
    assert molecules.targets[:, 0].tolist() == [float(source.targets[k][0]) for k in found]


def test_missing_targets_stay_missing(tmp_path: Path) -> None:
    source = Source(["CO", "CN"], [["", "2.5"], ["1.0", ""]], ["a", "b"])
    write_replicas(source, 3, tmp_path / "file.csv")
    with open(tmp_path / "file.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["a"], row["b"]) for row in rows] == [("", "2.5"), ("", "2.5"), ("1.0", "")]


def test_the_file_does_not_depend_on_processes(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_replication, "ROWS", 30)  # several chunks
    paths = [tmp_path / f"{workers}.csv" for workers in (1, 2)]
    for workers, path in enumerate(paths, start=1):
        write_replicas(source, 101, path, seed=3, num_workers=workers)
    first, second = (path.read_text() for path in paths)
    assert first == second
    write_replicas(source, 101, paths[0], seed=4)
    assert paths[0].read_text() != first


ALLOCATING = """
import subprocess, sys
block = bytearray(48 * 2**20)
del block
kept = bytearray(16 * 2**20)
subprocess.run([sys.executable, "-c", "import time; b = bytearray(80 * 2**20); time.sleep(0.5)"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_memory_of_a_process_and_its_children() -> None:
    process = subprocess.Popen([sys.executable, "-c", ALLOCATING], text=True)
    memory = ProcessMemory(process.pid)
    memory.watch(process)
    assert memory.peak is not None and memory.worker_peak is not None
    assert 48 * MIB < memory.peak < 80 * MIB
    assert memory.anonymous_peak is not None
    assert 16 * MIB < memory.anonymous_peak <= memory.peak
    assert 80 * MIB < memory.worker_peak < 128 * MIB


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_memory, "PROCESSES", tmp_path / "none")
    memory = ProcessMemory(1)
    memory.read()
    assert (memory.peak, memory.anonymous_peak, memory.worker_peak) == (None, None, None)


def stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **told: Any
) -> dict[str, Any]:
    """What the worker answers, in this process."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(told)))
    assert scale_worker.main() == 0
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))


@pytest.mark.parametrize("steps", [2, None])
def test_stages(
    steps: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: Source,
) -> None:
    monkeypatch.setattr(Source, "of", lambda dataset, root: source)
    path, shards = str(tmp_path / "molecules.csv"), str(tmp_path / "shards")
    written = stage(
        monkeypatch,
        capsys,
        **{"stage": "replicate", "csv": path, "dataset": "chembl", "root": "", "number": 40},
        seed=0,
        workers=1,
    )
    assert written["bytes"] == Path(path).stat().st_size
    told = {"csv": path, "shards": shards}
    found = stage(monkeypatch, capsys, stage="featurise", **told, number=40, workers=1)
    files = [file.stat().st_size for file in Path(shards).rglob("*") if file.is_file()]
    assert found["bytes"] == sum(files)
    assert found["bytes_a_molecule"] == found["bytes"] / 40
    training = {"model": "gin", "batch_size": 10, "steps": steps, "threads": 1}
    runs = tmp_path / "run"
    trained = stage(monkeypatch, capsys, stage="train", **told, **training, runs=str(runs))
    assert trained["training_share"] == 0.8
    assert trained["molecules"] == (32 if steps is None else 10)  # of 2 batches one is warm
    rate = trained["molecules"] / trained["seconds"]
    assert trained["molecules_a_second"] == pytest.approx(rate, rel=0.01)
    assert (runs / "predictions.csv").exists() == (steps is None)


def test_another_number_of_molecules_than_written(
    monkeypatch: pytest.MonkeyPatch, source: Source, tmp_path: Path
) -> None:
    write_replicas(source, 21, tmp_path / "file.csv")
    with pytest.raises(RuntimeError, match="20 molecules were written, 21 are in the shards"):
        scale_worker.featurise(str(tmp_path / "file.csv"), str(tmp_path / "shards"), 20, 1)


WORKER = """
import json, os, sys
told = json.load(sys.stdin)
print("something else")
print(json.dumps({**told, "threads": os.environ["OMP_NUM_THREADS"]}))
print(told["says"], file=sys.stderr)
sys.exit(told["status"])
"""


@pytest.fixture
def _small_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(scale_study, "WORKER", "small_worker")


@pytest.mark.usefixtures("_small_worker")
def test_a_stage_in_a_process_of_its_own() -> None:
    result = scale_study.carried_out("train", {"says": "a warning", "status": 0}, threads=3)
    assert result.pop("peak") is None or sys.platform == "linux"
    assert {*result} == {"stage", "says", "status", "threads", "anonymous_peak", "worker_peak"}
    assert (result["stage"], result["threads"]) == ("train", "3")


@pytest.mark.usefixtures("_small_worker")
@pytest.mark.parametrize(
    ("status", "says", "error", "message"),
    [
        (2, "benchmarks.speed scale: error: no such file", InputError, "train: no such file"),
        (1, "Traceback\nRuntimeError: 1 2", MeasurementError, "train: RuntimeError: 1 2"),
    ],
)
def test_a_stage_that_fails_says_why(
    status: int, says: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        scale_study.carried_out("train", {"says": says, "status": status}, threads=1)


@pytest.mark.usefixtures("_small_worker")
def test_an_interrupt_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small_worker.py").write_text("import time\ntime.sleep(600)")
    processes = []

    def interrupt(self: ProcessMemory, process: subprocess.Popen[str]) -> None:
        processes.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(ProcessMemory, "watch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scale_study.carried_out("train", {}, threads=1)
    assert processes[0].poll() is not None


SETTING = ScaleSetting("chembl", "wl", 128, 200, workers=2, threads=1)


class Stages:
    """In place of stages in processes: writes what they would, and notes that they were called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.fail = ""

    def __call__(self, name: str, told: dict[str, Any], threads: int) -> dict[str, Any]:
        size = int(Path(told["csv"]).parent.name.partition("-")[2])
        self.calls.append((name, size))
        if name == self.fail:
            raise MeasurementError(f"{name}: it fails")
        if name == "replicate":
            Path(told["csv"]).write_text("smiles\n")
        if name == "featurise":
            Path(told["shards"]).mkdir()
        memory = {"peak": 300 * MIB, "anonymous_peak": 100 * MIB, "worker_peak": None}
        return {"seconds": 1.0, **memory, **RATES.get(name, {})}


RATES = {
    "featurise": {"molecules_a_second": 4600.0, "bytes_a_molecule": 150.0},
    "train": {"molecules_a_second": 2300.0, "training_share": 0.8},
}


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    found = Stages()
    monkeypatch.setattr(scale_study, "carried_out", found)
    return found


def study(out: Path, setting: ScaleSetting = SETTING, keep: bool = False) -> ScaleStudy:
    opened = ScaleStudy(setting, "data", out, lambda result: scale.figures(result, 15), keep)
    opened.open_folder()
    return opened


def test_a_finished_number_is_not_measured_again(stages: Stages, tmp_path: Path) -> None:
    study(tmp_path / "out").run([300, 40])
    names = ("replicate", "featurise", "train")
    assert stages.calls == [(name, size) for size in (300, 40) for name in names]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [RESULTS]
    rows = study(tmp_path / "out").run([40, 50])
    assert stages.calls[6:] == [(name, 50) for name in names]
    assert [row["molecules"] for row in rows] == [40, 50, 300]
    content = json.loads((tmp_path / "out" / RESULTS).read_text())
    assert content["sizes"] == rows


def test_an_interrupted_number_continues_with_its_shards(stages: Stages, tmp_path: Path) -> None:
    stages.fail = "train"
    with pytest.raises(MeasurementError, match="it fails"):
        study(tmp_path / "out").run([40])
    stages.fail = ""
    study(tmp_path / "out").run([40])
    assert [name for name, _ in stages.calls] == ["replicate", "featurise", "train", "train"]


def test_half_of_the_shards_are_not_continued(stages: Stages, tmp_path: Path) -> None:
    stages.fail = "featurise"
    with pytest.raises(MeasurementError, match="it fails"):
        study(tmp_path / "out").run([40])
    left = tmp_path / "out" / "scratch" / "chembl-40" / "shards"
    left.mkdir()
    (left / "half").touch()
    stages.fail = ""
    study(tmp_path / "out", keep=True).run([40])
    assert [name for name, _ in stages.calls[2:]] == ["replicate", "featurise", "train"]
    assert list(left.iterdir()) == []  # and --keep has kept the folder


def test_other_settings_and_folders_are_refused(stages: Stages, tmp_path: Path) -> None:
    study(tmp_path / "out")
    other = ScaleSetting("chembl", "gin", 128, 200, workers=2, threads=1)
    with pytest.raises(InputError, match="was made with model 'wl', not 'gin'"):
        study(tmp_path / "out", other)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not results of this module"):
        study(tmp_path)
    (tmp_path / "out" / RESULTS).write_text("{")
    with pytest.raises(InputError, match=r"scale\.json is damaged"):
        study(tmp_path / "out")


def test_hours_of_the_full_set(stages: Stages, tmp_path: Path, call_main: Call) -> None:
    words = ["--molecules", 40, "--epochs", 10, "--out", tmp_path / "out"]
    status, out, _ = call_main(main, "scale", *words)
    assert status == 0
    (row,) = json.loads((tmp_path / "out" / RESULTS).read_text())["sizes"]
    assert row["full_featurising_hours"] == pytest.approx(500 / 3600)
    assert row["full_epoch_hours"] == pytest.approx(800 / 3600)
    assert row["full_hours"] == pytest.approx(8500 / 3600)
    cells = out.splitlines()[-1].split()
    assert cells == ["40", "4,600", "150", "2,300", "300", "300", "100", "0.14", "0.22", "2.36"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--molecules", "5"], "--molecules: must be an integer of at least 20"),
        (["--model", "nonsense"], "--model nonsense: expected one of wl"),
        (["--steps", "epochs"], "--steps: must be an integer"),
        (["--out", __file__], "Not a directory"),
    ],
)
def test_bad_input(words: list[str], message: str, call_main: Call, stages: Stages) -> None:
    status, _, errors = call_main(main, "scale", *words)
    assert status == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1


def test_steps_or_an_epoch() -> None:
    assert scale.parser().parse_args(["--steps", "epoch"]).steps is None
    assert scale.parser().parse_args(["--steps", "7"]).steps == 7
    assert scale.parser().parse_args([]).molecules == [30_000, 300_000, 2_300_000]
