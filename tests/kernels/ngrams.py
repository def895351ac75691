"""The independent side of the tests of string kernels: plain loops over floats.

A kernel of two texts needs their tokens only through a table of similarities, one row a token of
the first text and one column a token of the second: inner products, or 1 for equal tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

Table = list[list[float]]
Activation = Callable[[float, float, float], float]


def similarities(x: Any, y: Any) -> Table:
    """Inner products of the rows of tensors; of other texts, 1 for equal tokens and 0 otherwise."""
    if isinstance(x, Tensor) and x.is_floating_point():
        rows, columns = x.tolist(), y.tolist()
        return [[sum(a * b for a, b in zip(r, c, strict=True)) for c in columns] for r in rows]
    return [[float(a == b) for b in _tokens(y)] for a in _tokens(x)]


def _tokens(text: Any) -> list[Any]:
    return text.tolist() if isinstance(text, Tensor) else list(text)


def transposed(table: Table, width: int) -> Table:
    """The table of (y, x) from that of (x, y); `width` is the number of tokens of y."""
    return [[row[t] for row in table] for t in range(width)]


def ngrams(length: int, order: int) -> Iterator[tuple[int, ...]]:
    """The positions, counted from 0, of all n-grams of a text, consecutive or not."""
    return combinations(range(length), order)


def weight(picked: Sequence[int], length: int, decay: float, weighting: str) -> float:
    """The weight of one n-gram, position by position.

    Args:
        picked: The positions of its tokens, counted from 0.
        length: The number of tokens of the text.
        decay: A factor for every token that is not picked and lies after the first picked one,
            up to the last picked one ('span') or to the end of the text ('end').
        weighting: 'end' or 'span'.
    """
    value = 1.0
    for r in range(picked[0], length if weighting == "end" else picked[-1]):
        if r not in picked:
            value *= decay
    return value


def total_weight(length: int, order: int, decay: float, weighting: str) -> float:
    """Z' of Lei et al. 2017, table 5: the sum of the weights of all n-grams of a text."""
    return sum(weight(picked, length, decay, weighting) for picked in ngrams(length, order))


def enumerated(
    table: Table,
    width: int,
    order: int,
    decay: float,
    combine: str = "mul",
    weighting: str = "end",
) -> float:
    """The unnormalised string kernel: every n-gram of the one text with every one of the other."""
    found = 0.0
    for i in ngrams(len(table), order):
        for k in ngrams(width, order):
            matches = [table[i_m][k_m] for i_m, k_m in zip(i, k, strict=True)]
            value = math.prod(matches) if combine == "mul" else sum(matches)
            found += (
                weight(i, len(table), decay, weighting) * weight(k, width, decay, weighting) * value
            )
    return found


def looped(
    table: Table,
    width: int,
    order: int,
    decay: float,
    combine: str = "mul",
    weighting: str = "end",
) -> float:
    """The same by one loop over all pairs of tokens for every order, for texts of any length.

    The n-grams that end exactly at a pair of tokens have the product, and the additive score, of
    the n-grams one shorter that end anywhere before it, decayed by the tokens between. `before`
    holds these (score, product) sums; `row` is decayed along y first and along x afterwards.
    """
    length = len(table)
    before = [[(0.0, 1.0)] * (width + 1) for _ in range(length + 1)]
    at_end = [0.0, 0.0]
    for _ in range(order):
        until = [[(0.0, 0.0)] * (width + 1) for _ in range(length + 1)]
        at_end = [0.0, 0.0]
        for s in range(1, length + 1):
            score_of_row, product_of_row = 0.0, 0.0
            for t in range(1, width + 1):
                match = table[s - 1][t - 1]
                score, count = before[s - 1][t - 1]
                product = count * match
                exact = (0.0, product) if combine == "mul" else (score + product, count)
                at_end[0] += exact[0]
                at_end[1] += exact[1]
                score_of_row = decay * score_of_row + exact[0]
                product_of_row = decay * product_of_row + exact[1]
                above = until[s - 1][t]
                until[s][t] = (
                    decay * above[0] + score_of_row,
                    decay * above[1] + product_of_row,
                )
        before = until
    found = at_end if weighting == "span" else before[length][width]
    return found[1] if combine == "mul" else found[0]


