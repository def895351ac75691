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
from pyg_kernels.ops.scan.maximum.definition import Form

_READOUTS = ("c", "z", "sum")
_C, _Z, _SUM = range(3)
_WIDTH = 128  # channels of a task, at most


@inlined
def _share(task, texts, width, channels):
    """The text of a task, its first channel, and how many it has."""
    first = task // texts * width
    return task % texts, first, min(width, channels - first)


@inlined
def _copy(source, out):
    for k in range(out.size):
        out[k] = source[k]


@inlined
def _fill(out, value):
    for k in range(out.size):
        out[k] = value


@inlined
def _add(source, out):
    for k in range(out.size):
        out[k] += source[k]


@inlined
def _fill_weight(decay, row, first, weight):
    """The decay at a token."""
    now = decay[row]
    if now.size == 1:
        _fill(weight, now[0])
    else:
        _copy(now[first:], weight)


@inlined
def _stays(kept, now):
    """Whether the earlier value stays the largest; NaN stays."""
    return (kept >= now) | (kept != kept)


@inlined
def _read_out(readout, states, z, out):
    """The state that is put out, from those of orders 1, ..., n."""
    if readout == _Z:
        _copy(z, out)
        return
    _copy(states[-1], out)
    if readout == _SUM:
        for j in range(len(states) - 1):
            _add(states[j], out)


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
def _first_products(initial, text, first, states):
    """Products of no factors are 1."""
    states[:, :, 1:] = 0
    states[:, :, 0] = 1
    for side in range(2):
        for j in range(initial.shape[1]):
            _copy(initial[side, j, text, first:], states[0, side, j + 1])


@inlined
def _products(x_row, first, weight, read, states, old, new, z):
    """The extremes after a token from those before it; at last z_n, if it is there.

    Args:
        read: The number of tokens before.
        states: By token, by largest and smallest, by order from 0.
        old, new: Their places in `states`.
        z: The largest and the smallest that end there, (2, width).
    """
    orders, width = states.shape[2] - 1, states.shape[3]
    channels = x_row.size // orders
    high, low, zero = z[0], z[1], z.dtype.type(0)
    for j in range(1, min(orders, read + 1) + 1):
        p = x_row[(j - 1) * channels + first :]
        up_high, up_low = states[old, 0, j - 1], states[old, 1, j - 1]
        for k in range(width):
            factor, most, least = p[k], up_high[k], up_low[k]
            swaps = factor < zero
            high[k] = factor * (least if swaps else most)
            low[k] = factor * (most if swaps else least)
        now_high, now_low = states[new, 0, j], states[new, 1, j]
        if read < j:
            _copy(high, now_high)
            _copy(low, now_low)
            continue
        was_high, was_low = states[old, 0, j], states[old, 1, j]
        for k in range(width):
            kept, value = weight[k] * was_high[k], high[k]
            now_high[k] = kept if _stays(kept, value) else value
            kept, value = weight[k] * was_low[k], low[k]
            now_low[k] = kept if _stays(-kept, -value) else value


