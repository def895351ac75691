"""Networks as members of an estimator: trained by Lightning, with the weights of the best epoch."""

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
from lightning.pytorch.strategies import DDPStrategy
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR
from torch_geometric.data import Batch
from tqdm import tqdm

from pyg_kernels.checks import checked_choice
from pyg_kernels.datasets import MoleculeLoader, UniformBins
from pyg_kernels.molecules import methods
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.learning_rate import cosine
from pyg_kernels.molecules.methods import Examples, Method, Outputs, Task
from pyg_kernels.molecules.networks import MoleculeNet, build_network

EPOCHS = 60  # at most
LOGGER = logging.getLogger(__name__)
LOSSES = ("train_loss", "valid_loss")
TIPS = ("lightning.pytorch", "lightning.fabric")  # loggers whose tips on data loaders do not apply
PREDICTED = 2048  # molecules per batch in prediction
DECAY = 0.9  # factor per epoch of the exponential schedule
JOINED = 0.1  # weight of a joined target's error; those of its two parts have the weight 1
PATIENCE = timedelta(days=30)  # how long processes wait while one of them works alone


@dataclass(frozen=True)
class TrainingOptions:
    """How networks are trained: by Adam, with gradients clipped to a norm of at most 5.

    Processes that ``torchrun`` started and that call `fit` with the same arguments train together.
    Each computes its share of every batch, and all end with the same weights.

    Args:
        epochs: The largest number of epochs.
        batch_size: Molecules per batch, over all processes together.
        learning_rate: The highest learning rate of the schedule.
        patience: Training ends after so many epochs without a lower validation loss. None: a third
            of `epochs`, at least 10.
        device: ``'cpu'``, ``'cuda'``, ``'cuda:1'``; None: CUDA where there is one.
        progress: Whether to show a progress bar; None: only on a terminal.
        schedule: ``'cosine'``: a warm-up and a cosine down to 1% of the learning rate;
            ``'exponential'``: times 0.9 each epoch.
        resample: The width of bins of the target, each of which is drawn equally often
            (:class:`~pyg_kernels.datasets.UniformBins`). None: each molecule once per epoch.
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
        checked_choice(self.schedule, "schedule", ("cosine", "exponential"))

    def torch_device(self) -> torch.device:
        """The device of training and prediction; of several processes, this one's."""
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type == "cuda" and share_of_batches()[1] > 1:
            return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        return device


