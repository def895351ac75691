"""Batches of molecules for training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch

from pyg_kernels.datasets.epochs import EpochLoader
from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.positions import Indices
from pyg_kernels.datasets.resampling import UniformBins
from pyg_kernels.datasets.shards import MoleculeShards


class MoleculeLoader(EpochLoader[Batch]):
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

    Example:
        >>> from pyg_kernels.datasets import MoleculeDataset, MoleculeLoader
        >>> smiles = ["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1", "CCN"]
        >>> molecules = MoleculeDataset.from_smiles(smiles, [0.0, 0.3, 2.1, 2.7, -0.1])
        >>> loader = MoleculeLoader(molecules, batch_size=2, shuffle=True)
        >>> [batch.num_graphs for batch in loader]
        [2, 2, 1]

    See Also:
        :class:`MoleculeDataset` and :class:`MoleculeShards`, what it reads; :class:`UniformBins`;
        :class:`TextLoader`.
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
        super().__init__(dataset, "molecules", indices, batch_size, shuffle, seed)
        if len(share) != 2:
            raise ValueError(f"share must be the rank of a process and their number, not {share}")
        self.rank, self.number = share
        if not 0 <= self.rank < self.number:
            raise ValueError(f"share must be the rank of a process and their number, not {share}")
        if smallest_share < 1:
            raise ValueError(f"smallest_share must be at least 1, not {smallest_share}")
        self.drop_last, self.smallest_share = drop_last, smallest_share
        if bins is not None and len(bins) != len(self.indices):
            raise ValueError(
                f"bins must be of the {len(self.indices)} molecules at indices, not of {len(bins)}"
            )
        self.bins = bins

    def __len__(self) -> int:
        """The number of batches a pass."""
        return len(self.indices) // self.batch_size if self.drop_last else super().__len__()

    def order(self, generator: torch.Generator) -> Tensor:
        """The positions of a pass in their order, whose draws are the generator's."""
        if self.bins is None:
            return super().order(generator)
        return self.indices[self.bins.draw(len(self.indices), generator)]

    def assemble(self, indices: Tensor) -> Batch:
        """This process's share of the batch of the molecules at these positions."""
        rows, own = self.own_rows(indices)
        batch = self.dataset.batch(rows)
        if own < len(rows):
            batch.y[own:] = torch.nan
        return batch

    def own_rows(self, batch: Tensor) -> tuple[Tensor, int]:
        """This process's rows of a batch, those that stand in last, and how many are its own."""
        own = batch[self.rank :: self.number]
        missing = self.smallest_share - len(own)
        if self.number == 1 or missing <= 0:
            return own, len(own)
        # Other items: a batch of equal ones would have variance 0, which batch normalization
        # divides by.
        others = torch.arange(len(batch)) % self.number != self.rank
        candidates = torch.cat([batch[others], own])
        stand_ins = candidates[torch.arange(missing) % len(candidates)]
        return torch.cat([own, stand_ins]), len(own)
