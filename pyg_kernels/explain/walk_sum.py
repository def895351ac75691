r"""A sum over the walks on a graph, and its exact shares.

Every kernel layer on graphs, additive or multiplicative, gated or not, adds up the values

.. math::
    \Bigl\langle \theta_{u_n},\; \bigodot_{j = i + 1}^n G_j[u_{j-1} u_j] \odot S_i[u_i]
    \Bigr\rangle

of walks :math:`(u_i, \ldots, u_n)`. S is what a walk starts with at its first node, G what each
edge multiplies it by, and :math:`\theta` the weight at its last node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.explain.search import Ends, Flags, Moves, Reach, Walks, as_array
from pyg_kernels.walk import Combine


@dataclass(frozen=True, eq=False)
class WalkSum:
    r"""A sum over walks that end at step n.

    Args:
        starts: :math:`S_1, \ldots, S_n`, each :obj:`(N, D)`; None if no walk starts at a step.
        steps: :math:`G_2, \ldots, G_n`, what each edge multiplies a walk by, each :obj:`(E, D)`.
        ends: :math:`\theta`, :obj:`(N, D)`.
        source: The node that each edge leaves, :obj:`(E,)`.
        target: The node that it reaches, :obj:`(E,)`.
        combine: ``'mul'``: a walk's value is shared evenly by its nodes. ``'add'``: a walk takes
            the features of its first node alone, and this node gets the value.
    """

    starts: Sequence[Tensor | None]
    steps: Sequence[Tensor]
    ends: Tensor
    source: Tensor
    target: Tensor
    combine: Combine

    @property
    def order(self) -> int:
        """The number of nodes n of the longest walks."""
        return len(self.starts)

    def total(self) -> Tensor:
        """The whole sum."""
        return (self.arriving[-1] * self.ends).sum()

    def single_nodes(self) -> Tensor:
        """What walks of one node add. They have no edge."""
        last = self.starts[-1]
        return self.ends.new_zeros(()) if last is None else (last * self.ends).sum()

    def nodes(self) -> Tensor:
        """The share of each node, (N,); they add up to the total."""
        arriving = self.arriving if self.combine == "mul" else self.starts
        share = 1 / self.order if self.combine == "mul" else 1.0
        found = self.ends.new_zeros(self.ends.size(0))
        for reached, ahead in zip(arriving, self.ahead, strict=True):
            if reached is not None:
                found += share * (reached * ahead).sum(1)
        return found

    def edges(self) -> Tensor:
        """The share of each edge, (E,): a walk's value is shared evenly by its edges.

        The shares add up to the total without the walks of one node.
        """
        num_edges = [self.order - step for step in range(1, self.order)]  # from a start at step
        shares = [
            None if start is None else start / edges
            for start, edges in zip(self.starts, num_edges, strict=False)
        ]
        reached, ahead = self._arriving([*shares, None]), self.ahead
        found = self.ends.new_zeros(self.source.numel())
        for step, along in enumerate(self.steps):
            before = reached[step].index_select(0, self.source)
            after = ahead[step + 1].index_select(0, self.target)
            found += (before * along * after).sum(1)
        return found

    @cached_property
    def arriving(self) -> list[Tensor]:
        """The sums over the walks that reach each node at steps 1, ..., n, each (N, D)."""
        return self._arriving(self.starts)

    @cached_property
    def ahead(self) -> list[Tensor]:
        """The sums over what is ahead of each node at steps 1, ..., n, each (N, D)."""
        found = [self.ends]
        for along in reversed(self.steps):
            carried = along * found[-1].index_select(0, self.target)
            found.append(torch.zeros_like(self.ends).index_add_(0, self.source, carried))
        return found[::-1]

    def _arriving(self, starts: Sequence[Tensor | None]) -> list[Tensor]:
        nothing = torch.zeros_like(self.ends)
        found = [nothing if starts[0] is None else starts[0]]
        for along, start in zip(self.steps, starts[1:], strict=True):
            carried = along * found[-1].index_select(0, self.source)
            reached = torch.zeros_like(self.ends).index_add_(0, self.target, carried)
            found.append(reached if start is None else reached + start)
        return found


def side_by_side(sums: Sequence[WalkSum]) -> WalkSum:
    """Joins several sums over the walks of one graph into one by concatenating their channels."""
    first = sums[0]
    if len(sums) == 1:
        return first
    starts = []
    for parts in zip(*(s.starts for s in sums), strict=True):
        given = [part for part in parts if part is not None]
        starts.append(torch.cat(given, 1) if given else None)
    return WalkSum(
        starts,
        [torch.cat(parts, 1) for parts in zip(*(s.steps for s in sums), strict=True)],
        torch.cat([s.ends for s in sums], 1),
        first.source,
        first.target,
        first.combine,
    )


class GraphWalks(Walks):
    """The walks on a graph, to be searched."""

    def __init__(self, walks: WalkSum) -> None:
        starts = [None if start is None else as_array(start) for start in walks.starts]
        allowed = np.ones(walks.ends.size(0), dtype=bool)
        ends: list[Ends | None] = [None] * walks.order
        ends[-1] = Ends(as_array(walks.ends), allowed)
        super().__init__(starts, ends)
        self.steps = [as_array(step) for step in walks.steps]
        self.source, self.target = walks.source.cpu().numpy(), walks.target.cpu().numpy()
        self.leaving = np.argsort(self.source, kind="stable")
        places = np.arange(walks.ends.size(0) + 1)
        self.begins = np.searchsorted(self.source[self.leaving], places)

    def moves(self, step: int, node: int) -> Moves:
        edges = self.leaving[self.begins[node] : self.begins[node + 1]]
        return Moves(self.target[edges], edges, self.steps[step - 1][edges])

    def reach(self, step: int, ahead: Reach) -> Reach:
        along = np.abs(self.steps[step - 1]) * ahead.largest[self.target]
        largest = np.zeros_like(ahead.largest)
        np.maximum.at(largest, self.source, along)
        spread = np.zeros_like(ahead.spread)
        spreads = Reach(along, ahead.spread[self.target]).spread_within(largest[self.source])
        np.maximum.at(spread, self.source, spreads)
        return Reach(largest, spread)

    def leads(self, ahead: Flags) -> Flags:
        found = np.zeros_like(ahead)
        found[self.source[ahead[self.target]]] = True
        return found
