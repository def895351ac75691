"""The independent side of the tests: n-grams enumerated one by one, in plain loops, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor


def ngrams(length: int, order: int) -> Iterator[tuple[int, ...]]:
    """The positions, counted from 0, of all n-grams of a text, consecutive or not."""
    return combinations(range(length), order)


def string_kernel(x: Tensor, y: Tensor, order: int, decay: float) -> Tensor:
    """Lei et al. 2017, eq. 3 for any n: pairs of n-grams, each weighted by its distance to the end.

    Args:
        x: The one string, (L, F).
        y: The other string, (M, F).
        order: n.
        decay: The weight of an n-gram of x that starts at i_1 (from 1) is
            decay ** (|x| - i_1 - n + 1), and the same for y; 0 ** 0 is 1.
    """
    total = torch.zeros((), dtype=torch.float64)
    for i in ngrams(len(x), order):
        for k in ngrams(len(y), order):
            value = x.new_tensor(decay ** (len(x) - i[0] - order + len(y) - k[0] - order))
            for i_m, k_m in zip(i, k, strict=True):
                value = value * torch.dot(x[i_m], y[k_m])
            total = total + value
    return total


def string_features(x: Tensor, order: int, decay: float) -> Tensor:
    """The map of that kernel: the weighted sum of the tensor products of all n-grams, (F^n,)."""
    total = torch.zeros(x.size(1) ** order, dtype=torch.float64)
    for i in ngrams(len(x), order):
        product = torch.ones(1, dtype=torch.float64)
        for i_m in i:
            product = torch.outer(product, x[i_m]).flatten()
        total = total + decay ** (len(x) - i[0] - order) * product
    return total


@dataclass
class States:
    """The states of walks of every order 1..n along one text, lists of (L, D)."""

    z: list[Tensor]
    c: list[Tensor]

    def read(self, readout: str) -> Tensor:
        """What a layer reads: z_n, c_n, or the sum of c_1..c_n."""
        if readout == "sum":
            return torch.stack(self.c).sum(dim=0)
        return (self.z if readout == "z" else self.c)[-1]


def ngram_states(
    projections: Sequence[Tensor], decay: Tensor, combine: str, normalize: bool
) -> States:
    """The sums over n-grams that the recurrence stands for, one n-gram after the other.

    Args:
        projections: W^(j) x, j = 1..n, each (L, D).
        decay: The decay of every token and channel, (L, D).
        combine: 'mul' takes the product over an n-gram. 'add' takes the first token of every
            suffix of an n-gram, each suffix once.
        normalize: Whether a picked token carries the factor 1 - decay.
    """
    found = States([], [])
    for order in range(1, len(projections) + 1):
        z, c = torch.zeros_like(projections[0]), torch.zeros_like(projections[0])
        for t in range(len(decay)):
            for first in [1] if combine == "mul" else range(1, order + 1):
                for picked in ngrams(t + 1, order - first + 1):
                    value, weight = _picked(projections, decay, picked, first, combine, normalize)
                    for r in range(picked[0] + 1, t + 1):
                        if r not in picked:
                            weight = weight * decay[r]
                    if picked[-1] == t:
                        z[t] += weight * value
                    c[t] += weight * (1 - decay[picked[-1]] if normalize else 1) * value
        found.z.append(z)
        found.c.append(c)
    return found


def _picked(
    projections: Sequence[Tensor],
    decay: Tensor,
    picked: tuple[int, ...],
    first: int,
    combine: str,
    normalize: bool,
) -> tuple[Tensor, Tensor]:
    """The value of an n-gram, and the factors of its picked tokens but the last."""
    value = projections[first - 1][picked[0]]
    if combine == "mul":
        for step, i in enumerate(picked[1:], start=1):
            value = value * projections[step][i]
    weight = torch.ones_like(value)
    if normalize:
        for i in picked[:-1]:
            weight = weight * (1 - decay[i])
    return value, weight


def tabulated_additive_state(
    projections: Sequence[Tensor], decay: float, exactly: bool
) -> tuple[Tensor, float]:
    """Thesis, table 2.1, additive combine, at the last token: the sum before its normalisation.

    Args:
        projections: W^(j) x, j = 1..n, each (L, D).
        decay: A constant.
        exactly: Whether n-grams end exactly at the last token, or up to it.

    Returns:
        The sum over n-grams, (D,), and the sum of their weights: Z_n[t] or C_n[t].
    """
    order, length = len(projections), len(projections[0])
    value, total = torch.zeros_like(projections[0][0]), 0.0
    for picked in ngrams(length, order):
        if exactly and picked[-1] != length - 1:
            continue
        weight = decay ** (length - picked[0] - order)
        total += weight
        for p, i in zip(projections, picked, strict=True):
            value += weight * p[i]
    return value, total


def ngram_maxima(
    projections: Sequence[Tensor], decay: Tensor, combine: str, readout: str
) -> Tensor:
    """The best n-gram that ends at each token ('z') or up to it ('c'), (L, D); 0 without n-gram.

    Args:
        projections: W^(j) x, j = 1..n, each (L, D).
        decay: The decay of every token and channel, (L, D).
        combine: 'mul' or 'add': the value of an n-gram before its decay.
        readout: 'z', 'c' or 'sum', the sum of the best 1-gram, ..., the best n-gram up to t.
    """
    if readout == "sum":
        orders = range(1, len(projections) + 1)
        return torch.stack(
            [ngram_maxima(projections[:j], decay, combine, "c") for j in orders]
        ).sum(dim=0)
    best = torch.zeros_like(projections[0])
    for t in range(len(decay)):
        candidates = []
        for picked in ngrams(t + 1, len(projections)):
            if readout == "z" and picked[-1] != t:
                continue
            factors = torch.stack([p[i] for p, i in zip(projections, picked, strict=True)])
            value = factors.prod(dim=0) if combine == "mul" else factors.sum(dim=0)
            for r in range(picked[0] + 1, t + 1):
                if r not in picked:
                    value = value * decay[r]
            candidates.append(value)
        if candidates:
            best[t] = torch.stack(candidates).amax(dim=0)
    return best
