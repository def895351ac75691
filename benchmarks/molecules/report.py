"""Tables, pictures and a page of all runs below some folders."""

import base64
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import PrecisionRecallDisplay, PredictionErrorDisplay, RocCurveDisplay

from benchmarks.harness import summary
from benchmarks.harness.figures import panels
from benchmarks.harness.files import write_text
from benchmarks.harness.study import RECORD, Report, groups, rows_table
from benchmarks.harness.table import Table, number_format, one_line
from benchmarks.harness.task import Measure
from benchmarks.harness.training import Run
from benchmarks.molecules.data import PARTS
from benchmarks.molecules.runs import PROGRAM
from benchmarks.molecules.scores import LEVELS, TITLES, each_score, score

FILES = ("report.html", "predictions.csv", "skipped-*.csv", "predictions-*.png", "learning-*.png")
PAGE = "report.html"
RECORDS = "runs/*-seed*/record.json"
DRAWN_TARGETS, DRAWN_MOLECULES = 4, 20_000
MOST_COLUMNS = 12  # of targets; if there are more, targets are rows
ROUNDS, FEW_ROUNDS, MANY_TARGETS = 1000, 100, 12  # of the bootstrap
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError)


@dataclass(frozen=True)
class FinishedCell(Run):
    """A run that lies in a folder."""

    folder: Path
    # measurements and predictions of the test part, ``(M, T)``
    test: tuple[NDArray[Any], NDArray[Any]]

    @property
    def out(self) -> Path:
        return self.folder.parent.parent

    @property
    def about(self) -> dict[str, Any]:
        """What ``metrics.json`` lacks: digest, molecules, targets, bonds, settings."""
        return dict(self.record["about"])


Line = list[FinishedCell]  # one model with one set of settings, over its seeds


def read_cells(folder: Path) -> tuple[list[FinishedCell], list[str]]:
    """The finished runs below a folder, and a line for each damaged run.

    Runs of other programs are skipped.
    """
    cells, damaged = [], []
    for path in sorted(folder.rglob(RECORDS)):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.get("about", {}).get("program") != PROGRAM:
                continue
            with np.load(path.with_name("test.npz"), allow_pickle=False) as file:
                y, prediction = file["y"], file["prediction"]
            if y.shape != prediction.shape:
                raise ValueError("shapes")
            history, test = record["history"], (y, prediction)
            cells.append(FinishedCell(record, history, None, path.parent, test))
        except (*DAMAGE, AttributeError):
            damaged.append(f"{path.parent} is damaged")
    return cells, damaged


