"""The Triton kernels of the walk scan. Importing this file imports Triton.

A program takes one text and one block of channels through time, all orders at once, with the
states in registers as float32. No two programs share a channel of a text, so sums over texts and
channels are left to the caller, as partial sums.

What there is of every order comes as four arguments, None where there is no such order.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load(pointer, row, stride, columns, inside, ALIGNMENT: tl.constexpr):
    """A block of a row as float32.

    All rows start at a multiple of ALIGNMENT bytes. Were that not said, a thread would load its
    channels one by one, and no load of less than 4 bytes can be issued ahead of the loop.
    """
    pointers = tl.multiple_of(pointer + columns + row * stride, ALIGNMENT)
    return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _initial_state(p, initial, row, columns, inside, D: tl.constexpr, BLOCK: tl.constexpr):
    """The state before the first token of the order that p belongs to."""
    if p is None or initial is None:
        state = tl.zeros([BLOCK], tl.float32)
    else:
        state = tl.load(initial + row * D + columns, mask=inside, other=0.0).to(tl.float32)
    return state


@triton.jit
def _decay_of_all_tokens(
    decay,
    constant,
    columns,
    inside,
    BY_TOKEN: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if decay is None or BY_TOKEN:
        lam = tl.zeros([BLOCK], tl.float32) + constant
    else:
        lam = tl.load(decay + columns * BY_CHANNEL, mask=inside, other=0.0).to(tl.float32)
    return lam


@triton.jit
def _step(lam, weight, c, below, p, MUL: tl.constexpr):
    """The next state of an order from its own and the order's below it."""
    z = below * p if MUL else below + p
    return lam * c + weight * z


@triton.jit
def _order_backward(
    d,
    x,
    previous,
    previous_below,
    weight,
    d_lam,
    grad_p,
    out,
    inside,
    MUL: tl.constexpr,
    NORMALIZE: tl.constexpr,
):
    """Order j's shares in the gradients of P_j[t], decay and c_{j-1}[t-1], from d = dc_j[t]."""
    z = previous_below * x if MUL else previous_below + x
    d_lam += d * (previous - z) if NORMALIZE else d * previous
    d_z = weight * d
    if grad_p is not None:
        tl.store(grad_p + out, d_z * previous_below if MUL else d_z, mask=inside)
    return d_lam, d_z * x if MUL else d_z


