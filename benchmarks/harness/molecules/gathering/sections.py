"""Runs of the same molecules and split, put together: a section of the report."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from benchmarks.harness.molecules.gathering.folders import FoundRun, ResultsFolder
from benchmarks.harness.molecules.gathering.settings import (
    SOURCES,
    Settings,
    differences,
    run_settings,
)
from benchmarks.harness.molecules.task import MoleculeTask
from benchmarks.harness.table import one_line
from benchmarks.harness.task import PARTS

RESULTS = ("seed", "num_parameters", "epochs", *PARTS)  # equal in a run and its repetition


@dataclass
class Row:
    """The runs of one model with the same settings, over seeds.

    Args:
        model (str): Its name.
        settings: What they have in common.
        runs: One a seed, by seed.
        folders: The names of the folders that they lie in.
        note (str): What tells them from other runs of the model in the section.
    """

    model: str
    settings: Settings
    runs: list[FoundRun]
    folders: list[str]
    note: str = ""

    @property
    def label(self) -> str:
        """Model and note."""
        return f"{self.model} ({self.note})" if self.note else self.model

    def values(self, name: str) -> list[Any]:
        """An entry of the records, a value a run."""
        return [run.record[name] for run in self.runs]

    def mean(self, part: str) -> float:
        """The mean error or score of a part over seeds."""
        return statistics.mean(self.values(part))


@dataclass
class Section:
    """Results on the same molecules, targets and split.

    Args:
        digest (str): Their fingerprint.
        metric (str): The key of what is measured.
        folders: Those that have runs in it or are part of it without a finished run.
        rows: A line of the table each.
        remarks: What a reader should know, a sentence each.
        ambiguous (bool): Whether other molecules, targets or another split have the same name.
    """

    digest: str
    metric: str
    folders: list[ResultsFolder]
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    ambiguous: bool = False

    @property
    def names(self) -> list[str]:
        """What the folders call these molecules and this split."""
        return list(dict.fromkeys(data_name(folder) for folder in self.folders))

    @property
    def title(self) -> str:
        """The first of the names, and the others; where that says too little, the digest."""
        first, *others = self.names
        title = f"{first}, also {', '.join(others)}" if others else first
        return f"{title}, identity {self.digest}" if self.ambiguous else title

    @property
    def slug(self) -> str:
        """A name for files: letters, digits and hyphens."""
        data = self.folders[0].configuration["data"]
        words = (data.get("dataset"), data.get("split"), self.digest, self.metric)
        text = "-".join(str(word) for word in words).lower()
        return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)


def sections(folders: Iterable[ResultsFolder]) -> list[Section]:
    """Groups finished runs by the digest of molecules, targets and split, and by measure.

    Args:
        folders: Results folders in order.
    """
    found: dict[tuple[str, str], Section] = {}
    runs: dict[tuple[str, str], list[tuple[ResultsFolder, FoundRun]]] = {}
    for folder in folders:
        digest = folder.configuration[MoleculeTask.items]["digest"]
        for run in folder.runs:
            key = digest, run.record["metric"]
            section = found.setdefault(key, Section(*key, folders=[]))
            if folder not in section.folders:
                section.folders.append(folder)
            runs.setdefault(key, []).append((folder, run))
    for key, section in found.items():
        section.rows, repeated = _rows(runs[key])
        if repeated:
            section.remarks.append(
                f"{', '.join(repeated)}: there more than once with equal results, counted once."
            )
    _remark_conflicts(list(found.values()))
    return sorted(found.values(), key=lambda section: (section.title, section.metric))


def data_name(folder: ResultsFolder) -> str:
    """Data set and split in words, such as ``'chembl, random split (seed 0)'``."""
    data = folder.configuration["data"]
    dataset = str(data.get("dataset"))
    if data.get("csv"):
        dataset = f"{dataset} {PurePath(str(data['csv'])).name}"
    seed = data.get("split_seed")
    return one_line(
        f"{dataset}, {data.get('split')} split{'' if seed is None else f' (seed {seed})'}"
    )


def _rows(runs: Sequence[tuple[ResultsFolder, FoundRun]]) -> tuple[list[Row], list[str]]:
    """Rows in the order of first runs, with their notes, and the runs that were repetitions."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[ResultsFolder, FoundRun]]]
    groups = {}
    for folder, run in runs:
        settings = run_settings(folder, run.record["model"])
        key = run.record["model"], tuple(sorted(settings.items()))
        groups.setdefault(key, []).append((folder, run))
    rows: list[Row] = []
    repeated: list[str] = []
    for (model, _), group in groups.items():
        settings = run_settings(group[0][0], model)
        for part in _consistent(group, repeated):
            ordered = sorted(part, key=lambda pair: pair[1].record["seed"])
            names = list(dict.fromkeys(folder.name for folder, _ in part))
            rows.append(Row(model, settings, [run for _, run in ordered], names))
    _note_differences(rows)
    return rows, repeated


def _consistent(
    group: Sequence[tuple[ResultsFolder, FoundRun]], repeated: list[str]
) -> list[list[tuple[ResultsFolder, FoundRun]]]:
    """The group without repetitions, or folder by folder where one seed has unequal results."""
    kept: dict[tuple[Any, ...], tuple[ResultsFolder, FoundRun]] = {}
    for folder, run in group:
        result = tuple(run.record[name] for name in RESULTS)
        if result in kept:
            seed = run.record["seed"]
            repeated.append(f"{run.record['model']} with seed {seed} (in {folder.name})")
        kept.setdefault(result, (folder, run))
    seeds = [run.record["seed"] for _, run in kept.values()]
    if len(set(seeds)) == len(seeds):
        return [list(kept.values())]
    by_folder: dict[str, list[tuple[ResultsFolder, FoundRun]]] = {}
    for folder, run in kept.values():
        by_folder.setdefault(folder.name, []).append((folder, run))
    return list(by_folder.values())


def _note_differences(rows: Sequence[Row]) -> None:
    """Gives the rows of each model that has several a note that no other has."""
    for model in dict.fromkeys(row.model for row in rows):
        same = [row for row in rows if row.model == model]
        for row, note in zip(same, differences([row.settings for row in same]), strict=True):
            row.note = note
        notes = [row.note for row in same]
        for row in same:
            if notes.count(row.note) > 1:
                row.note = f"{row.note}{', ' * bool(row.note)}in {', '.join(row.folders)}"


def _remark_conflicts(found: Sequence[Section]) -> None:
    """Says of sections of one name that their molecules, targets or splits are not the same."""
    for section in found:
        sources = [_sources(folder) for folder in section.folders]
        others = [
            other.digest
            for other in found
            if other.digest != section.digest
            and any(_sources(folder) in sources for folder in other.folders)
        ]
        if others:
            section.ambiguous = True
            section.remarks.append(
                f"The same choice of data gave other molecules, targets or another split in "
                f"another section (identity {', '.join(dict.fromkeys(others))}; here "
                f"{section.digest}): the two do not compare."
            )


def _sources(folder: ResultsFolder) -> list[Any]:
    """The choice of molecules and split, but for the folders that files lay in."""
    data = folder.configuration["data"]
    csv = PurePath(str(data["csv"])).name if data.get("csv") else None
    names = (name for name in SOURCES if name not in ("csv", "root", "shards"))
    return [csv, *(data.get(name) for name in names)]
