"""A results folder: folds times models times seeds, resumable, and what it leaves behind."""

import importlib.metadata
import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.collective import from_first, in_all, in_first
from benchmarks.harness.commit import commit_of_code
from benchmarks.harness.devices import check_devices
from benchmarks.harness.errors import InputError, as_input_error, naming_files, say
from benchmarks.harness.files import write_text
from benchmarks.harness.fitting import fit
from benchmarks.harness.folder import holds_results
from benchmarks.harness.processes import processes
from benchmarks.harness.task import PARTS, Task
from benchmarks.harness.training import Run, predictions_text, train
from pyg_kernels.ops import backend

CONFIGURATION = "configuration.json"
RUNS = "runs"
# These may differ between an interrupted run and its continuation: they do not change the result.
FREE_SETTINGS = ("device", "show")


@dataclass(frozen=True)
class Experiment:
    """Models and seeds to compare on one split, or on several splits of the same data.

    Of several processes the first one keeps the results folder.

    Args:
        task: What is learned.
        models: One configuration a model, in the order of the table.
        seeds: Seeds of the runs.
        training: How runs are trained: a :class:`TrainingConfig`, or what the task makes one of.
        out (Path): The results folder.
        folds: Where there are several splits, their names, which begin those of the runs' folders,
            and what is learned on each: tasks of the choice and identity of `task`.
        arguments: The words of the command line, to be written down.
    """

    task: Task
    models: Sequence[Any]
    seeds: Sequence[int]
    training: Any
    out: Path
    folds: Mapping[str, Task] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    def settings(self) -> dict[str, Any]:
        """What a continuation must have in common with the folder, but for free settings."""
        return {
            "data": asdict(self.task.choice),
            self.task.items: self.task.identity(),
            "training": asdict(self.training),
        }

    def check(self) -> None:
        """Builds every model once and looks at the device: a mistake costs no training.

        Raises:
            InputError: If the device is not there, or a model or its batches cannot be made.
        """
        in_all(self._check)

    def _check(self) -> None:
        learner = None
        with as_input_error():
            for model in self.models:
                training = self.task.training(model, self.training)
                check_devices(training.device, training.batch_size)
                if self.task.estimator(model) is None:
                    learner = self.task.learner(model, training.optimizer)
            if learner is not None:
                self.task.batches(learner, training.batch_size, seed=0)

    def open_folder(self, resume: bool, overwrite: bool) -> None:
        """Makes the results folder, or finds the interrupted experiment in it.

        Args:
            resume (bool): Continue an interrupted experiment.
            overwrite (bool): Remove the results of an earlier experiment.

        Raises:
            InputError: If the folder is not empty and neither is asked for, holds something else,
                or was made with other settings.
        """
        in_first(lambda: self._open_folder(resume, overwrite))

    def check_folder(self, resume: bool, overwrite: bool) -> None:
        """Refuses what :meth:`open_folder` would refuse, and writes nothing.

        Args:
            resume (bool): As there.
            overwrite (bool): As there.

        Raises:
            InputError: As there.
        """
        in_first(lambda: self._found(resume, overwrite))

    def _found(self, resume: bool, overwrite: bool) -> dict[str, Any]:
        """The configuration of the experiment in the folder; empty if there is none."""
        with as_input_error():
            if not holds_results(self.out, CONFIGURATION, resume, overwrite):
                return {}
            found: dict[str, Any] = self._read_configuration()
            if resume:
                self._check_settings(found)
            return found

    def _open_folder(self, resume: bool, overwrite: bool) -> None:
        configuration = self.out / CONFIGURATION
        found = self._found(resume, overwrite)
        with as_input_error():
            if found and not resume:
                self._remove_results(found)
                found = {}
            self.out.mkdir(parents=True, exist_ok=True)
            self.task.write_data_notes(self.out)
            write_text(configuration, json.dumps(self._configuration(found), indent=1))

    def carry_out(
        self,
        heading: str,
        tables: Callable[[list[Run]], str],
        write_report: Callable[[list[Run]], None],
        quiet: bool,
    ) -> None:
        """Trains in the folder that :meth:`open_folder` made, prints the tables, writes a report.

        Args:
            heading (str): Printed before training.
            tables: The text of the tables of finished runs.
            write_report: Writes tables and pictures into the folder.
            quiet (bool): Print the tables only.

        Raises:
            InputError: If results or the report cannot be written.
            DivergenceError: If a run's error is no finite number.
            KeyboardInterrupt: If interrupted, with a hint how to continue.
        """
        if not quiet:
            say(heading)
        try:
            runs = self.run()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("continue with the same command and --resume") from None

        def report() -> None:
            say(tables(runs))
            with as_input_error():
                write_report(runs)
            if not quiet:
                say(f"\nresults in {self.out}")

        in_first(report)

    def run(self) -> list[Run]:
        """Trains what is not finished yet and writes the results after every run.

        Returns:
            All finished runs of the folder, also those of other folds, models and seeds than
            these, fold by fold and model by model; none in other processes than the first.
        """
        runs = in_first(self._read_runs) or {}
        finished = from_first(lambda: [folder for folder, run in runs.items() if run is not None])
        for fold, task in (self.folds or {"": self.task}).items():
            for model in self.models:
                for seed in self._seeds(task, model):
                    folder = _run_folder(self.out, fold, model.name, seed)
                    if folder not in finished:
                        run = self._new_run(task, model, seed, folder)
                        in_first(partial(self._keep, runs, folder, run))
        in_first(lambda: self._write_results(_finished(runs)))
        return _finished(runs)

    def _read_runs(self) -> dict[Path, Run | None]:
        """The finished runs of the folder, and ``None`` for the others."""
        folders = list(_run_folders(self.out, self._read_configuration()))
        return {folder: Run.read(folder) for folder in folders}

    def _keep(self, runs: dict[Path, Run | None], folder: Path, run: Run | None) -> None:
        """Writes a finished run and the results so far."""
        assert run is not None
        runs[folder] = run
        with naming_files(folder):
            run.write(folder)
        self._write_results(_finished(runs))

    def _seeds(self, task: Task, model: Any) -> Sequence[int]:
        """Those of a model: all, or the first alone if the model does not depend on it."""
        estimator = task.estimator(model)
        return self.seeds if estimator is None or estimator.uses_seed else self.seeds[:1]

    def _new_run(self, task: Task, model: Any, seed: int, folder: Path) -> Run | None:
        """A network is trained by all processes, an estimator fitted by the first."""
        estimator = task.estimator(model)
        if estimator is None:
            return train(task, model, seed, self.training, folder)
        return in_first(lambda: fit(task, model, estimator, seed, self.training, folder))

    def _write_results(self, runs: Sequence[Run]) -> None:
        records = [run.record for run in runs]
        table = pandas.concat([run.predictions for run in runs], ignore_index=True)
        with naming_files(self.out):
            write_text(self.out / "metrics.json", json.dumps(records, indent=1))
            write_text(self.out / "predictions.csv", predictions_text(table))

    def _configuration(self, found: dict[str, Any]) -> dict[str, Any]:
        """Settings, and every fold, model and seed of the folder: those found in it and these."""
        models = {model["name"]: model for model in found.get("models", [])}
        models |= {model.name: asdict(model) for model in self.models}
        folds = sorted({*found.get("folds", []), *self.folds})
        return {
            **self.settings(),
            **({"folds": folds} if folds else {}),
            "models": list(models.values()),
            "seeds": sorted({*found.get("seeds", []), *self.seeds}),
            "parts": {fold: _sizes(task) for fold, task in self.folds.items()} or _sizes(self.task),
            "versions": {
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in self.task.packages},
            },
            "commit": commit_of_code(),
            "backend": backend(),
            "processes": processes().number,
            "threads": torch.get_num_threads(),
            "arguments": list(self.arguments),
        }

    def _check_settings(self, found: dict[str, Any]) -> None:
        free = {*FREE_SETTINGS, *self.task.free_settings}
        mine = json.loads(json.dumps(self.settings()))
        for group, settings in mine.items():
            for name, value in settings.items():
                before = found[group].get(name)
                if before != value and name not in free:
                    raise InputError(
                        f"--resume: {self.out} was made with {name} {before!r}, not {value!r}"
                    )
        sizes = {model["name"]: model for model in found["models"]}
        for model in self.models:
            if sizes.get(model.name, asdict(model)) != asdict(model):
                raise InputError(
                    f"--resume: {self.out} holds {model.name} of another size or with other "
                    f"options ({sizes[model.name]})"
                )

    def _read_configuration(self) -> dict[str, Any]:
        """The ``configuration.json`` of the results folder.

        Raises:
            InputError: If an experiment on such a task did not write it, or not all of it.
        """
        path = self.out / CONFIGURATION
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            groups = ("data", self.task.items, "training")
            ours = all(isinstance(found[group], dict) for group in groups)
            ours = ours and all(self.task.has_model(model["name"]) for model in found["models"])
            ours = ours and all(isinstance(seed, int) for seed in found["seeds"])
            ours = ours and all(fold.isalnum() for fold in found.get("folds", []))
            ours = ours and bool(found.get("folds")) == bool(self.folds)
        except (ValueError, KeyError, TypeError, AttributeError):
            ours = False
        if not ours:
            raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")
        return dict(found)

    def _remove_results(self, configuration: dict[str, Any]) -> None:
        """Removes what an experiment wrote and nothing else."""
        for folder in _run_folders(self.out, configuration):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("metrics.json", "predictions.csv", *self.task.files, CONFIGURATION):
            (self.out / name).unlink(missing_ok=True)


def _sizes(task: Task) -> dict[str, int]:
    return {part: len(task.parts[part]) for part in PARTS}


def _run_folder(out: Path, fold: str, model: str, seed: int) -> Path:
    return out / RUNS / f"{fold}{'-' if fold else ''}{model}-seed{seed}"


def _run_folders(out: Path, configuration: dict[str, Any]) -> Iterator[Path]:
    for fold in configuration.get("folds", [""]):
        for model in configuration["models"]:
            for seed in configuration["seeds"]:
                yield _run_folder(out, fold, model["name"], seed)


def _finished(runs: Mapping[Path, Run | None]) -> list[Run]:
    return [run for run in runs.values() if run is not None]
