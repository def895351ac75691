"""The tables and the pictures of finished trials."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from benchmarks.harness.study import Study, grouped, rows_table
from benchmarks.harness.summary import spread
from benchmarks.harness.table import Table
from benchmarks.papers.activations import problems
from benchmarks.papers.activations.expansion import Expansion, expansions
from benchmarks.papers.activations.options import FUNCTIONS, KBRN, LSTM, Charging, LongTerm, Xor
from benchmarks.papers.activations.problems import (
    ChargingTrial,
    LongTermTrial,
    Parity,
    SequenceNetwork,
    XorTrial,
)
from benchmarks.papers.activations.trial import RIGHT_BATCHES, Record, trained_network
from pyg_kernels.sequence import KBRNCell

NAMES = {"kbrn": "KBRN", "rnn": "sigmoid RNN", "lstm": "LSTM"}
COLORS = {"kbrn": "C0", "lstm": "C1", "rnn": "C2"}
COLUMNS = 5
DRAWN = (-4.0, 4.0)
DRAWN_SEQUENCES = 1000  # over whose inputs a learned function is drawn
TIMES = "ms/iteration: checks included; of the processor where that trained, of the clock otherwise"
Pictures = dict[str, Callable[[], Figure]]
Group = Sequence[Record]


def xor_report(options: Xor, records: Group, study: Study) -> tuple[list[Table], Pictures]:
    """Figure 2 of the paper, and its numbers: a row a kind of unit."""
    keys = ("inputs", "l1", "centers")
    records = sorted(records, key=lambda r: (*(r[key] for key in keys), r["seed"]))
    caption = (
        "Parity of bits (-1 or 1) by one unit, y = f(w z + b), least squares on all patterns, "
        f"Adam {options.learning_rate:g}\n"
        f"f: {_units(options)}\n"
        "solved: the nearest of 0 and 1 is right for all patterns at the end; after: iterations "
        f"until it first was, looked at every {problems.XOR_CHECKED_EVERY}; variation of the "
        "slope: total, and between the least and the largest input of f, and that times their "
        "distance, which a larger w does not change; mean ± standard deviation over seeds"
    )

    def after(group: Group) -> str:
        solved = [r["solved_after"] for r in learned(group)]
        return f"{statistics.mean(solved):,.0f}" if solved else "-"

    columns: dict[str, Callable[[Group], object]] = {
        "inputs": lambda g: g[0]["inputs"],
        "d": lambda g: g[0]["centers"],
        "l1": lambda g: f"{g[0]['l1']:g}",
        "seeds": _seeds,
        "solved": _successes,
        "solved after": after,
        "squared error": lambda g: f"{statistics.mean(r['squared_error'] for r in g):.1e}",
        "variation of the slope": lambda g: _spread(g, "variation"),
        "over the data": lambda g: _spread(g, "variation_over_data"),
        "times the range": lambda g: _spread(g, "variation_times_range"),
        "seconds": _seconds,
    }

    def drawn(record: Record) -> tuple[Parity, str]:
        size = record["inputs"], record["centers"], record["l1"]
        trial = XorTrial(options, "cpu", "unit", record["seed"], *size)
        parity = Parity.of(trained_network(trial, study.folder(trial.name)), trial.inputs)
        title = (
            f"d = {trial.centers}, l1 {trial.l1:g}, seed {trial.seed}\n"
            f"variation {record['variation']:.1f}{'' if record['learned'] else ', not solved'}"
        )
        return parity, title

    def picture(of_inputs: Group) -> Figure:
        rows = [
            [drawn(kind[0]) for kind in grouped(of_weight, "centers")]
            for of_weight in grouped(of_inputs, "l1")
        ]
        return parity_plot(
            rows, f"One unit, parity of {of_inputs[0]['inputs']} bits; dots: targets"
        )

    pictures: Pictures = {
        f"functions-{group[0]['inputs']}-inputs.png": partial(picture, group)
        for group in grouped(records, "inputs")
    }
    return [rows_table(caption, grouped(records, *keys), columns)], pictures


def charging_report(
    options: Charging, records: Group, study: Study
) -> tuple[list[Table], Pictures]:
    """Figure 3 of the paper, and its numbers: a row a model."""
    records = sorted(records, key=lambda r: (list(NAMES).index(r["model"]), r["seed"]))
    caption = (
        f"{problems.LENGTH} steps, {problems.ENTRIES} of them charge by 0 to {problems.VALUES - 1};"
        f" one hidden unit, read out at every step; {_training(options)}\n"
        f"KBRN: {_units(options)}; LSTM: forget bias 1\n"
        f"accuracy in percent of all steps of {problems.CHARGING_TEST_SEQUENCES:,} test sequences "
        "at the end, at its best and after 100, 1,000 iterations, mean ± standard deviation over "
        f"seeds; a trial ends early when the last {problems.RIGHT_CHECKS} checks found no error "
        f"(ended); {TIMES}"
    )

    def percent(group: Group, value: Callable[[Record], float]) -> str:
        return spread([100 * value(r) for r in group], ".2f")

    columns: dict[str, Callable[[Group], object]] = {
        "model": _model,
        "parameters": lambda g: g[0]["num_parameters"],
        "seeds": _seeds,
        "accuracy": lambda g: percent(g, lambda r: r["accuracy"]),
        "best": lambda g: percent(g, lambda r: max(c["accuracy"] for c in r["history"])),
        "at 100": lambda g: percent(g, lambda r: accuracy_at(r, 100)),
        "at 1,000": lambda g: percent(g, lambda r: accuracy_at(r, 1000)),
        "ended": _successes,
        "iterations": lambda g: f"{statistics.mean(r['iterations'] for r in g):,.0f}",
        "ms/iteration": _milliseconds,
    }

    def functions() -> Figure:
        found = {}
        for record in (r for r in records if r["model"] == KBRN):
            trial = ChargingTrial(options, "cpu", KBRN, record["seed"])
            network = trained_network(trial, study.folder(trial.name))
            assert isinstance(network, SequenceNetwork)
            (function,) = expansions(network.activation())
            found[f"seed {trial.seed}"] = function, reached(network, trial)
        return function_plot(found)

    pictures: Pictures = {"accuracy.png": lambda: accuracy_plot(records)}
    if any(r["model"] == KBRN for r in records):
        pictures["activations.png"] = functions
    return [rows_table(caption, grouped(records, "model"), columns)], pictures


def long_term_report(
    options: LongTerm, records: Group, study: Study
) -> tuple[list[Table], Pictures]:
    """Figures 4 to 6 of the paper, and their numbers: a row a function, length and model."""

    def order(record: Record) -> tuple[Any, ...]:
        place = FUNCTIONS.index(record["function"])
        return place, record["length"], record["model"], record["seed"]

    records = sorted(records, key=order)
    caption = (
        f"Bits of which the first two decide; {options.hidden} hidden units; {_training(options)}\n"
        f"KBRN: {_units(options)}; LSTM: forget bias 1\n"
        f"learned: {problems.TEST_SEQUENCES:,} test sequences right, normalised by their own "
        f"statistics, looked at every {problems.BITS_CHECKED_EVERY} iterations; iterations: until "
        f"then, mean over the trials that learned; in training: until {RIGHT_BATCHES} training "
        "batches in a row were right (trials)\naccuracy, running: of the test set at the end, by "
        "those statistics and by running ones, mean over all trials; seconds: of all trials; "
        f"{TIMES}"
    )

    def in_training(group: Group) -> str:
        found = [r["iterations_training"] for r in group if r["iterations_training"]]
        return f"{statistics.mean(found):,.0f} ({len(found)})" if found else "-"

    columns: dict[str, Callable[[Group], object]] = {
        "function": lambda g: g[0]["function"],
        "T": lambda g: g[0]["length"],
        "model": _model,
        "seeds": _seeds,
        "learned": _successes,
        "iterations": mean_iterations,
        "in training": in_training,
        "accuracy": lambda g: f"{statistics.mean(r['accuracy'] for r in g):.3f}",
        "running": lambda g: f"{statistics.mean(r['accuracy_running'] for r in g):.3f}",
        "ms/iteration": _milliseconds,
        "seconds": _seconds,
    }
    title = f"{options.hidden} hidden units; frames: trials; dots: learned ones; line: mean"
    pictures: Pictures = {"successes.png": lambda: success_plot(records, title)}
    solved = [r for r in records if r["model"] == KBRN and r["learned"]]
    # equivalence where it was learned, the longest sequences, the smallest seed
    hardest = max(solved, key=lambda r: (*order(r)[:2], -int(r["seed"])), default=None)

    def functions(record: Record) -> Figure:
        place = KBRN, record["seed"], record["function"], record["length"]
        trial = LongTermTrial(options, "cpu", *place)
        network = trained_network(trial, study.folder(trial.name))
        assert isinstance(network, SequenceNetwork)
        found = expansions(network.activation())
        number = sum(steep(function) for function in found)
        title = (
            f"Activations learned for {trial.title}; red, dashed frame: slope above 1 "
            f"({number} of {len(found)} units)"
        )
        return activation_plot(found, title)

    if hardest is not None:
        pictures["activations.png"] = lambda: functions(hardest)
    groups = grouped(records, "function", "length", "model")
    return [rows_table(caption, groups, columns)], pictures


REPORTS: dict[str, Callable[..., tuple[list[Table], Pictures]]] = {
    "xor": xor_report,
    "charging": charging_report,
    "long-term": long_term_report,
}
FILES = {
    "xor": tuple(f"functions-{inputs}-inputs.png" for inputs in range(2, 17)),
    "charging": ("accuracy.png", "activations.png"),
    "long-term": ("successes.png", "activations.png"),
}


def reached(network: SequenceNetwork, trial: ChargingTrial) -> tuple[float, float]:
    """The smallest and the largest input of a KBRN's function on some of the test set."""
    x = trial.test_set()[0][:, :DRAWN_SEQUENCES].unsqueeze(-1)
    cell = network.recurrent.get_submodule("cells.0")
    assert isinstance(cell, KBRNCell)
    with torch.no_grad():
        states, _ = network.recurrent(x)
        before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        a = cell.lin_input(x) + cell.lin_recurrent(before)
        if cell.activation.norm is not None:
            a = cell.activation.norm(a.flatten(0, 1))
    return a.min().item(), a.max().item()


