"""A run: a model fitted on a split with a seed, its scores and its files."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error, naming_files, tell
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.study import Record
from benchmarks.molecules.data import PARTS, Split, load_set
from benchmarks.molecules.models import Model, models_of, named_model, number_of_parameters
from benchmarks.molecules.options import Options
from benchmarks.molecules.scores import TITLES, covered, score
from benchmarks.papers.chemprop import command
from pyg_kernels.tables import csv_text

PROGRAM = "benchmarks.molecules"
PREDICTIONS = "predictions.csv"
MOST_ROWS = 10_000_000  # of a prediction table with all parts; larger ones have the test part alone
SKIPPED_SHOWN = 10
TRAINING_SAMPLE = 10_000  # molecules saved for similarity if the data are on disk


@dataclass(frozen=True)
class Cell:
    """One run."""

    split: Split  # the data
    model: Model  # the model to fit
    seed: int  # of the estimator

    @property
    def name(self) -> str:
        model = self.model.name.replace(":", "-").replace("/", "-")
        return f"{self.split.key}-{model}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.split.key}, {self.model.name}, seed {self.seed}"

    def names(self) -> dict[str, Any]:
        model, split = self.model.name, self.split.name
        return {"dataset": self.split.data.name, "split": split, "model": model, "seed": self.seed}

    def fitted_rows(self) -> Any:
        """The training molecules that the model sees."""
        train, most = self.split.parts["train"], self.model.most
        if most is None or len(train) <= most:
            return train
        return np.sort(np.random.default_rng(self.seed).choice(train, most, replace=False))

    def fit(self, progress: bool) -> tuple[Any, float]:
        split, rows = self.split, self.fitted_rows()
        y, valid = split.data.targets[:, split.learned], split.parts["valid"]
        y = y[:, 0] if y.shape[1] == 1 else y
        molecules = split.data.molecules
        estimator = self.model.estimator(split, self.seed, progress)
        start = time.perf_counter()
        try:
            if self.model.is_network:  # all networks share the molecules: features are read once
                weight = np.zeros(len(y))
                weight[rows] = weight[valid] = 1.0
                estimator.fit(molecules, y, sample_weight=weight, validation=valid)
            else:
                both = np.concatenate([rows, valid])
                held = np.arange(len(rows), len(both))
                estimator.fit(molecules.part(both), y[both], validation=held)
        except ValueError as error:
            raise InputError(f"{self.name}: {' '.join(str(error).split())}") from error
        return estimator, time.perf_counter() - start

    def predictions(self, estimator: Any) -> dict[str, tuple[Any, Any]]:
        """For each part, positions and ``(rows, T, 2)`` predictions with standard deviations, which
        are NaN for classes. Training molecules that the model has not seen are left out. A class
        that is never seen has probability 0.
        """
        parts = {**self.split.parts, "train": self.fitted_rows()}
        molecules = self.split.data.molecules
        if self.model.is_network:
            whole = self._predicted(estimator, molecules)
            return {part: (rows, whole[rows]) for part, rows in parts.items()}
        each = {p: self._predicted(estimator, molecules.part(rows)) for p, rows in parts.items()}
        return {part: (rows, each[part]) for part, rows in parts.items()}

    def _predicted(self, estimator: Any, molecules: Any) -> Any:
        split = self.split
        if not len(molecules):
            return np.zeros((0, split.data.targets.shape[1], 2))
        if split.data.is_regression:
            mean, std = estimator.predict(molecules, return_std=True)
            return np.stack([mean.reshape(len(mean), -1), std.reshape(len(mean), -1)], 2)
        found = estimator.predict_proba(molecules)
        usual = (split.targets("train") == 1).any(0).astype(float)
        whole = np.tile(usual, (len(found), 1))
        whole[:, split.learned] = found[:, 1:] if len(split.learned) == 1 else found
        return np.stack([whole, np.full_like(whole, np.nan)], 2)

    def record(self, estimator: Any, found: Mapping[str, Any], seconds: float) -> Record:
        """One object of ``metrics.json``, with further entries for the report alone."""
        data, history = self.split.data, getattr(estimator.members_[0], "history", [])
        y, epochs = data.targets, [epoch["seconds"] for epoch in history]
        rows, tested = found["test"]
        subset = None
        if data.subset is not None and data.subset[rows].any():
            inside = data.subset[rows]
            subset = score(data.metric, y[rows[inside]], tested[inside, :, 0])
        free = ("device", "model", "random_state")
        most = {} if self.model.most is None else {"gp_molecules": self.model.most}
        used = {k: v for k, v in self.model.arguments.items() if k not in free} | most
        return {
            **self.names(),
            "num_parameters": number_of_parameters(estimator),
            "metric": data.metric,
            **{part: score(data.metric, y[rows], p[..., 0]) for part, (rows, p) in found.items()},
            "epochs": len(history),
            "seconds_per_epoch": float(np.mean(epochs)) if epochs else None,
            "seconds": seconds,
            "fitted_on": int((~np.isnan(y[self.fitted_rows()])).any(1).sum()),
            "subset": subset,
            "covered": covered(y[rows], *tested.transpose(2, 0, 1)),
            "history": history,
            "about": {
                "program": PROGRAM,
                "digest": self.split.digest,
                "molecules": self.split.describe(),
                "targets": data.source.target_names,
                "bonds": self.model.reads_bonds,
                "settings": used,
            },
        }

    def table(self, found: Mapping[str, Any]) -> pd.DataFrame:
        """A row for each molecule and target: line, SMILES, measurement, prediction.

        If molecules are on disk, or there are more than `MOST_ROWS` rows, only the test part.
        """
        source, data = self.split.data.source, self.split.data
        names, frames = source.target_names, []
        small = len(source) * len(names) <= MOST_ROWS and isinstance(source.smiles, list)
        for part in PARTS if small else PARTS[2:]:
            rows, values = found[part]
            for column, target in enumerate(names):
                frame = {
                    **self.names(),
                    "part": part,
                    "row": [int(source.row_numbers[i]) for i in rows],
                    "smiles": [source.smiles[i] for i in rows] if small else "",
                    "target": target,
                    "y": data.targets[rows, column],
                    "prediction": values[:, column, 0],
                    "std": values[:, column, 1],
                }
                frames.append(pd.DataFrame(frame))
        return pd.concat(frames, ignore_index=True)

    def write(self, folder: Path, progress: bool) -> Record:
        """Fits the model and writes the run; returns its record."""
        estimator, seconds = self.fit(progress)
        found = self.predictions(estimator)
        record = self.record(estimator, found, seconds)
        with as_input_error(), naming_files(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / PREDICTIONS, csv_text(self.table(found)))
            rows, values = found["test"]
            with open(folder / "test.npz", "wb") as file:
                np.savez(file, y=self.split.data.targets[rows], prediction=values[..., 0])
            self._write_run(folder, estimator)
        return record

    def _write_run(self, folder: Path, estimator: Any) -> None:
        """Writes the files that ``predict``, ``explain`` and ``embed`` of ``pyg-kernels`` read."""
        data, rows = self.split.data, self.fitted_rows()
        estimator.save(folder / "model", overwrite=True)
        if not isinstance(data.source.smiles, list):  # on disk: a sample
            rows = np.random.default_rng(0).permutation(rows)[:TRAINING_SAMPLE]
        lines = [int(data.source.row_numbers[i]) for i in rows]
        training = {"line": lines, "smiles": [data.source.smiles[i] for i in rows]}
        write_text(folder / "training.csv", csv_text(pd.DataFrame(training)))
        learned = [data.source.target_names[place] for place in self.split.learned]
        settings = {
            "data": data.name,
            "task": "regression" if data.is_regression else "classification",
            "targets": learned,
            "classes": None if data.is_regression else [["0", "1"]] * len(learned),
            "extra_columns": [],
            "model": estimator.models_,
            "ensemble_size": len(estimator.members_) // len(estimator.models_),
            "split": self.split.name,
            "seed": self.seed,
        }
        write_text(folder / "run.json", json.dumps(settings, indent=1))


def planned(options: Options) -> list[Cell]:
    """All requested runs."""
    for name in options.model:  # before anything is read
        named_model(name)
    if "chemprop" in options.model and not options.resume:  # resuming may have nothing to train
        with as_input_error():
            command()
    torch_device(options.device)
    cells: list[Cell] = []
    for data in options.data:
        found = load_set(data, options, options.show() == "bar")
        if any(found.name == cell.split.data.name for cell in cells):
            raise InputError(f"--data: two are called {found.name}; rename one of the files")
        if options.resample and (not found.is_regression or found.targets.shape[1] > 1):
            raise InputError(f"--resample needs one target of regression, {data} has others")
        if skipped := found.source.skipped:
            shown = (f"line {r.row} {r.smiles!r} ({r.reason})" for r in skipped[:SKIPPED_SHOWN])
            more = f"; and {len(skipped) - SKIPPED_SHOWN} more" * (len(skipped) > SKIPPED_SHOWN)
            left_out = f"left out {len(skipped)} SMILES that cannot be read"
            tell(f"{PROGRAM}: {left_out}: {'; '.join(shown)}{more}")
        for kind in options.splits(data):
            split = found.split(kind, options.split_seed)
            for model in models_of(options, split, data):
                cells += [Cell(split, model, seed) for seed in model.seeds(options.seeds)]
    return cells


def outcome(record: Record) -> str:
    """A one-line summary of a run."""
    return f"test {TITLES[record['metric']]} {record['test']:.4g} ({record['seconds']:.1f} s)"


def write_predictions(out: Path, folders: Sequence[Path]) -> None:
    """Joins the prediction tables of runs into one."""
    with naming_files(out):
        tables = [(folder / PREDICTIONS).read_bytes() for folder in folders]
        rows = [table.partition(b"\n")[2] for table in tables[1:]]
        write_bytes(out / PREDICTIONS, b"".join([*tables[:1], *rows]))


def write_skipped(out: Path, splits: Sequence[Split]) -> None:
    """Writes a table of the molecules that were left out of each data set."""
    with as_input_error(), naming_files(out):
        for name, rows in {split.data.name: split.data.source.skipped for split in splits}.items():
            if rows:
                write_text(out / f"skipped-{name}.csv", csv_text(pd.DataFrame(rows)))
