"""The maxima over n-grams on CPU: kernels over texts and blocks of channels."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.loop import Tasks, share_of
from pyg_kernels.ops.scan.maximum.definition import ProductForm, SumForm
from pyg_kernels.ops.scan.rows import add, copy

_READOUTS = ("c", "z", "sum")
_C, _Z, _SUM = range(3)


@inlined
def _fill(out, value):
    for k in range(out.size):
        out[k] = value


@inlined
def _stays(kept, now):
    """Whether the earlier value stays the largest; NaN stays."""
    return (kept >= now) | (kept != kept)


@inlined
def _decay_at(decay, row, first, weight):
    """The decay at a token, of (1, 1), (1, D), (N, 1) or (N, D)."""
    now = decay[row if len(decay) > 1 else 0]
    if now.size == 1:
        _fill(weight, now[0])
    else:
        copy(now[first:], weight)


@inlined
def _first_products(initial, text, first, states):
    """Products of no factors are 1."""
    states[:, :, 1:] = 0
    states[:, :, 0] = 1
    for side in range(2):
        for j in range(initial.shape[1]):
            copy(initial[side, j, text, first:], states[0, side, j + 1])


@inlined
def _products(x_row, first, weight, read, states, old, new, z):
    """The extremes after a token from those before it; at last z_n, if it is there.

    Args:
        read: The number of tokens before.
        states: By token, by largest and smallest, by order from 0.
        old, new: Their places in `states`.
        z: The largest and the smallest that end there, (2, width).
    """
    order, width = states.shape[2] - 1, states.shape[3]
    channels = x_row.size // order
    high, low, zero = z[0], z[1], z.dtype.type(0)
    for j in range(1, min(order, read + 1) + 1):
        p = x_row[(j - 1) * channels + first :]
        up_high, up_low = states[old, 0, j - 1], states[old, 1, j - 1]
        for k in range(width):
            factor, most, least = p[k], up_high[k], up_low[k]
            swaps = factor < zero
            high[k] = factor * (least if swaps else most)
            low[k] = factor * (most if swaps else least)
        now_high, now_low = states[new, 0, j], states[new, 1, j]
        if read < j:
            copy(high, now_high)
            copy(low, now_low)
            continue
        was_high, was_low = states[old, 0, j], states[old, 1, j]
        for k in range(width):
            kept, value = weight[k] * was_high[k], high[k]
            now_high[k] = kept if _stays(kept, value) else value
            kept, value = weight[k] * was_low[k], low[k]
            now_low[k] = kept if _stays(-kept, -value) else value


@kernel
def _product_forward(first_task, last_task, tasks, x, decay, initial, seen, readout, h, end):
    texts, start, length, stride, parts, blocks = tasks
    order, channels = initial.shape[1], h.shape[1]
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, length, parts, blocks, channels)
        text, count = own[0], last - first
        states, z = np.empty((2, 2, order + 1, count), x.dtype), np.empty((2, count), x.dtype)
        weight = np.empty(count, x.dtype)
        _first_products(initial, text, first, states)
        for t in range(length[text]):
            row, read, new = start[text] + t * stride, seen[text] + t, (t + 1) % 2
            _decay_at(decay, row, first, weight)
            _products(x[row], first, weight, read, states, t % 2, new, z)
            if read + 1 < order:
                _fill(z[0], 0)
            out = h[row, first:last]
            copy(z[0] if readout == _Z else states[new, 0, order], out)
            for j in range(1, order if readout == _SUM else 0):
                add(states[new, 0, j], out)
        for side in range(2):
            for j in range(order):
                final = states[length[text] % 2, side, j + 1]
                copy(final, end[side, j, text, first:])


@inlined
def _part(weight, was, now, g, g_z, g_weight):
    """Parts the gradient of c between that of c before, which it leaves in g, and that of z."""
    zero = g.dtype.type(0)
    for k in range(g.size):
        kept = weight[k] * was[k]
        stays = (kept == now[k]) | (kept != kept)
        given = g[k]
        share = given if stays else zero
        g_z[k] = zero if stays else given
        g_weight[k] += share * was[k]
        g[k] = share * weight[k]


@inlined
def _products_back(x_row, g_row, first, weight, read, states, t, readout, g_out, g, g_z, g_weight):
    """The derivative of `_products` and what is read out; g becomes that of the states before."""
    order, width = states.shape[2] - 1, states.shape[3]
    channels = x_row.size // order
    z_high, z_low, zero = g_z[0], g_z[1], g_z.dtype.type(0)
    for j in range(1, order + 1):
        at = (j - 1) * channels + first
        p, g_p = x_row[at : at + width], g_row[at : at + width]
        g_high, g_low = g[0, j], g[1, j]
        if read + 1 < j:
            for out in (g_p, g_high, g_low):
                _fill(out, 0)
            continue
        if readout == _SUM or (readout == _C and j == order):
            add(g_out, g_high)
        if read < j:
            copy(g_high, z_high)
            copy(g_low, z_low)
            _fill(g_high, 0)
            _fill(g_low, 0)
        else:
            _part(weight, states[t, 0, j], states[t + 1, 0, j], g_high, z_high, g_weight)
            _part(weight, states[t, 1, j], states[t + 1, 1, j], g_low, z_low, g_weight)
        if readout == _Z and j == order:
            add(g_out, z_high)
        up_high, up_low = states[t, 0, j - 1], states[t, 1, j - 1]
        down_high, down_low = g[0, j - 1], g[1, j - 1]
        for k in range(width):
            factor, most, least = p[k], z_high[k], z_low[k]
            swaps = factor < zero
            of_high, of_low = least if swaps else most, most if swaps else least
            g_p[k] = of_high * up_high[k] + of_low * up_low[k]
            down_high[k] += of_high * factor
            down_low[k] += of_low * factor


@kernel
def _product_backward(
    first_task, last_task, tasks, x, decay, initial, seen, readout, g_h, g_end, g_x, g_decay,
    g_initial,
):  # fmt: skip
    texts, start, length, stride, parts, blocks = tasks
    order, channels = initial.shape[1], initial.shape[3]
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, length, parts, blocks, channels)
        text, count, size = own[0], last - first, length[own[0]]
        states = np.empty((size + 1, 2, order + 1, count), x.dtype)
        g, g_z = np.zeros((2, order + 1, count), x.dtype), np.empty((2, count), x.dtype)
        weight = np.empty(count, x.dtype)
        _first_products(initial, text, first, states)
        for t in range(size):
            row = start[text] + t * stride
            _decay_at(decay, row, first, weight)
            _products(x[row], first, weight, seen[text] + t, states, t, t + 1, g_z)
        for side in range(2):
            for j in range(order if g_end.size else 0):
                copy(g_end[side, j, text, first:], g[side, j + 1])
        for t in range(size - 1, -1, -1):
            row, read = start[text] + t * stride, seen[text] + t
            _decay_at(decay, row, first, weight)
            to_decay = g_decay[row if len(g_decay) == len(x) else text, first:last]
            _products_back(
                x[row], g_x[row], first, weight, read, states, t, readout, g_h[row, first:last],
                g, g_z, to_decay,
            )  # fmt: skip
        for side in range(2):
            for j in range(order):
                copy(g[side, j + 1], g_initial[side, j, text, first:last])


@inlined
def _powers(decay, first, count, size):
    """The decay to the powers 0, 1, ...; 0 for subnormal ones, at which processors are slow."""
    out = np.ones((size, count), decay.dtype)
    tiny, zero = np.finfo(decay.dtype).tiny, decay.dtype.type(0)
    for i in range(1, size):
        for k in range(count):
            power = out[i - 1, k] * decay[0 if decay.size == 1 else first + k]
            out[i, k] = zero if power < tiny else power
    return out


@inlined
def _first_sums(x, table, text, s, known, row, first, sums):
    """The sums that start at s, at the first token after it that is read now."""
    order, count = sums.shape
    for j in range(order):
        for k in range(count):
            if s < known and s + j < known:
                sums[j, k] = table[j, text, s, first + k]
            else:
                sums[j, k] = x[row, first + k] if j == 0 else -np.inf


@inlined
def _offer(x, powers, sums, s, known, begin, stride, size, first, z, won):
    """Offers the tokens after s to the sums that start there, and those sums to the tokens."""
    order, count = sums.shape
    channels, start = x.shape[1] // order, np.int32(s)
    for t in range(max(0, s - known + 1), size):
        row, lag = begin + t * stride, known + t - s
        for j in range(min(order - 1, lag), 0, -1):
            p, power = x[row][j * channels + first :], powers[lag - j]
            shorter, longer = sums[j - 1], sums[j]
            best = z[row, j - 1, first : first + count]
            winner = won[row, j - 1, first : first + count]
            for k in range(best.size):
                # What is stored is loaded first, so that vectors are stored whole.
                now, past, most, by = shorter[k] + p[k], longer[k], best[k], winner[k]
                score = power[k] * now
                better = (score > most) | (score != score)
                best[k] = score if better else most
                winner[k] = start if better else by
                longer[k] = past if _stays(past, now) else now


@kernel
def _sum_forward(first_task, last_task, tasks, x, decay, table, seen, z, won, grown):
    texts, start, length, stride, parts, blocks = tasks
    order, channels = grown.shape[0], grown.shape[3]
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, length, parts, blocks, channels)
        text = own[0]
        known, size, count = seen[text], length[text], last - first
        powers = _powers(decay, first, count, known + size + 1)
        sums = np.empty((order, count), x.dtype)
        for t in range(size):
            for j in range(1, min(order, known + t + 1)):
                _fill(z[start[text] + t * stride, j - 1, first:last], -np.inf)
        for s in range(known + size):
            row = start[text] + (s - known) * stride
            _first_sums(x, table, text, s, known, row, first, sums)
            _offer(x, powers, sums, s, known, start[text], stride, size, first, z, won)
            for j in range(min(order, known + size - s)):
                for k in range(count):
                    grown[j, text, s, first + k] = sums[j, k]


@inlined
def _grow(x, powers, sums, s, known, begin, stride, until, first, top, won, g_z, grew, g_decay):
    """When the sums of orders up to `top` grew in `_offer`; adds to the decay's gradient."""
    order, count = sums.shape
    channels, start, zero = x.shape[1] // order, np.int32(s), x.dtype.type(0)
    for t in range(max(0, s - known + 1), until + 1):
        row, lag = begin + t * stride, known + t - s
        for j in range(min(order - 1, lag), 0, -1):
            p, power = x[row][j * channels + first :], powers[max(lag - j - 1, 0)]
            shorter, longer, grows = sums[j - 1], sums[j], grew[t, j]
            winner, given = won[row, j - 1][first:], g_z[row, j - 1][first:]
            gap = x.dtype.type(lag - j)
            for k in range(count):
                slope = given[k] * gap * power[k] * (shorter[k] + p[k])
                g_decay[k] += slope if winner[k] == start else zero
            if j < top:
                for k in range(count):
                    now, past = shorter[k] + p[k], longer[k]
                    stays = _stays(past, now)
                    grows[k] = not stays
                    longer[k] = past if stays else now