def learned(records: Group) -> list[Record]:
    """Those that ended in success."""
    return [record for record in records if record["learned"]]


def accuracy_at(record: Record, iteration: int) -> float:
    """The test accuracy by the last check until an iteration."""
    return float([c["accuracy"] for c in record["history"] if c["iteration"] <= iteration][-1])


def mean_iterations(records: Group) -> str:
    """The mean over successes, with the smallest and the largest if they differ."""
    numbers = [record["iterations"] for record in learned(records)]
    if not numbers:
        return "-"
    mean = f"{statistics.mean(numbers):,.0f}"
    if min(numbers) == max(numbers):
        return mean
    return f"{mean} ({min(numbers):,} to {max(numbers):,})"


def _seeds(group: Group) -> str:
    return ", ".join(str(record["seed"]) for record in group)


def _model(group: Group) -> str:
    return NAMES[group[0]["model"]]


def _successes(group: Group) -> str:
    return f"{len(learned(group))} of {len(group)}"


def _seconds(group: Group) -> str:
    return f"{sum(record['seconds'] for record in group):,.0f}"


def _spread(group: Group, key: str) -> str:
    return spread([record[key] for record in group], ".1f")


def _milliseconds(group: Group) -> str:
    """Processor's time, which other programs do not change; the clock's with a GPU."""
    clock = "cpu_seconds" if all(r["device"] == "cpu" for r in group) else "seconds"
    return f"{1000 * sum(r[clock] for r in group) / sum(r['iterations'] for r in group):.1f}"


