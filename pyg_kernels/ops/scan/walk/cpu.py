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
from pyg_kernels.ops.scan.loop import (
    Tasks,
    Tokens,
    backward_loop,
    columns,
    forward_loop,
    longest_list,
    share_of,
    step,
    step_back,
)
from pyg_kernels.ops.scan.rows import (
    ACTIVATIONS,
    activate,
    activate_back,
    add,
    copy,
    gather,
    scatter,
)
from pyg_kernels.ops.scan.walk.definition import Form

_NONE, _VALUES, _LOGITS = range(3)
_C, _Z, _SUM = range(3)


class _Numbers(NamedTuple):
    """A form in numbers; `begin` and `highway_at` are columns of x."""

    order: int
    mul: bool
    normalize: bool
    gate: int
    width: int
    readout: int
    act: int
    output_gate: bool
    highway: bool
    hold: bool
    begin: int
    highway_at: int


class _Walk(NamedTuple):
    """The arrays of a walk; those that are not there are empty."""

    x: Any
    params: Any
    select: Any
    carried: Any
    kept: Any
    h0: Any
    h: Any
    c: Any
    numbers: Any
    work: Any


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


@overloads(step)
def _(cell, tokens, first, last, feed):
    return _walk_step if getattr(cell, "instance_class", None) is _Walk else None


@overloads(step_back)
def _(cell, tokens, first, last, g_feed, g_h):
    return _walk_back if getattr(cell, "instance_class", None) is _WalkBack else None


@inlined
def _fill_decay(numbers, tokens, first, last, x, feed, params, out):
    """The decay before any selection, :obj:`(tokens, channels)`."""
    gate, width = numbers.gate, numbers.width
    count = last - first
    shift = params[0][first:last]
    for m in range(tokens.row.size):
        decay = out[m]
        if gate == _NONE:
            copy(shift, decay)
        elif width == 1:
            value = x[tokens.row[m], 0]
            if gate == _LOGITS:
                value += shift[0]
                if feed.size:
                    value += feed[m, 0]
                value = sigmoid(value)
            for k in range(count):
                decay[k] = value
        else:
            columns = x[tokens.row[m]][first:last]
            if gate == _VALUES:
                copy(columns, decay)
            elif feed.size:
                more = feed[m][first:last]
                for k in range(count):
                    decay[k] = sigmoid(columns[k] + shift[k] + more[k])
            else:
                for k in range(count):
                    decay[k] = sigmoid(columns[k] + shift[k])


@inlined
def _select_decay(tokens, select, decay):
    """The decay of tokens that count in part."""
    one = decay.dtype.type(1)
    for m in range(tokens.row.size):
        weight, now = select[tokens.row[m]], decay[m]
        for k in range(now.size):
            now[k] = one - weight * (one - now[k])


@inlined
def _add_up(numbers, tokens, first, last, x, select, decay, c):
    """The states of all orders."""
    order, mul, normalize, begin = numbers.order, numbers.mul, numbers.normalize, numbers.begin
    channels, count = c.shape[2], last - first
    one = c.dtype.type(1)
    for m in range(tokens.row.size):
        row, before_row, keep = tokens.row[m], tokens.before[m], decay[m]
        weight = select[row] if select.size else one
        if weight == 0:  # no trace, to the last bit
            for j in range(order):
                now, before = c[j][row][first:last], c[j][before_row][first:last]
                copy(before, now)
            continue
        for j in range(order - 1, -1, -1):
            at = begin + j * channels + first
            p = x[row][at : at + count]
            now, before = c[j][row][first:last], c[j][before_row][first:last]
            if j == 0:
                copy(p, now)
            else:
                below = c[j - 1][before_row][first:last]
                if mul:
                    for k in range(count):
                        now[k] = below[k] * p[k]
                else:
                    for k in range(count):
                        now[k] = below[k] + p[k]
            if normalize:
                for k in range(count):
                    now[k] = keep[k] * before[k] + (one - keep[k]) * now[k]
            else:
                for k in range(count):
                    now[k] = keep[k] * before[k] + weight * now[k]


