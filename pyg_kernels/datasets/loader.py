"""Batches of molecules for training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch_geometric.data import Batch

from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.positions import Indices, positions_in


class MoleculeLoader:
    """Goes through a data set in batches, each assembled by :meth:`MoleculeDataset.batch`.

    Takes the place of ``torch_geometric.loader.DataLoader``, with the same batches, and needs no
    worker processes. Each pass is an epoch: with ``shuffle`` its permutation is drawn from ``seed``
    plus the number of the epoch, so that a run can be taken up again at any epoch
    (:meth:`set_epoch`) with the batches that it would have had.

    Args:
        dataset: a :class:`~pyg_kernels.datasets.MoleculeDataset`.
        indices: the positions to go through, or a mask; all by default.
        batch_size: molecules a batch; the last batch may have fewer.
        shuffle: whether each epoch has an order of its own.
        seed: of the orders.
        drop_last: whether to leave out a last batch that has fewer molecules.

    Attributes:
        epoch: the number of the next pass, from 0.

    Raises:
        ValueError: if ``batch_size`` is not positive, or ``indices`` has none or no integers.
        IndexError: if an index is out of range.
    """

    def __init__(
        self,
        dataset: MoleculeDataset,
        indices: Indices | None = None,
        batch_size: int = 128,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.dataset = dataset
        indices = range(len(dataset)) if indices is None else indices
        self.indices = positions_in(indices, len(dataset), "molecules")
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        """The number of batches a pass."""
        whole, rest = divmod(len(self.indices), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        indices = self.indices
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            indices = indices[torch.randperm(len(indices), generator=generator)]
        self.epoch += 1
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.dataset.batch(indices[start : start + self.batch_size])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dataset!r}, {len(self.indices)} molecules, "
            f"batch_size={self.batch_size}, shuffle={self.shuffle})"
        )
