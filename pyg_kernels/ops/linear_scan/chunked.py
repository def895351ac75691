r"""One linear recurrence on a long sequence, cut into chunks that are stepped side by side.

A recurrence of T steps on few channels leaves a processor idle: each op is too small. Here the
sequence is cut into chunks of about :math:`T^{1/3}` steps. All chunks are stepped at once, from
zero, keeping only the product of the coefficients and the last state; carrying these from chunk
to chunk is a recurrence again, shorter, and done in the same way; then all chunks are stepped
again from their right initial states.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

_FEWEST_CHUNKS = 4


class LinearScan(torch.autograd.Function):
    """Inputs: a, of any shape that expands to b's, b of (T, ...), the initial state, normalize and,
    where there are several sequences that zeros in a keep apart, where they begin and end.
    """

    @staticmethod
    def forward(
        a: Tensor, b: Tensor, initial: Tensor, normalize: bool, ptr: Tensor | None = None
    ) -> Tensor:
        c = torch.empty_like(b, memory_format=torch.contiguous_format)
        _scan(a.expand(b.shape), b, initial, normalize, c)
        return c

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, b, initial, ctx.normalize, *ptr = inputs
        ctx.ptr = ptr[0] if ptr else None
        ctx.save_for_backward(a, b, initial, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, initial, c = ctx.saved_tensors
        normalize, needed = ctx.normalize, ctx.needs_input_grad
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            run = partial(_definition, normalize)
            return by_definition(run, (a, b, initial), needed, [grad])
        if not len(b):
            zeros = (torch.zeros_like(tensor) for tensor in (a, b, initial))
            return *zeros, None, None
        every = a.expand(b.shape)
        g = torch.empty_like(b, memory_format=torch.contiguous_format)
        _scan_back(every, grad, g)
        if ctx.ptr is not None and not bool(g.sum().isfinite()):
            # Zero times infinity would carry one sequence's infinity into the one before it.
            for start, stop in pairwise(ctx.ptr.tolist()):
                if start < stop:
                    _scan_back(every[start:stop], grad[start:stop], g[start:stop])
        grad_a = grad_b = None
        if needed[0]:
            reached = torch.empty_like(g)
            if normalize:
                torch.sub(initial, b[0], out=reached[0])
                torch.sub(c[:-1], b[1:], out=reached[1:])
            else:
                reached[0] = initial
                reached[1:] = c[:-1]
            grad_a = reached.mul_(g).sum_to_size(a.shape)
        grad_initial = every[0] * g[0] if needed[2] else None
        if needed[1]:
            grad_b = torch.addcmul(g, every, g, value=-1) if normalize else g
        return grad_a, grad_b, grad_initial, None, None


def _definition(normalize: bool, a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    return reference.linear_scan(a.expand(b.shape), b, initial, normalize)


def _scan_back(a: Tensor, grad: Tensor, g: Tensor) -> None:
    """Writes to g what reaches each state, through later ones too, from what reaches it by itself.

    c[t] reaches c[t+1] through a[t+1]: the same recurrence, backwards in time.
    """
    g[-1] = grad[-1]
    _scan(a[1:], grad[:-1], grad[-1], False, g[:-1], backwards=True)


def _scan(
    a: Tensor, b: Tensor, initial: Tensor, normalize: bool, c: Tensor, backwards: bool = False
) -> None:
    """Writes the states to c; backwards, the recurrence runs from the last step to the first."""
    steps = len(b)
    length = max(1, round(steps ** (1 / 3)))
    chunks = steps // length
    if chunks < _FEWEST_CHUNKS:
        _step_through(a, b, initial, normalize, c, backwards)
        return
    # What is left over comes last: at the end, or, backwards, at the beginning.
    whole = chunks * length
    inside = slice(steps - whole, steps) if backwards else slice(0, whole)
    over = slice(0, steps - whole) if backwards else slice(whole, steps)
    shape = (chunks, length, *b.shape[1:])
    a_steps = a[inside].view(shape).unbind(1)
    b_steps = b[inside].view(shape).unbind(1)
    products, ends = _summaries(a_steps, b_steps, normalize, backwards)
    starts = torch.empty_like(ends)
    first, others = (chunks - 1, slice(0, -1)) if backwards else (0, slice(1, None))
    before = slice(1, None) if backwards else slice(0, -1)
    starts[first] = initial
    _scan(products[before], ends[before], initial, False, starts[others], backwards)
    c_steps = c[inside].view(shape).unbind(1)
    _step_through(a_steps, b_steps, starts, normalize, c_steps, backwards)
    if whole < steps:
        reached = c[steps - whole] if backwards else c[whole - 1]
        _step_through(a[over], b[over], reached, normalize, c[over], backwards)


def _summaries(a: Any, b: Any, normalize: bool, backwards: bool) -> tuple[Tensor, Tensor]:
    """The product of each chunk's coefficients, and its last state when started from zero."""
    if backwards:
        a, b = a[::-1], b[::-1]
    product = a[0].clone(memory_format=torch.contiguous_format)
    state = torch.addcmul(b[0], a[0], b[0], value=-1) if normalize else b[0].clone()
    for a_t, b_t in zip(a[1:], b[1:], strict=True):
        _step(b_t, state, a_t, normalize, state)
        product.mul_(a_t)
    return product, state


def _step_through(
    a: Any, b: Any, state: Tensor, normalize: bool, out: Any, backwards: bool
) -> None:
    rows = list(zip(a, b, out, strict=True))
    for a_t, b_t, c_t in reversed(rows) if backwards else rows:
        _step(b_t, state, a_t, normalize, c_t)
        state = c_t


def _step(b: Tensor, state: Tensor, a: Tensor, normalize: bool, out: Tensor) -> None:
    if normalize:
        torch.lerp(b, state, a, out=out)
    else:
        torch.addcmul(b, state, a, out=out)
