# mypy: disable-error-code="no-untyped-def"
"""The recurrent network with learned activations on CPU: its step and the derivative of its step.

Its backward goes through time with the slopes at each token alone; the gradients of the functions
and of the recurrent map are taken for all tokens afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, overloads, run
from pyg_kernels.ops.expansion.cpu import (
    Reader,
    as_indices,
    exp2,
    exponent_of,
    gaussian_backward,
    linear_backward,
    piece_table,
    read,
    tiled,
)
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation.definition import Form
from pyg_kernels.ops.scan.loop import (
    Tasks,
    Tokens,
    backward_loop,
    columns,
    forward_loop,
    share_of,
    step,
    step_back,
)
from pyg_kernels.ops.scan.rows import add, arrive, copy

_NARROW = 128  # units; products of fewer are not worth PyTorch's threads


class _Gaussians(NamedTuple):
    """Gaussian activations.

    Attributes:
        centers: The centres, (R, d).
        coefficients: The coefficients, (R, d).
        exponent: What squared distances are multiplied by to be powers of 2.
        steepness: 1 / b^2.
        first: The row of each unit, (H,).
    """

    centers: Any
    coefficients: Any
    exponent: Any
    steepness: Any
    first: Any


class _Cell(NamedTuple):
    """The arrays of a network.

    Attributes:
        x: The logits, (N, H).
        before: The pre-activations.
        kept: What says the slopes: the entries of pieces, or the slopes of Gaussians themselves.
        h: The outputs.
        functions: A reader or Gaussians.
        line: The slopes and intercepts of a line, (2, H), or (0, 0).
        norm: The scale and shift after normalization, (2, H), or (0, 0).
        eps: What is added to variances.
    """

    x: Any
    before: Any
    kept: Any
    h: Any
    functions: Any
    line: Any
    norm: Any
    eps: float


class _CellBack(NamedTuple):
    """The same for the backward.

    Attributes:
        g_out: The gradients that are given.
        inputs: The inputs of the functions, where they are normalized.
        reaching: The whole gradient of each output.
        g_x: That of each pre-activation.
        g_norm: That of the scale and the shift, (2, H), in double precision.
    """

    cell: Any
    g_out: Any
    inputs: Any
    reaching: Any
    g_x: Any
    g_norm: Any


def _evaluate(functions, units, a, out, kept):
    """Writes values at inputs of some units, row by row, and what says the slopes there."""


def _slope(functions, kept):
    """The slope that one number says."""


@overloads(_evaluate)
def _(functions, units, a, out, kept):
    return _read_pieces if functions.instance_class is Reader else _read_gaussians


@overloads(_slope)
def _(functions, kept):
    if functions.instance_class is Reader:
        return lambda functions, kept: functions.table[3, kept]
    return lambda functions, kept: kept


def _read_pieces(functions, units, a, out, kept):
    read(a, units, functions, out, kept)


def _read_gaussians(functions, units, a, out, kept):
    centers, coefficients, exponent, steepness, _ = functions
    for i in range(a.size):
        of_unit, chi = centers[units[i]], coefficients[units[i]]
        value, slope = a.dtype.type(0), a.dtype.type(0)
        for k in range(chi.size):
            z = a[i] - of_unit[k]
            e = chi[k] * exp2(z * z * exponent)
            value += e
            slope -= z * e
        out[i], kept[i] = value, slope * steepness


@overloads(step)
def _(cell, tokens, first, last, feed):
    return _step if getattr(cell, "instance_class", None) is _Cell else None


@overloads(step_back)
def _(cell, tokens, first, last, g_feed, g_h):
    return _step_back if getattr(cell, "instance_class", None) is _CellBack else None


@inlined
def _statistics(rows, first, last, a, eps):
    """The mean of some units in some rows, and the inverse deviation."""
    total, mean = np.zeros(last - first), np.empty(last - first, a.dtype)
    inverse = np.empty_like(mean)
    for row in rows:
        now = a[row][first:last]
        add(now, total)
    for k in range(total.size):
        mean[k] = total[k] / rows.size
        total[k] = 0.0
    for row in rows:
        now = a[row][first:last]
        for k in range(now.size):
            apart = now[k] - mean[k]
            total[k] += apart * apart
    for k in range(total.size):
        inverse[k] = 1.0 / math.sqrt(total[k] / rows.size + eps)
    return mean, inverse


def _step(cell, tokens, first, last, feed):
    x, before, kept, h, functions, line, norm, eps = cell
    rows, width = tokens.row, last - first
    for m in range(rows.size):
        now = before[rows[m]][first:last]
        copy(x[rows[m]][first:], now)
        add(feed[m][first:last], now)
    mean, inverse = before[0], before[0]
    if norm.size:
        mean, inverse = _statistics(rows, first, last, before, eps)
        scale, shift = norm[0][first:last], norm[1][first:last]
    units = tiled(functions.first[first:last])
    a, found = np.empty(units.size, h.dtype), np.empty(units.size, kept.dtype)
    out = np.empty_like(a)
    for begin in range(0, rows.size, units.size // width):
        block = rows[begin : begin + units.size // width]
        for m in range(block.size):
            own, now = before[block[m]][first:last], a[m * width : (m + 1) * width]
            if norm.size:
                for k in range(width):
                    now[k] = (own[k] - mean[k]) * inverse[k] * scale[k] + shift[k]
            else:
                copy(own, now)
        size = block.size * width
        _evaluate(functions, units[:size], a[:size], out[:size], found[:size])
        for m in range(block.size):
            here = slice(m * width, (m + 1) * width)
            now, value = a[here], out[here]
            if line.size:
                steep, height = line[0][first:last], line[1][first:last]
                for k in range(width):
                    value[k] += steep[k] * now[k] + height[k]
            copy(value, h[block[m]][first:])
            copy(found[here], kept[block[m]][first:])


def _step_back(cell, tokens, first, last, g_feed, g_h):
    kept, functions, line = cell.cell.kept, cell.cell.functions, cell.cell.line
    g_out, reaching, g_x = cell.g_out, cell.reaching, cell.g_x
    rows, width = tokens.row, last - first
    for m in range(rows.size):
        total, now = reaching[rows[m]][first:last], g_x[rows[m]][first:last]
        says = kept[rows[m]][first:last]
        arrive(g_out[rows[m]][first:last], g_h[tokens.slot[m]][first:last], total)
        for k in range(width):
            now[k] = total[k] * _slope(functions, says[k])
        if line.size:
            steep = line[0][first:last]
            for k in range(width):
                now[k] += total[k] * steep[k]
    if cell.cell.norm.size:
        _normalize_back(cell, rows, first, last)
    for m in range(rows.size):
        copy(g_x[rows[m]][first:last], g_feed[m][first:])


@inlined
def _normalize_back(cell, rows, first, last):
    """From the gradients of normalized rows to those of the rows, and the normalized rows."""
    before, norm, width = cell.cell.before, cell.cell.norm, last - first
    scale, shift = norm[0][first:last], norm[1][first:last]
    mean, inverse = _statistics(rows, first, last, before, cell.cell.eps)
    to_scale, to_shift = cell.g_norm[0][first:last], cell.g_norm[1][first:last]
    sums, means = np.zeros((2, width)), np.empty((2, width), cell.g_x.dtype)
    turned, plain = sums[0], sums[1]
    for row in rows:
        own, now = before[row][first:last], cell.g_x[row][first:last]
        normalized = cell.inputs[row][first:last]
        for k in range(width):
            apart = (own[k] - mean[k]) * inverse[k]
            normalized[k] = apart * scale[k] + shift[k]
            turned[k] += now[k] * apart
            plain[k] += now[k]
    for k in range(width):
        to_scale[k] += turned[k]
        to_shift[k] += plain[k]
        means[0, k], means[1, k] = turned[k] / rows.size, plain[k] / rows.size
    for row in rows:
        own, now = before[row][first:last], cell.g_x[row][first:last]
        for k in range(width):
            centered = now[k] - means[1, k] - (own[k] - mean[k]) * inverse[k] * means[0, k]
            now[k] = centered * inverse[k] * scale[k]


@kernel
def _scan(first_task, last_task, tasks, across, mask, h0, cell):
    """Tasks are parts of the texts."""
    order, start, length, stride, parts, blocks = tasks
    for task in range(first_task, last_task):
        h = cell.h
        texts, first, last = share_of(task, order, length, parts, blocks, h.shape[1])
        forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h)


@kernel
def _scan_back(first_task, last_task, tasks, back, mask, g_h0, cell):
    order, start, length, stride, parts, blocks = tasks
    rows, units = cell.g_x.shape
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, length, parts, blocks, units)
        g_h = np.zeros((texts.size, units), g_h0.dtype)
        backward_loop(cell, texts, start, length, stride, first, last, back, mask, rows, g_h)
        for i in range(texts.size):
            copy(g_h[i], g_h0[texts[i]])


@inlined
def _tokens(start, apart):
    """The tokens of a step, whose rows are so far from the first ones."""
    slot = np.arange(start.size)
    return Tokens(start + apart, slot, slot)


@kernel
def _one_step(first, last, start, apart, feed, carried, cell):
    """The tasks are all units; the texts are those that have a token."""
    tokens = _tokens(start, apart)
    step(cell, tokens, first, last, feed)
    for m in range(start.size):
        copy(cell.h[tokens.row[m]][first:last], carried[m][first:])


@kernel
def _one_step_back(first, last, start, apart, g_feed, g_h, cell):
    step_back(cell, _tokens(start, apart), first, last, g_feed, g_h)


class _Steps(NamedTuple):
    """The steps of all texts together, whose statistics they share.

    Attributes:
        order: The texts, the longest first.
        start: The rows of their first tokens.
        active: The number of texts that have a token at each step.
    """

    order: Tensor
    start: np.ndarray
    active: list[int]

    @classmethod
    def of(cls, layout: Layout) -> _Steps:
        """Those of a layout."""
        order, steps = layout.order(), torch.arange(layout.num_steps)
        active = (layout.length.unsqueeze(0) > steps.unsqueeze(1)).sum(1).tolist()
        return cls(order, array(layout.start.index_select(0, order)), active)


def forward(
    form: Form, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `pyg_kernels.ops.scan.activation`: h, a, what says the slopes, table and order."""
    x, h0, feed, centers, coefficients, *_ = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h, before = new(x.shape), new(x.shape)
    kept, table, order = new(x.shape), x.new_empty(0, 0), x.new_empty(0, 0)
    if form.green != "gaussian":
        kept = new(x.shape, dtype=torch.int32)
        table, order = piece_table(centers, coefficients, form.green)
    cell = _cell(form, tensors, (h, before, kept, table))
    tasks, steps = _shares(form, layout, feed)
    if steps is not None:
        carried = h0.index_select(0, steps.order)
        fed = carried.new_empty(carried.shape)
        for t, active in enumerate(steps.active):
            torch.mm(carried[:active], feed.t(), out=fed[:active])
            places = steps.start[:active], t * layout.stride
            _one_step(0, x.size(1), *places, array(fed), array(carried), cell)
    else:
        across, _ = columns(feed, x)
        run(_scan, tasks.parts, h.numel(), tuple(tasks), across, array(None, x), array(h0), cell)
    return h, before, kept, table, order


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
    h, before, kept, table, order = outputs
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    g_x, reaching, g_h0 = new(x.shape), new(x.shape), h0.new_empty(h0.shape)
    inputs = new(x.shape) if form.normalize else before
    g_norm = x.new_zeros(2, x.size(1), dtype=torch.double)
    given = map(array, (grads[0], inputs, reaching, g_x, g_norm))
    cell = _CellBack(_cell(form, tensors, outputs), *given)
    tasks, steps = _shares(form, layout, feed)
    if steps is not None:
        g_h, g_feed = h0.new_zeros(h0.shape), h0.new_empty(h0.shape)
        for t in range(len(steps.active) - 1, -1, -1):
            active = slice(steps.active[t])
            places = steps.start[active], t * layout.stride
            _one_step_back(0, x.size(1), *places, array(g_feed), array(g_h), cell)
            torch.addmm(g_h[active], g_feed[active], feed, out=g_h[active])
        g_h0.index_copy_(0, steps.order, g_h)
    else:
        _, back = columns(feed, x)
        nothing = array(None, x)
        run(_scan_back, tasks.parts, h.numel(), tuple(tasks), back, nothing, array(g_h0), cell)
    of_functions: Sequence[Tensor | None] = (None, None)
    if any(needed[3:5]) and form.green == "gaussian":
        assert form.bandwidth is not None
        _, *of_functions = gaussian_backward(
            reaching, inputs, centers, coefficients, form.bandwidth
        )
    elif any(needed[3:5]):
        _, *of_functions = linear_backward(
            reaching, inputs, coefficients, form.green, (False, True), kept, table, order
        )
    of_line: list[Tensor | None] = [None, None]
    if slope is not None:
        of_line = [t.sum(0).sum_to_size(slope.shape) for t in (reaching * inputs, reaching)]
    g_feed = g_x.t() @ layout.before(h, h0)
    of_norm = [
        None if t is None else g.to(x.dtype, copy=True)
        for t, g in zip((weight, bias), g_norm, strict=True)
    ]
    return [g_x, g_h0, g_feed, *of_functions, *of_line, *of_norm]


