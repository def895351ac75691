"""The tables and the pictures of finished trials."""

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from benchmarks.harness.figures import panels
from benchmarks.harness.study import Record, Report, Study, grouped, rows_table
from benchmarks.harness.summary import spread_or_dash
from benchmarks.papers.activations import trials
from benchmarks.papers.activations.options import FUNCTIONS, KBRN

NAMES = {"kbrn": "KBRN", "rnn": "sigmoid RNN", "lstm": "LSTM"}
COLORS = {"kbrn": "C0", "lstm": "C1", "rnn": "C2"}
COLUMNS = 5
DRAWN = (-4.0, 4.0)
FILES = ("functions-*-inputs.png", "accuracy.png", "activations.png")
Group = Sequence[Record]
Columns = dict[str, Callable[[Group], object]]
COMMON: Columns = {
    "model": lambda g: NAMES[g[0]["model"]],
    "seeds": lambda g: ", ".join(str(r["seed"]) for r in g),
    "successes": lambda g: f"{sum(r['learned'] for r in g)} of {len(g)}",
    "seconds": lambda g: f"{sum(r['seconds'] for r in g):,.0f}",
}


def mean_of(key: str, digits: str) -> Callable[[Group], str]:
    """A column with the mean over the trials of a row."""
    return lambda group: f"{statistics.mean(record[key] for record in group):{digits}}"


def spread_of(value: Callable[[Record], float], digits: str) -> Callable[[Group], str]:
    """A column with the mean and the standard deviation; a dash if a trial has no value."""
    return lambda group: spread_or_dash([value(record) for record in group], digits)


def xor_report(options: Any, records: Group, study: Study) -> Report:
    """Figure 2 of the paper, and its numbers: one row for each kind of unit."""
    keys = ("inputs", "l1", "centers")
    records = sorted(records, key=lambda r: (*(r[key] for key in keys), r["seed"]))
    caption = (
        "Parity of bits (-1 or 1) by one unit, y = f(w z + b), least squares on all patterns, "
        f"Adam {options.learning_rate:g}\n"
        f"f: {_units(options)}\n"
        "solved: the nearest of 0 and 1 is right for all patterns at the end; after: iterations "
        f"until it first was, looked at every {trials.XOR_CHECKED_EVERY}; variation of the "
        "slope: total, and that between the least and the largest input of f times their "
        "distance, which a larger w does not change; mean ± standard deviation over seeds"
    )
    columns: Columns = {
        "inputs": lambda g: g[0]["inputs"],
        "d": lambda g: g[0]["centers"],
        "l1": lambda g: f"{g[0]['l1']:g}",
        "seeds": COMMON["seeds"],
        "solved": COMMON["successes"],
        "solved after": lambda g: over_successes(g, "solved_after"),
        "squared error": mean_of("squared_error", ".1e"),
        "variation of the slope": spread_of(itemgetter("variation"), ".1f"),
        "times the range": spread_of(itemgetter("variation_times_range"), ".1f"),
        "seconds": COMMON["seconds"],
    }

    def picture(of_inputs: Group) -> Figure:
        """Learned functions over the range of w z + b, with the targets of the patterns."""
        first = [kind[0] for kind in grouped(of_inputs, "l1", "centers")]
        title = f"One unit, parity of {of_inputs[0]['inputs']} bits; dots: targets"
        number = len({record["centers"] for record in first})
        figure, each = panels(len(first), number, (2.6, 2.4), title)
        for axes, record in zip(each, first, strict=True):
            place = {key: record[key] for key in ("inputs", "centers", "l1")}
            trial = trials.XorTrial(options, "cpu", "unit", record["seed"], place)
            network = trials.trained_network(trial, study.folder(trial.name))
            function, a, targets = trials.parity(network, record["inputs"])
            margin = 0.15 * np.ptp(a) + 1e-3
            ends, _ = function.slopes(a.min() - margin, a.max() + margin)
            axes.plot(ends, function(ends), linewidth=1.2)
            axes.scatter(a, targets, c=targets, cmap="coolwarm", s=22)
            solved = "" if record["learned"] else ", not solved"
            name = f"d = {record['centers']}, l1 {record['l1']:g}, seed {trial.seed}\n"
            name += f"variation {record['variation']:.1f}{solved}"
            axes.set_title(name, fontsize="small")
            axes.tick_params(labelsize="x-small")
            axes.set_xlabel("w z + b", fontsize="small")
        return figure

    pictures = {
        f"functions-{group[0]['inputs']}-inputs.png": partial(picture, group)
        for group in grouped(records, "inputs")
    }
    return Report([rows_table(caption, grouped(records, *keys), columns)], pictures)


