"""The pictures of finished trials."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from benchmarks.harness.activations.expansion import Expansion, Floats
from benchmarks.harness.activations.report import NAMES, accuracy_at, grouped, learned
from benchmarks.harness.activations.setting import KBRN

Record = dict[str, Any]
COLUMNS = 5
DRAWN = (-4.0, 4.0)


@dataclass(frozen=True)
class Parity:
    """The function of a unit and what it has to do.

    Args:
        function: Learned.
        inputs: What the patterns give before the activation.
        targets: Of the patterns, 0 or 1.
        title (str): Of the panel.
    """

    function: Expansion
    inputs: Floats
    targets: Floats
    title: str


def success_plot(records: Sequence[Record], functions: Sequence[str], title: str) -> Figure:
    """Successful trials and their mean iterations by length, a row of panels a function."""
    figure = Figure(figsize=(8.4, 0.9 + 2.2 * len(functions)), layout="constrained")
    panels = figure.subplots(len(functions), 2, squeeze=False, sharex=True, sharey="col")
    lengths = sorted({record["length"] for record in records})
    for (left, right), function in zip(panels, functions, strict=True):
        for model in NAMES:
            chosen = [r for r in records if r["function"] == function and r["model"] == model]
            _success_marks(left, right, grouped(chosen, ("length",)), lengths, model)
        left.set(ylabel="successful trials", title=function)
        right.set(ylabel="iterations to success", title=function)
    for axes in panels[-1]:
        axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
        axes.set(xlabel="length T", xlim=(-0.5, len(lengths) - 0.5))
    panels[0, 0].yaxis.set_major_locator(MaxNLocator(integer=True))
    _scale_iterations(panels[0, 1], max(record["iterations"] for record in records))
    colors = {NAMES[r["model"]]: _color(r["model"]) for r in records}
    handles = [Patch(color=color, label=name) for name, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    figure.suptitle(title, fontsize="medium")
    return figure


def activation_plot(functions: Sequence[Expansion], title: str) -> Figure:
    """The functions of all units; red where the slope is steeper than 1, their frames dashed."""
    rows = -(-len(functions) // COLUMNS)
    figure = Figure(figsize=(2.2 * COLUMNS, 0.6 + 1.6 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axes, function in zip(panels, functions, strict=False):
        _activation_panel(axes, function)
    for axes in panels[len(functions) :]:
        axes.axis("off")
    figure.suptitle(title, fontsize="medium")
    return figure


def accuracy_plot(records: Sequence[Record]) -> Figure:
    """Test accuracy by iteration: the mean of each model's trials, and thin lines of single ones.

    A trial that ended early keeps its last accuracy.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    checked = sorted({check["iteration"] for record in records for check in record["history"]})
    for group in grouped(records, ("model",)):
        color = _color(group[0]["model"])
        longest = max(record["history"][-1]["iteration"] for record in group)
        iterations = [iteration for iteration in checked if iteration <= longest]
        lines = [[accuracy_at(record, n) for n in iterations] for record in group]
        for line in lines:
            axes.plot(iterations, line, color=color, linewidth=0.7, alpha=0.4)
        name = NAMES[group[0]["model"]]
        axes.plot(iterations, np.mean(lines, axis=0), color=color, linewidth=1.8, label=name)
    axes.set(xscale="log", xlabel="iteration", ylabel="test accuracy")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(loc="lower right")
    return figure


def function_plot(functions: Mapping[str, tuple[Expansion, tuple[float, float]]]) -> Figure:
    """Learned functions, each between two points, with the centres that lie there."""
    figure = Figure(figsize=(2.6 * len(functions) + 0.6, 2.8), layout="constrained")
    panels = figure.subplots(1, len(functions), squeeze=False)[0]
    for axes, (name, (function, bounds)) in zip(panels, functions.items(), strict=True):
        ends, _ = function.slopes(*bounds)
        axes.plot(ends, function(ends), linewidth=1.2)
        inside = (function.centers > bounds[0]) & (function.centers < bounds[1])
        centers = function.centers[inside]
        axes.plot(centers, function(centers), ".", color="0.4", markersize=3)
        axes.set_title(name, fontsize="small")
        axes.tick_params(labelsize="x-small")
        axes.set_xlabel("a", fontsize="small")
    panels[0].set_ylabel("f(a)", fontsize="small")
    figure.suptitle("f of the KBRN where its inputs lie; dots: centres", fontsize="small")
    return figure


