"""One model, one seed: train, go back to the best epoch, predict every part; or fit at once.

Also the recording and display of a run while it trains.
"""

import io
import json
import logging
import math
import statistics
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from benchmarks.harness.checkpoint import naming_damage
from benchmarks.harness.devices import now, timed, torch_device
from benchmarks.harness.errors import InputError, RunError, naming_files, say
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.learner import Learner, TrainingConfig
from benchmarks.harness.sizes import num_parameters
from benchmarks.harness.study import RECORD
from benchmarks.harness.task import PARTS, Measure, Task
from pyg_kernels.tables import csv_text

PREDICTIONS = "predictions.csv"
BEST = "best.ckpt"
LAST = "last.ckpt"
LINES_PER_RUN = 10
# The columns of prediction tables, of any task, that are read as text without guessing types.
WORDS = "smiles target text subject left_out query candidate label predicted full rest"
COLUMN_TYPES = {"y": float, "prediction": float, **dict.fromkeys(WORDS.split(), str)}


@dataclass(frozen=True)
class Run:
    """A finished run."""

    record: dict[str, Any]  # one object of ``metrics.json``
    history: list[dict[str, float]]  # one dictionary per epoch, see :class:`EpochHistory`
    predictions: pandas.DataFrame  # one row for each prediction, see :meth:`Task.prediction_table`

    @classmethod
    def read(cls, folder: Path) -> "Run | None":
        if not (folder / RECORD).exists() or not (folder / PREDICTIONS).exists():
            return None
        with naming_damage(folder / RECORD):
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            history = record.pop("history")
        with naming_damage(folder / PREDICTIONS):
            frame = pandas.read_csv(
                folder / PREDICTIONS,
                dtype=COLUMN_TYPES,
                keep_default_na=False,  # a target may be called NA
                na_values={"y": [""], "prediction": [""]},
            )
        return cls(record, history, frame)


def train(task: Task, model: Any, seed: int, config: TrainingConfig, folder: Path) -> Run:
    """Trains one model with one seed, or continues where a run in `folder` stopped.

    All predictions use the weights of the epoch with the lowest validation error, in evaluation
    mode. Leaves ``best.ckpt`` in the folder.
    """
    quieten_lightning()
    config = task.training(model, config)
    with naming_files(folder):
        folder.mkdir(parents=True, exist_ok=True)
    seed_everything(seed, verbose=False)
    learner = task.learner(model, config.optimizer)
    task.start_from(learner, model, seed)
    batches = task.batches(learner, config.batch_size, seed)
    history = EpochHistory(seed, task.measure)
    name = task.run_name(model.name, seed)
    shown = [Shown(name, history, config.show)] if config.show in ("lines", "epochs") else []
    keep = KeepCheckpoints(folder, history, config.logger == "csv")
    trainer = _trainer(config, [history, *shown, keep], folder)
    try:
        with naming_files(folder):
            last, trainer.fit_loop.max_epochs = _where_it_stopped(folder, learner, config.epochs)
            trainer.fit(learner, datamodule=batches, ckpt_path=last, weights_only=True)
            predictions = _predict(trainer, learner, batches, folder / BEST)
        if trainer.received_sigterm:  # too late to stop an epoch, but the next run must not start
            raise SystemExit
    except RunError as error:
        raise RunError(f"{name}: {error}") from error
    except SystemExit:  # Lightning's answer to an interrupt
        raise KeyboardInterrupt from None
    number, details = num_parameters(learner.net), task.details(model, learner)
    return finished_run(task, model, seed, number, predictions, history.epochs, details)


def fit(
    task: Task, model: Any, estimator: Any, seed: int, config: TrainingConfig, folder: Path
) -> Run:
    """Fits an estimator, a model that is fitted at once; leaves ``best.ckpt`` in the folder."""
    _, seconds = timed(estimator.fit)
    content = io.BytesIO()
    torch.save(estimator.checkpoint(), content)
    with naming_files(folder):
        write_bytes(folder / BEST, content.getvalue())
    predictions, number = estimator.predictions(), estimator.num_parameters()
    details = {"seconds": round(seconds, 4), **estimator.details()}
    run = finished_run(task, model, seed, number, predictions, [], details)
    if config.show != "nothing":
        valid, measure = run.record["valid"], task.measure
        said = f"fitted in {seconds:.1f} s, valid {measure.title} {valid:{measure.format([valid])}}"
        say(f"{task.run_name(model.name, seed)}: {said}")
    return run


def finished_run(
    task: Task,
    model: Any,
    seed: int,
    number_of_parameters: int,
    predictions: Mapping[str, Tensor],
    epochs: list[dict[str, float]],
    details: Mapping[str, Any],
) -> Run:
    """The run of a model that has predicted every part, with its record."""
    scores = task.scores(predictions)
    for part, value in scores.items():
        if not math.isfinite(value):
            name = task.run_name(model.name, seed)
            raise RunError(f"{name}: the {task.measure.title} of the {part} part is {value}")
    seconds = [epoch["seconds"] for epoch in epochs] or [0.0]
    record = {
        "dataset": task.dataset,
        "split": task.split,
        "model": model.name,
        "seed": seed,
        "num_parameters": number_of_parameters,
        "metric": task.measure.key,
        **scores,
        "epochs": len(epochs),
        "seconds_per_epoch": round(statistics.median(seconds), 4),
        **details,
    }
    return Run(record, epochs, task.prediction_table(record, predictions))


