"""The walk's cell on CPU: its step, the derivative of its step, and the kernels around them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, overloads, run, sigmoid
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.gates import (
    ACTIVATIONS,
    SIGMOID,
    activate,
    activate_back,
    add,
    arrive,
    copy,
    give_products,
    keep_products,
    open_gate,
    open_gate_back,
)
from pyg_kernels.ops.scan.loop import (
    Tasks,
    backward_loop,
    columns,
    forward_loop,
    share_of,
    step,
    step_back,
)
from pyg_kernels.ops.scan.walk.definition import Form

_GATES, _READOUTS = ("none", "values", "logits"), ("c", "z", "sum")
_NONE, _VALUES, _LOGITS = range(3)
_C, _Z, _SUM = range(3)


class _Numbers(NamedTuple):
    """A form in numbers; `begin` and `highway_at` are columns of x."""

    mul: bool
    normalize: bool
    gate: int
    width: int
    readout: int
    act: int
    output_gate: bool
    highway: bool
    selects: bool
    holds: bool
    largest: bool
    begin: int
    highway_at: int


class _Walk(NamedTuple):
    """The arrays of a walk; those that are not there are empty.

    `fed` are the products with the outputs before, (N, R).
    """

    x: Any
    params: Any
    select: Any
    carried: Any
    fed: Any
    h0: Any
    h: Any
    c: Any
    numbers: Any


class _WalkBack(NamedTuple):
    """The same for the backward: the gradients that are given, and those that are found."""

    walk: Any
    g_out: Any
    g_states: Any
    g: Any
    g_x: Any
    g_params: Any
    g_select: Any
    g_carried: Any


class _Rows(NamedTuple):
    """What one token is read into, in a block of channels.

    Attributes:
        decay: The decay.
        keep: What is left of it by the selection.
        state: The state that is put out, with its activation.
        output: The output gate, or ones.
        highway: The highway's gate, or ones.
        passed: What the highway carries past, or zeros.
        unit: What a first projection is combined with: ones or zeros.
    """

    decay: Any
    keep: Any
    state: Any
    output: Any
    highway: Any
    passed: Any
    unit: Any


@overloads(step)
def _(cell, tokens, first, last, feed):
    return _walk_step if getattr(cell, "instance_class", None) is _Walk else None


@overloads(step_back)
def _(cell, tokens, first, last, g_feed, g_h):
    return _walk_back if getattr(cell, "instance_class", None) is _WalkBack else None


@inlined
def _new_rows(numbers, params):
    """The rows, with what stays the same at each token."""
    zeros, ones = np.zeros((4, params.shape[1]), params.dtype), np.ones_like(params)
    copy(params[0], zeros[0])
    keep = zeros[1] if numbers.selects else zeros[0]
    unit = ones[2] if numbers.mul else zeros[3]
    return _Rows(zeros[0], keep, zeros[2], ones[0], ones[1], np.zeros_like(unit), unit)


@inlined
def _read_decay(walk, params, row, first, rows):
    """The decay, before and after any selection."""
    x, fed, numbers, decay = walk.x, walk.fed, walk.numbers, rows.decay
    one = decay.dtype.type(1)
    if numbers.width == 1:
        value = x[row, 0]
        if numbers.gate == _LOGITS:
            value = sigmoid(value + params[0, 0] + (fed[row, 0] if fed.size else value * 0))
        for k in range(decay.size):
            decay[k] = value
    elif numbers.gate == _LOGITS:
        open_gate(SIGMOID, x, fed, row, first, params[0], decay)
    elif numbers.gate == _VALUES:
        copy(x[row][first:], decay)
    if numbers.selects:
        weight = walk.select[row]
        for k in range(decay.size):
            rows.keep[k] = one - weight * (one - decay[k])


@inlined
def _joined(mul, below, p):
    """A projection combined with the state below."""
    return below * p if mul else below + p


@inlined
def _decayed(keep, before):
    """What is left of a state; nothing decays where there is none."""
    return before if before == -np.inf else keep * before


@inlined
def _stays(kept, new):
    """Whether the earlier value stays the largest; NaN stays."""
    return (kept >= new) | (kept != kept)


@inlined
def _add_up(walk, row, before_row, first, rows):
    """The states of all orders."""
    x, c, numbers, keep = walk.x, walk.c, walk.numbers, rows.keep
    mul, normalize, count = numbers.mul, numbers.normalize, keep.size
    one = keep.dtype.type(1)
    weight = walk.select[row] if numbers.selects else one
    for j in range(c.shape[0] - 1, -1, -1):
        p = x[row][numbers.begin + j * c.shape[2] + first :]
        now, before = c[j][row][first : first + count], c[j][before_row][first:]
        below = c[j - 1][before_row][first:] if j else rows.unit
        if weight == 0:  # no trace, to the last bit
            copy(before, now)
        elif numbers.largest:
            for k in range(count):
                kept, z = _decayed(keep[k], before[k]), _joined(mul, below[k], p[k])
                now[k] = kept if _stays(kept, z) else z
        else:
            for k in range(count):
                z = _joined(mul, below[k], p[k])
                now[k] = keep[k] * before[k] + (one - keep[k] if normalize else weight) * z


@inlined
def _read_out(walk, params, row, before_row, first, rows):
    """The state that is put out, and the gates that it passes."""
    x, c, numbers, state = walk.x, walk.c, walk.numbers, rows.state
    order, channels, count = c.shape[0], c.shape[2], state.size
    if numbers.readout == _Z:
        p = x[row][numbers.begin + (order - 1) * channels + first :]
        below = c[order - 2][before_row][first:] if order > 1 else rows.unit
        for k in range(count):
            state[k] = _joined(numbers.mul, below[k], p[k])
    else:
        copy(c[order - 1][row][first : first + count], state)
        for j in range(order - 1 if numbers.readout == _SUM else 0):
            add(c[j][row][first : first + count], state)
    add(params[1], state)
    activate(numbers.act, state)
    if numbers.output_gate:
        at = numbers.width + first
        open_gate(SIGMOID, x, walk.fed, row, at, params[2], rows.output)
    if numbers.highway:
        at = numbers.highway_at + first
        open_gate(SIGMOID, x, walk.fed, row, at, params[3], rows.highway)
        copy(walk.carried[row][first : first + count], rows.passed)


@inlined
def _put_out(rows, out):
    """The output, before any selection."""
    state, output, highway, passed = rows.state, rows.output, rows.highway, rows.passed
    one = out.dtype.type(1)
    for k in range(out.size):
        out[k] = highway[k] * (output[k] * state[k]) + (one - highway[k]) * passed[k]


@inlined
def _output_before(walk, before_row, first):
    """The output of the token before, which is held where a token counts in part."""
    rows = walk.h.shape[0]
    if before_row < rows:
        return walk.h[before_row][first:]
    return walk.h0[before_row - rows][first:]


def _walk_step(cell, tokens, first, last, feed):
    numbers, params = cell.numbers, cell.params[:, first:last].copy()
    rows = _new_rows(numbers, params)
    keep_products(tokens, feed, cell.fed)
    for m in range(tokens.row.size):
        row, before_row = tokens.row[m], tokens.before[m]
        _read_decay(cell, params, row, first, rows)
        _add_up(cell, row, before_row, first, rows)
        _read_out(cell, params, row, before_row, first, rows)
        out = cell.h[row][first:last]
        _put_out(rows, out)
        if numbers.holds:
            weight, past = cell.select[row], _output_before(cell, before_row, first)
            rest = out.dtype.type(1) - weight
            for k in range(out.size):
                out[k] = weight * out[k] + rest * past[k] if weight else past[k]


@inlined
def _hold_back(cell, row, before_row, first, rows, later, g_y, out):
    """Through the selection's share of the output: what is held goes on to the output before."""
    weight, past = cell.walk.select[row], _output_before(cell.walk, before_row, first)
    one = g_y.dtype.type(1)
    total = weight * 0
    _put_out(rows, out)
    for k in range(g_y.size):
        total += g_y[k] * (out[k] - past[k])
        later[k] = (one - weight) * g_y[k]
        g_y[k] *= weight
    cell.g_select[row] += total


