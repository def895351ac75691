"""Drawing items so that all ranges of a value are equally likely."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class UniformBins:
    r"""Draws items so that every bin of a value is equally likely, whatever the values' density.

    The k-th bin holds the items with :math:`k w \le y < (k + 1) w`; of the bins that hold any, each
    draw takes one at random, and one of its items at random, with replacement. So Dai et al. 2016
    and Lei et al. 2017, section 6.3, draw training molecules of the Clean Energy Project, whose
    efficiencies are distributed unevenly, to put more emphasis on the high ones.

    Args:
        values: (M,) the value of each item.
        width: of a bin, in the values' units.

    Attributes:
        bins: (M,) the bin of each item, from 0; bins without items are not counted.
        counts: (K,) the number of items of each bin.

    Raises:
        ValueError: if there are no values, one is not finite, or the width is not positive or so
            small that the bins' numbers are no longer exact.

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items in {len(self.counts)} bins)"
