# mypy: disable-error-code="no-untyped-def"
"""Kernel expansions on CPU: lines between sorted centres, or sums of Gaussians.

The table of R functions with d centres has shape (4, R, d + 1). It holds the sorted centres, with
the least offset in their last column, and the origins, values and slopes of
:class:`pyg_kernels.ops.expansion.definition.Pieces`. The piece of an input is given by its entry,
an index among the R (d + 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run
from pyg_kernels.ops.expansion.definition import (
    Green,
    gaussians,
    least_offset,
    linear_pieces,
)
from pyg_kernels.ops.expression import Row, apart, as_value, gradients, leaf
from pyg_kernels.ops.program import WORD, Program, call, load, splat

_BLOCK = 16  # centres that an input is compared with at once
_PARTS = 16  # the most parts of the inputs that are summed separately, if they are few
_ROWS = 512  # the least rows of a part that is summed in the inputs' precision
_SUMS = 2**20  # the most numbers in such sums


def forward(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green, bandwidth: Any
) -> tuple[Tensor, ...]:
    """The values; for lines also the entries of the inputs, the table and the order of centres."""
    out = a.new_empty(a.shape)
    if green == "gaussian":
        rows = {"value": [(out.view(-1, 1), 0)]}
        _run_gaussians("value", a, centers, coefficients, bandwidth, rows)
        return (out,)
    entries = a.new_empty(a.shape, dtype=torch.int32)
    table, order = piece_table(centers, coefficients, green)
    tables = array(a), array(table), blocks_of(table)
    run(_linear_forward, a.size(0), 4 * a.numel(), *tables, array(out), array(entries))
    return out, entries, table, order


def backward(
    grad: Tensor,
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: Green,
    bandwidth: Any,
    needed: tuple[bool, bool],
    entries: Tensor,
    table: Tensor,
    order: Tensor,
) -> Sequence[Tensor | None]:
    """The gradients of the inputs, and of centres and coefficients, if they are needed."""
    a, centers, coefficients = (t.contiguous() for t in (a, centers, coefficients))
    if not a.numel():
        return torch.zeros_like(a), torch.zeros_like(centers), torch.zeros_like(coefficients)
    if green == "gaussian":
        return _gaussian_backward(grad, a, centers, coefficients, bandwidth)
    of_a, width = a.new_empty(a.shape) if needed[0] else a.new_empty(0), table[0].numel()
    parts = max(1, min(_PARTS, a.numel() // (4 * width)))
    sums = torch.zeros(parts, 2, width if needed[1] else 0, dtype=torch.double)
    flat = (array(t).reshape(-1) for t in (grad, a, entries, of_a))
    run(_linear_backward, parts, 2 * a.numel(), *flat, array(table), array(sums))
    if not needed[1]:
        return of_a, None, None
    of_functions = [torch.empty_like(coefficients) for _ in range(2)]
    tables = map(array, (sums, table, order, coefficients, *of_functions))
    run(_of_functions, len(coefficients), sums.numel(), *tables, green == "abs")
    return of_a if needed[0] else None, *of_functions


def piece_table(centers: Tensor, coefficients: Tensor, green: Green) -> tuple[Tensor, Tensor]:
    """The table, :obj:`(4, R, d + 1)`, and the positions of the sorted centres before sorting."""
    ordered, order, *lines = linear_pieces(centers.detach(), coefficients.detach(), green)
    table = centers.new_empty(4, centers.size(0), centers.size(1) + 1)
    table[0, :, :-1], table[0, :, -1] = ordered, least_offset(green, centers.dtype)
    for rows, part in zip(table[1:], lines, strict=True):
        rows.copy_(part)
    return table, order


def blocks_of(table: Tensor) -> np.ndarray:
    """The sorted centres for `read`, (R, L): the last centre of each block, then all centres.

    Both are filled up to whole blocks with infinity. A single block has only the second part.
    """
    every = F.pad(table[0, :, :-1], (0, (1 - table.size(2)) % _BLOCK), value=math.inf)
    last = every[:, _BLOCK - 1 :: _BLOCK]
    if last.size(1) == 1:
        return array(every)
    return array(torch.cat((F.pad(last, (0, -last.size(1) % _BLOCK), value=math.inf), every), 1))


def _gaussian_backward(
    grad: Tensor, a: Tensor, centers: Tensor, coefficients: Tensor, bandwidth: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the inputs, the centres and the coefficients."""
    (rows, units), (functions, d) = a.shape, centers.shape
    of_a = a.new_empty(a.shape)
    parts = max(1, _PARTS // max(units, 1), min(rows // _ROWS, _SUMS // max(units * d, 1)))
    sums = a.new_zeros(2, parts * units, d)
    memory = {
        "grad": [(grad.contiguous().view(-1, 1), 0)],
        "of_a": [(of_a.view(-1, 1), 0)],
        "of_functions": [(of, 0) for of in sums],
    }
    _run_gaussians("grad", a, centers, coefficients, bandwidth, memory, parts)
    every = sums.view(2, parts, units, d)
    found = every.sum((1,) if functions > 1 else (1, 2), dtype=torch.double)
    of_centers, of_coefficients = (of.view(functions, d).to(a.dtype, copy=True) for of in found)
    return of_a, of_centers, of_coefficients


def gaussian_program(
    kind: str,
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    bandwidth: Any,
    memory: dict[str, list[tuple[Tensor, int]]],
) -> tuple[int, np.ndarray, Tensor]:
    """The address and table of a program, and a tensor that must live as long as they are used.

    The program has rows for all inputs, for an input, for the input's function, and for its unit in
    a part of the inputs. Its channels are the centres.

    Args:
        kind: ``'value'``; ``'slope'`` for value and slope; or ``'grad'`` for the derivative.
        a: The inputs, contiguous.
        memory: What else the program reads and writes, by the names in `_gaussian`.
    """
    exponent = a.new_full((1, 1), -0.5 / bandwidth**2)
    own = {"a": [(a.view(-1, 1), 0)], "functions": [(centers, 0), (coefficients, 0)]}
    program = _gaussian(kind, a.dtype)
    table = program.table({"exponent": [(exponent, 0)], **own, **memory})
    return program.address, table, exponent


@cache
@apart
def _gaussian(kind: str, dtype: torch.dtype) -> Program:
    here = Row(1, wide=False)
    exponent, a, grad = leaf(Row(0, wide=False)), leaf(here), leaf(here)
    functions = centers, coefficients = [leaf(Row(2)), leaf(Row(2))]
    value = gaussians(a, centers, coefficients, exponent)
    seed = grad if kind == "grad" else as_value(1.0)
    slope, *others = (as_value(g or 0.0) for g in gradients([(value, seed)], [a, *functions]))
    inputs = {"exponent": [exponent], "a": [a], "functions": functions}
    if kind == "grad":
        to_functions = [(Row(3, adds=True), of) for of in others]
        outputs = {"of_a": [(here, slope)], "of_functions": to_functions}
        return Program({**inputs, "grad": [grad]}, outputs, dtype)
    outputs = {"value": [(here, value)], "slope": [(here, slope)]}
    return Program(inputs, outputs if kind == "slope" else {"value": outputs["value"]}, dtype)


def _run_gaussians(kind, a, centers, coefficients, bandwidth, memory, parts=_PARTS) -> None:
    address, table, _exponent = gaussian_program(kind, a, centers, coefficients, bandwidth, memory)
    sizes = (*a.shape, *centers.shape)
    run(
        _each_gaussian, parts * a.size(1), a.numel() * centers.size(1), address, table, sizes, parts
    )


@inlined
def offset(a, origin, least):
    """How far an input lies right of its piece's origin, at least `least`."""
    right = a - origin
    return least if right < least else right


@intrinsic
def _passed(typing, x, address):
    """How many centres of the block at an address lie left of an input; all of them for NaN."""

    def generate(context, build, signature, values):
        x, address = values
        kind, size = ir.VectorType(x.type, _BLOCK), context.get_abi_sizeof(x.type)
        centers = load(build, address, kind, size)
        right = build.fcmp_unordered(">", splat(build, x, kind), centers)
        return build.zext(build.ctpop(build.bitcast(right, ir.IntType(_BLOCK))), WORD)

    return types.intp(x, types.intp), generate


@inlined
def read(a, table, blocks, out, found):
    """Writes the values at inputs, (n, U), and their pieces' entries; NaN is in the last piece."""
    _, functions, size = table.shape
    flat, number = table.reshape(4, -1), (size + _BLOCK - 2) // _BLOCK
    least, origins, values, slopes = flat[0, size - 1], flat[1], flat[2], flat[3]
    lasts = blocks.shape[1] // _BLOCK - number
    step = _BLOCK * blocks.itemsize
    for m in range(len(a)):
        for unit in range(a.shape[1]):
            x, function, block = a[m, unit], unit if functions > 1 else 0, 0
            address = blocks.ctypes.data + function * blocks.strides[0]
            for _ in range(lasts):
                block += _passed(x, address)
                address += step
            block = min(block, number - 1)
            piece = block * _BLOCK + _passed(x, address + block * step)
            at = np.uint32(function * size + min(piece, size - 1))
            found[m, unit] = at
            out[m, unit] = values[at] + slopes[at] * offset(x, origins[at], least)


@kernel
def _linear_forward(first, last, a, table, blocks, out, entries):
    """Tasks are rows."""
    read(a[first:last], table, blocks, out[first:last], entries[first:last])


@kernel
def _linear_backward(first, last, grad, a, entries, of_a, table, sums):
    """Tasks are parts of the inputs."""
    parts, flat = sums.shape[0], table.reshape(4, -1)
    least, origins, slopes = flat[0, table.shape[2] - 1], flat[1], flat[3]
    for task in range(first, last):
        start, stop = a.size * task // parts, a.size * (task + 1) // parts
        plain, weighted = sums[task, 0], sums[task, 1]
        for i in range(start, stop if plain.size else start):
            at = np.uint32(entries[i])
            plain[at] += grad[i]
            weighted[at] += np.float64(grad[i]) * offset(a[i], origins[at], least)
        for i in range(start, stop if of_a.size else start):
            of_a[i] = grad[i] * slopes[np.uint32(entries[i])]


@kernel
def _of_functions(
    first, last, sums, table, order, coefficients, of_centers, of_coefficients, two_sided
):
    """The gradients of centres and coefficients; tasks are functions.

    They come from each piece's sums of gradients and of gradients times offsets. A centre sums the
    gradients of inputs right of it, a coefficient those times distances, from centre to centre.
    """
    d = order.shape[1]
    pieces = sums.reshape(len(sums), 2, -1, d + 1)
    to_center, to_coefficient = np.empty(d), np.empty(d)
    for task in range(first, last):
        centers, origins = table[0, task], table[1, task]
        plain, weighted = np.zeros(d + 1), np.zeros(d + 1)
        for part in range(len(pieces)):
            for j in range(d + 1):
                plain[j] += pieces[part, 0, task, j]
                weighted[j] += pieces[part, 1, task, j]
        total, moment, after = 0.0, 0.0, np.float64(centers[d - 1])
        for k in range(d - 1, -1, -1):
            center = np.float64(centers[k])
            moment += (after - center) * total
            moment += weighted[k + 1] + (origins[k + 1] - center) * plain[k + 1]
            total += plain[k + 1]
            to_center[k], to_coefficient[k], after = total, moment, center
        if two_sided:  # and the gradients of the inputs left of it
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
def _each_gaussian(first, last, program, table, sizes, parts):
    """Tasks are parts of the rows of each unit."""
    rows, units, functions, num_centers = sizes
    index = np.zeros(4, np.int64)
    for task in range(first, last):
        part, unit = task // units, task % units
        index[2], index[3] = unit if functions > 1 else 0, task
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            index[1] = row * units + unit
            call(program, table.ctypes.data, index.ctypes.data, 0, num_centers)
