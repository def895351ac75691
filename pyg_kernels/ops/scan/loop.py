"""The time loop of all scans on CPU, forward and backward, around the steps of a cell.

A cell is the named tuple of its arrays, and what `step` and `step_back` are for that type. They are
called with a list of tokens to be gone through one after the other: where the cell reads the output
before, those of one time step, and the loop makes the products in between; otherwise those of one
text, a few dozen at a time, so that calls and views cost little beside the numbers.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.rows import copy

# OpenBLAS multiplies on one thread up to this many multiply-adds; beyond, its threads would get in
# the way of those that share the texts.
_SMALL_PRODUCT = 2**18
_COLUMNS = 256  # of a product that are summed up at a time
_NARROW = 32  # channels; a task has no fewer
_IN_CACHE = 2**12  # numbers of one buffer


class Tasks(NamedTuple):
    """How a scan is shared by threads: tasks are parts of the texts times blocks of channels.

    Attributes:
        texts: The texts, the longest first; part p has every `parts`-th of them from p on.
        start: The row of each text's first token.
        length: The length of each text.
        stride: The rows from one token to the next.
        parts: The number of parts.
        blocks: The number of blocks of channels.
    """

    texts: np.ndarray
    start: np.ndarray
    length: np.ndarray
    stride: int
    parts: int
    blocks: int

    @classmethod
    def of(cls, layout: Layout, channels: int, feed: Tensor | None, splits: bool = True) -> Tasks:
        """The tasks of a scan; `splits` says whether channels do not depend on each other."""
        layout.check()
        threads, texts = torch.get_num_threads(), layout.num_texts
        parts, blocks = texts, 1
        if feed is not None:
            parts = min(threads, texts)
        elif splits:
            while parts * blocks < threads and channels // blocks >= 2 * _NARROW:
                blocks *= 2
        order, start, length = map(array, (layout.order(), layout.start, layout.length))
        return cls(order, start, length, layout.stride, parts, blocks)

    @property
    def number(self) -> int:
        return self.parts * self.blocks


class Tokens(NamedTuple):
    """Some tokens, in the order in which they are gone through.

    Attributes:
        row: The row of each.
        before: The row of the token before it; for a first one the number of all rows plus that
            of its text.
        slot: Its text's place in what is carried.
    """

    row: Any
    before: Any
    slot: Any


def step(cell, tokens, first, last, feed):
    """What a cell does at some tokens: overloaded for each type of cell.

    Args:
        tokens: The tokens.
        first, last: The channels.
        feed: What the product with the output before gave, (tokens, R); (0, 0) without.
    """


def step_back(cell, tokens, first, last, g_feed, g_h):
    """The derivative of `step`.

    It reads in `g_h`, (slots, D), what later tokens give the outputs, and leaves there what it
    gives the outputs before by itself; in `g_feed`, (tokens, R), it leaves the gradient of what the
    product gave.
    """


@inlined
def share_of(task, texts, parts, blocks, channels):
    """The texts of a task, and its first channel and that after its last."""
    block = task % blocks
    first, last = channels * block // blocks, channels * (block + 1) // blocks
    return texts[task // blocks :: parts].copy(), first, last


@inlined
def longest_list(texts, length, channels, reads):
    """The most tokens that steps are called with."""
    if reads:
        return texts.size
    return max(1, min(length[texts[0]] if texts.size else 0, _IN_CACHE // channels))


@inlined
def _list_tokens(tokens, texts, start, length, stride, num_rows, t, size):
    """The tokens t, ..., t + size - 1 of one text; or those of step t, the texts that have one."""
    if size:
        text = texts[0]
        for m in range(size):
            tokens.row[m] = start[text] + (t + m) * stride
            tokens.before[m] = tokens.row[m] - stride if t + m else num_rows + text
            tokens.slot[m] = 0
        return Tokens(tokens.row[:size], tokens.before[:size], tokens.slot[:size])
    active = 0
    while active < texts.size and length[texts[active]] > t:
        text = texts[active]
        tokens.row[active] = start[text] + t * stride
        tokens.before[active] = tokens.row[active] - stride if t else num_rows + text
        tokens.slot[active] = active
        active += 1
    return Tokens(tokens.row[:active], tokens.before[:active], tokens.slot[:active])


@inlined
def _multiply(left, right, out):
    """The product of two matrices, on this thread."""
    rows, columns = out.shape
    if rows < 4 or rows * right.size <= _SMALL_PRODUCT:
        np.dot(left, right, out)
        return
    for first in range(0, columns, _COLUMNS):
        last = min(columns, first + _COLUMNS)
        for row in range(0, rows, 4):
            _multiply_rows(min(row, rows - 4), left, right, first, last, out)


@inlined
def _multiply_rows(row, left, right, first, last, out):
    """Four rows of a product, four multiplications at a time."""
    zero, size = out.dtype.type(0), right.shape[0]
    a, b, c, d = left[row], left[row + 1], left[row + 2], left[row + 3]
    to_a, to_b = out[row][first:last], out[row + 1][first:last]
    to_c, to_d = out[row + 2][first:last], out[row + 3][first:last]
    for j in range(to_a.size):
        to_a[j] = to_b[j] = to_c[j] = to_d[j] = zero
    for k in range(0, size - 3, 4):
        p, q = right[k][first:last], right[k + 1][first:last]
        r, s = right[k + 2][first:last], right[k + 3][first:last]
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for j in range(to_a.size):
            to_a[j] += a0 * p[j] + a1 * q[j] + a2 * r[j] + a3 * s[j]
            to_b[j] += b0 * p[j] + b1 * q[j] + b2 * r[j] + b3 * s[j]
            to_c[j] += c0 * p[j] + c1 * q[j] + c2 * r[j] + c3 * s[j]
            to_d[j] += d0 * p[j] + d1 * q[j] + d2 * r[j] + d3 * s[j]
    for k in range(size // 4 * 4, size):
        p = right[k][first:last]
        a0, b0, c0, d0 = a[k], b[k], c[k], d[k]
        for j in range(to_a.size):
            to_a[j] += a0 * p[j]
            to_b[j] += b0 * p[j]
            to_c[j] += c0 * p[j]
            to_d[j] += d0 * p[j]


@inlined
def forward_loop(cell, texts, start, length, stride, first, last, across, mask, h0, h):
    """Calls `step` for all tokens of some texts.

    Args:
        cell: The cell.
        texts: The texts of the task, the longest first; one where nothing is read.
        start, length, stride: The layout.
        first, last: The channels.
        across: What the output before is multiplied by, (D, R); empty where it is not read.
        mask: Factors on the output before as it is read, (B, D), or empty.
        h0: The outputs before the first token, (B, D).
        h: The outputs, (N, D), which `step` writes.
    """
    rows, channels = h.shape
    reads = across.shape[1] > 0
    size = longest_list(texts, length, last - first, reads)
    buffer = Tokens(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))
    longest = length[texts[0]] if texts.size else 0
    if not reads:
        feed = np.empty((0, 0), h.dtype)
        for t in range(0, longest, size):
            now = min(size, longest - t)
            tokens = _list_tokens(buffer, texts, start, length, stride, rows, t, now)
            step(cell, tokens, first, last, feed)
        return
    feed = np.empty((texts.size, across.shape[1]), h.dtype)
    before = np.empty((texts.size, channels), h.dtype)
    for t in range(longest):
        tokens = _list_tokens(buffer, texts, start, length, stride, rows, t, 0)
        active = tokens.row.size
        _read(tokens, h0, h, mask, texts, before)
        _multiply(before[:active], across, feed[:active])
        step(cell, tokens, first, last, feed)


@inlined
def _read(tokens, h0, h, mask, texts, out):
    """The outputs before as they are read."""
    rows, channels = h.shape
    for m in range(tokens.row.size):
        row, now = tokens.before[m], out[m]
        copy(h[row] if row < rows else h0[row - rows], now)
        if mask.size:
            factor = mask[texts[m]]
            for k in range(channels):
                now[k] *= factor[k]


@inlined
def backward_loop(cell, texts, start, length, stride, first, last, back, mask, rows, g_h):
    """Calls `step_back` for all tokens, from the last to the first.

    Args:
        back: The matrix by which the product's gradient is multiplied, (R, D); or empty.
        rows: The number of rows N.
        g_h: The gradient of the outputs, (texts, D), at last of those before the texts.
    """
    channels = g_h.shape[1]
    reads = back.shape[0] > 0
    size = longest_list(texts, length, last - first, reads)
    buffer = Tokens(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))
    longest = length[texts[0]] if texts.size else 0
    if not reads:
        g_feed = np.empty((0, 0), g_h.dtype)
        begin = (longest - 1) // size * size
        for t in range(begin, -1, -size):
            now = min(size, longest - t)
            found = _list_tokens(buffer, texts, start, length, stride, rows, t, now)
            tokens = Tokens(found.row[::-1].copy(), found.before[::-1].copy(), found.slot)
            step_back(cell, tokens, first, last, g_feed, g_h)
        return
    g_feed = np.empty((texts.size, back.shape[0]), g_h.dtype)
    given = np.empty((texts.size, channels), g_h.dtype)
    for t in range(longest - 1, -1, -1):
        tokens = _list_tokens(buffer, texts, start, length, stride, rows, t, 0)
        active = tokens.row.size
        step_back(cell, tokens, first, last, g_feed, g_h)
        _multiply(g_feed[:active], back, given[:active])
        for m in range(active):
            now, more = g_h[m], given[m]
            if mask.size:
                factor = mask[texts[m]]
                for k in range(channels):
                    now[k] += more[k] * factor[k]
            else:
                for k in range(channels):
                    now[k] += more[k]


def columns(feed: Tensor | None, like: Tensor) -> tuple[Any, Any]:
    """The feed's matrix transposed, (D, R), and as it is, (R, D); empty ones for None."""
    if feed is None:
        return array(None, like), array(None, like)
    return array(feed.t()), array(feed)
