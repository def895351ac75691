"""Pictures of learning rationales, and of what more and shorter ones cost."""

import statistics
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness.rationale.names import FULL, MODELS, SELECTING
from benchmarks.harness.summary import by_model
from benchmarks.harness.training import Run

CURVE_KEY = "precision@"


def learning_plot(runs: Sequence[Run], dataset: str) -> Figure:
    """Cost of the validation part by epoch (thesis Figure 3-6), and of models that select the share
    and, where evidence is known, the precision.

    Args:
        runs: Finished runs, model by model.
        dataset (str): Its name.
    """
    groups = [group for group in by_model(runs) if group[0].history]
    selecting = [group[0] for group in groups if group[0].record["kind"] in SELECTING]
    known = {key for run in selecting for epoch in run.history for key in epoch}
    keys = {"valid_cost": "cost, validation part"}
    labels = {"share": "percent selected", "precision": "precision in percent"}
    keys |= {key: label for key, label in labels.items() if key in known}
    figure = Figure(figsize=(max(5.0, 3.4 * len(keys)), 3.8), layout="constrained")
    panels = figure.subplots(1, len(keys), squeeze=False)[0]
    for (key, label), panel in zip(keys.items(), panels, strict=True):
        for j, group in enumerate(groups):
            if key != "valid_cost" and group[0].record["kind"] not in SELECTING:
                continue
            for k, run in enumerate(group):
                epochs = [epoch for epoch in run.history if key in epoch]
                panel.plot(
                    [epoch["epoch"] for epoch in epochs],
                    [epoch[key] for epoch in epochs],
                    color=_color(j),
                    linewidth=1.2,
                    label=group[0].record["model"] if k == 0 else None,
                )
        panel.set(xlabel="epoch", ylabel=label)
    if groups:
        panels[0].legend(fontsize="small")
    figure.suptitle(f"{dataset}: learning rationales", fontsize="medium")
    return figure


def precision_plot(runs: Sequence[Run], dataset: str) -> Figure:
    """Precision against the share selected (thesis Figure 3-5).

    A point is a model, over its seeds; points of one kind are joined. What scores words is drawn at
    several shares.

    Args:
        runs: Finished runs, model by model.
        dataset (str): Its name.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for j, (kind, groups) in enumerate(_by_kind(runs).items()):
        first = groups[0][0].record
        shares = [key for key in first if key.startswith(CURVE_KEY)]
        points = [
            (100 * float(key.removeprefix(CURVE_KEY)), [run.record[key] for run in groups[0]])
            for key in shares
        ]
        points = points or [
            (_mean(group, "test_share"), [run.record["test_precision"] for run in group])
            for group in groups
            if all("test_precision" in run.record for run in group)
        ]
        if kind != FULL:
            _points(axes, points, kind, j)
        elif points:
            axes.axhline(_mean(groups[0], "test_precision"), color="grey", ls=":", label="chance")
    axes.set(xlabel="percent selected", ylabel="precision in percent", ylim=(0, 102))
    axes.set_title(f"{dataset}, test part", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def share_plot(
    runs: Sequence[Run], label: str, dataset: str, joined: Sequence[str] = MODELS
) -> Figure:
    """The measure, with the rationale alone, against the share selected (thesis Figure 3-4).

    Args:
        runs: Finished runs, model by model.
        label (str): Of the vertical axis.
        dataset (str): Its name.
        joined: The kinds that are drawn as points; the others as levels, as is what reads
            everything.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for j, (kind, groups) in enumerate(_by_kind(runs).items()):
        points = [
            (_mean(group, "test_share"), [run.record["test"] for run in group]) for group in groups
        ]
        if kind in joined and kind != FULL:
            _points(axes, points, kind, j)
        else:
            axes.axhline(statistics.mean(points[0][1]), color=_color(j), ls=":", label=kind)
    axes.set(xlabel="percent selected", ylabel=label)
    axes.set_title(f"{dataset}, test part", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _points(
    axes: Axes, points: Sequence[tuple[float, Sequence[float]]], label: str, number: int
) -> None:
    if not points:
        return
    ordered = sorted(points, key=lambda point: point[0])
    bars = [statistics.stdev(values) if len(values) > 1 else 0.0 for _, values in ordered]
    style: dict[str, Any] = {"color": _color(number), "marker": "o", "markersize": 4}
    axes.errorbar(
        [share for share, _ in ordered],
        [statistics.mean(values) for _, values in ordered],
        bars if any(bars) else None,
        label=label,
        linewidth=1.2,
        capsize=2,
        **style,
    )


def _by_kind(runs: Sequence[Run]) -> dict[str, list[list[Run]]]:
    """The runs of each model, by its kind."""
    kinds: dict[str, list[list[Run]]] = {}
    for group in by_model(runs):
        kinds.setdefault(group[0].record["kind"], []).append(group)
    return kinds


def _mean(group: Sequence[Run], key: str) -> float:
    return statistics.mean(run.record[key] for run in group)


def _color(number: int) -> Any:
    return matplotlib.colormaps["tab10"](number % 10)