@inlined
def _offer_back(powers, s, known, begin, stride, until, first, won, g_z, grew, g, g_x):
    """The derivative of `_offer`; g becomes that of the sums at the first token."""
    order, count = g.shape
    channels, start, zero = g_x.shape[1] // order, np.int32(s), g.dtype.type(0)
    for t in range(until, max(0, s - known + 1) - 1, -1):
        row, lag = begin + t * stride, known + t - s
        for j in range(1, min(order - 1, lag) + 1):
            g_p, power = g_x[row][j * channels + first :], powers[lag - j]
            g_shorter, g_longer, grows = g[j - 1], g[j], grew[t, j]
            winner, given = won[row, j - 1][first:], g_z[row, j - 1][first:]
            for k in range(count):
                share, passed, grown = given[k] * power[k], g_longer[k], grows[k]
                share = share if winner[k] == start else zero
                share += passed if grown else zero
                g_longer[k] = zero if grown else passed
                g_p[k] += share
                g_shorter[k] += share


@inlined
def _last_gains(begin, stride, size, first, count, won, g_z, until):
    """The last token at which sums from each start got a gradient."""
    for t in range(size):
        row = begin + t * stride
        for j in range(g_z.shape[1]):
            for k in range(first, first + count):
                if g_z[row, j, k] != 0:
                    until[won[row, j, k]] = t