@inlined
def _products_back(x_row, g_row, first, weight, read, states, t, readout, g_out, g, g_z, g_weight):
    """The derivative of `_products` and `_read_out`; g becomes that of the states before."""
    orders, width = states.shape[2] - 1, states.shape[3]
    channels = x_row.size // orders
    z_high, z_low, zero = g_z[0], g_z[1], g_z.dtype.type(0)
    for j in range(1, orders + 1):
        at = (j - 1) * channels + first
        p, g_p = x_row[at : at + width], g_row[at : at + width]
        g_high, g_low = g[0, j], g[1, j]
        if read + 1 < j:
            for out in (g_p, g_high, g_low):
                _fill(out, 0)
            continue
        if readout == _SUM or (readout == _C and j == orders):
            _add(g_out, g_high)
        if read < j:
            _copy(g_high, z_high)
            _copy(g_low, z_low)
            _fill(g_high, 0)
            _fill(g_low, 0)
        else:
            _part(weight, states[t, 0, j], states[t + 1, 0, j], g_high, z_high, g_weight)
            _part(weight, states[t, 1, j], states[t + 1, 1, j], g_low, z_low, g_weight)
        if readout == _Z and j == orders:
            _add(g_out, z_high)
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
def _product_forward(
    first_task, last_task, x, decay, initial, seen, start, length, stride, readout, width, h, end
):
    orders, channels = initial.shape[1], h.shape[1]
    for task in range(first_task, last_task):
        text, first, count = _share(task, seen.size, width, channels)
        states, z = np.empty((2, 2, orders + 1, count), x.dtype), np.zeros((2, count), x.dtype)
        weight = np.empty(count, x.dtype)
        _first_products(initial, text, first, states)
        for t in range(length[text]):
            row, read = start[text] + t * stride, seen[text] + t
            if t == 0 or decay.shape[0] > 1:
                _fill_weight(decay, row if decay.shape[0] > 1 else 0, first, weight)
            old, new = t % 2, (t + 1) % 2
            _products(x[row], first, weight, read, states, old, new, z)
            if read + 1 < orders:
                _fill(z[0], 0)
            _read_out(readout, states[new, 0, 1:], z[0], h[row, first : first + count])
        for side in range(2):
            for j in range(orders):
                last = states[length[text] % 2, side, j + 1]
                _copy(last, end[side, j, text, first : first + count])


@kernel
def _product_backward(
    first_task, last_task, x, decay, initial, seen, start, length, stride, readout, width, g_h,
    g_end, g_x, g_decay, g_initial, per_token,
):  # fmt: skip
    orders, channels = initial.shape[1], initial.shape[3]
    for task in range(first_task, last_task):
        text, first, count = _share(task, seen.size, width, channels)
        last, size = first + count, length[text]
        states = np.empty((size + 1, 2, orders + 1, count), x.dtype)
        g, g_z = np.zeros((2, orders + 1, count), x.dtype), np.empty((2, count), x.dtype)
        weight, g_weight = np.empty(count, x.dtype), np.zeros(count, x.dtype)
        _first_products(initial, text, first, states)
        _fill_weight(decay, 0, first, weight)
        for t in range(size):
            row = start[text] + t * stride
            if per_token:
                _fill_weight(decay, row, first, weight)
            _products(x[row], first, weight, seen[text] + t, states, t, t + 1, g_z)
        for side in range(2):
            for j in range(orders if g_end.size else 0):
                _copy(g_end[side, j, text, first:], g[side, j + 1])
        for t in range(size - 1, -1, -1):
            row, read = start[text] + t * stride, seen[text] + t
            if per_token:
                _fill_weight(decay, row, first, weight)
            g_out = g_h[row, first:last]
            _products_back(
                x[row], g_x[row], first, weight, read, states, t, readout, g_out, g, g_z, g_weight
            )
            if per_token:
                _copy(g_weight, g_decay[row, first:last])
                _fill(g_weight, 0)
        if not per_token:
            _copy(g_weight, g_decay[text, first:last])
        for side in range(2):
            for j in range(orders):
                _copy(g[side, j + 1], g_initial[side, j, text, first:last])


@inlined
def _fill_powers(weight, out):
    """The decay to the powers 0, 1, ...; 0 for subnormal ones, at which processors are slow."""
    tiny, zero = np.finfo(out.dtype).tiny, out.dtype.type(0)
    _fill(out[0], 1)
    for i in range(1, len(out)):
        before, now = out[i - 1], out[i]
        for k in range(now.size):
            power = before[k] * weight[k]
            now[k] = zero if power < tiny else power


@inlined
def _first_sums(x, table, text, s, known, row, first, sums):
    """The sums that start at s, at the first token after it that is read now."""
    for j in range(len(sums)):
        if s < known and s + j < known:
            _copy(table[j, text, s, first:], sums[j])
        elif j == 0:
            _copy(x[row, first:], sums[0])
        else:
            _fill(sums[j], -np.inf)