def _units(options: Any) -> str:
    """A kind of learned activation in words."""
    low, high = options.init_range
    number = f"{options.centers} " if isinstance(options.centers, int) else ""
    words = [
        f"{number}centres in [{low:g}, {high:g}]",
        f"Green function {options.green}",
        f"init {options.init}",
        f"{'with' if options.normalize else 'without'} normalisation",
    ]
    return ", ".join(words + ["affine part"] * options.affine)


def _training(options: Any) -> str:
    clip = getattr(options, "clip", 0.0)
    norm = f", gradient's norm at most {clip:g}" if clip else ""
    return f"Adam {options.learning_rate:g}{norm}, batches of {options.batch_size}"


def success_plot(records: Group, title: str) -> Figure:
    """Successful trials and their mean iterations by length, a row of panels a function."""
    functions = [name for name in FUNCTIONS if any(r["function"] == name for r in records)]
    figure = Figure(figsize=(8.4, 0.9 + 2.2 * len(functions)), layout="constrained")
    panels = figure.subplots(len(functions), 2, squeeze=False, sharex=True, sharey="col")
    lengths = sorted({record["length"] for record in records})
    for (left, right), function in zip(panels, functions, strict=True):
        for model in (KBRN, LSTM):
            chosen = [r for r in records if r["function"] == function and r["model"] == model]
            _success_marks(left, right, grouped(chosen, "length"), lengths, model)
        left.set(ylabel="successful trials", title=function)
        right.set(ylabel="iterations to success", title=function)
    for axes in panels[-1]:
        axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
        axes.set(xlabel="length T", xlim=(-0.5, len(lengths) - 0.5))
    panels[0, 0].yaxis.set_major_locator(MaxNLocator(integer=True))
    _scale_iterations(panels[0, 1], max(record["iterations"] for record in records))
    colors = {NAMES[r["model"]]: COLORS[r["model"]] for r in records}
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


def accuracy_plot(records: Group) -> Figure:
    """Test accuracy by iteration: the mean of each model's trials, and thin lines of single ones.

    A trial that ended early keeps its last accuracy.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    checked = sorted({check["iteration"] for record in records for check in record["history"]})
    for group in grouped(records, "model"):
        color = COLORS[group[0]["model"]]
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


def parity_plot(rows: Sequence[Sequence[tuple[Parity, str]]], title: str) -> Figure:
    """Learned functions of single units, a row a weight of the regulariser, a column a number d."""
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(3.0 * columns + 0.4, 2.5 * len(rows) + 0.4), layout="constrained")
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(panels, rows, strict=True):
        for axes, (parity, name) in zip(line, row, strict=False):
            margin = 0.15 * (parity.inputs.max() - parity.inputs.min()) + 1e-3
            low, high = parity.inputs.min() - margin, parity.inputs.max() + margin
            ends, _ = parity.function.slopes(low, high)
            axes.plot(ends, parity.function(ends), linewidth=1.2)
            axes.scatter(parity.inputs, parity.targets, c=parity.targets, cmap="coolwarm", s=22)
            axes.set_title(name, fontsize="small")
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
    groups: Sequence[Group],
    lengths: Sequence[int],
    model: str,
) -> None:
    """Bars of successes in frames of trials, and dots of iterations; models side by side."""
    color, side = COLORS[model], -0.2 if model == KBRN else 0.2
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
