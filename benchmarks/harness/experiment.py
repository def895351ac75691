"""An experiment: a study whose cells are folds times models times seeds, each trained or fitted.

``OUT/runs/MODEL-seedN`` (``FOLD-MODEL-seedN`` if there are several splits) holds the run's record,
its predictions and the checkpoint of its best epoch, ``best.ckpt``. During training it also holds
``last.ckpt``, from which ``--resume`` goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error, naming_files, say
from benchmarks.harness.files import write_text
from benchmarks.harness.options import Runs
from benchmarks.harness.study import RECORD, Record, Report, Study
from benchmarks.harness.task import PARTS, Task
from benchmarks.harness.training import LAST, PREDICTIONS, Run, TrainingConfig, fit, train
from pyg_kernels.ops import backend
from pyg_kernels.tables import csv_text

PACKAGES = ("torch", "torch-geometric", "lightning", "numpy")


@dataclass(frozen=True)
class Cell:
    """One model on one split with one seed."""

    fold: str  # the name of the split, empty if there is only one
    task: Task  # the task on this split
    model: Any  # the model's configuration
    seed: int  # of the run

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.fold, self.model.name, f"seed{self.seed}")))

    @property
    def title(self) -> str:
        return self.task.run_name(self.model.name, self.seed)


@dataclass(frozen=True)
class Experiment:
    """Models and seeds to compare on one split, or on several splits of the same data."""

    program: str  # the module that keeps the results folder
    options: Runs  # the given options
    out: Path  # the results folder
    task: Task  # what is learned
    # one configuration per model, a dataclass with a ``name``, in the order of the table
    models: Sequence[Any]
    training: TrainingConfig  # how runs are trained
    # if there are several splits, the task on each, by the name of the split
    folds: Mapping[str, Task] = field(default_factory=dict)
    files: Sequence[str] = ()  # the names of all files that a report may leave besides ``table.md``

    @cached_property
    def study(self) -> Study:
        data = {"dataset": self.task.dataset, **self.task.identity()}
        if not self.folds:  # others may be added
            data["parts"] = {part: len(self.task.parts[part]) for part in PARTS}
        return Study(
            self.program,
            self.options,
            self.out,
            data=data,
            packages=PACKAGES,
            files=(PREDICTIONS, *self.files),
            models={model.name: asdict(model) for model in self.models},
            unused=self.task.unused,
            facts={"backend": backend(), "threads": torch.get_num_threads()},
        )

    def check(self) -> None:
        learner = None
        loggers = ("tensorboard", "tensorboardX")
        if self.training.logger == "tensorboard" and not any(map(find_spec, loggers)):
            raise InputError("--logger tensorboard: tensorboard is not installed")
        with as_input_error():
            for model in self.models:
                training = self.task.training(model, self.training)
                torch_device(training.device)
                if self.task.estimator(model) is None:
                    learner = self.task.learner(model, training.optimizer)
            if learner is not None:
                self.task.batches(learner, training.batch_size, seed=0)
        self.study.check()

    def run(self) -> list[Run]:
        """Trains all unfinished cells and writes ``predictions.csv``."""

        def has_predictions(cell: Cell, record: Record) -> bool:
            return (self.study.folder(cell.name) / PREDICTIONS).exists()

        self.study.run(self.cells(), self._record, has_predictions, self._outcome)
        if runs := self.runs():
            self._write(self.out, pandas.concat([run.predictions for run in runs]))
        return runs

    def cells(self) -> list[Cell]:
        """All requested cells; for a model that is fitted at once, only the first seed."""
        found = []
        for fold, task in (self.folds or {"": self.task}).items():
            for model in self.models:
                fitted = task.estimator(model) is not None
                seeds = self.options.seeds[:1] if fitted else self.options.seeds
                found += [Cell(fold, task, model, seed) for seed in seeds]
        return found

    def runs(self) -> list[Run]:
        """All finished runs of the folder, model by model."""
        folders = [path.parent for path in sorted(self.out.glob(f"runs/*/{RECORD}"))]
        runs, names = filter(None, map(Run.read, folders)), list(self.study.models)
        return sorted(runs, key=lambda run: (names.index(run.record["model"]), run.record["seed"]))

    def finish(self, runs: Sequence[Run], report: Callable[[list[Run]], Report]) -> None:
        """Prints and writes the tables, and writes pictures and ``metrics.json``."""
        if not runs:
            raise InputError(f"{self.out} holds no finished run")
        with as_input_error():
            shown = report(list(runs))
        self.study.finish(shown, [run.record for run in runs])

    def carry_out(self, report: Callable[[list[Run]], Report], heading: str = "") -> None:
        """Carries out the whole experiment: checks, opens the folder, trains, prints and writes."""
        self.check()
        self.study.open()
        if heading and not self.options.quiet:
            say(heading)
        self.finish(self.run(), report)

    def _record(self, cell: Cell, folder: Path) -> Record:
        estimator = cell.task.estimator(cell.model)
        if estimator is None:
            run = train(cell.task, cell.model, cell.seed, self.training, folder)
        else:
            run = fit(cell.task, cell.model, estimator, cell.seed, self.training, folder)
        self._write(folder, run.predictions)
        (folder / LAST).unlink(missing_ok=True)
        return {**run.record, "history": run.history}

    @staticmethod
    def _write(folder: Path, predictions: pandas.DataFrame) -> None:
        with naming_files(folder):
            write_text(folder / PREDICTIONS, csv_text(predictions))

    def _outcome(self, record: Record) -> str:
        measure, values = self.task.measure, [record[part] for part in PARTS[1:]]
        valid, test = (f"{value:{measure.format(values)}}" for value in values)
        return f"{measure.title} {valid} valid, {test} test"