@kernel
def _sum_backward(
    first_task, last_task, tasks, x, decay, table, seen, won, g_z, g_grown, g_x, g_decay, g_table
):
    texts, start, length, stride, parts, blocks = tasks
    order, channels = g_table.shape[0], g_table.shape[3]
    top = order if g_grown.size else order - 1
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, length, parts, blocks, channels)
        text = own[0]
        known, size, count, begin = seen[text], length[text], last - first, start[text]
        powers = _powers(decay, first, count, known + size + 1)
        until = np.full(known + size, size - 1 if g_grown.size else -1)
        if not g_grown.size:
            _last_gains(begin, stride, size, first, count, won, g_z, until)
        sums, g = np.empty((order, count), x.dtype), np.empty((order, count), x.dtype)
        grew = np.zeros((size, order, count), np.bool_)
        for s in range(known + size):
            row, end = begin + (s - known) * stride, until[s]
            _first_sums(x, table, text, s, known, row, first, sums)
            _grow(
                x, powers, sums, s, known, begin, stride, end, first, top, won, g_z, grew,
                g_decay[text][first:],
            )  # fmt: skip
            for j in range(order):
                given = g_grown.size and s + j < known + size
                for k in range(count):
                    g[j, k] = g_grown[j, text, s, first + k] if given else 0
            _offer_back(powers, s, known, begin, stride, end, first, won, g_z, grew, g, g_x)
            for k in range(count if s >= known else 0):
                g_x[row, first + k] += g[0, k]
            for j in range(min(order, known - s)):
                for k in range(count):
                    g_table[j, text, s, first + k] = g[j, k]


