"""What loaders share: positions, epochs that can be taken up again, shares of processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from pyg_kernels.datasets.positions import Indices, positions_in
from pyg_kernels.datasets.share import Share

B = TypeVar("B")


class EpochLoader(ABC, Generic[B]):
    """Goes through items in batches; each pass is an epoch.

    With ``shuffle`` the order of a pass is drawn from ``seed`` plus the number of the epoch.

    Args:
        dataset: the items.
        items: what they are, in the plural, for errors.
        indices: the positions to go through, or a mask; all by default.
        batch_size: items a batch of all processes together; the last batch may have fewer.
        shuffle: whether each epoch has an order of its own.
        seed: of the orders.
        share: of this process in every batch.

    Raises:
        ValueError: if ``batch_size`` is not positive, or ``indices`` has none or no integers.
        IndexError: if an index is out of range.
    """

    def __init__(
        self,
        dataset: Any,
        items: str,
        indices: Indices | None,
        batch_size: int,
        shuffle: bool,
        seed: int,
        share: Share,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.dataset, self._items = dataset, items
        indices = range(len(dataset)) if indices is None else indices
        self.indices = positions_in(indices, len(dataset), items)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.share = share
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        """The number of batches a pass."""
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[B]:
        batches = self.batches(torch.Generator().manual_seed(self.seed + self.epoch))
        self.epoch += 1
        for indices in batches:
            yield self.assemble(indices)

    def order(self, generator: torch.Generator) -> Tensor:
        """The positions of a pass in their order, whose draws are the generator's."""
        if not self.shuffle:
            return self.indices
        return self.indices[torch.randperm(len(self.indices), generator=generator)]

    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The positions of each batch of a pass, whose draws are the generator's."""
        order, size = self.order(generator), self.batch_size
        return (order[start : start + size] for start in range(0, len(self) * size, size))

    @abstractmethod
    def assemble(self, indices: Tensor) -> B:
        """This process's share of the batch of the items at these positions."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.indices)} {self._items}, "
            f"batch_size={self.batch_size}, shuffle={self.shuffle})"
        )
