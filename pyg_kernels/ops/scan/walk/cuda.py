"""The walk's scan in Triton: all orders in one pass over time, without anything read back.

A program takes one text and one block of channels through time, with the states in registers. No
two programs write to the same place, and what they share is added up after them, so that results
are the same bits every run. Kernels compute in the precision of x.
"""

# mypy: disable-error-code="no-untyped-def, assignment, var-annotated"
# ruff: noqa: RUF005 (Triton unpacks no tuples into others)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk.definition import Form

_BLOCK = 32  # channels of a program, which is one warp
_STAGES = 12  # steps that loads are issued ahead of their use; not tuned on a device


def forward(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
    """h and c of every token, c0 below, and c after each text."""
    x, params, *_, c0 = tensors
    rows, (order, texts, channels) = x.size(0), c0.shape
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    h, c = new(rows, channels), new(order, rows + texts, channels)
    end = torch.empty_like(c0, memory_format=torch.contiguous_format)
    _run(_forward, form, layout, x, params, c0, h, c, end)
    return h, c, end


def backward(
    form: Form,
    layout: Layout,
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of x, params and c0 from those of h, c and the last c; None between them."""
    (x, params, *_), c = tensors, outputs[1]
    (rows, _), texts, (order, _, channels) = x.shape, layout.num_texts, c.shape
    new = x.new_zeros if layout.form == "padded" else x.new_empty
    g_x, g_c0 = new(x.shape), x.new_empty(order, texts, channels)
    g_gate = new(rows, triton.cdiv(channels, _BLOCK)) if form.width == 1 else None
    g_params = x.new_zeros(texts, *params.shape) if needed[1] else None
    _run(_backward, form, layout, x, params, c, *grads[:3], g_x, g_gate, g_params, g_c0)
    if g_gate is not None:
        g_x[:, 0] = g_gate.sum(1)
    if g_params is not None:
        g_params = g_params.sum(0)
        if form.width == 1:  # one number for all channels
            g_params[0, 0] = g_params[0].sum()
            g_params[0, 1:] = 0
    return [g_x, g_params, *[None] * 5, g_c0]


def _run(kernel, form: Form, layout: Layout, *tensors: Tensor | None) -> None:
    given = [None if t is None else t.contiguous() for t in tensors]
    x, params = given[:2]
    assert x is not None and params is not None
    texts, channels = layout.num_texts, params.size(1)
    if texts and channels:
        with torch.cuda.device_of(x):
            kernel[(texts, triton.cdiv(channels, _BLOCK))](
                layout.start.contiguous(),
                layout.length.contiguous(),
                layout.stride,
                *given,
                x.size(0),
                texts,
                channels,
                x.size(1),
                ORDER=form.order,
                MUL=form.combine == "mul",
                NORMALIZE=form.normalize,
                GATE=form.gate,
                READOUT=form.readout,
                BY_CHANNEL=int(form.width != 1),
                BLOCK=_BLOCK,
                STAGES=_STAGES,
                num_warps=1,
                enable_fp_fusion=True,
            )


@triton.jit
def _load(table, row, size, k, inside):
    return tl.load(table + row * size + k, mask=inside, other=0.0)


@triton.jit
def _decay(x, shift, row, K, k, inside, GATE: tl.constexpr, BY_CHANNEL: tl.constexpr):
    decay = shift
    if GATE != "none":
        decay = _load(x, row, K, k * BY_CHANNEL, inside)
    if GATE == "logits":
        decay = tl.sigmoid(decay + shift)
    return decay


@triton.jit(do_not_specialize=["stride", "N", "B"])
def _forward(
    start, length, stride, x, param, c0, h, c, end, N, B, D, K,
    ORDER: tl.constexpr, MUL: tl.constexpr, NORMALIZE: tl.constexpr, GATE: tl.constexpr,
    READOUT: tl.constexpr, BY_CHANNEL: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    text = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = k < D
    first, steps = tl.load(start + text), tl.load(length + text)
    shift, bias = _load(param, 0, D, k * BY_CHANNEL, inside), _load(param, 1, D, k, inside)
    state = ()
    for j in tl.static_range(ORDER):
        initial = _load(c0, j * B + text, D, k, inside)
        tl.store(c + (j * (N + B) + N + text) * D + k, initial, mask=inside)
        state = state + (initial,)
    for t in tl.range(0, steps, num_stages=STAGES):
        row = first + t * stride
        decay = _decay(x, shift, row, K, k, inside, GATE, BY_CHANNEL)
        weight = 1 - decay if NORMALIZE else 1.0
        after, out = (), bias
        for j in tl.static_range(ORDER):
            z = _load(x, row, K, K - (ORDER - j) * D + k, inside)
            if j > 0:
                z = state[j - 1] * z if MUL else state[j - 1] + z
            now = decay * state[j] + weight * z
            tl.store(c + (j * (N + B) + row) * D + k, now, mask=inside)
            after = after + (now,)
            if READOUT == "sum" or j == ORDER - 1:
                out += z if READOUT == "z" else now
        state = after
        tl.store(h + row * D + k, out, mask=inside)
    for j in tl.static_range(ORDER):
        tl.store(end + (j * B + text) * D + k, state[j], mask=inside)


@triton.jit(do_not_specialize=["stride", "N", "B"])
def _backward(
    start, length, stride, x, param, c, g_h, g_c, g_end, g_x, g_gate, g_params, g_c0, N, B, D, K,
    ORDER: tl.constexpr, MUL: tl.constexpr, NORMALIZE: tl.constexpr, GATE: tl.constexpr,
    READOUT: tl.constexpr, BY_CHANNEL: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    text = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = k < D
    first, steps = tl.load(start + text), tl.load(length + text)
    shift = _load(param, 0, D, k * BY_CHANNEL, inside)
    zeros = tl.zeros([BLOCK], x.dtype.element_ty)
    g_shift, g_bias = zeros, zeros
    grad = ()  # of each order's state, through later tokens too
    for j in tl.static_range(ORDER):
        grad = grad + (zeros if g_end is None else _load(g_end, j * B + text, D, k, inside),)
    for i in tl.range(0, steps, num_stages=STAGES):
        t = steps - 1 - i
        row = first + t * stride
        before = tl.where(t > 0, row - stride, N + text)
        decay = _decay(x, shift, row, K, k, inside, GATE, BY_CHANNEL)
        weight = 1 - decay if NORMALIZE else 1.0
        g_decay, from_above, earlier = zeros, zeros, ()
        if g_h is not None:
            g_out = _load(g_h, row, D, k, inside)
            g_bias += g_out
        own = _load(c, (ORDER - 1) * (N + B) + before, D, k, inside)
        for j in tl.static_range(ORDER - 1, -1, -1):
            now = grad[j]
            if g_c is not None:
                now += _load(g_c, j * (N + B) + row, D, k, inside)
            if g_h is not None and (READOUT == "sum" or (READOUT == "c" and j == ORDER - 1)):
                now += g_out
            at = K - (ORDER - j) * D + k
            p = _load(x, row, K, at, inside)
            z, g_z, below = p, weight * now, own
            if g_h is not None and (READOUT == "z" and j == ORDER - 1):
                g_z += g_out
            g_p, g_below = g_z, g_z
            if j > 0:
                below = _load(c, (j - 1) * (N + B) + before, D, k, inside)
                z = below * p if MUL else below + p
                if MUL:
                    g_p, g_below = g_z * below, g_z * p
            g_decay += now * (own - z) if NORMALIZE else now * own
            tl.store(g_x + row * K + at, g_p, mask=inside)
            earlier = (decay * now + from_above,) + earlier
            own, from_above = below, g_below
        grad = earlier
        if GATE == "logits":
            g_decay *= decay - decay * decay
        if g_gate is not None:
            tl.store(g_gate + row * tl.num_programs(1) + tl.program_id(1), tl.sum(g_decay))
        elif GATE != "none":
            tl.store(g_x + row * K + k, g_decay, mask=inside)
        if GATE != "values" and g_params is not None:
            g_shift += g_decay
    for j in tl.static_range(ORDER):
        now = grad[j]
        if g_c is not None:
            now += _load(g_c, j * (N + B) + N + text, D, k, inside)
        tl.store(g_c0 + (j * B + text) * D + k, now, mask=inside)
    if g_params is not None:
        at = g_params + text * 4 * D + k
        tl.store(at, g_shift, mask=inside)
        tl.store(at + D, g_bias, mask=inside)
