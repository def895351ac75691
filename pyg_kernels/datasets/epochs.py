"""What loaders share: positions, and epochs that can be taken up again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from pyg_kernels.datasets.positions import Indices, positions_in

B = TypeVar("B")


class EpochLoader(ABC, Generic[B]):
    """Goes through items in batches; each pass is an epoch.

    With ``shuffle`` the order of a pass is drawn from ``seed`` plus the number of the epoch.

    `items` says in the plural what the data set has.
    """

    def __init__(
        self,
        dataset: Any,
        items: str,
        indices: Indices | None,
        batch_size: int,
        shuffle: bool,
        seed: int,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.dataset, self._items = dataset, items
        indices = range(len(dataset)) if indices is None else indices
        self.indices = positions_in(indices, len(dataset), items)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
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
        """The batch of the items at these positions, or this process's share of it."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.indices)} {self._items}, "
            f"batch_size={self.batch_size}, shuffle={self.shuffle})"
        )