@triton.jit(do_not_specialize=["num_texts", "num_steps"])
def forward(
    p1,
    p2,
    p3,
    p4,
    p1_stride,
    p2_stride,
    p3_stride,
    p4_stride,
    decay,
    decay_stride,
    constant,
    initial,
    index,
    c1,
    c2,
    c3,
    c4,
    num_texts,
    num_steps,
    D: tl.constexpr,
    MUL: tl.constexpr,
    NORMALIZE: tl.constexpr,
    BY_TOKEN: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
    STAGES: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """The states c_1, ..., c_n of the projections p_1, ..., p_n."""
    blocks: tl.constexpr = (D + BLOCK - 1) // BLOCK
    text = (tl.program_id(0) // blocks).to(tl.int64 if WIDE else tl.int32)
    columns = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = columns < D
    length = num_steps if index is None else tl.load(index + num_steps + text)

    s1 = _initial_state(p1, initial, text, columns, inside, D, BLOCK)
    s2 = _initial_state(p2, initial, num_texts + text, columns, inside, D, BLOCK)
    s3 = _initial_state(p3, initial, 2 * num_texts + text, columns, inside, D, BLOCK)
    s4 = _initial_state(p4, initial, 3 * num_texts + text, columns, inside, D, BLOCK)
    lam = _decay_of_all_tokens(decay, constant, columns, inside, BY_TOKEN, BY_CHANNEL, BLOCK)

    for t in tl.range(0, length, num_stages=STAGES, loop_unroll_factor=UNROLL):
        row = t * num_texts + text if index is None else tl.load(index + t) + text
        out = row * D + columns
        if BY_TOKEN:
            lam = _load(decay, row, decay_stride, columns * BY_CHANNEL, inside, ALIGNMENT)
        weight = 1 - lam if NORMALIZE else 1.0
        x1 = _load(p1, row, p1_stride, columns, inside, ALIGNMENT)
        if p2 is not None:
            x2 = _load(p2, row, p2_stride, columns, inside, ALIGNMENT)
        if p3 is not None:
            x3 = _load(p3, row, p3_stride, columns, inside, ALIGNMENT)
        if p4 is not None:
            x4 = _load(p4, row, p4_stride, columns, inside, ALIGNMENT)
        # The highest order first: each reads the one below it as it was a token earlier.
        if p4 is not None:
            s4 = _step(lam, weight, s4, s3, x4, MUL)
            tl.store(c4 + out, s4, mask=inside)
        if p3 is not None:
            s3 = _step(lam, weight, s3, s2, x3, MUL)
            tl.store(c3 + out, s3, mask=inside)
        if p2 is not None:
            s2 = _step(lam, weight, s2, s1, x2, MUL)
            tl.store(c2 + out, s2, mask=inside)
        s1 = lam * s1 + weight * x1
        tl.store(c1 + out, s1, mask=inside)


@triton.jit(do_not_specialize=["num_texts", "num_steps"])
def backward(
    p1,
    p2,
    p3,
    p4,
    p1_stride,
    p2_stride,
    p3_stride,
    p4_stride,
    decay,
    decay_stride,
    constant,
    initial,
    index,
    c1,
    c2,
    c3,
    c4,
    grad_c1,
    grad_c2,
    grad_c3,
    grad_c4,
    grad_c1_stride,
    grad_c2_stride,
    grad_c3_stride,
    grad_c4_stride,
    grad_p1,
    grad_p2,
    grad_p3,
    grad_p4,
    grad_decay,
    grad_initial,
    num_texts,
    num_steps,
    D: tl.constexpr,
    MUL: tl.constexpr,
    NORMALIZE: tl.constexpr,
    BY_TOKEN: tl.constexpr,
    BY_CHANNEL: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
    STAGES: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """The gradients, from the last token to the first; those that are None are left out.

    grad_decay is (N, D), one number a token and block for a decay (N, 1), or, for a decay that
    all tokens share, (num_texts, D): what each text and channel adds to it.
    """
    blocks: tl.constexpr = (D + BLOCK - 1) // BLOCK
    block = tl.program_id(0) % blocks
    text = (tl.program_id(0) // blocks).to(tl.int64 if WIDE else tl.int32)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    inside = columns < D
    length = num_steps if index is None else tl.load(index + num_steps + text)

    i1 = _initial_state(p1, initial, text, columns, inside, D, BLOCK)
    i2 = _initial_state(p2, initial, num_texts + text, columns, inside, D, BLOCK)
    i3 = _initial_state(p3, initial, 2 * num_texts + text, columns, inside, D, BLOCK)
    i4 = _initial_state(p4, initial, 3 * num_texts + text, columns, inside, D, BLOCK)
    lam = _decay_of_all_tokens(decay, constant, columns, inside, BY_TOKEN, BY_CHANNEL, BLOCK)
    # d_j is the gradient of c_j[t], through later tokens too.
    d1 = tl.zeros([BLOCK], tl.float32)
    d2 = tl.zeros([BLOCK], tl.float32)
    d3 = tl.zeros([BLOCK], tl.float32)
    d4 = tl.zeros([BLOCK], tl.float32)
    d_lam = tl.zeros([BLOCK], tl.float32)

    for i in tl.range(0, length, num_stages=STAGES, loop_unroll_factor=UNROLL):
        t = length - 1 - i
        if index is None:
            row = t * num_texts + text
            before = row - num_texts
        else:
            row = tl.load(index + t) + text
            before = tl.load(index + tl.maximum(t - 1, 0)) + text
        out = row * D + columns
        # As a block, not a number: masks made of a number are none to the interpreter.
        has_before = inside & (tl.zeros([BLOCK], tl.int32) + t > 0)
        if BY_TOKEN:
            lam = _load(decay, row, decay_stride, columns * BY_CHANNEL, inside, ALIGNMENT)
        weight = 1 - lam if NORMALIZE else 1.0

        # Loads whose value is not wanted (of c without products or a gradient of decay, say) are
        # dead code, which the compiler drops.
        x1 = _load(p1, row, p1_stride, columns, inside, ALIGNMENT)
        s1 = tl.where(has_before, _load(c1, before, D, columns, has_before, ALIGNMENT), i1)
        if grad_c1 is not None:
            d1 += _load(grad_c1, row, grad_c1_stride, columns, inside, ALIGNMENT)
        if p2 is not None:
            x2 = _load(p2, row, p2_stride, columns, inside, ALIGNMENT)
            s2 = tl.where(has_before, _load(c2, before, D, columns, has_before, ALIGNMENT), i2)
        if grad_c2 is not None:
            d2 += _load(grad_c2, row, grad_c2_stride, columns, inside, ALIGNMENT)
        if p3 is not None:
            x3 = _load(p3, row, p3_stride, columns, inside, ALIGNMENT)
            s3 = tl.where(has_before, _load(c3, before, D, columns, has_before, ALIGNMENT), i3)
        if grad_c3 is not None:
            d3 += _load(grad_c3, row, grad_c3_stride, columns, inside, ALIGNMENT)
        if p4 is not None:
            x4 = _load(p4, row, p4_stride, columns, inside, ALIGNMENT)
            s4 = tl.where(has_before, _load(c4, before, D, columns, has_before, ALIGNMENT), i4)
        if grad_c4 is not None:
            d4 += _load(grad_c4, row, grad_c4_stride, columns, inside, ALIGNMENT)

        if BY_TOKEN:
            d_lam = tl.zeros([BLOCK], tl.float32)
        d_lam += d1 * (s1 - x1) if NORMALIZE else d1 * s1
        if grad_p1 is not None:
            tl.store(grad_p1 + out, weight * d1, mask=inside)
        d1 = lam * d1
        if p2 is not None:
            d_lam, d_below = _order_backward(
                d2, x2, s2, s1, weight, d_lam, grad_p2, out, inside, MUL, NORMALIZE
            )
            d1 += d_below
            d2 = lam * d2
        if p3 is not None:
            d_lam, d_below = _order_backward(
                d3, x3, s3, s2, weight, d_lam, grad_p3, out, inside, MUL, NORMALIZE
            )
            d2 += d_below
            d3 = lam * d3
        if p4 is not None:
            d_lam, d_below = _order_backward(
                d4, x4, s4, s3, weight, d_lam, grad_p4, out, inside, MUL, NORMALIZE
            )
            d3 += d_below
            d4 = lam * d4
        if grad_decay is not None and BY_TOKEN:
            if BY_CHANNEL:
                tl.store(grad_decay + out, d_lam, mask=inside)
            else:
                tl.store(grad_decay + row * blocks + block, tl.sum(d_lam))

    # Of the texts' share in a common decay and of the initial states there is one row a text.
    if grad_decay is not None and not BY_TOKEN:
        tl.store(grad_decay + text * D + columns, d_lam, mask=inside)
    if grad_initial is not None:
        tl.store(grad_initial + text * D + columns, d1, mask=inside)
        if p2 is not None:
            tl.store(grad_initial + (num_texts + text) * D + columns, d2, mask=inside)
        if p3 is not None:
            tl.store(grad_initial + (2 * num_texts + text) * D + columns, d3, mask=inside)
        if p4 is not None:
            tl.store(grad_initial + (3 * num_texts + text) * D + columns, d4, mask=inside)
