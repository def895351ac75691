"""Batches for training: epochs over molecules or texts that can be resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from pyg_kernels.checks import checked_count

if TYPE_CHECKING:
    from pyg_kernels.datasets.molecules import MoleculeDataset
    from pyg_kernels.datasets.shards import MoleculeShards
    from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch  # noqa: F401

Indices = Tensor | np.ndarray | Sequence[int]
B = TypeVar("B")


def positions_in(indices: Indices, length: int, items: str) -> Tensor:
    """Indices into ``length`` items as a vector of positions from 0 (int64)."""
    if not isinstance(indices, Tensor):  # torch reads neither negative strides nor a Series
        indices = np.array(indices)
    positions = torch.as_tensor(indices).cpu()
    if positions.dtype == torch.bool and positions.shape == (length,):
        positions = positions.nonzero().flatten()
    if positions.numel() == 0:
        raise ValueError(f"indices is empty; at least one of the {items} is needed")
    if positions.dim() != 1 or positions.is_floating_point() or positions.dtype == torch.bool:
        raise ValueError(
            f"indices must be a vector of integers or a mask of {length} booleans, not "
            f"{positions.dtype} of shape {tuple(positions.shape)}"
        )
    positions = positions.long()
    wrong = positions[(positions < -length) | (positions >= length)]
    if len(wrong):
        raise IndexError(f"index {int(wrong[0])} is out of range for {length} {items}")
    return torch.where(positions < 0, positions + length, positions)


class EpochLoader(Generic[B]):
    """Goes through items in batches; each pass is an epoch.

    With ``shuffle`` the order of a pass is drawn from ``seed`` plus the number of the epoch.
    """

    items: ClassVar[str]  #: What the items are called, in the plural.

    def __init__(
        self, dataset: Any, indices: Indices | None, batch_size: int, shuffle: bool, seed: int
    ) -> None:
        self.batch_size = checked_count(batch_size, "batch_size")
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        indices = range(len(dataset)) if indices is None else indices
        self.indices = positions_in(indices, len(dataset), self.items)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        """The number of batches in a pass."""
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[B]:
        batches = self.batches(torch.Generator().manual_seed(self.seed + self.epoch))
        self.epoch += 1
        for indices in batches:
            yield self.assemble(indices)

    def order(self, generator: torch.Generator) -> Tensor:
        """The positions of a pass in their order; random draws use the generator."""
        if not self.shuffle:
            return self.indices
        return self.indices[torch.randperm(len(self.indices), generator=generator)]

    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The positions of each batch of a pass; random draws use the generator."""
        order, size = self.order(generator), self.batch_size
        return (order[start : start + size] for start in range(0, len(self) * size, size))

    def assemble(self, indices: Tensor) -> B:
        """The batch of the items at these positions, or this process's share of it."""
        return self.dataset.batch(indices)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.indices)} {self.items}, "
            f"batch_size={self.batch_size}, shuffle={self.shuffle})"
        )


class UniformBins:
    r"""Draws items so that every bin of a value is equally likely, whatever the values' density.

    The k-th bin holds the items with :math:`k w \le y < (k + 1) w`; each draw takes at random one
    of the bins that are not empty, then one of its items, with replacement. This is how Dai et al.
    2016 and Lei et al. 2017, section 6.3, draw training molecules of the Clean Energy Project,
    whose efficiencies are distributed unevenly, to put more emphasis on the high ones.

    Args:
        values: (M,) the value of each item.
        width: the width of a bin, in the values' units.

    Attributes:
        bins: (M,) the bin of each item, from 0; bins without items are not counted.
        counts: (K,) the number of items of each bin.

    Raises:
        ValueError: if there are no values, one is not finite, or the width is not above 0 or too
            small for whole numbers of bins.

    Example:
        >>> import torch
        >>> from pyg_kernels.datasets import UniformBins
        >>> bins = UniformBins(torch.tensor([0.01, 0.02, 0.03, 7.51]), width=0.05)
        >>> bins.counts
        tensor([3, 1])
        >>> drawn = bins.draw(1000, torch.Generator().manual_seed(0))  # half of them are 3
        >>> 450 < (drawn == 3).sum() < 550
        tensor(True)

    See Also:
        :class:`MoleculeLoader`, which takes them.
    """

    def __init__(self, values: Tensor, width: float) -> None:
        if values.dim() != 1 or not len(values):
            raise ValueError(
                f"values must be a vector of at least one number, not {tuple(values.shape)}"
            )
        if not bool(values.isfinite().all()):
            raise ValueError("values must be finite: an item without a value is in no bin")
        if not (math.isfinite(width) and width > 0):
            raise ValueError(f"width must be a positive number, not {width}")
        numbers = (values.double() / width).floor()
        if not bool((numbers.abs() < 2.0**53).all()):
            raise ValueError(f"width={width} is too small for values up to {values.abs().max()}")
        _, self.bins, self.counts = numbers.unique(return_inverse=True, return_counts=True)
        self._members = self.bins.argsort(stable=True)
        self._starts = self.counts.cumsum(0) - self.counts

    def draw(self, num: int, generator: torch.Generator) -> Tensor:
        """The positions of ``num`` items drawn with replacement, (num,) int64."""
        chosen = torch.randint(len(self.counts), (num,), generator=generator)
        counts = self.counts[chosen]
        # 53 random bits a draw: no item of a bin is likelier than another by more than rounding.
        fractions = torch.rand(num, dtype=torch.float64, generator=generator)
        within = (fractions * counts).long().clamp_(max=counts - 1)
        return self._members[self._starts[chosen] + within]

    def __len__(self) -> int:
        return len(self.bins)