def normalized(
    value: float, x_x: float, y_y: float, z_x: float, z_y: float, how: bool | str
) -> float:
    """A kernel value after normalisation; 0 where the divisor is 0.

    Args:
        value: K(x, y).
        x_x: K(x, x).
        y_y: K(y, y).
        z_x: The total weight of the n-grams of x.
        z_y: The total weight of the n-grams of y.
        how: False, 'weights' or 'cosine'.
    """
    if how is False:
        return value
    divisor = z_x * z_y if how == "weights" else math.sqrt(x_x * y_y)
    return value / divisor if divisor > 0 else 0.0


def string_gram(
    xs: Sequence[Any],
    ys: Sequence[Any],
    order: int = 2,
    decay: float = 0.5,
    combine: str = "mul",
    weighting: str = "end",
    normalize: bool | str = False,
    kernel: Callable[..., float] = enumerated,
) -> Tensor:
    """All pairs, (n, m), in float64."""
    options = {"order": order, "decay": decay}
    whole = options | {"combine": combine, "weighting": weighting}

    def value(x: Any, y: Any) -> float:
        return kernel(similarities(x, y), len(y), **whole)

    diagonals = [[value(x, x) if normalize == "cosine" else 0.0 for x in part] for part in (xs, ys)]
    totals = [
        [
            total_weight(len(x), **options, weighting=weighting) if normalize == "weights" else 0.0
            for x in part
        ]
        for part in (xs, ys)
    ]
    gram = torch.zeros(len(xs), len(ys), dtype=torch.float64)
    for i, x in enumerate(xs):
        for k, y in enumerate(ys):
            gram[i, k] = normalized(
                value(x, y),
                diagonals[0][i],
                diagonals[1][k],
                totals[0][i],
                totals[1][k],
                normalize,
            )
    return gram


def prefix_kernels(table: Table, width: int, order: int, decay: float) -> Table:
    """The end-weighted multiplicative kernel of every pair of prefixes, [s - 1][t - 1]."""
    return [
        [
            enumerated([row[: t + 1] for row in table[: s + 1]], t + 1, order, decay)
            for t in range(width)
        ]
        for s in range(len(table))
    ]


def deep_prefix_kernels(
    x: Any, y: Any, num_layers: int, order: int, decay: float, activation: Activation
) -> tuple[Table, Table]:
    """K^(L) and K_sigma^(L) of every pair of prefixes, by the recursion of theorem 2."""
    tables = {(0, 1): similarities(x, y), (0, 0): similarities(x, x), (1, 1): similarities(y, y)}
    lengths = (len(x), len(y))
    post: dict[tuple[int, int], Table] = {}
    for _ in range(num_layers):
        pre = {
            pair: prefix_kernels(post.get(pair, table), lengths[pair[1]], order, decay)
            for pair, table in tables.items()
        }
        post = {
            (a, b): [
                [activation(value, pre[a, a][s][s], pre[b, b][t][t]) for t, value in enumerate(row)]
                for s, row in enumerate(pre[a, b])
            ]
            for a, b in tables
        }
    return pre[0, 1], post[0, 1]


def gated_prefix_kernel(x: Any, y: Any, s: int, t: int, activation: Activation) -> float:
    """Lei 2017 (thesis), section 2.4.4, of the first s and t tokens; 0 of an empty text."""
    if s == 0 or t == 0:
        return 0.0
    match = similarities(x, y)[s - 1][t - 1]
    x_x, y_y = similarities(x, x)[s - 1][s - 1], similarities(y, y)[t - 1][t - 1]
    gate = activation(match, x_x, y_y)
    return gate * gated_prefix_kernel(x, y, s - 1, t - 1, activation) + match
