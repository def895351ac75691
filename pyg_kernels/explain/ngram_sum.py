r"""A sum over the n-grams of a text, and its exact shares.

It is a sum over walks (:mod:`pyg_kernels.explain.walk_sum`) on the transitive closure of the
path: from token s to t > s a walk is multiplied by
:math:`(1 - \lambda_s)^\nu \prod_{s < r < t} \lambda_r`. Linear scans sum over its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.explain.search import Ends, Flags, Moves, Reach, Walks, as_array
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import linear_scan
from pyg_kernels.walk import Combine, walk


@dataclass(frozen=True, eq=False)
class NgramSum:
    r"""A sum over n-grams.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(T, D)`.
        decay: :math:`\lambda`, :obj:`(T, D)`.
        keep: :math:`(1 - \lambda)^\nu`, :obj:`(T, D)`.
        ends: The weights of n-grams of orders 1, ..., n that end at each token, each
            :obj:`(T, D)`; None if the sum has no n-grams of that order.
        combine: ``'mul'``: the value of an n-gram is shared evenly by its tokens. ``'add'``: an
            n-gram takes the features of its first token alone, and this token gets the value.
        only_last: Whether every n-gram ends at the last token.
    """

    projections: Sequence[Tensor]
    decay: Tensor
    keep: Tensor
    ends: Sequence[Tensor | None]
    combine: Combine
    only_last: bool

    def total(self) -> Tensor:
        """The whole sum."""
        return self.channels().sum()

    def channels(self) -> Tensor:
        """The sum in each channel, (D,)."""
        pairs = zip(self._arriving, self.ends, strict=True)
        parts = [(reached * end).sum(0) for reached, end in pairs if end is not None]
        return torch.stack(parts).sum(0)

    def tokens(self) -> Tensor:
        """The share of each token, (T,); they add up to the total."""
        reached = self._arriving if self.combine == "mul" else self.projections
        pairs = zip(reached, self._ahead(), strict=True)
        return sum(((p * ahead).sum(1) for p, ahead in pairs), self.decay.new_zeros(()))

    @cached_property
    def _arriving(self) -> list[Tensor]:
        """The sums over the n-grams that end at each token, of orders 1, ..., n."""

        def carry(state: Tensor, step: int) -> Tensor:
            return self._carried(self.keep * state)

        return walk(self.projections, carry, self.combine)

    def _ahead(self) -> list[Tensor]:
        """The sums over what follows a token at place 1, ..., n, weighted by the token's share."""
        found: list[Tensor] = []
        ahead = torch.zeros_like(self.decay)
        for order in range(len(self.projections), 0, -1):
            end = self.ends[order - 1]
            if end is not None:
                ahead = ahead + (end / order if self.combine == "mul" else end)
            found.append(ahead)
            if self.combine == "mul":
                ahead = ahead * self.projections[order - 1]
            ahead = self.keep * self._carried(ahead, backwards=True)
        return found[::-1]

    def _carried(self, state: Tensor, backwards: bool = False) -> Tensor:
        """At each token, the decayed sum over all earlier tokens, or over all later tokens."""
        layout = Layout.of_grid(len(state), 1, state.device)
        layout = layout.reversed() if backwards else layout
        nothing = state.new_zeros(1, state.size(1))
        return layout.before(linear_scan(self.decay, state, layout, nothing), nothing)


class TextWalks(Walks):
    """The n-grams of a text, to be searched."""

    def __init__(self, ngrams: NgramSum) -> None:
        self.projections = [as_array(p) for p in ngrams.projections]
        self.multiplies = ngrams.combine == "mul"
        allowed = np.ones(len(ngrams.decay), dtype=bool)
        allowed[:-1] = not ngrams.only_last
        super().__init__(
            [p if i == 0 or not self.multiplies else None for i, p in enumerate(self.projections)],
            [None if end is None else Ends(as_array(end), allowed) for end in ngrams.ends],
        )
        self.decay, self.keep = as_array(ngrams.decay), as_array(ngrams.keep)

    def moves(self, step: int, node: int) -> Moves:
        later = np.arange(node + 1, len(self.decay))
        factors = np.empty((len(later), self.decay.shape[1]))
        factors[:1] = self.keep[node]
        factors[1:] = self.decay[node + 1 : -1]
        np.cumprod(factors, axis=0, out=factors)
        if self.multiplies:
            factors *= self.projections[step][later]
        return Moves(later, later, factors)

    def reach(self, step: int, ahead: Reach) -> Reach:
        if self.multiplies:
            ahead = Reach(ahead.largest * np.abs(self.projections[step]), ahead.spread)
        largest, spread = np.zeros_like(ahead.largest), np.zeros_like(ahead.spread)
        for token in range(len(spread) - 2, -1, -1):
            taken = Reach(ahead.largest[token + 1], ahead.spread[token + 1])
            skipped = Reach(self.decay[token + 1] * largest[token + 1], spread[token + 1])
            largest[token], spread[token] = taken.or_else(skipped)
        return Reach(self.keep * largest, spread)

    def leads(self, ahead: Flags) -> Flags:
        found = np.zeros_like(ahead)
        found[:-1] = np.logical_or.accumulate(ahead[:0:-1])[::-1]
        return found
