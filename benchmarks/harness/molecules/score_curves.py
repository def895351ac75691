"""The picture of classifiers: ROC curves, or precision against recall."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve, roc_curve

from benchmarks.harness.summary import by_model, spread_or_dash
from benchmarks.harness.table import number_format

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

MOST_TARGETS_DRAWN = 4
AXES = {
    "rocauc": ("false positive rate", "true positive rate"),
    "ap": ("recall", "precision"),
}


def score_curves(
    runs: Sequence["Run"],
    targets: Sequence[str],
    metric: str,
    title: str,
    scores: Sequence[Sequence[Sequence[float | None]]],
) -> Figure:
    """A curve a run on the test part: a panel a target, a colour a model.

    Args:
        runs: Finished runs, model by model.
        targets: Their names; the first few are drawn.
        metric (str): ``'rocauc'`` for ROC curves, ``'ap'`` for precision against recall.
        title (str): Of the figure.
        scores: For each target, each model and each of its runs the measure; ``None`` where the
            test part has not both classes.
    """
    shown = targets[:MOST_TARGETS_DRAWN]
    figure = Figure(figsize=(4.0 * len(shown), 4.2), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    groups = by_model(runs)
    for axes, target, of_target in zip(panels, shown, scores, strict=False):
        digits = number_format(score for group in of_target for score in group if score is not None)
        for j, (group, values) in enumerate(zip(groups, of_target, strict=True)):
            name = f"{group[0].record['model']} {spread_or_dash(values, digits)}"
            for k, run in enumerate(group):
                label = name if k == 0 else None
                _draw(axes, measured_test_rows(run, target), metric, f"C{j % 10}", label)
        if metric == "rocauc":
            axes.plot([0, 1], [0, 1], color="0.4", linewidth=0.8)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", title=target)
        axes.set_xlabel(AXES[metric][0])
        axes.set_ylabel(AXES[metric][1])
        axes.legend(fontsize="x-small", loc="lower right" if metric == "rocauc" else "best")
    left_out = len(targets) - len(shown)
    first = f", the first {len(shown)} of {len(targets)} targets" if left_out else ""
    figure.suptitle(f"{title}{first}", fontsize="medium")
    return figure


def measured_test_rows(run: "Run", target: str) -> pandas.DataFrame:
    """The predictions of the test part of a target, where it was measured."""
    rows = run.predictions
    chosen = rows[(rows["part"] == "test") & (rows["target"] == target)]
    return chosen.dropna(subset=["y"])


def _draw(axes: Axes, rows: pandas.DataFrame, metric: str, color: str, label: str | None) -> None:
    if rows["y"].nunique() < 2:
        axes.plot([], [], color=color, label=label)
        return
    if metric == "rocauc":
        across, up, _ = roc_curve(rows["y"], rows["prediction"])
        style: dict[str, Any] = {}
    else:
        up, across, _ = precision_recall_curve(rows["y"], rows["prediction"])
        up[-1] = up[-2]  # the area is the average precision: no point of precision 1 at recall 0
        style = {"drawstyle": "steps-post"}
    axes.plot(across, up, color=color, linewidth=1.0, alpha=0.8, label=label, **style)