@inlined
def _decayed(x, z, weight, known, row, t, first, states, old, new):
    """c after a token from c before it and z."""
    orders, width = states.shape[1:]
    for j in range(orders):
        now, was = states[new, j], states[old, j]
        if j == 0:
            _copy(x[row, first:], now)
        else:
            _copy(z[row, j - 1, first:], now)
        if known + t > j:
            for k in range(width):
                kept, value = weight[k] * was[k], now[k]
                now[k] = kept if _stays(kept, value) else value


@inlined
def _offer(x, powers, sums, s, known, begin, stride, size, first, z, won):
    """Offers the tokens after s to the sums that start there, and those sums to the tokens."""
    orders, width = sums.shape
    channels, start = x.shape[1] // orders, np.int32(s)
    for t in range(max(0, s - known + 1), size):
        row, lag = begin + t * stride, known + t - s
        for j in range(min(orders - 1, lag), 0, -1):
            p, power = x[row][j * channels + first :], powers[lag - j]
            shorter, longer = sums[j - 1], sums[j]
            best, winner = (
                z[row, j - 1, first : first + width],
                won[row, j - 1, first : first + width],
            )
            for k in range(best.size):
                # What is stored is loaded first, so that vectors are stored whole.
                now, past, most, by = shorter[k] + p[k], longer[k], best[k], winner[k]
                score = power[k] * now
                better = (score > most) | (score != score)
                best[k] = score if better else most
                winner[k] = start if better else by
                longer[k] = past if _stays(past, now) else now


@kernel
def _sum_forward(
    first_task, last_task, x, decay, c, table, seen, start, length, stride, readout, width, h,
    grown, z, won,
):  # fmt: skip
    orders, channels = len(c), h.shape[1]
    for task in range(first_task, last_task):
        text, first, count = _share(task, seen.size, width, channels)
        last, known, size = first + count, seen[text], length[text]
        weight, sums = np.empty(count, x.dtype), np.empty((orders, count), x.dtype)
        powers = np.empty((known + size + 1, count), x.dtype)
        _fill_weight(decay, 0, first, weight)
        _fill_powers(weight, powers)
        for t in range(size):
            row = start[text] + t * stride
            for j in range(1, orders):
                _fill(z[row, j - 1, first:last], -np.inf if known + t >= j else 0)
                _fill(won[row, j - 1, first:last], 0)
        for s in range(known + size):
            begin = start[text] + (s - known) * stride
            _first_sums(x, table, text, s, known, begin, first, sums)
            _offer(x, powers, sums, s, known, start[text], stride, size, first, z, won)
            for j in range(min(orders, known + size - s)):
                _copy(sums[j], grown[j, text, s, first:last])
        states = np.empty((2, orders, count), x.dtype)
        for j in range(orders):
            _copy(c[j, text, first:], states[0, j])
        for t in range(size):
            row, new = start[text] + t * stride, (t + 1) % 2
            _decayed(x, z, weight, known, row, t, first, states, t % 2, new)
            out = h[row, first:last]
            if readout != _Z:
                _read_out(readout, states[new], weight, out)
            elif orders == 1:
                _copy(x[row, first:], out)
            else:
                _copy(z[row, orders - 2, first:], out)


@inlined
def _grow(x, powers, sums, s, known, begin, stride, until, first, top, won, g_z, grew, g_weight):
    """When the sums of orders up to `top` grew in `_offer`; adds to the decay's gradient."""
    orders, width = sums.shape
    channels, start, zero = x.shape[1] // orders, np.int32(s), x.dtype.type(0)
    for t in range(max(0, s - known + 1), until + 1):
        row, lag = begin + t * stride, known + t - s
        for j in range(min(orders - 1, lag), 0, -1):
            p, power = x[row][j * channels + first :], powers[max(lag - j - 1, 0)]
            shorter, longer, grows = sums[j - 1], sums[j], grew[t, j]
            winner, given = won[row, j - 1, first : first + width], g_z[t, j]
            gap = x.dtype.type(lag - j)
            for k in range(g_weight.size):
                slope = given[k] * gap * power[k] * (shorter[k] + p[k])
                g_weight[k] += slope if winner[k] == start else zero
            if j < top:
                for k in range(longer.size):
                    now, past = shorter[k] + p[k], longer[k]
                    stays = _stays(past, now)
                    grows[k] = not stays
                    longer[k] = past if stays else now


