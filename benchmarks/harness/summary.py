"""Runs grouped by model, means over seeds, and the picture of learning curves."""

import io
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.harness.task import Measure

if TYPE_CHECKING:
    from benchmarks.harness.training import Run


def by_model(runs: Sequence["Run"]) -> list[list["Run"]]:
    """The runs of each model, in the order of the models' first runs."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.record["model"], []).append(run)
    return list(groups.values())


def spread(values: Sequence[float], digits: str) -> str:
    """The mean of some values and, of several, their standard deviation."""
    mean = f"{statistics.mean(values):{digits}}"
    return f"{mean} ± {statistics.stdev(values):{digits}}" if len(values) > 1 else mean


def spread_or_dash(values: Sequence[float | None], digits: str) -> str:
    """The same, and a dash where a value is not defined."""
    known = [value for value in values if value is not None]
    return spread(known, digits) if len(known) == len(values) else "-"


def seeds_text(runs: Sequence["Run"]) -> str:
    """Which seeds a table is over."""
    seeds = list(dict.fromkeys(str(run.record["seed"]) for run in runs))
    if len(seeds) == 1:
        return f"one run, seed {seeds[0]}"
    return f"mean ± standard deviation over seeds {', '.join(seeds)}"


def mean_seconds(runs: Sequence["Run"]) -> float:
    """Seconds an epoch, the mean over runs."""
    return statistics.mean(run.record["seconds_per_epoch"] for run in runs)


def learning_curves(runs: Sequence["Run"], measure: Measure, label: str, title: str) -> Figure:
    """A measure of validation (solid) and training (dotted) by epoch, a line a run.

    Args:
        runs: Finished runs, model by model.
        measure: What is drawn.
        label (str): Of the vertical axis.
        title (str): The first words of the title.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    groups = by_model(runs)
    colors = matplotlib.colormaps["tab10" if len(groups) <= 10 else "tab20"]
    for j, group in enumerate(groups):
        style: dict[str, Any] = {"color": colors(j % colors.N), "linewidth": 1.2}
        name = group[0].record["model"]
        if not group[0].history:
            axes.axhline(group[0].record["valid"], label=name, linestyle="--", **style)
        for k, run in enumerate(group):
            epochs = [epoch["epoch"] for epoch in run.history]
            valid = [epoch[f"valid_{measure.key}"] for epoch in run.history]
            train = [epoch.get(f"train_{measure.key}", math.nan) for epoch in run.history]
            axes.plot(epochs, valid, label=name if k == 0 and epochs else None, **style)
            axes.plot(epochs, train, linestyle=":", **style)
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.set_title(f"{title}; solid: validation, dotted: training", fontsize="medium")
    axes.legend(fontsize="medium" if len(groups) <= 10 else "xx-small")
    return figure


def png(figure: Figure) -> bytes:
    """A figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
