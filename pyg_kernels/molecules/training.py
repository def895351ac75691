"""Networks as members of an estimator: trained by Lightning, weights of the best epoch."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import lightning.pytorch as lightning
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch_geometric.data import Batch
from tqdm import tqdm

from pyg_kernels.datasets import MoleculeLoader, UniformBins
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.methods import Examples, Method, Outputs, Task, standardization
from pyg_kernels.molecules.networks import MoleculeNet, Sizes, build_network

EPOCHS = 60  # at most
LOGGER = logging.getLogger(__name__)
WARMUP = 0.05  # fraction of all steps over which the learning rate rises from 0
FINAL_FRACTION = 0.01  # the cosine ends at this fraction of the learning rate
PREDICTED = 2048  # molecules a batch of a prediction
DECAY = 0.9  # of the exponential schedule, an epoch
PATIENCE = timedelta(days=30)  # for which processes wait for what one of them does alone


@dataclass(frozen=True)
class TrainingOptions:
    """How networks are trained: Adam, gradients of a norm of at most 5.

    Several processes that ``torchrun`` started, and that call `fit` with the same arguments, train
    together: each computes its share of every batch, and all end with the same weights.

    Args:
        epochs: Epochs at most.
        batch_size: Molecules a batch, of all processes together.
        learning_rate: The highest one.
        patience: Epochs without a lower validation loss that end training; None: a third of
            `epochs`, at least 10.
        device: ``'cpu'``, ``'cuda'``, ``'cuda:1'``; None: CUDA where there is one.
        progress: Whether to show a bar; None: on a terminal.
        schedule: ``'cosine'``: a warm-up and a cosine down to 1% of the learning rate;
            ``'exponential'``: times 0.9 each epoch.
        resample: The width of bins of the target that are drawn equally often
            (:class:`~pyg_kernels.datasets.UniformBins`); None: each molecule once an epoch.
    """

    epochs: int = EPOCHS
    batch_size: int = 64
    learning_rate: float = 1e-3
    patience: int | None = None
    device: str | None = None
    progress: bool | None = None
    schedule: str = "cosine"
    resample: float | None = None

    def __post_init__(self) -> None:
        if self.schedule not in ("cosine", "exponential"):
            raise ValueError(f"schedule={self.schedule!r}: expected 'cosine' or 'exponential'")

    def torch_device(self) -> torch.device:
        """The device of training and prediction; of several processes, this one's."""
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type == "cuda" and share_of_batches()[1] > 1:
            return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        return device


def share_of_batches() -> tuple[int, int]:
    """The rank of this process and the number of those that ``torchrun`` started; else 0 and 1."""
    number = int(os.environ.get("WORLD_SIZE", "1"))
    return (int(os.environ["RANK"]) if number > 1 else 0), number


def trainer_devices(device: torch.device) -> dict[str, Any]:
    """Lightning's arguments for a device, and for the processes that train together."""
    kind = "gpu" if device.type == "cuda" else device.type
    if share_of_batches()[1] == 1:
        return {"accelerator": kind, "devices": [device.index or 0] if kind == "gpu" else 1}
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    backend = "nccl" if kind == "gpu" else "gloo"
    return {
        "accelerator": kind,
        "devices": here,
        "num_nodes": share_of_batches()[1] // here,
        "strategy": DDPStrategy(process_group_backend=backend, timeout=PATIENCE),
        "sync_batchnorm": kind == "gpu",  # PyTorch has it on CUDA devices alone
        "use_distributed_sampler": False,
    }


