"""Tables, pictures and a page of all runs below some folders."""

import base64
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import PrecisionRecallDisplay, PredictionErrorDisplay, RocCurveDisplay

from benchmarks.harness.bootstrap import paired_differences
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import png, spread
from benchmarks.harness.table import Table, number_format, one_line
from benchmarks.molecules.scores import TITLES, each_score, is_higher_better, score

PROGRAM = "benchmarks.molecules"
FILES = ("table.md", "report.html", "predictions-*.png", "learning-*.png")
PARTS = ("train", "valid", "test")
RECORDS = "runs/*-seed*/record.json"
DRAWN_TARGETS, DRAWN_MOLECULES = 4, 20_000
MOST_COLUMNS = 12  # of targets; more of them are rows
ROUNDS, FEW_ROUNDS, MANY_TARGETS = 1000, 100, 12  # of the bootstrap
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError)


@dataclass(frozen=True)
class FinishedCell:
    """A run that lies in a folder.

    Args:
        folder: The run's.
        record: Its object of ``metrics.json``.
        history: One object an epoch.
        about: What `record` does not say: digest, description of the molecules, targets, whether
            bonds are read, settings.
    """

    folder: Path
    record: dict[str, Any]
    history: list[dict[str, float]]
    about: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "FinishedCell":
        """The run of a ``record.json``; raises one of `DAMAGE`."""
        content = json.loads(path.read_text(encoding="utf-8"))
        record, history = content.pop("record"), content.pop("history")
        for name in ("dataset", "split", "model", "seed", "metric", *PARTS):
            record[name]
        for name in ("digest", "about", "targets", "settings", "bonds"):
            content[name]
        found = cls(path.parent, record, history, content)
        y, prediction = found.test
        if y.shape != prediction.shape:
            raise ValueError("shapes")
        return found

    @cached_property
    def test(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Measurements and predictions of the test part, ``(M, T)``."""
        with np.load(self.folder / "test.npz", allow_pickle=False) as file:
            return file["y"], file["prediction"]

    def same_result(self, other: "FinishedCell") -> bool:
        """Whether both have the same scores."""
        return all(_equal(self.record[part], other.record[part]) for part in PARTS)


def _equal(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def read_cells(folders: Iterable[Path]) -> tuple[list[FinishedCell], list[str]]:
    """The finished runs below some folders, and what of them is damaged, a line each.

    Runs of other programs are passed over.
    """
    cells, damaged = [], []
    for folder in folders:
        for path in sorted(folder.rglob(RECORDS)):
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(content, dict) and content.get("program") == PROGRAM:
                    cells.append(FinishedCell.read(path))
            except DAMAGE:
                damaged.append(f"{path.parent} is damaged")
    return cells, damaged


@dataclass(frozen=True)
class Line:
    """One model with one set of settings, over its seeds.

    Args:
        label: The model, and what of its settings differs from other lines of the same model.
        cells: Its runs.
    """

    label: str
    cells: list[FinishedCell]

    def mean(self, part: str) -> float:
        """The mean of a part's scores."""
        return statistics.fmean(cell.record[part] for cell in self.cells)


class Section:
    """The runs on one set of molecules, targets and split.

    Args:
        cells: At least one.
    """

    def __init__(self, cells: Sequence[FinishedCell]) -> None:
        first = cells[0]
        self.metric: str = first.record["metric"]
        self.targets: list[str] = first.about["targets"]
        self.name = f"{first.record['dataset']}-{first.record['split']}"
        self.about: str = first.about["about"]
        sign = -1 if is_higher_better(self.metric) else 1
        self.lines = sorted(_lines(cells), key=lambda line: _last_nan(sign * line.mean("test")))
        self.folders = sorted({cell.folder.parent.parent for cell in cells})

    @cached_property
    def differences(self) -> list[tuple[float, float]]:
        """Intervals of each line's test score minus that of the first line."""
        rounds = ROUNDS if len(self.targets) <= MANY_TARGETS else FEW_ROUNDS
        predictions = [[cell.test[1] for cell in line.cells] for line in self.lines]
        y = self.lines[0].cells[0].test[0]
        return paired_differences(y, predictions, 0, self._score, rounds)

    def _score(self, y: Any, prediction: Any, drawn: Any) -> float:
        return score(self.metric, y, prediction, drawn)

    @cached_property
    def tables(self) -> list[Table]:
        """The comparison and, of several targets, the test score of each."""
        title = TITLES[self.metric]
        cells = [cell for line in self.lines for cell in line.cells]
        digits = number_format(cell.record[part] for cell in cells for part in PARTS)
        listed = ", ".join(map(one_line, self.targets[:DRAWN_TARGETS]))
        more = f", ... ({len(self.targets)} targets)" * (len(self.targets) > DRAWN_TARGETS)
        mean = " (mean over targets)" * (len(self.targets) > 1)
        seeds = ", ".join(map(str, sorted({cell.record["seed"] for cell in cells})))
        caption = (
            f"{self.about}\n{title} of {listed}{more}{mean}; mean ± standard deviation over the "
            f"seeds, of {seeds}.\nminus best: 95 % by a paired bootstrap over test molecules and "
            "seeds; * beyond chance: 0 is outside"
        )
        header = ("model", "bonds", "seeds", "fitted on", "parameters", *PARTS, "minus best",
                  "seconds")  # fmt: skip
        rows = [self._row(k, line, digits) for k, line in enumerate(self.lines)]
        first = Table(caption, header, rows)
        return [first] if len(self.targets) == 1 else [first, self._each_target(digits)]

    def _row(self, place: int, line: Line, digits: str) -> list[str]:
        record, (low, high) = line.cells[0].record, self.differences[place]
        number = record["num_parameters"]
        beyond = "*" * (low > 0 or high < 0)
        difference = f"{low:+{digits}} to {high:+{digits}} {beyond}".strip()
        return [
            line.label,
            "yes" if line.cells[0].about["bonds"] else "no",
            str(len(line.cells)),
            f"{record['fitted_on']:,}",
            "-" if number is None else f"{number:,}",
            *[spread([cell.record[part] for cell in line.cells], digits) for part in PARTS],
            difference if place else "best",
            _seconds(line),
        ]

    def _each_target(self, digits: str) -> Table:
        labels, columns = [line.label for line in self.lines], []
        for line in self.lines:
            scores = np.array([each_score(self.metric, *cell.test) for cell in line.cells])
            columns.append([_spread_or_dash(each.tolist(), digits) for each in scores.T])
        caption = f"Test {TITLES[self.metric]} of each target"
        if len(self.targets) > MOST_COLUMNS:
            rows = [[t, *cells] for t, *cells in zip(self.targets, *columns, strict=True)]
            return Table(caption, ("target", *labels), rows)
        rows = [[label, *cells] for label, cells in zip(labels, columns, strict=True)]
        return Table(caption, ("model", *self.targets), rows)

    def text(self) -> str:
        """All tables as plain text."""
        return "\n\n".join(table.text() for table in self.tables)

    def predictions_figure(self) -> Figure:
        """Test predictions against measurements, or curves of classes: a column a target."""
        shown = self.targets[:DRAWN_TARGETS]
        number = len(self.lines) if self.metric == "rmse" else 1
        size = (3.6 * number, 3.6 * len(shown))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(shown), number, squeeze=False)
        for row, target in enumerate(shown):
            for place, line in enumerate(self.lines):
                column = place if number > 1 else 0
                for k, cell in enumerate(line.cells):
                    label = line.label if k == 0 else None
                    self._draw(axes[row][column], cell, row, label, f"C{place % 10}")
                if self.metric == "rmse":
                    axes[row][column].set_title(line.label, fontsize="small")
                    axes[row][column].set(xlabel=f"predicted {target}", ylabel=f"measured {target}")
            if self.metric != "rmse":
                axes[row][0].set_title(target, fontsize="small")
                axes[row][0].legend(fontsize="x-small")
        figure.suptitle(f"{self.name}, test part", fontsize="medium")
        return figure

    def _draw(
        self, axes: Axes, cell: FinishedCell, target: int, label: str | None, color: str
    ) -> None:
        y, prediction = (values[:, target] for values in cell.test)
        there = ~np.isnan(y)
        y, prediction = y[there], prediction[there]
        if self.metric == "rmse":
            PredictionErrorDisplay.from_predictions(
                y, prediction, kind="actual_vs_predicted", ax=axes, random_state=0,
                subsample=min(DRAWN_MOLECULES, len(y)),
                scatter_kwargs={"color": color, "s": 6, "alpha": 0.5},
            )  # fmt: skip
        elif len(set(y.tolist())) == 2:
            display = RocCurveDisplay if self.metric == "roc-auc" else PrecisionRecallDisplay
            found = display.from_predictions(y, prediction, ax=axes)
            found.line_.set(color=color, linewidth=1.0, label=label)
        else:  # no curve
            axes.plot([], [], color=color, label=label)

    def learning_figure(self) -> Figure:
        """Losses of validation (solid) and training (dotted) by epoch, a line a run."""
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        regression = self.metric == "rmse"
        for place, line in enumerate(self.lines):
            for k, cell in enumerate(line.cells):
                epochs = [epoch["epoch"] for epoch in cell.history]
                for part, style in (("valid", "-"), ("train", ":")):
                    losses = np.array([epoch[f"{part}_loss"] for epoch in cell.history])
                    label = line.label if k == 0 and part == "valid" and epochs else None
                    values = np.sqrt(losses) if regression else losses
                    axes.plot(epochs, values, style, color=f"C{place % 10}", label=label)
        axes.set_xlabel("epoch")
        axes.set_ylabel("RMSE of standardized targets" if regression else "cross-entropy")
        axes.set_title(f"{self.name}; solid: validation, dotted: training", fontsize="medium")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
        return figure

    def provenance(self) -> list[tuple[str, str]]:
        """Of each results folder what it says of its making, in one line."""
        said = []
        for folder in self.folders:
            try:
                found = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
                versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
                said.append(
                    (
                        str(folder),
                        f"commit {found['commit']}; {versions}; backend {found['backend']}; "
                        f"{found['processes']} processes, {found['threads']} threads; "
                        f"{' '.join(found['arguments'])}",
                    )
                )
            except DAMAGE:
                said.append((str(folder), "its configuration.json is damaged"))
        return said


