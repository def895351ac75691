"""The pictures of a section: predictions beside measurements, and learning curves."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness.molecules.gathering.comparison import measure_of
from benchmarks.harness.molecules.gathering.folders import Findings
from benchmarks.harness.molecules.gathering.predictions import (
    MOST_TARGETS,
    RunPredictions,
    Sample,
    read_test_predictions,
)
from benchmarks.harness.molecules.gathering.sections import Row, Section
from benchmarks.harness.summary import learning_curves, png, spread
from benchmarks.harness.table import number_format, one_line
from benchmarks.harness.training import Run

PANELS_A_LINE = 4
PANEL = 3.2  # inches
LETTERS_A_PANEL = 34
MOST_DOTS = 3000  # from here on a panel shows how many points are where
BINS = 40
ERRORS = ("rmse",)  # measures whose best value is 0, of predictions in the target's own units


@dataclass(frozen=True)
class Picture:
    """A picture of the report.

    Args:
        file (str): The name of its file.
        description (str): What it shows, for those who do not see it.
        content (bytes): The PNG file.
    """

    file: str
    description: str
    content: bytes


Predictions = Sequence[Sequence[RunPredictions]]  # of each row, of each of its runs


def section_predictions(
    section: Section, rows: Sequence[Row], findings: Findings
) -> list[list[RunPredictions]]:
    """The test predictions of every row's runs.

    Args:
        section: Which runs have no predictions is remarked there.
        rows: Its rows in the order of the table.
        findings: What is damaged is noted there.
    """
    found: list[list[RunPredictions]] = []
    for row in rows:
        found.append([])
        for run in row.runs:
            name = f"{row.label} with seed {run.record['seed']}"
            predictions = None
            with findings.leaving_out(f"{', '.join(row.folders)}: predictions.csv of {name}"):
                predictions = read_test_predictions(run)
                if predictions is None:
                    section.remarks.append(f"No predictions.csv has predictions of {name}.")
            found[-1] += [predictions] if predictions else []
    return found


def target_names(predictions: Predictions) -> list[str]:
    """The names of the targets, in the order of the files."""
    return list(dict.fromkeys(name for row in predictions for run in row for name in run.targets))


def section_pictures(
    section: Section, rows: Sequence[Row], predictions: Predictions
) -> list[Picture]:
    """Predictions against measurements for each of the first targets, then learning curves.

    Args:
        section: What the pictures are of.
        rows: In the order of the table.
        predictions: Of the rows' runs.
    """
    pictures = []
    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a target's name is a $
        targets = target_names(predictions)
        for number, target in enumerate(targets[:MOST_TARGETS]):
            samples = [
                [run.samples[target] for run in row if target in run.samples] for row in predictions
            ]
            if any(samples):
                first = f", the first {MOST_TARGETS} of {len(targets)} targets"
                more = first if len(targets) > MOST_TARGETS else ""
                figure, shown = prediction_plot(section.metric, rows, samples, target)
                name = f"report-{section.slug}-test-{number + 1}.png"
                text = f"{section.title}: {shown}{more}"
                pictures.append(Picture(name, text, png(figure)))
        if any(run.history for row in rows for run in row.runs):
            shown = (
                f"{measure_of(section.metric).title} by epoch, validation solid, training dotted"
            )
            name = f"report-{section.slug}-learning-curves.png"
            text = f"{section.title}: {shown}"
            pictures.append(Picture(name, text, png(curves(section, rows))))
    return pictures


def prediction_plot(
    metric: str, rows: Sequence[Row], samples: Sequence[Sequence[Sample]], target: str
) -> tuple[Figure, str]:
    """A panel a row of the table for one target: parity, or scores by class.

    Args:
        metric (str): Key of the measure.
        rows: In the order of the table.
        samples: Of each row's runs; panels are drawn of rows that have any.
        target (str): Its name.

    Returns:
        The figure, and what it shows in words.
    """
    drawn = [(row, runs) for row, runs in zip(rows, samples, strict=True) if runs]
    columns = min(len(drawn), PANELS_A_LINE)
    lines = math.ceil(len(drawn) / columns)
    figure = Figure(figsize=(PANEL * columns, PANEL * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in panels[len(drawn) :]:
        axes.set_axis_off()
    everything = [sample for _, runs in drawn for sample in runs]
    if metric not in ERRORS and _are_classes(everything):
        for axes, (row, runs) in zip(panels, drawn, strict=False):
            _score_panel(axes, runs)
            _set_labels(axes, _wrapped(row.label), f"predicted {one_line(target)}", "share")
        shown = "predicted scores of the test part by class,"
    else:
        digits = number_format(sample.rmse for sample in everything)
        low, high = _frame(everything)
        for axes, (row, runs) in zip(panels, drawn, strict=False):
            beyond = _parity_panel(axes, runs, low, high)
            title = f"{_wrapped(row.label)}\nRMSE {spread([run.rmse for run in runs], digits)}"
            title += f"\n{beyond:,} beyond the frame" if beyond else ""
            name = one_line(target)
            _set_labels(axes, title, f"measured {name}", f"predicted {name}")
        shown = "predicted against measured values of the test part,"
    most = max(sample.number for sample in everything)
    kept = max(len(sample.y) for sample in everything)
    thinned = f" ({kept:,} of {most:,} molecules a run, drawn at random)" if kept < most else ""
    counted = "; brighter: more of them" if any(axes.collections for axes in panels) else ""
    figure.suptitle(_wrapped(f"Test part, {target}{thinned}{counted}", columns), fontsize="medium")
    return figure, f"{shown} {one_line(target)}{thinned}{counted}"


def curves(section: Section, rows: Sequence[Row]) -> Figure:
    """The measure of validation (solid) and training (dotted) by epoch, a line a run."""
    measure = measure_of(section.metric)
    runs = [
        Run(run.record | {"model": row.label}, run.history, pandas.DataFrame())
        for row in rows
        for run in row.runs
    ]
    figure = learning_curves(runs, measure, measure.title, section.names[0])
    axes = figure.axes[0]
    if section.metric in ERRORS:  # a first epoch far off does not flatten the rest
        finals = [run.record[part] for run in runs for part in ("train", "valid")]
        axes.set_ylim(bottom=0, top=2 * max(finals) if max(finals) > 0 else None)
    # Names with notes are long, and many: below the curves they cover none.
    figure.set_size_inches(7.5, 4.6 + 0.17 * len(rows))
    handles, labels = axes.get_legend_handles_labels()
    if (legend := axes.get_legend()) is not None:
        legend.remove()
    figure.legend(handles, labels, loc="outside lower left", fontsize="x-small")
    return figure


def _set_labels(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize="small")
    axes.set_xlabel(_wrapped(x), fontsize="small")
    axes.set_ylabel(_wrapped(y), fontsize="small")


def _are_classes(samples: Sequence[Sample]) -> bool:
    return all(numpy.isin(sample.y, (0, 1)).all() for sample in samples)


def _score_panel(axes: Axes, runs: Sequence[Sample]) -> None:
    """Histograms of the predictions for each class, all runs together, each of area share 1."""
    y = numpy.concatenate([run.y for run in runs])
    scores = numpy.concatenate([run.prediction for run in runs])
    edges = numpy.histogram_bin_edges(scores[numpy.isfinite(scores)], BINS)
    for value, color in ((0, "C0"), (1, "C1")):
        chosen = scores[y == value]
        weights = numpy.full(len(chosen), 1 / max(1, len(chosen)))
        axes.hist(
            chosen, edges.tolist(), weights=weights, color=color, alpha=0.5, label=f"class {value}"
        )
    axes.legend(fontsize="x-small")


def _parity_panel(axes: Axes, runs: Sequence[Sample], low: float, high: float) -> int:
    """Draws a panel; how many points lie outside of the frame."""
    y = numpy.concatenate([run.y for run in runs])
    prediction = numpy.concatenate([run.prediction for run in runs])
    inside = (y >= low) & (y <= high) & (prediction >= low) & (prediction <= high)
    if len(y) > MOST_DOTS:
        extent = (low, high, low, high)
        axes.hexbin(
            y[inside], prediction[inside], gridsize=BINS, extent=extent, bins="log", mincnt=1
        )
    else:
        axes.plot(y[inside], prediction[inside], ".", markersize=3, alpha=0.5)
    axes.axline((low, low), (high, high), color="0.4", linewidth=0.8)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    return int((~inside).sum())


def _frame(samples: Sequence[Sample]) -> tuple[float, float]:
    """Limits for all panels: all points, as far as a quarter of the range around measured ones."""
    y = numpy.concatenate([sample.y for sample in samples])
    prediction = numpy.concatenate([sample.prediction for sample in samples])
    margin = (y.max() - y.min()) / 4 or abs(y.max()) or 1.0
    low = max(y.min() - margin, min(y.min(), prediction.min()))
    high = min(y.max() + margin, max(y.max(), prediction.max()))
    edge = 0.03 * (high - low) or margin
    return float(low - edge), float(high + edge)


def _wrapped(text: str, columns: int = 1) -> str:
    return textwrap.fill(one_line(text), LETTERS_A_PANEL * columns)
