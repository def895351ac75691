"""Runs grouped by model, means over seeds, and the picture of learning curves."""

import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, ScalarFormatter
from numpy.typing import NDArray

from benchmarks.harness.figures import panels
from benchmarks.harness.study import groups, rows_table
from benchmarks.harness.table import Table
from benchmarks.harness.task import Measure
from benchmarks.harness.training import Run

Column = Callable[[list[Run]], object]
Columns = Mapping[str, Column]
LINES = {"valid": "solid", "test": "dashed", "train": "dotted"}
ROUNDS, SEED = 1000, 0  # of the bootstrap
FEWEST_ITEMS = 6  # with fewer, differences of equal sign may be chance
BOOTSTRAPPED = (
    "minus best: 95 % by a paired bootstrap over {}; * beyond chance: 0 is outside; -: too few"
)
PART_NAMES = {"valid": "validation", "test": "test", "train": "training"}


def by_model(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each model, in the order of the models' first runs."""
    return list(groups(runs, lambda run: run.record["model"]).values())


def spread(values: Sequence[float], digits: str) -> str:
    """The mean of some values and, if there are several, their standard deviation."""
    mean = f"{statistics.mean(values):{digits}}"
    return f"{mean} ± {statistics.stdev(values):{digits}}" if len(values) > 1 else mean


def spread_or_dash(values: Sequence[float | None], digits: str) -> str:
    """Like :func:`spread`, but a dash if a value is not defined."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return spread(known, digits) if len(known) == len(values) else "-"


def seeds_text(runs: Sequence[Run]) -> str:
    """The seeds and the number of splits of a table; for each model if they differ."""
    seeds = list(dict.fromkeys(str(run.record["seed"]) for run in runs))
    of_models = groups(
        by_model(runs), lambda own: tuple(dict.fromkeys(str(r.record["seed"]) for r in own))
    )
    splits = len({run.record["split"] for run in runs})
    if len(seeds) == splits == 1:
        return f"one run, seed {seeds[0]}"
    folds = f"{splits} folds and " if splits > 1 else ""
    named = "seeds" if len(seeds) > 1 else "seed"
    text = f"mean ± standard deviation over {folds}{named} {', '.join(seeds)}"
    for own, models in list(of_models.items())[len(of_models) == 1 :]:
        text += f"; {', '.join(m[0].record['model'] for m in models)}: {', '.join(own)}"
    return text


def mean_seconds(runs: Sequence[Run]) -> float:
    """Seconds per epoch, the mean over runs."""
    return statistics.mean(run.record["seconds_per_epoch"] for run in runs)


def measured(key: str, digits: str) -> Column:
    """A column with the :func:`spread_or_dash` of the records' values of `key`."""
    return lambda group: spread_or_dash([run.record.get(key) for run in group], digits)


def model_table(
    caption: str,
    runs: Sequence[Run],
    columns: Columns,
    of_items: Callable[[Run], pandas.Series] | None = None,
    digits: str = "",
    drawn: str = "",
) -> Table:
    """A table that has a row for each model: its name, its parameters, and further columns.

    With several models and `of_items`, the last column is that of :func:`minus_best`, and the
    caption says what is `drawn` in its bootstrap.
    """
    models = by_model(runs)
    if of_items is not None and len(models) > 1:
        columns = {**columns, "minus best": minus_best(models, of_items, digits)}
        caption += f"\n{BOOTSTRAPPED.format(drawn)}"
    first: Columns = {
        "model": lambda group: group[0].record["model"],
        "parameters": lambda group: f"{group[0].record['num_parameters']:,}",
    }
    return rows_table(caption, models, {**first, **columns})


def paired_differences(
    score: Callable[[Any, NDArray[Any]], float],
    items: int,
    predictions: Sequence[Sequence[Any]],
    rounds: int = ROUNDS,
) -> list[tuple[float, float]]:
    """95 % intervals of the score of each model minus that of the first one: a paired bootstrap.

    Each round draws as many items as there are, with replacement, and scores all models on them. It
    also draws, for each model, as many of its seeds as it has, with replacement.

    Args:
        score: The score of one seed's predictions, given how often each item was drawn.
        items: The number of items.
        predictions: For each model, the predictions of each seed.
        rounds: The number of rounds.
    """
    random = np.random.default_rng(SEED)
    differences = np.empty((rounds, len(predictions)))
    for row in differences:
        drawn = np.bincount(random.integers(items, size=items), minlength=items)
        for place, seeds in enumerate(predictions):
            scores = np.array([score(seed, drawn) for seed in seeds])
            row[place] = scores[random.integers(len(seeds), size=len(seeds))].mean()
        rounding = 1e-12 * np.abs(row).max()
        row -= row[0]
        row[np.abs(row) <= rounding] = 0.0
    ends = np.nanquantile(differences, [0.025, 0.975], axis=0)
    return [(float(low), float(high)) for low, high in ends.T]


def difference_text(interval: tuple[float, float], digits: str) -> str:
    """An interval of differences, with a star if it excludes 0."""
    low, high = interval
    return f"{low:+{digits}} to {high:+{digits}} {'*' * (low > 0 or high < 0)}".strip()


def minus_best(
    models: Sequence[Sequence[Run]], of_items: Callable[[Run], pandas.Series], digits: str
) -> Column:
    """A column of intervals of each model's mean over test items minus that of the best model.

    Args:
        models: The runs of each model; a seed may have several, on splits of the same data.
        of_items: The values of a run's test items, indexed by item; a higher mean is better. All
            cells are dashes if the runs share fewer than six items.
        digits: The format of numbers.
    """
    tables = []
    for runs in models:
        seeds = groups(runs, lambda run: run.record["seed"]).values()
        tables.append(pandas.concat([pandas.concat(map(of_items, each)) for each in seeds], axis=1))
    # The items that all models and seeds share.
    shared = pandas.concat(tables, axis=1, keys=range(len(tables))).dropna()
    cells: dict[str, str] = {}
    if len(shared) >= FEWEST_ITEMS:
        order = sorted(range(len(tables)), key=lambda k: -float(shared[k].to_numpy().mean()))
        values = [shared[k].to_numpy().T for k in order]
        found = paired_differences(lambda own, drawn: own @ drawn / len(own), len(shared), values)
        names = [models[k][0].record["model"] for k in order]
        cells = {n: difference_text(each, digits) for n, each in zip(names, found, strict=True)}
        cells[names[0]] = "best"
    return lambda group: cells.get(group[0].record["model"], "-")


def learning_curves(
    runs: Sequence[Run],
    measure: Measure,
    label: str,
    title: str,
    parts: Sequence[str] = ("valid", "train"),
    log: bool = False,
) -> Figure:
    """A measure by epoch: one colour per model, one line per run and part."""
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
