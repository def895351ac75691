"""Linear recurrences through time: one at a time, and those of walks of all orders together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.linear_scan.blocked import WalkScan
from pyg_kernels.ops.linear_scan.choice import (
    chunks_pay,
    computed_in,
    fuses_orders,
    fuses_products,
    path_in_use,
)
from pyg_kernels.ops.linear_scan.chunked import LinearScan
from pyg_kernels.ops.linear_scan.projected import ProjectedWalkScan
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import transforms_active

__all__ = [
    "fuses_orders",
    "fuses_products",
    "linear_scan",
    "path_in_use",
    "projected_walk_scan",
    "walk_scan",
]


def linear_scan(
    a: Tensor | float,
    b: Tensor,
    initial: Tensor | None = None,
    *,
    ptr: Tensor | None = None,
    normalize: bool = False,
) -> Tensor:
    r"""The first-order linear recurrence

    .. math::
        c_t = a_t \odot c_{t-1} + (1 - a_t)^\nu \odot b_t, \qquad t = 1, \ldots, T

    with :math:`\nu` = 0, or 1 with :obj:`normalize`. Any real coefficients will do.

    Args:
        a: The coefficients: a number, or a tensor that expands to the shape of :obj:`b`, such as
            a vector of :obj:`(D,)` or a number a step, :obj:`(T, 1, 1)`.
        b: The inputs, of shape :obj:`(T, ...)`.
        initial: The state :math:`c_0`, of shape :obj:`(...)`, zero by default; with :obj:`ptr`
            one a sequence, :obj:`(S, ...)`.
        ptr: Where S sequences that lie one after the other in :obj:`b` begin and end,
            :obj:`(S + 1,)`: the recurrence starts anew with each.
        normalize: Whether inputs are weighted by :math:`1 - a_t`.

    Returns:
        The states :math:`c_1, \ldots, c_T`, of the shape of :obj:`b`, in the common dtype.

    Raises:
        ValueError: Where the shapes do not fit, or :obj:`ptr` does not go from 0 to T.
    """
    if b.dim() == 0:
        raise ValueError("b is a number: expected a tensor of shape (T, ...)")
    if not isinstance(a, Tensor):
        a = torch.tensor(a, dtype=torch.float64, device=b.device)
    vector = a if a.dim() else None  # a number takes b's type
    result = common_dtype(b, vector, initial)
    dtype = computed_in(result)
    a = a.to(dtype)
    _check_coefficients(a, b)
    starts = () if ptr is None else (ptr.numel() - 1,)
    shape = (*starts, *b.shape[1:])
    if initial is None:
        initial = b.new_zeros(shape)
    elif initial.shape != shape:
        raise ValueError(f"initial has shape {tuple(initial.shape)}: expected {shape}")
    if ptr is None and b.numel() and path_in_use(b.device, result) == "triton":
        return _by_rows(a, b.to(result), initial, normalize)
    b, initial = b.to(dtype), initial.to(dtype)
    if ptr is None:
        return _scan(a, b, initial, normalize).to(result)
    c = _scan(*_with_resets(a, b, initial, ptr, normalize), False, ptr)
    if not transforms_active() and not bool(c.detach().sum().isfinite()):
        c = _one_by_one(a, b, initial, ptr, normalize)
    return c.to(result)


def walk_scan(
    projections: Sequence[Tensor],
    decay: float | Tensor,
    packing: Packing,
    initial: Tensor | None = None,
    combine: str = "mul",
    normalize: bool = False,
) -> tuple[Tensor, ...]:
    r"""The aggregated states of walks of all orders along texts, in one pass through time.

    .. math::
        z_1[t] = P_1[t], \qquad z_j[t] = c_{j-1}[t-1] \circ P_j[t], \qquad
        c_j[t] = \lambda_t \odot c_j[t-1] + (1 - \lambda_t)^\nu \odot z_j[t]

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`, in the order of the packing.
        decay: :math:`\lambda`: a number or a tensor :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or
            :obj:`(N, D)`.
        packing: The texts.
        initial: :math:`c_j[0]`, of shape :obj:`(n, num_texts, D)`, zero by default.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether :math:`\nu` is 1 or 0.

    Returns:
        :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.
    """
    first = projections[0]
    result = common_dtype(first, *projections[1:], initial)
    path = path_in_use(first.device, result)
    if path == "triton":
        from pyg_kernels.ops.linear_scan import triton

        given = [p.to(result) for p in projections]
        return triton.walk_scan(given, decay, packing, initial, combine, normalize)
    dtype = computed_in(result)
    if not isinstance(decay, Tensor):
        decay = first.new_full((1,), decay, dtype=dtype)
    if initial is None:
        initial = first.new_zeros(len(projections), packing.num_texts, first.size(1))
    projections = [p.to(dtype) for p in projections]
    decay, initial = decay.to(dtype), initial.to(dtype)
    if path == "definition":
        every = decay.expand_as(first)
        states = reference.walk_scan(projections, every, packing, initial, combine, normalize)
    else:
        states = WalkScan.apply(packing, combine, normalize, decay, initial, *projections)
    return tuple(c.to(result) for c in states)


def projected_walk_scan(
    x: Tensor,
    weights: Sequence[Tensor],
    gate: tuple[Tensor, Tensor] | None,
    decay: float | Tensor | None,
    packing: Packing,
    initial: Tensor,
    combine: str = "mul",
    normalize: bool = False,
    act: str | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    r"""`walk_scan` of :math:`P_j = x W_j^\top`, where `fuses_products` says so: in one op.

    Args:
        x: The tokens, :obj:`(N, F)`, in the order of the packing.
        weights: :math:`W_1, \ldots, W_n`, each :obj:`(D, F)`.
        gate: The weight, :obj:`(D or 1, F)`, and the bias of the gate
            :math:`\lambda_t = \mathrm{sigmoid}(U x_t + b)`; None where the decay is given.
        decay: A number or a tensor :obj:`(1,)` or :obj:`(D,)`; None where it is gated.
        packing: The texts.
        initial: :math:`c_j[0]`, :obj:`(n, num_texts, D)`.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether :math:`\nu` is 1.
        act: ``'tanh'``, ``'relu'`` or None for the identity.
        bias: What is added to :math:`c_n` before the activation, :obj:`(D,)`, or None.

    Returns:
        The activation of :math:`c_n + b`, and :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.
    """
    if isinstance(decay, float):
        decay = x.new_full((1,), decay)
    if gate is not None:
        weights = [*weights, gate[0]]
    gate_bias = None if gate is None else gate[1]
    outputs = ProjectedWalkScan.apply(
        packing,
        combine,
        normalize,
        act,
        x.contiguous(),
        bias,
        gate_bias,
        decay,
        initial,
        *weights,
    )
    return outputs[: 1 + initial.size(0)]


def _scan(
    a: Tensor, b: Tensor, initial: Tensor, normalize: bool, ptr: Tensor | None = None
) -> Tensor:
    if transforms_active():
        return reference.linear_scan(a.expand(b.shape), b, initial, normalize)
    if chunks_pay(b.size(0), b[:1].numel(), b.device) or not b.numel():
        return LinearScan.apply(a, b, initial, normalize, ptr)
    return _by_rows(a, b, initial, normalize)


def _one_by_one(a: Tensor, b: Tensor, initial: Tensor, ptr: Tensor, normalize: bool) -> Tensor:
    """Each sequence alone: zero times infinity would carry one's infinity into the next."""
    lengths = ptr.diff().tolist()
    every = a.expand(b.shape).split(lengths)
    parts = zip(every, b.split(lengths), initial, strict=True)
    return torch.cat([_scan(*part, normalize) for part in parts])


def _by_rows(a: Tensor, b: Tensor, initial: Tensor, normalize: bool) -> Tensor:
    """The scan as that of walks of one token: what lies between time and channels are texts."""
    steps, channels = b.size(0), b.size(-1) if b.dim() > 1 else 1
    texts = b[0].numel() // channels
    packing = Packing.of_equal_lengths(steps, texts)
    if a.dim() < 2 and b.dim() > 1:
        decay = a.reshape(-1)
    else:
        width = a.size(-1) if b.dim() > 1 else 1
        shape = (*b.shape[:-1], width) if b.dim() > 1 else (*b.shape, 1)
        decay = a.expand(shape[: b.dim()]).reshape(steps * texts, width)
    (c,) = walk_scan(
        [b.reshape(steps * texts, channels)],
        decay,
        packing,
        initial.reshape(1, texts, channels),
        normalize=normalize,
    )
    return c.view(b.shape)


def _with_resets(
    a: Tensor, b: Tensor, initial: Tensor, ptr: Tensor, normalize: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The recurrence of many sequences as that of one: zero coefficients where one begins."""
    steps = b.size(0)
    if ptr.dim() != 1 or ptr.dtype not in (torch.int32, torch.int64) or not ptr.numel():
        raise ValueError("ptr: expected whole numbers of shape (S + 1,)")
    lengths = ptr.diff()
    if int(ptr[0]) != 0 or int(ptr[-1]) != steps or bool((lengths < 0).any()):
        raise ValueError(f"ptr: expected numbers that grow from 0 to {steps}, the length of b")
    filled = lengths > 0
    starts = ptr[:-1][filled].long()
    every = a.expand(b.shape)
    if normalize:
        b = b - every * b
    begun = every.index_select(0, starts) * initial[filled]
    b = b.index_add(0, starts, begun)
    return every.index_fill(0, starts, 0.0), b, b.new_zeros(b.shape[1:])


def _check_coefficients(a: Tensor, b: Tensor) -> None:
    try:
        fits = torch.broadcast_shapes(a.shape, b.shape) == b.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"a has shape {tuple(a.shape)}: expected one that expands to b's, {tuple(b.shape)}"
        )
