"""The neighbour sum in Numba: no two tasks write to one node, so that threads need no locks.

Messages and gates are made edge by edge and never kept; the backward makes them again, over the
edges of each source and, for the gradient of the gate's target side, of each target.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from pyg_kernels.ops.compiled import array, inlined, kernel, run, sigmoid, tanh

_NUMBERS = {"none": 0, "relu": 1, "tanh": 2, "sigmoid": 3}
_DIMS = (2, 2, 2, 2, 2, 2, 1)  # of the tensors
_GATE_TARGET, _TABLES = 2, (3, 4, 5)
_MOST_PARTS, _FEWEST_PARTS = 64, 8  # of the sources; each sums over edge types on its own

_Tensors = Sequence[Tensor | None]


def forward(
    tensors: _Tensors, index: _Tensors, by_target: _Tensors, num_targets: int, act: str
) -> Tensor:
    """The sums; arguments as those of the op."""
    z = tensors[0]
    assert z is not None
    out = z.new_empty(num_targets, z.size(1))
    arrays = _arrays(tensors, index, act)
    types = [t.size(0) for t in tensors[3:6] if t is not None]  # without tables, any type will do
    rest = out.numpy(), min(types, default=sys.maxsize)
    run(_forward, num_targets, _work(z, index), *map(array, by_target), *arrays, *rest)
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
    (z, *_), edge_type = tensors, index[2]
    assert z is not None
    wanted = [t is not None and need for t, need in zip(tensors, needed, strict=False)]
    parts = _num_parts(tensors, edge_type)
    grads: list[Tensor | None] = []
    for k, (tensor, want) in enumerate(zip(tensors, wanted, strict=True)):
        if tensor is None or not want:
            grads.append(None)
        elif k not in _TABLES or edge_type is None:
            grads.append(z.new_empty(tensor.shape))
        else:
            grads.append(z.new_zeros(parts, *tensor.shape))
    outs = [array(grad, z, dims) for grad, dims in zip(grads, _DIMS, strict=True)]
    for k in _TABLES:
        outs[k] = outs[k] if outs[k].ndim == 3 else outs[k][None]
    on_target = outs.pop(_GATE_TARGET)
    arrays, work = (*_arrays(tensors, index, act), array(grad)), _work(z, index)
    if wanted[_GATE_TARGET]:
        run(_backward_target, len(on_target), work, *map(array, by_target), *arrays, on_target)
    if any(want for k, want in enumerate(wanted) if k != _GATE_TARGET):
        run(_backward_source, parts, work, parts, *map(array, by_source), *arrays, *outs)
    return [g.sum(0) if g is not None and g.dim() == 3 else g for g in grads]


def _arrays(tensors: _Tensors, index: _Tensors, act: str) -> tuple[np.ndarray | int, ...]:
    z = tensors[0]
    arrays = (array(t, z, dims) for t, dims in zip(tensors, _DIMS, strict=True))
    return *(array(i, index[0], 1) for i in index), *arrays, _NUMBERS[act]


def _work(z: Tensor, index: _Tensors) -> int:
    assert index[0] is not None
    return index[0].numel() * z.size(1)


def _num_parts(tensors: _Tensors, edge_type: Tensor | None) -> int:
    """How many parts the sources are cut into: their sums over types take less than messages."""
    types = max(1 if t is None else t.size(0) for t in (tensors[k] for k in _TABLES))
    if edge_type is None:
        return _MOST_PARTS
    return min(_MOST_PARTS, max(_FEWEST_PARTS, edge_type.numel() // (4 * max(types, 1))))


# Kernels take no views of rows: their reference counts would cost more than short rows.


@inlined
def _activate(z, u, shift, r, act, out):
    zero = z.dtype.type(0)
    if act == 0:
        for d in range(z.shape[1]):
            out[0, d] = z[u, d] + shift[r, d]
    elif act == 1:
        for d in range(z.shape[1]):
            x = z[u, d] + shift[r, d]
            out[0, d] = zero if x < zero else x  # lets NaN through
    elif act == 2:
        for d in range(z.shape[1]):
            out[0, d] = tanh(z[u, d] + shift[r, d])
    else:
        for d in range(z.shape[1]):
            out[0, d] = sigmoid(z[u, d] + shift[r, d])


@inlined
def _before_activation(grad, value, act):
    """Takes a gradient through the activation with these values, in place."""
    zero = grad.dtype.type(0)
    if act == 1:
        for d in range(grad.shape[1]):
            grad[0, d] = zero if value[0, d] <= zero else grad[0, d]
    elif act == 2:
        for d in range(grad.shape[1]):
            grad[0, d] -= grad[0, d] * (value[0, d] * value[0, d])
    elif act == 3:
        for d in range(grad.shape[1]):
            grad[0, d] *= value[0, d] - value[0, d] * value[0, d]


@inlined
def _clear(on_edge, on_factor, on_shift, r):
    for d in range(on_edge.shape[2]):
        on_edge[0, r, d] = 0
    for d in range(on_factor.shape[2]):
        on_factor[0, r, d] = 0
    for d in range(on_shift.shape[2]):
        on_shift[0, r, d] = 0


@kernel
def _forward(
    first, last, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight, act, out, types,
):  # fmt: skip
    D, one = z.shape[1], z.dtype.type(1)
    value = np.empty((1, D), z.dtype)
    typed, gated, has_edge = len(edge_type) > 0, len(gate_source) > 0, len(gate_edge) > 0
    shifted, has_factor = len(shift) > 0, len(factor) > 0
    gk = gate_edge if has_edge else np.zeros((1, D), z.dtype)
    b = factor if has_factor else np.ones((1, D), z.dtype)
    y = value if shifted else z
    for v in range(first, last):
        for d in range(D):
            out[v, d] = 0
        for i in range(offset[v], offset[v + 1]):
            e = order[i]
            u, r = source[e], edge_type[e] if typed else e
            if u < 0 or u >= len(z) or r < 0 or r >= types:
                raise ValueError("an edge names a node or an edge type that is not there")
            w = weight[e] if len(weight) else one
            k, f, x = r if has_edge else 0, r if has_factor else 0, 0 if shifted else u
            if shifted:
                _activate(z, u, shift, r, act, value)
            if gated:
                for d in range(D):
                    gate = sigmoid(gate_source[u, d] + gate_target[v, d] + gk[k, d])
                    out[v, d] += gate * (w * (b[f, d] * y[x, d]))
            else:
                for d in range(D):
                    out[v, d] += w * (b[f, d] * y[x, d])


@kernel
def _backward_target(
    first, last, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight, act, grad, on_target,
):  # fmt: skip
    """The gradient of the gate's logits on targets."""
    D, one = z.shape[1], z.dtype.type(1)
    value = np.empty((1, D), z.dtype)
    typed, has_edge = len(edge_type) > 0, len(gate_edge) > 0
    shifted, has_factor = len(shift) > 0, len(factor) > 0
    gk = gate_edge if has_edge else np.zeros((1, D), z.dtype)
    b = factor if has_factor else np.ones((1, D), z.dtype)
    y = value if shifted else z
    for v in range(first, last):
        for d in range(D):
            on_target[v, d] = 0
        for i in range(offset[v], offset[v + 1]):
            e = order[i]
            u, r = source[e], edge_type[e] if typed else e
            w = weight[e] if len(weight) else one
            k, f, x = r if has_edge else 0, r if has_factor else 0, 0 if shifted else u
            if shifted:
                _activate(z, u, shift, r, act, value)
            for d in range(D):
                gate = sigmoid(gate_source[u, d] + gate_target[v, d] + gk[k, d])
                on_target[v, d] += (w * (b[f, d] * y[x, d])) * (gate - gate * gate)
        for d in range(D):
            on_target[v, d] *= grad[v, d]


