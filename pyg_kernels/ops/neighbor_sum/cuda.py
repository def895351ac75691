"""The neighbour sum in Triton, a program a node: no atomics, the same bits every run.

What belongs to edge types is written edge by edge, and added up by type after that.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_GATE_TARGET, _TABLES = 2, (3, 4, 5)

_Tensors = Sequence[Tensor | None]


def forward(
    tensors: _Tensors, index: _Tensors, by_target: _Tensors, num_targets: int, act: str
) -> Tensor:
    """The sums; arguments as those of the op."""
    tensors = _contiguous(tensors)
    assert tensors[0] is not None
    out = tensors[0].new_empty(num_targets, tensors[0].size(1))
    _run(_forward, num_targets, out, *by_target, *index, *tensors, act=act)
    return out


def backward(
    grad: Tensor,
    tensors: _Tensors,
    index: _Tensors,
    by_target: _Tensors,
    by_source: _Tensors,
    needed: Sequence[bool],
    act: str,
) -> list[Tensor | None]:
    """The gradients of the tensors that need them."""
    tensors, grad, edge_type = _contiguous(tensors), grad.contiguous(), index[2]
    (z, *_), edges = tensors, index[0]
    assert z is not None and edges is not None
    grads: list[Tensor | None] = []
    for k, (tensor, need) in enumerate(zip(tensors, needed, strict=False)):
        if tensor is None or not need:
            grads.append(None)
        else:
            rows = edges.numel() if k in _TABLES else tensor.size(0)
            grads.append(z.new_empty(rows, *tensor.shape[1:]))
    on_target = grads[_GATE_TARGET]
    if on_target is not None:
        _run(_backward_target, grad.size(0), on_target, *by_target, *index, *tensors, grad, act=act)
    others = [g for k, g in enumerate(grads) if k != _GATE_TARGET]
    if any(g is not None for g in others):
        _run(_backward_source, z.size(0), z, *by_source, *index, *tensors, grad, *others, act=act)
    for k in _TABLES:
        on_edges, table = grads[k], tensors[k]
        if edge_type is not None and on_edges is not None and table is not None:
            # Sorts on CUDA, where `index_add_` would add in any order.
            grads[k] = torch.zeros_like(table).index_put_((edge_type,), on_edges, accumulate=True)
    return grads


def _contiguous(tensors: _Tensors) -> list[Tensor | None]:
    return [None if t is None else t.contiguous() for t in tensors]


def _run(kernel, programs: int, wide: Tensor, *args: Tensor | None, act: str) -> None:
    channels = wide.size(1)
    if programs and channels:
        block = triton.next_power_of_2(channels)
        kernel[(programs,)](wide, *args, channels, ACT=act, BLOCK=block)


@triton.jit
def _row(table, row, columns, inside, D):
    return tl.load(table + row * D + columns, mask=inside, other=0.0)


@triton.jit
def _message(z, shift, u, r, columns, inside, D, ACT: tl.constexpr):
    """The shifted and activated state of a source."""
    x = _row(z, u, columns, inside, D)
    if shift is not None:
        x += _row(shift, r, columns, inside, D)
    if ACT == "relu":
        x = tl.where(x < 0, 0.0, x)  # lets NaN through
    elif ACT == "tanh":
        x = 2 * tl.sigmoid(2 * x) - 1
    elif ACT == "sigmoid":
        x = tl.sigmoid(x)
    return x


@triton.jit
def _gate(gate_source, gate_target, gate_edge, u, v, r, columns, inside, D):
    logit = _row(gate_source, u, columns, inside, D) + _row(gate_target, v, columns, inside, D)
    if gate_edge is not None:
        logit += _row(gate_edge, r, columns, inside, D)
    return tl.sigmoid(logit)


@triton.jit
def _weights(factor, weight, e, r, columns, inside, D):
    """The factor of an edge's type and the weight of the edge."""
    scale = tl.full(columns.shape, 1.0, tl.float32)
    if factor is not None:
        scale = _row(factor, r, columns, inside, D)
    w = 1.0
    if weight is not None:
        w = tl.load(weight + e)
    return scale, w


@triton.jit
def _forward(
    out, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight,
    D, ACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    v = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    total = tl.zeros([BLOCK], out.dtype.element_ty)
    for i in range(tl.load(offset + v), tl.load(offset + v + 1)):
        e = tl.load(order + i)
        u, r = tl.load(source + e), e
        if edge_type is not None:
            r = tl.load(edge_type + e)
        scale, w = _weights(factor, weight, e, r, columns, inside, D)
        message = w * (scale * _message(z, shift, u, r, columns, inside, D, ACT))
        if gate_source is not None:
            message *= _gate(gate_source, gate_target, gate_edge, u, v, r, columns, inside, D)
        total += message
    tl.store(out + v * D + columns, total, mask=inside)


@triton.jit
def _backward_target(
    on_target, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight, grad,
    D, ACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    v = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    total = tl.zeros([BLOCK], on_target.dtype.element_ty)
    for i in range(tl.load(offset + v), tl.load(offset + v + 1)):
        e = tl.load(order + i)
        u, r = tl.load(source + e), e
        if edge_type is not None:
            r = tl.load(edge_type + e)
        scale, w = _weights(factor, weight, e, r, columns, inside, D)
        message = w * (scale * _message(z, shift, u, r, columns, inside, D, ACT))
        gate = _gate(gate_source, gate_target, gate_edge, u, v, r, columns, inside, D)
        total += message * (gate - gate * gate)
    total *= _row(grad, v, columns, inside, D)
    tl.store(on_target + v * D + columns, total, mask=inside)


@triton.jit
def _backward_source(
    like, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight, grad,
    on_z, on_source, on_edge, on_factor, on_shift, on_weight,
    D, ACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    u = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    total = tl.zeros([BLOCK], like.dtype.element_ty)
    total_source = tl.zeros([BLOCK], like.dtype.element_ty)
    for i in range(tl.load(offset + u), tl.load(offset + u + 1)):
        e = tl.load(order + i)
        v, r = tl.load(target + e), e
        if edge_type is not None:
            r = tl.load(edge_type + e)
        scale, w = _weights(factor, weight, e, r, columns, inside, D)
        message = _message(z, shift, u, r, columns, inside, D, ACT)
        share = _row(grad, v, columns, inside, D)
        rest = share  # one less the gate
        if gate_source is not None:
            gate = _gate(gate_source, gate_target, gate_edge, u, v, r, columns, inside, D)
            share *= gate
            rest = 1 - gate
        if on_weight is not None:
            tl.store(on_weight + e, tl.sum(share * scale * message, axis=0))
        share *= w
        at = e * D + columns
        if on_factor is not None:
            tl.store(on_factor + at, share * message, mask=inside)
        share *= scale
        if gate_source is not None:
            logit = share * message * rest
            total_source += logit
            if on_edge is not None:
                tl.store(on_edge + at, logit, mask=inside)
        if ACT == "relu":
            share = tl.where(message <= 0, 0.0, share)
        elif ACT == "tanh":
            share -= share * message * message
        elif ACT == "sigmoid":
            share *= message - message * message
        total += share
        if on_shift is not None:
            tl.store(on_shift + at, share, mask=inside)
    if on_z is not None:
        tl.store(on_z + u * D + columns, total, mask=inside)
    if on_source is not None:
        tl.store(on_source + u * D + columns, total_source, mask=inside)
