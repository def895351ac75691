"""Batches of molecules for training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Batch

from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.positions import Indices, positions_in
from pyg_kernels.datasets.resampling import UniformBins
from pyg_kernels.datasets.shards import MoleculeShards
from pyg_kernels.datasets.share import Share


class MoleculeLoader:
    """Goes through a data set in batches, each assembled by :meth:`MoleculeDataset.batch`.

    Takes the place of ``torch_geometric.loader.DataLoader``, with the same batches, and needs no
    worker processes. Each pass is an epoch: with ``shuffle`` its permutation is drawn from ``seed``
    plus the number of the epoch, so that a run can be taken up again at any epoch
    (:meth:`set_epoch`) with the batches that it would have had.

    Where several processes train together, each has a loader with the same arguments but for its
    ``share``, and goes through its own molecules of every batch: r, r + R, ... A share never has
    fewer than ``smallest_share`` molecules, since no process may wait for another: molecules of
    the same batch stand in at its end, with NaN for all targets. In one process there are none.

    Args:
        dataset: a :class:`~pyg_kernels.datasets.MoleculeDataset` or
            :class:`~pyg_kernels.datasets.MoleculeShards`.
        indices: the positions to go through, or a mask; all by default.
        batch_size: molecules a batch of all processes together; the last batch may have fewer.
        shuffle: whether each epoch has an order of its own.
        seed: of the orders.
        drop_last: whether to leave out a last batch that has fewer molecules.
        share: the rank r of this process, from 0, and the number R of processes.
        smallest_share: molecules of a share at least, with those that stand in.
        bins: of the molecules at ``indices``, in their order; each pass then draws as many
            molecules as there are, with replacement, so that every bin is equally likely. Its draw
            depends on ``seed`` and epoch as an order does; ``shuffle`` has no effect.

    Attributes:
        epoch: the number of the next pass, from 0.

    Raises:
        ValueError: if ``batch_size`` or ``smallest_share`` is not positive, ``share`` is not such a
            pair, ``bins`` are of another number of molecules, or ``indices`` has none or no
            integers.
        IndexError: if an index is out of range.
    """

    def __init__(
        self,
        dataset: MoleculeDataset | MoleculeShards,
        indices: Indices | None = None,
        batch_size: int = 128,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        share: tuple[int, int] = (0, 1),
        smallest_share: int = 1,
        bins: UniformBins | None = None,
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
        self.share = Share(*share, smallest_share)
        if bins is not None and len(bins) != len(self.indices):
            raise ValueError(
                f"bins must be of the {len(self.indices)} molecules at indices, not of {len(bins)}"
            )
        self.bins = bins
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        """The number of batches a pass."""
        whole, rest = divmod(len(self.indices), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        indices, number = self.indices, len(self.indices)
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        if self.bins is not None:
            indices = indices[self.bins.draw(number, generator)]
        elif self.shuffle:
            indices = indices[torch.randperm(number, generator=generator)]
        self.epoch += 1
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.assemble(indices[start : start + self.batch_size])

    def assemble(self, indices: Tensor) -> Batch:
        """This process's share of the batch of the molecules at these positions."""
        rows, own = self.share.of(indices)
        batch = self.dataset.batch(rows)
        if own < len(rows):
            batch.y[own:] = torch.nan
        return batch

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dataset!r}, {len(self.indices)} molecules, "
            f"batch_size={self.batch_size}, shuffle={self.shuffle})"
        )
