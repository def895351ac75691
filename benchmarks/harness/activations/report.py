"""The tables of finished trials."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.activations.setting import Optimization, Units
from benchmarks.harness.summary import spread
from benchmarks.harness.table import Table

Record = dict[str, Any]
NAMES = {"kbrn": "KBRN", "lstm": "LSTM", "rnn": "sigmoid RNN"}
LONG_TERM_HEADER = (
    "function",
    "T",
    "model",
    "seeds",
    "learned",
    "iterations",
    "in training",
    "accuracy",
    "running",
    "ms/iteration",
    "seconds",
)
CHARGING_HEADER = (
    "model",
    "parameters",
    "seeds",
    "accuracy",
    "best",
    "at 100",
    "at 1,000",
    "ended",
    "iterations",
    "ms/iteration",
)
XOR_HEADER = (
    "inputs",
    "d",
    "l1",
    "seeds",
    "solved",
    "solved after",
    "squared error",
    "variation of the slope",
    "over the data",
    "times the range",
    "seconds",
)
TIMES = "ms/iteration: checks included; of the processor where that trained, of the clock otherwise"


def long_term_table(records: Sequence[Record], caption: str) -> Table:
    """Successes, iterations and times, a row a function, length and model."""
    rows = []
    for group in grouped(records, ("function", "length", "model")):
        first = group[0]
        in_training = [r["iterations_training"] for r in group if r["iterations_training"]]
        rows.append(
            [
                first["function"],
                str(first["length"]),
                NAMES[first["model"]],
                ", ".join(str(r["seed"]) for r in group),
                f"{len(learned(group))} of {len(group)}",
                mean_iterations(group),
                f"{statistics.mean(in_training):,.0f} ({len(in_training)})" if in_training else "-",
                f"{statistics.mean(r['accuracy'] for r in group):.3f}",
                f"{statistics.mean(r['accuracy_running'] for r in group):.3f}",
                f"{1000 * _seconds_per_iteration(group):.1f}",
                f"{sum(r['seconds'] for r in group):,.0f}",
            ]
        )
    return Table(caption, LONG_TERM_HEADER, rows)


def charging_table(records: Sequence[Record], caption: str) -> Table:
    """Accuracies and times, a row a model."""
    rows = []
    for group in grouped(records, ("model",)):
        rows.append(
            [
                NAMES[group[0]["model"]],
                str(group[0]["num_parameters"]),
                ", ".join(str(r["seed"]) for r in group),
                spread([100 * r["accuracy"] for r in group], ".2f"),
                spread([100 * max(c["accuracy"] for c in r["history"]) for r in group], ".2f"),
                *[spread([100 * accuracy_at(r, n) for r in group], ".2f") for n in (100, 1000)],
                f"{len(learned(group))} of {len(group)}",
                f"{statistics.mean(r['iterations'] for r in group):,.0f}",
                f"{1000 * _seconds_per_iteration(group):.1f}",
            ]
        )
    return Table(caption, CHARGING_HEADER, rows)


def xor_table(records: Sequence[Record], caption: str) -> Table:
    """Successes and how bent the learned functions are, a row a problem and kind of unit."""
    rows = []
    for group in grouped(records, ("inputs", "centers", "l1")):
        first, solved = group[0], [r["solved_after"] for r in group if r["learned"]]
        rows.append(
            [
                str(first["inputs"]),
                str(first["centers"]),
                f"{first['l1']:g}",
                ", ".join(str(r["seed"]) for r in group),
                f"{len(solved)} of {len(group)}",
                f"{statistics.mean(solved):,.0f}" if solved else "-",
                f"{statistics.mean(r['squared_error'] for r in group):.1e}",
                spread([r["variation"] for r in group], ".1f"),
                spread([r["variation_over_data"] for r in group], ".1f"),
                spread([r["variation_times_range"] for r in group], ".1f"),
                f"{sum(r['seconds'] for r in group):,.0f}",
            ]
        )
    return Table(caption, XOR_HEADER, rows)


def units_text(units: Units, optimization: Optimization) -> str:
    """A kind of learned activation in words; without the number of its centres if that is 0."""
    low, high = units.init_range
    number = f"{units.centers} " if units.centers else ""
    words = [
        f"{number}centres in [{low:g}, {high:g}]",
        f"Green function {units.green}",
        f"init {units.init}",
        f"{'with' if units.normalize else 'without'} normalisation",
    ]
    if units.affine:
        words.append("affine part")
    if optimization.l1:
        words.append(f"l1 {optimization.l1:g}")
    return ", ".join(words)


def training_text(optimization: Optimization) -> str:
    """How networks that read fresh sequences were trained, in words."""
    clip = f", gradient's norm at most {optimization.clip:g}" if optimization.clip else ""
    return f"Adam {optimization.learning_rate:g}{clip}, batches of {optimization.batch_size}"


def grouped(records: Sequence[Record], keys: Sequence[str]) -> list[list[Record]]:
    """The records that agree in some keys, in the order of their first ones."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return list(groups.values())


def learned(records: Sequence[Record]) -> list[Record]:
    """Those that ended in success."""
    return [record for record in records if record["learned"]]


def accuracy_at(record: Record, iteration: int) -> float:
    """The test accuracy by the last check until an iteration."""
    return float([c["accuracy"] for c in record["history"] if c["iteration"] <= iteration][-1])


def mean_iterations(records: Sequence[Record]) -> str:
    """The mean over successes, with the smallest and the largest if they differ."""
    numbers = [record["iterations"] for record in learned(records)]
    if not numbers:
        return "-"
    mean = f"{statistics.mean(numbers):,.0f}"
    if min(numbers) == max(numbers):
        return mean
    return f"{mean} ({min(numbers):,} to {max(numbers):,})"


def _seconds_per_iteration(records: Sequence[Record]) -> float:
    """Processor's time, which other programs do not change; the clock's with a GPU."""
    clock = "cpu_seconds" if all(r["device"] == "cpu" for r in records) else "seconds"
    return float(sum(r[clock] for r in records) / sum(r["iterations"] for r in records))
