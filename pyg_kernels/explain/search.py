r"""The best walks of a sum over walks, by best-first search.

Consider a walk that has reached node u at step j with the product p. However it continues, its
absolute value is at most

.. math::
    \min\Bigl(\sum_k |p_k| M_k,\; C \sqrt{\textstyle\sum_k p_k^2 M_k^2}\Bigr), \qquad
    M_k \ge |a_k|, \quad C \ge \sqrt{\textstyle\sum_k a_k^2 / M_k^2}

for every a that it can be multiplied by from there (Hölder; Cauchy and Schwarz). M and C of each
node and step are computed from those of the next step. The most promising walk is extended first,
until k whole walks are better than any other can become. With one channel the bound is tight, and
no walk is extended in vain.

Walks that wait at the same node are extended together, by one matrix product. Each visit extends
twice as many, up to a limit, and is put off until that many wait or they hold up a whole walk.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Walk = tuple[tuple[int, ...], float]

#: Values are compared to this many binary digits, so that rounding differences do not count.
_DIGITS = 34
#: At most 2 ** _MOST_DOUBLINGS prefixes are extended together, to at most _MOST_WALKS walks.
_MOST_DOUBLINGS, _MOST_WALKS = 8, 2**22
#: An upper bound on what sums of squares of numbers below 1 lose by underflow.
_TINY = 1e-290


def as_array(tensor: Tensor) -> Array:
    """A tensor's numbers in double precision, in which walks are compared."""
    return tensor.detach().double().cpu().numpy()


class Moves(NamedTuple):
    """Where a walk can go from a node: the nodes, the edges, and what it is multiplied by."""

    nodes: Indices
    edges: Indices
    factors: Array


class Ends(NamedTuple):
    """The weight of a walk that ends at each node, (N, D), and whether a walk can end there."""

    weights: Array
    allowed: Flags


class Reach(NamedTuple):
    """Bounds on every product that a walk can be multiplied by from each node on.

    Attributes:
        largest: M, the largest absolute value in each channel, :obj:`(N, D)`.
        spread: C, the largest Euclidean norm in units of M, :obj:`(N,)`.
    """

    largest: Array
    spread: Array

    @staticmethod
    def of(weights: Array) -> Reach:
        """The bounds of a single factor at each node."""
        return Reach(np.abs(weights), np.sqrt(np.count_nonzero(weights, axis=-1)))

    def spread_within(self, whole: Array) -> Array:
        """C in units of a larger M."""
        share = np.divide(self.largest, whole, out=np.zeros_like(whole), where=whole > 0)
        norm = np.sqrt(np.square(share).sum(-1))
        return np.minimum(norm, share.max(-1) * self.spread)

    def or_else(self, other: Reach) -> Reach:
        """Bounds on everything that either of the two bounds."""
        whole = np.maximum(self.largest, other.largest)
        return Reach(whole, np.maximum(self.spread_within(whole), other.spread_within(whole)))