def forward(
    form: ProductForm | SumForm, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, ...]:
    """See the definitions; of sums also where what won at each token starts."""
    if isinstance(form, ProductForm):
        return _forward_of_products(form, layout, tensors)
    x, _, table, _ = tensors
    order, texts, size, channels = table.shape
    z = x.new_zeros(x.size(0), order - 1, channels)
    won = z.new_zeros(z.shape, dtype=torch.int32)
    grown = x.new_zeros(order, texts, size + layout.num_steps, channels)
    tasks = Tasks.of(layout, channels, None)
    work = x.numel() * (size + layout.num_steps)
    run(_sum_forward, tasks.number, work, tuple(tasks), *map(array, (*tensors, z, won, grown)))
    return z, grown, won


def backward(
    form: ProductForm | SumForm,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    if isinstance(form, ProductForm):
        return _backward_of_products(form, layout, tensors, grads)
    x, decay, table, _ = tensors
    (won,), (g_z, g_grown, *_) = outputs, grads
    _, texts, size, channels = table.shape
    g_z = x.new_zeros(won.shape) if g_z is None else g_z
    g_x, g_table = x.new_zeros(x.shape), table.new_zeros(table.shape)
    g_decay = decay.new_zeros(texts, channels)
    tasks = Tasks.of(layout, channels, None)
    work = x.numel() * (size + layout.num_steps)
    arrays = map(array, (*tensors, won, g_z))
    found = map(array, (g_x, g_decay, g_table))
    run(_sum_backward, tasks.number, work, tuple(tasks), *arrays, array(g_grown, x, 4), *found)
    return [g_x, g_decay.sum_to_size(decay.shape), g_table, None]


def _forward_of_products(
    form: ProductForm, layout: Layout, tensors: Sequence[Any]
) -> tuple[Tensor, ...]:
    x, _, initial, _ = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h, end = new(layout.num_rows, initial.size(3)), initial.new_empty(initial.shape)
    tasks = Tasks.of(layout, h.size(1), None)
    arguments = _arguments(tasks, form, tensors)
    run(_product_forward, tasks.number, x.numel(), *arguments, array(h), array(end))
    return h, end


def _backward_of_products(
    form: ProductForm, layout: Layout, tensors: Sequence[Any], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    x, decay, initial, _ = tensors
    channels = initial.size(3)
    g_h = x.new_zeros(layout.num_rows, channels) if grads[0] is None else grads[0]
    g_x, g_initial = x.new_zeros(x.shape), initial.new_empty(initial.shape)
    # One row a token, or one a text.
    g_decay = decay.new_zeros(layout.num_rows if decay.dim() == 2 else layout.num_texts, channels)
    tasks = Tasks.of(layout, channels, None)
    arguments = _arguments(tasks, form, tensors)
    given = array(g_h), array(grads[1], x, 4), *map(array, (g_x, g_decay, g_initial))
    run(_product_backward, tasks.number, x.numel(), *arguments, *given)
    return [g_x, g_decay.sum_to_size(decay.shape), g_initial, None]


def _arguments(tasks: Tasks, form: ProductForm, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """What both kernels of products take first."""
    x, decay, *carried = tensors
    decay = decay if decay.dim() == 2 else decay.unsqueeze(0)
    return tuple(tasks), *map(array, (x, decay, *carried)), _READOUTS.index(form.readout)
