# mypy: disable-error-code="no-untyped-def"
"""Kernel expansions on CPU: lines between sorted centres, or sums of Gaussians.

A table of R functions with d centres has rows of R (d + 1) entries, entry r (d + 1) + j for piece j
of function r: the sorted centres, of which there are only d; and the origins, values and slopes of
:class:`pyg_kernels.ops.expansion.definition.Pieces`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import types
from numba.extending import overload
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run
from pyg_kernels.ops.expansion.definition import Green, least_offset, linear_pieces

_BLOCK = 256  # inputs whose pieces are searched for side by side
_PARTS = 16  # the most parts of the inputs of which sums are taken on their own


class Reader(NamedTuple):
    """What reads a table.

    Attributes:
        table: The table.
        first: The first entry of each unit's function, (U,).
        num_centers: d.
        least: What offsets are raised to.
    """

    table: Any
    first: Any
    num_centers: int
    least: Any

    @classmethod
    def of(cls, table: Tensor, units: int, num_centers: int, green: Green) -> Reader:
        """For functions of so many units."""
        entries = 0 if table.size(1) == num_centers + 1 else num_centers + 1
        first = np.arange(units, dtype=np.uint32) * np.uint32(entries)
        return cls(array(table), first, num_centers, least_of(table, green))


def linear_forward(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The values, the entries of the inputs in the table, the table and the order of centres."""
    table, order = piece_table(centers, coefficients, green)
    out, entries = a.new_empty(a.shape), a.new_empty(a.shape, dtype=torch.int32)
    reader = Reader.of(table, a.size(1), centers.size(1), green)
    given = array(a), array(out), as_indices(entries), reader
    run(_linear_forward, a.size(0), 4 * a.numel(), *given)
    return out, entries, table, order