class MoleculeLoader(EpochLoader[Batch]):
    """Goes through a data set in batches, each assembled by :meth:`MoleculeDataset.batch`.

    It replaces ``torch_geometric.loader.DataLoader``, gives the same batches, and needs no worker
    processes. Each pass is an epoch. With ``shuffle``, its permutation is drawn from ``seed`` plus
    the number of the epoch. A run can then be resumed at any epoch (:meth:`set_epoch`) with the
    same batches as without the interruption.

    When several processes train together, each has a loader with the same arguments except
    ``share``, and goes through its own molecules of every batch: r, r + R, ... So that no process
    waits for another, a share has at least ``smallest_share`` molecules: others of the batch,
    then its own, are appended as stand-ins, with NaN for all targets. A single process has none.

    Args:
        dataset: a :class:`~pyg_kernels.datasets.MoleculeDataset` or
            :class:`~pyg_kernels.datasets.MoleculeShards`.
        indices: the positions to go through, or a mask; all by default.
        batch_size: molecules per batch, over all processes together; the last batch may have fewer.
        shuffle: whether each epoch has a random order of its own.
        seed: the seed of the orders.
        drop_last: whether to leave out a last batch that has fewer molecules.
        share: the rank r of this process, from 0, and the number R of processes.
        smallest_share: the least number of molecules of a share, including stand-ins.
        bins: the bins of the molecules at ``indices``, in their order. Each pass then draws as many
            molecules as there are, with replacement, so that every bin is equally likely. The draw
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

    items = "molecules"

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
        super().__init__(dataset, indices, batch_size, shuffle, seed)
        if len(share) != 2 or not 0 <= share[0] < share[1]:
            raise ValueError(f"share must be the rank of a process and their number, not {share}")
        self.rank, self.number = share
        self.smallest_share = checked_count(smallest_share, "smallest_share")
        self.drop_last = drop_last
        if bins is not None and len(bins) != len(self.indices):
            raise ValueError(
                f"bins must be of the {len(self.indices)} molecules at indices, not of {len(bins)}"
            )
        self.bins = bins

    def __len__(self) -> int:
        """The number of batches in a pass."""
        return len(self.indices) // self.batch_size if self.drop_last else super().__len__()

    def order(self, generator: torch.Generator) -> Tensor:
        """The positions of a pass in their order; random draws use the generator."""
        if self.bins is None:
            return super().order(generator)
        return self.indices[self.bins.draw(len(self.indices), generator)]

    def assemble(self, indices: Tensor) -> Batch:
        """This process's share of the batch of the molecules at these positions."""
        rows, own = self.own_rows(indices)
        batch = super().assemble(rows)
        if own < len(rows):
            batch.y[own:] = torch.nan
        return batch

    def own_rows(self, batch: Tensor) -> tuple[Tensor, int]:
        """This process's rows of a batch, with stand-ins last, and how many are its own."""
        own = batch[self.rank :: self.number]
        missing = self.smallest_share - len(own)
        if self.number == 1 or missing <= 0:
            return own, len(own)
        # Others first: equal items have the variance 0, by which batch normalization divides.
        others = torch.arange(len(batch)) % self.number != self.rank
        candidates = torch.cat([batch[others], own])
        stand_ins = candidates[torch.arange(missing) % len(candidates)]
        return torch.cat([own, stand_ins]), len(own)


class TextLoader(EpochLoader["TextBatch"]):
    """Goes through texts in batches, put together without a loop over texts or words.

    Epochs and their orders are as in :class:`MoleculeLoader`. With ``shuffle`` and ``bucket`` above
    1, the texts in that order are taken ``bucket * batch_size`` at a time, sorted by length, and
    cut into batches. All batches are then shuffled. The texts of a batch have similar lengths, so
    models that pad need little padding.

    Args:
        texts: the texts.
        indices: the positions to go through, or a mask; all by default.
        batch_size: texts per batch; one batch may have fewer.
        shuffle: whether each epoch has a random order of its own.
        seed: the seed of the orders.
        bucket: the number of batches whose texts are sorted by length together.

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

    items = "texts"

    def __init__(
        self,
        texts: EncodedTexts,
        indices: Indices | None = None,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        bucket: int = 1,
    ) -> None:
        super().__init__(texts, indices, batch_size, shuffle, seed)
        self.bucket = checked_count(bucket, "bucket")

    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The positions of each batch of a pass; random draws use the generator."""
        if not self.shuffle or self.bucket == 1:
            return super().batches(generator)
        order = self.order(generator)
        place = torch.arange(len(order)) // (self.bucket * self.batch_size)
        lengths = self.dataset.lengths[order]
        # By bucket, then by length: one stable sort on a combined key.
        order = order[(place * (int(lengths.max()) + 1) + lengths).argsort(stable=True)]
        batches = list(order.split(self.batch_size))
        return [batches[k] for k in torch.randperm(len(batches), generator=generator).tolist()]
