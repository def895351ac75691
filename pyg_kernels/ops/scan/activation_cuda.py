# mypy: disable-error-code="no-untyped-def"
"""Recurrent networks with learned activations on CUDA: one product and one kernel per step.

A program computes a block of units for texts that have a token. With statistics, it computes all
of these texts, so that sums over the texts need no other program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pyg_kernels.ops.expansion.cuda import backward as of_expansion
from pyg_kernels.ops.expansion.cuda import tables_of, value_and_slope
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation import Form, of_line, scale_and_shift
from pyg_kernels.ops.triton_source import launcher

_TILE, _PROGRAMS = 512, 64  # inputs at once; the least number of programs that should share a step


def forward(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """h, a, the slopes, two empty tensors for the CPU kernels' outputs, and the statistics."""
    x, h0, feed, centers, coefficients, slope, intercept, weight, bias = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    order, units, steps = layout.order(), x.size(1), layout.num_steps
    h, before, slopes = (new(x.shape) for _ in range(3))
    statistics = x.new_empty(2, steps * form.normalize, units)
    carried, across = h0.index_select(0, order), feed.t()
    fed = torch.empty_like(carried)
    norm = scale_and_shift(x, weight, bias) if form.normalize else x
    line = x if slope is None else torch.stack((slope, intercept)).expand(2, units).contiguous()
    with torch.cuda.device_of(x):
        launch = _launcher(
            _step, form, layout,
            x, fed, carried, h, before, slopes, statistics, layout.start[order],
            *tables_of(centers, coefficients, form.green, form.bandwidth),
            norm, line,
            x.new_full((1,), form.eps), layout.stride, steps, units, *centers.shape,
            GREEN=form.green, LINE=slope is not None,
        )  # fmt: skip
        for t, active in enumerate(layout.active()):
            torch.mm(carried[:active], across, out=fed[:active])
            launch(t, active)
    spare = x.new_empty(0, 0, 0), x.new_empty(0, 0, dtype=torch.long)
    return h, before, slopes, *spare, statistics


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    if grads[0] is None:
        return [None] * len(tensors)
    x, h0, feed, centers, coefficients, slope, _, weight, bias = tensors
    h, before, slopes, _, _, statistics = outputs
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    order, units, steps = layout.order(), x.size(1), layout.num_steps
    reaching, g_x = new(x.shape), new(x.shape)
    inputs = new(x.shape) if form.normalize else before
    given, carried = torch.empty_like(h0), torch.zeros_like(h0)
    norm = scale_and_shift(x, weight, bias) if form.normalize else x
    g_norm = x.new_zeros(2, units, dtype=torch.double)
    with torch.cuda.device_of(x):
        launch = _launcher(
            _step_back, form, layout,
            grads[0].contiguous(), carried, given, before, slopes, statistics, layout.start[order],
            norm, reaching, inputs, g_x, g_norm,
            layout.stride, steps, units,
        )  # fmt: skip
        for t, active in reversed([*enumerate(layout.active())]):
            launch(t, active)
            torch.mm(given[:active], feed, out=carried[:active])
    g_h0 = torch.empty_like(h0).index_copy_(0, order, carried)
    of_functions: Sequence[Tensor | None] = (None, None)
    if any(needed[3:5]):
        operands = reaching, inputs, centers, coefficients, form.green, form.bandwidth
        of_functions = of_expansion(*operands, (False, True))[1:]
    g_feed = g_x.t() @ layout.before(h, h0)
    of_norm = [g.to(x.dtype, copy=True) for g in g_norm]
    return [g_x, g_h0, g_feed, *of_functions, *of_line(slope, reaching, inputs), *of_norm]