def quieten_lightning() -> None:
    """Silences Lightning's tips and its advice on data loader workers, which do not apply."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")


class EpochHistory(Callback):
    """Records every epoch: errors, learning rate and seconds, and keeps epochs reproducible.

    Seconds cover the training batches alone, not validation and checkpoints. The random generator
    is seeded anew each epoch, so that a resumed run draws the same numbers as an uninterrupted
    one. The history is part of the checkpoint.
    """

    def __init__(self, seed: int, measure: Measure) -> None:
        self.seed = seed
        self.measure = measure
        self.epochs: list[dict[str, float]] = []
        self._started = 0.0
        self._seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs = list(state_dict["epochs"])

    def best(self) -> dict[str, float]:
        return min(self.epochs, key=lambda epoch: epoch["valid_error"])

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.manual_seed(10_000 * self.seed + trainer.current_epoch)
        self._started = now(pl_module.device)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *batch: Any) -> None:
        if trainer.is_last_batch:
            self._seconds = now(pl_module.device) - self._started

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, Learner)
        measures = pl_module.epoch_measures()
        record = {
            "epoch": trainer.current_epoch + 1,
            # without measures that are undefined for an epoch's items, such as ranking one class
            **{key: value for key, value in measures.items() if not math.isnan(value)},
            "valid_error": pl_module.valid_error.compute().item(),
            "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            "seconds": self._seconds,
        }
        if not math.isfinite(record["valid_error"]):
            found = f"the validation error is {record['valid_error']} after epoch {record['epoch']}"
            raise RunError(f"{found}; a lower --lr or --clip may help")
        self.epochs.append(record)
        for logger in trainer.loggers:
            logger.log_metrics(record, step=trainer.current_epoch)


class Shown(Callback):
    """Prints the last and the best validation measure of a run: after every epoch, or after the
    first, the last and about each tenth of all epochs.
    """

    def __init__(self, name: str, history: EpochHistory, show: str) -> None:
        self.name, self.history, self.show = name, history, show

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        total, epoch = trainer.max_epochs or 0, trainer.current_epoch + 1
        measure, last, best = self.history.measure, self.history.epochs[-1], self.history.best()
        key = f"valid_{measure.key}"
        digits = measure.format([self.history.epochs[0][key]])
        test = last.get(f"test_{measure.key}")
        line = (
            f"epoch {epoch}/{total}, valid {measure.title} {last[key]:{digits}}"
            f"{'' if test is None else f', test {test:{digits}}'} "
            f"(best epoch {best['epoch']}: {best[key]:{digits}})"
        )
        apart = 1 if self.show == "epochs" else max(1, total // LINES_PER_RUN)
        if epoch in (1, total) or epoch % apart == 0:
            say(f"{self.name}: {line}")


class KeepCheckpoints(Checkpoint):
    """Writes ``best.ckpt`` after every epoch that is the best so far, ``last.ckpt`` after each
    epoch, and on request ``metrics.csv`` of all epochs.

    The best epoch follows from the history alone, which is part of ``last.ckpt``. Unlike with
    Lightning's ``ModelCheckpoint``, a resumed run knows it even if the folder has been moved.
    """

    def __init__(self, folder: Path, history: EpochHistory, as_csv: bool) -> None:
        self.folder, self.history, self.as_csv = folder, history, as_csv

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.history.best() is self.history.epochs[-1]:
            trainer.save_checkpoint(self.folder / BEST, weights_only=True)
        trainer.save_checkpoint(self.folder / LAST)
        if self.as_csv:
            write_text(self.folder / "metrics.csv", csv_text(pandas.DataFrame(self.history.epochs)))


def _trainer(config: TrainingConfig, callbacks: list[Callback], folder: Path) -> Trainer:
    device, precision = torch_device(config.device), config.precision
    on_cuda = device.type == "cuda"
    if precision == "auto":
        precision = "bf16-mixed" if on_cuda and torch.cuda.is_bf16_supported() else "32-true"
    stopping = EarlyStopping("valid_error", patience=config.patience, check_finite=False)
    return Trainer(
        accelerator=device.type,
        devices=[device.index] if on_cuda else 1,
        precision=precision,  # type: ignore[arg-type]
        max_epochs=config.epochs,
        gradient_clip_val=config.clip or None,
        callbacks=[*callbacks, stopping],
        logger=config.logger == "tensorboard" and TensorBoardLogger(folder, config.logger),
        enable_progress_bar=config.show == "bar",
        enable_model_summary=False,
        num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=1,
    )


def _where_it_stopped(folder: Path, learner: Learner, wanted: int) -> tuple[Path | None, int]:
    """The checkpoint of an interrupted run, if there is one, and the number of epochs to reach; if
    early stopping had ended the run, the number of finished epochs.
    """
    last = folder / LAST
    if not last.exists():
        return None, wanted
    with naming_damage(last):
        checkpoint = torch.load(last, map_location="cpu", weights_only=True)
        states = checkpoint["callbacks"].values()
        if any(state.get("stopped_epoch", 0) > 0 for state in states):
            wanted = int(checkpoint["epoch"]) + 1
        learner.load_state_dict(checkpoint["state_dict"])
    if not (folder / BEST).exists():
        raise InputError(f"{folder / BEST} is missing; remove {last} to train this run again")
    return last, wanted


def _predict(trainer: Trainer, learner: Learner, batches: Any, best: Path) -> dict[str, Tensor]:
    """The predictions of every part with the weights of the best epoch."""
    # Not through ckpt_path, which would also reset the history to the best epoch.
    with naming_damage(best):
        checkpoint = torch.load(best, map_location="cpu", weights_only=True)
        learner.load_state_dict(checkpoint["state_dict"])
    loaders = [batches.parts[part] for part in PARTS]
    outputs: Any = trainer.predict(learner, loaders) or []
    return {part: torch.cat(output) for part, output in zip(PARTS, outputs, strict=True)}
