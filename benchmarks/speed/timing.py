"""Median times over interleaved rounds, bare matrix products, and the table of the results."""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.devices import now
from benchmarks.harness.memory import PeakMemory
from benchmarks.harness.table import Table

Step = Callable[[], object]
Row = dict[str, Any]


@dataclass(frozen=True)
class Contestant:
    """One thing that is timed."""

    name: str  # what it is
    step: Step  # runs it once
    # for each input, how many square weights multiply it; empty if there are no products
    products: tuple[int, ...] = ()
    work: float = 0.0  # the work of a step, in the unit of its table


@dataclass(frozen=True)
class Case:
    """A table: contestants of one size."""

    table: str  # its name on the command line
    size: str
    contestants: Sequence[Contestant]  # timed in interleaved rounds
    rivals: Sequence[str] = ()  # contestants by whose times all times are divided
    # a tensor like the inputs of the products, of shape (N, channels)
    like: Tensor = field(default_factory=lambda: torch.empty(0, 1))
    unit: str = ""  # of the contestants' work
    memory: bool = False  # whether to show a step's peak memory, above that before it

    def measure(self, rounds: int, device: torch.device, limit: float = math.inf) -> list[Row]:
        """A row for each contestant; bare products are timed in the same rounds."""
        counts = sorted({c.products for c in self.contestants if c.products})
        steps = [multiply(layer_factors(count, self.like)) for count in counts]
        steps += [c.step for c in self.contestants]
        seconds = medians([partial(seconds_of, step, device) for step in steps], rounds, limit)
        bare = dict(zip(counts, seconds, strict=False))
        taken = {c.name: s for c, s in zip(self.contestants, seconds[len(counts) :], strict=True)}
        rows = []
        for c in self.contestants:
            row: Row = {"name": c.name, "milliseconds": 1e3 * taken[c.name]}
            if c.products:
                row["products_milliseconds"] = 1e3 * bare[c.products]
                row["over_products"] = taken[c.name] / bare[c.products]
            if c.work:
                row[f"{self.unit}_a_second"] = c.work / taken[c.name]
            row |= {f"over_{name}": taken[c.name] / taken[name] for name in self.rivals}
            if self.memory:
                with PeakMemory(device) as memory:
                    c.step()
                peak = memory.peak if memory.gpu_peak is None else memory.gpu_peak
                row["peak_mebibytes"] = peak / 2**20
            rows.append(row)
        return rows


def table(caption: str, rows: Sequence[Row]) -> Table:
    """The rows of a case as a table whose columns have the order of the keys."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    titles = {"milliseconds": "ms", "products_milliseconds": "products", "peak_mebibytes": "MiB"}
    header = [
        titles.get(key, key.replace("over_", "/ ").replace("_a_second", " a s")) for key in keys
    ]
    return Table(caption, header, [[_cell(key, row.get(key)) for key in keys] for row in rows])


def medians(
    timers: Sequence[Callable[[], float]], rounds: int, limit: float, warm: int = 2
) -> list[float]:
    """The median of each timer's seconds over interleaved rounds, after `warm` uncounted ones.

    Each round has its own random order, because a step finds memory as the previous one left it.
    After `limit` seconds no further round begins, but the first round that counts always runs.
    """
    shuffled = random.Random(0)
    began = time.perf_counter()
    seconds: list[list[float]] = [[] for _ in timers]
    for round_number in range(-warm, rounds):
        if round_number > 0 and time.perf_counter() - began > limit:
            break
        for k in shuffled.sample(range(len(timers)), len(timers)):
            taken = timers[k]()
            if round_number >= 0:
                seconds[k].append(taken)
    return [statistics.median(times) for times in seconds]


def seconds_of(step: Step, device: torch.device) -> float:
    """The seconds that a step takes, from an idle device until the device is idle again."""
    start = now(device)
    if device.type != "cuda":
        step()
        return now(device) - start
    stream = torch.cuda.current_stream(device)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record(stream)
    step()
    last.record(stream)
    last.synchronize()
    return 1e-3 * first.elapsed_time(last)


def layer_factors(counts: Sequence[int], like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each input, the factors of the forward product and of the two backward products."""
    channels = like.size(1)
    found = []
    for k in counts:
        x, weight = torch.randn_like(like), like.new_empty(k * channels, channels).normal_()
        grad = like.new_empty(like.size(0), k * channels).normal_()
        found += [(x, weight.t()), (grad, weight), (grad.t(), x)]
    return found


def multiply(factors: Sequence[tuple[Tensor, Tensor]]) -> Step:
    """A step that multiplies pairs of matrices, or of batches of matrices."""

    def run() -> None:
        for left, right in factors:
            (torch.mm if left.dim() == 2 else torch.bmm)(left, right)

    return run


def _cell(key: str, value: object) -> str:
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    if key.endswith("_a_second"):
        return f"{value:,.0f}"
    return f"{value:.3f}" if key.startswith("over_") else f"{value:.2f}"
