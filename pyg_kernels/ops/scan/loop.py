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
# the way of those that share the texts. So larger products are made of small ones.
_SMALL_PRODUCT = 2**18
_LANES = 4  # columns of a panel are a multiple of it
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
def share_of(task, texts, length, parts, blocks, channels):
    """The texts of a task, and its first channel and that after its last.

    Texts of one length are those beside each other: threads stay off each other's cache lines.
    """
    part, block = task // blocks, task % blocks
    first, last = channels * block // blocks, channels * (block + 1) // blocks
    own = texts[part::parts].copy()
    if texts.size and length[texts[0]] == length[texts[-1]]:
        own = texts[texts.size * part // parts : texts.size * (part + 1) // parts].copy()
    return own, first, last


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
def _rows_at_once(rows, size):
    """How many of some rows of so many numbers one product takes."""
    return min(rows, 16 if size <= 1024 else 8)


@inlined
def _panels(matrix, rows):
    """A matrix as panels of columns, (P, K, C), by which some rows are multiplied.

    The last panel is filled up with zeros.
    """
    size, columns = matrix.shape
    width = columns
    if rows * matrix.size > _SMALL_PRODUCT:
        width = _SMALL_PRODUCT // (_rows_at_once(rows, size) * size) // _LANES * _LANES
        width = min(columns, max(_LANES, width))
    out = np.zeros(((columns + width - 1) // width, size, width), matrix.dtype)
    for first in range(0, columns, width):
        for k in range(size):
            copy(matrix[k][first:], out[first // width, k])
    return out


@inlined
def _multiply(left, panels, out):
    """The product of a matrix and one in panels, on this thread."""
    rows, (number, size, width) = len(out), panels.shape
    if rows * panels.size <= _SMALL_PRODUCT and number == 1:
        np.dot(left, panels[0], out)
        return
    at_once = _rows_at_once(rows, size)
    found = np.empty((at_once, width), out.dtype)
    for row in range(0, rows, at_once):
        some = left[row : row + at_once]
        part = found[: len(some)]
        for p in range(number):
            np.dot(some, panels[p], part)
            for i in range(len(some)):
                copy(part[i], out[row + i][p * width :])


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
    panels = _panels(across, texts.size)
    for t in range(longest):
        tokens = _list_tokens(buffer, texts, start, length, stride, rows, t, 0)
        active = tokens.row.size
        _read(tokens, h0, h, mask, texts, before)
        _multiply(before[:active], panels, feed[:active])
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
    panels = _panels(back, texts.size)
    for t in range(longest - 1, -1, -1):
        tokens = _list_tokens(buffer, texts, start, length, stride, rows, t, 0)
        active = tokens.row.size
        step_back(cell, tokens, first, last, g_feed, g_h)
        _multiply(g_feed[:active], panels, given[:active])
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