@inlined
def _read_out(numbers, tokens, first, last, x, c, out):
    """The state that is put out, :obj:`(tokens, channels)`."""
    order, readout, begin = numbers.order, numbers.readout, numbers.begin
    channels, count = c.shape[2], last - first
    for m in range(tokens.row.size):
        row, state = tokens.row[m], out[m]
        if readout == _Z:
            at = begin + (order - 1) * channels + first
            p = x[row][at : at + count]
            copy(p, state)
            if order > 1:
                below = c[order - 2][tokens.before[m]][first:last]
                if numbers.mul:
                    for k in range(count):
                        state[k] *= below[k]
                else:
                    add(below, state)
        else:
            now = c[order - 1][row][first:last]
            copy(now, state)
            if readout == _SUM:
                for j in range(order - 1):
                    now = c[j][row][first:last]
                    add(now, state)


@inlined
def _activate(act, bias, state):
    """The activation of the states plus a bias, in place."""
    for m in range(len(state)):
        add(bias, state[m])
    activate(act, state)


@inlined
def _open(tokens, begin, first, last, x, feed, shift, out):
    """The values of a gate whose logits begin at a column of x, :obj:`(tokens, channels)`."""
    count = last - first
    bias = shift[first:last]
    for m in range(tokens.row.size):
        logits, gate = x[tokens.row[m]][begin + first : begin + last], out[m]
        if feed.size:
            more = feed[m][begin + first : begin + last]
            for k in range(count):
                gate[k] = sigmoid(logits[k] + bias[k] + more[k])
        else:
            for k in range(count):
                gate[k] = sigmoid(logits[k] + bias[k])


@inlined
def _multiply(values, factors):
    for m in range(values.shape[0]):
        now, factor = values[m], factors[m]
        for k in range(now.size):
            now[k] *= factor[k]


@inlined
def _outputs_before(tokens, h0, h, first, last, out):
    """The outputs of the tokens before, which are held where tokens count in part."""
    rows = h.shape[0]
    for m in range(tokens.row.size):
        before, now = tokens.before[m], out[m]
        if before < rows:
            past = h[before][first:last]
            copy(past, now)
        else:
            past = h0[before - rows][first:last]
            copy(past, now)


def _walk_step(cell, tokens, first, last, feed):
    x, params, select, carried, kept, h0, h, c, numbers, work = cell
    size, count = tokens.row.size, last - first
    one = h.dtype.type(1)
    decay, out, gate = work[0][:size], work[1][:size], work[2][:size]
    if feed.size:
        scatter(feed, tokens.row, kept)
    _fill_decay(numbers, tokens, first, last, x, feed, params, decay)
    if select.size:
        _select_decay(tokens, select, decay)
    _add_up(numbers, tokens, first, last, x, select, decay, c)
    _read_out(numbers, tokens, first, last, x, c, out)
    _activate(numbers.act, params[1][first:last], out)
    if numbers.output_gate:
        _open(tokens, numbers.width, first, last, x, feed, params[2], gate)
        _multiply(out, gate)
    if numbers.highway:
        _open(tokens, numbers.highway_at, first, last, x, feed[:0], params[3], gate)
        for m in range(size):
            past, opened, found = carried[tokens.row[m]][first:last], gate[m], out[m]
            for k in range(count):
                found[k] = opened[k] * found[k] + (one - opened[k]) * past[k]
    for m in range(size):
        row = tokens.row[m]
        found, now = out[m], h[row][first:last]
        copy(found, now)
        if (
            select.size and numbers.hold
        ):  # one after the other: the output before may be the one just made
            weight, past = select[row], gate[:1]
            one_token = Tokens(tokens.row[m : m + 1], tokens.before[m : m + 1], tokens.slot[:1])
            _outputs_before(one_token, h0, h, first, last, past)
            for k in range(count):
                now[k] = weight * now[k] + (one - weight) * past[0, k] if weight else past[0, k]


@inlined
def _arrive(tokens, first, last, held, g_out, g_h, g_y):
    """The gradient of each output; the part that is held goes on to the output before."""
    one = g_y.dtype.type(1)
    for m in range(tokens.row.size):
        row, now, later = tokens.row[m], g_y[m], g_h[tokens.slot[m]][first:last]
        copy(later, now)
        if g_out.size:
            given = g_out[row][first:last]
            add(given, now)
        rest = one - held[row] if held.size else one - one
        for k in range(now.size):
            later[k] = rest * now[k]


