"""Finding the results folders below a folder, and reading them past what is damaged."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.experiment import CONFIGURATION, RUNS
from benchmarks.harness.molecules.task import MoleculeTask
from benchmarks.harness.table import one_line
from benchmarks.harness.task import PARTS
from benchmarks.harness.training import PREDICTIONS, RECORD

METRICS = "metrics.json"
GROUPS = ("data", MoleculeTask.items, "training", "versions")
NAMES = ("dataset", "split", "model", "metric")
COUNTS = ("seed", "num_parameters", "epochs")
VALUES = (*PARTS, "seconds_per_epoch")


@dataclass(frozen=True)
class FoundRun:
    """A finished run.

    Args:
        record: One object of ``metrics.json``.
        history: One dictionary an epoch.
        predictions: The files that may hold its predictions, the first there is does.
    """

    record: dict[str, Any]
    history: list[dict[str, float]]
    predictions: tuple[Path, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What there is one of in a results folder: split, model and seed."""
        return self.record["split"], self.record["model"], self.record["seed"]


@dataclass(frozen=True)
class ResultsFolder:
    """What a results folder holds.

    Args:
        name (str): Its path from the folder that was searched.
        path (Path): Where it lies.
        configuration: Its ``configuration.json``.
        runs: Those that are finished.
        unfinished: The names of run folders without a record.
    """

    name: str
    path: Path
    configuration: dict[str, Any]
    runs: list[FoundRun]
    unfinished: list[str]

    @property
    def written(self) -> float:
        """When its results were last written, in seconds since 1970."""
        metrics = self.path / METRICS
        return (metrics if metrics.exists() else self.path / CONFIGURATION).stat().st_mtime


@dataclass
class Findings:
    """All that lies below a folder.

    Args:
        folders: Results folders of the molecule benchmark, by name.
        others (int): Results folders of other benchmarks.
        damage: What was left out and why, one line each.
    """

    folders: list[ResultsFolder] = field(default_factory=list)
    others: int = 0
    damage: list[str] = field(default_factory=list)

    @contextmanager
    def leaving_out(self, what: str) -> Iterator[None]:
        """Notes what cannot be read and goes on."""
        try:
            yield
        except OSError as error:
            self.damage.append(f"{what}: {error.strerror or one_line(str(error))}")
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else one_line(str(error))
            self.damage.append(f"{what} is damaged: {reason}")


def find_results(root: Path) -> Findings:
    """Reads every results folder below a folder, and the folder itself if it is one.

    Links to folders are not followed.

    Args:
        root (Path): An existing folder.
    """
    findings = Findings()

    def unreadable(error: OSError) -> None:
        findings.damage.append(f"{error.filename}: {error.strerror}")

    for place, below, files in os.walk(root, onerror=unreadable):
        below.sort()
        if CONFIGURATION in files:
            _take_up(Path(place), root, findings)
    findings.folders.sort(key=lambda folder: folder.name)
    return findings


def checked_record(record: Any) -> dict[str, Any]:
    """A record with all that a report reads.

    Raises:
        ValueError, KeyError, TypeError: If something is missing or has another type.
    """
    for names, holds, kind in (
        (NAMES, _is_text, "text"),
        (COUNTS, _is_count, "a count"),
        (VALUES, _is_finite, "a finite number"),
    ):
        for name in names:
            if not holds(record[name]):
                raise ValueError(f"{name} must be {kind}, got {record[name]!r}")
    return dict(record)


def _take_up(path: Path, root: Path, findings: Findings) -> None:
    name = path.relative_to(root).as_posix()
    name = root.resolve().name if name == "." else name
    with findings.leaving_out(f"{name}/{CONFIGURATION}"):
        configuration = _read_json(path / CONFIGURATION)
        if not isinstance(configuration, dict) or MoleculeTask.items not in configuration:
            findings.others += 1
            return
        _check_configuration(configuration)
        runs, unfinished = _read_runs(path, name, configuration, findings)
        findings.folders.append(ResultsFolder(name, path, configuration, runs, unfinished))


def _check_configuration(configuration: Mapping[str, Any]) -> None:
    for group in GROUPS:
        if not isinstance(configuration[group], dict):
            raise ValueError(f"{group} must be an object")
    if not _is_text(configuration[MoleculeTask.items]["digest"]):
        raise ValueError("digest must be text")
    if not all(_is_text(model["name"]) for model in configuration["models"]):
        raise ValueError("every model must have a name")
    if not all(_is_count(seed) for seed in configuration["seeds"]):
        raise ValueError("seeds must be counts")


def _read_runs(
    path: Path, name: str, configuration: Mapping[str, Any], findings: Findings
) -> tuple[list[FoundRun], list[str]]:
    """The finished runs, by their own files and then by ``metrics.json``, and the others' names."""
    records: list[dict[str, Any]] = []
    runs: dict[tuple[str, str, int], FoundRun] = {}
    unfinished: list[str] = []
    damaged: set[str] = set()
    if (path / METRICS).exists():
        with findings.leaving_out(f"{name}/{METRICS}"):
            records = [checked_record(record) for record in _read_json(path / METRICS)]
    folders = sorted(p for p in (path / RUNS).glob("*") if p.is_dir())
    for folder in folders:
        if not (folder / RECORD).exists():
            unfinished.append(folder.name)
            continue
        before = len(findings.damage)
        with findings.leaving_out(f"{name}/{RUNS}/{folder.name}/{RECORD}"):
            run = _read_run(folder, path)
            _check_belongs(run, configuration, runs)
            runs[run.key] = run
        if len(findings.damage) > before:
            damaged.add(folder.name)
    for record in records:
        run = FoundRun(record, [], (path / PREDICTIONS,))
        own = f"{record['model']}-seed{record['seed']}"
        if run.key not in runs and own not in damaged:
            with findings.leaving_out(f"{name}/{METRICS}"):
                _check_belongs(run, configuration, runs)
                runs[run.key] = run
        elif run.key in runs and runs[run.key].record != record:
            findings.damage.append(
                f"{name}/{METRICS} contradicts {RUNS}/{own}/{RECORD}, which is taken"
            )
        unfinished = [other for other in unfinished if other != own]
    order = {model["name"]: k for k, model in enumerate(configuration["models"])}
    return sorted(runs.values(), key=lambda run: (order[run.key[1]], run.key)), unfinished


def _read_run(folder: Path, results: Path) -> FoundRun:
    content = _read_json(folder / RECORD)
    record, history = checked_record(content["record"]), content["history"]
    for epoch in history:
        for name in ("epoch", *(f"{part}_{record['metric']}" for part in ("train", "valid"))):
            if not _is_number(epoch[name]):
                raise ValueError(f"{name} must be a number, got {epoch[name]!r}")
    return FoundRun(record, history, (folder / PREDICTIONS, results / PREDICTIONS))


def _check_belongs(
    run: FoundRun, configuration: Mapping[str, Any], runs: Mapping[Any, FoundRun]
) -> None:
    _, model, seed = run.key
    if model not in [each["name"] for each in configuration["models"]]:
        raise ValueError(f"{CONFIGURATION} has no model {model!r}")
    if seed not in configuration["seeds"]:
        raise ValueError(f"{CONFIGURATION} has no seed {seed}")
    if run.key in runs:
        raise ValueError(f"{model} with seed {seed} is there twice")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)