def _launcher(
    kernel: Any, form: Form, layout: Layout, *args: Any, **given: Any
) -> Callable[..., None]:
    texts, units = layout.num_texts, args[0].size(1)
    if not (texts and units):
        return lambda *further: None
    width = max(1, min(32, units // _PROGRAMS)) if form.normalize else 32
    width = min(triton.next_power_of_2(units), 2 ** (width.bit_length() - 1))
    rows = _TILE // width
    grid = 1 if form.normalize else triton.cdiv(texts, rows), triton.cdiv(units, width), 1
    return launcher(kernel, grid, args, **given, NORM=form.normalize, ROWS=rows, UNITS=width)


_CHANGING = ["stride", "steps", "t", "active"]


@triton.jit
def _places(start, first, unit, stride, units, t, active, ROWS: tl.constexpr):
    """The places of numbers of tokens and of slots, and which of these exist."""
    slot = first + tl.arange(0, ROWS)
    here = slot < active
    row = tl.load(start + slot, mask=here, other=0) + t * stride
    inside = here[:, None] & (unit < units)[None, :]
    return row[:, None] * units + unit[None, :], slot[:, None] * units + unit[None, :], inside


@triton.jit(do_not_specialize=_CHANGING)
def _step(
    x, fed, carried, h, before, slopes, statistics, start,
    centers, coefficients, exponent, norm, line, eps, stride, steps, units, functions, d, t, active,
    GREEN: tl.constexpr, LINE: tl.constexpr, NORM: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    there, begin, stride_of = unit < units, tl.program_id(0) * ROWS, tl.num_programs(0) * ROWS
    if NORM:
        mean = tl.zeros([UNITS], x.dtype.element_ty)
        inverse = tl.zeros([UNITS], x.dtype.element_ty)
        for first in range(begin, active, stride_of):
            at, slot, inside = _places(start, first, unit, stride, units, t, active, ROWS)
            a = tl.load(x + at, mask=inside, other=0.0)
            mean += tl.sum(a + tl.load(fed + slot, mask=inside, other=0.0), axis=0)
        mean = mean / active
        for first in range(begin, active, stride_of):
            at, slot, inside = _places(start, first, unit, stride, units, t, active, ROWS)
            a = tl.load(x + at, mask=inside, other=0.0)
            a += tl.load(fed + slot, mask=inside, other=0.0)
            away = tl.where(inside, a - mean[None, :], 0.0)
            inverse += tl.sum(away * away, axis=0)
        inverse = 1.0 / tl.sqrt(inverse / active + tl.load(eps))
        place = statistics + t * units + unit
        tl.store(place, mean, mask=there)
        tl.store(place + steps * units, inverse, mask=there)
        scale = tl.load(norm + unit, mask=there, other=0.0)
        shift = tl.load(norm + units + unit, mask=there, other=0.0)
    for first in range(begin, active, stride_of):
        at, slot, inside = _places(start, first, unit, stride, units, t, active, ROWS)
        a = tl.load(x + at, mask=inside, other=0.0) + tl.load(fed + slot, mask=inside, other=0.0)
        tl.store(before + at, a, mask=inside)
        if NORM:
            a = (a - mean[None, :]) * inverse[None, :] * scale[None, :] + shift[None, :]
        value, slope = value_and_slope(
            a, centers, coefficients, exponent, unit, there, functions, d, GREEN
        )
        if LINE:
            own = tl.load(line + unit, mask=there, other=0.0)[None, :]
            value += own * a + tl.load(line + units + unit, mask=there, other=0.0)[None, :]
            slope += own
        tl.store(h + at, value, mask=inside)
        tl.store(carried + slot, value, mask=inside)
        tl.store(slopes + at, slope, mask=inside)


@triton.jit(do_not_specialize=_CHANGING)
def _step_back(
    g_out, carried, given, before, slopes, statistics, start, norm, reaching, inputs, g_x, g_norm,
    stride, steps, units, t, active,
    NORM: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    there, begin, stride_of = unit < units, tl.program_id(0) * ROWS, tl.num_programs(0) * ROWS
    if NORM:
        place = statistics + t * units + unit
        mean = tl.load(place, mask=there, other=0.0)[None, :]
        inverse = tl.load(place + steps * units, mask=there, other=0.0)[None, :]
        scale = tl.load(norm + unit, mask=there, other=0.0)[None, :]
        shift = tl.load(norm + units + unit, mask=there, other=0.0)[None, :]
        turned = tl.zeros([UNITS], g_out.dtype.element_ty)
        plain = tl.zeros([UNITS], g_out.dtype.element_ty)
        left = tl.zeros([UNITS], g_out.dtype.element_ty)  # rounding errors, which may be magnified
        for first in range(begin, active, stride_of):
            at, slot, inside = _places(start, first, unit, stride, units, t, active, ROWS)
            now = tl.load(g_out + at, mask=inside, other=0.0)
            now += tl.load(carried + slot, mask=inside, other=0.0)
            now *= tl.load(slopes + at, mask=inside, other=0.0)
            apart = (tl.load(before + at, mask=inside, other=0.0) - mean) * inverse
            turned += tl.sum(tl.where(inside, now * apart, 0.0), axis=0)
            left += tl.sum(tl.where(inside, apart, 0.0), axis=0)
            plain += tl.sum(now, axis=0)
        place = g_norm + unit
        tl.store(place, tl.load(place, mask=there) + turned, mask=there)
        place += units
        tl.store(place, tl.load(place, mask=there) + plain, mask=there)
        turned, plain, left = turned / active, plain / active, left / active
    for first in range(begin, active, stride_of):
        at, slot, inside = _places(start, first, unit, stride, units, t, active, ROWS)
        total = tl.load(g_out + at, mask=inside, other=0.0)
        total += tl.load(carried + slot, mask=inside, other=0.0)
        now = total * tl.load(slopes + at, mask=inside, other=0.0)
        if NORM:
            apart = (tl.load(before + at, mask=inside, other=0.0) - mean) * inverse
            tl.store(inputs + at, apart * scale + shift, mask=inside)
            apart -= left[None, :]
            now = (now - plain[None, :] - apart * turned[None, :]) * inverse * scale
        tl.store(reaching + at, total, mask=inside)
        tl.store(g_x + at, now, mask=inside)
        tl.store(given + slot, now, mask=inside)
