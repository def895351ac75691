"""The batches that Lightning reads, whatever is in them."""

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as lightning

from benchmarks.harness.task import PARTS


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

    def all_parts(self) -> list[Any]:
        """One loader for each part, in its order."""
        return [self.parts[part] for part in PARTS]