@inlined
def _gates_back(cell, row, first, rows, g_y, grad):
    """From the gradient of the output to that of the state."""
    numbers, state, output, highway = cell.walk.numbers, rows.state, rows.output, rows.highway
    one = g_y.dtype.type(1)
    if numbers.highway:
        g_passed = cell.g_carried[row][first:]
        for k in range(g_y.size):
            grad[k] = g_y[k] * (output[k] * state[k] - rows.passed[k])
            g_passed[k] = g_y[k] * (one - highway[k])
            g_y[k] *= highway[k]
        at = numbers.highway_at + first
        open_gate_back(SIGMOID, highway, grad, cell.g_x, row, at, cell.g_params[3][first:])
    if numbers.output_gate:
        for k in range(g_y.size):
            grad[k] = g_y[k] * state[k]
            g_y[k] *= output[k]
        at = numbers.width + first
        open_gate_back(SIGMOID, output, grad, cell.g_x, row, at, cell.g_params[2][first:])
    activate_back(numbers.act, state, g_y)
    add(g_y, cell.g_params[1][first:])


@inlined
def _add_up_back(cell, row, before_row, slot, first, rows, g_y, g_keep, g_z):
    """From the gradients of the states to those of the projections, the decay and the selection."""
    walk, numbers, keep = cell.walk, cell.walk.numbers, rows.keep
    c, mul, normalize, count = walk.c, numbers.mul, numbers.normalize, keep.size
    order, zero, one = c.shape[0], keep.dtype.type(0), keep.dtype.type(1)
    weight = walk.select[row] if numbers.selects else one
    for k in range(count):
        g_keep[k] = zero
    for j in range(order):
        # Order j has all of its gradient at t before order j + 1 adds to that at t - 1.
        at = numbers.begin + j * c.shape[2] + first
        p, g_p = walk.x[row][at:], cell.g_x[row][at:]
        now, before = cell.g[j][slot], c[j][before_row][first:]
        below = c[j - 1][before_row][first:] if j else rows.unit
        add(cell.g_states[j][row][first : first + count], now)
        if numbers.readout == _SUM or (numbers.readout == _C and j == order - 1):
            add(g_y, now)
        if numbers.largest:
            for k in range(count):
                kept, z = _decayed(keep[k], before[k]), _joined(mul, below[k], p[k])
                stays, given = _stays(kept, z), now[k]
                g_z[k] = zero if stays else given
                g_keep[k] += given * before[k] if stays and before[k] != -np.inf else zero
                now[k] = given * keep[k] if stays else zero
        else:
            total = zero
            for k in range(count if numbers.selects and not normalize else 0):
                total += now[k] * _joined(mul, below[k], p[k])
            if numbers.selects:
                cell.g_select[row] += total
            for k in range(count):
                g_z[k] = now[k] * (one - keep[k] if normalize else weight)
                z = _joined(mul, below[k], p[k]) if normalize else zero
                g_keep[k] += now[k] * (before[k] - z)
                now[k] *= keep[k]
        if numbers.readout == _Z and j == order - 1:
            add(g_y, g_z)
        if j == 0:
            copy(g_z, g_p)
        else:
            g_below = cell.g[j - 1][slot]
            for k in range(count):
                g_p[k] = g_z[k] * below[k] if mul else g_z[k]
                g_below[k] += g_z[k] * p[k] if mul else g_z[k]