def _shares(form: Form, layout: Layout, feed: Tensor) -> tuple[Tasks, _Steps | None]:
    """How threads share the work: the texts, or, as statistics need all of them, PyTorch's
    products of a step."""
    tasks = Tasks.of(layout, len(feed), feed)
    if not form.normalize:
        return tasks, None
    steps = _Steps.of(layout) if len(feed) >= _NARROW else None
    return tasks._replace(parts=min(tasks.parts, 1)), steps


def _cell(form: Form, tensors: Sequence[Any], outputs: Sequence[Tensor]) -> _Cell:
    x, _, _, centers, coefficients, slope, intercept, weight, bias = tensors
    h, before, kept, table, *_ = outputs
    return _Cell(
        array(x),
        array(before),
        _numbers(kept),
        array(h),
        _functions(form, x, centers, coefficients, table),
        _line(x, slope, intercept),
        _norm(form, x, weight, bias),
        form.eps,
    )


def _numbers(kept: Tensor) -> np.ndarray:
    return array(kept) if kept.is_floating_point() else as_indices(kept)


def _functions(
    form: Form, x: Tensor, centers: Tensor, coefficients: Tensor, table: Tensor
) -> Reader | _Gaussians:
    if form.bandwidth is None or form.green != "gaussian":
        return Reader.of(table, x.size(1), centers.size(1), form.green)
    steepness = array(x).dtype.type(form.bandwidth**-2)
    exponent = exponent_of(x, form.bandwidth)
    rows = np.arange(x.size(1)) if centers.size(0) > 1 else np.zeros(x.size(1), np.int64)
    return _Gaussians(array(centers), array(coefficients), exponent, steepness, rows)


def _line(x: Tensor, slope: Tensor | None, intercept: Tensor | None) -> np.ndarray:
    """The slopes and intercepts, (2, H); (0, 0) without a line."""
    if slope is None or intercept is None:
        return array(None, x)
    return array(torch.stack([slope, intercept]).expand(2, x.size(1)))


def _norm(form: Form, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> np.ndarray:
    """The scale and the shift, (2, H); (0, 0) without normalization."""
    if not form.normalize:
        return array(None, x)
    scale = x.new_ones(x.size(1)) if weight is None else weight
    return array(torch.stack((scale, scale.new_zeros(scale.shape) if bias is None else bias)))
