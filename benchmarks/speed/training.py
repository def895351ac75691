"""Batches of the molecule benchmark trained as the benchmark trains them, under a clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import Callback

from benchmarks.harness.devices import trainer_devices
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.molecules.models import MODELS
from benchmarks.harness.task import Task
from benchmarks.harness.training import quieten_lightning
from benchmarks.speed.timing import synchronise

CLIP = 5.0  # the largest norm of the gradient, as by default in the benchmark


class BatchClock(Callback):
    """Times batch by batch: loader, network, loss, backward, clipping, Adam, schedule, Trainer.

    Attributes:
        seconds: Of each batch.
        molecules: In each batch.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.molecules: list[int] = []
        self._started = 0.0

    def on_train_epoch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Starts the clock before the loader makes its first batch."""
        self._started = _now(pl_module)

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Stops the clock, and starts it again after what is to be done between batches."""
        self.seconds.append(_now(pl_module) - self._started)
        self.molecules.append(batch.num_graphs)
        self.between(batch_idx, pl_module.device)
        self._started = _now(pl_module)

    def between(self, batch_idx: int, device: torch.device) -> None:
        """What is done after a batch, off the clock: nothing, unless a subclass says otherwise."""


def check_networks(names: Iterable[str]) -> None:
    """Refuses models that are no networks trained on batches.

    Raises:
        InputError: If there is no such network.
    """
    networks = [name for name, kind in MODELS.items() if kind.trained]
    for name in names:
        if name not in networks:
            raise InputError(f"--model {name}: expected one of {', '.join(networks)}")


def train_batches(
    task: Task,
    model: Any,
    batch_size: int,
    callback: Callback,
    num_batches: int | None = None,
    device: str = "cpu",
    precision: str = "32-true",
) -> None:
    """Trains an untrained network on the first batches of its first epoch; keeps nothing.

    Equal arguments give equal weights and equal batches.

    Args:
        task: What is learned.
        model: The configuration of the network.
        batch_size (int): Molecules a batch.
        callback: What looks on.
        num_batches (int, optional): How many batches at most; ``None``: the whole epoch.
        device (str): As in the benchmark.
        precision (str): Lightning's name of a precision.

    Raises:
        InputError: If the device is not there.
    """
    quieten_lightning()
    lightning.seed_everything(0, verbose=False)
    learner = task.learner(model, OptimizerConfig())
    batches = task.batches(learner, batch_size, seed=0)
    trainer = lightning.Trainer(
        **trainer_devices(device),
        precision=precision,  # type: ignore[arg-type]
        max_epochs=1,
        limit_train_batches=num_batches or 1.0,
        limit_val_batches=0,
        gradient_clip_val=CLIP,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(learner, datamodule=batches)


def _now(module: lightning.LightningModule) -> float:
    synchronise(module.device)
    return time.perf_counter()
