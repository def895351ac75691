"""What is recorded and shown of a run while it trains."""

import math
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

from benchmarks.harness.errors import DivergenceError, say
from benchmarks.harness.learner import Learner
from benchmarks.harness.task import Measure

LINES_PER_RUN = 10


class EpochHistory(Callback):
    """Records every epoch: errors, learning rate and seconds, and keeps epochs reproducible.

    Seconds are those of the training batches alone, without validation and checkpoints. The random
    generator is seeded anew each epoch, so that a resumed run draws what the uninterrupted one
    would have drawn. The history travels in the checkpoint.
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
        """The first epoch with the lowest validation error so far."""
        return min(self.epochs, key=lambda epoch: epoch["valid_error"])

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.manual_seed(10_000 * self.seed + trainer.current_epoch)
        self._started = _now(pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            self._seconds = _now(pl_module) - self._started

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, Learner)
        measures = pl_module.epoch_measures()
        record = {
            "epoch": trainer.current_epoch + 1,
            # without those that an epoch's items do not give, such as the ranking of one class
            **{key: value for key, value in measures.items() if not math.isnan(value)},
            "valid_error": pl_module.valid_error.compute().item(),
            "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            "seconds": self._seconds,
        }
        if not math.isfinite(record["valid_error"]):
            raise DivergenceError(
                f"the validation error is {record['valid_error']} after epoch {record['epoch']}; "
                f"a lower --lr or --clip may help"
            )
        self.epochs.append(record)
        for logger in trainer.loggers:
            logger.log_metrics(record, step=trainer.current_epoch)


def _now(module: LightningModule) -> float:
    if module.device.type == "cuda":
        torch.cuda.synchronize(module.device)
    return time.perf_counter()


class Shown(Callback):
    """One compact bar for a whole run on a terminal, lines elsewhere."""

    def __init__(self, name: str, history: EpochHistory, show: str) -> None:
        self.name, self.history, self.show = name, history, show
        self._bar: tqdm[Any] = tqdm(disable=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._bar = tqdm(
            total=(trainer.max_epochs or 0) * int(trainer.num_training_batches),
            initial=trainer.current_epoch * int(trainer.num_training_batches),
            desc=self.name,
            bar_format="{desc} {percentage:3.0f}%|{bar:24}| {elapsed}<{remaining}{postfix}",
            dynamic_ncols=True,
            disable=self.show != "bar",
        )

    def on_train_batch_end(self, *arguments: Any) -> None:
        self._bar.update()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shows the last and the best validation measure: in the bar, or on lines for the first,
        the last and about every tenth of the epochs, or each.
        """
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
        if self.show == "bar":
            self._bar.set_postfix_str(line, refresh=False)
        elif epoch in (1, total) or epoch % apart == 0:
            say(f"{self.name}: {line}")

    def on_train_end(self, *arguments: Any) -> None:
        self._bar.close()

    def on_exception(self, *arguments: Any) -> None:
        self._bar.close()
