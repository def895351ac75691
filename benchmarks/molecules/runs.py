"""The results folder: a run for each split, model and seed, kept when it is finished."""

import json
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.harness.arguments import shown
from benchmarks.harness.collective import from_first, in_first, in_turn
from benchmarks.harness.commit import commit_of_code
from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error, naming_files, say, tell
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.flags import flag
from benchmarks.harness.processes import processes
from benchmarks.harness.study import holds_results
from benchmarks.molecules.data import PARTS, Split, load_set
from benchmarks.molecules.models import Model, models_of, named_model, number_of_parameters
from benchmarks.molecules.options import FREE, Options
from benchmarks.molecules.report import FILES, PROGRAM, read_cells, write_report
from benchmarks.molecules.scores import score
from pyg_kernels.ops import backend

CONFIGURATION, RECORD, RUNS = "configuration.json", "record.json", "runs"
SKIPPED = "skipped.csv"
PACKAGES = ("torch", "torch-geometric", "lightning", "rdkit", "numpy", "scikit-learn")
MOST_ROWS = 10_000_000  # of a table of predictions with all parts
SKIPPED_SHOWN = 10
TRAINING_SAMPLE = 10_000  # of molecules on disk, for the similarity of new ones


@dataclass(frozen=True)
class Cell:
    """One run.

    Args:
        split: What it learns from.
        model: What learns.
        seed: Of the estimator.
    """

    split: Split
    model: Model
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        model = self.model.name.replace(":", "-").replace("/", "-")
        return f"{self.split.key}-{model}-seed{self.seed}"

    def fitted_rows(self) -> Any:
        """The training molecules that the model sees."""
        train, most = self.split.parts["train"], self.model.most
        if most is None or len(train) <= most:
            return train
        return np.sort(np.random.default_rng(self.seed).choice(train, most, replace=False))

    def fit(self, progress: bool) -> tuple[Any, float]:
        """The fitted estimator and the seconds that it took.

        Raises:
            InputError: If it cannot be fitted, or diverges.
        """
        split, rows = self.split, self.fitted_rows()
        y, valid = split.data.targets[:, split.learned], split.parts["valid"]
        y = y[:, 0] if y.shape[1] == 1 else y
        molecules = split.data.molecules
        estimator = self.model.estimator(split, self.seed, progress)
        start = time.perf_counter()
        try:
            if self.model.is_network:  # all share the molecules, whose features are read once
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
        """Of each part the positions, and ``(rows, T, 2)`` predictions and standard deviations;
        those of classes are NaN. Training molecules that the model has not seen are left out. A
        class that is never seen has the probability 0.
        """
        parts = {**self.split.parts, "train": self.fitted_rows()}
        molecules = self.split.data.molecules
        if self.model.is_network:
            whole = self._predicted(estimator, molecules)
            return {part: (rows, whole[rows]) for part, rows in parts.items()}
        return {
            part: (rows, self._predicted(estimator, molecules.part(rows)))
            for part, rows in parts.items()
        }

    def _predicted(self, estimator: Any, molecules: Any) -> Any:
        split = self.split
        if split.data.is_regression:
            mean, std = estimator.predict(molecules, return_std=True)
            return np.stack([mean.reshape(len(mean), -1), std.reshape(len(mean), -1)], 2)
        found = estimator.predict_proba(molecules)
        usual = (split.targets("train") == 1).any(0).astype(float)
        whole = np.tile(usual, (len(found), 1))
        whole[:, split.learned] = found[:, 1:] if len(split.learned) == 1 else found
        return np.stack([whole, np.full_like(whole, np.nan)], 2)

    def record(self, estimator: Any, found: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """One object of ``metrics.json``."""
        data, history = self.split.data, getattr(estimator.members_[0], "history", [])
        y, epochs = data.targets, [epoch["seconds"] for epoch in history]
        return {
            "dataset": data.name,
            "split": self.split.name,
            "model": self.model.name,
            "seed": self.seed,
            "num_parameters": number_of_parameters(estimator),
            "metric": data.metric,
            **{part: score(data.metric, y[rows], p[..., 0]) for part, (rows, p) in found.items()},
            "epochs": len(history),
            "seconds_per_epoch": float(np.mean(epochs)) if epochs else None,
            "seconds": seconds,
            "fitted_on": len(self.fitted_rows()),
        }

    def table(self, found: Mapping[str, Any]) -> pd.DataFrame:
        """A row for each molecule and target: line, SMILES, measurement, prediction.

        Of molecules on disk, and of more than `MOST_ROWS` rows, the test part alone.
        """
        source, data = self.split.data.source, self.split.data
        names, frames = source.target_names, []
        small = len(source) * len(names) <= MOST_ROWS and isinstance(source.smiles, list)
        for part in PARTS if small else PARTS[2:]:
            rows, values = found[part]
            for column, target in enumerate(names):
                frame = {
                    "dataset": data.name,
                    "split": self.split.name,
                    "model": self.model.name,
                    "seed": self.seed,
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

    def write(self, folder: Path, progress: bool) -> None:
        """Fits in all processes, a kernel method in the first alone, which writes the run.

        Raises:
            InputError: If it cannot be fitted or written.
        """
        if self.model.is_network:
            fitted = self.fit(progress)
            in_first(lambda: self._write(folder, *fitted))
        else:
            in_first(lambda: self._write(folder, *self.fit(progress)))

    def _write(self, folder: Path, estimator: Any, seconds: float) -> None:
        with as_input_error(), naming_files(folder):
            self._write_files(folder, estimator, seconds)

    def _write_files(self, folder: Path, estimator: Any, seconds: float) -> None:
        found, data = self.predictions(estimator), self.split.data
        record = self.record(estimator, found, seconds)
        folder.mkdir(parents=True, exist_ok=True)
        estimator.save(folder / "model", overwrite=True)
        rows = self.fitted_rows()
        if not isinstance(data.source.smiles, list):  # on disk: a sample
            rows = np.random.default_rng(0).permutation(rows)[:TRAINING_SAMPLE]
        lines = [int(data.source.row_numbers[i]) for i in rows]
        smiles = [data.source.smiles[i] for i in rows]
        training = pd.DataFrame({"line": lines, "smiles": smiles})
        write_text(folder / "training.csv", training.to_csv(index=False))
        write_text(folder / "predictions.csv", self.table(found).to_csv(index=False))
        rows, values = found["test"]
        with open(folder / "test.npz", "wb") as file:
            np.savez(file, y=data.targets[rows], prediction=values[..., 0])
        names = data.source.target_names
        learned = [names[place] for place in self.split.learned]
        settings = {  # of a run of pyg-kernels, whose predict, explain and embed take the folder
            "data": data.name,
            "task": "regression" if data.is_regression else "classification",
            "targets": learned,
            "classes": None if data.is_regression else [["0", "1"]] * len(learned),
            "extra_columns": [],
            "model": [self.model.kind],
            "ensemble_size": estimator.ensemble_size,
            "split": self.split.name,
            "seed": self.seed,
        }
        write_text(folder / "run.json", json.dumps(settings, indent=1))
        free = ("device", "model", "random_state")
        most = {} if self.model.most is None else {"gp_molecules": self.model.most}
        used = {k: v for k, v in self.model.arguments.items() if k not in free} | most
        content = {
            "program": PROGRAM,
            "record": record,
            "history": getattr(estimator.members_[0], "history", []),
            "digest": self.split.digest,
            "about": self.split.describe(),
            "targets": names,
            "bonds": self.model.reads_bonds,
            "settings": used,
        }
        write_text(folder / RECORD, json.dumps(content, indent=1))


def compare(options: Options, words: Sequence[str]) -> None:
    """Fits what is not finished yet in the results folder, and writes the report.

    Args:
        options: What to compare.
        words: Of the command line, to be written down.

    Raises:
        InputError: If molecules cannot be read, there is no such model, the folder holds something
            else or was made otherwise, or a model cannot be fitted.
        KeyboardInterrupt: If interrupted, with a hint how to continue.
    """
    for name in options.model:  # before anything is read
        named_model(name)
    torch_device(options.device or "auto")
    number = processes().number
    if min(options.chosen("batch_size", data) for data in options.data) < number:
        raise InputError(f"--batch-size is shared by {number} processes; give more")
    cells: list[Cell] = []
    splits: list[Split] = []
    for data in dict.fromkeys(options.data):
        found = in_turn(partial(load_set, data, options, shown(options) == "bar"))
        if options.resample and (not found.is_regression or found.targets.shape[1] > 1):
            raise InputError(f"--resample needs one target of regression, {data} has others")
        _tell_skipped(found.source)
        for kind in options.splits(data):
            split = found.split(kind, options.split_seed)
            if split.key in [other.key for other in splits]:
                raise InputError(f"--data: two are called {found.name}; rename one of the files")
            splits.append(split)
            for model in models_of(options, split, data):
                cells += [Cell(split, model, seed) for seed in model.seeds(options.seeds)]
    out = Path(options.out)
    digests = {split.key: split.digest for split in splits}
    in_first(lambda: open_folder(out, PROGRAM, options, FREE, digests, words, _remove_results))
    in_first(lambda: _write_skipped(out, splits))
    try:
        for cell in cells:
            folder = out / RUNS / cell.name
            if not from_first(lambda folder=folder: (folder / RECORD).exists()):  # type: ignore[misc]
                if not options.quiet:
                    say(f"{cell.split.describe()}; {cell.model.name}, seed {cell.seed} ...")
                cell.write(folder, shown(options) == "bar")
                in_first(lambda: _write_metrics(out))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("continue with the same command and --resume") from None
    in_first(lambda: _report(out, options.quiet))


def _report(out: Path, quiet: bool) -> None:
    with as_input_error():
        _write_metrics(out)
        for section in write_report([out], out):
            say(section.text() + "\n")
    if not quiet:
        say(f"results in {out}")


def _write_metrics(out: Path) -> None:
    cells, damaged = read_cells([out])
    if damaged:
        raise InputError(f"{damaged[0]}; remove its folder to fit this run again")
    with naming_files(out):
        write_text(out / "metrics.json", json.dumps([cell.record for cell in cells], indent=1))
        tables = [(cell.folder / "predictions.csv").read_bytes() for cell in cells]
        header = tables[0].partition(b"\n")[0] + b"\n" if tables else b""
        rows = [table.partition(b"\n")[2] for table in tables]
        write_bytes(out / "predictions.csv", b"".join([header, *rows]))


def open_folder(
    out: Path,
    program: str,
    options: Any,
    free: Sequence[str],
    digests: Mapping[str, str],
    words: Sequence[str],
    remove: Callable[[Path], None],
) -> None:
    """Makes a results folder, or finds the one that is to be continued; writes its configuration.

    Args:
        out: The folder.
        program: Whose results it holds.
        options: A dataclass; `resume` and `overwrite` say what to do with what is there.
        free: Its fields that a continuation may have others of.
        digests: Fingerprints of what is learned from, by name.
        words: Of the command line, to be written down.
        remove: Removes the results in a folder and nothing else.

    Raises:
        InputError: If it holds something else, results that are neither to be continued nor
            replaced, or such as were made otherwise.
    """
    configuration = out / CONFIGURATION
    with as_input_error():
        found: dict[str, Any] = {}
        if holds_results(out, CONFIGURATION, options.resume, options.overwrite):
            found = _read_configuration(configuration, program)
            if options.resume:
                _check_same(out, found, options, free, digests)
            else:
                remove(out)
                found = {}
        out.mkdir(parents=True, exist_ok=True)
        content = {
            "program": program,
            "options": asdict(options),
            "digests": {**found.get("digests", {}), **digests},
            "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
            "commit": commit_of_code(),
            "backend": backend(),
            "processes": processes().number,
            "threads": torch.get_num_threads(),
            "arguments": list(words),
        }
        write_text(configuration, json.dumps(content, indent=1))


def _read_configuration(path: Path, program: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["program"] == program and isinstance(found["digests"], dict):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path} is damaged or not of this program; remove its folder yourself")


def _check_same(
    out: Path,
    found: Mapping[str, Any],
    options: Any,
    free: Sequence[str],
    digests: Mapping[str, str],
) -> None:
    now = json.loads(json.dumps(asdict(options)))
    for name in now:
        before = found["options"].get(name)
        if name not in free and before != now[name]:
            raise InputError(
                f"--resume: {out} was made with {flag(name)} {before}, not {now[name]}"
            )
    for name, digest in digests.items():
        if found["digests"].get(name, digest) != digest:
            raise InputError(
                f"--resume: {out} was made from other molecules, targets or parts of {name}"
            )


def _write_skipped(out: Path, splits: Sequence[Split]) -> None:
    """Of each data set what was left out; those of other sets in the file stay."""
    sets = {split.data.name: split.data.source.skipped for split in splits}
    frames = [pd.DataFrame(rows).assign(dataset=name) for name, rows in sets.items() if rows]
    file = out / SKIPPED
    with as_input_error(), naming_files(out):
        if file.exists():
            before = pd.read_csv(file, dtype=str, keep_default_na=False)
            if "dataset" in before:
                frames.insert(0, before[~before["dataset"].isin(list(sets))])
        if frames:
            table = pd.concat(frames, ignore_index=True)
            table.insert(0, "dataset", table.pop("dataset"))
            write_text(file, table.to_csv(index=False))


def _remove_results(out: Path) -> None:
    """Removes what a comparison wrote and nothing else."""
    for folder in _run_folders(out):
        shutil.rmtree(folder, ignore_errors=True)
    for pattern in (*FILES, "metrics.json", "predictions.csv", SKIPPED, CONFIGURATION):
        for path in out.glob(pattern):
            path.unlink()


def _run_folders(out: Path) -> Iterator[Path]:
    """Those that a run has been written into."""
    for folder in (out / RUNS).glob("*-seed*"):
        if (folder / "model").is_dir() or (folder / RECORD).exists():
            yield folder


def _tell_skipped(source: Any) -> None:
    rows = source.skipped
    if rows:
        listed = "; ".join(f"line {r.row} {r.smiles!r} ({r.reason})" for r in rows[:SKIPPED_SHOWN])
        more = f"; and {len(rows) - SKIPPED_SHOWN} more" * (len(rows) > SKIPPED_SHOWN)
        tell(f"{PROGRAM}: left out {len(rows)} SMILES that cannot be read: {listed}{more}")
