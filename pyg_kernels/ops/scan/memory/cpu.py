"""Memory cells on CPU: their step, the derivative of their step, and the kernels around them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, overloads, run, sigmoid, tanh
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.loop import (
    Tasks,
    backward_loop,
    columns,
    forward_loop,
    longest_list,
    share_of,
    step,
    step_back,
)
from pyg_kernels.ops.scan.memory.definition import Form
from pyg_kernels.ops.scan.rows import (
    ACTIVATIONS,
    NONE,
    TANH,
    activate,
    activate_back,
    add,
    arrive,
    copy,
    gather,
    scatter,
)


class _Numbers(NamedTuple):
    """A form in numbers: the places of the gates, -1 for none, the activations, and the rest."""

    output: int
    input: int
    forget: int
    gates: int
    coupled: bool
    memory: bool
    candidate: int
    carried: int
    out: int
    norm: bool
    eps: float


class _Memory(NamedTuple):
    """The arrays of memory cells; those that are not there are empty.

    In a task's own memory, `values` are those of all gates, (tokens, G * channels), and `stats`
    what layer normalization finds, (tokens, 2).
    """

    x: Any
    params: Any
    kept: Any
    h: Any
    c: Any
    numbers: Any
    values: Any
    stats: Any
    y: Any


class _MemoryBack(NamedTuple):
    """The same for the backward: the gradients that are given, and those that are found."""

    cell: Any
    g_out: Any
    g_states: Any
    g: Any
    g_x: Any
    g_params: Any
    g_y: Any


@overloads(step)
def _(cell, tokens, first, last, feed):
    return _memory_step if getattr(cell, "instance_class", None) is _Memory else None


@overloads(step_back)
def _(cell, tokens, first, last, g_feed, g_h):
    return _memory_back if getattr(cell, "instance_class", None) is _MemoryBack else None


@inlined
def _open(tokens, first, last, begin, gates, candidate, x, params, feed, values):
    """The values of gates from a given one on, and of the candidate."""
    count, channels = last - first, params.shape[1]
    for m in range(tokens.row.size):
        for j in range(begin, gates):
            at = j * channels + first
            now, bias = values[m][j * count : (j + 1) * count], params[j][first:last]
            logits = x[tokens.row[m]][at : at + count]
            if feed.size and at < feed.shape[1]:
                more = feed[m][at : at + count]
                for k in range(count):
                    now[k] = logits[k] + bias[k] + more[k]
            else:
                for k in range(count):
                    now[k] = logits[k] + bias[k]
        opened = values[m][begin * count : (gates - 1) * count]
        for k in range(opened.size):
            opened[k] = sigmoid(opened[k])
        if candidate == TANH and begin < gates:
            value = values[m][(gates - 1) * count : gates * count]
            for k in range(count):
                value[k] = tanh(value[k])


@inlined
def _add_up(numbers, tokens, first, last, params, values, c):
    """The memories."""
    count, one = last - first, c.dtype.type(1)
    last_gate = numbers.gates - 1
    past = np.empty((1, count), c.dtype)
    before = past[0]
    for m in range(tokens.row.size):
        value = values[m]
        candidate = value[last_gate * count : (last_gate + 1) * count]
        now = c[tokens.row[m]][first:last]
        forget = value[numbers.forget * count : (numbers.forget + 1) * count]
        if numbers.coupled:
            for k in range(count):
                now[k] = (one - forget[k]) * candidate[k]
        elif numbers.input >= 0:
            share = value[numbers.input * count : (numbers.input + 1) * count]
            for k in range(count):
                now[k] = share[k] * candidate[k]
        else:
            factor = params[-2][first:last]
            for k in range(count):
                now[k] = factor[k] * candidate[k]
        if numbers.memory:
            memory = c[tokens.before[m]][first:last]
            copy(memory, before)
            if numbers.carried != NONE:
                activate(numbers.carried, past)
            if numbers.forget >= 0:
                for k in range(count):
                    now[k] += forget[k] * before[k]
            else:
                factor = params[-1][first:last]
                for k in range(count):
                    now[k] += factor[k] * before[k]


@inlined
def _read_out(numbers, tokens, first, last, params, c, stats, y):
    """The memories as the output gate finds them: normalized and activated."""
    count = last - first
    if numbers.norm:
        scale, shift, zero = params[-4], params[-3], c.dtype.type(0)
        size, eps = c.dtype.type(count), c.dtype.type(numbers.eps)
        for m in range(tokens.row.size):
            memory, now = c[tokens.row[m]], y[m]
            total, square = zero, zero
            for k in range(count):
                total += memory[k]
            mean = total / size
            for k in range(count):
                now[k] = memory[k] - mean
                square += now[k] * now[k]
            width = c.dtype.type(1) / np.sqrt(square / size + eps)
            stats[m, 0], stats[m, 1] = mean, width
            for k in range(count):
                now[k] = now[k] * width * scale[k] + shift[k]
    else:
        for m in range(tokens.row.size):
            memory, now = c[tokens.row[m]][first:last], y[m]
            copy(memory, now)
    if numbers.out != NONE:
        activate(numbers.out, y)


def _memory_step(cell, tokens, first, last, feed):
    x, params, kept, h, c, numbers, values, stats, work = cell
    y, count = work[: tokens.row.size], last - first
    gates, output = numbers.gates, numbers.output
    _open(tokens, first, last, 0, gates, numbers.candidate, x, params, feed, values)
    if feed.size:
        scatter(values, tokens.row, kept)
    _add_up(numbers, tokens, first, last, params, values, c)
    _read_out(numbers, tokens, first, last, params, c, stats, y)
    for m in range(tokens.row.size):
        found, now = y[m], h[tokens.row[m]][first:last]
        if output >= 0:
            gate = values[m][output * count : (output + 1) * count]
            for k in range(count):
                now[k] = gate[k] * found[k]
        else:
            copy(found, now)


@inlined
def _output_back(tokens, first, last, output, values, y, g_x, g_y):
    """Through the output gate."""
    count, one = last - first, g_y.dtype.type(1)
    at = output * (g_x.shape[1] // (values.shape[1] // count)) + first
    for m in range(tokens.row.size):
        gate, value = values[m][output * count : (output + 1) * count], y[m]
        now, g_gate = g_y[m], g_x[tokens.row[m]][at : at + count]
        for k in range(count):
            g_gate[k] = now[k] * value[k] * gate[k] * (one - gate[k])
            now[k] *= gate[k]


@inlined
def _norm_back(tokens, params, c, stats, g_params, g_y):
    """Through layer normalization."""
    scale, g_scale, g_shift = params[-4], g_params[-4], g_params[-3]
    zero, size = c.dtype.type(0), c.dtype.type(c.shape[1])
    for m in range(tokens.row.size):
        memory, now, mean, width = c[tokens.row[m]], g_y[m], stats[m, 0], stats[m, 1]
        total, slope = zero, zero
        for k in range(now.size):
            value = (memory[k] - mean) * width
            g_scale[k] += now[k] * value
            g_shift[k] += now[k]
            now[k] *= scale[k]
            total += now[k]
            slope += now[k] * value
        total, slope = total / size, slope / size
        for k in range(now.size):
            now[k] = width * (now[k] - total - (memory[k] - mean) * width * slope)


@inlined
def _add_up_back(numbers, tokens, first, last, params, values, c, g_states, g, g_y, g_x, g_params):
    """From the gradient of the memories to the gates, the candidate and the memories before."""
    count, channels = last - first, params.shape[1]
    zero, one = c.dtype.type(0), c.dtype.type(1)
    last_gate = numbers.gates - 1
    past, carry = np.empty((1, count), c.dtype), np.empty((1, count), c.dtype)
    before, onward = past[0], carry[0]
    for m in range(tokens.row.size):
        row, value = tokens.row[m], values[m]
        now, reached, g_row = g[tokens.slot[m]], g_y[m], g_x[row]
        candidate = value[last_gate * count : (last_gate + 1) * count]
        g_candidate = g_row[last_gate * channels + first : last_gate * channels + last]
        forget = value[numbers.forget * count : (numbers.forget + 1) * count]
        g_forget = g_row[numbers.forget * channels + first : numbers.forget * channels + last]
        add(reached, now)
        if g_states.size:
            given = g_states[row][first:last]
            add(given, now)
        if numbers.memory:
            memory = c[tokens.before[m]][first:last]
            copy(memory, before)
            if numbers.carried != NONE:
                activate(numbers.carried, past)
            if numbers.forget >= 0:
                for k in range(count):
                    g_forget[k] = now[k] * before[k] * forget[k] * (one - forget[k])
                    onward[k] = now[k] * forget[k]
            else:
                factor, g_factor = params[-1][first:last], g_params[-1][first:last]
                for k in range(count):
                    g_factor[k] += now[k] * before[k]
                    onward[k] = now[k] * factor[k]
            if numbers.carried != NONE:
                activate_back(numbers.carried, past, carry)
        else:
            for k in range(count):
                onward[k] = zero
        if numbers.coupled:
            for k in range(count):
                g_forget[k] -= now[k] * candidate[k] * forget[k] * (one - forget[k])
                g_candidate[k] = now[k] * (one - forget[k])
        elif numbers.input >= 0:
            share = value[numbers.input * count : (numbers.input + 1) * count]
            at = numbers.input * channels + first
            g_share = g_row[at : at + count]
            for k in range(count):
                g_share[k] = now[k] * candidate[k] * share[k] * (one - share[k])
                g_candidate[k] = now[k] * share[k]
        else:
            factor, g_factor = params[-2][first:last], g_params[-2][first:last]
            for k in range(count):
                g_factor[k] += now[k] * candidate[k]
                g_candidate[k] = now[k] * factor[k]
        if numbers.candidate == TANH:
            for k in range(count):
                g_candidate[k] *= one - candidate[k] * candidate[k]
        copy(onward, now)


@inlined
def _logits_back(tokens, first, last, gates, g_x, g_params, g_feed):
    """From the gradients of the logits to the biases and to what was read."""
    count, channels = last - first, g_params.shape[1]
    for m in range(tokens.row.size):
        for j in range(gates):
            at = j * channels + first
            now, bias = g_x[tokens.row[m]][at : at + count], g_params[j][first:last]
            add(now, bias)
        if g_feed.size:
            now, fed = g_x[tokens.row[m]], g_feed[m]
            copy(now, fed)


def _memory_back(cell, tokens, first, last, g_feed, g_h):
    x, params, kept, _, c, numbers, values, stats, work = cell.cell
    g_x, g_params, g_states = cell.g_x, cell.g_params, cell.g_states
    y, g_y = work[: tokens.row.size], cell.g_y[: tokens.row.size]
    gates = numbers.gates
    for m in range(tokens.row.size):
        given = cell.g_out[tokens.row[m]][first:last] if cell.g_out.size else g_y[m][:0]
        arrive(given, g_h[tokens.slot[m]][first:last], g_y[m])
    if kept.size:
        gather(kept, tokens.row, values)
    begin = kept.shape[1] // params.shape[1]
    _open(tokens, first, last, begin, gates, numbers.candidate, x, params, g_feed[:0], values)
    _read_out(numbers, tokens, first, last, params, c, stats, y)
    if numbers.output >= 0:
        _output_back(tokens, first, last, numbers.output, values, y, g_x, g_y)
    if numbers.out != NONE:
        activate_back(numbers.out, y, g_y)
    if numbers.norm:
        _norm_back(tokens, params, c, stats, g_params, g_y)
    g = cell.g
    _add_up_back(numbers, tokens, first, last, params, values, c, g_states, g, g_y, g_x, g_params)
    _logits_back(tokens, first, last, gates, g_x, g_params, g_feed)


@kernel
def _memory_forward(first_task, last_task, tasks, across, x, params, kept, h0, h, c, numbers):
    order, start, length, stride, parts, blocks = tasks
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, length, parts, blocks, h.shape[1])
        size = longest_list(texts, length, last - first, across.shape[1] > 0)
        values = np.empty((size, numbers[3] * (last - first)), h.dtype)
        stats, y = np.empty((size, 2), h.dtype), np.empty((size, last - first), h.dtype)
        cell = _Memory(x, params, kept, h, c, numbers, values, stats, y)
        mask = across[:0]
        forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h)


@kernel
def _memory_backward(
    first_task, last_task, tasks, back, x, params, kept, h, c, g_out, g_states, g_end, g_x,
    g_params, g_h0, g_c0, numbers,
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    rows, channels = h.shape
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, length, parts, blocks, channels)
        size = longest_list(texts, length, last - first, back.shape[0] > 0)
        values = np.empty((size, numbers[3] * (last - first)), h.dtype)
        stats, y = np.empty((size, 2), h.dtype), np.empty((size, last - first), h.dtype)
        g, g_y = np.zeros((texts.size, last - first), h.dtype), np.empty_like(y)
        g_h = np.zeros((texts.size, channels), h.dtype)
        if g_end.size:
            for i in range(texts.size):
                g[i] = g_end[texts[i], first:last]
        cell = _Memory(x, params, kept, h, c, numbers, values, stats, y)
        own = g_params[task // blocks]
        backs = _MemoryBack(cell, g_out, g_states, g, g_x, own, g_y)
        mask = back[:0]
        backward_loop(backs, texts, start, length, stride, first, last, back, mask, rows, g_h)
        for i in range(texts.size):
            g_h0[texts[i], first:last] = g_h[i, first:last]
            g_c0[texts[i], first:last] = g[i]


def _numbers(form: Form) -> _Numbers:
    output, input_, forget = (
        form.gates.index(name) if name in form.gates else -1
        for name in ("output", "input", "forget")
    )
    candidate, carried, out = map(ACTIVATIONS.index, (form.candidate, form.carried, form.out))
    return _Numbers(
        output, input_, forget, len(form.gates), form.coupled, form.memory, candidate, carried,
        out, form.norm, float(form.eps),
    )  # fmt: skip


def forward(
    form: Form, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h and c of every token, c0 below, c after each text, and the values of gates fed back."""
    x, params, feed, h0, c0 = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h = new(layout.num_rows, c0.size(1))
    c = new(layout.num_rows + layout.num_texts, c0.size(1))
    c[layout.num_rows :] = c0
    kept = new(layout.num_rows, len(feed)) if feed is not None else x.new_empty(0, 0)
    tasks = Tasks.of(layout, c0.size(1), feed, not form.norm)
    across, _ = columns(feed, x)
    arrays = map(array, (x, params, kept, h0, h, c))
    run(_memory_forward, tasks.number, x.numel(), tuple(tasks), across, *arrays, _numbers(form))
    return h, c, layout.last(c[: x.size(0)], c0).clone(), kept


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    x, params, feed, h0, c0 = tensors
    h, c, _, kept = outputs
    tasks = Tasks.of(layout, c0.size(1), feed, not form.norm)
    g_x = (x.new_zeros if layout.form == "padded" else x.new_empty)(x.shape)
    g_params = x.new_zeros(tasks.parts, *params.shape)
    g_h0, g_c0 = h0.new_empty(h0.shape), c0.new_empty(c0.shape)
    _, back = columns(feed, x)
    run(
        _memory_backward,
        tasks.number,
        x.numel(),
        tuple(tasks),
        back,
        *map(array, (x, params, kept, h, c)),
        *(array(grad, x) for grad in grads[:3]),
        *map(array, (g_x, g_params, g_h0, g_c0)),
        _numbers(form),
    )
    if grads[1] is not None:
        g_c0 += grads[1][layout.num_rows :]
    g_feed = None if feed is None else g_x[:, : len(feed)].t() @ layout.before(h, h0)
    return [g_x, g_params.sum(0), g_feed, g_h0, g_c0]
