"""Products of a few rows with a matrix, computed inside kernels, on the kernel's own thread.

BLAS packs the matrix again for every product, which takes longer than a product of few rows. Its
threads would also get in the way of the threads that share the texts. Here the matrix is packed
once for all steps, into panels of neighbouring columns. Four rows and one or two panels, or one row
and four panels, are multiplied at a time, in registers.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import itertools
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pyg_kernels.ops.compiled import inlined
from pyg_kernels.ops.program import FLAGS, WORD, assembled, load, splat, store

_KIND = ir.FunctionType(ir.VoidType(), [WORD] * 7)
_TILE = 4  # rows, or panels, of a tile
_BYTES = 64  # bytes of a panel's row
_TERMS = 256  # rows of a panel that are multiplied at once, so that they stay in the cache


@cache
def products(dtype: torch.dtype) -> tuple[int, int, int]:
    """The addresses of two functions for `multiply` in float32 or float64, and a number of panels.

    The first function multiplies four rows and that number of panels, the second one row and four
    panels. They take the address of the rows and the bytes from one row to the next; the same for
    the panels; the same for the rows of the sums, to which terms are added; and the number of
    terms.
    """
    # Two panels take 8 of AVX-512's 32 registers, and all 16 of AVX's.
    panels = 2 if llvm.get_host_cpu_features().get("avx512f") else 1
    return _product(dtype, _TILE, panels), _product(dtype, 1, _TILE), panels


def _product(dtype: torch.dtype, rows: int, panels: int) -> int:
    number = ir.FloatType() if dtype == torch.float32 else ir.DoubleType()
    size = dtype.itemsize
    vector, module = ir.VectorType(number, _BYTES // size), ir.Module()
    function = ir.Function(module, _KIND, "program")
    left, left_step, panel, panel_step, out, out_step, count = function.args
    start, body, end = (function.append_basic_block(name) for name in ("start", "body", "end"))
    build = ir.IRBuilder(start)
    zero = ir.Constant(WORD, 0)
    tile = list(itertools.product(range(rows), range(panels)))

    def at(address, steps, step):
        steps, step = (ir.Constant(WORD, n) if isinstance(n, int) else n for n in (steps, step))
        return build.add(address, build.mul(steps, step))

    row = [at(left, r, left_step) for r in range(rows)]
    columns = [at(panel, p, panel_step) for p in range(panels)]
    place = [build.add(at(out, r, out_step), ir.Constant(WORD, p * _BYTES)) for r, p in tile]
    given = [load(build, address, vector, size) for address in place]
    build.cbranch(build.icmp_signed("<", zero, count), body, end)
    build.position_at_end(body)
    k, sums = build.phi(WORD), [build.phi(vector) for _ in tile]
    following = build.add(k, ir.Constant(WORD, 1))
    factors = [splat(build, load(build, at(r, k, size), number, size), vector) for r in row]
    terms = [load(build, at(column, k, _BYTES), vector, size) for column in columns]
    found = [
        build.fadd(total, build.fmul(factors[r], terms[p], flags=FLAGS), flags=FLAGS)
        for total, (r, p) in zip(sums, tile, strict=True)
    ]
    build.cbranch(build.icmp_signed("<", following, count), body, end)
    k.add_incoming(zero, start)
    k.add_incoming(following, body)
    build.position_at_end(end)
    totals = [build.phi(vector) for _ in tile]
    for first, after, *phis in zip(given, found, sums, totals, strict=True):
        for phi in phis:
            phi.add_incoming(first, start)
            phi.add_incoming(after, body)
    for total, address in zip(totals, place, strict=True):
        store(build, total, address, size)
    build.ret_void()
    return assembled(module)


@intrinsic
def _call(typing, function, left, left_step, panel, panel_step, out, out_step, count):
    def generate(context, builder, signature, values):
        builder.call(builder.inttoptr(values[0], _KIND.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * (1 + len(_KIND.args))), generate


@inlined
def padded(rows, columns, like):
    """Zeros for rows to be multiplied, or for their products, with sizes rounded up to tiles."""
    width = _TILE * (_BYTES // like.itemsize)
    shape = (rows + _TILE - 1) // _TILE * _TILE, (columns + width - 1) // width * width
    return np.zeros(shape, like.dtype)


@inlined
def panels_of(matrix):
    """A matrix as panels of its columns, (P, K, C), filled up with zeros; P is a multiple of 4."""
    size, columns = matrix.shape
    width = _BYTES // matrix.itemsize
    number = (columns + width - 1) // width
    out = np.zeros(((number + _TILE - 1) // _TILE * _TILE, size, width), matrix.dtype)
    for panel in range(number):
        first = panel * width
        for k in range(size):
            for column in range(first, min(first + width, columns)):
                out[panel, k, column - first] = matrix[k, column]
    return out


@inlined
def multiply(products, left, rows, panels, columns, out):
    """Multiplies the first rows of a matrix with the first columns of panels; see `padded`."""
    (size, width), tall = panels.shape[1:], rows - rows % _TILE
    tall = rows if rows - tall > _TILE // 2 else tall
    number = (columns + width - 1) // width
    step, panel_step, out_step = left.strides[0], panels.strides[0], out.strides[0]
    out[:rows] = 0
    for term in range(0, size, _TERMS):
        terms = min(_TERMS, size - term)
        at, of = left.ctypes.data + term * left.itemsize, panels.ctypes.data + term * _BYTES
        for first in range(0, number, _TILE):
            for panel in range(first, min(first + _TILE, number), products[2]):
                here, to = of + panel * panel_step, out.ctypes.data + panel * _BYTES
                for row in range(0, tall, _TILE):
                    sums = to + row * out_step
                    _call(
                        products[0], at + row * step, step, here, panel_step, sums, out_step, terms
                    )
            here, to = of + first * panel_step, out.ctypes.data + first * _BYTES
            for row in range(tall, rows):
                sums = to + row * out_step
                _call(products[1], at + row * step, step, here, panel_step, sums, out_step, terms)