@kernel
def _backward_source(
    first, last, parts, offset, order, source, target, edge_type,
    z, gate_source, gate_target, gate_edge, factor, shift, weight, act, grad,
    on_z, on_source, on_edge, on_factor, on_shift, on_weight,
):  # fmt: skip
    """The other gradients: those of edge types as sums of each part of the sources."""
    D, one = z.shape[1], z.dtype.type(1)
    value, share = np.empty((1, D), z.dtype), np.empty((1, D), z.dtype)
    typed, gated, has_edge = len(edge_type) > 0, len(gate_source) > 0, len(gate_edge) > 0
    shifted, has_factor = len(shift) > 0, len(factor) > 0
    gk = gate_edge if has_edge else np.zeros((1, D), z.dtype)
    b = factor if has_factor else np.ones((1, D), z.dtype)
    y = value if shifted else z
    wants_z, wants_source, wants_edge = len(on_z) > 0, len(on_source) > 0, on_edge.shape[1] > 0
    wants_factor, wants_shift = on_factor.shape[1] > 0, on_shift.shape[1] > 0
    gs = on_source if wants_source else np.zeros((1, D), z.dtype)
    ge = on_edge if wants_edge else np.zeros((1, 1, D), z.dtype)
    gf = on_factor if wants_factor else np.zeros((1, 1, D), z.dtype)
    for part in range(first, last):
        p = part if typed else 0
        for u in range(len(z) * part // parts, len(z) * (part + 1) // parts):
            if wants_z:
                for d in range(D):
                    on_z[u, d] = 0
            if wants_source:
                for d in range(D):
                    on_source[u, d] = 0
            for i in range(offset[u], offset[u + 1]):
                e = order[i]
                v, r = target[e], edge_type[e] if typed else e
                w = weight[e] if len(weight) else one
                k, f, x = r if has_edge else 0, r if has_factor else 0, 0 if shifted else u
                a = u if wants_source else 0
                pe, re = p if wants_edge else 0, r if wants_edge else 0
                pf, rf = p if wants_factor else 0, r if wants_factor else 0
                if shifted:
                    _activate(z, u, shift, r, act, value)
                if not typed:
                    _clear(on_edge, on_factor, on_shift, r)
                if gated:
                    for d in range(D):
                        gate = sigmoid(gate_source[u, d] + gate_target[v, d] + gk[k, d])
                        g = grad[v, d] * gate
                        gf[pf, rf, d] += w * g * y[x, d]
                        g *= b[f, d]
                        share[0, d] = g
                        logit = w * g * y[x, d] * (one - gate)
                        gs[a, d] += logit
                        ge[pe, re, d] += logit
                else:
                    for d in range(D):
                        g = grad[v, d]
                        gf[pf, rf, d] += w * g * y[x, d]
                        share[0, d] = g * b[f, d]
                if len(on_weight):
                    total = w - w
                    for d in range(D):
                        total += share[0, d] * y[x, d]
                    on_weight[e] = total
                if shifted:
                    _before_activation(share, value, act)
                if wants_z:
                    for d in range(D):
                        on_z[u, d] += w * share[0, d]
                if wants_shift:
                    for d in range(D):
                        on_shift[p, r, d] += w * share[0, d]


@kernel
def counting_sort(first, last, node, offset, order):
    """Fills `order` with positions, sorted by node, and `offset`, zeros at first."""
    for _ in range(first, last):  # the one task
        for v in node:
            if v < 0 or v >= len(offset) - 1:
                raise ValueError("an edge names a node that is not there")
            offset[v + 1] += 1
        for v in range(1, len(offset)):
            offset[v] += offset[v - 1]
        place = offset.copy()
        for e in range(len(node)):
            v = node[e]
            order[place[v]] = e
            place[v] += 1
