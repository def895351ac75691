"""Memory cells on CPU: their step, the derivative of their step, and the kernels around them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, overloads, run
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.gates import (
    ACTIVATIONS,
    SIGMOID,
    activate,
    activate_back,
    add,
    arrive,
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
from pyg_kernels.ops.scan.memory.definition import Form


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
    """The arrays of memory cells; `fed` are the products with the outputs before, (N, R)."""

    x: Any
    params: Any
    fed: Any
    h: Any
    c: Any
    numbers: Any


class _MemoryBack(NamedTuple):
    """The same for the backward: the gradients that are given, and those that are found."""

    cell: Any
    g_out: Any
    g_states: Any
    g: Any
    g_x: Any
    g_params: Any


@overloads(step)
def _(cell, tokens, first, last, feed):
    return _memory_step if getattr(cell, "instance_class", None) is _Memory else None


@overloads(step_back)
def _(cell, tokens, first, last, g_feed, g_h):
    return _memory_back if getattr(cell, "instance_class", None) is _MemoryBack else None


@inlined
def _rows(params):
    """The rows that a token is read into, with constants where there are no gates.

    They are the output gate, the factor of what is new, that of the memory before, what is new,
    the memory before, and the memory as the output gate finds it.
    """
    rows = np.zeros((6, params.shape[1]), params.dtype)
    for k in range(params.shape[1]):
        rows[0, k], rows[1, k], rows[2, k] = 1, params[-2, k], params[-1, k]
    return rows


@inlined
def _open(cell, gate, act, params, row, first, out):
    """One of the gates, or the candidate; `out` stays as it is where there is none."""
    if gate >= 0:
        at = gate * cell.c.shape[1] + first
        open_gate(act, cell.x, cell.fed, row, at, params[gate], out)


@inlined
def _read(cell, params, row, before, first, rows):
    """Fills all of the rows but the last."""
    numbers = cell.numbers
    share, keep, past = rows[1], rows[2], rows[4]
    _open(cell, numbers.output, SIGMOID, params, row, first, rows[0])
    _open(cell, numbers.input, SIGMOID, params, row, first, share)
    _open(cell, numbers.forget, SIGMOID, params, row, first, keep)
    _open(cell, numbers.gates - 1, numbers.candidate, params, row, first, rows[3])
    if numbers.coupled:
        for k in range(share.size):
            share[k] = share.dtype.type(1) - keep[k]
    if numbers.memory:
        memory = cell.c[before][first:]
        for k in range(past.size):
            past[k] = memory[k]
        activate(numbers.carried, past)


@inlined
def _read_out(numbers, params, memory, out):
    """The memory, normalized and activated; its mean and the inverse of its deviation."""
    size = out.dtype.type(out.size)
    mean, width = size - size, size / size
    if numbers.norm:
        scale, shift, square = params[-4], params[-3], mean
        for k in range(out.size):
            mean += memory[k]
        mean /= size
        for k in range(out.size):
            square += (memory[k] - mean) * (memory[k] - mean)
        width /= np.sqrt(square / size + out.dtype.type(numbers.eps))
        for k in range(out.size):
            out[k] = (memory[k] - mean) * width * scale[k] + shift[k]
    else:
        for k in range(out.size):
            out[k] = memory[k]
    activate(numbers.out, out)
    return mean, width


@inlined
def _norm_back(params, g_params, memory, mean, width, g):
    """Through layer normalization."""
    scale, g_scale, g_shift = params[-4], g_params[-4], g_params[-3]
    size = g.dtype.type(g.size)
    total, slope = size - size, size - size
    for k in range(g.size):
        value = (memory[k] - mean) * width
        g_scale[k] += g[k] * value
        g_shift[k] += g[k]
        g[k] *= scale[k]
        total += g[k]
        slope += g[k] * value
    total, slope = total / size, slope / size
    for k in range(g.size):
        g[k] = width * (g[k] - total - (memory[k] - mean) * width * slope)


def _memory_step(cell, tokens, first, last, feed):
    params = cell.params[:, first:last].copy()
    rows = _rows(params)
    output, share, keep, new, past, y = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    keep_products(tokens, feed, cell.fed)
    for m in range(tokens.row.size):
        row = tokens.row[m]
        _read(cell, params, row, tokens.before[m], first, rows)
        memory, out = cell.c[row][first:last], cell.h[row][first:last]
        for k in range(y.size):
            memory[k] = share[k] * new[k] + keep[k] * past[k]
        _read_out(cell.numbers, params, memory, y)
        for k in range(y.size):
            out[k] = output[k] * y[k]


@inlined
def _open_back(cell, gate, constant, act, value, grad, row, first):
    """From the gradient of a gate's values to its logits, or to the constant in its place."""
    if gate >= 0:
        at = gate * cell.g_params.shape[1] + first
        open_gate_back(act, value, grad, cell.g_x, row, at, cell.g_params[gate][first:])
    else:
        add(grad, cell.g_params[constant][first:])