@inlined
def _dot_rows(tokens, sign, left, right, out):
    """Adds the products of two tables' rows, times a sign, to one number a token."""
    for m in range(tokens.row.size):
        total, one_row, other = out[tokens.row[m]] * 0, left[m], right[m]
        for k in range(one_row.size):
            total += one_row[k] * other[k]
        out[tokens.row[m]] += sign * total


@inlined
def _select_back(cell, tokens, first, last, y, opened, passed, value, g_y):
    """The selection's gradient through the outputs, and its weight on theirs."""
    select, numbers = cell.walk.select, cell.walk.numbers
    one = value.dtype.type(1)
    _outputs_before(tokens, cell.walk.h0, cell.walk.h, first, last, value)
    _dot_rows(tokens, -one, g_y, value, cell.g_select)
    for m in range(tokens.row.size):
        now, found, gate, highway = value[m], y[m], opened[m], passed[m]
        copy(found, now)
        if numbers.output_gate:
            for k in range(now.size):
                now[k] *= gate[k]
        if numbers.highway:
            past = cell.walk.carried[tokens.row[m]][first:last]
            for k in range(now.size):
                now[k] = highway[k] * now[k] + (one - highway[k]) * past[k]
    _dot_rows(tokens, one, g_y, value, cell.g_select)
    for m in range(tokens.row.size):
        now, weight = g_y[m], select[tokens.row[m]]
        for k in range(now.size):
            now[k] *= weight


@inlined
def _highway_back(cell, tokens, first, last, y, opened, passed, g_y):
    numbers, shift = cell.walk.numbers, cell.g_params[3][first:last]
    one, at = g_y.dtype.type(1), numbers.highway_at + first
    for m in range(tokens.row.size):
        row, now, found, gate, highway = tokens.row[m], g_y[m], y[m], opened[m], passed[m]
        past, g_past = cell.walk.carried[row][first:last], cell.g_carried[row][first:last]
        g_logits = cell.g_x[row][at : at + now.size]
        for k in range(now.size):
            value = found[k] * gate[k] if numbers.output_gate else found[k]
            g_past[k] = now[k] * (one - highway[k])
            slope = now[k] * (value - past[k]) * highway[k] * (one - highway[k])
            g_logits[k] = slope
            shift[k] += slope
            now[k] *= highway[k]


@inlined
def _output_gate_back(cell, tokens, first, last, y, opened, g_feed, g_y):
    shift = cell.g_params[2][first:last]
    one, at = g_y.dtype.type(1), cell.walk.numbers.width + first
    for m in range(tokens.row.size):
        now, found, gate = g_y[m], y[m], opened[m]
        g_logits = cell.g_x[tokens.row[m]][at : at + now.size]
        for k in range(now.size):
            slope = now[k] * found[k] * gate[k] * (one - gate[k])
            g_logits[k] = slope
            shift[k] += slope
            now[k] *= gate[k]
        if g_feed.size:
            g_fed = g_feed[m][at : at + now.size]
            copy(g_logits, g_fed)


@inlined
def _add_up_back(cell, tokens, first, last, decay, g_y, g_decay, z):
    """From the gradient of the state that is put out, and those carried, to x and the decay."""
    x, select, c, numbers = cell.walk.x, cell.walk.select, cell.walk.c, cell.walk.numbers
    order, mul, normalize, readout = numbers.order, numbers.mul, numbers.normalize, numbers.readout
    channels, count = c.shape[2], last - first
    zero, one = c.dtype.type(0), c.dtype.type(1)
    share = np.empty(count, c.dtype)
    for m in range(tokens.row.size):
        row, before_row, slot = tokens.row[m], tokens.before[m], tokens.slot[m]
        keep, out, g_keep = decay[m], g_y[m], g_decay[m]
        weight, total = select[row] if select.size else one, zero
        for k in range(count):
            g_keep[k] = zero
        for j in range(order):
            # Order j has all of its gradient at t before order j + 1 adds to that at t - 1.
            at = numbers.begin + j * channels + first
            p, g_p = x[row][at : at + count], cell.g_x[row][at : at + count]
            now, before = cell.g[j][slot], c[j][before_row][first:last]
            if cell.g_states.size:
                given = cell.g_states[j][row][first:last]
                add(given, now)
            if readout == _SUM or (readout == _C and j == order - 1):
                add(out, now)
            if normalize:
                for k in range(count):
                    share[k] = now[k] * (one - keep[k])
            else:
                for k in range(count):
                    share[k] = now[k] * weight
            if normalize or select.size:  # the inputs' weight is not constant
                if j == 0:
                    copy(p, z)
                else:
                    below = c[j - 1][before_row][first:last]
                    for k in range(count):
                        z[k] = below[k] * p[k] if mul else below[k] + p[k]
                if normalize:
                    for k in range(count):
                        g_keep[k] -= now[k] * z[k]
                else:
                    for k in range(count):
                        total += now[k] * z[k]
            for k in range(count):
                g_keep[k] += now[k] * before[k]
                now[k] *= keep[k]
            if readout == _Z and j == order - 1:
                add(out, share)
            if j == 0:
                copy(share, g_p)
            elif mul:
                below, g_below = c[j - 1][before_row][first:last], cell.g[j - 1][slot]
                for k in range(count):
                    g_p[k] = share[k] * below[k]
                    g_below[k] += share[k] * p[k]
            else:
                g_below = cell.g[j - 1][slot]
                for k in range(count):
                    g_p[k] = share[k]
                    g_below[k] += share[k]
        if select.size:
            cell.g_select[row] += total


