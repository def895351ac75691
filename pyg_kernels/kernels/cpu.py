"""The hot loops on CPU, compiled by Numba; imported only where they run, as this loads Numba."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from pyg_kernels.ops.compiled import kernel

PAIRS_AT_A_TIME = 64  # pairs of texts in one scan, few enough for the first-level cache


@kernel
def sparse_sums(first, last, begin, columns, values, others, dense, place, minimum, gram, start):
    """Compares sparse rows with a block of others, column by column, into ``gram[:, start:]``.

    Args:
        others: The pointers, rows and values of the block's columns.
        dense: The columns that are multiplied as dense, one row each.
        place: For each column, its row in `dense`, or -1.
        minimum: Whether to add the smaller of two entries instead of their product.
    """
    other_begin, other_rows, other_values = others
    width = dense.shape[1]
    sums = np.empty(width, dense.dtype)
    for i in range(first, last):
        sums[:] = 0
        for p in range(begin[i], begin[i + 1]):
            c, value = columns[p], values[p]
            if place[c] >= 0:
                row = dense[place[c]]
                if minimum:
                    for j in range(width):
                        sums[j] += row[j] if row[j] < value else value
                else:
                    for j in range(width):
                        sums[j] += value * row[j]
            elif minimum:
                for q in range(other_begin[c], other_begin[c + 1]):
                    other = other_values[q]
                    sums[other_rows[q]] += other if other < value else value
            else:
                for q in range(other_begin[c], other_begin[c + 1]):
                    sums[other_rows[q]] += value * other_values[q]
        out = gram[i, start : start + width]
        for j in range(width):
            out[j] = sums[j]


@kernel
def ratios(first, last, least, own, theirs):
    """Divides sums of minima by sums of maxima, in place, in rows ``first`` to ``last``."""
    for i in range(first, last):
        row = least[i]
        for j in range(len(row)):
            most = own[i] + theirs[j] - row[j]
            row[j] = row[j] / most if most > 0 else most


@kernel
def neighbor_sums(first, last, values, begin, source, other_source, other_target, edges, out):
    """Sums over pairs of edges into nodes ``first`` to ``last`` of one side and all of the other.

    ``begin[v]`` is the first of the edges into v. If ``edges`` has no rows, all factors are 1.
    """
    rows, along = np.empty_like(values[0]), np.empty(len(other_source), values.dtype)
    for v in range(first, last):
        rows[:] = 0
        along[:] = 0
        here = out[v]
        here[:] = 0
        for e in range(begin[v], begin[v + 1]):
            row = values[source[e]]
            if len(edges):
                factor = edges[e]
                for k in range(len(along)):
                    along[k] += factor[k] * row[other_source[k]]
            else:
                for w in range(len(rows)):
                    rows[w] += row[w]
        if len(edges):
            for k in range(len(along)):
                here[other_target[k]] += along[k]
        else:
            for k in range(len(along)):
                here[other_target[k]] += rows[other_source[k]]


@kernel
def decayed_sums(first, last, values, decay, backwards):
    """Decayed sums, in place, along the first two dimensions, in blocks along the third."""
    rows, columns, pairs = values.shape
    decay = values.dtype.type(decay)
    along = np.empty(PAIRS_AT_A_TIME, values.dtype)
    for task in range(first, last):
        low, high = task * PAIRS_AT_A_TIME, min(pairs, (task + 1) * PAIRS_AT_A_TIME)
        for i in range(rows):
            s, before = (rows - 1 - i, rows - i) if backwards else (i, i - 1)
            along[:] = 0
            for k in range(columns):
                t = columns - 1 - k if backwards else k
                here = values[s, t, low:high]
                for r in range(high - low):
                    along[r] = here[r] + decay * along[r]
                    here[r] = along[r]
                if i:
                    above = values[before, t, low:high]
                    for r in range(high - low):
                        here[r] += decay * above[r]