def charging_report(options: Any, records: Group, study: Study) -> Report:
    """Figure 3 of the paper, and its numbers: one row for each model."""
    records = sorted(records, key=lambda r: (list(NAMES).index(r["model"]), r["seed"]))
    caption = (
        f"{trials.LENGTH} steps, {trials.ENTRIES} of them charge by 0 to {trials.VALUES - 1};"
        f" one hidden unit, read out at every step; {_training(options)}\n"
        f"KBRN: {_units(options)}; LSTM: forget bias 1\n"
        f"accuracy in percent of all steps of {trials.ChargingTrial.test_sequences:,} test "
        "sequences at the end and after 1,000 iterations, mean ± standard deviation over seeds; a "
        f"trial ends early when the last {trials.RIGHT_CHECKS} checks found no error (ended)"
    )

    def after_1000(record: Record) -> float:
        """The accuracy in percent at iteration 1,000; NaN if a trial gave up earlier."""
        gave_up = not record["learned"] and record["iterations"] < 1000
        before = [c["accuracy"] for c in record["history"] if c["iteration"] <= 1000]
        return math.nan if gave_up else 100 * before[-1]

    columns: Columns = {
        "model": COMMON["model"],
        "parameters": lambda g: g[0]["num_parameters"],
        "seeds": COMMON["seeds"],
        "accuracy": spread_of(lambda record: 100 * record["accuracy"], ".2f"),
        "at 1,000": spread_of(after_1000, ".2f"),
        "ended": COMMON["successes"],
        "iterations": mean_of("iterations", ",.0f"),
        "seconds": COMMON["seconds"],
    }
    table = rows_table(caption, grouped(records, "model"), columns)
    return Report([table], {"accuracy.png": partial(accuracy_plot, records)})


def long_term_report(options: Any, records: Group, study: Study) -> Report:
    """Figures 4 to 6 of the paper, and their numbers: one row per function, length and model."""

    def order(record: Record) -> tuple[Any, ...]:
        place = FUNCTIONS.index(record["function"])
        return place, record["length"], record["model"], record["seed"]

    records = sorted(records, key=order)
    caption = (
        f"Bits of which the first two decide; {options.hidden} hidden units; {_training(options)}\n"
        f"KBRN: {_units(options)}; LSTM: forget bias 1\n"
        f"learned: {trials.LongTermTrial.test_sequences:,} test sequences right, normalised by "
        f"their own statistics, looked at every {trials.BITS_CHECKED_EVERY} iterations; "
        "iterations: until then, mean over the trials that learned\n"
        "accuracy, running: of the test set at the end, by "
        "those statistics and by running ones, mean over all trials; seconds: of all trials"
    )
    columns: Columns = {
        "function": lambda g: g[0]["function"],
        "T": lambda g: g[0]["length"],
        "model": COMMON["model"],
        "seeds": COMMON["seeds"],
        "learned": COMMON["successes"],
        "iterations": lambda g: over_successes(g, "iterations"),
        "accuracy": mean_of("accuracy", ".3f"),
        "running": mean_of("accuracy_running", ".3f"),
        "seconds": COMMON["seconds"],
    }
    solved = [r for r in records if r["model"] == KBRN and r["learned"]]
    # prefers equivalence, then the longest sequences, then the smallest seed
    hardest = max(solved, key=lambda r: (*order(r)[:2], -int(r["seed"])), default=None)

    def functions(record: Record) -> Figure:
        place = {key: record[key] for key in ("function", "length")}
        trial = trials.LongTermTrial(options, "cpu", KBRN, record["seed"], place)
        network = trials.trained_network(trial, study.folder(trial.name))
        found = trials.expansions(network.activation())
        red = f"slope above 1 ({sum(map(steep, found))} of {len(found)} units)"
        title = f"Activations learned for {trial.title}; red, dashed frame: {red}"
        return activation_plot(found, title)

    pictures = {"activations.png": partial(functions, hardest)} if hardest else {}
    groups = grouped(records, "function", "length", "model")
    return Report([rows_table(caption, groups, columns)], pictures)


