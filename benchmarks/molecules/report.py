"""Tables, pictures and a page of all runs below some folders."""

import base64
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import PrecisionRecallDisplay, PredictionErrorDisplay, RocCurveDisplay

from benchmarks.harness.bootstrap import paired_differences
from benchmarks.harness.errors import InputError
from benchmarks.harness.figures import panels
from benchmarks.harness.files import write_text
from benchmarks.harness.study import RECORD, rows_table
from benchmarks.harness.summary import learning_curves, spread_or_dash
from benchmarks.harness.table import Table, number_format, one_line
from benchmarks.harness.task import Measure
from benchmarks.harness.training import Run
from benchmarks.molecules.runs import PROGRAM
from benchmarks.molecules.scores import LEVELS, TITLES, each_score, is_higher_better, score

FILES = ("report.html", "predictions.csv", "skipped-*.csv", "predictions-*.png", "learning-*.png")
PAGE = "report.html"
PARTS = ("train", "valid", "test")
RECORDS = "runs/*-seed*/record.json"
DRAWN_TARGETS, DRAWN_MOLECULES = 4, 20_000
MOST_COLUMNS = 12  # of targets; more of them are rows
ROUNDS, FEW_ROUNDS, MANY_TARGETS = 1000, 100, 12  # of the bootstrap
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError)