class Section:
    """The runs on one set of molecules, targets and split."""

    def __init__(self, cells: Sequence[FinishedCell]) -> None:
        first = cells[0]
        self.metric: str = first.record["metric"]
        self.targets: list[str] = first.about["targets"]
        self.split: str = first.record["split"]
        self.name = f"{first.record['dataset']}-{self.split}"
        self.about: str = first.about["molecules"]
        sign = 1 if self.metric == "rmse" else -1  # for other metrics, higher is better

        def place(line: Line) -> float:
            mean = statistics.fmean(cell.record["test"] for cell in line)
            return math.inf if math.isnan(mean) else sign * mean

        self.lines = sorted(_lines(cells), key=place)
        self.folders = sorted({cell.out for cell in cells})

    @cached_property
    def differences(self) -> list[tuple[float, float]]:
        """Intervals of each line's test score minus that of the first line."""
        rounds = ROUNDS if len(self.targets) <= MANY_TARGETS else FEW_ROUNDS
        predictions = [[cell.test[1] for cell in line] for line in self.lines]
        y = self.lines[0][0].test[0]

        def of(prediction: NDArray[Any], drawn: NDArray[Any]) -> float:
            return score(self.metric, y, prediction, drawn)

        return summary.paired_differences(of, len(y), predictions, rounds)

    @cached_property
    def tables(self) -> list[Table]:
        """The comparison and, with several targets, the test score of each target."""
        title = TITLES[self.metric]
        cells = [cell for line in self.lines for cell in line]
        digits = number_format(cell.record[part] for cell in cells for part in PARTS)
        listed = ", ".join(map(one_line, self.targets[:DRAWN_TARGETS]))
        more = f", ... ({len(self.targets)} targets)" * (len(self.targets) > DRAWN_TARGETS)
        mean = " (mean over targets)" * (len(self.targets) > 1)
        seeds = ", ".join(map(str, sorted({cell.record["seed"] for cell in cells})))
        caption = (
            f"{self.about}\n{title} of {listed}{more}{mean}; mean ± standard deviation over the "
            f"seeds, of {seeds}.\n{summary.BOOTSTRAPPED.format('test molecules and seeds')}"
        )
        columns: dict[str, Callable[[Any], object]] = {
            "model": _label,
            "bonds": lambda line: "yes" if line[0].about["bonds"] else "no",
            "seeds": len,
            "fitted on": lambda line: f"{line[0].record['fitted_on']:,}",
            "parameters": _parameters,
            **{part: summary.measured(part, digits) for part in PARTS},
        }
        if any(cell.record.get("subset") is not None for cell in cells):
            columns["subset"] = summary.measured("subset", digits)
        columns["minus best"] = lambda line: self._difference(line, digits)
        if any(cell.record.get("covered") for cell in cells):
            caption += f"; within: the shares in intervals of {', '.join(LEVELS)}"
            columns["within, %"] = _covered
        columns["seconds"] = _seconds
        first = rows_table(caption, self.lines, columns)
        return [first] if len(self.targets) == 1 else [first, self._each_target(digits)]

    def _difference(self, line: Line, digits: str) -> str:
        place = [each is line for each in self.lines].index(True)
        return summary.difference_text(self.differences[place], digits) if place else "best"

    def _each_target(self, digits: str) -> Table:
        rows = []
        for line in self.lines:
            scores = np.array([each_score(self.metric, *cell.test) for cell in line])
            spread = [summary.spread_or_dash(each.tolist(), digits) for each in scores.T]
            rows.append([_label(line), *spread])
        header, caption = ["model", *self.targets], f"Test {TITLES[self.metric]} of each target"
        if len(self.targets) > MOST_COLUMNS:
            header, *rows = map(list, zip(["target", *self.targets], *rows, strict=True))
        return Table(caption, header, rows)

    def pictures(self) -> dict[str, Callable[[], Figure]]:
        found = {f"predictions-{self.name}.png": self.predictions_figure}
        if any(cell.history for line in self.lines for cell in line):
            found[f"learning-{self.name}.png"] = self.learning_figure
        return found

    def predictions_figure(self) -> Figure:
        """Test predictions against measurements, or curves for classes, by target."""
        shown = self.targets[:DRAWN_TARGETS]
        number = len(self.lines) if self.metric == "rmse" else 1
        title = f"{self.name}, test part"
        figure, found = panels(number * len(shown), number, (3.6, 3.6), title)
        for row, target in enumerate(shown):
            for place, line in enumerate(self.lines):
                axes = found[row * number + place % number]
                for cell in line:
                    self._draw(axes, cell, row, f"C{place % 10}")
                if self.metric == "rmse":
                    axes.set_title(_label(line), fontsize="small")
                    axes.set(xlabel=f"predicted {target}", ylabel=f"measured {target}")
                else:
                    axes.plot([], [], color=f"C{place % 10}", linewidth=1.0, label=_label(line))
            if self.metric != "rmse":
                found[row].set_title(target, fontsize="small")
                found[row].legend(fontsize="x-small")
        return figure

    def _draw(self, axes: Axes, cell: FinishedCell, target: int, color: str) -> None:
        """Draws the points of a target; for classes a curve, if both are there."""
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
            curve = display.from_predictions(y, prediction, ax=axes).line_
            curve.set(color=color, linewidth=1.0, label=None)

    def learning_figure(self) -> Figure:
        """Losses of validation (solid) and training (dotted) by epoch, one line per run."""
        runs = [cell for line in self.lines for cell in line if cell.history]
        squared = "squared error of standardized targets"
        label = squared if self.metric == "rmse" else "cross-entropy"
        return summary.learning_curves(runs, Measure("loss", label), label, self.name)

    def provenance(self) -> list[str]:
        """One line per results folder: its commit, versions, backend, threads and options."""
        said = []
        for folder in self.folders:
            try:
                found = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
                versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
                options = "; ".join(f"{k} {v}" for k, v in found["options"].items() if v)
                made = f"commit {found['commit']}; {versions}; backend {found['backend']}"
                said.append(f"{folder}: {made}; {found['threads']} threads; {options}")
            except DAMAGE:
                said.append(f"{folder}: its configuration.json is damaged")
        return said


