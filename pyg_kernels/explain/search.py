r"""The best walks of a sum over walks, by best-first search.

A walk that has come to node u at step j with the product p has, whatever it does next, at most
the absolute value

.. math::
    \sum_k |p_k| \, M_j[u]_k, \qquad M_j[u]_k = \max_v |G_{j+1}[uv]_k| \,
    \max(|\theta_{j+1}[v]_k|, M_{j+1}[v]_k).

The most promising walk is extended first, until k whole walks are better than what any other can
become. With one channel the bound is met, and nothing is extended in vain.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Walk = tuple[tuple[int, ...], float]

#: Values are ordered by this many binary digits: those that differ by rounding alone are equal.
_DIGITS = 34


def as_array(tensor: Tensor) -> Array:
    """A tensor's numbers in double precision, in which walks are compared."""
    return tensor.detach().double().cpu().numpy()


class Moves(NamedTuple):
    """Where a walk can go from a node: the nodes, the edges, and what it is multiplied by."""

    nodes: Indices
    edges: Indices
    factors: Array


class Ends(NamedTuple):
    """The weight of a walk that ends at each node, (N, D), and whether one can."""

    weights: Array
    allowed: Flags


class Walks(ABC):
    """A sum over walks, as the search goes through it.

    Args:
        starts: What a walk starts with at each node at steps 1, ..., n, each :obj:`(N, D)`; None
            where none starts.
        ends: The weights of walks that end at steps 1, ..., n; None where none ends.
    """

    def __init__(self, starts: Sequence[Array | None], ends: Sequence[Ends | None]) -> None:
        self.starts, self.ends = starts, ends

    @property
    def order(self) -> int:
        return len(self.starts)

    @abstractmethod
    def moves(self, step: int, node: int) -> Moves:
        """The moves from a node at a step to the next step."""

    @abstractmethod
    def largest(self, step: int, ahead: Array) -> Array:
        """The largest absolute factor of any move from each node, times what is ahead, (N, D)."""

    @abstractmethod
    def leads(self, ahead: Flags) -> Flags:
        """Whether any move from each node leads to one that is marked, (N,)."""


def best_walks(walks: Walks, k: int) -> list[Walk]:
    """The k walks of largest absolute value, those of equal values in the order of their nodes.

    Args:
        walks: The sum over walks.
        k: How many to find.

    Returns:
        Nodes and value of each; all walks where there are at most k.
    """
    return _Search(walks, k).run() if k else []


class _Search:
    """One search; what is pending is ordered by bound or value, then by nodes, then by edges."""

    def __init__(self, walks: Walks, k: int) -> None:
        self.walks, self.k = walks, k
        self.bounds, self.reaching = _look_ahead(walks)
        channels = next(s.shape[1] for s in walks.starts if s is not None)
        # More than products and sums of non-negative numbers lose to rounding.
        self.slack = 1.0 + 4.0 * (channels + 4 * walks.order) * np.finfo(np.float64).eps
        self.pending: list[tuple[Any, ...]] = []
        self.best: list[float] = []  # the k largest values of whole walks so far

    def run(self) -> list[Walk]:
        for step, start in enumerate(self.walks.starts, start=1):
            if start is not None:
                nodes = np.arange(len(start))
                self._offer((), (), step, Moves(nodes, nodes, start), first=True)
        found: list[Walk] = []
        while self.pending and len(found) < self.k:
            _, nodes, edges, unfinished, step, content = heapq.heappop(self.pending)
            if not unfinished:
                found.append((nodes, content))
                continue
            nodes_ahead, edges_ahead, factors = self.walks.moves(step, nodes[-1])
            reached = Moves(nodes_ahead, edges_ahead, factors * content)
            self._offer(nodes, edges, step + 1, reached)
        return found

    def _offer(
        self,
        nodes: tuple[int, ...],
        edges: tuple[int, ...],
        step: int,
        reached: Moves,
        first: bool = False,
    ) -> None:
        """Puts walks that have come to a step among what is pending: as they end, and to go on."""
        end = self.walks.ends[step - 1]
        if end is not None:
            values = np.einsum("cd,cd->c", reached.factors, end.weights[reached.nodes])
            keys = _rounded(np.abs(values))
            for i in self._promising(keys, end.allowed[reached.nodes]):
                self._note(keys[i])
                walk = self._names(nodes, edges, reached, i, first)
                heapq.heappush(self.pending, (-keys[i], *walk, False, step, float(values[i])))
        if step == self.walks.order:
            return
        ahead = self.bounds[step - 1][reached.nodes]
        bounds = np.einsum("cd,cd->c", np.abs(reached.factors), ahead) * self.slack
        keys = _rounded(bounds)
        for i in self._promising(keys, self.reaching[step - 1][reached.nodes]):
            walk = self._names(nodes, edges, reached, i, first)
            heapq.heappush(self.pending, (-keys[i], *walk, True, step, reached.factors[i]))

    def _promising(self, keys: Array, allowed: Flags) -> Iterator[int]:
        """Those that can be among the k best, by what is known at each."""
        for i in np.flatnonzero(allowed & (keys >= self._least())):
            if keys[i] >= self._least():
                yield int(i)

    def _least(self) -> float:
        """What the k-th best walk has at least."""
        return self.best[0] if len(self.best) == self.k else -1.0

    def _note(self, key: float) -> None:
        if len(self.best) < self.k:
            heapq.heappush(self.best, key)
        else:
            heapq.heapreplace(self.best, key)

    @staticmethod
    def _names(
        nodes: tuple[int, ...], edges: tuple[int, ...], reached: Moves, i: int, first: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        along = () if first else (int(reached.edges[i]),)
        return (*nodes, int(reached.nodes[i])), (*edges, *along)


def _look_ahead(walks: Walks) -> tuple[list[Array], list[Flags]]:
    """For steps 1, ..., n - 1: M of each node, and whether a walk from there can end."""
    last = next(end for end in reversed(walks.ends) if end is not None)
    bound, reaching = np.abs(last.weights), last.allowed
    bounds: list[Array] = []
    reachings: list[Flags] = []
    for step in range(walks.order - 1, 0, -1):
        bounds.append(walks.largest(step, bound))
        reachings.append(walks.leads(reaching))
        bound, reaching = bounds[-1], reachings[-1]
        end = walks.ends[step - 1]
        if end is not None:
            bound = np.maximum(bound, np.abs(end.weights))
            reaching = reaching | end.allowed
    return bounds[::-1], reachings[::-1]


def _rounded(values: Array) -> Array:
    """Positive numbers cut to `_DIGITS` binary digits; the order of any two is kept or lost."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.floor(np.ldexp(mantissa, _DIGITS)), exponent - _DIGITS)
