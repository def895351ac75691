"""One network, one seed: trained until it has learned, resumable at any iteration."""

import json
import math
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.activations.setting import Optimization, Units
from benchmarks.harness.checkpoint import DAMAGE
from benchmarks.harness.errors import InputError
from benchmarks.harness.files import write_text

CHECKPOINT_SECONDS = 60.0  # what an interruption costs at most
RIGHT_BATCHES = 10  # so many batches in a row without an error are learned, in training
TEST_SEED = 2**31 - 1

Tell = Callable[[str, dict[str, Any]], None]


class StoppedError(Exception):
    """A trial was asked to stop; it has written its checkpoint."""


@dataclass(frozen=True)
class Trial(ABC):
    """What is trained and when it is learned.

    Args:
        model (str): The network.
        seed (int): Of the weights and of the training data.
        units: The learned activations.
        optimization: How it is trained.
        most (int): Iterations at most.
        device (str): A name that torch knows.
    """

    model: str
    seed: int
    units: Units
    optimization: Optimization
    most: int
    device: str

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its files."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is shown of it."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it has in common with trials whose iterations take as long."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """How its record begins."""

    @abstractmethod
    def network(self) -> nn.Module:
        """A network with fresh weights, which has ``l1()``."""

    @abstractmethod
    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Fresh inputs and their targets."""

    @abstractmethod
    def test_set(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets that are the same for every seed."""

    @abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss."""

    @abstractmethod
    def right(self, output: Tensor, target: Tensor) -> Tensor:
        """Which outputs are right, as booleans."""

    @abstractmethod
    def is_checked(self, iteration: int) -> bool:
        """Whether the test set is read after an iteration; after the last one it always is."""

    @abstractmethod
    def is_learned(self, history: list[dict[str, Any]]) -> bool:
        """Whether the checks so far show success."""

    @property
    def stops(self) -> bool:
        """Whether training ends with success, before the last iteration."""
        return True

    def details(self, network: nn.Module, history: list[dict[str, Any]]) -> dict[str, Any]:
        """What the record says besides of the trained network and of its checks."""
        return {}


@dataclass
class Progress:
    """How far a trial has come.

    Args:
        iteration (int): Iterations done.
        seconds (float): What they took, with checks.
        cpu_seconds (float): The same of the processor's time, which other programs do not change.
        history: One dictionary a check.
        right_batches (int): Training batches in a row without an error.
        iterations_training (int, optional): After which :data:`RIGHT_BATCHES` were reached.
    """

    iteration: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    right_batches: int = 0
    iterations_training: int | None = None


class _Clock:
    """Adds the time from now on to that of a progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._starts = [
            progress.seconds - time.perf_counter(),
            progress.cpu_seconds - time.process_time(),
        ]

    def read(self) -> None:
        self._progress.seconds = self._starts[0] + time.perf_counter()
        self._progress.cpu_seconds = self._starts[1] + time.process_time()


class Training:
    """A trial with its network, optimiser, random generator and progress.

    Args:
        trial: What is trained.
        folder (Path): Where its record and checkpoint lie.
    """

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.trial = trial
        self.record_path = folder / f"{trial.name}.json"
        self.checkpoint_path = folder / f"{trial.name}.pt"
        self.network = fresh_network(trial)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=trial.optimization.learning_rate
        )
        self.generator = torch.Generator(trial.device).manual_seed(trial.seed)
        self.progress = Progress()
        self._test_set = trial.test_set()
        self._accuracies: list[Tensor] = []
        if self.checkpoint_path.exists():
            self._load()

    def run(self, stop: Callable[[], bool], tell: Tell) -> dict[str, Any]:
        """Trains to the end and writes the record.

        Args:
            stop: Asked before every iteration.
            tell: Told of every check.

        Raises:
            StoppedError: If told to stop, after a checkpoint was written.
        """
        trial, progress = self.trial, self.progress
        saved = time.perf_counter()
        clock = _Clock(progress)
        learned = bool(progress.history) and trial.is_learned(progress.history)
        while progress.iteration < trial.most and not (learned and trial.stops):
            if stop():
                clock.read()
                self._save()
                raise StoppedError(trial.title)
            self.iterate()
            if trial.is_checked(progress.iteration) or progress.iteration == trial.most:
                check = self._check()
                clock.read()
                tell(trial.name, check)
                if not math.isfinite(check["loss"]):
                    break
                learned = trial.is_learned(progress.history)
                if time.perf_counter() - saved >= CHECKPOINT_SECONDS:
                    self._save()
                    saved = time.perf_counter()
        self._save()
        record = self._record(learned)
        write_text(self.record_path, json.dumps(record, indent=1))
        return record

    def iterate(self) -> None:
        """One step of the optimiser."""
        trial, optimization = self.trial, self.trial.optimization
        x, y = trial.batch(self.generator)
        output = self.network(x)
        loss = trial.loss(output, y)
        total = loss + optimization.l1 * self.network.l1() if optimization.l1 else loss  # type: ignore[operator]
        self.optimizer.zero_grad()
        total.backward()
        if optimization.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), optimization.clip)
        self.optimizer.step()
        self.progress.iteration += 1
        self._loss = loss.detach()
        self._accuracies.append(trial.right(output.detach(), y).float().mean())

    def _check(self) -> dict[str, Any]:
        """The accuracy on the test set, and that of training since the last check."""
        progress = self.progress
        accuracies = torch.stack(self._accuracies).tolist()
        self._accuracies = []
        for k, accuracy in enumerate(accuracies):
            progress.right_batches = progress.right_batches + 1 if accuracy == 1 else 0
            if progress.right_batches >= RIGHT_BATCHES and progress.iterations_training is None:
                progress.iterations_training = progress.iteration - len(accuracies) + k + 1
        check = {
            "iteration": progress.iteration,
            "loss": self._loss.item(),
            "train_accuracy": sum(accuracies) / len(accuracies),
            "accuracy": self._test_accuracy(self.trial.optimization.batch_statistics),
        }
        progress.history.append(check)
        return check

    def _test_accuracy(self, batch_statistics: bool) -> float:
        """On the test set, normalised by its own statistics or the running ones; keeps those."""
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        self.network.train(batch_statistics)
        x, y = self._test_set
        with torch.no_grad():
            right = self.trial.right(self.network(x), y)
            for buffer, before in zip(self.network.buffers(), buffers, strict=True):
                buffer.copy_(before)
        self.network.train()
        return right.double().mean().item()

    def _record(self, learned: bool) -> dict[str, Any]:
        progress = self.progress
        last = progress.history[-1]
        return {
            **self.trial.identity(),
            "model": self.trial.model,
            "seed": self.trial.seed,
            "device": self.trial.device,
            "num_parameters": sum(p.numel() for p in self.network.parameters()),
            "learned": learned,
            "diverged": not math.isfinite(last["loss"]),
            "iterations": progress.iteration,
            "iterations_training": progress.iterations_training,
            "accuracy": last["accuracy"],
            "accuracy_running": self._test_accuracy(batch_statistics=False),
            "train_accuracy": last["train_accuracy"],
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
            "accuracies": self._accuracies,
            "progress": vars(self.progress),
        }
        part = self.checkpoint_path.with_suffix(".part")
        torch.save(content, part)
        part.replace(self.checkpoint_path)

    def _load(self) -> None:
        with naming_damage(self.checkpoint_path):
            content = torch.load(self.checkpoint_path, map_location="cpu", weights_only=True)
            self.network.load_state_dict(content["network"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.generator.set_state(content["generator"])
            self._accuracies = [one.to(self.trial.device) for one in content["accuracies"]]
            self.progress = Progress(**content["progress"])


def seconds_per_iteration(trial: Trial, iterations: int = 3) -> float:
    """What an iteration takes now, by a few of them on a fresh network."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(trial, Path(folder))
        training.iterate()
        started = time.perf_counter()
        for _ in range(iterations):
            training.iterate()
        if trial.device.startswith("cuda"):
            torch.cuda.synchronize(trial.device)
        return (time.perf_counter() - started) / iterations


def fresh_network(trial: Trial) -> nn.Module:
    """The network of a trial before training, by its seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        return trial.network().to(trial.device)


def trained_network(trial: Trial, folder: Path) -> nn.Module:
    """The network of a trial as its checkpoint has it, on the CPU, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        network = trial.network()
    path = folder / f"{trial.name}.pt"
    with naming_damage(path):
        content = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(content["network"])
    return network.eval()


def finished(trial: Trial, folder: Path) -> dict[str, Any] | None:
    """The record of a trial that need not go on, or ``None``."""
    path = folder / f"{trial.name}.json"
    if not path.exists():
        return None
    record = read_record(path)
    with naming_damage(path):
        ended = (record["learned"] and trial.stops) or record["diverged"]
        done = ended or record["iterations"] >= trial.most
    return record if done else None


def read_record(path: Path) -> dict[str, Any]:
    """A record that a trial has written.

    Raises:
        InputError: If it is damaged.
    """
    with naming_damage(path):
        return dict(json.loads(path.read_text(encoding="utf-8")))


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turns the errors of reading a trial's file into one that names it."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path} is damaged; remove it to train this trial again") from error
