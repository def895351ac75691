"""What an experiment learns: the interface between the harness and texts, molecules, ..."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as lightning
import pandas
from torch import Tensor

from benchmarks.harness.learner import Learner, OptimizerConfig, TrainingConfig
from benchmarks.harness.table import number_format

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Measure:
    """How good predictions are, in one number."""

    key: str  # its name in files: ``train_KEY`` and ``valid_KEY`` in histories
    title: str  # its name in words
    digits: str = ""  # the format of its values; empty: as many digits as they need

    def format(self, values: Iterable[float]) -> str:
        """One format for values that stand together."""
        return self.digits or number_format(values)


class Batches(lightning.LightningDataModule):
    """Batches of three parts. Their order and random draws depend only on seed and epoch, so that a
    resumed run sees the same batches as an uninterrupted one.

    `parts` has the loader of each part, in its order. `also` is measured after each epoch besides
    the validation part. ``training.set_epoch`` sets the epoch of the next pass.
    """

    def __init__(self, training: Any, parts: Mapping[str, Any], also: Sequence[Any] = ()) -> None:
        super().__init__()
        self.training, self.parts, self.also = training, parts, also

    def train_dataloader(self) -> Any:
        self.training.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return self.training

    def val_dataloader(self) -> list[Any]:
        return [self.parts["valid"], *self.also]


class Task(ABC):
    """Data in three parts, the models that learn from them, and the measures of these models.

    A model's configuration is a dataclass with a ``name``.
    """

    measure: Measure
    dataset: str
    split: str
    data: Any  # what is learned from; has an ``identity()`` unless a subclass overrides that
    parts: Mapping[str, Tensor]  # of PARTS, the positions of their items

    def identity(self) -> dict[str, Any]:
        """The number of items and a fingerprint of all data that are learned from."""
        return dict(self.data.identity())

    def estimator(self, model: Any) -> Any:
        """The model of a configuration if it is fitted at once, ``None`` if it is a network.

        It has ``fit()``, which learns from the training part and chooses on the validation part,
        ``predictions()`` of each part, ``num_parameters()``, ``details()`` for the record, and
        ``checkpoint()``, plain values and tensors. None of these depends on seed or device.
        """
        return None

    def training(self, model: Any, training: TrainingConfig) -> TrainingConfig:
        """The training of a network of this configuration: that of all, unless it has its own."""
        return training

    @abstractmethod
    def learner(self, model: Any, optimizer: OptimizerConfig) -> Learner:
        """An untrained network."""

    def start_from(self, learner: Any, model: Any, seed: int) -> None:  # noqa: B027
        """Initialises an untrained network with more than its seed, such as pre-trained weights."""

    @abstractmethod
    def batches(self, learner: Any, batch_size: int, seed: int) -> Batches:
        """Batches for a learner."""

    @abstractmethod
    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The measure of each part's predictions."""

    def unused(self, model: Mapping[str, Any]) -> set[str]:
        """The fields of a model's configuration that have no effect on it."""
        return set()

    def details(self, model: Any, learner: Any) -> dict[str, Any]:
        """What a run's record says about its network besides the number of parameters."""
        return {}

    @abstractmethod
    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """The columns of a part's rows in the table of predictions."""

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each prediction; the first columns are model, seed and part."""
        frames = []
        for part in PARTS:
            run = {"model": record["model"], "seed": record["seed"], "part": part}
            frames.append(pandas.DataFrame({**run, **self.rows(part, predictions[part])}))
        return pandas.concat(frames, ignore_index=True)

    def run_name(self, model: str, seed: int) -> str:
        """The displayed name of a run."""
        return f"{model} (seed {seed})"
