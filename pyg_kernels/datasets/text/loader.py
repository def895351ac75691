"""Batches of texts for training."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from pyg_kernels.datasets.epochs import EpochLoader
from pyg_kernels.datasets.positions import Indices
from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch


class TextLoader(EpochLoader[TextBatch]):
    """Goes through texts in batches, put together without a loop over texts or words.

    Each pass is an epoch: with ``shuffle`` its order is drawn from ``seed`` plus the number of the
    epoch, so that a run can be taken up again at any epoch (:meth:`set_epoch`) with the batches
    that it would have had. With ``bucket`` above 1 as well, each ``bucket`` batches' worth of texts
    in that order is sorted by length before it is cut into batches, which are then shuffled: texts
    of a batch are of similar length, and little is padded where a model pads.

    Args:
        texts: the texts.
        indices: the positions to go through, or a mask; all by default.
        batch_size: texts a batch; the last batch may have fewer.
        shuffle: whether each epoch has an order of its own.
        seed: of the orders.
        bucket: batches' worth of texts that are sorted by length together.

    Attributes:
        epoch: the number of the next pass, from 0.

    Raises:
        ValueError: if ``batch_size`` or ``bucket`` is not positive, or ``indices`` has none or no
            integers.
        IndexError: if a position is out of range.

    Example:
        >>> import torch
        >>> from pyg_kernels.datasets import TextLoader, Vocabulary
        >>> from pyg_kernels.datasets.text import EncodedTexts
        >>> texts = [["a", "fine", "film"], ["dull"], ["a", "dull", "plot"]]
        >>> ids, ptr = Vocabulary(["a", "fine", "film", "dull", "plot"]).encode(texts)
        >>> encoded = EncodedTexts(ids, ptr, labels=torch.tensor([1, 0, 0]))
        >>> [batch.lengths.tolist() for batch in TextLoader(encoded, batch_size=2)]
        [[3, 1], [3]]

    See Also:
        :class:`~pyg_kernels.datasets.text.EncodedTexts` and
        :class:`~pyg_kernels.datasets.text.TextBatch`, what it reads and gives;
        :class:`MoleculeLoader`.
    """

    def __init__(
        self,
        texts: EncodedTexts,
        indices: Indices | None = None,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        bucket: int = 1,
    ) -> None:
        if bucket < 1:
            raise ValueError(f"bucket must be at least 1, not {bucket}")
        super().__init__(texts, "texts", indices, batch_size, shuffle, seed)
        self.bucket = bucket

    def assemble(self, indices: Tensor) -> TextBatch:
        """The batch of the texts at these positions."""
        batch: TextBatch = self.dataset.batch(indices)
        return batch

    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The positions of each batch of a pass, whose draws are the generator's."""
        if not self.shuffle or self.bucket == 1:
            return super().batches(generator)
        order = self.order(generator)
        place = torch.arange(len(order)) // (self.bucket * self.batch_size)
        lengths = self.dataset.lengths[order]
        # By bucket, then by length: one stable sort on a combined key.
        order = order[(place * (int(lengths.max()) + 1) + lengths).argsort(stable=True)]
        batches = list(order.split(self.batch_size))
        shuffled = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[k] for k in shuffled]