def parity_plot(rows: Sequence[Sequence[Parity]], title: str) -> Figure:
    """Learned functions of single units, a row a weight of the regulariser, a column a number d."""
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(3.0 * columns + 0.4, 2.5 * len(rows) + 0.4), layout="constrained")
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(panels, rows, strict=True):
        for axes, parity in zip(line, row, strict=False):
            margin = 0.15 * (parity.inputs.max() - parity.inputs.min()) + 1e-3
            low, high = parity.inputs.min() - margin, parity.inputs.max() + margin
            ends, _ = parity.function.slopes(low, high)
            axes.plot(ends, parity.function(ends), linewidth=1.2)
            axes.scatter(parity.inputs, parity.targets, c=parity.targets, cmap="coolwarm", s=22)
            axes.set_title(parity.title, fontsize="small")
            axes.tick_params(labelsize="x-small")
            axes.set_xlabel("w z + b", fontsize="small")
        line[0].set_ylabel("f", fontsize="small")
        for axes in line[len(row) :]:
            axes.axis("off")
    figure.suptitle(title, fontsize="medium")
    return figure


def steep(function: Expansion) -> bool:
    """Whether the slope is steeper than 1 somewhere where the function is drawn."""
    ends, slopes = function.slopes(*DRAWN)
    return bool((np.abs(slopes) > 1)[np.diff(ends) > 0].any())


def _success_marks(
    left: Axes,
    right: Axes,
    groups: Sequence[Sequence[Record]],
    lengths: Sequence[int],
    model: str,
) -> None:
    """Bars of successes in frames of trials, and dots of iterations; models side by side."""
    color, side = _color(model), -0.2 if model == KBRN else 0.2
    groups = sorted(groups, key=lambda group: group[0]["length"])
    places = [lengths.index(group[0]["length"]) + side for group in groups]
    left.bar(places, [len(learned(group)) for group in groups], width=0.36, color=color)
    left.bar(places, [len(group) for group in groups], width=0.36, fill=False, edgecolor=color)
    means = []
    for place, group in zip(places, groups, strict=True):
        numbers = [record["iterations"] for record in learned(group)]
        right.plot([place] * len(numbers), numbers, ".", color=color, alpha=0.5)
        means.append(statistics.mean(numbers) if numbers else math.nan)
    right.plot(places, means, "_-", color=color, markersize=14, linewidth=1)


def _scale_iterations(axes: Axes, most: int) -> None:
    """A logarithmic axis of whole decades, from 10 up."""
    top = 10 ** max(2, math.ceil(math.log10(most)))
    axes.set(yscale="log", ylim=(10, top))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _color(model: str) -> str:
    return f"C{list(NAMES).index(model)}"


def _activation_panel(axes: Axes, function: Expansion) -> None:
    ends, slopes = function.slopes(*DRAWN)
    values = function(ends)
    axes.plot(ends, values, color="C0", linewidth=1.2)
    parts = np.abs(slopes) > 1
    gaps = np.full_like(slopes, np.nan)
    lines = (
        np.stack([line[:-1], line[1:], gaps], axis=1)[parts].flatten() for line in (ends, values)
    )
    axes.plot(*lines, color="C3", linewidth=1.8)
    axes.set_xlim(*DRAWN)
    axes.tick_params(labelsize="x-small")
    if steep(function):
        for side in axes.spines.values():
            side.set_linestyle((0, (5, 4)))
            side.set_color("C3")
