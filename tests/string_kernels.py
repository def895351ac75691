"""The independent reference: n-grams enumerated one by one, in plain loops, in float64."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor


def ngrams(length: int, order: int) -> Iterator[tuple[int, ...]]:
    """The positions, counted from 0, of all n-grams of a text, consecutive or not."""
    return combinations(range(length), order)


Table = list[list[float]]


def similarities(x: Any, y: Any) -> Table:
    """Inner products of vectors (rows, or single floats); for tokens, 1 where they are equal."""
    if isinstance(x, Tensor) and (x.is_floating_point() or x.dim() == 2):
        rows, columns = ((t if t.dim() == 2 else t[:, None]).tolist() for t in (x, y))
        return [[sum(a * b for a, b in zip(r, c, strict=True)) for c in columns] for r in rows]
    first, second = (t.tolist() if isinstance(t, Tensor) else list(t) for t in (x, y))
    return [[float(a == b) for b in second] for a in first]


def weight(picked: Sequence[int], length: int, decay: float, weighting: str = "end") -> float:
    """The weight of one n-gram of a text of `length` tokens, position by position.

    The decay is a factor for every token that is not picked and lies after the first picked token:
    up to the last picked token ('span') or to the end of the text ('end').
    """
    value = 1.0
    for r in range(picked[0], length if weighting == "end" else picked[-1]):
        if r not in picked:
            value *= decay
    return value


def enumerated(
    table: Table, width: int, order: int, decay: float, combine: str = "mul", weighting: str = "end"
) -> float:
    """The string kernel: every n-gram of one text with every n-gram of the other.

    Lei et al. 2017, eq. 3 for any n, from the similarities of all pairs of tokens. `width` is the
    number of tokens of the second text.
    """
    weights = [
        [(picked, weight(picked, length, decay, weighting)) for picked in ngrams(length, order)]
        for length in (len(table), width)
    ]
    found = 0.0
    for i, of_i in weights[0]:
        for k, of_k in weights[1]:
            matches = [table[i_m][k_m] for i_m, k_m in zip(i, k, strict=True)]
            found += of_i * of_k * (math.prod(matches) if combine == "mul" else sum(matches))
    return found


def string_features(x: Tensor, order: int, decay: float) -> Tensor:
    """The feature map of the string kernel for a text of vectors (L, F).

    It is the weighted sum of the tensor products of all n-grams, (F^n,).
    """
    total = torch.zeros(x.size(1) ** order, dtype=torch.float64)
    for i in ngrams(len(x), order):
        product = torch.ones(1, dtype=torch.float64)
        for i_m in i:
            product = torch.outer(product, x[i_m]).flatten()
        total = total + weight(i, len(x), decay) * product
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
    """The sums over n-grams that the recurrence computes, added up one n-gram after the other.

    The projections W^(j) x, j = 1..n, and the decay of every token and channel are (L, D). 'mul'
    takes the product over an n-gram. 'add' takes the first token of every suffix of an n-gram and
    counts each suffix once. With `normalize`, a picked token carries the factor 1 - decay.
    """
    found = States([], [])
    for order in range(1, len(projections) + 1):
        z, c = torch.zeros_like(projections[0]), torch.zeros_like(projections[0])
        for t in range(len(decay)):
            for first in [1] if combine == "mul" else range(1, order + 1):
                for picked in ngrams(t + 1, order - first + 1):
                    used = projections[first - 1 : order if combine == "mul" else first]
                    factors = [p[i] for p, i in zip(used, picked, strict=False)]
                    value = torch.stack(factors).prod(dim=0)
                    weight = torch.ones_like(value)
                    for r in range(picked[0], t + 1):
                        if r not in picked:
                            weight = weight * decay[r]
                        elif normalize and r != picked[-1]:
                            weight = weight * (1 - decay[r])
                    if picked[-1] == t:
                        z[t] += weight * value
                    c[t] += weight * (1 - decay[picked[-1]] if normalize else 1) * value
        found.z.append(z)
        found.c.append(c)
    return found


def tabulated_additive_state(
    projections: Sequence[Tensor], decay: float, exactly: bool
) -> tuple[Tensor, float]:
    """Thesis, table 2.1, additive combine, at the last token: the sum before its normalisation.

    Sums over n-grams that end exactly at the last token, or at any token up to it. Returns the sum
    (D,), for projections W^(j) x, j = 1..n, each (L, D), and the sum of weights, Z_n[t] or C_n[t].
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