@inlined
def _decay_back(cell, row, first, decay, grad):
    """From the gradient of the decay to its columns, its bias and the selection."""
    walk, numbers, one, total = cell.walk, cell.walk.numbers, decay.dtype.type(1), decay[0] * 0
    if numbers.selects:
        for k in range(decay.size):
            total += grad[k] * (one - decay[k])
            grad[k] *= walk.select[row]
        cell.g_select[row] -= total
    if numbers.width == 1:
        if numbers.gate == _LOGITS:
            activate_back(SIGMOID, decay, grad)
        total = decay[0] * 0
        for k in range(decay.size):
            total += grad[k]
        cell.g_x[row, 0] = total
        if numbers.gate == _LOGITS:
            cell.g_params[0, 0] += total
    elif numbers.gate == _LOGITS:
        open_gate_back(SIGMOID, decay, grad, cell.g_x, row, first, cell.g_params[0][first:])
    elif numbers.gate == _VALUES:
        copy(grad, cell.g_x[row][first:])
    else:
        add(grad, cell.g_params[0][first:])


def _walk_back(cell, tokens, first, last, g_feed, g_h):
    walk, numbers = cell.walk, cell.walk.numbers
    params = walk.params[:, first:last].copy()
    rows, work = _new_rows(numbers, params), np.empty((3, last - first), params.dtype)
    g_y, g_keep, grad = work[0], work[1], work[2]
    again = numbers.output_gate or numbers.highway or numbers.holds
    for m in range(tokens.row.size):
        row, before_row, slot = tokens.row[m], tokens.before[m], tokens.slot[m]
        later = g_h[slot][first:last]
        _read_decay(walk, params, row, first, rows)
        if again:
            _read_out(walk, params, row, before_row, first, rows)
        else:
            copy(walk.h[row][first:last], rows.state)
        arrive(cell.g_out[row][first:last], later, g_y)
        if numbers.holds:
            _hold_back(cell, row, before_row, first, rows, later, g_y, grad)
        _gates_back(cell, row, first, rows, g_y, grad)
        _add_up_back(cell, row, before_row, slot, first, rows, g_y, g_keep, grad)
        _decay_back(cell, row, first, rows.decay, g_keep)
    give_products(tokens, cell.g_x, g_feed)


@kernel
def _walk_forward(
    first_task, last_task, tasks, across, mask, x, params, select, carried, fed, h0, h, c, numbers
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, parts, blocks, h.shape[1])
        cell = _Walk(x, params, select, carried, fed, h0, h, c, numbers)
        forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h)