@inlined
def _offer_back(powers, s, known, begin, stride, until, first, won, g_z, grew, g, g_x):
    """The derivative of `_offer`; g becomes that of the sums at the first token."""
    orders, width = g.shape
    channels, start, zero = g_x.shape[1] // orders, np.int32(s), g.dtype.type(0)
    for t in range(until, max(0, s - known + 1) - 1, -1):
        row, lag = begin + t * stride, known + t - s
        for j in range(1, min(orders - 1, lag) + 1):
            g_p, power = g_x[row][j * channels + first :], powers[lag - j]
            g_shorter, g_longer, grows = g[j - 1], g[j], grew[t, j]
            winner, given = won[row, j - 1, first : first + width], g_z[t, j]
            for k in range(g_shorter.size):
                share, passed, grown = given[k] * power[k], g_longer[k], grows[k]
                share = share if winner[k] == start else zero
                share += passed if grown else zero
                g_longer[k] = zero if grown else passed
                g_p[k] += share
                g_shorter[k] += share


@kernel
def _sum_backward(
    first_task, last_task, x, decay, c, table, seen, start, length, stride, readout, width, z, won,
    g_h, g_grown, g_x, g_decay, g_c, g_table,
):  # fmt: skip
    orders, channels = len(c), c.shape[2]
    top = orders if g_grown.size else orders - 1
    for task in range(first_task, last_task):
        text, first, count = _share(task, seen.size, width, channels)
        last, known, size = first + count, seen[text], length[text]
        weight, g_weight = np.empty(count, x.dtype), np.zeros(count, x.dtype)
        powers = np.empty((known + size + 1, count), x.dtype)
        _fill_weight(decay, 0, first, weight)
        _fill_powers(weight, powers)
        # From the gradient of the states to those of z.
        states, g = np.empty((size + 1, orders, count), x.dtype), np.zeros((orders, count), x.dtype)
        g_z = np.zeros((size, orders, count), x.dtype)
        for j in range(orders):
            _copy(c[j, text, first:], states[0, j])
        for t in range(size):
            row = start[text] + t * stride
            _decayed(x, z, weight, known, row, t, first, states, t, t + 1)
        for t in range(size - 1, -1, -1):
            row = start[text] + t * stride
            for j in range(min(orders, known + t + 1)):
                if readout == _SUM or (readout == _C and j == orders - 1):
                    _add(g_h[row, first:last], g[j])
                if known + t > j:
                    _part(weight, states[t, j], states[t + 1, j], g[j], g_z[t, j], g_weight)
                else:
                    _copy(g[j], g_z[t, j])
                    _fill(g[j], 0)
            if readout == _Z and known + t + 1 >= orders:
                _add(g_h[row, first:last], g_z[t, orders - 1])
            _copy(g_z[t, 0], g_x[row, first:last])
        for j in range(orders):
            _copy(g[j], g_c[j, text, first:last])
        # The last token at which sums from each start got a gradient.
        until = np.full(known + size, -1 if top < orders else size - 1)
        for t in range(size if top < orders else 0):
            row = start[text] + t * stride
            for j in range(1, orders):
                winner, given = won[row, j - 1, first:last], g_z[t, j]
                for k in range(count):
                    if given[k] != 0:
                        until[winner[k]] = t
        sums = np.empty((orders, count), x.dtype)
        grew = np.zeros((size, orders, count), np.bool_)
        for s in range(known + size):
            begin = start[text] + (s - known) * stride
            _first_sums(x, table, text, s, known, begin, first, sums)
            _grow(
                x, powers, sums, s, known, start[text], stride, until[s], first, top, won, g_z,
                grew, g_weight,
            )  # fmt: skip
            for j in range(orders):
                if g_grown.size and s + j < known + size:
                    _copy(g_grown[j, text, s, first:], g[j])
                else:
                    _fill(g[j], 0)
            _offer_back(
                powers, s, known, start[text], stride, until[s], first, won, g_z, grew, g, g_x
            )
            if s >= known:
                _add(g[0], g_x[begin, first:last])
            else:
                for j in range(min(orders, known - s)):
                    _copy(g[j], g_table[j, text, s, first:last])
        _copy(g_weight, g_decay[text, first:last])


