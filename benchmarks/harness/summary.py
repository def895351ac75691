"""Runs grouped by model, means over seeds, and the picture of learning curves."""

import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, ScalarFormatter

from benchmarks.harness.figures import panels
from benchmarks.harness.study import groups, rows_table
from benchmarks.harness.table import Table
from benchmarks.harness.task import Measure
from benchmarks.harness.training import Run

Column = Callable[[list[Run]], object]
Columns = Mapping[str, Column]
LINES = {"valid": "solid", "test": "dashed", "train": "dotted"}
PART_NAMES = {"valid": "validation", "test": "test", "train": "training"}


def by_model(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each model, in the order of the models' first runs."""
    return list(groups(runs, lambda run: run.record["model"]).values())


def spread(values: Sequence[float], digits: str) -> str:
    """The mean of some values and, of several, their standard deviation."""
    mean = f"{statistics.mean(values):{digits}}"
    return f"{mean} ± {statistics.stdev(values):{digits}}" if len(values) > 1 else mean


def spread_or_dash(values: Sequence[float | None], digits: str) -> str:
    """The same, and a dash where a value is not defined."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return spread(known, digits) if len(known) == len(values) else "-"


def seeds_text(runs: Sequence[Run]) -> str:
    """Which seeds a table is over."""
    seeds = list(dict.fromkeys(str(run.record["seed"]) for run in runs))
    if len(seeds) == 1:
        return f"one run, seed {seeds[0]}"
    return f"mean ± standard deviation over seeds {', '.join(seeds)}"


def mean_seconds(runs: Sequence[Run]) -> float:
    """Seconds an epoch, the mean over runs."""
    return statistics.mean(run.record["seconds_per_epoch"] for run in runs)


def measured(key: str, digits: str) -> Column:
    """A column of what records call `key`; see :func:`spread_or_dash`."""
    return lambda group: spread_or_dash([run.record.get(key) for run in group], digits)


def model_table(caption: str, runs: Sequence[Run], columns: Columns) -> Table:
    """A table that has a row for each model: its name, its parameters, and further columns."""
    first: Columns = {
        "model": lambda group: group[0].record["model"],
        "parameters": lambda group: f"{group[0].record['num_parameters']:,}",
    }
    return rows_table(caption, by_model(runs), {**first, **columns})


def learning_curves(
    runs: Sequence[Run],
    measure: Measure,
    label: str,
    title: str,
    parts: Sequence[str] = ("valid", "train"),
    log: bool = False,
) -> Figure:
    """A measure by epoch, a color a model, a line a run and part."""
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    models = by_model(runs)
    colors = matplotlib.colormaps["tab10" if len(models) <= 10 else "tab20"]
    for j, group in enumerate(models):
        style: dict[str, Any] = {"color": colors(j % colors.N), "linewidth": 1.2}
        name = group[0].record["model"]
        axes.plot([], [], label=name, **style)
        if not group[0].history:
            axes.axhline(group[0].record["valid"], linestyle="--", **style)
        for run in group:
            epochs = [epoch["epoch"] for epoch in run.history]
            for part in parts:
                values = [epoch.get(f"{part}_{measure.key}", math.nan) for epoch in run.history]
                marker = "." if len(epochs) == 1 else None
                axes.plot(epochs, values, linestyle=LINES[part], marker=marker, **style)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch", ylabel=label)
    lines = ", ".join(f"{LINES[part]}: {PART_NAMES[part]}" for part in parts)
    axes.set_title(f"{title}; {lines}", fontsize="medium")
    axes.legend(fontsize="medium" if len(models) <= 10 else "xx-small")
    return figure


def png(figure: Figure) -> bytes:
    """A figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