class Walks(ABC):
    """A sum over walks, as the search goes through it.

    Args:
        starts: The initial products of walks that start at steps 1, ..., n, each :obj:`(N, D)`;
            None for a step at which no walk starts.
        ends: The weights of walks that end at steps 1, ..., n; None if no walk ends there.
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
    def reach(self, step: int, ahead: Reach) -> Reach:
        """Bounds from each node on: the factor of a move times what is ahead of its target."""

    @abstractmethod
    def leads(self, ahead: Flags) -> Flags:
        """Whether some move from each node leads to a marked node, (N,)."""


def best_walks(walks: Walks, k: int) -> list[Walk]:
    """The k walks of largest absolute value; walks of equal values are sorted by their nodes.

    The number of walks that are examined depends on the values. In the worst case, such as many
    channels of random signs with decays near 1, the bound rules out few walks. Time then grows as
    the number of walks times D, and memory as the number of walks without their last node times
    D. If only the shares are needed, set k = 0.

    Args:
        walks: The sum over walks.
        k: How many to find.

    Returns:
        The nodes and the value of each walk; all walks if there are at most k.
    """
    return _Search(walks, k).run() if k else []


class _Prefix(NamedTuple):
    """A walk as the search orders it: by bound or value, then by nodes, then by edges."""

    key: float
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    unfinished: bool
    step: int
    content: Any  # the product of an unfinished walk, (D,), or the value of a whole one


class _Search:
    """One search. At each step and node the best prefix is pending; the others wait behind it."""

    def __init__(self, walks: Walks, k: int) -> None:
        self.walks, self.k = walks, k
        self.reach, self.reaching = _look_ahead(walks)
        self.channels = next(s.shape[1] for s in walks.starts if s is not None)
        # A bound on the relative rounding error of sums of products of non-negative numbers.
        self.loss = 8.0 * (self.channels + 4 * walks.order) * np.finfo(np.float64).eps
        self.pending: list[_Prefix] = []
        self.waiting: defaultdict[tuple[int, int], list[_Prefix]] = defaultdict(list)
        self.visits: Counter[tuple[int, int]] = Counter()
        self.put_off: dict[tuple[int, int], None] = {}
        self.best: list[float] = []  # the k largest values of whole walks so far

    def run(self) -> list[Walk]:
        nothing = _Prefix(0.0, (), (), True, 0, np.ones(self.channels))
        for step, start in enumerate(self.walks.starts, start=1):
            if start is not None:
                nodes = np.arange(len(start))
                self._extend([nothing], step, Moves(nodes, nodes, start))
        found: list[Walk] = []
        while (self.pending or self.put_off) and len(found) < self.k:
            if self.put_off and not (self.pending and self.pending[0].unfinished):
                # Places that were put off are visited before a whole walk counts as found.
                places, self.put_off = self.put_off, {}
                for place in places:
                    self._visit(place)
                continue
            prefix = heapq.heappop(self.pending)
            if prefix.unfinished:
                self._come_to(prefix)
            else:
                found.append((prefix.nodes, prefix.content))
        return found

    def _come_to(self, prefix: _Prefix) -> None:
        """Visits the place of a prefix, or puts the visit off until more prefixes wait there."""
        place = prefix.step, prefix.nodes[-1]
        waiting = self.waiting[place]
        if not waiting or (waiting[0] is not prefix and place not in self.put_off):
            return  # extended already, together with a better one
        if len(waiting) < self._together(place):
            self.put_off[place] = None
        else:
            self.put_off.pop(place, None)
            self._visit(place)

    def _visit(self, place: tuple[int, int]) -> None:
        """Extends the most promising of the prefixes that wait at a step and node."""
        waiting = self.waiting[place]
        moves = self.walks.moves(*place)
        room = _MOST_WALKS // max(1, len(moves.nodes))
        most = max(1, min(self._together(place), room))
        self.visits[place] += 1
        taken = [heapq.heappop(waiting) for _ in range(min(most, len(waiting)))]
        if waiting:
            heapq.heappush(self.pending, waiting[0])
        prefixes = [prefix for prefix in taken if -prefix.key >= self._least()]
        self._extend(prefixes, place[0] + 1, moves)

    def _together(self, place: tuple[int, int]) -> int:
        """How many prefixes to extend at once: twice as many at each visit, up to a limit."""
        return int(2 ** min(self.visits[place], _MOST_DOUBLINGS))

    def _extend(self, prefixes: list[_Prefix], step: int, moves: Moves) -> None:
        """Extends prefixes to a step, both as walks that end there and as walks that go on."""
        if not prefixes:
            return
        contents = np.stack([prefix.content for prefix in prefixes])
        self._finish(prefixes, contents, step, moves)
        if step < self.walks.order:
            self._go_on(prefixes, contents, step, moves)

    def _finish(self, prefixes: list[_Prefix], contents: Array, step: int, moves: Moves) -> None:
        """Notes the walks that end at a step and can be among the k best."""
        end = self.walks.ends[step - 1]
        if end is None:
            return
        weights = end.weights[moves.nodes]
        ahead = moves.factors * weights
        allowed = end.allowed[moves.nodes]
        sizes = np.abs(contents @ ahead.T)
        # A bound on the rounding error of the matrix product. The product only selects walks;
        # the values of those that remain are computed again.
        lost = self.loss * np.abs(contents).sum(1).max() * np.abs(ahead).max(initial=0.0)
        enough = max(self._least(), self._kth(sizes[:, allowed], lost))
        rows, places = np.nonzero((sizes >= enough - lost) & allowed)
        products = moves.factors[places] * contents[rows]
        values = np.einsum("cd,cd->c", products, weights[places])
        for row, i, key, value in zip(rows, places, _rounded(np.abs(values)), values, strict=True):
            if key >= self._least():
                heapq.heappush(self.best, key)
                if len(self.best) > self.k:
                    heapq.heappop(self.best)
                walk = self._names(prefixes[row], moves, int(i))
                heapq.heappush(self.pending, _Prefix(-key, *walk, False, step, float(value)))

    def _go_on(self, prefixes: list[_Prefix], contents: Array, step: int, moves: Moves) -> None:
        """Queues prefixes that can become one of the k best at the nodes they have reached."""
        reach = self.reach[step - 1]
        ahead = np.abs(moves.factors) * reach.largest[moves.nodes]
        bounds = _bounds(np.abs(contents), ahead, reach.spread[moves.nodes]) * (1.0 + self.loss)
        reaching = self.reaching[step - 1][moves.nodes]
        rows, places = np.nonzero((bounds >= self._least()) & reaching)
        products = moves.factors[places] * contents[rows]
        keys = _rounded(bounds[rows, places])
        for row, i, key, product in zip(rows, places, keys, products, strict=True):
            nodes, edges = self._names(prefixes[row], moves, int(i))
            prefix = _Prefix(-key, nodes, edges, True, step, product)
            waiting = self.waiting[step, nodes[-1]]
            heapq.heappush(waiting, prefix)
            if waiting[0] is prefix or (step, nodes[-1]) in self.put_off:
                heapq.heappush(self.pending, prefix)

    def _kth(self, sizes: Array, lost: float) -> float:
        """A lower bound on the k-th largest of these sizes; -1 if there are fewer than k."""
        if sizes.size < self.k:
            return -1.0
        kth = np.partition(sizes, sizes.size - self.k, axis=None)[sizes.size - self.k]
        return float(_rounded(np.maximum(kth - lost, 0.0)))

    def _least(self) -> float:
        """The least absolute value among the k best walks so far; -1 if there are fewer than k."""
        return self.best[0] if len(self.best) == self.k else -1.0

    @staticmethod
    def _names(prefix: _Prefix, moves: Moves, i: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        along = (int(moves.edges[i]),) if prefix.nodes else ()
        return (*prefix.nodes, int(moves.nodes[i])), (*prefix.edges, *along)


def _bounds(contents: Array, largest: Array, spread: Array) -> Array:
    """An upper bound on the value that each walk can reach by each move, (prefixes, moves)."""
    by_sum = contents @ largest.T
    tops = contents.max(1, keepdims=True), largest.max(1, keepdims=True)
    shares = [
        np.divide(part, top, out=np.zeros_like(part), where=top > 0)
        for part, top in zip((contents, largest), tops, strict=True)
    ]
    squares = np.square(shares[0]) @ np.square(shares[1]).T
    by_norm = np.sqrt(squares + _TINY) * tops[0] * (tops[1][:, 0] * spread)
    return np.fmin(by_sum, by_norm)


def _look_ahead(walks: Walks) -> tuple[list[Reach], list[Flags]]:
    """For steps 1, ..., n - 1: bounds from each node on, and whether walks from there can end."""
    last = next(end for end in reversed(walks.ends) if end is not None)
    reach, reaching = Reach.of(last.weights), last.allowed
    reaches: list[Reach] = []
    reachings: list[Flags] = []
    for step in range(walks.order - 1, 0, -1):
        reaches.append(walks.reach(step, reach))
        reachings.append(walks.leads(reaching))
        reach, reaching = reaches[-1], reachings[-1]
        end = walks.ends[step - 1]
        if end is not None:
            reach = reach.or_else(Reach.of(end.weights))
            reaching = reaching | end.allowed
    return reaches[::-1], reachings[::-1]


def _rounded(values: Array) -> Array:
    """Positive numbers cut to `_DIGITS` binary digits; any two keep their order or become equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.floor(np.ldexp(mantissa, _DIGITS)), exponent - _DIGITS)
