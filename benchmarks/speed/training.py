"""Batches of the molecule benchmark trained as the benchmark trains them, under a clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from benchmarks.harness.devices import trainer_devices
from benchmarks.harness.errors import InputError
from benchmarks.harness.flags import parsed
from benchmarks.harness.training import quieten_lightning
from benchmarks.molecules.data import Split, load_set
from benchmarks.molecules.models import Model, models_of
from benchmarks.molecules.options import Options
from benchmarks.speed.timing import synchronise
from pyg_kernels.molecules import NETWORKS
from pyg_kernels.molecules.methods import Task, standardization
from pyg_kernels.molecules.training import (
    Learner,
    MoleculeBatches,
    TrainedNetwork,
    TrainingOptions,
)

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


def comparison(words: Sequence[str]) -> tuple[Split, list[Model]]:
    """The molecules and the networks of a command line of ``benchmarks.molecules``.

    Raises:
        InputError: If molecules cannot be read, or a model is no network.
    """
    options, _ = parsed(Options, "benchmarks.speed", "", "", words)
    for name in options.model:
        if name not in NETWORKS:
            raise InputError(f"--model {name}: expected one of {', '.join(NETWORKS)}")
    (data,) = options.data
    split = load_set(data, options).split("random", None)
    return split, models_of(options, split, data)


def train_batches(
    split: Split,
    model: Model,
    batch_size: int,
    callback: Callback,
    num_batches: int | None = None,
    device: str = "cpu",
    precision: str = "32-true",
) -> None:
    """Trains a fresh network on the first batches of its first epoch; keeps nothing.

    Equal arguments give equal weights and equal batches.

    Args:
        split: The molecules.
        model: The network.
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
    learner, batches = _prepared(split, model, batch_size)
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
    trainer.fit(learner, batches)


def _prepared(split: Split, model: Model, batch_size: int) -> tuple[Learner, MoleculeBatches]:
    """What the package trains, and the batches of the training part."""
    arguments, train, y = model.arguments, split.parts["train"], split.data.targets
    task, featurizer = Task("regression", y.shape[1]), arguments["featurizer"]
    sizes = {name: arguments[name] for name in ("hidden_channels", "num_layers", "dropout")}
    options = TrainingOptions(epochs=1, batch_size=batch_size)
    network = TrainedNetwork(model.kind, task, featurizer, sizes, options)
    weight = np.ones(len(y))
    mean, std = standardization(y[train], task, weight[train])
    batches = MoleculeBatches(
        split.data.molecules,
        featurizer,
        (y - mean) / std,
        weight,
        indices=torch.from_numpy(train),
        batch_size=batch_size,
        shuffle=True,
        drop_last=len(train) % batch_size == 1,
    )
    return Learner(network.build(0), task, options), batches


def _now(module: lightning.LightningModule) -> float:
    synchronise(module.device)
    return time.perf_counter()
