# mypy: disable-error-code="no-untyped-def"
"""Recurrent networks with learned activations on CPU: their steps, forward and backward.

Threads share the texts, unless steps have statistics, which need all texts. The backward pass goes
through time with only the slopes at each token. Afterwards, the gradients of the functions and of
the recurrent map are computed for all tokens at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run
from pyg_kernels.ops.expansion.cpu import backward as of_expansion
from pyg_kernels.ops.expansion.cpu import blocks_of, gaussian_program, piece_table, read
from pyg_kernels.ops.product import multiply, panels_of, products
from pyg_kernels.ops.program import call
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation import Form, of_line, scale_and_shift
from pyg_kernels.ops.scan.loop import add, copy


def _shares(form: Form, layout: Layout) -> tuple[Tensor, tuple[np.ndarray, np.ndarray, int, int]]:
    """The texts of each task, (P, M), the longest first, and the rows of their tokens.

    M is a multiple of four, as products take four rows; empty places hold the number of texts.
    """
    layout.check()
    texts = layout.num_texts
    parts = 1 if form.normalize else max(1, min(torch.get_num_threads(), texts))
    text = F.pad(layout.order(), (0, -texts % parts), value=texts)
    text = text.view(parts, -1) if layout.full else text.view(-1, parts).t()
    text = F.pad(text, (0, -text.size(1) % 4), value=texts).contiguous()  # `pad` may add nothing
    start, length = (array(F.pad(of, (0, 1))[text]) for of in (layout.start, layout.length))
    return text, (start, length, layout.stride, layout.num_steps)


def forward(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """h, a, the slopes or entries that give them, the table and order of pieces, the statistics."""
    x, h0, feed, centers, coefficients, slope, intercept, weight, bias = tensors
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    text, tokens = _shares(form, layout)
    carried = F.pad(h0, (0, 0, 0, 1))[text]
    h, before, a, fed = new(x.shape), new(x.shape), torch.empty_like(carried), _products(carried)
    statistics = x.new_empty(2, layout.num_steps * form.normalize, x.size(1))
    is_gaussian = form.green == "gaussian"
    # For pieces, their entries are kept; for Gaussians, the slopes.
    entries, slopes = ((0, 0), x.shape) if is_gaussian else (x.shape, (0, 0))
    entries, slopes = new(entries, dtype=torch.int32), new(slopes)
    found, steep = (
        carried.new_empty(*text.shape, t.size(1), dtype=t.dtype) for t in (entries, slopes)
    )
    table, order = x.new_empty(0, 0, 0), x.new_empty(0, 0, dtype=torch.long)
    blocks = array(None, x)
    program: tuple[Any, ...] = (0, np.zeros((0, 2), np.int64), None)
    if is_gaussian:
        rows = {"value": [(carried.view(-1, 1), 0)], "slope": [(steep.view(-1, 1), 0)]}
        program = gaussian_program("slope", a, centers, coefficients, form.bandwidth, rows)
    else:
        table, order = piece_table(centers, coefficients, form.green)
        blocks = blocks_of(table)
    line = None if slope is None else torch.stack((slope, intercept)).expand(2, x.size(1))
    norm = scale_and_shift(x, weight, bias) if form.normalize else None
    given = (
        *map(array, (carried, fed, a, found, steep, x, before, h, entries, slopes, statistics)),
        *(array(norm, x), form.eps, array(line, x)),
        *(array(table), blocks, *program[:2], *centers.shape),
    )
    run(_forward, len(text), h.numel(), tokens, products(x.dtype), array(feed), *given)
    return h, before, slopes if is_gaussian else entries, table, order, statistics


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the tensors."""
    g_out = grads[0]
    if g_out is None:
        return [None] * len(tensors)
    x, h0, feed, centers, coefficients, slope, _, weight, bias = tensors
    h, before, kept, table, order, statistics = outputs
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    slopes = kept
    if form.green != "gaussian":
        slopes = table[3].flatten().index_select(0, kept.flatten()).view(x.shape)
    slopes = slopes if slope is None else slopes + slope
    text, tokens = _shares(form, layout)
    fed = x.new_zeros(*text.shape, x.size(1))
    norm = scale_and_shift(x, weight, bias) if form.normalize else None
    carried, g_norm = _products(fed), np.zeros((2, x.size(1)))
    reaching, g_x = new(x.shape), new(x.shape)
    inputs = new(x.shape) if form.normalize else before
    arrays = map(array, (carried, fed, g_out, slopes, reaching, g_x, before, inputs, statistics))
    given = *arrays, array(norm, x), g_norm
    run(_backward, len(text), h.numel(), tokens, products(x.dtype), array(feed), *given)
    g_h0 = x.new_empty(len(h0) + 1, x.size(1))
    g_h0[text] = carried[:, :, : len(feed)]
    of_functions: Sequence[Tensor | None] = (None, None)
    if any(needed[3:5]):
        operands = reaching, inputs, centers, coefficients, form.green, form.bandwidth
        of_functions = of_expansion(*operands, (False, True), kept, table, order)[1:]
    g_feed = g_x.t() @ layout.before(h, h0)
    of_norm = [torch.from_numpy(g).to(x.dtype) for g in g_norm.copy()]
    return [g_x, g_h0[:-1], g_feed, *of_functions, *of_line(slope, reaching, inputs), *of_norm]