@inlined
def _decay_back(cell, tokens, first, last, own, g_feed, g_decay):
    """From the gradient of the decay to its columns, its bias and the selection."""
    numbers, select = cell.walk.numbers, cell.walk.select
    zero, one = own.dtype.type(0), own.dtype.type(1)
    shift = cell.g_params[0][first:last]
    for m in range(tokens.row.size):
        row, value, now = tokens.row[m], own[m], g_decay[m]
        g_row = cell.g_x[row]
        if select.size:
            total, weight = zero, select[row]
            for k in range(now.size):
                total += now[k] * (one - value[k])
                now[k] *= weight
            cell.g_select[row] -= total
        if numbers.gate == _LOGITS:
            for k in range(now.size):
                now[k] *= value[k] * (one - value[k])
        if numbers.width == 1:
            total = zero
            for k in range(now.size):
                total += now[k]
            g_row[0] = total
            if numbers.gate == _LOGITS:
                shift[0] += total
            if g_feed.size:
                g_feed[m, 0] = total
            continue
        if numbers.gate != _VALUES:
            add(now, shift)
        if numbers.width:
            g_logits = g_row[first:last]
            copy(now, g_logits)
            if g_feed.size:
                g_fed = g_feed[m][first:last]
                copy(now, g_fed)


def _walk_back(cell, tokens, first, last, g_feed, g_h):
    walk = cell.walk
    select, numbers, size = walk.select, walk.numbers, tokens.row.size
    own, decay, y, g_y = (
        walk.work[0][:size],
        walk.work[1][:size],
        walk.work[2][:size],
        walk.work[3][:size],
    )
    opened, passed, value = walk.work[4][:size], walk.work[5][:size], walk.work[6][:size]
    fed = np.empty((size if walk.kept.size else 0, walk.kept.shape[1]), y.dtype)
    gather(walk.kept, tokens.row[: len(fed)], fed)
    held = select if numbers.hold else select[:0]
    _arrive(tokens, first, last, held, cell.g_out, g_h, g_y)
    if numbers.output_gate or numbers.highway or held.size:
        # What lies between the states and the outputs is made again.
        _read_out(numbers, tokens, first, last, walk.x, walk.c, y)
        _activate(numbers.act, walk.params[1][first:last], y)
        if numbers.output_gate:
            _open(tokens, numbers.width, first, last, walk.x, fed, walk.params[2], opened)
        if numbers.highway:
            _open(tokens, numbers.highway_at, first, last, walk.x, fed[:0], walk.params[3], passed)
        if held.size:
            _select_back(cell, tokens, first, last, y, opened, passed, value, g_y)
        if numbers.highway:
            _highway_back(cell, tokens, first, last, y, opened, passed, g_y)
        if numbers.output_gate:
            _output_gate_back(cell, tokens, first, last, y, opened, g_feed, g_y)
    else:
        for m in range(size):
            out, now = walk.h[tokens.row[m]][first:last], y[m]
            copy(out, now)
    activate_back(numbers.act, y, g_y)
    for m in range(size):
        add(g_y[m], cell.g_params[1][first:last])
    _fill_decay(numbers, tokens, first, last, walk.x, fed, walk.params, own)
    for m in range(size):
        from_own, now = own[m], decay[m]
        copy(from_own, now)
    if select.size:
        _select_decay(tokens, select, decay)
    _add_up_back(cell, tokens, first, last, decay, g_y, value, opened[0])
    _decay_back(cell, tokens, first, last, own, g_feed, value)


