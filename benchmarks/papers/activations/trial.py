"""One network, one seed: trained until it has learned, with a checkpoint every minute."""

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.checkpoint import UNREADABLE
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.sizes import num_parameters
from benchmarks.harness.study import Record

CHECKPOINT = "checkpoint.pt"
CHECKPOINT_SECONDS = 60.0  # what an interruption costs at most
TEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Trial(ABC):
    """What is trained and when it is learned."""

    options: Any  # of the experiment
    device: str  # A name that torch knows
    model: str  # the network
    seed: int  # of the weights and of the training data
    # what else tells it from others: sizes, function, length
    place: Mapping[str, Any] = field(default_factory=dict)

    stops = True  # with success, before the last iteration
    test_sequences = 0
    checked_every = 1

    @property
    def name(self) -> str:
        """The name of its folder."""
        words = [f"{name}-{value}" for name, value in self.place.items()]
        return "-".join([*words, self.model, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """What is shown of it."""
        words = [f"{name} {value}" for name, value in self.place.items()]
        return ", ".join([*words, self.model, f"seed {self.seed}"])

    @abstractmethod
    def network(self) -> nn.Module:
        """A network with fresh weights."""

    @abstractmethod
    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Fresh inputs and their targets."""

    def is_checked(self, iteration: int) -> bool:
        """Whether the test set is read after an iteration; after the last one it always is."""
        return iteration % self.checked_every == 0

    def test_set(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets that are the same for every seed."""
        generator = torch.Generator(self.device).manual_seed(TEST_SEED)
        return self.sequences(self.test_sequences, generator)

    def loss(self, network: nn.Module, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss, and what is minimised."""
        loss = nn.functional.binary_cross_entropy_with_logits(output, target)
        return loss, loss

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        """Which outputs are right, as booleans."""
        return (output > 0) == (target > 0.5)

    def is_learned(self, history: Sequence[Record]) -> bool:
        """Whether the checks so far show success."""
        return bool(history[-1]["accuracy"] == 1)

    def details(self, network: Any, history: Sequence[Record]) -> Record:
        """What the record says besides of the trained network and of its checks."""
        return {}


@dataclass
class Progress:
    """How far a trial has come."""

    iteration: int = 0  # iterations done
    seconds: float = 0.0  # what they took, with checks
    cpu_seconds: float = 0.0  # the same of the processor's time, which other programs do not change
    history: list[Record] = field(default_factory=list)  # one dictionary a check


class Training:
    """A trial with its network, optimiser, random generator and progress."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.trial = trial
        self.checkpoint = folder / CHECKPOINT
        self.network = fresh_network(trial)
        rate = trial.options.learning_rate
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate)
        self.generator = torch.Generator(trial.device).manual_seed(trial.seed)
        self.progress = Progress()
        self._test_set = trial.test_set()
        if self.checkpoint.exists():
            with _reading(self.checkpoint) as content:
                self.network.load_state_dict(content["network"])
                self.optimizer.load_state_dict(content["optimizer"])
                self.generator.set_state(content["generator"])
                self.progress = Progress(**content["progress"])

    def run(self) -> Record:
        """Trains to the end and gives the record."""
        trial, progress, most = self.trial, self.progress, self.trial.options.max_iterations
        saved = time.perf_counter()
        clock = time.perf_counter() - progress.seconds, time.process_time() - progress.cpu_seconds
        learned = bool(progress.history) and trial.is_learned(progress.history)
        while progress.iteration < most and not (learned and trial.stops):
            loss = self.iterate()
            checked = trial.is_checked(progress.iteration) or progress.iteration == most
            if checked:
                accuracy = self._accuracy(batch_statistics=True)
                check = {"iteration": progress.iteration, "loss": loss.item(), "accuracy": accuracy}
                progress.history.append(check)
                learned = trial.is_learned(progress.history)
            progress.seconds = time.perf_counter() - clock[0]
            progress.cpu_seconds = time.process_time() - clock[1]
            if time.perf_counter() - saved >= CHECKPOINT_SECONDS:
                self._save()
                saved = time.perf_counter()
            if checked and not math.isfinite(check["loss"]):
                break
        self._save()
        return self._record(learned)

    def iterate(self) -> Tensor:
        """One step of the optimiser; gives the loss before it."""
        trial = self.trial
        x, y = trial.sequences(getattr(trial.options, "batch_size", 0), self.generator)
        loss, minimised = trial.loss(self.network, self.network(x), y)
        self.optimizer.zero_grad()
        minimised.backward()
        if clip := getattr(trial.options, "clip", 0.0):
            nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self.optimizer.step()
        self.progress.iteration += 1
        return loss.detach()

    def _accuracy(self, batch_statistics: bool) -> float:
        """On the test set, normalised by its own statistics or the running ones."""
        network, (x, y) = copy.deepcopy(self.network).train(batch_statistics), self._test_set
        with torch.no_grad():
            return self.trial.right(network(x), y).double().mean().item()

    def _record(self, learned: bool) -> Record:
        progress, last = self.progress, self.progress.history[-1]
        return {
            **self.trial.place,
            "model": self.trial.model,
            "seed": self.trial.seed,
            "device": self.trial.device,
            "num_parameters": num_parameters(self.network),
            "learned": learned,
            "diverged": not math.isfinite(last["loss"]),
            "iterations": progress.iteration,
            "accuracy": last["accuracy"],
            "accuracy_running": self._accuracy(batch_statistics=False),
            "seconds": round(progress.seconds, 3),
            "cpu_seconds": round(progress.cpu_seconds, 3),
            **self.trial.details(self.network, progress.history),
            "history": progress.history,
        }

    def _save(self) -> None:
        content = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "progress": asdict(self.progress),
        }
        part = self.checkpoint.with_suffix(".part")
        torch.save(content, part)
        part.replace(self.checkpoint)


def trained(trial: Trial, folder: Path) -> Record:
    """The record of a trial, trained on one thread."""
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
    """Builds the first network of each model: a mistake costs no training."""
    with as_input_error():
        for trial in {trial.model: trial for trial in trials}.values():
            fresh_network(trial)


def fresh_network(trial: Trial) -> nn.Module:
    """The network of a trial before training, by its seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        return trial.network().to(trial.device)


def trained_network(trial: Trial, folder: Path) -> Any:
    """The network of a trial as its checkpoint has it, on the CPU, in evaluation mode."""
    network = fresh_network(trial)
    with _reading(folder / CHECKPOINT) as content:
        network.load_state_dict(content["network"])
    return network.eval()


@contextmanager
def _reading(path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        hint = "remove its folder to train this trial again"
        raise InputError(f"{path} is damaged; {hint}") from error
