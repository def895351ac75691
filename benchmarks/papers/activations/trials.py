"""Trials on parity, a system that is charged, and the first two bits: the networks; the functions
that they have learned, in float64; and the training of one network with one seed until it has
learned, with a checkpoint every minute.
"""

import copy
import io
import math
import operator
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count, product, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.harness.checkpoint import naming_damage
from benchmarks.harness.errors import as_input_error, naming_files
from benchmarks.harness.files import write_bytes
from benchmarks.harness.sizes import num_parameters
from benchmarks.harness.study import Record
from benchmarks.papers.activations.options import KBRN, LSTM, Charging, Recurrent, Xor
from pyg_kernels import sequence
from pyg_kernels.nn import KernelActivation

Floats = NDArray[np.float64]
CHECKPOINT = "checkpoint.pt"
CHECKPOINT_SECONDS = 60.0  # between checkpoints
TEST_SEED = 2**31 - 1
XOR_CHECKED_EVERY, BITS_CHECKED_EVERY = 100, 50
LENGTH, ENTRIES, VALUES = 30, 3, 10  # of a charging sequence; its entries are below VALUES
CHECKS_PER_DECADE = 10
RIGHT_CHECKS = 3  # a charging trial ends after this many checks in a row without an error
OF_TWO_BITS = {
    "or": operator.or_,
    "and": operator.and_,
    "xor": operator.xor,
    "equivalence": operator.eq,
}