def _lines(cells: Sequence[FinishedCell]) -> list[Line]:
    """Lines by model and settings. Of runs that are there twice the first counts, unless they
    differ: then each folder has a line of its own, but for copies of another.
    """
    folders: dict[tuple[str, str], dict[str, dict[int, FinishedCell]]] = {}
    for cell in cells:
        key = (cell.record["model"], json.dumps(cell.about["settings"], sort_keys=True))
        found = folders.setdefault(key, {}).setdefault(str(cell.folder.parent.parent), {})
        found[cell.record["seed"]] = cell
    groups: dict[tuple[str, str, str], dict[int, FinishedCell]] = {}
    for key, each in folders.items():
        united: dict[int, FinishedCell] = {}
        for runs in each.values():
            united = {**runs, **united}
        if all(_is_copy(runs, united) for runs in each.values()):
            groups[*key, ""] = united
            continue
        kept: list[dict[int, FinishedCell]] = []
        for folder, runs in each.items():
            if not any(_is_copy(runs, other) for other in kept):
                kept.append(runs)
                groups[*key, folder] = runs
    lines = []
    for (model, settings, folder), runs in groups.items():
        others = [json.loads(key[1]) for key in groups if key[0] == model]
        own = json.loads(settings)
        differs = [
            f"{name} {value}"
            for name, value in own.items()
            if any(other.get(name) != value for other in others)
        ]
        label = " ".join([model, *([f"({', '.join(differs)})"] if differs else []),
                          *([f"in {folder}"] if folder else [])])  # fmt: skip
        lines.append(Line(label, [runs[seed] for seed in sorted(runs)]))
    return lines


