"""The results folder: every measurement once, what was interrupted taken up again."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.harness.errors import InputError, MeasurementError, as_input_error, say
from benchmarks.harness.files import write_text
from benchmarks.harness.folder import holds_results
from benchmarks.harness.kernels.setting import (
    ACCURACY,
    EXACT_GRAM,
    FEWEST_EXACT,
    GRAKEL,
    REGRESSION,
    Measurement,
    Setting,
    planned,
)

CONFIGURATION = "configuration.json"
MEASUREMENTS = "measurements"
FILES = ("metrics.json", "table.md", "scaling.png", "regression.png")
REPOSITORY = Path(__file__).parents[3]
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "rdkit", "grakel")


@dataclass(frozen=True)
class Study:
    """Measurements of a setting, in a folder.

    Args:
        setting: What is measured.
        tasks: Which of it.
        number (int): Molecules of the data set.
        number_of_train (int): Of its training part.
        out (Path): The results folder.
    """

    setting: Setting
    tasks: tuple[str, ...]
    number: int
    number_of_train: int
    out: Path

    def open_folder(self, resume: bool, overwrite: bool) -> None:
        """Makes the results folder, or finds the interrupted study in it.

        Raises:
            InputError: If the folder is not empty and neither is asked for, holds something else,
                or was made with another setting.
        """
        with as_input_error():
            if holds_results(self.out, CONFIGURATION, resume, overwrite):
                found = self._read_configuration()
                if resume:
                    self._check(found)
                else:
                    self._remove_results()
            (self.out / MEASUREMENTS).mkdir(parents=True, exist_ok=True)
            configuration = {
                "setting": self.setting.settings(),
                "versions": {"python": platform.python_version(), **_versions()},
                "processor": _processor(),
            }
            write_text(self.out / CONFIGURATION, json.dumps(configuration, indent=1))

    def run(self, show: str) -> list[dict[str, Any]]:
        """Measures what has not been measured yet, one process each.

        Args:
            show (str): ``'bar'``, ``'lines'`` or ``'nothing'``.

        Returns:
            All results of these tasks, in order.

        Raises:
            MeasurementError: If one of this library's fails.
            KeyboardInterrupt: If interrupted, with a hint how to continue.
        """
        try:
            results = self._all(show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("continue with the same command and --resume") from None
        self._compare(results)
        content = {
            "setting": self.setting.settings(),
            "versions": _versions(),
            "processor": _processor(),
            "measurements": results,
        }
        write_text(self.out / "metrics.json", json.dumps(content, indent=1))
        return results

    def _all(self, show: str) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        plan = list(planned(self.setting, self.tasks, self.number))
        with tqdm(total=len(plan), disable=show != "bar", leave=False) as bar:
            for measurement in chain(plan, self._exact(results)):
                bar.set_description(measurement.title)
                results.append(self._result(measurement, show))
                bar.update()
        return results

    def _exact(self, results: Sequence[dict[str, Any]]) -> Iterator[Measurement]:
        """Exact Gram matrices, twice as large each time, the last as large as fits."""
        size = min(FEWEST_EXACT, self.number_of_train)
        while REGRESSION in self.tasks:
            yield Measurement(REGRESSION, EXACT_GRAM, size)
            largest = self._largest_subset(size, results[-1])
            if largest < 1.2 * size:
                return
            size = min(2 * size, largest)

    def _largest_subset(self, size: int, result: dict[str, Any]) -> int:
        """How many training molecules fit, by what `size` of them took; in steps of 50."""
        others = self.number - self.number_of_train

        def fits(subset: int) -> bool:
            pairs = subset * (subset / 2 + others) / (size * (size / 2 + others))
            numbers = subset * (subset + others) / (size * (size + others))
            seconds = pairs * (result["seconds"] + result["seconds_search"])
            gib = numbers * max(result["peak_mib"], result.get("gpu_peak_mib", 0)) / 1024
            return seconds <= self.setting.gram_seconds and gib <= self.setting.gram_memory

        larger = [
            n for n in (*range(50, self.number_of_train, 50), self.number_of_train) if fits(n)
        ]
        return max(larger, default=0)

    def _result(self, measurement: Measurement, show: str) -> dict[str, Any]:
        """What an earlier run found, or a new measurement."""
        path = self._path(measurement, "json")
        if path.exists():
            try:
                return dict(json.loads(path.read_text(encoding="utf-8")))
            except ValueError as error:
                raise InputError(f"{path} is damaged; remove it to measure again") from error
        result = {**asdict(measurement), **self._measured(measurement)}
        if "failed" not in result:
            write_text(path, json.dumps(result, indent=1))
        elif measurement.method != GRAKEL and measurement.task != ACCURACY:
            raise MeasurementError(f"{measurement.title}: {result['failed']}")
        if show == "lines":
            say(f"{measurement.title}: {_outcome(result)}")
        return result

    def _measured(self, measurement: Measurement) -> dict[str, Any]:
        """The result of a process of its own."""
        told = {
            "setting": asdict(self.setting),
            "measurement": asdict(measurement),
            "values": str(self._path(measurement, "npy").resolve()),
        }
        threads = str(self.setting.threads or "")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.harness.kernels.worker"],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | ({"OMP_NUM_THREADS": threads} if threads else {}),
        )
        if done.returncode == 0:
            return dict(json.loads(done.stdout.splitlines()[-1]))
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit status {done.returncode}"}

    def _compare(self, results: Sequence[dict[str, Any]]) -> None:
        """Notes the largest difference of every matrix from GraKeL's, then removes the matrices."""
        for result in results:
            mine = Measurement(result["task"], result["method"], result["size"])
            theirs = Measurement(mine.task, GRAKEL, mine.size)
            paths = [self._path(one, "npy") for one in (mine, theirs)]
            if mine == theirs or "difference" in result or not all(p.exists() for p in paths):
                continue
            ours, others = (np.load(path) for path in paths)
            difference = np.abs(ours - others)
            result["difference"] = float(difference.max())
            scale = np.where(others == 0, 1, np.abs(others))
            result["relative_difference"] = float((difference / scale).max())
            write_text(self._path(mine, "json"), json.dumps(result, indent=1))
        for path in (self.out / MEASUREMENTS).glob("*.npy"):
            path.unlink()

    def _path(self, measurement: Measurement, suffix: str) -> Path:
        return self.out / MEASUREMENTS / f"{measurement.name}.{suffix}"

    def _read_configuration(self) -> dict[str, Any]:
        path = self.out / CONFIGURATION
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if set(found["setting"]) == set(self.setting.settings()):
                return dict(found)
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")

    def _check(self, found: dict[str, Any]) -> None:
        for name, value in self.setting.settings().items():
            before = found["setting"][name]
            if before != value:
                raise InputError(
                    f"--resume: {self.out} was made with {name} {before!r}, not {value!r}"
                )

    def _remove_results(self) -> None:
        """Removes what a study wrote and nothing else."""
        shutil.rmtree(self.out / MEASUREMENTS, ignore_errors=True)
        for name in (*FILES, CONFIGURATION):
            (self.out / name).unlink(missing_ok=True)


def _outcome(result: dict[str, Any]) -> str:
    if "failed" in result:
        return str(result["failed"])
    rmse = f", test RMSE {result['test']:.3f}" if "test" in result else ""
    return f"{result['seconds']:.3g} s, {result['peak_mib']:,.0f} MiB{rmse}"


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
    except OSError:
        names = []
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()
