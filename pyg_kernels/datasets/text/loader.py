"""Batches of texts for training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyg_kernels.datasets.positions import Indices, positions_in
from pyg_kernels.datasets.share import Share
from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch

IGNORED = -100  # the class of a text that only fills a batch


class TextLoader:
    """Goes through texts in batches, put together without a loop over texts or words.

    Each pass is an epoch: with ``shuffle`` its order is drawn from ``seed`` plus the number of the
    epoch, so that a run can be taken up again at any epoch (:meth:`set_epoch`) with the batches
    that it would have had. With ``bucket`` above 1 as well, each ``bucket`` batches' worth of texts
    in that order is sorted by length before it is cut into batches, which are then shuffled: texts
    of a batch are of similar length, and little is padded where a model pads.

    Where several processes train together, each has a loader with the same arguments but for its
    ``share``, and goes through its own texts of every batch: r, r + R, ... A process without one
    in a last batch gets another one's text, with the class -100, which ``cross_entropy`` ignores.

    Args:
        texts: the texts.
        indices: the positions to go through, or a mask; all by default.
        batch_size: texts a batch of all processes together; the last batch may have fewer.
        shuffle: whether each epoch has an order of its own.
        seed: of the orders.
        bucket: batches' worth of texts that are sorted by length together.
        share: the rank r of this process, from 0, and the number R of processes.

    Attributes:
        epoch: the number of the next pass, from 0.

    Raises:
        ValueError: if ``batch_size`` or ``bucket`` is not positive, ``share`` is no such pair, or
            ``indices`` has none or no integers.
        IndexError: if a position is out of range.
    """

    def __init__(
        self,
        texts: EncodedTexts,
        indices: Indices | None = None,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        bucket: int = 1,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {bucket}")
        self.texts = texts
        indices = range(len(texts)) if indices is None else indices
        self.indices = positions_in(indices, len(texts), "texts")
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.bucket = bucket
        self.share = Share(*share)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        """The number of batches a pass."""
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[TextBatch]:
        batches = self._batches()
        self.epoch += 1
        for indices in batches:
            rows, own = self.share.of(indices)
            batch = self.texts.batch(rows)
            batch.y[own:] = IGNORED
            yield batch

    def _batches(self) -> list[Tensor]:
        if not self.shuffle:
            return list(self.indices.split(self.batch_size))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = self.indices[torch.randperm(len(self.indices), generator=generator)]
        if self.bucket == 1:
            return list(order.split(self.batch_size))
        place = torch.arange(len(order)) // (self.bucket * self.batch_size)
        lengths = self.texts.lengths[order]
        # By bucket, then by length: one stable sort on a combined key.
        order = order[(place * (int(lengths.max()) + 1) + lengths).argsort(stable=True)]
        batches = list(order.split(self.batch_size))
        shuffled = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[k] for k in shuffled]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.indices)} texts, batch_size={self.batch_size}, "
            f"shuffle={self.shuffle})"
        )