class SequenceNetwork(nn.Module):
    """A recurrent layer on one number per step, and an affine read-out of its state to a logit."""

    def __init__(self, recurrent: nn.Module, hidden_size: int, every_step: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.readout = nn.Linear(hidden_size, 1)
        self.every_step = every_step

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.recurrent(x.unsqueeze(-1))
        return self.readout(output if self.every_step else output[-1]).squeeze(-1)

    def activation(self) -> KernelActivation:
        """The learned activation of a KBRN."""
        activation = self.recurrent.get_submodule("cells.0").activation
        assert isinstance(activation, KernelActivation)
        return activation


class SigmoidRNN(nn.Module):
    """``h_t = sigmoid(W h_{t-1} + U x_t + b)``, called as ``nn.RNN`` without a state."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lin_input = nn.Linear(input_size, hidden_size)
        self.lin_recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inputs, states = self.lin_input(x), []
        h = inputs.new_zeros(inputs.shape[1:])
        for step in inputs.unbind():
            h = torch.sigmoid(step + self.lin_recurrent(h))
            states.append(h)
        return torch.stack(states), h


def sequence_network(
    model: str, options: Recurrent, hidden_size: int, every_step: bool
) -> SequenceNetwork:
    """A network with fresh weights; the forget bias of an LSTM is 1 larger than PyTorch's."""
    if model == KBRN:
        recurrent: nn.Module = sequence.KBRN(
            1, hidden_size, num_centers=options.centers, **activation_options(options)
        )
    elif model == LSTM:
        recurrent = nn.LSTM(1, hidden_size)
        with torch.no_grad():  # gates: input, forget, cell, output
            bias = recurrent.get_parameter("bias_ih_l0")
            bias[hidden_size : 2 * hidden_size] += 1.0
    else:
        recurrent = SigmoidRNN(1, hidden_size)
    return SequenceNetwork(recurrent, hidden_size, every_step)


def activation_options(options: Any) -> dict[str, Any]:
    """The arguments of a learned activation."""
    names = ("green", "normalize", "init", "init_range", "affine")
    return {name: getattr(options, name) for name in names}


@dataclass(frozen=True)
class Expansion:
    """``f(a) = sum_k jumps_k max(a - kinks_k, 0) + slope a + intercept``, piecewise linear."""

    kinks: Floats  # (K,) where the slope changes, in ascending order
    jumps: Floats  # (K,) by how much
    slope: float  # left of all kinks
    intercept: float

    def __call__(self, a: Floats) -> Floats:
        beyond = np.maximum(np.asarray(a)[..., None] - self.kinks, 0)
        return beyond @ self.jumps + self.slope * np.asarray(a) + self.intercept

    def slopes(self, low: float, high: float) -> tuple[Floats, Floats]:
        """The ends of the linear pieces in ``[low, high]``, and the slope of each piece."""
        inside = (self.kinks > low) & (self.kinks < high)
        first = self.slope + self.jumps[self.kinks <= low].sum()
        ends = np.concatenate([[low], self.kinks[inside], [high]])
        return ends, first + np.concatenate([[0.0], np.cumsum(self.jumps[inside])])

    def variation(self, low: float = -np.inf, high: float = np.inf) -> float:
        """The total variation of the slope between two points."""
        return float(np.abs(self.jumps[(self.kinks > low) & (self.kinks < high)]).sum())


def expansions(activation: KernelActivation) -> list[Expansion]:
    """The learned function of every unit, whose Green function is ``'relu'`` or ``'abs'``."""
    units, d = activation.num_units, activation.num_centers

    def rows(parameter: Tensor | None, columns: int) -> Floats:
        values = torch.zeros(columns) if parameter is None else parameter.detach().cpu()
        return values.double().reshape(-1, columns).expand(units, columns).numpy()

    centers, jumps = rows(activation.centers, d), rows(activation.coefficients, d)
    slope, intercept = rows(activation.slope, 1)[:, 0], rows(activation.intercept, 1)[:, 0]
    if activation.green == "abs":  # |a - c| = 2 max(a - c, 0) - a + c
        slope, intercept = slope - jumps.sum(axis=1), intercept + (jumps * centers).sum(axis=1)
        jumps = 2 * jumps
    found = []
    for unit in range(units):
        kinks, places = np.unique(centers[unit], return_inverse=True)
        at_kinks = np.asarray(np.bincount(places, jumps[unit]), np.float64)
        found.append(Expansion(kinks, at_kinks, slope[unit], intercept[unit]))
    return found


@dataclass(frozen=True)
class Trial(ABC):
    """What is trained, and when it counts as learned."""

    options: Any  # of the experiment
    device: str  # A name that torch knows
    model: str  # the network
    seed: int  # of the weights and of the training data
    # what else distinguishes it from other trials: sizes, function, length
    place: Mapping[str, Any] = field(default_factory=dict)

    stops = True  # whether success ends it before the last iteration
    test_sequences = 0
    checked_every = 1

    @property
    def name(self) -> str:
        words = [f"{name}-{value}" for name, value in self.place.items()]
        return "-".join([*words, self.model, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        words = [f"{name} {value}" for name, value in self.place.items()]
        return ", ".join([*words, self.model, f"seed {self.seed}"])

    @abstractmethod
    def network(self) -> nn.Module:
        """A network with fresh weights."""

    @abstractmethod
    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Fresh inputs and their targets."""

    def is_checked(self, iteration: int) -> bool:
        """Whether accuracy is measured after an iteration; after the last one, it always is."""
        return iteration % self.checked_every == 0

    def test_set(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets that are the same for every seed."""
        generator = torch.Generator(self.device).manual_seed(TEST_SEED)
        return self.sequences(self.test_sequences, generator)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss."""
        return nn.functional.binary_cross_entropy_with_logits(output, target)

    def penalty(self, network: Any) -> Tensor | float:
        """What is added to the loss in training."""
        return 0.0

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        """Which outputs are right, as booleans."""
        return (output > 0) == (target > 0.5)

    def is_learned(self, history: Sequence[Record]) -> bool:
        """Whether the checks so far show success."""
        return bool(history[-1]["accuracy"] == 1)

    def details(self, network: Any, history: Sequence[Record]) -> Record:
        """Further entries of the record, from the trained network and its checks."""
        return {}


def parity(network: Any, inputs: int) -> tuple[Expansion, Floats, Floats]:
    """The learned function of a unit, its argument for each pattern of bits, and the targets of the
    patterns, 0 or 1, in float64.
    """
    z, targets = patterns(inputs, "cpu")
    weight, bias = (p.detach().to("cpu", torch.float64) for p in network.lin.parameters())
    (function,) = expansions(network.activation)
    return function, (z.double() @ weight.squeeze(0) + bias).numpy(), targets.double().numpy()


class XorTrial(Trial):
    """One unit on the parity of some bits; its place has ``inputs``, ``centers`` and ``l1``."""

    checked_every = XOR_CHECKED_EVERY
    stops = False  # functions are compared after equally long training

    def network(self) -> nn.Module:
        """``y = f(w z + b)`` with a learned f, from ``(patterns, inputs)`` to ``(patterns,)``."""
        activation = KernelActivation(1, self.place["centers"], **activation_options(self.options))
        lin = nn.Linear(self.place["inputs"], 1)  # drawn after the activation
        parts = {"lin": lin, "activation": activation, "flatten": nn.Flatten(0)}
        return nn.Sequential(OrderedDict(parts))

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """All patterns, whatever the number."""
        return patterns(self.place["inputs"], self.device)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).square().mean()

    def penalty(self, network: Any) -> Tensor | float:
        weight = self.place["l1"]
        return weight * network.activation.l1() if weight else 0.0

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs() < 0.5

    def details(self, network: Any, history: Sequence[Record]) -> Record:
        solved = [one["iteration"] for one in history if one["accuracy"] == 1]
        function, a, targets = parity(network, self.place["inputs"])
        low, high = float(a.min()), float(a.max())
        return {
            "solved_after": solved[0] if solved else None,
            "squared_error": float(((function(a) - targets) ** 2).mean()),
            "variation": function.variation(),
            "variation_times_range": function.variation(low, high) * (high - low),
        }


def patterns(inputs: int, device: str) -> tuple[Tensor, Tensor]:
    """All patterns of bits, -1 or 1, and whether an odd number of them is 1."""
    bits = torch.tensor(list(product((0.0, 1.0), repeat=inputs)), device=device)
    return 2 * bits - 1, bits.sum(dim=1) % 2


class ChargingTrial(Trial):
    """One hidden unit, read out at every step."""

    test_sequences = 25_000

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, 1, every_step=True)

    def is_checked(self, iteration: int) -> bool:
        return iteration in log_spaced(self.options.max_iterations)

    def is_learned(self, history: Sequence[Record]) -> bool:
        last = history[-RIGHT_CHECKS:]
        return len(last) == RIGHT_CHECKS and all(one["accuracy"] == 1 for one in last)

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Charges, and whether the system is charged."""
        drawn: dict[str, Any] = {"generator": generator, "device": self.device}
        places = torch.rand(number, LENGTH, **drawn).topk(ENTRIES, dim=1).indices
        values = torch.randint(VALUES, places.shape, **drawn).float()
        x = values.new_zeros(number, LENGTH).scatter_(1, places, values).t().contiguous()
        return x, charged(x).float()


def charged(x: Tensor) -> Tensor:
    """Equation 7: whether the system is charged after each step."""
    h, states = torch.zeros_like(x[0]), []
    for step in x:
        h = step + (h - 1).clamp(min=0)
        states.append(h > 0)
    return torch.stack(states)


@cache
def log_spaced(most: int) -> set[int]:
    """Iterations at which accuracy is measured: 1, 2, 3, ..., ten per decade, and the last one."""
    spaced = (round(10 ** (power / CHECKS_PER_DECADE)) for power in count())
    return {most, *takewhile(lambda iteration: iteration < most, spaced)}


class LongTermTrial(Trial):
    """A function of the first two bits; its place has ``function`` and ``length``."""

    test_sequences, checked_every = 2000, BITS_CHECKED_EVERY

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, self.options.hidden, every_step=False)

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Bits, -1 or 1, and the function of the first two."""
        shape = self.place["length"], number
        bits = torch.randint(2, shape, generator=generator, device=self.device, dtype=torch.bool)
        target = OF_TWO_BITS[self.place["function"]](bits[0], bits[1])
        return 2.0 * bits - 1, target.float()


def trials_of(options: Any, device: str) -> list[Trial]:
    """All trials that options ask for."""
    if isinstance(options, Xor):
        sizes = product(options.inputs, options.centers, options.l1, options.seeds)
        return [
            XorTrial(options, device, "unit", seed, {"inputs": n, "centers": d, "l1": weight})
            for n, d, weight, seed in sizes
        ]
    if isinstance(options, Charging):
        pairs = product(options.seeds, options.models)
        return [ChargingTrial(options, device, model, seed) for seed, model in pairs]
    return [
        LongTermTrial(options, device, model, seed, {"function": function, "length": length})
        for length, function, model, seed in options.grid()
    ]


class Training:
    """A trial with its network, optimiser, random generator and progress."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.trial = trial
        self.checkpoint = folder / CHECKPOINT
        self.network = fresh_network(trial)
        rate = trial.options.learning_rate
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate)
        self.generator = torch.Generator(trial.device).manual_seed(trial.seed)
        # Seconds include checks. CPU seconds do too, and other programs do not change them. The
        # history has one dictionary for each check.
        self.progress: Record = {"iteration": 0, "seconds": 0.0, "cpu_seconds": 0.0, "history": []}
        self._test_set = trial.test_set()
        if self.checkpoint.exists():
            with naming_damage(self.checkpoint, folder):
                content = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
                self.network.load_state_dict(content["network"])
                self.optimizer.load_state_dict(content["optimizer"])
                self.generator.set_state(content["generator"])
                self.progress |= content["progress"]

    def run(self) -> Record:
        trial, done, most = self.trial, self.progress, self.trial.options.max_iterations
        saved, history = time.perf_counter(), done["history"]
        start = saved - done["seconds"], time.process_time() - done["cpu_seconds"]
        learned = bool(history) and trial.is_learned(history)
        while done["iteration"] < most and not (learned and trial.stops):
            loss = self.iterate()
            checked = trial.is_checked(done["iteration"]) or done["iteration"] == most
            if checked:
                check = {"iteration": done["iteration"], "loss": loss.item()}
                history.append({**check, "accuracy": self._accuracy(batch_statistics=True)})
                learned = trial.is_learned(history)
            done["seconds"] = time.perf_counter() - start[0]
            done["cpu_seconds"] = time.process_time() - start[1]
            if time.perf_counter() - saved >= CHECKPOINT_SECONDS:
                self._save()
                saved = time.perf_counter()
            if checked and not math.isfinite(history[-1]["loss"]):
                break
        self._save()
        return self._record(learned)

    def iterate(self) -> Tensor:
        """Takes one step of the optimiser and returns the loss before it."""
        trial = self.trial
        x, y = trial.sequences(getattr(trial.options, "batch_size", 0), self.generator)
        loss = trial.loss(self.network(x), y)
        self.optimizer.zero_grad()
        (loss + trial.penalty(self.network)).backward()
        if clip := getattr(trial.options, "clip", 0.0):
            nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self.optimizer.step()
        self.progress["iteration"] += 1
        return loss.detach()

    def _accuracy(self, batch_statistics: bool) -> float:
        """The accuracy on the test set, normalised by its own statistics or the running ones."""
        network, (x, y) = copy.deepcopy(self.network).train(batch_statistics), self._test_set
        with torch.no_grad():
            return self.trial.right(network(x), y).double().mean().item()

    def _record(self, learned: bool) -> Record:
        trial, done, last = self.trial, self.progress, self.progress["history"][-1]
        return {
            **trial.place,
            "model": trial.model,
            "seed": trial.seed,
            "device": trial.device,
            "num_parameters": num_parameters(self.network),
            "learned": learned,
            "diverged": not math.isfinite(last["loss"]),
            "iterations": done["iteration"],
            "accuracy": last["accuracy"],
            "accuracy_running": self._accuracy(batch_statistics=False),
            "seconds": round(done["seconds"], 3),
            "cpu_seconds": round(done["cpu_seconds"], 3),
            **trial.details(self.network, done["history"]),
            "history": done["history"],
        }

    def _save(self) -> None:
        content = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "progress": self.progress,
        }
        saved = io.BytesIO()
        torch.save(content, saved)
        with naming_files():
            write_bytes(self.checkpoint, saved.getvalue())