def _shared(layout: Layout, channels: int) -> tuple[int, int]:
    """The number of tasks, and the channels of one."""
    blocks, threads = max(1, -(-channels // _WIDTH)), torch.get_num_threads()
    while layout.num_texts * blocks < threads and channels >= 64 * blocks:
        blocks *= 2
    return layout.num_texts * blocks, max(1, -(-channels // blocks))


def _arguments(
    layout: Layout, form: Form, width: int, tensors: Sequence[Tensor]
) -> tuple[Any, ...]:
    """What all kernels take first; `tensors` are x, the decay, and what was carried."""
    x, decay, *others = tensors
    weights = array(decay if decay.dim() == 2 else decay.unsqueeze(0))
    layout.check()
    places = (array(layout.start), array(layout.length), layout.stride)
    return array(x), weights, *map(array, others), *places, _READOUTS.index(form.readout), width


def forward(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """See the definitions; of sums also z_2, ..., z_n, and where what won there starts."""
    if form.combine == "mul":
        return _forward_of_products(form, layout, tensors)
    return _forward_of_sums(form, layout, tensors)


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    x, decay, *carried, _ = tensors
    channels = carried[0].size(-1)
    g_h = x.new_zeros(layout.num_rows, channels) if grads[0] is None else grads[0]
    # One row a token, or one a text.
    g_decay = decay.new_zeros(layout.num_rows if decay.dim() == 2 else layout.num_texts, channels)
    found = [x.new_zeros(x.shape), g_decay, *(t.new_zeros(t.shape) for t in carried)]
    tasks, width = _shared(layout, channels)
    arguments = _arguments(layout, form, width, tensors)
    given = (array(g_h), array(grads[1], x, 4), *map(array, found))
    if form.combine == "mul":
        run(_product_backward, tasks, x.numel(), *arguments, *given, decay.dim() == 2)
    else:
        work = x.numel() * (carried[1].size(2) + layout.num_steps)
        run(_sum_backward, tasks, work, *arguments, *map(array, outputs), *given)
    return [found[0], g_decay.sum_to_size(decay.shape), *found[2:], None]


def _forward_of_products(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, initial, _ = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h, end = new(layout.num_rows, initial.size(3)), initial.new_empty(initial.shape)
    tasks, width = _shared(layout, h.size(1))
    arguments = _arguments(layout, form, width, tensors)
    run(_product_forward, tasks, x.numel(), *arguments, array(h), array(end))
    return h, end


def _forward_of_sums(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, _, table, _ = tensors
    order, texts, size, channels = table.shape
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h, z = new(layout.num_rows, channels), new(layout.num_rows, order - 1, channels)
    won = z.new_empty(z.shape, dtype=torch.int32)
    grown = x.new_zeros(order, texts, size + layout.num_steps, channels)
    tasks, width = _shared(layout, channels)
    arguments = _arguments(layout, form, width, tensors)
    work = x.numel() * (size + layout.num_steps)
    run(_sum_forward, tasks, work, *arguments, *map(array, (h, grown, z, won)))
    return h, grown, z, won
