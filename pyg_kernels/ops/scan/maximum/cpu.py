"""The largest decayed sums on CPU: kernels over texts and blocks of channels."""

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
from pyg_kernels.ops.scan.maximum.definition import Form


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
def _stays(kept, now):
    """Whether the earlier value stays the largest; NaN stays."""
    return (kept >= now) | (kept != kept)


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
def _forward(first_task, last_task, tasks, x, decay, table, seen, z, won, grown):
    texts, start, length, stride, parts, blocks = tasks
    order, channels = grown.shape[0], grown.shape[3]
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, parts, blocks, channels)
        text = own[0]
        known, size, count = seen[text], length[text], last - first
        powers = _powers(decay, first, count, known + size + 1)
        sums = np.empty((order, count), x.dtype)
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
def _backward(
    first_task, last_task, tasks, x, decay, table, seen, won, g_z, g_grown, g_x, g_decay, g_table
):
    texts, start, length, stride, parts, blocks = tasks
    order, channels = g_table.shape[0], g_table.shape[3]
    top = order if g_grown.size else order - 1
    for task in range(first_task, last_task):
        own, first, last = share_of(task, texts, parts, blocks, channels)
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


def forward(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """See the definition; also where what won at each token starts."""
    x, _, table, _ = tensors
    order, texts, size, channels = table.shape
    z = x.new_full((x.size(0), order - 1, channels), -torch.inf)
    if layout.form == "padded":
        z.masked_fill_(~layout.is_token().unsqueeze(2), 0)
    won = z.new_zeros(z.shape, dtype=torch.int32)
    grown = x.new_zeros(order, texts, size + layout.num_steps, channels)
    tasks = Tasks.of(layout, channels, None)
    work = x.numel() * (size + layout.num_steps)
    run(_forward, tasks.number, work, tuple(tasks), *map(array, (*tensors, z, won, grown)))
    return z, grown, won


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
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
    run(_backward, tasks.number, work, tuple(tasks), *arrays, array(g_grown, x, 4), *found)
    return [g_x, g_decay.sum_to_size(decay.shape), g_table, None]
