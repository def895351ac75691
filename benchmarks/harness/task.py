"""What an experiment learns: the interface between the harness and molecules, texts, ..."""

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
    """Batches of three parts; the order and what is drawn depend on seed and epoch alone, so that a
    resumed run sees the batches that the uninterrupted one would have seen.

    `parts` has the loader of each part, in its order; `also` is measured after each epoch besides
    the validation part; ``training.set_epoch`` makes the next pass that of an epoch.
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
    """Data in three parts, the models that learn from them, and how these are measured.

    A model's configuration is a dataclass with a ``name``.
    """

    measure: Measure
    dataset: str
    split: str
    data: Any  # what is learned from, with an ``identity()`` unless a subclass says it
    parts: Mapping[str, Tensor]  # of PARTS, the positions of their items

    def identity(self) -> dict[str, Any]:
        """The number of items and a fingerprint of all that is learned from."""
        return dict(self.data.identity())

    def estimator(self, model: Any) -> Any:
        """The model of a configuration if it is fitted at once, ``None`` if it is a network.

        It has ``fit()``, which learns from the training part and chooses on the validation part,
        ``predictions()`` of each part, ``num_parameters()``, ``details()`` for the record, and
        ``checkpoint()``, plain values and tensors; none of it depends on seed or device.
        """
        return None

    def training(self, model: Any, training: TrainingConfig) -> TrainingConfig:
        """How a network of this configuration is trained: as all, where it says nothing itself."""
        return training

    @abstractmethod
    def learner(self, model: Any, optimizer: OptimizerConfig) -> Learner:
        """An untrained network."""

    def start_from(self, learner: Any, model: Any, seed: int) -> None:  # noqa: B027
        """Gives an untrained network what it starts from besides its seed, such as pre-training."""

    @abstractmethod
    def batches(self, learner: Any, batch_size: int, seed: int) -> Batches:
        """Batches for a learner."""

    @abstractmethod
    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The measure of each part's predictions."""

    def unused(self, model: Mapping[str, Any]) -> set[str]:
        """The fields of a model's configuration that change nothing in it."""
        return set()

    def details(self, model: Any, learner: Any) -> dict[str, Any]:
        """What a run's record says of its network besides the number of its parameters."""
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
        """What a run is called where it is shown."""
        return f"{model} (seed {seed})"
