"""The batches of molecules that Lightning reads."""

from functools import cached_property
from typing import Any, Protocol

import lightning.pytorch as lightning
from torch import Tensor

from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.processes import processes
from benchmarks.harness.task import PARTS
from pyg_kernels.datasets import MoleculeLoader, UniformBins

CHECKED = 2**16  # molecules whose targets are standardised at once before training


class Scale(Protocol):
    """From targets in their own units to those that a network is trained on."""

    def standardize(self, y: Tensor) -> Tensor:
        """``(B, T)`` float64 values as float32 ones; a ``ValueError`` if float32 is too small."""


class Standardized:
    """Molecules whose batches carry targets on the scale of training.

    They are put on that scale batch by batch: this takes no memory for each molecule.

    Args:
        molecules: A ``pyg_kernels.datasets.MoleculeDataset`` of M molecules.
        scale: Of the targets, computed in float64.

    Raises:
        ValueError: If a value of any molecule is too far from the training part's for float32.
    """

    def __init__(self, molecules: Any, scale: Scale) -> None:
        self.molecules = molecules
        self.scale = scale
        for some in self.targets.split(CHECKED):
            scale.standardize(some)

    def __len__(self) -> int:
        return len(self.molecules)

    @cached_property
    def targets(self) -> Tensor:
        """``(M, T)`` in their own units, NaN where one was not measured."""
        targets: Tensor = self.molecules.targets
        return targets

    def batch(self, indices: Tensor) -> Any:
        """The molecules at these positions, ``(B, T)`` standardized targets as ``y``."""
        batch = self.molecules.batch(indices)
        batch.y = self.scale.standardize(self.targets[indices])
        return batch

    def divisor(self, indices: Tensor, processes: int) -> Tensor:
        """What each of several processes divides the summed loss of its share of a batch by.

        The number of measured entries of the whole batch, at least 1, over that of processes: the
        mean of the processes' losses is then the mean over the batch's measured entries.

        Args:
            indices: Positions of the molecules of the batch, of all processes.
            processes (int): Their number.
        """
        measured = (~self.targets[indices].isnan()).sum()
        return measured.clamp(min=1).float() / processes


class DividingLoader(MoleculeLoader):
    """A loader of :class:`Standardized` molecules whose batches carry the loss's ``divisor``."""

    dataset: Any

    def assemble(self, indices: Tensor) -> Any:
        """This process's share of a batch."""
        batch = super().assemble(indices)
        batch.divisor = self.dataset.divisor(indices, self.share.number)
        return batch


class MoleculeBatches(lightning.LightningDataModule):
    """Batches of the training and validation parts, with the loss's ``divisor``.

    The order of the training molecules depends on seed and epoch alone, so that a resumed run
    sees the batches that the uninterrupted one would have seen. Several processes share each batch.

    Args:
        data: Molecules and split.
        scale: Of the targets.
        batch_size (int): Molecules a batch of all processes, at least 2 (batch normalisation needs
            two).
        seed (int): Seed of the order.

    Raises:
        ValueError: If float32 cannot hold a target on that scale, or training molecules are to be
            drawn by their target and one has none.
    """

    def __init__(self, data: MoleculeData, scale: Scale, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data = data
        self.molecules: Any = Standardized(data.molecules, scale)
        self.batch_size = batch_size
        self.seed = seed
        width = data.choice.resample
        self.bins = UniformBins(data.targets("train").flatten(), width) if width else None

    def part(self, name: str, **options: Any) -> DividingLoader:
        """A loader over one part, in its own order unless `options` say otherwise."""
        return DividingLoader(
            self.molecules,
            self.data.parts[name],
            batch_size=self.batch_size,
            share=processes().share,
            **options,
        )

    def train_dataloader(self) -> DividingLoader:
        """Shuffled batches of this epoch."""
        # A last batch of one molecule cannot be batch-normalised: that molecule, another one each
        # epoch, sits the epoch out. A process with one molecule of a larger batch gets a stand-in.
        single = len(self.data.parts["train"]) % self.batch_size == 1
        loader = self.part(
            "train",
            shuffle=True,
            seed=10_000 * self.seed,
            drop_last=single,
            smallest_share=2,
            bins=self.bins,
        )
        loader.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return loader

    def val_dataloader(self) -> DividingLoader:
        """The validation part in its own order."""
        return self.part("valid")

    def all_parts(self) -> list[DividingLoader]:
        """One loader for each of :data:`PARTS`, in their own order."""
        return [self.part(name) for name in PARTS]