def _is_copy(runs: dict[int, FinishedCell], other: dict[int, FinishedCell]) -> bool:
    return all(seed in other and cell.same_result(other[seed]) for seed, cell in runs.items())


def _last_nan(value: float) -> float:
    return value if value == value else float("inf")


def _seconds(line: Line) -> str:
    each = [cell.record["seconds_per_epoch"] for cell in line.cells]
    if None in each:
        return f"{statistics.fmean(cell.record['seconds'] for cell in line.cells):.1f} to fit"
    return f"{statistics.fmean(each):.2f} an epoch"


def _spread_or_dash(values: Sequence[float], digits: str) -> str:
    return "-" if any(value != value for value in values) else spread(values, digits)


def sections_of(cells: Sequence[FinishedCell]) -> list[Section]:
    """The sections of some runs, by name; of two kinds of score, or of two identities, the metric
    or the digest is in theirs.
    """
    groups: dict[tuple[Any, ...], list[FinishedCell]] = {}
    for cell in cells:
        key = tuple(cell.record[name] for name in ("dataset", "split", "metric"))
        key += (cell.about["digest"],)
        groups.setdefault(key, []).append(cell)
    sections = []
    for key, own in sorted(groups.items()):
        section = Section(own)
        alike = [other for other in groups if other[:2] == key[:2]]
        if len({other[2] for other in alike}) > 1:
            section.name += f"-{key[2]}"
        if len({other[3] for other in alike}) > 1:
            section.name += f"-{key[3]}"
            section.about += f" (identity {key[3]})"
        sections.append(section)
    return sections


def write_report(folders: Sequence[Path], out: Path, notes: Sequence[str] = ()) -> list[Section]:
    """Writes ``table.md``, ``report.html`` and the pictures of all runs below some folders.

    Args:
        folders: To be searched.
        out: Where the files go; made if missing.
        notes: Further lines of the page.

    Returns:
        The sections.
    """
    sections = sections_of(read_cells(folders)[0])
    out.mkdir(parents=True, exist_ok=True)
    shown = []
    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a target's name is a $
        for section in sections:
            figures = {f"predictions-{section.name}.png": section.predictions_figure()}
            if any(cell.history for line in section.lines for cell in line.cells):
                figures[f"learning-{section.name}.png"] = section.learning_figure()
            pictures = {name: png(figure) for name, figure in figures.items()}
            for name, picture in pictures.items():
                write_bytes(out / name, picture)
            encoded = [base64.b64encode(picture).decode() for picture in pictures.values()]
            shown.append({"section": section, "pictures": encoded})
    tables = [table.markdown() for section in sections for table in section.tables]
    write_text(out / "table.md", "\n\n".join([*tables, *notes]) + "\n")
    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(template)
    write_text(out / "report.html", page.render(shown=shown, notes=notes))
    return sections


def unfinished_runs(folder: Path) -> list[str]:
    """The folders of runs below a folder that have no record, by name."""
    found = folder.rglob("runs/*-seed*/model")
    return sorted(str(path.parent) for path in found if not (path.parent / "record.json").exists())