def share_of_batches() -> tuple[int, int]:
    """This process's rank and the number of processes that ``torchrun`` started; else 0 and 1."""
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

    Targets are ``(M, T)`` on the scale of training, NaN where one is missing, weights ``(M,)``.
    """

    def __init__(
        self, molecules: Molecules, featurizer: Any, y: Any = None, weight: Any = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(molecules.dataset(featurizer), **options)
        self.extra = torch.from_numpy(molecules.extra).float()
        self.y = None if y is None else torch.from_numpy(y).float()
        self.weight = torch.ones(len(molecules))
        if y is not None:  # only ratios matter; keeps them in the range of single precision
            self.weight = torch.from_numpy(weight / (weight.max(initial=0) or 1)).float()

    def assemble(self, indices: Tensor) -> Batch:
        """This process's share of the batch of the molecules at these positions.

        ``total`` is the weight of all measurements in the whole batch, divided by the number of
        processes. The mean of the processes' gradients is then the gradient of the whole batch.
        """
        rows, own = self.own_rows(indices)
        batch = self.dataset.batch(rows)
        batch.extra = self.extra[rows]
        if self.y is not None:
            batch.y, batch.weight = self.y[rows], self.weight[rows].clone()
            batch.weight[own:] = 0.0  # stand-ins
            whole = (~self.y[indices].isnan()).float().sum(1) @ self.weight[indices]
            batch.total = whole / self.number
        return batch


class Learner(lightning.LightningModule):
    """The Lightning module: its loss is squared errors or cross-entropies of measured targets.

    A target with a spike has a sum of three: the squared error elsewhere, the cross-entropy of
    whether it is elsewhere, and the squared error of the two joined. Validation uses only the last.
    """

    def __init__(
        self, net: MoleculeNet, task: Task, options: TrainingOptions, spikes: Sequence[float] = ()
    ) -> None:
        super().__init__()
        self.net, self.task, self.options = net, task, options
        self.spikes = torch.tensor(spikes, dtype=torch.float32)
        joined = task.num_outputs + np.arange(len(task.hurdles.targets))
        self.targets = [*self.spikes.isnan().nonzero()[:, 0].tolist(), *joined]
        self.sums = dict.fromkeys(LOSSES, torch.zeros(2))
        self.patience = options.patience or max(10, options.epochs // 3)
        self.lowest, self.best_epoch = math.inf, -1
        self.best: dict[str, Any] = {}
        self.history: list[dict[str, float]] = []
        self.bar: Any = None

    def losses(self, batch: Batch, part: str) -> tuple[Tensor, Tensor]:
        """The weighted sum of a batch's losses, and the sum of the weights of measured targets."""
        out, y = self.net(batch), batch.y
        if self.task.spikes:
            out, y = self._with_joined(out, y)
        measured = ~y.isnan()
        known = torch.where(measured, y, 0.0)
        if self.task.kind == "regression":
            each = (out - known).square()
        elif self.task.kind == "binary":
            each = F.binary_cross_entropy_with_logits(out, known, reduction="none")
        else:
            each = F.cross_entropy(out, known[:, 0].long(), reduction="none")[:, None]
        if self.task.spikes:
            flags = slice(len(self.spikes), self.task.num_outputs)
            logits, there = out[:, flags], known[:, flags]
            each[:, flags] = F.binary_cross_entropy_with_logits(logits, there, reduction="none")
            if part == LOSSES[1]:  # only of the targets themselves
                each, measured = each[:, self.targets], measured[:, self.targets]
            else:
                each[:, self.task.num_outputs :] *= JOINED
        weight = measured * batch.weight[:, None]
        loss, total = torch.where(measured, each, 0.0).mul(weight).sum(), weight.sum()
        self.sums[part] = self.sums[part] + torch.stack([loss.detach(), total]).cpu()
        return loss, total

    def _with_joined(self, out: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and targets, followed by the rejoined ones of the targets with a spike."""
        hurdles, number = self.task.hurdles.targets, len(self.spikes)
        spikes = self.spikes[hurdles].to(out.device)
        joined, _ = methods.joined_moments(out[:, hurdles], 0.0, out[:, number:].sigmoid(), spikes)
        whole = torch.where(y[:, number:] == 0, spikes, y[:, hurdles])
        return torch.cat([out, joined], 1), torch.cat([y, whole], 1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, total = self.losses(batch, LOSSES[0])
        return loss / batch.total.clamp(min=torch.finfo(total.dtype).tiny)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.losses(batch, LOSSES[1])

    def on_train_epoch_start(self) -> None:
        self.started = time.perf_counter()

    def on_validation_epoch_start(self) -> None:
        self.seconds = time.perf_counter() - self.started

    def on_validation_epoch_end(self) -> None:
        epoch, sums = self.trainer.current_epoch, torch.stack([*self.sums.values()]).double()
        if self.trainer.world_size > 1:
            sums = self.trainer.strategy.reduce(sums.to(self.device), reduce_op="sum")
        loss_sum, weight = sums.t()  # both 0 if nothing was measured
        means = torch.where(weight > 0, loss_sum / weight, 0.0).tolist()
        losses = dict(zip(LOSSES, means, strict=True))
        self.sums = dict.fromkeys(LOSSES, torch.zeros(2))
        loss = losses["valid_loss"]
        self.history.append({"epoch": epoch + 1, **losses, "seconds": self.seconds})
        if not math.isfinite(loss):
            raise ValueError(
                f"the validation loss of {self.net.name} is {loss} after epoch {epoch + 1}: lower "
                f"the learning rate of {self.options.learning_rate}"
            )
        if loss < self.lowest or not loss:  # 0 if nothing was measured: keeps the last epoch
            self.lowest, self.best_epoch = loss, epoch
            self.best = copy.deepcopy(self.net.state_dict())
        self.bar.set_postfix_str(f"validation loss {loss:.4f}, lowest {self.lowest:.4f}")
        self.bar.update()
        self.trainer.should_stop = epoch - self.best_epoch >= self.patience

    def configure_optimizers(self) -> Any:
        adam = torch.optim.Adam(self.parameters(), lr=self.options.learning_rate)
        if self.options.schedule == "exponential":
            return [adam], [ExponentialLR(adam, DECAY)]
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        return [adam], [{"scheduler": LambdaLR(adam, cosine(steps)), "interval": "step"}]


@contextmanager
def quiet(loggers: Sequence[str], module: str) -> Iterator[None]:
    """Silences what loggers say below errors, and the warnings of a module."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    for logger in levels:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=module)
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


class TrainedNetwork(Method):
    """A network that is trained on standardized targets, or on classes.

    `sizes` are further arguments of :func:`build_network`.
    """

    def __init__(
        self, model: str, task: Task, featurizer: Any, sizes: dict[str, Any], options: Any
    ) -> None:
        super().__init__(model, task, featurizer)
        self.sizes, self.options, self.frozen = sizes, options, False
        self.net: Any = None
        self.start: Any = None
        self.history: list[dict[str, float]] = []

    def start_from(self, other: TrainedNetwork, frozen: bool) -> None:
        """Makes :meth:`fit` start with the weights of another network."""
        self.start, self.frozen = other.net, frozen
        own, others = np.array(self.task.spikes), np.array(other.task.spikes)
        self.start_heads = np.array_equal(own, others, equal_nan=True)

    def told(self) -> dict[str, Any]:
        weights = {} if self.start is None else self.start.state_dict()
        start = {name: value.numpy(force=True) for name, value in weights.items()}
        options = {**vars(self.options), "progress": None, "joined": JOINED}
        return {**super().told(), **self.sizes, **options, "start": start, "frozen": self.frozen}

    def build(self, num_extra: int) -> MoleculeNet:
        """The network for these features and extra columns, with fresh weights."""
        made = featurizer_by_name(self.featurizer)
        channels = made.atom_dim, self.task.num_outputs, made.bond_dim
        net = build_network(self.model, *channels, **self.sizes)
        return MoleculeNet(net, num_extra, self.model)

    def fit(self, examples: Examples) -> None:
        options, device = self.options, self.options.torch_device()
        train, weight, seed = examples.train, examples.weight, examples.seed
        train = train[weight[train] > 0]  # others would count in batch normalization
        self.mean, self.std = methods.standardization(examples.y[train], self.task, weight[train])
        if self.task.spikes:  # flags (elsewhere or not) are classes
            self.mean[len(self.task.spikes) :], self.std[len(self.task.spikes) :] = 0, 1
        batches = partial(
            MoleculeBatches,
            examples.molecules,
            self.featurizer,
            (examples.y - self.mean) / self.std,
            weight,
            batch_size=options.batch_size,
            share=share_of_batches(),
        )
        loader = batches(
            indices=torch.from_numpy(train),
            shuffle=True,
            seed=seed,
            drop_last=len(train) % options.batch_size == 1 and len(train) > 1,
            bins=self._bins(examples.y[train]),
            smallest_share=2,  # batch normalization has no variance for one molecule
        )
        held = batches(indices=torch.from_numpy(examples.valid))
        bar = tqdm(
            total=options.epochs,
            desc=f"{self.model}, epochs",
            disable=None if options.progress is None else not options.progress,
        )
        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(cuda), quiet(TIPS, "lightning"), bar:
            torch.manual_seed(seed)
            net = self.build(len(examples.molecules.columns))
            if self.start is not None:
                net.start_from(self.start, self.frozen, self.start_heads)
                self.start = None
            number = len(self.task.spikes)
            spikes = (np.array(self.task.spikes) - self.mean[:number]) / self.std[:number]
            learner = Learner(net, self.task, options, spikes.tolist())
            learner.bar = bar
            trainer = lightning.Trainer(
                **trainer_devices(device),
                max_epochs=int(options.epochs),
                gradient_clip_val=5.0,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
            )
            try:
                trainer.fit(learner, loader, held)
            except SystemExit:  # what Lightning raises on an interrupt
                raise KeyboardInterrupt from None
        if trainer.current_epoch < options.epochs:
            LOGGER.info(
                f"{self.model} stopped early, after epoch {trainer.current_epoch} of "
                f"{options.epochs}: no validation loss below {learner.lowest:.4f}, that of epoch "
                f"{learner.best_epoch + 1}, in {learner.patience} epochs"
            )
        self.net, self.history = net, learner.history
        self.net.load_state_dict(learner.best)
        self.net.to(device).eval()

    def _bins(self, y: NDArray[np.float64]) -> UniformBins | None:
        """Bins of the training part's target."""
        if self.options.resample is None:
            return None
        if self.task.kind != "regression" or y.shape[1] > 1:
            raise ValueError(f"resample={self.options.resample}: expected one target of regression")
        return UniformBins(torch.from_numpy(y[:, 0]), self.options.resample)

    def state(self) -> dict[str, NDArray[Any]]:
        weights = {
            f"net.{key}": value.cpu().numpy() for key, value in self.net.state_dict().items()
        }
        return {**weights, "mean": self.mean, "std": self.std}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.mean, self.std = arrays["mean"], arrays["std"]
        extra = arrays.get("net.lin_extra.weight", np.zeros((0, 0)))
        with torch.random.fork_rng(devices=[]):  # the drawn weights are replaced below
            self.net = self.build(extra.shape[1])
        weights = {key: torch.from_numpy(arrays[f"net.{key}"]) for key in self.net.state_dict()}
        self.net.load_state_dict(weights)
        self.net.to(self.options.torch_device()).eval()

    def outputs(self, molecules: Molecules) -> Outputs:
        return self.together([self], molecules)[0]

    def together(self, networks: Sequence[TrainedNetwork], molecules: Molecules) -> list[Outputs]:
        """Predictions of several networks with the same features; each batch is assembled once."""
        found = self._on_batches(molecules, [network.net for network in networks])
        return [network.in_units(raw) for network, raw in zip(networks, found, strict=True)]

    def in_units(self, raw: NDArray[Any]) -> Outputs:
        found = super().in_units(raw)
        self.with_shares(found.mean, expit)
        return found

    def with_shares(self, mean: Any, sigmoid: Callable[[Any], Any]) -> None:
        """Turns the logits of whether targets with a spike are elsewhere into probabilities."""
        if number := len(self.task.spikes):
            mean[:, number:] = sigmoid(mean[:, number:])

    def vectors(self, molecules: Molecules) -> NDArray[Any]:
        return self._on_batches(molecules, [self.net.vectors])[0]

    def _on_batches(
        self, molecules: Molecules, functions: Sequence[Callable[[Any], Tensor]]
    ) -> list[NDArray[Any]]:
        device = self.options.torch_device()
        found = []
        with torch.inference_mode():
            for batch in MoleculeBatches(molecules, self.featurizer, batch_size=PREDICTED):
                on_device = batch.to(device)
                found.append([function(on_device).cpu().numpy() for function in functions])
        return [np.concatenate(rows) for rows in zip(*found, strict=True)]
