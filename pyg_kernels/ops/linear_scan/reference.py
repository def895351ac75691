"""The definitions of the scans: plain loops through time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing


def linear_scan(a: Tensor, b: Tensor, initial: Tensor, normalize: bool = False) -> Tensor:
    r"""The states :math:`c_t = a_t \odot c_{t-1} + (1 - a_t)^\nu \odot b_t`, one after the other.

    Args:
        a: The coefficients, of the shape of :obj:`b`.
        b: The inputs, of shape :obj:`(T, ...)`.
        initial: :math:`c_0`, of shape :obj:`(...)`.
        normalize: Whether :math:`\nu` is 1 or 0.
    """
    states, c = [], initial
    for a_t, b_t in zip(a, b, strict=True):
        c = a_t * c + ((1 - a_t) * b_t if normalize else b_t)
        states.append(c)
    return torch.stack(states) if states else torch.zeros_like(b)


def walk_scan(
    projections: Sequence[Tensor],
    decay: Tensor,
    packing: Packing,
    initial: Tensor,
    combine: str = "mul",
    normalize: bool = False,
) -> tuple[Tensor, ...]:
    r"""The states of walks of all orders along texts, token by token.

    .. math::
        z_1[t] = P_1[t], \qquad z_j[t] = c_{j-1}[t-1] \circ P_j[t], \qquad
        c_j[t] = \lambda_t \odot c_j[t-1] + (1 - \lambda_t)^\nu \odot z_j[t]

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.
        decay: :math:`\lambda`, :obj:`(N, D)`.
        packing: The texts.
        initial: :math:`c_j[0]`, of shape :obj:`(n, num_texts, D)`.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether :math:`\nu` is 1 or 0.

    Returns:
        :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.
    """
    c = list(initial)
    states: list[list[Tensor]] = [[] for _ in projections]
    steps = [packing.split(p) for p in projections]
    for t, decay_t in enumerate(packing.split(decay)):
        c = [c_j[: decay_t.size(0)] for c_j in c]
        z = [steps[0][t]]
        for c_j, p in zip(c, steps[1:], strict=False):
            z.append(c_j * p[t] if combine == "mul" else c_j + p[t])
        weight = 1 - decay_t if normalize else 1.0
        c = [decay_t * c_j + weight * z_j for c_j, z_j in zip(c, z, strict=True)]
        for kept, c_j in zip(states, c, strict=True):
            kept.append(c_j)
    if not packing.batch_sizes:
        return tuple(torch.zeros_like(p) for p in projections)
    return tuple(torch.cat(kept) for kept in states)
