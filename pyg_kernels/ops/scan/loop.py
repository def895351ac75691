"""The time loop of all scans on CPU, around programs that compute one token of one text.

Programs find their rows by numbers that the loop sets: see `Index`. If steps read a map of the
previous output, the loop computes these products between steps, for all texts of a task at once.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from pyg_kernels.ops.compiled import array, inlined, kernel
from pyg_kernels.ops.product import multiply, padded, panels_of
from pyg_kernels.ops.program import call
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.traced import Index

_NARROW = 32  # channels; blocks are not made narrower
_TOGETHER = 256  # tokens whose gradients are summed in one row; the rows are summed at the end


_TOKEN, _BEFORE, _TEXT, _PART = (int(i) for i in list(Index)[1:])


class Tasks(NamedTuple):
    """How threads share a scan: each task is one part of the texts and one block of channels.

    Attributes:
        texts: The texts, the longest first; part p has every `parts`-th of them from p on.
        start: The row of each text's first token.
        length: The length of each text.
        stride: The number of rows from one token to the next.
        num_rows: The number of rows in all.
        channels: The number of channels.
        parts: The number of parts.
        blocks: The number of blocks of channels.
        steps: The number of steps of a text whose parameter gradients share a row.
        rows: The number of such rows per part.
    """

    texts: np.ndarray
    start: np.ndarray
    length: np.ndarray
    stride: int
    num_rows: int
    channels: int
    parts: int
    blocks: int
    steps: int
    rows: int

    @classmethod
    def of(
        cls, layout: Layout, channels: int, together: bool = False, whole: bool = False
    ) -> Tasks:
        """The tasks of a scan.

        Args:
            layout: The texts.
            channels: The number of channels.
            together: Whether a task goes through several texts at once, for products.
            whole: Whether channels depend on each other.
        """
        layout.check()
        threads, texts = torch.get_num_threads(), layout.num_texts
        parts, blocks = texts, 1
        if together:
            parts = min(threads, texts)
        elif not whole:
            while parts * blocks < threads and channels // blocks >= 2 * _NARROW:
                blocks *= 2
        order, start, length = map(array, (layout.order(), layout.start, layout.length))
        shared = parts, blocks, *rows_of(layout, together)
        return cls(order, start, length, layout.stride, layout.num_rows, channels, *shared)

    @property
    def number(self) -> int:
        return self.parts * self.blocks


def rows_of(layout: Layout, together: bool) -> tuple[int, int]:
    """The number of steps whose parameter gradients share a row, and the number of rows per part.

    Long sums are thus made of short sums, as in BLAS.
    """
    steps = max(1, _TOGETHER // max(1, layout.num_texts)) if together else _TOGETHER
    return steps, max(1, -(-layout.num_steps // steps))


@inlined
def share_of(task, tasks):
    """The texts of a task, its first channel, and the channel after its last.

    If all texts have one length, a task has neighbouring ones: threads share no cache lines.
    """
    texts, _, length, _, _, channels, parts, blocks, _, _ = tasks
    part, block = task // blocks, task % blocks
    first, last = channels * block // blocks, channels * (block + 1) // blocks
    own = texts[part::parts].copy()
    if texts.size and length[texts[0]] == length[texts[-1]]:
        own = texts[texts.size * part // parts : texts.size * (part + 1) // parts].copy()
    return own, first, last


@inlined
def _place(index, text, t, start, stride, num_rows):
    """Sets the numbers of the rows of token t of a text."""
    index[_TEXT], index[_TOKEN] = text, start[text] + t * stride
    index[_BEFORE] = index[_TOKEN] - stride if t else num_rows + text


@kernel
def along(first_task, last_task, tasks, program, table, backwards):
    """Calls a program for all tokens of each text, from the last to the first if `backwards`."""
    _, start, length, stride, num_rows, _, _, blocks, steps, rows = tasks
    index = np.zeros(8, np.int64)
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, tasks)
        for text in texts:
            for i in range(length[text]):
                t = length[text] - 1 - i if backwards else i
                index[_PART] = task // blocks * rows + t // steps
                _place(index, text, t, start, stride, num_rows)
                call(program, table.ctypes.data, index.ctypes.data, first, last)


@kernel
def along_fed(first_task, last_task, tasks, program, table, products, feed, mask, h0, h, kept):
    """Goes through all texts step by step, with products of the previous outputs.

    Args:
        products: The functions for `multiply`.
        feed: The map of the previous outputs, (R, D).
        mask: Factors on the previous outputs, (B, D), or empty.
        h0: The outputs before the texts, (B, D).
        h: The outputs, (N, D); those before the texts may follow.
        kept: The products, (N, R).
    """
    _, start, length, stride, num_rows, channels, _, _, _, _ = tasks
    index = np.zeros(8, np.int64)
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, tasks)
        fed = padded(texts.size, feed.shape[0], h)
        before = padded(texts.size, channels, h)
        panels = panels_of(feed.T)
        for t in range(length[texts[0]] if texts.size else 0):
            active = 0
            while active < texts.size and length[texts[active]] > t:
                _place(index, texts[active], t, start, stride, num_rows)
                past = h[index[_BEFORE]] if t else h0[texts[active]]
                _read(past, mask, texts[active], before[active])
                active += 1
            multiply(products, before, active, panels, feed.shape[0], fed)
            for m in range(active):
                _place(index, texts[m], t, start, stride, num_rows)
                copy(fed[m], kept[index[_TOKEN]])
                call(program, table.ctypes.data, index.ctypes.data, first, last)


@kernel
def back_fed(first_task, last_task, tasks, program, table, products, feed, mask, g_x, g_h):
    """The derivative of `along_fed`.

    Args:
        feed: The map, by which the gradients of the products are multiplied, (R, D).
        g_x: The gradients that the program writes, (N, K); the products' are the first R.
        g_h: The gradients of the previous outputs, (B, D); those by the products are added.
    """
    _, start, length, stride, num_rows, channels, _, _, steps, rows = tasks
    index = np.zeros(8, np.int64)
    for task in range(first_task, last_task):
        texts, first, last = share_of(task, tasks)
        g_fed = padded(texts.size, feed.shape[0], g_x)
        given = padded(texts.size, channels, g_x)
        panels = panels_of(feed)
        for t in range((length[texts[0]] if texts.size else 0) - 1, -1, -1):
            active, index[_PART] = 0, task * rows + t // steps
            while active < texts.size and length[texts[active]] > t:
                _place(index, texts[active], t, start, stride, num_rows)
                call(program, table.ctypes.data, index.ctypes.data, first, last)
                copy(g_x[index[_TOKEN]][: feed.shape[0]], g_fed[active])
                active += 1
            multiply(products, g_fed, active, panels, channels, given)
            for m in range(active):
                _read(given[m][:channels], mask, texts[m], given[m])
                add(given[m][:channels], g_h[texts[m]])


@inlined
def copy(row, out):
    """Copies the first entries of a row to another, as many as the shorter one has."""
    for k in range(min(row.size, out.size)):
        out[k] = row[k]


@inlined
def add(row, out):
    """Adds a row to another, which may be longer."""
    for k in range(row.size):
        out[k] += row[k]


@inlined
def _read(row, mask, text, out):
    """Copies a row, multiplied by the text's factors if there are any."""
    if mask.size:
        factor = mask[text]
        for k in range(row.size):
            out[k] = row[k] * factor[k]
    else:
        copy(row, out)