@kernel
def _walk_backward(
    first_task, last_task, tasks, back, mask, x, params, select, carried, fed, h0, h, c, g_out,
    g_states, g_end, g_x, g_params, g_select, g_carried, g_h0, g_c0, numbers,
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    orders, (rows, channels) = c.shape[0], h.shape
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, parts, blocks, channels)
        walk = _Walk(x, params, select, carried, fed, h0, h, c, numbers)
        g = np.zeros((orders, texts.size, last - first), h.dtype)
        g_h = np.zeros((texts.size, channels), h.dtype)
        for j in range(orders):
            for i in range(texts.size):
                add(g_end[j][texts[i]][first:last], g[j][i])
        own = g_params[task // blocks]
        cell = _WalkBack(walk, g_out, g_states, g, g_x, own, g_select, g_carried)
        backward_loop(cell, texts, start, length, stride, first, last, back, mask, rows, g_h)
        for i in range(texts.size):
            copy(g_h[i][first:last], g_h0[texts[i]][first:])
            for j in range(orders):
                copy(g[j][i], g_c0[j][texts[i]][first:])


def _numbers(form: Form, channels: int, selects: bool) -> _Numbers:
    begin = form.width + (channels if form.output_gate else 0)
    return _Numbers(
        form.combine == "mul",
        form.normalize,
        _GATES.index(form.gate),
        form.width,
        _READOUTS.index(form.readout),
        ACTIVATIONS.index(form.act),
        form.output_gate,
        form.highway,
        selects,
        selects and form.hold,
        form.pool == "max",
        begin,
        begin + form.order * channels,
    )


def _tasks(form: Form, layout: Layout, x: Tensor, feed: Tensor | None, select: Any) -> Tasks:
    splits = form.width != 1 and select is None  # their gradients are sums over channels
    return Tasks.of(layout, x.size(2), feed, splits)


def _inputs(tensors: Sequence[Any], h: Tensor, c: Tensor, fed: Tensor) -> tuple[np.ndarray, ...]:
    x, params, select, carried, _, _, h0, _ = tensors
    given = array(x), array(params), array(select, x).reshape(-1), array(carried, x)
    return *given, *map(array, (fed, h0, h, c))


def forward(
    form: Form, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h and c of every token, c0 below, c after each text, and the products of the outputs."""
    x, _, select, _, feed, mask, _, c0 = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h = new(layout.num_rows, c0.size(2))
    c = new(len(c0), layout.num_rows + layout.num_texts, c0.size(2))
    c[:, layout.num_rows :] = c0
    fed = new(layout.num_rows, len(feed)) if feed is not None else x.new_empty(0, 0)
    tasks = _tasks(form, layout, c0, feed, select)
    across, _ = columns(feed, x)
    run(
        _walk_forward,
        tasks.number,
        c.numel(),
        tuple(tasks),
        across,
        array(mask, x),
        *_inputs(tensors, h, c, fed),
        _numbers(form, c.size(2), select is not None),
    )
    end = torch.stack([layout.last(states[: x.size(0)], c0[j]) for j, states in enumerate(c)])
    return h, c, end, fed


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    x, params, select, carried, feed, mask, h0, c0 = tensors
    h, c, _, fed = outputs
    g_out, g_states, g_end, _ = grads
    tasks = _tasks(form, layout, c0, feed, select)
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    g_x = new(x.shape)
    g_params = x.new_zeros(tasks.parts, *params.shape)
    g_select = None if select is None else x.new_zeros(select.shape)
    g_carried = None if carried is None else new(carried.shape)
    g_h0, g_c0 = x.new_empty(h0.shape), x.new_empty(c0.shape)
    _, back = columns(feed, x)
    run(
        _walk_backward,
        tasks.number,
        c.numel(),
        tuple(tasks),
        back,
        array(mask, x),
        *_inputs(tensors, h, c, fed),
        array(g_out, x),
        array(g_states, x, 3),
        array(g_end, x, 3),
        array(g_x),
        array(g_params),
        array(g_select, x).reshape(-1),
        array(g_carried, x),
        array(g_h0),
        array(g_c0),
        _numbers(form, c.size(2), select is not None),
    )
    if g_states is not None:
        g_c0 += g_states[:, layout.num_rows :]
    g_feed = g_mask = None
    if feed is not None:
        before, g_fed = layout.before(h, h0), g_x[:, : len(feed)]
        g_feed = g_fed.t() @ (before if mask is None else before * layout.spread(mask))
        if needed[5]:
            text = layout.places()[0]
            g_mask = mask.new_zeros(mask.shape).index_add(0, text, (g_fed @ feed) * before)
    return [g_x, g_params.sum(0), g_select, g_carried, g_feed, g_mask, g_h0, g_c0]