def trained(trial: Trial, folder: Path) -> Record:
    """Trains a trial on one thread and returns its record."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Training(trial, folder).run()
    finally:
        torch.set_num_threads(threads)


def is_done(trial: Trial, record: Record) -> bool:
    """Whether a trial with this record need not go on."""
    ended = (record["learned"] and trial.stops) or record["diverged"]
    return bool(ended or record["iterations"] >= trial.options.max_iterations)


def outcome(record: Record) -> str:
    """How a trial ended, in words."""
    end = "learned" if record["learned"] else f"not learned, accuracy {record['accuracy']:.4f}"
    end = "diverged" if record["diverged"] else end
    return f"{end} after {record['iterations']:,} iterations ({record['seconds']:.1f} s)"


def check(trials: Sequence[Trial]) -> None:
    """Builds one network of each model, so that a mistake costs no training."""
    with as_input_error():
        for trial in {trial.model: trial for trial in trials}.values():
            fresh_network(trial)


def fresh_network(trial: Trial) -> nn.Module:
    """The network of a trial before training, initialised from its seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        return trial.network().to(trial.device)


def trained_network(trial: Trial, folder: Path) -> Any:
    """The network of a trial as its checkpoint has it, on the CPU, in evaluation mode."""
    network = fresh_network(trial)
    path = folder / CHECKPOINT
    with naming_damage(path, folder):
        content = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(content["network"])
    return network.eval()
