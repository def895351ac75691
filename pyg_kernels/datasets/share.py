"""Which part of every batch one of several processes computes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """The share of one process in one batch.

    Attributes:
        rows: (B,) the positions of its own items, then those of stand-ins.
        own: the number of its own items.
    """

    rows: Tensor
    own: int


class Share:
    """One of R processes takes the items r, r + R, ... of every batch.

    Data-parallel training hangs where a process has no batch when the others have one. So a share
    never has fewer items than ``smallest``: further items of the same batch stand in, whose targets
    do not count.

    Args:
        rank: r, from 0.
        number: R.
        smallest: items of a share at least.

    Raises:
        ValueError: if ``rank`` is not from 0 to R - 1, or ``smallest`` is not positive.
    """

    def __init__(self, rank: int = 0, number: int = 1, smallest: int = 1) -> None:
        if not 0 <= rank < number:
            raise ValueError(
                f"share must be the rank of a process and their number, not {(rank, number)}"
            )
        if smallest < 1:
            raise ValueError(f"smallest_share must be at least 1, not {smallest}")
        self.rank, self.number, self.smallest = rank, number, smallest

    def of(self, batch: Tensor) -> Rows:
        """The share in the batch of the items at these positions, of which there is one at least.

        One process has the whole batch, however small it is.
        """
        if self.number == 1:
            return Rows(batch, len(batch))
        own = batch[self.rank :: self.number]
        missing = self.smallest - len(own)
        if missing <= 0:
            return Rows(own, len(own))
        # Filled with other items: a batch of equal ones would have variance 0, which batch
        # normalisation divides by.
        others = torch.arange(len(batch)) % self.number != self.rank
        candidates = torch.cat([batch[others], own])
        stand_ins = candidates[torch.arange(missing) % len(candidates)]
        return Rows(torch.cat([own, stand_ins]), len(own))

    def __repr__(self) -> str:
        return f"({self.rank}, {self.number})"
