"""Times training on molecules, batch by batch, beside its matrix products alone."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import lightning.pytorch as lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness.devices import now, torch_device
from benchmarks.harness.errors import InputError
from benchmarks.harness.training import quieten_lightning
from benchmarks.molecules.data import Split, load_set
from benchmarks.molecules.models import Model, models_of
from benchmarks.molecules.options import Options
from benchmarks.speed.timing import Row, Step, medians, multiply, seconds_of
from pyg_kernels.molecules import NETWORKS, training
from pyg_kernels.molecules.methods import Task, standardization

BATCH_SIZE = 128
CLIP = 5.0  # the largest norm of the gradient; the benchmark's default
WARM_BATCHES = 2  # not recorded: the ops' kernels are compiled in these
Product = tuple[tuple[int, ...], tuple[int, ...]]  # the shapes of the two factors


class RecordProducts(FlopCounterMode):
    """Records the factors' shapes of every dense matrix product, forward and backward."""

    def __init__(self) -> None:
        self.products: list[Product] = []
        operators = torch.ops.aten
        named = (operators.mm, operators.addmm, operators.bmm, operators.baddbmm)
        super().__init__(display=False, custom_mapping=dict.fromkeys(named, self._note))

    def _note(self, *shapes: Any, out_shape: Any = None, **others: Any) -> int:
        factors = [tuple(shape) for shape in shapes if isinstance(shape, torch.Size)][-2:]
        product = factors[0], factors[1]
        if flop(product):
            self.products.append(product)
        return flop(product)


def flop(product: Product) -> int:
    """The number of multiplications and additions of a product."""
    return 2 * math.prod(product[0]) * product[1][-1]


def products_alone(products: Sequence[Product], device: torch.device) -> Step:
    """A step that computes products of these shapes with random factors."""
    random = partial(torch.randn, device=device)
    return multiply([(random(left), random(right)) for left, right in products])


class BatchClock(Callback):
    """Times each batch: loader, network, loss, backward, clipping, Adam, schedule and Trainer."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.molecules: list[int] = []

    def on_train_epoch_start(self, trainer: Any, pl_module: lightning.LightningModule) -> None:
        self._started = now(pl_module.device)  # before the loader makes its first batch

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        ended = now(pl_module.device)
        self.seconds.append(ended - self._started)
        self.molecules.append(batch.num_graphs)
        self._started = ended


def check_networks(names: Iterable[str]) -> None:
    """Raises an error for models that are not networks trained on batches."""
    for name in names:
        if name not in NETWORKS:
            raise InputError(f"--models {name}: expected one of {', '.join(NETWORKS)}")


def comparison(options: Options) -> tuple[Split, list[Model]]:
    """The molecules and the networks of a comparison on one set."""
    (data,) = options.data
    split = load_set(data, options).split("random", None)
    return split, models_of(options, split, data)


def train_batches(
    split: Split,
    model: Model,
    callback: Callback,
    num_batches: int | None = None,
    device: str = "cpu",
    batch_size: int = BATCH_SIZE,
) -> None:
    """Trains a fresh network on the first batches of its first epoch, and discards it.

    Equal arguments give equal weights and equal batches.
    """
    quieten_lightning()
    lightning.seed_everything(0, verbose=False)
    learner, batches = _prepared(split, model, batch_size)
    trainer = lightning.Trainer(
        **training.trainer_devices(torch_device(device)),
        precision="32-true",
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


def _prepared(split: Split, model: Model, batch_size: int) -> tuple[Any, Any]:
    """The learner that the package trains, and the batches of the training part."""
    arguments, train, y = model.arguments, split.parts["train"], split.data.targets
    task, featurizer = Task("regression", y.shape[1]), arguments["featurizer"]
    sizes = {name: arguments[name] for name in ("hidden_channels", "num_layers", "dropout")}
    options = training.TrainingOptions(epochs=1, batch_size=batch_size)
    network = training.TrainedNetwork(model.kind, task, featurizer, sizes, options)
    weight = np.ones(len(y))
    mean, std = standardization(y[train], task, weight[train])
    batches = training.MoleculeBatches(
        split.data.molecules,
        featurizer,
        (y - mean) / std,
        weight,
        indices=torch.from_numpy(train),
        batch_size=batch_size,
        shuffle=True,
        drop_last=len(train) % batch_size == 1,
    )
    return training.Learner(network.build(0), task, options), batches


def measure_epochs(
    names: tuple[str, ...], device_name: str, num_rounds: int, limit: float
) -> list[Row]:
    """Times an epoch of each network, and its products alone, in interleaved rounds.

    Every round trains each network once, from the same weights on the same batches. The first does
    not count.
    """
    check_networks(names)
    split, models = comparison(Options(model=names))
    device = torch_device(device_name)

    def seconds_of_epoch(model: Model) -> float:
        clock = BatchClock()
        train_batches(split, model, clock, device=device_name)
        return sum(clock.seconds)

    recordings, timers = [], []
    for model in models:
        train_batches(split, model, BatchClock(), WARM_BATCHES, device_name)
        counted = BatchClock()
        with RecordProducts() as recording:
            train_batches(split, model, counted, device=device_name)
        recordings.append(recording)
        timers.append(partial(seconds_of_epoch, model))
        timers.append(partial(seconds_of, products_alone(recording.products, device), device))
    seconds = medians(timers, num_rounds, limit, warm=1)
    batches, molecules = len(counted.molecules), sum(counted.molecules)
    rows = []
    times = zip(seconds[::2], seconds[1::2], strict=True)
    for model, recording, (whole, products) in zip(models, recordings, times, strict=True):
        gigaflop = sum(map(flop, recording.products)) / 1e9
        row = {
            "name": model.name,
            "parameters": model.num_parameters,
            "batches": batches,
            "molecules": molecules,
            "milliseconds": 1e3 * whole / batches,
            "molecules_a_second": molecules / whole,
            "products_milliseconds": 1e3 * products / batches,
            "over_products": whole / products,
            "gigaflop_a_second": gigaflop / whole,
            "products_gigaflop_a_second": gigaflop / products,
        }
        rows.append(row)
    return rows