@kernel
def _walk_forward(
    first_task, last_task, tasks, across, mask, x, params, select, carried, kept, h0, h, c, numbers
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, length, parts, blocks, h.shape[1])
        size = longest_list(texts, length, last - first, across.shape[1] > 0)
        work = np.empty((3, size, last - first), h.dtype)
        cell = _Walk(x, params, select, carried, kept, h0, h, c, numbers, work)
        forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h)


@kernel
def _walk_backward(
    first_task, last_task, tasks, back, mask, x, params, select, carried, kept, h0, h, c, g_out,
    g_states, g_end, g_x, g_params, g_select, g_carried, g_h0, g_c0, numbers,
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    orders, channels = numbers[0], h.shape[1]
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, length, parts, blocks, channels)
        size = longest_list(texts, length, last - first, back.shape[0] > 0)
        work = np.empty((7, size, last - first), h.dtype)
        walk = _Walk(x, params, select, carried, kept, h0, h, c, numbers, work)
        g = np.zeros((orders, texts.size, last - first), h.dtype)
        g_h = np.zeros((texts.size, channels), h.dtype)
        if g_end.size:
            for j in range(orders):
                for i in range(texts.size):
                    g[j, i] = g_end[j, texts[i], first:last]
        own = g_params[task // blocks]
        cell = _WalkBack(walk, g_out, g_states, g, g_x, own, g_select, g_carried)
        rows = h.shape[0]
        backward_loop(cell, texts, start, length, stride, first, last, back, mask, rows, g_h)
        for i in range(texts.size):
            g_h0[texts[i], first:last] = g_h[i, first:last]
            for j in range(orders):
                g_c0[j, texts[i], first:last] = g[j, i]


def _numbers(form: Form, channels: int) -> _Numbers:
    begin = form.width + (channels if form.output_gate else 0)
    return _Numbers(
        form.order,
        form.combine == "mul",
        form.normalize,
        ("none", "values", "logits").index(form.gate),
        form.width,
        ("c", "z", "sum").index(form.readout),
        ACTIVATIONS.index(form.act),
        form.output_gate,
        form.highway,
        form.hold,
        begin,
        begin + form.order * channels,
    )


def _tasks(form: Form, layout: Layout, x: Tensor, feed: Tensor | None, select: Any) -> Tasks:
    splits = form.width != 1 and select is None  # their gradients are sums over channels
    return Tasks.of(layout, x.size(2), feed, splits)


def _inputs(tensors: Sequence[Any], h: Tensor, c: Tensor, kept: Tensor) -> tuple[np.ndarray, ...]:
    x, params, select, carried, _, _, h0, _ = tensors
    given = array(x), array(params), array(select, x).reshape(-1), array(carried, x)
    return *given, *map(array, (kept, h0, h, c))


def forward(
    form: Form, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h and c of every token, c0 below, c after each text, and the products of the outputs."""
    x, _, select, _, feed, mask, _, c0 = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h = new(layout.num_rows, c0.size(2))
    c = new(len(c0), layout.num_rows + layout.num_texts, c0.size(2))
    c[:, layout.num_rows :] = c0
    kept = new(layout.num_rows, len(feed)) if feed is not None else x.new_empty(0, 0)
    tasks = _tasks(form, layout, c0, feed, select)
    across, _ = columns(feed, x)
    run(
        _walk_forward,
        tasks.number,
        c.numel(),
        tuple(tasks),
        across,
        array(mask, x),
        *_inputs(tensors, h, c, kept),
        _numbers(form, c.size(2)),
    )
    end = torch.stack([layout.last(states[: x.size(0)], c0[j]) for j, states in enumerate(c)])
    return h, c, end, kept


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
    h, c, _, kept = outputs
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
        *_inputs(tensors, h, c, kept),
        array(g_out, x),
        array(g_states, x, 3),
        array(g_end, x, 3),
        array(g_x),
        array(g_params),
        array(g_select, x).reshape(-1),
        array(g_carried, x),
        array(g_h0),
        array(g_c0),
        _numbers(form, c.size(2)),
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
