"""The stages of ``benchmarks.speed scale``, each in a process of its own, and what they found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.errors import InputError, MeasurementError, as_input_error, say
from benchmarks.harness.files import write_text
from benchmarks.harness.folder import holds_results
from benchmarks.speed.process_memory import ProcessMemory

RESULTS = "scale.json"
SCRATCH = "scratch"
WORKER = "benchmarks.speed.scale_worker"
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class ScaleSetting:
    """What all numbers of molecules have in common.

    Args:
        dataset (str): ``'chembl'`` or ``'cep'``.
        model (str): A network of the molecule benchmark, of its default size.
        batch_size (int): Molecules a batch.
        steps (int, optional): Batches to train; ``None``: a whole run of one epoch.
        workers (int): Processes that write and featurise.
        threads (int): Of training.
        seed (int): Of the orders of atoms.
    """

    dataset: str
    model: str
    batch_size: int
    steps: int | None
    workers: int
    threads: int
    seed: int = 0


class ScaleStudy:
    """Measures numbers of molecules, one after the other, and keeps what it has found.

    A result has the number of ``molecules``, and for each of the stages ``replicate``,
    ``featurise`` and ``train`` what :mod:`~benchmarks.speed.scale_worker` gives, with the peaks of
    :class:`ProcessMemory`: ``peak``, ``anonymous_peak`` and ``worker_peak``.

    Args:
        setting: What they have in common.
        root (str): Folder of ``cep``.
        out (Path): The results folder.
        figures: From a result to the row of the table that is kept as well.
        keep (bool): Keep what the stages write in its folder ``scratch``.
    """

    def __init__(
        self,
        setting: ScaleSetting,
        root: str,
        out: Path,
        figures: Callable[[dict[str, Any]], dict[str, Any]],
        keep: bool = False,
    ) -> None:
        self.setting = setting
        self.figures = figures
        self.root = str(Path(root).expanduser().resolve())
        self.out = out
        self.keep = keep
        self._results: dict[int, dict[str, Any]] = {}

    def open_folder(self) -> None:
        """Makes the results folder, or takes up what it holds.

        Raises:
            InputError: If it holds other files, or was made with other settings.
        """
        with as_input_error():
            if holds_results(self.out, RESULTS, resume=True, overwrite=False):
                found = self._read()
                self._check(found["setting"])
                self._results = {result["molecules"]: result for result in found["stages"]}
            self.out.mkdir(parents=True, exist_ok=True)
            self._write()

    def run(self, sizes: Sequence[int]) -> list[dict[str, Any]]:
        """Measures the numbers of molecules that are not measured yet.

        Returns:
            The rows of all that are, also those of other numbers, in ascending order.

        Raises:
            MeasurementError: If a stage fails.
            InputError: If it cannot work with what it was given.
        """
        for size in sizes:
            if "train" not in self._results.get(size, {}):
                self._measure(size)
        self._write()
        return self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        results = (self._results[number] for number in sorted(self._results))
        return [self.figures(result) for result in results if "train" in result]

    def _write(self) -> None:
        """Writes ``scale.json``: setting, the rows of the table, what each stage found."""
        content = {
            "setting": asdict(self.setting),
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "sizes": self._rows(),
            "stages": [self._results[n] for n in sorted(self._results)],
        }
        with as_input_error():
            write_text(self.out / RESULTS, json.dumps(content, indent=1))

    def _measure(self, size: int) -> None:
        """Carries out the stages of a number of molecules that are not done yet."""
        setting = self.setting
        scratch = (self.out / SCRATCH / f"{setting.dataset}-{size}").resolve()
        paths = {"csv": str(scratch / "molecules.csv"), "shards": str(scratch / "shards")}
        done = self._results.get(size, {})
        if "featurise" not in done or not Path(paths["shards"]).exists():
            done = {"molecules": size}
            shutil.rmtree(scratch, ignore_errors=True)
        self._results[size] = done
        with as_input_error():
            scratch.mkdir(parents=True, exist_ok=True)
        source = {"dataset": setting.dataset, "root": self.root, "seed": setting.seed}
        number = {"number": size, "workers": setting.workers}
        training = {
            "model": setting.model,
            "batch_size": setting.batch_size,
            "steps": setting.steps,
            "threads": setting.threads,
            "runs": str(scratch / "run"),
        }
        stages = {
            "replicate": {"csv": paths["csv"], **source, **number},
            "featurise": {**paths, **number},
            "train": {**paths, **training},
        }
        for stage, told in stages.items():
            if stage not in done:
                done[stage] = carried_out(stage, told, setting.threads)
                say(f"{size:,} molecules, {stage}: {done[stage]['seconds']:,.1f} s")
                self._write()
        if not self.keep:
            shutil.rmtree(scratch, ignore_errors=True)
            with suppress(OSError):  # others are kept
                scratch.parent.rmdir()

    def _read(self) -> dict[str, Any]:
        path = self.out / RESULTS
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            numbers = [result["molecules"] for result in found["stages"]]
            if isinstance(found["setting"], dict) and len(set(numbers)) == len(numbers):
                return dict(found)
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")

    def _check(self, found: dict[str, Any]) -> None:
        for name, value in asdict(self.setting).items():
            if found.get(name) != value:
                raise InputError(
                    f"--out {self.out} was made with {name} {found.get(name)!r}, not {value!r}"
                )


def carried_out(stage: str, told: dict[str, Any], threads: int) -> dict[str, Any]:
    """The result of a stage in a process of its own, with its peak memory.

    Raises:
        MeasurementError: If the process fails.
        InputError: If it cannot work with what it was given.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"stage": stage, **told}))
            process.stdin.close()
            memory = ProcessMemory(process.pid)
            memory.watch(process)
        finally:
            _end(process)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            lines = errors.read().strip().splitlines() or [f"exit status {process.returncode}"]
            message = lines[-1].partition("error: ")[2] or lines[-1]
            kind = InputError if process.returncode == 2 else MeasurementError
            raise kind(f"{stage}: {message}")
        result = json.loads(output.read().splitlines()[-1])
    return {
        **result,
        "peak": memory.peak,
        "anonymous_peak": memory.anonymous_peak,
        "worker_peak": memory.worker_peak,
    }


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process and those that it has started, if they still run."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