@dataclass(frozen=True)
class FinishedCell:
    """A run that lies in a folder."""

    folder: Path
    record: dict[str, Any]
    # what of that is not in ``metrics.json``: digest, description of the molecules, targets,
    # whether bonds are read, settings
    about: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "FinishedCell":
        record = json.loads(path.read_text(encoding="utf-8"))
        found = cls(path.parent, record, record["about"])
        y, prediction = found.test
        if y.shape != prediction.shape:
            raise ValueError("shapes")
        return found

    @cached_property
    def test(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Measurements and predictions of the test part, ``(M, T)``."""
        with np.load(self.folder / "test.npz", allow_pickle=False) as file:
            return file["y"], file["prediction"]


def read_cells(folder: Path) -> tuple[list[FinishedCell], list[str]]:
    """The finished runs below a folder, and what of them is damaged, a line each.

    Runs of other programs are passed over.
    """
    cells, damaged = [], []
    for path in sorted(folder.rglob(RECORDS)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.get("about", {}).get("program") == PROGRAM:
                cells.append(FinishedCell.read(path))
        except (*DAMAGE, AttributeError):
            damaged.append(f"{path.parent} is damaged")
    return cells, damaged


def whole_cells(folder: Path) -> list[FinishedCell]:
    """The finished runs below a folder."""
    cells, damaged = read_cells(folder)
    if damaged:
        raise InputError(f"{damaged[0]}; remove its folder to fit this run again")
    return cells


@dataclass(frozen=True)
class Line:
    """One model with one set of settings, over its seeds."""

    label: str  # the model, and what of its settings differs from other lines of the same model
    cells: list[FinishedCell]

    def mean(self, part: str) -> float:
        """The mean of a part's scores."""
        return statistics.fmean(cell.record[part] for cell in self.cells)

    def spread(self, part: str, digits: str) -> str:
        """The mean of a part's scores and, of several seeds, their standard deviation."""
        return spread_or_dash([cell.record[part] for cell in self.cells], digits)

    def covered(self) -> str:
        """The shares of the test part within intervals, the mean over seeds."""
        each = [cell.record["covered"] for cell in self.cells]
        if None in each:
            return "-"
        return " ".join(
            f"{100 * statistics.fmean(shares):.0f}" for shares in zip(*each, strict=True)
        )


class Section:
    """The runs on one set of molecules, targets and split."""

    def __init__(self, cells: Sequence[FinishedCell]) -> None:
        first = cells[0]
        self.metric: str = first.record["metric"]
        self.targets: list[str] = first.about["targets"]
        self.split: str = first.record["split"]
        self.name = f"{first.record['dataset']}-{self.split}"
        self.about: str = first.about["molecules"]
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
        columns: dict[str, Callable[[Line], object]] = {
            "model": lambda line: line.label,
            "bonds": lambda line: "yes" if line.cells[0].about["bonds"] else "no",
            "seeds": lambda line: len(line.cells),
            "fitted on": lambda line: f"{line.cells[0].record['fitted_on']:,}",
            "parameters": lambda line: _or_dash(line.cells[0].record["num_parameters"], ","),
        }
        for part in PARTS:
            columns[part] = lambda line, part=part: line.spread(part, digits)  # type: ignore[misc]
        if any(cell.record.get("subset") is not None for cell in cells):
            columns["subset"] = lambda line: line.spread("subset", digits)
        columns["minus best"] = lambda line: self._difference(line, digits)
        if any(cell.record.get("covered") for cell in cells):
            caption += f"; within: the shares in intervals of {', '.join(LEVELS)}"
            columns["within, %"] = Line.covered
        columns["seconds"] = _seconds
        first = rows_table(caption, self.lines, columns)
        return [first] if len(self.targets) == 1 else [first, self._each_target(digits)]

    def _difference(self, line: Line, digits: str) -> str:
        place = self.lines.index(line)
        low, high = self.differences[place]
        beyond = "*" * (low > 0 or high < 0)
        return f"{low:+{digits}} to {high:+{digits}} {beyond}".strip() if place else "best"

    def _each_target(self, digits: str) -> Table:
        labels, columns = [line.label for line in self.lines], []
        for line in self.lines:
            scores = np.array([each_score(self.metric, *cell.test) for cell in line.cells])
            columns.append([spread_or_dash(each.tolist(), digits) for each in scores.T])
        caption = f"Test {TITLES[self.metric]} of each target"
        if len(self.targets) > MOST_COLUMNS:
            rows = [[t, *cells] for t, *cells in zip(self.targets, *columns, strict=True)]
            return Table(caption, ("target", *labels), rows)
        rows = [[label, *cells] for label, cells in zip(labels, columns, strict=True)]
        return Table(caption, ("model", *self.targets), rows)

    def pictures(self) -> dict[str, Callable[[], Figure]]:
        """By the name of their file."""
        found = {f"predictions-{self.name}.png": self.predictions_figure}
        if any(cell.record["history"] for line in self.lines for cell in line.cells):
            found[f"learning-{self.name}.png"] = self.learning_figure
        return found

    def predictions_figure(self) -> Figure:
        """Test predictions against measurements, or curves of classes: a column a target."""
        shown = self.targets[:DRAWN_TARGETS]
        number = len(self.lines) if self.metric == "rmse" else 1
        title = f"{self.name}, test part"
        figure, found = panels(number * len(shown), number, (3.6, 3.6), title)
        for row, target in enumerate(shown):
            for place, line in enumerate(self.lines):
                axes = found[row * number + place % number]
                for k, cell in enumerate(line.cells):
                    label = line.label if k == 0 else None
                    self._draw(axes, cell, row, label, f"C{place % 10}")
                if self.metric == "rmse":
                    axes.set_title(line.label, fontsize="small")
                    axes.set(xlabel=f"predicted {target}", ylabel=f"measured {target}")
            if self.metric != "rmse":
                found[row].set_title(target, fontsize="small")
                found[row].legend(fontsize="x-small")
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
        runs = [
            Run({"model": line.label, "valid": math.nan}, cell.record["history"], None)
            for line in self.lines
            for cell in line.cells
            if cell.record["history"]
        ]
        label = (
            "squared error of standardized targets" if self.metric == "rmse" else "cross-entropy"
        )
        return learning_curves(runs, Measure("loss", label), label, self.name)

    def provenance(self) -> list[tuple[str, str]]:
        """Of each results folder what it says of its making, in one line."""
        said = []
        for folder in self.folders:
            try:
                found = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
                versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
                options = "; ".join(f"{k} {v}" for k, v in found["options"].items() if v)
                said.append(
                    (
                        str(folder),
                        f"commit {found['commit']}; {versions}; backend {found['backend']}; "
                        f"{found['threads']} threads; {options}",
                    )
                )
            except DAMAGE:
                said.append((str(folder), "its configuration.json is damaged"))
        return said


def _lines(cells: Sequence[FinishedCell]) -> list[Line]:
    """Lines by model and settings; where a seed lies in several folders, of each folder."""
    groups: dict[tuple[str, str], list[FinishedCell]] = {}
    for cell in cells:
        settings = json.dumps(cell.about["settings"], sort_keys=True)
        groups.setdefault((cell.record["model"], settings), []).append(cell)
    lines = []
    for (model, settings), found in groups.items():
        others = [json.loads(key[1]) for key in groups if key[0] == model]
        differs = [
            f"{name} {value}"
            for name, value in json.loads(settings).items()
            if any(other.get(name) != value for other in others)
        ]
        label = f"{model} ({', '.join(differs)})" if differs else model
        parts = {"": found}
        if len({cell.record["seed"] for cell in found}) < len(found):
            parts = {f" in {cell.folder.parent.parent}": [] for cell in found}
            for cell in found:
                parts[f" in {cell.folder.parent.parent}"].append(cell)
        for folder, own in parts.items():
            own = sorted(own, key=lambda cell: cell.record["seed"])
            lines.append(Line(f"{label}{folder}", own))
    return lines


def _last_nan(value: float) -> float:
    return value if value == value else float("inf")


def _seconds(line: Line) -> str:
    each = [cell.record["seconds_per_epoch"] for cell in line.cells]
    if None in each:
        return f"{statistics.fmean(cell.record['seconds'] for cell in line.cells):.1f} to fit"
    return f"{statistics.fmean(each):.2f} an epoch"


def _or_dash(value: float | None, digits: str) -> str:
    return "-" if value is None else f"{value:{digits}}"


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


def tables_of(sections: Sequence[Section]) -> list[Table]:
    """Those of all sections, and sets of one kind of score and split one beside the other."""
    found = [table for section in sections for table in section.tables]
    groups: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        groups.setdefault((section.metric, section.split), []).append(section)
    return [*found, *(_side_by_side(group) for group in groups.values() if len(group) > 1)]


def _side_by_side(sections: Sequence[Section]) -> Table:
    """The test score of each model in each section, of a subset in brackets, and their mean."""
    labels = list(dict.fromkeys(line.label for section in sections for line in section.lines))
    names = [section.name for section in sections]
    means = np.full((len(names) + 1, len(labels), 2), np.nan)
    for row, section in enumerate(sections):
        for line in section.lines:
            for k, key in enumerate(("test", "subset")):
                values = [_number(cell.record.get(key)) for cell in line.cells]
                means[row, labels.index(line.label), k] = np.mean(values)
    means[-1] = means[:-1].mean(axis=0)
    digits = number_format(means.flatten().tolist())

    def cell(test: float, subset: float) -> str:
        inside = "" if np.isnan(subset) else f" ({subset:{digits}})"
        return "-" if np.isnan(test) else f"{test:{digits}}{inside}"

    rows = [
        [name, *(cell(*pair) for pair in row)]
        for name, row in zip([*names, "mean"], means.tolist(), strict=True)
    ]
    inside = "" if np.isnan(means[..., 1]).all() else ", of the subset in brackets"
    caption = f"Test {TITLES[sections[0].metric]}, mean over seeds{inside}"
    return Table(caption, ("data and split", *labels), rows)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def pictures_of(sections: Sequence[Section]) -> dict[str, Callable[[], Figure]]:
    """Those of all sections."""
    return {name: draw for section in sections for name, draw in section.pictures().items()}


def write_page(out: Path, sections: Sequence[Section], notes: Sequence[str] = ()) -> None:
    """Writes ``report.html`` with the pictures of the sections, which lie in the same folder."""
    shown = []
    for section in sections:
        pictures = [
            base64.b64encode((out / name).read_bytes()).decode() for name in section.pictures()
        ]
        shown.append({"section": section, "pictures": pictures})
    others = tables_of(sections)[sum(len(section.tables) for section in sections) :]
    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(template)
    write_text(out / PAGE, page.render(shown=shown, others=others, notes=notes))


def unfinished_runs(folder: Path) -> list[str]:
    """The folders of runs below a folder that have no record, by name."""
    found = [path for path in folder.rglob("runs/*-seed*") if path.is_dir()]
    return sorted(str(path) for path in found if not (path / RECORD).exists())