def _lines(cells: Sequence[FinishedCell]) -> list[Line]:
    """Lines by model and settings; if folders share a seed, separate lines for each folder.

    The name of a run's model becomes that of its line, with the settings that differ.
    """

    def kind(cell: FinishedCell) -> tuple[str, str]:
        return cell.record["model"], json.dumps(cell.about["settings"], sort_keys=True)

    kinds, named = groups(cells, kind), []
    for (model, settings), found in kinds.items():
        others = [json.loads(key[1]) for key in kinds if key[0] == model]
        differs = [
            f"{name} {value}"
            for name, value in json.loads(settings).items()
            if any(other.get(name) != value for other in others)
        ]
        label = f"{model} ({', '.join(differs)})" if differs else model
        apart = len({cell.record["seed"] for cell in found}) < len(found)
        for cell in sorted(found, key=lambda cell: cell.record["seed"]):
            own = f"{label} in {cell.out}" if apart else label
            named.append(replace(cell, record={**cell.record, "model": own}))
    return list(groups(named, kind).values())


def _label(line: Line) -> str:
    return str(line[0].record["model"])


def _covered(line: Line) -> str:
    """The shares of test measurements within the predicted intervals, the mean over seeds."""
    each = [cell.record["covered"] for cell in line]
    return "-" if None in each else " ".join(f"{100 * mean:.0f}" for mean in np.mean(each, axis=0))


def _seconds(line: Line) -> str:
    each = [cell.record["seconds_per_epoch"] for cell in line]
    if None in each:
        return f"{statistics.fmean(cell.record['seconds'] for cell in line):.1f} to fit"
    return f"{statistics.fmean(each):.2f} an epoch"


def _parameters(line: Line) -> str:
    number = line[0].record["num_parameters"]
    return "-" if number is None else f"{number:,}"


def sections_of(cells: Sequence[FinishedCell]) -> list[Section]:
    """The sections of some runs, by name. If sections of one name differ in metric or digest, these
    are added to their names.
    """

    def identity(cell: FinishedCell) -> tuple[str, ...]:
        return *(cell.record[name] for name in ("dataset", "split", "metric")), cell.about["digest"]

    identities, sections = groups(cells, identity), []
    for key, own in sorted(identities.items()):
        section = Section(own)
        alike = [other for other in identities if other[:2] == key[:2]]
        if len({other[2] for other in alike}) > 1:
            section.name += f"-{key[2]}"
        if len({other[3] for other in alike}) > 1:
            section.name += f"-{key[3]}"
            section.about += f" (identity {key[3]})"
        sections.append(section)
    return sections


def report(cells: Sequence[FinishedCell], notes: Sequence[str] = ()) -> Report:
    """Tables, pictures and page; sections with the same metric and split are also compared."""
    sections = sections_of(cells)
    alike = groups(sections, lambda section: (section.metric, section.split)).values()
    others = [_side_by_side(group) for group in alike if len(group) > 1]
    tables = [*(table for section in sections for table in section.tables), *others]
    pictures = {name: draw for section in sections for name, draw in section.pictures().items()}

    def write(out: Path) -> None:
        """Writes ``report.html`` with the pictures, which lie in the same folder."""

        def picture(name: str) -> str:
            return base64.b64encode((out / name).read_bytes()).decode()

        template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
        page = jinja2.Environment(autoescape=True).from_string(template)
        shown = {"sections": sections, "others": others, "notes": notes}
        write_text(out / PAGE, page.render(picture=picture, **shown))

    return Report(tables, pictures, write)


def _side_by_side(sections: Sequence[Section]) -> Table:
    """Each model's test score in each section, that of a subset in brackets, and their mean."""
    labels = list(dict.fromkeys(_label(line) for section in sections for line in section.lines))
    names = [section.name for section in sections]
    means = np.full((len(names) + 1, len(labels), 2), np.nan)
    for row, section in enumerate(sections):
        for line in section.lines:
            for k, key in enumerate(("test", "subset")):
                values = [cell.record.get(key) for cell in line]
                means[row, labels.index(_label(line)), k] = np.array(values, float).mean()
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


def unfinished_runs(folder: Path) -> list[str]:
    """The folders of runs without a record below a folder, by name."""
    found = [path for path in folder.rglob("runs/*-seed*") if path.is_dir()]
    return sorted(str(path) for path in found if not (path / RECORD).exists())
