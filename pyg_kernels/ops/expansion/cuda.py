# mypy: disable-error-code="no-untyped-def"
"""Kernel expansions on CUDA, in Triton: sums over all centres, without keeping the terms.

Lines are summed in double precision, because large terms of both signs may add up to a small
number, as in a function that is flat on both sides. Gaussians are summed in the inputs' precision.

No two programs write to the same place: the gradients of centres and coefficients are summed over
parts of the inputs, and then over the parts, so that results have the same bits in every run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 1024  # inputs of a program
_CENTERS, _INPUTS = 32, 32  # of a tile, for the gradients of functions
_PROGRAMS = 4096  # that share these sums, if there are enough inputs


def forward(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: str, bandwidth: Any
) -> tuple[Tensor, ...]:
    """The values at inputs, (N, U)."""
    return (_at_inputs(None, a, centers, coefficients, green, bandwidth),)


def backward(
    grad: Tensor,
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: str,
    bandwidth: Any,
    needed: tuple[bool, bool],
    *_: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs, and of centres and coefficients, if they are needed."""
    if not a.numel():
        return torch.zeros_like(a), torch.zeros_like(centers), torch.zeros_like(coefficients)
    of_a = of_centers = of_coefficients = None
    if needed[0]:
        of_a = _at_inputs(grad.contiguous(), a, centers, coefficients, green, bandwidth)
    if needed[1]:
        functions, d = centers.shape
        # One row per function, so that neighbours in memory are inputs of one function.
        inputs, grads = (t.reshape(-1, functions).t().contiguous() for t in (a, grad))
        blocks, count = triton.cdiv(d, _CENTERS), inputs.size(1)
        parts = max(1, min(triton.cdiv(count, _TILE), _PROGRAMS // (functions * blocks)))
        sums = a.new_empty(2, parts, functions, d, dtype=torch.double)
        with torch.cuda.device_of(a):
            _of_functions[(functions, blocks, parts)](
                grads, inputs, centers, _exponent(a, green, bandwidth), sums, count, d,
                GREEN=green, CENTERS=_CENTERS, INPUTS=_INPUTS,
            )  # fmt: skip
        slopes, of_coefficients = sums.sum(1).to(a.dtype)
        of_centers = -coefficients * slopes
    return of_a, of_centers, of_coefficients


def _at_inputs(
    grad: Tensor | None,
    a: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: str,
    bandwidth: Any,
) -> Tensor:
    """The values or, given a gradient, the slopes times the gradient."""
    (rows, units), (functions, d) = a.shape, centers.shape
    out = a.new_empty(a.shape)
    if not a.numel():
        return out
    width = min(32, triton.next_power_of_2(units))
    grid = triton.cdiv(rows, _TILE // width), triton.cdiv(units, width)
    given, tables = a if grad is None else grad, tables_of(centers, coefficients, green, bandwidth)
    with torch.cuda.device_of(a):
        _each_input[grid](
            given, a, *tables, out, rows, units, functions, d,
            GREEN=green, BACK=grad is not None, ROWS=_TILE // width, UNITS=width,
        )  # fmt: skip
    return out


def tables_of(
    centers: Tensor, coefficients: Tensor, green: str, bandwidth: Any
) -> tuple[Tensor, ...]:
    """Centres and coefficients, one column per function, and the exponent at distance 1."""
    exponent = _exponent(centers, green, bandwidth)
    return centers.t().contiguous(), coefficients.t().contiguous(), exponent


def _exponent(like: Tensor, green: str, bandwidth: Any) -> Tensor:
    """The exponent at distance 1, as a tensor: a number handed to a kernel loses digits."""
    return like.new_full((1,), -0.5 / bandwidth**2 if green == "gaussian" else 0.0)


@triton.jit
def _green(z, exponent, GREEN: tl.constexpr):
    """The Green function and its slope at distances z; at 0 the slope from the left."""
    if GREEN == "gaussian":
        value = tl.exp(z * z * exponent)
        slope = 2 * exponent * z * value
    elif GREEN == "abs":
        value = tl.abs(z)
        slope = tl.where(z <= 0, -1.0, 1.0)
    else:
        value = tl.where(z <= 0, 0.0, z)  # lets NaN through
        slope = tl.where(z <= 0, 0.0, 1.0)
    return value, slope


@triton.jit
def value_and_slope(
    x, centers, coefficients, exponent, unit, there, functions, d, GREEN: tl.constexpr
):
    """Values and slopes of the units' functions at rows of inputs; tables are (d, R)."""
    function, scale = tl.where(functions > 1, unit, 0), tl.load(exponent)
    kind = x.dtype if GREEN == "gaussian" else tl.float64
    x = x.to(kind)
    value, slope = tl.zeros_like(x), tl.zeros_like(x)
    for k in range(d):
        center = tl.load(centers + k * functions + function, mask=there, other=0.0).to(kind)
        factor = tl.load(coefficients + k * functions + function, mask=there, other=0.0).to(kind)
        green, steep = _green(x - center[None, :], scale, GREEN)
        value += factor[None, :] * green
        slope += factor[None, :] * steep
    if GREEN != "gaussian":  # at infinity only the line counts, not infinite terms of both signs
        far = x == float("inf")
        if GREEN == "abs":
            far = tl.abs(x) == float("inf")
        value = tl.where(far, slope * x, value)
    return value.to(exponent.dtype.element_ty), slope.to(exponent.dtype.element_ty)


@triton.jit(do_not_specialize=["rows"])
def _each_input(
    grad, a, centers, coefficients, exponent, out, rows, units, functions, d,
    GREEN: tl.constexpr, BACK: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    at, inside = row[:, None] * units + unit[None, :], (row < rows)[:, None] & (unit < units)
    x = tl.load(a + at, mask=inside, other=0.0)
    value, slope = value_and_slope(
        x, centers, coefficients, exponent, unit, unit < units, functions, d, GREEN
    )
    if BACK:
        value = tl.load(grad + at, mask=inside, other=0.0) * slope
    tl.store(out + at, value, mask=inside)


@triton.jit(do_not_specialize=["count"])
def _of_functions(
    grad, a, centers, exponent, sums, count, d,
    GREEN: tl.constexpr, CENTERS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    function, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(2), tl.num_programs(2)
    k, i = tl.program_id(1) * CENTERS + tl.arange(0, CENTERS), tl.arange(0, INPUTS)
    scale = tl.load(exponent)
    kind = scale.dtype if GREEN == "gaussian" else tl.float64
    center = tl.load(centers + function * d + k, mask=k < d, other=0.0).to(kind)
    slopes = tl.zeros([INPUTS, CENTERS], kind)
    values = tl.zeros([INPUTS, CENTERS], kind)
    last = (part + 1).to(tl.int64) * count // parts
    for first in range(part.to(tl.int64) * count // parts, last, INPUTS):
        here = first + i
        x = tl.load(a + function * count + here, mask=here < last, other=0.0).to(kind)
        g = tl.load(grad + function * count + here, mask=here < last, other=0.0).to(kind)
        value, slope = _green(x[:, None] - center[None, :], scale, GREEN)
        slopes += g[:, None] * slope
        values += g[:, None] * value
    place = sums + (part * tl.num_programs(0) + function) * d + k
    tl.store(place, tl.sum(slopes, axis=0), mask=k < d)
    second = parts * tl.num_programs(0).to(tl.int64) * d
    tl.store(place + second, tl.sum(values, axis=0), mask=k < d)