def _memory_back(cell, tokens, first, last, g_feed, g_h):
    inner, numbers = cell.cell, cell.cell.numbers
    params = inner.params[:, first:last].copy()
    rows, grads = _rows(params), np.empty((3, last - first), params.dtype)
    output, share, keep, new, past, y = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    g_y, g_keep, grad = grads[0], grads[1], grads[2]
    for m in range(tokens.row.size):
        row, slot = tokens.row[m], tokens.slot[m]
        _read(inner, params, row, tokens.before[m], first, rows)
        memory, g = inner.c[row][first:last], cell.g[slot]
        mean, width = _read_out(numbers, params, memory, y)
        arrive(cell.g_out[row][first:last], g_h[slot][first:last], g_y)
        if numbers.output >= 0:
            for k in range(y.size):
                grad[k] = g_y[k] * y[k]
                g_y[k] *= output[k]
            _open_back(cell, numbers.output, 0, SIGMOID, output, grad, row, first)
        activate_back(numbers.out, y, g_y)
        if numbers.norm:
            _norm_back(params, cell.g_params, memory, mean, width, g_y)
        add(g_y, g)
        add(cell.g_states[row][first:last], g)
        for k in range(y.size):
            grad[k] = g[k] * share[k]
        _open_back(cell, numbers.gates - 1, 0, numbers.candidate, new, grad, row, first)
        for k in range(y.size):
            # Of the new; the candidate's own gradient is made already.
            grad[k] = g[k] * new[k]
            g_keep[k] = g[k] * past[k]
            g[k] *= keep[k]
        if numbers.coupled:
            for k in range(y.size):
                g_keep[k] -= grad[k]
        else:
            _open_back(cell, numbers.input, -2, SIGMOID, share, grad, row, first)
        _open_back(cell, numbers.forget, -1, SIGMOID, keep, g_keep, row, first)
        if numbers.memory:
            activate_back(numbers.carried, past, g)
        else:
            for k in range(y.size):
                g[k] = y.dtype.type(0)
    give_products(tokens, cell.g_x, g_feed)


@kernel
def _memory_forward(first_task, last_task, tasks, across, x, params, fed, h0, h, c, numbers):
    order, start, length, stride, parts, blocks = tasks
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, parts, blocks, h.shape[1])
        cell, mask = _Memory(x, params, fed, h, c, numbers), across[:0]
        forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h)


@kernel
def _memory_backward(
    first_task, last_task, tasks, back, x, params, fed, h, c, g_out, g_states, g_end, g_x,
    g_params, g_h0, g_c0, numbers,
):  # fmt: skip
    order, start, length, stride, parts, blocks = tasks
    rows, channels = h.shape
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, order, parts, blocks, channels)
        g = np.zeros((texts.size, last - first), h.dtype)
        g_h, mask = np.zeros((texts.size, channels), h.dtype), back[:0]
        for i in range(texts.size):
            add(g_end[texts[i]][first:last], g[i])
        inner = _Memory(x, params, fed, h, c, numbers)
        cell = _MemoryBack(inner, g_out, g_states, g, g_x, g_params[task // blocks])
        backward_loop(cell, texts, start, length, stride, first, last, back, mask, rows, g_h)
        for i in range(texts.size):
            for k in range(first, last):
                g_h0[texts[i], k] = g_h[i, k]
                g_c0[texts[i], k] = g[i, k - first]


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
    """h and c of every token, c0 below, c after each text, and what was fed back."""
    x, params, feed, h0, c0 = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h = new(layout.num_rows, c0.size(1))
    c = new(layout.num_rows + layout.num_texts, c0.size(1))
    c[layout.num_rows :] = c0
    fed = new(layout.num_rows, len(feed)) if feed is not None else x.new_empty(0, 0)
    tasks = Tasks.of(layout, c0.size(1), feed, not form.norm)
    across, _ = columns(feed, x)
    arrays = map(array, (x, params, fed, h0, h, c))
    run(_memory_forward, tasks.number, x.numel(), tuple(tasks), across, *arrays, _numbers(form))
    return h, c, layout.last(c[: x.size(0)], c0).clone(), fed


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
    h, c, _, fed = outputs
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
        *map(array, (x, params, fed, h, c)),
        *(array(grad, x) for grad in grads[:3]),
        *map(array, (g_x, g_params, g_h0, g_c0)),
        _numbers(form),
    )
    if grads[1] is not None:
        g_c0 += grads[1][layout.num_rows :]
    g_feed = None if feed is None else g_x[:, : len(feed)].t() @ layout.before(h, h0)
    return [g_x, g_params.sum(0), g_feed, g_h0, g_c0]