def _products(like: Tensor) -> Tensor:
    """Zeros as memory for products, as wide as panels are."""
    return F.pad(torch.zeros_like(like), (0, -like.size(2) % (256 // like.itemsize)))


@inlined
def _list_rows(tokens, task, t, out):
    """Writes the rows of the tokens of a step, and returns how many there are."""
    start, length, stride, _ = tokens
    active = 0
    while active < out.size and length[task, active] > t:
        out[active] = start[task, active] + t * stride
        active += 1
    return active


@kernel
def _forward(
    first_task, last_task, tokens, products, feed,
    carried, fed, a, found, steep, x, before, h, entries, slopes, statistics,
    norm, eps, line, table, blocks, program, places, num_functions, num_centers,
):  # fmt: skip
    """The steps of each task.

    Args:
        tokens, products, feed: The rows, see `_shares`; the functions for `multiply`, and the
            recurrent map.
        carried, fed, a: The texts' outputs, their products, and the functions' inputs, (P, M, H).
        found, steep: The entries of pieces and the slopes at a step, (P, M, H) or (P, M, 0).
        entries, slopes: The same of all tokens, (N, H) or (0, 0).
        statistics: Means and inverse deviations, (2, T, H).
        norm, line: Scale and shift, slopes and intercepts, (2, H) or (0, 0).
        table, blocks, program, places: The pieces and the centres to search for them; or the
            program of Gaussians and its table.
    """
    most, units = carried.shape[1:]
    rows, index = np.empty(most, np.int64), np.zeros(4, np.int64)
    for task in range(first_task, last_task):
        panels, out = panels_of(feed.T), carried[task]
        for t in range(tokens[3]):
            active = _list_rows(tokens, task, t, rows)
            if active == 0:
                break
            multiply(products, out, active, panels, units, fed[task])
            for m in range(active):
                given, product = x[rows[m]], fed[task, m]
                now, own = before[rows[m]], a[task, m]
                for k in range(units):
                    now[k] = own[k] = given[k] + product[k]
            if norm.size:
                _normalize(a[task, :active], statistics[0, t], statistics[1, t], norm, eps)
            if program:
                for i in range(active * units):
                    index[1] = task * most * units + i
                    index[2] = i % units if num_functions > 1 else 0
                    call(program, places.ctypes.data, index.ctypes.data, 0, num_centers)
            else:
                read(a[task, :active], table, blocks, out[:active], found[task, :active])
            for m in range(active):
                if line.size:
                    for k in range(units):
                        out[m, k] += line[0, k] * a[task, m, k] + line[1, k]
                copy(out[m], h[rows[m]])
                copy(found[task, m], entries[rows[m]])
                copy(steep[task, m], slopes[rows[m]])


@kernel
def _backward(
    first_task, last_task, tokens, products, feed,
    carried, fed, g_out, slopes, reaching, g_x, before, inputs, statistics, norm, g_norm,
):  # fmt: skip
    """The derivative of the steps.

    Args:
        feed: The recurrent map.
        carried, fed: The outputs' gradients from later tokens, and the gradients of products.
        reaching: The total gradients of the outputs.
        inputs: The inputs of the functions; written if they are normalized.
        g_norm: The gradients of scale and shift, (2, H).
    """
    most, units = fed.shape[1:]
    rows = np.empty(most, np.int64)
    for task in range(first_task, last_task):
        panels = panels_of(feed)
        for t in range(tokens[3] - 1, -1, -1):
            active = _list_rows(tokens, task, t, rows)
            for m in range(active):
                given, total, now = g_out[rows[m]], reaching[rows[m]], g_x[rows[m]]
                arrived, slope = carried[task, m], slopes[rows[m]]
                for k in range(units):
                    total[k] = given[k] + arrived[k]
                    now[k] = total[k] * slope[k]
            if norm.size:
                means, inverse = statistics[0, t], statistics[1, t]
                _normalize_back(rows[:active], before, means, inverse, norm, inputs, g_x, g_norm)
            for m in range(active):
                copy(g_x[rows[m]], fed[task, m])
            multiply(products, fed[task], active, panels, units, carried[task])


@inlined
def _normalize(a, means, inverse, norm, eps):
    """Normalizes, scales and shifts rows in place; stores means and inverse deviations."""
    (size, units), total = a.shape, np.zeros((2, a.shape[1]))
    for m in range(size):
        add(a[m], total[0])
    for k in range(units):
        means[k] = total[0, k] / size
    for m in range(size):
        for k in range(units):
            away = a[m, k] - means[k]
            total[1, k] += away * away
    for k in range(units):
        inverse[k] = 1.0 / math.sqrt(total[1, k] / size + eps)
    for m in range(size):
        for k in range(units):
            a[m, k] = (a[m, k] - means[k]) * inverse[k] * norm[0, k] + norm[1, k]


@inlined
def _normalize_back(rows, before, means, inverse, norm, inputs, g_x, g_norm):
    """Turns the gradients of normalized rows into those of the rows, in place."""
    scale, shift, units = norm[0], norm[1], means.size
    sums, mean = np.zeros((3, units)), np.empty((3, units), g_x.dtype)
    # The last sums are 0 but for rounding, which may be magnified.
    turned, plain, left = sums[0], sums[1], sums[2]
    for row in rows:
        own, now, normalized = before[row], g_x[row], inputs[row]
        for k in range(units):
            apart = (own[k] - means[k]) * inverse[k]
            normalized[k] = apart * scale[k] + shift[k]
            turned[k] += now[k] * apart
            plain[k] += now[k]
            left[k] += apart
    g_norm += sums[:2]
    for i in range(3):
        for k in range(units):
            mean[i, k] = sums[i, k] / max(rows.size, 1)
    for row in rows:
        own, now = before[row], g_x[row]
        for k in range(units):
            apart = (own[k] - means[k]) * inverse[k] - mean[2, k]
            now[k] = (now[k] - mean[1, k] - apart * mean[0, k]) * inverse[k] * scale[k]
