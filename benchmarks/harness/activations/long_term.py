"""Sequences of bits whose class is a function of the first two, the rest noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.harness.activations.expansion import expansions
from benchmarks.harness.activations.networks import SequenceNetwork, sequence_network
from benchmarks.harness.activations.pictures import activation_plot, steep, success_plot
from benchmarks.harness.activations.report import TIMES, long_term_table, training_text, units_text
from benchmarks.harness.activations.setting import FUNCTIONS, KBRN, Grid, LongTerm
from benchmarks.harness.activations.study import Record, Study
from benchmarks.harness.activations.trial import (
    RIGHT_BATCHES,
    TEST_SEED,
    Trial,
    trained_network,
)
from benchmarks.harness.table import Table

TEST_SEQUENCES = 2000
CHECKED_EVERY = 50


@dataclass(frozen=True)
class LongTermTrial(Trial):
    """One function of the first two bits, one length.

    Args:
        function (str): ``'or'``, ``'and'``, ``'xor'`` or ``'equivalence'``.
        length (int): Bits a sequence.
        hidden (int): Units.
        forget_bias (float): Of the LSTM.
    """

    function: str
    length: int
    hidden: int
    forget_bias: float

    @property
    def name(self) -> str:
        return f"{self.function}-T{self.length:03d}-{self.model}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.function}, T = {self.length}, {self.model}, seed {self.seed}"

    @property
    def kind(self) -> str:
        return f"{self.model}, T = {self.length}"

    def identity(self) -> dict[str, Any]:
        return {"function": self.function, "length": self.length}

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.hidden, self.units, self.forget_bias, False)

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self._sequences(self.optimization.batch_size, generator)

    def test_set(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(self.device).manual_seed(TEST_SEED)
        return self._sequences(TEST_SEQUENCES, generator)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output, target)

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        return (output > 0) == (target > 0.5)

    def is_checked(self, iteration: int) -> bool:
        return iteration % CHECKED_EVERY == 0

    def is_learned(self, history: list[dict[str, Any]]) -> bool:
        return bool(history[-1]["accuracy"] == 1)

    def _sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        bits = torch.randint(
            2, (self.length, number), generator=generator, device=self.device, dtype=torch.bool
        )
        return 2.0 * bits - 1, boolean_function(self.function, bits[0], bits[1]).float()


def boolean_function(name: str, first: Tensor, second: Tensor) -> Tensor:
    """A function of two bits."""
    if name == "or":
        return first | second
    if name == "and":
        return first & second
    return first ^ second if name == "xor" else ~(first ^ second)


def long_term_trial(
    common: LongTerm,
    cell: tuple[int, str, str, int],
    most: int,
    device: str,
) -> LongTermTrial:
    """A trial of a grid: length, function, model and seed."""
    length, function, model, seed = cell
    return LongTermTrial(
        model,
        seed,
        common.units,
        common.optimization,
        most,
        device,
        function,
        length,
        common.hidden,
        common.forget_bias,
    )


def long_term_study(common: LongTerm, grid: Grid, device: str, out: Path) -> Study:
    """All trials of a grid."""
    trials = [long_term_trial(common, cell, grid.iterations, device) for cell in grid.cells()]
    return Study(common.settings(), trials, out, LongTermReport())


class LongTermReport:
    """Figures 4 to 6 of the paper, and their numbers."""

    files = ("successes.png", "activations.png")

    def tables(self, settings: dict[str, Any], records: Sequence[Record]) -> list[Table]:
        """One row a function, length and model."""
        return [long_term_table(_in_order(records), _caption(LongTerm.of(settings)))]

    def pictures(
        self, settings: dict[str, Any], records: Sequence[Record], folder: Path
    ) -> dict[str, Figure]:
        """Successes by length, and the functions that one KBRN has learned."""
        common = LongTerm.of(settings)
        functions = [name for name in FUNCTIONS if any(r["function"] == name for r in records)]
        title = f"{common.hidden} hidden units; frames: trials; dots: learned ones; line: mean"
        pictures = {"successes.png": success_plot(records, functions, title)}
        solved = [r for r in records if r["model"] == KBRN and r["learned"]]
        if solved:
            pictures["activations.png"] = _activations(common, _hardest(solved), folder)
        return pictures


def _activations(common: LongTerm, record: Record, folder: Path) -> Figure:
    cell = record["length"], record["function"], KBRN, record["seed"]
    trial = long_term_trial(common, cell, record["iterations"], "cpu")
    network = trained_network(trial, folder)
    assert isinstance(network, SequenceNetwork)
    functions = expansions(network.activation())
    number = sum(steep(function) for function in functions)
    title = (
        f"Activations learned for {trial.title}; red, dashed frame: slope above 1 "
        f"({number} of {len(functions)} units)"
    )
    return activation_plot(functions, title)


def _hardest(records: Sequence[Record]) -> Record:
    """Equivalence where it was learned, the longest sequences, the smallest seed."""
    return max(
        records, key=lambda r: (FUNCTIONS.index(r["function"]), r["length"], -int(r["seed"]))
    )


def _in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(
        records, key=lambda r: (FUNCTIONS.index(r["function"]), r["length"], r["model"], r["seed"])
    )


def _caption(common: LongTerm) -> str:
    statistics = "their own" if common.optimization.batch_statistics else "running"
    return (
        f"Bits of which the first two decide; {common.hidden} hidden units; "
        f"{training_text(common.optimization)}\n"
        f"KBRN: {units_text(common.units, common.optimization)}; LSTM: forget bias "
        f"{common.forget_bias:g}\n"
        f"learned: {TEST_SEQUENCES:,} test sequences right, normalised by {statistics} statistics, "
        f"looked at every {CHECKED_EVERY} iterations; iterations: until then, mean over the trials "
        f"that learned; in training: until {RIGHT_BATCHES} training batches in a row were right "
        "(trials)\naccuracy, running: of the test set at the end, by those statistics and by "
        "running ones, mean over all trials; seconds: of all trials; "
        f"{TIMES}"
    )