def linear_backward(
    grad: Tensor,
    a: Tensor,
    coefficients: Tensor,
    green: Green,
    needed: tuple[bool, bool],
    entries: Tensor,
    table: Tensor,
    order: Tensor,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the inputs, and of centres and coefficients, if they are needed."""
    of_a, width = a.new_empty(a.shape) if needed[0] else a.new_empty(0), table.size(1)
    parts = max(1, min(_PARTS, a.numel() // (4 * width)))
    sums = np.zeros((parts, 2, width if needed[1] else 0))
    flat = (array(t).reshape(-1) for t in (grad, a, of_a))
    given = *flat, as_indices(entries).reshape(-1), array(table), least_of(a, green), sums
    run(_linear_backward, parts, 2 * a.numel(), *given)
    if not needed[1]:
        return of_a, None, None
    size = coefficients.shape
    of_parameters = coefficients.new_empty(size), coefficients.new_empty(size)
    tables = (array(t) for t in (table, order, coefficients, *of_parameters))
    run(_linear_parameters, coefficients.size(0), sums.size, sums, *tables, green == "abs")
    return of_a if needed[0] else None, *of_parameters


def piece_table(centers: Tensor, coefficients: Tensor, green: Green) -> tuple[Tensor, Tensor]:
    """The table, :obj:`(4, R * (d + 1))`, and where the sorted centres came from."""
    ordered, order, *parts = linear_pieces(centers.detach(), coefficients.detach(), green)
    table = centers.new_empty(4, centers.size(0), centers.size(1) + 1)
    table[0, :, :-1], table[0, :, -1] = ordered, torch.inf
    for row, part in zip(table[1:], parts, strict=True):
        row.copy_(part)
    return table.flatten(1), order


def as_indices(entries: Tensor) -> np.ndarray:
    """32-bit integers as unsigned ones, which Numba reads without asking whether they are
    negative."""
    return array(entries).view(np.uint32)


def gaussian_forward(a: Tensor, centers: Tensor, coefficients: Tensor, bandwidth: float) -> Tensor:
    """The values, :obj:`(N, U)`."""
    out = a.new_empty(a.shape)
    given = (array(t) for t in (a, centers, coefficients, out))
    work = a.numel() * centers.size(1)
    run(_gaussian_forward, a.size(0), work, *given, exponent_of(a, bandwidth))
    return out


def gaussian_backward(
    grad: Tensor, a: Tensor, centers: Tensor, coefficients: Tensor, bandwidth: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the inputs, the centres and the coefficients."""
    (rows, units), d = a.shape, centers.size(1)
    of_a = a.new_empty(a.shape)
    parts = max(1, min(rows, _PARTS // max(units, 1)))
    sums = torch.zeros(parts, units, 2, d, dtype=torch.double)
    given = (array(t) for t in (grad, a, centers, coefficients, of_a, sums))
    run(_gaussian_backward, parts * units, a.numel() * d, *given, exponent_of(a, bandwidth))
    of_coefficients, of_centers = sums.sum((0,) if centers.size(0) > 1 else (0, 1), True)[0].unbind(
        1
    )
    scale = bandwidth**-2
    return of_a.mul_(-scale), of_centers * coefficients * scale, of_coefficients


def least_of(a: Tensor, green: Green) -> Any:
    """What offsets are raised to."""
    return array(a).dtype.type(least_offset(green, a.dtype))


def exponent_of(a: Tensor, bandwidth: float) -> Any:
    """What squared distances are multiplied by to be powers of 2."""
    return array(a).dtype.type(-0.5 / bandwidth**2 / math.log(2))


@inlined
def offset(a, origin, least):
    """How far an input lies right of its piece's origin, at least `least`."""
    right = a - origin
    return least if right < least else right


@inlined
def tiled(of_units):
    """Numbers of some units, for as many rows as are read side by side."""
    rows = max(1, _BLOCK // of_units.size)
    out = np.empty(rows * of_units.size, of_units.dtype)
    for i in range(out.size):
        out[i] = of_units[i % of_units.size]
    return out


@inlined
def read(a, first, reader, out, entries):
    """Writes the values at inputs and the entries of their pieces, (n,) each; NaN is in the last.

    `first` is the first entry of each one's function.
    """
    table, _, count, least = reader
    centers, origins, values, slopes = table[0], table[1], table[2], table[3]
    for i in range(a.size):
        entries[i] = first[i]
    while count > 1:
        half = count >> 1
        for i in range(a.size):
            at = entries[i]
            right = np.uint32(at + half)
            entries[i] = at if a[i] <= centers[np.uint32(right - 1)] else right
        count -= half
    for i in range(a.size):
        at = entries[i]
        entries[i] = at if a[i] <= centers[at] else at + 1
    for i in range(a.size):
        at = entries[i]
        out[i] = values[at] + slopes[at] * offset(a[i], origins[at], least)


@inlined
def add_to_sums(grad, a, entries, table, least, sums):
    """Adds gradients of the values, :obj:`(n,)`, to sums over pieces, :obj:`(2, R * (d + 1))`."""
    origins, plain, weighted = table[1], sums[0], sums[1]
    for i in range(a.size):
        at = entries[i]
        plain[at] += grad[i]
        weighted[at] += np.float64(grad[i]) * offset(a[i], origins[at], least)


@kernel
def _linear_forward(first, last, a, out, entries, reader):
    """Tasks are rows."""
    first_entry, units = tiled(reader.first), a.shape[1]
    inputs, values, found = a.reshape(-1), out.reshape(-1), entries.reshape(-1)
    for begin in range(first * units, last * units, first_entry.size):
        here = slice(begin, min(begin + first_entry.size, last * units))
        read(inputs[here], first_entry, reader, values[here], found[here])


@kernel
def _linear_backward(first, last, grad, a, of_a, entries, table, least, sums):
    """Tasks are parts of the inputs."""
    parts, slopes = sums.shape[0], table[3]
    for task in range(first, last):
        start, stop = a.size * task // parts, a.size * (task + 1) // parts
        if sums.shape[2]:
            here = slice(start, stop)
            add_to_sums(grad[here], a[here], entries[here], table, least, sums[task])
        for i in range(start, stop if of_a.size else start):
            of_a[i] = grad[i] * slopes[entries[i]]


@kernel
def _linear_parameters(
    first, last, sums, table, order, coefficients, of_centers, of_coefficients, two_sided
):
    """From sums of parts of the inputs, which it adds up in place; tasks are functions."""
    d = order.shape[1]
    to_center, to_coefficient = np.empty(d), np.empty(d)
    for task in range(first, last):
        here = slice(task * (d + 1), (task + 1) * (d + 1))
        centers, origins = table[0, here], table[1, here]
        plain, weighted = sums[0, 0, here], sums[0, 1, here]
        for part in range(1, sums.shape[0]):
            for j in range(d + 1):
                plain[j] += sums[part, 0, here.start + j]
                weighted[j] += sums[part, 1, here.start + j]
        # Of the inputs right of each centre: the gradients, and their sum times the distances.
        total, moment, after = 0.0, 0.0, np.float64(centers[d - 1])
        for k in range(d - 1, -1, -1):
            center = np.float64(centers[k])
            moment += (after - center) * total
            moment += weighted[k + 1] + (origins[k + 1] - center) * plain[k + 1]
            total += plain[k + 1]
            to_center[k], to_coefficient[k], after = total, moment, center
        if two_sided:  # and of those left of it
            total, moment, before = 0.0, 0.0, np.float64(centers[0])
            for k in range(d):
                center = np.float64(centers[k])
                moment += (center - before) * total
                moment += (center - origins[k]) * plain[k] - weighted[k]
                total += plain[k]
                to_center[k] -= total
                to_coefficient[k] += moment
                before = center
        for k in range(d):
            at = order[task, k]
            of_centers[task, at] = -coefficients[task, at] * to_center[k]
            of_coefficients[task, at] = to_coefficient[k]


@kernel
def _gaussian_forward(first, last, a, centers, coefficients, out, exponent):
    """Tasks are rows."""
    for row in range(first, last):
        for unit in range(a.shape[1]):
            x = a[row, unit]
            function = unit if centers.shape[0] > 1 else 0
            of_unit, chi = centers[function], coefficients[function]
            total = out.dtype.type(0)
            for k in range(chi.size):
                z = x - of_unit[k]
                total += chi[k] * exp2(z * z * exponent)
            out[row, unit] = total


@kernel
def _gaussian_backward(first, last, grad, a, centers, coefficients, of_a, sums, exponent):
    """Tasks are parts of the rows of each unit."""
    parts, units = sums.shape[:2]
    for task in range(first, last):
        part, unit = task // units, task % units
        function = unit if centers.shape[0] > 1 else 0
        of_unit, chi = centers[function], coefficients[function]
        plain, weighted = sums[part, unit, 0], sums[part, unit, 1]
        for row in range(len(a) * part // parts, len(a) * (part + 1) // parts):
            x, g = a[row, unit], grad[row, unit]
            total = of_a.dtype.type(0)
            for k in range(chi.size):
                z = x - of_unit[k]
                e = exp2(z * z * exponent)
                plain[k] += g * e
                e *= z
                weighted[k] += g * e
                total += chi[k] * e
            of_a[row, unit] = g * total


def exp2(x: Any) -> Any:
    """2 to the power of x, where x is not positive: in float32 by a polynomial that vectorizes."""
    return math.exp(x * math.log(2))


@overload(exp2, inline="always")
def _exp2(x):
    if x != types.float32:
        return lambda x: math.exp(x * 0.6931471805599453)

    def single(x):
        # As exp2f of the Cephes library; comparisons in this order let NaN through.
        x = np.float32(-127.0) if x < np.float32(-127.0) else x
        whole = np.floor(x + np.float32(0.5))
        rest = x - whole
        p = np.float32(1.535336188319500e-4)
        p = p * rest + np.float32(1.339887440266574e-3)
        p = p * rest + np.float32(9.618437357674640e-3)
        p = p * rest + np.float32(5.550332471162809e-2)
        p = p * rest + np.float32(2.402264791363012e-1)
        p = p * rest + np.float32(6.931472028550421e-1)
        p = p * rest + np.float32(1.0)
        whole = whole if whole > np.float32(-127.0) else np.float32(-127.0)
        power = (np.int32(whole) + np.int32(127)) << np.int32(23)
        return p * np.int32(power).view(np.float32)

    return single
