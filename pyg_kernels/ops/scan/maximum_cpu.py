"""The largest sums over n-grams on CPU: a program that offers a token to the sums of one start.

The tokens of each largest sum are stored, so that its derivative is a sum over these tokens only.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run
from pyg_kernels.ops.expression import Row, apart, leaf
from pyg_kernels.ops.program import Program, call
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.loop import Tasks, copy, share_of
from pyg_kernels.ops.scan.maximum import _like

_TOKEN, _LAG, _START, _END, _SUMS = range(5)  # what a row belongs to; lags go from start to end


@cache
@apart
def _program(order: int, dtype: torch.dtype) -> Program:
    """Offers a token to the sums that start at an earlier one, and those sums to the token.

    `made` has the places of tokens 1 to j, after token 0, of a sum of order j + 1; -1 if in the
    table. `won` has those of tokens 1 to j - 1 of the sum that the token joins, and its start.
    """
    orders = range(1, order)
    pairs = [(j, i) for j in orders for i in range(1, j + 1)]

    def rows(index: int, of: Any, wide: bool = True) -> dict[Any, Any]:
        return {key: leaf(Row(index, wide)) for key in of}

    p, power, best = rows(_TOKEN, orders), rows(_LAG, orders), rows(_TOKEN, orders)
    sums, won, made = rows(_SUMS, range(order)), rows(_TOKEN, pairs), rows(_SUMS, pairs)
    lag, start, end = (rows(index, [0], wide=False)[0] for index in (_LAG, _START, _END))
    now = {j: sums[j - 1] + p[j] for j in orders}
    score = {j: power[j] * now[j] for j in orders}
    wins, stays = {}, {}
    for j in orders:
        wins[j] = (lag >= j) & ((start <= 0) | (score[j] > best[j]) | score[j].isnan())
        stays[j] = (lag < j) | (sums[j] >= now[j]) | sums[j].isnan()
    written = [(best[j], torch.where(wins[j], score[j], best[j])) for j in orders]
    written += [(sums[j], torch.where(stays[j], sums[j], now[j])) for j in orders]
    for j, i in pairs:
        first, last = (start, end) if i == j else (made[j - 1, i], made[j - 1, i])
        written.append((won[j, i], torch.where(wins[j], first, won[j, i])))
        written.append((made[j, i], torch.where(stays[j], made[j, i], last)))
    places = [row[pair] for pair in pairs for row in (won, made)]
    read = [*p.values(), *power.values(), *best.values(), *sums.values(), *places, lag, start, end]
    outputs: list[Any] = [(row.data, value) for row, value in written]
    return Program({"read": read}, {"written": outputs}, dtype)


@kernel
def _forward(first_task, last_task, tasks, program, rows, pool, sources, seen, grown):
    _, start, length, stride, _, _, _, _, _, _ = tasks
    order, _, starts, _ = grown.shape
    index = np.zeros(8, np.int64)
    for task in range(first_task, last_task):
        own, first, last = share_of(task, tasks)
        text = own[0]
        known, size = seen[text], length[text]
        for s in range(known + size):
            sums = grown[:, text, s, first:last]
            for j in range(order):
                sums[j] = -np.inf
                if sources[j, text, s] >= 0:
                    copy(pool[sources[j, text, s]][first:], sums[j])
            index[_START], index[_SUMS] = s, text * starts + s
            for t in range(max(0, s - known + 1), size if order > 1 else 0):
                index[_TOKEN], index[_END] = start[text] + t * stride, known + t
                index[_LAG] = known + t - s
                call(program, rows.ctypes.data, index.ctypes.data, first, last)
            sums[known + size - s :] = 0


@inlined
def _give(places, top, sources, begin, stride, s, k, g, pool, g_pool):
    """Adds a gradient to the parts of a sum, up to that of order `top`; returns their sum."""
    total, order = pool.dtype.type(0), len(sources)
    for i in range(top, -1, -1):
        place = int(places[i - 1, k]) if i else -1
        at = (begin + place * stride) * order + i if place >= 0 else sources[i, s]
        total += pool[at, k]
        g_pool[at, k] += g
        if place < 0:
            break
    return total


@kernel
def _backward(
    first_task, last_task, tasks, pool, powers, sources, seen, won, made, g_z, g_grown, g_pool,
    g_decay,
):  # fmt: skip
    _, start, length, stride, _, _, _, _, _, _ = tasks
    order = len(sources)
    for task in range(first_task, last_task):
        own, first, last = share_of(task, tasks)
        text = own[0]
        known, size, of = seen[text], length[text], sources[:, text]
        begin = start[text] - known * stride
        for t in range(size):
            row = start[text] + t * stride
            for j in range(1, min(order, known + t + 1)):
                parts, at = won[row, j - 1], row * order + j
                for k in range(first, last):
                    given = g_z[row, j - 1, k]
                    s = int(parts[j - 1, k])
                    gap = known + t - s - j
                    g = given * powers[gap + order - 1, k]
                    g_pool[at, k] += g
                    total = pool[at, k]
                    total += _give(parts, j - 1, of, begin, stride, s, k, g, pool, g_pool)
                    slope = pool.dtype.type(gap) * powers[gap + order - 2, k]
                    g_decay[text, k] += given * slope * total
        for s in range(known + size if g_grown.size else 0):
            for j in range(min(order, known + size - s)):
                parts = made[text, s, j - 1]
                for k in range(first, last):
                    g = g_grown[j, text, s, k]
                    _give(parts, j, of, begin, stride, s, k, g, pool, g_pool)


def forward(form: Any, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """The outputs of the definition; then `won` and `made`, see `_program`."""
    x, _, table, seen = tensors = [t.contiguous() for t in tensors]
    order, _, _, channels = table.shape
    z, grown, won, made = (t.zero_() for t in _like(form, layout, tensors))
    made -= 1
    pool, powers, sources = _given(layout, tensors)
    place = torch.arange(grown.size(2), dtype=x.dtype, device=x.device).unsqueeze(1)
    each = [j * channels for j in range(order)]
    pairs = [(j * (order - 1) + i) * channels for j in range(order - 1) for i in range(j + 1)]
    written = [(z.flatten(1), at) for at in each[:-1]]
    sums = [(grown.flatten(1, 2)[0], j * grown[0].numel()) for j in range(order)]
    taken = won.flatten(1), made.flatten(0, 1).flatten(1)
    places = [(rows, at) for at in pairs for rows in taken]
    read = [*((x, at) for at in each[1:]), *((powers, at) for at in each[-2::-1])]
    memory = {
        "read": [*read, *written, *sums, *places, *[(place, 0)] * 3],
        "written": [*written, *sums[1:], *places],
    }
    program, tasks = _program(order, x.dtype), Tasks.of(layout, channels)
    given = program.address, program.table(memory), *map(array, (pool, sources, seen, grown))
    run(_forward, tasks.number, x.numel() * len(place), tuple(tasks), *given)
    return z, grown, won, made


def backward(
    form: Any,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    (x, decay, table, seen), (won, made), (g_z, g_grown, *_) = tensors, outputs, grads
    given = *_given(layout, tensors), seen, won, made
    g_z = x.new_zeros(*won.shape[:2], table.size(3)) if g_z is None else g_z
    g_pool, g_decay = torch.zeros_like(given[0]), decay.new_zeros(table.shape[1::2])
    tasks = Tasks.of(layout, table.size(3))
    read = *map(array, (*given, g_z)), array(g_grown, x, 4)
    run(_backward, tasks.number, x.numel(), tuple(tasks), *read, array(g_pool), array(g_decay))
    g_x, g_table = g_pool.tensor_split([layout.num_rows * len(table)])
    g_table = g_table.clone().view_as(table)  # as two results may not share their memory
    return [g_x.view_as(x), g_decay.sum_to_size(decay.shape), g_table, None]


def _given(layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
    """The rows that sums are made of; the decay to the powers 1 - n, ..., at least 0; and the row
    that the sum of order j + 1 with start s begins from, (n, B, S + T), or -1 for none."""
    x, decay, table, seen = tensors
    order, texts, size, channels = table.shape
    pool = x.reshape(layout.num_rows * order, channels)
    number = partial(torch.arange, device=x.device)
    own = len(pool) + number(order * texts * size).view(order, texts, size)
    pool = torch.cat((pool, table.reshape(-1, channels))) if size else pool
    starts, j = number(size + layout.num_steps), number(order).view(-1, 1, 1)
    since = starts - seen.unsqueeze(1)
    token = (layout.start.unsqueeze(1) + since * layout.stride) * order
    sources = torch.where(
        since + j < 0, F.pad(own, (0, layout.num_steps)), torch.where(j > 0, -1, token)
    )
    exponents = number(1 - order, len(starts) + 1).clamp(min=0).unsqueeze(1)
    powers = decay.expand(channels) ** exponents
    is_slow = powers < torch.finfo(x.dtype).tiny  # subnormal
    return pool, torch.where(is_slow, 0, powers), sources
