"""A system that is charged by its inputs and discharged by one a step, and networks like it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.harness.activations.expansion import expansions
from benchmarks.harness.activations.networks import SequenceNetwork, sequence_network
from benchmarks.harness.activations.pictures import accuracy_plot, function_plot
from benchmarks.harness.activations.report import TIMES, charging_table, training_text, units_text
from benchmarks.harness.activations.setting import KBRN, LSTM, RNN, Charging
from benchmarks.harness.activations.study import Record, Study
from benchmarks.harness.activations.trial import TEST_SEED, Trial, trained_network
from benchmarks.harness.table import Table
from pyg_kernels.sequence import KBRNCell

LENGTH = 30
ENTRIES = 3  # of a sequence that are not always 0
VALUES = 10  # an entry is below
TEST_SEQUENCES = 25_000
DRAWN_SEQUENCES = 1000  # over whose inputs a learned function is drawn
CHECKS_PER_DECADE = 10
RIGHT_CHECKS = 3  # so many checks in a row without an error end a trial


@dataclass(frozen=True)
class ChargingTrial(Trial):
    """One hidden unit, read out at every step.

    Args:
        forget_bias (float): Of the LSTM.
    """

    forget_bias: float

    @property
    def name(self) -> str:
        return f"{self.model}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.model}, seed {self.seed}"

    @property
    def kind(self) -> str:
        return self.model

    def identity(self) -> dict[str, Any]:
        return {}

    def network(self) -> nn.Module:
        return sequence_network(self.model, 1, self.units, self.forget_bias, True)

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
        return iteration in log_spaced(self.most)

    def is_learned(self, history: list[dict[str, Any]]) -> bool:
        last = history[-RIGHT_CHECKS:]
        return len(last) == RIGHT_CHECKS and all(check["accuracy"] == 1 for check in last)

    def _sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        device = self.device
        order = torch.rand(number, LENGTH, generator=generator, device=device)
        places = order.topk(ENTRIES, dim=1).indices
        values = torch.randint(VALUES, places.shape, generator=generator, device=device)
        x = torch.zeros(number, LENGTH, device=device)
        x.scatter_(1, places, values.float())
        x = x.t().contiguous()
        return x, charged(x).float()


def charged(x: Tensor) -> Tensor:
    """Equation 7: whether the system is charged after each step.

    Args:
        x: What it is charged by at each step, of shape (steps, sequences).
    """
    h = torch.zeros_like(x[0])
    states = []
    for step in x:
        h = step + (h - 1).clamp(min=0)
        states.append(h > 0)
    return torch.stack(states)


@cache
def log_spaced(most: int) -> set[int]:
    """Iterations at which accuracy is measured: 1, 2, 3, ..., ten a decade, the last one."""
    found = {most}
    power = 0
    while (iteration := round(10 ** (power / CHECKS_PER_DECADE))) < most:
        found.add(iteration)
        power += 1
    return found


def charging_study(
    common: Charging,
    models: Iterable[str],
    seeds: Iterable[int],
    most: int,
    device: str,
    out: Path,
) -> Study:
    """Every model with every seed."""
    trials = [_trial(common, model, seed, most, device) for seed in seeds for model in models]
    return Study(common.settings(), trials, out, ChargingReport())


class ChargingReport:
    """Figure 3 of the paper, and its numbers."""

    files = ("accuracy.png", "activations.png")

    def tables(self, settings: dict[str, Any], records: Sequence[Record]) -> list[Table]:
        """One row a model."""
        return [charging_table(_in_order(records), _caption(Charging.of(settings)))]

    def pictures(
        self, settings: dict[str, Any], records: Sequence[Record], folder: Path
    ) -> dict[str, Figure]:
        """Accuracy by iteration, and what the KBRNs have learned where the data reach it."""
        common, records = Charging.of(settings), _in_order(records)
        pictures = {"accuracy.png": accuracy_plot(records)}
        functions = {}
        for record in records:
            if record["model"] == KBRN:
                trial = _trial(common, KBRN, record["seed"], record["iterations"], "cpu")
                network = trained_network(trial, folder)
                assert isinstance(network, SequenceNetwork)
                (function,) = expansions(network.activation())
                functions[f"seed {trial.seed}"] = function, reached(network, trial)
        if functions:
            pictures["activations.png"] = function_plot(functions)
        return pictures


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


def _trial(common: Charging, model: str, seed: int, most: int, device: str) -> ChargingTrial:
    return ChargingTrial(
        model, seed, common.units, common.optimization, most, device, common.forget_bias
    )


def _in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda r: ((KBRN, RNN, LSTM).index(r["model"]), r["seed"]))


def _caption(common: Charging) -> str:
    return (
        f"{LENGTH} steps, {ENTRIES} of them charge by 0 to {VALUES - 1}; one hidden unit, read out "
        f"at every step; {training_text(common.optimization)}\n"
        f"KBRN: {units_text(common.units, common.optimization)}; LSTM: forget bias "
        f"{common.forget_bias:g}\n"
        f"accuracy in percent of all steps of {TEST_SEQUENCES:,} test sequences at the end, at its "
        f"best and after 100, 1,000 iterations, mean ± standard deviation over seeds; a trial ends "
        f"early when the last {RIGHT_CHECKS} checks found no error (ended); "
        f"{TIMES}"
    )