class MoleculeBatches(MoleculeLoader):
    """Batches with extra columns, and, where they are given, targets and weights.

    Args:
        molecules: M molecules.
        featurizer: As of :class:`MoleculeRegressor`.
        y: ``(M, T)`` on the scale of training, NaN where one is missing.
        weight: ``(M,)``.
        **options: Of :class:`MoleculeLoader`.
    """

    def __init__(
        self,
        molecules: Molecules,
        featurizer: Any,
        y: NDArray[np.float64] | None = None,
        weight: NDArray[np.float64] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(molecules.dataset(featurizer), **options)
        self.extra = torch.from_numpy(molecules.extra).float()
        self.y = None if y is None else torch.from_numpy(y).float()
        self.weight = None if weight is None else torch.from_numpy(weight).float()

    def assemble(self, indices: Tensor) -> Batch:
        """This process's share of the batch of the molecules at these positions.

        ``total`` is the weight of what was measured in the whole batch, over the number of
        processes: the mean of their gradients is then that of the whole batch.
        """
        rows, own = self.share.of(indices)
        batch = self.dataset.batch(rows)
        batch.extra = self.extra[rows]
        if self.y is not None and self.weight is not None:
            batch.y, batch.weight = self.y[rows], self.weight[rows].clone()
            batch.weight[own:] = 0.0  # stand-ins
            whole = (~self.y[indices].isnan()).float().sum(1) @ self.weight[indices]
            batch.total = whole / self.share.number
        return batch


class Learner(lightning.LightningModule):
    """What Lightning trains: squared errors, or cross-entropies, of what was measured.

    Args:
        net: The network.
        task: What it learns.
        options: How.
    """

    def __init__(self, net: MoleculeNet, task: Task, options: TrainingOptions) -> None:
        super().__init__()
        self.net, self.task, self.options = net, task, options
        self.train_sums, self.valid_sums = torch.zeros(2), torch.zeros(2)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The weighted sum of a batch's losses, and of the weights of what was measured."""
        out, y = self.net(batch), batch.y
        measured = ~y.isnan()
        known = torch.where(measured, y, 0.0)
        if self.task.kind == "regression":
            each = (out - known).square()
        elif self.task.kind == "binary":
            each = F.binary_cross_entropy_with_logits(out, known, reduction="none")
        else:
            each = F.cross_entropy(out, known[:, 0].long(), reduction="none")[:, None]
        weight = measured * batch.weight[:, None]
        return torch.where(measured, each, 0.0).mul(weight).sum(), weight.sum()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The mean loss of a batch."""
        loss, weight = self.losses(batch)
        self.train_sums += torch.stack([loss.detach(), weight]).cpu()
        return loss / batch.total.clamp(min=torch.finfo(weight.dtype).tiny)

    def on_train_epoch_start(self) -> None:
        """Forgets the epoch before."""
        self.train_sums = torch.zeros(2)

    def on_validation_epoch_start(self) -> None:
        """Forgets the epoch before."""
        self.valid_sums = torch.zeros(2)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation loss."""
        self.valid_sums += torch.stack(self.losses(batch)).cpu()

    def mean_losses(self) -> list[float]:
        """Of the epoch's training batches and of the validation part, over all processes; 0 of what
        was not measured.
        """
        sums = torch.stack([self.train_sums, self.valid_sums]).double().to(self.device)
        if self.trainer.world_size > 1:
            sums = self.trainer.strategy.reduce(sums, reduce_op="sum")
        loss, weight = sums.t()
        return torch.where(weight > 0, loss / weight, 0.0).tolist()

    def configure_optimizers(self) -> Any:
        """Adam and its schedule."""
        adam = torch.optim.Adam(self.parameters(), lr=self.options.learning_rate)
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        an_epoch = max(1, steps // max(1, self.trainer.max_epochs or 1))
        factor = cosine(steps)
        if self.options.schedule == "exponential":
            factor = lambda step: DECAY ** (step // an_epoch)  # noqa: E731
        return [adam], [{"scheduler": LambdaLR(adam, factor), "interval": "step"}]


def cosine(num_steps: int) -> Callable[[int], float]:
    """The factor on the learning rate at each step: a rise, then half a cosine down to 1%."""
    warmup = math.ceil(WARMUP * num_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, num_steps - warmup))
        return FINAL_FRACTION + (1 - FINAL_FRACTION) * 0.5 * (1 + math.cos(math.pi * done))

    return factor


class KeepBest(Callback):
    """Keeps the weights of the lowest validation loss, ends training without a lower one.

    Args:
        patience: Epochs without a lower one.
        bar: What shows the epochs.

    Attributes:
        history: Of each epoch its number from 1, mean losses of training and validation, seconds of
            training.
    """

    def __init__(self, patience: int, bar: tqdm[Any]) -> None:
        self.patience, self.bar = patience, bar
        self.lowest, self.epoch = math.inf, -1
        self.state: dict[str, Any] = {}
        self.history: list[dict[str, float]] = []
        self.started = self.seconds = 0.0

    def on_train_epoch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Starts the clock."""
        self.started = time.perf_counter()

    def on_validation_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Stops the clock."""
        self.seconds = time.perf_counter() - self.started

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Compares the epoch with the best one."""
        assert isinstance(pl_module, Learner)
        train_loss, loss = pl_module.mean_losses()
        epoch = {"epoch": trainer.current_epoch + 1, "train_loss": train_loss, "valid_loss": loss}
        self.history.append({**epoch, "seconds": self.seconds})
        if not math.isfinite(loss):
            raise ValueError(
                f"the validation loss of {pl_module.net.name} is {loss} after epoch "
                f"{trainer.current_epoch + 1}: lower the learning rate of "
                f"{pl_module.options.learning_rate}"
            )
        if loss < self.lowest or not loss:  # nothing measured: the last epoch
            self.lowest, self.epoch = loss, trainer.current_epoch
            self.state = copy.deepcopy(pl_module.net.state_dict())
        self.bar.set_postfix_str(f"validation loss {loss:.4f}, lowest {self.lowest:.4f}")
        self.bar.update()
        if trainer.current_epoch - self.epoch >= self.patience:
            trainer.should_stop = True


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's tips and its advice on data loaders, which do not apply."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class TrainedNetwork(Method):
    """A network that is trained on standardized targets, or on classes.

    Args:
        model: As of :func:`build_network`.
        task: What it learns.
        featurizer: As of :class:`MoleculeRegressor`.
        sizes: The options of :class:`Sizes` that were given.
        options: How it is trained.
    """

    def __init__(
        self,
        model: str,
        task: Task,
        featurizer: Any,
        sizes: dict[str, Any],
        options: TrainingOptions,
    ) -> None:
        super().__init__(model, task, featurizer)
        self.sizes, self.options = sizes, options
        self.net: Any = None
        self.start: MoleculeNet | None = None
        self.frozen = False
        self.history: list[dict[str, float]] = []

    def start_from(self, other: Method, frozen: bool) -> None:
        """Makes :meth:`fit` start with the weights of another network."""
        assert isinstance(other, TrainedNetwork)
        self.start, self.frozen = other.net, frozen

    def told(self) -> dict[str, Any]:
        """Sizes, options, and the weights that training starts with."""
        weights = {} if self.start is None else self.start.state_dict()
        start = {name: value.numpy(force=True) for name, value in weights.items()}
        options = {**vars(self.options), "progress": None}
        return {**super().told(), **self.sizes, **options, "start": start, "frozen": self.frozen}

    def build(self, num_extra: int) -> MoleculeNet:
        """The network for these features and extra columns, with fresh weights."""
        made = featurizer_by_name(self.featurizer)
        sizes = Sizes(made.atom_dim, self.task.num_outputs, made.bond_dim, **self.sizes)
        return MoleculeNet(build_network(self.model, sizes), num_extra, self.model)

    def fit(self, examples: Examples) -> None:
        """Trains on one part, keeps the weights that are best on the other."""
        options, device = self.options, self.options.torch_device()
        train, weight, seed = examples.train, examples.weight, examples.seed
        train = train[weight[train] > 0]  # others would count in batches' means and variances
        self.mean, self.std = standardization(examples.y[train], self.task, weight[train])
        batches = partial(
            MoleculeBatches,
            examples.molecules,
            self.featurizer,
            (examples.y - self.mean) / self.std,
            weight,
            batch_size=options.batch_size,
            share=share_of_batches(),
        )
        alone = len(train) % options.batch_size == 1 and len(train) > 1
        loader = batches(
            indices=torch.from_numpy(train),
            shuffle=True,
            seed=seed,
            drop_last=alone,
            bins=self._bins(examples.y[train]),
            smallest_share=2,  # of one, batch normalization has no variance
        )
        held = batches(indices=torch.from_numpy(examples.valid))
        cuda = [device] if device.type == "cuda" else []
        bar = tqdm(
            total=options.epochs,
            desc=f"{self.model}, epochs",
            disable=None if options.progress is None else not options.progress,
        )
        with torch.random.fork_rng(cuda), _quiet(), bar:
            torch.manual_seed(seed)
            net = self.build(len(examples.molecules.columns))
            if self.start is not None:
                net.start_from(self.start, self.frozen)
                self.start = None
            learner = Learner(net, self.task, options)
            patience = options.patience or max(10, options.epochs // 3)
            best = KeepBest(patience, bar)
            trainer = lightning.Trainer(
                **trainer_devices(device),
                max_epochs=options.epochs,
                gradient_clip_val=5.0,
                callbacks=[best],
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
            )
            try:
                trainer.fit(learner, loader, held)
            except SystemExit:  # Lightning's answer to an interrupt
                raise KeyboardInterrupt from None
        if trainer.current_epoch < options.epochs:
            LOGGER.info(
                "%s stopped early, after epoch %d of %d: no validation loss below %.4f, that of "
                "epoch %d, in %d epochs",
                self.model, trainer.current_epoch, options.epochs, best.lowest, best.epoch + 1,
                patience,
            )  # fmt: skip
        self.net, self.history = learner.net, best.history
        self.net.load_state_dict(best.state)
        self.net.to(device).eval()

    def _bins(self, y: NDArray[np.float64]) -> UniformBins | None:
        """Bins of the training part's target."""
        if self.options.resample is None:
            return None
        if self.task.kind != "regression" or y.shape[1] > 1:
            raise ValueError(f"resample={self.options.resample}: expected one target of regression")
        return UniformBins(torch.from_numpy(y[:, 0]), self.options.resample)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {f"net.{key}": value.cpu().numpy() for key, value in self.net.state_dict().items()}
        return {}, {**arrays, "mean": self.mean, "std": self.std}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.mean, self.std = arrays["mean"], arrays["std"]
        part = arrays.get("net.lin_extra.weight")
        self.net = self.build(0 if part is None else part.shape[1])
        start = "net."
        self.net.load_state_dict(
            {
                key.removeprefix(start): torch.from_numpy(np.array(value))
                for key, value in arrays.items()
                if key.startswith(start)
            }
        )
        self.net.to(self.options.torch_device()).eval()

    def outputs(self, molecules: Molecules) -> Outputs:
        return outputs_of([self], molecules)[0]

    def vectors(self, molecules: Molecules) -> NDArray[Any]:
        return self._on_batches(molecules, [lambda batch: self.net.vectors(batch)])[0]

    def _on_batches(
        self, molecules: Molecules, functions: Sequence[Callable[[Any], Tensor]]
    ) -> list[NDArray[Any]]:
        """What functions make of all molecules; each batch is assembled once."""
        device = self.options.torch_device()
        found: list[list[NDArray[Any]]] = [[] for _ in functions]
        with torch.inference_mode():
            for batch in MoleculeBatches(molecules, self.featurizer, batch_size=PREDICTED):
                on_device = batch.to(device)
                for function, rows in zip(functions, found, strict=True):
                    rows.append(function(on_device).cpu().numpy())
        return [np.concatenate(rows) for rows in found]


def outputs_of(networks: Sequence[TrainedNetwork], molecules: Molecules) -> list[Outputs]:
    """Predictions of several networks with the same features."""
    if not networks:
        return []
    functions = [lambda batch, net=network.net: net(batch) for network in networks]
    found = networks[0]._on_batches(molecules, functions)
    return [network.in_units(raw) for network, raw in zip(networks, found, strict=True)]