REPORTS = {"xor": xor_report, "charging": charging_report, "long-term": long_term_report}


def over_successes(group: Group, key: str) -> str:
    """The mean over successful trials, with the smallest and the largest if they differ."""
    numbers = [record[key] for record in group if record["learned"]]
    if not numbers:
        return "-"
    ends = f" ({min(numbers):,} to {max(numbers):,})" if min(numbers) < max(numbers) else ""
    return f"{statistics.mean(numbers):,.0f}{ends}"


def _units(options: Any) -> str:
    """A kind of learned activation in words."""
    low, high = options.init_range
    number = f"{options.centers} " if isinstance(options.centers, int) else ""
    words = (
        f"{number}centres in [{low:g}, {high:g}], Green function {options.green}, "
        f"init {options.init}, {'with' if options.normalize else 'without'} normalisation"
    )
    return words + ", affine part" * options.affine


def _training(options: Any) -> str:
    clip = getattr(options, "clip", 0.0)
    norm = f", gradient's norm at most {clip:g}" if clip else ""
    return f"Adam {options.learning_rate:g}{norm}, batches of {options.batch_size}"


def activation_plot(functions: Sequence[trials.Expansion], title: str) -> Figure:
    """The functions of all units; if steeper than 1, red parts and a red, dashed frame say so."""
    figure, each = panels(len(functions), COLUMNS, (2.2, 1.6), title)
    for axes, function in zip(each, functions, strict=True):
        ends, slopes = function.slopes(*DRAWN)
        axes.plot(ends, function(ends), color="C0", linewidth=1.2)
        pieces = np.stack([ends[:-1], ends[1:]])[:, np.abs(slopes) > 1]
        axes.plot(pieces, function(pieces), color="C3", linewidth=1.8)
        axes.set_xlim(*DRAWN)
        axes.tick_params(labelsize="x-small")
        for side in axes.spines.values() if steep(function) else ():
            side.set(linestyle=(0, (5, 4)), color="C3")
    return figure


def accuracy_plot(records: Group) -> Figure:
    """Test accuracy by iteration: the mean of each model's trials, and each trial as a thin line.

    A trial that ended early keeps its last accuracy.
    """
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    for group in grouped(records, "model"):
        color, name = COLORS[group[0]["model"]], NAMES[group[0]["model"]]
        accuracies = [
            pandas.DataFrame(r["history"]).set_index("iteration")["accuracy"] for r in group
        ]
        lines = pandas.concat(accuracies, axis=1).sort_index().ffill()
        axes.plot(lines, color=color, linewidth=0.7, alpha=0.4)
        axes.plot(lines.mean(axis=1), color=color, linewidth=1.8, label=name)
    axes.set(xscale="log", xlabel="iteration", ylabel="test accuracy")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(loc="lower right")
    return figure


def steep(function: trials.Expansion) -> bool:
    """Whether the function is steeper than 1 anywhere in the drawn range."""
    return bool((np.abs(function.slopes(*DRAWN)[1]) > 1).any())
