"""Pictures of an RCNN with several numbers of layers or decays (Lei 2017, figures 2-2 and 2-3)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

# What is compared, the file of its picture, and its name.
COMPARED = {
    "layers": ("accuracy_by_layers.png", "layers"),
    "decay": ("accuracy_by_decay.png", "decay"),
}
FILES = tuple(file for file, _ in COMPARED.values())
MARKERS = "osD^vP*X"


def variant_plots(runs: Sequence["Run"], title: str) -> dict[str, Callable[[], Figure]]:
    """Test against validation accuracy, a point a run, by file.

    A picture for each of layers and decay of which some runs of ``rcnn`` have different ones.

    Args:
        runs: Finished runs.
        title (str): The first words of the titles.
    """
    figures: dict[str, Callable[[], Figure]] = {}
    for key, (file, name) in COMPARED.items():
        groups: dict[float | str, list[Run]] = {}
        for run in runs:
            if run.record.get("kind") == "rcnn":
                groups.setdefault(run.record[key], []).append(run)
        if len(groups) > 1:
            figures[file] = partial(_scatter, groups, name, title)
    return figures


def _scatter(groups: dict[float | str, list["Run"]], name: str, title: str) -> Figure:
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axes = figure.subplots()
    colors = matplotlib.colormaps["tab10"]
    for k, value in enumerate(sorted(groups, key=lambda value: (isinstance(value, str), value))):
        records = [run.record for run in groups[value]]
        axes.scatter(
            [record["valid"] for record in records],
            [record["test"] for record in records],
            color=colors(k % colors.N),
            marker=MARKERS[k % len(MARKERS)],
            alpha=0.8,
            label=f"{name} {value} (runs: {len(records)})",
        )
    axes.set_xlabel("validation accuracy in percent")
    axes.set_ylabel("test accuracy in percent")
    axes.set_title(f"{title}: rcnn, a point a run", fontsize="medium")
    axes.legend(fontsize="small")
    return figure
