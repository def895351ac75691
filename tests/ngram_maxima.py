"""The independent reference for max-pooling: n-grams enumerated one by one, in float64."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor


def ngram_value(
    projections: Sequence[Tensor], decay: Tensor, picked: tuple[int, ...], t: int, mapping: str
) -> Tensor:
    """The value (D,) of one n-gram with tokens at the `picked` positions, read at token t.

    The projections P_1, ..., P_n and the decay of one text are (L, D); `mapping` is 'mul' or 'add'.
    """
    factors = [p[i] for p, i in zip(projections, picked, strict=True)]
    value = factors[0]
    for factor in factors[1:]:
        value = value * factor if mapping == "mul" else value + factor
    for r in range(picked[0] + 1, t + 1):
        if r not in picked:
            value = value * decay[r]
    return value


def ngram_maxima(
    projections: Sequence[Tensor], decay: Tensor, mapping: str, smallest: bool = False
) -> tuple[list[Tensor], Tensor]:
    """The largest (or smallest) value among all n-grams of one text, at every token.

    Returns c_1, ..., c_n (over n-grams that end at or before the token) and z_n (over n-grams that
    end at the token), each (L, D). They are 0 where there is no n-gram.
    """
    length = decay.size(0)
    none = decay.new_zeros(decay.size(1))

    def best(order: int, t: int, ends_there: bool) -> Tensor:
        values = [
            ngram_value(projections[:order], decay, picked, t, mapping)
            for picked in combinations(range(t + 1), order)
            if not ends_there or picked[-1] == t
        ]
        if not values:
            return none
        stacked = torch.stack(values)
        return stacked.min(0).values if smallest else stacked.max(0).values

    def at_every_token(order: int, ends_there: bool) -> Tensor:
        rows = [best(order, t, ends_there) for t in range(length)]
        return torch.stack(rows) if rows else torch.zeros_like(decay)

    orders = range(1, len(projections) + 1)
    return [at_every_token(j, False) for j in orders], at_every_token(len(projections), True)


def largest_sums(projections: Sequence[Tensor]) -> Tensor:
    """The largest sum, without decay, of the j-grams that start at each token, (n, L, D)."""
    none = torch.zeros_like(projections[0])
    table = torch.stack([none] * len(projections))
    for order in range(1, len(projections) + 1):
        for start in range(len(none)):
            sums = [
                ngram_value(projections[:order], none, (start, *rest), start, "add")
                for rest in combinations(range(start + 1, len(none)), order - 1)
            ]
            if sums:
                table[order - 1, start] = torch.stack(sums).max(0).values
    return table
