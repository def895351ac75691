"""The table of a section: means over seeds, the best, and what is as good within its spread."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.molecules.baselines import BASELINES
from benchmarks.harness.molecules.gathering.sections import Row, Section
from benchmarks.harness.molecules.models import MODELS
from benchmarks.harness.molecules.task import MEASURES
from benchmarks.harness.summary import spread
from benchmarks.harness.table import Table, number_format
from benchmarks.harness.task import PARTS, Measure

BEST, NEAR, OTHER = "best", "near", ""
NEAR_SIGN = "†"


@dataclass(frozen=True)
class Comparison:
    """A table whose rows go from the best test mean to the worst.

    Args:
        table: Plain text.
        marks: For each row :data:`BEST`, :data:`NEAR` or :data:`OTHER`.
        legend (str): What the marks mean, with the numbers.
    """

    table: Table
    marks: list[str]
    legend: str

    @property
    def marked(self) -> int:
        """The column that the marks are about: test."""
        return next(k for k, name in enumerate(self.table.header) if name.startswith("test"))

    def text(self) -> str:
        """Plain columns, the test column with the signs ``*`` for the best and ``†`` for near."""
        signs = {BEST: " *", NEAR: f" {NEAR_SIGN}", OTHER: "  "}
        lines = [list(line) for line in self.table.rows]
        for line, mark in zip(lines, self.marks, strict=True):
            line[self.marked] += signs[mark]
        legend = self.legend.replace("Bold:", "*:")
        return f"{Table(self.table.caption, self.table.header, lines).text()}\n{legend}"


def measure_of(metric: str) -> Measure:
    """A measure by its key; one that this version does not know has the key as its title."""
    return MEASURES.get(metric) or Measure(metric, metric)


def compare(section: Section, rows: Sequence[Row], targets: Sequence[str]) -> Comparison:
    """The table of a section.

    Args:
        section: What the table is of.
        rows: Its rows from the best to the worst, see :func:`ordered`.
        targets: The names of the targets, as far as they are known.
    """
    marks, legend = mark(rows, section.metric)
    digits = number_format(value for row in rows for part in PARTS for value in row.values(part))
    title = measure_of(section.metric).title
    fitted = len({_fitted_on(row, section) for row in rows}) > 1
    header = (
        "model",
        "bond features",
        *(("fitted on",) if fitted else ()),
        "parameters",
        *(f"{part} {title}" for part in PARTS),
        "seeds",
        "epochs",
        "s/epoch",
        "folder",
    )
    lines = [
        [
            row.label,
            _bond_features(row.model),
            *((_fitted_on(row, section),) if fitted else ()),
            _range(row.values("num_parameters")),
            *(spread(row.values(part), digits) for part in PARTS),
            ", ".join(map(str, row.values("seed"))),
            _range(row.values("epochs")) if max(row.values("epochs")) else "-",
            _seconds(row),
            ", ".join(row.folders),
        ]
        for row in rows
    ]
    return Comparison(Table(_caption(title, targets, rows), header, lines), marks, legend)


def ordered(rows: Sequence[Row], metric: str) -> list[Row]:
    """From the best test mean to the worst; as they come where it is unknown what is better."""
    if metric not in MEASURES:
        return list(rows)
    return sorted(rows, key=lambda row: row.mean("test"), reverse=MEASURES[metric].higher_is_better)


def mark(rows: Sequence[Row], metric: str) -> tuple[list[str], str]:
    """Which test means are the best, and which lie within the best one's standard deviation.

    A row is near if ``abs(mean - best mean) <= std``, with the sample standard deviation ``std`` of
    the best over its seeds; if several means are equally the best, the largest of theirs.

    Args:
        rows: From the best to the worst, see :func:`ordered`.
        metric (str): Key of the measure.

    Returns:
        A mark for each row, and what they mean.
    """
    if metric not in MEASURES:
        return [OTHER] * len(rows), f"Whether lower or higher {metric} is better is not known."
    best = rows[0].mean("test")
    spreads = [
        statistics.stdev(row.values("test"))
        for row in rows
        if row.mean("test") == best and len(row.runs) > 1
    ]
    better = "higher" if MEASURES[metric].higher_is_better else "lower"
    meaning = f"Bold: the best test mean ({better} is better)."
    if not spreads:
        marks = [BEST if row.mean("test") == best else OTHER for row in rows]
        return marks, f"{meaning} It is of one seed: no spread is known, nothing else is marked."
    std = max(spreads)
    marks = [_mark(abs(row.mean("test") - best), std) for row in rows]
    return marks, (
        f"{meaning} {NEAR_SIGN}: within one standard deviation of the best over its seeds, "
        f"|mean - best mean| ≤ {std:{number_format([std])}}."
    )


def _mark(distance: float, std: float) -> str:
    if distance == 0:
        return BEST
    return NEAR if distance <= std else OTHER


def _caption(title: str, targets: Sequence[str], rows: Sequence[Row]) -> str:
    of = f" of {', '.join(targets)}" if targets else ""
    over = " (mean over targets)" if len(targets) > 1 else ""
    several = any(len(row.runs) > 1 for row in rows)
    return f"{title}{of}{over}{'; mean ± standard deviation over seeds' if several else ''}"


def _bond_features(model: str) -> str:
    kind = MODELS.get(model) or BASELINES.get(model)
    if kind is None:
        return "not known"
    return "yes" if kind.bond_features else "no"


def _fitted_on(row: Row, section: Section) -> str:
    """How many molecules were learned from: the training part unless the record says fewer."""
    sizes = section.folders[0].configuration.get("parts")
    whole = sizes.get("train") if isinstance(sizes, dict) else None
    numbers = [run.record.get("fitted_on", whole) for run in row.runs]
    return "-" if None in numbers else _range(numbers)


def _range(numbers: Sequence[Any]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _seconds(row: Row) -> str:
    """Seconds an epoch, or of fitting where there are no epochs."""
    if max(row.values("epochs")):
        return f"{statistics.mean(row.values('seconds_per_epoch')):.2f}"
    fitting = [run.record["seconds"] for run in row.runs if "seconds" in run.record]
    return f"{statistics.mean(fitting):.1f} to fit" if fitting else "-"
