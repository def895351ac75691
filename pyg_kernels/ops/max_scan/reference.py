"""The definitions of the maxima over n-grams: plain loops through time.

An n-gram that is not there yet has the value 0 in what they return and takes no part in any
maximum. Both serve second derivatives, ``torch.func`` and ``torch.compile``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing


def product_max_scan(
    projections: Sequence[Tensor],
    decay: Tensor,
    packing: Packing,
    c_max: Tensor,
    c_min: Tensor,
    seen: Tensor,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    r"""The largest and the smallest product over all n-grams, token by token.

    .. math::
        z_1^{max}[t] = z_1^{min}[t] = P_1[t], \qquad
        z_j^{max}[t] = \max(P_j[t]\, c_{j-1}^{max}[t-1],\; P_j[t]\, c_{j-1}^{min}[t-1])

        c_j^{max}[t] = \max(\lambda_t\, c_j^{max}[t-1],\; z_j^{max}[t])

    and the minima likewise. :math:`c_j` is there from token j on.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.
        decay: :math:`\lambda \geq 0`: :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or :obj:`(N, D)`.
        packing: The texts.
        c_max: The largest products so far, :obj:`(n, num_texts, D)`.
        c_min: The smallest, of the same shape.
        seen: The tokens read so far, :obj:`(num_texts,)`.

    Returns:
        The n tensors :math:`c_j^{max}`, the n tensors :math:`c_j^{min}`, and :math:`z_n^{max}`,
        each :obj:`(N, D)`.
    """
    order = len(projections)
    steps = [packing.split(p) for p in projections]
    decays = packing.split(decay) if decay.dim() == 2 else (decay,) * packing.num_steps
    high, low = list(c_max), list(c_min)
    highs: list[list[Tensor]] = [[] for _ in projections]
    lows: list[list[Tensor]] = [[] for _ in projections]
    z = []
    for t, size in enumerate(packing.batch_sizes):
        read = (seen[:size] + t).unsqueeze(1)
        high, low = [c[:size] for c in high], [c[:size] for c in low]
        for j in range(order, 0, -1):
            z_high = z_low = p = steps[j - 1][t]
            if j > 1:
                swaps, is_there = p < 0, read + 1 >= j
                z_high = p * torch.where(swaps, low[j - 2], high[j - 2])
                z_low = p * torch.where(swaps, high[j - 2], low[j - 2])
                z_high, z_low = torch.where(is_there, z_high, 0), torch.where(is_there, z_low, 0)
            if j == order:
                z.append(z_high)
            was_there = read >= j
            kept_high, kept_low = decays[t] * high[j - 1], decays[t] * low[j - 1]
            high[j - 1] = torch.where(was_there & (kept_high >= z_high), kept_high, z_high)
            low[j - 1] = torch.where(was_there & (kept_low <= z_low), kept_low, z_low)
        for kept, now in zip(highs + lows, high + low, strict=True):
            kept.append(now)
    return [torch.cat(c) for c in highs], [torch.cat(c) for c in lows], torch.cat(z)


def sum_max_scan(
    projections: Sequence[Tensor],
    decay: Tensor,
    packing: Packing,
    table: Tensor,
    c: Tensor,
    seen: Tensor,
) -> tuple[list[Tensor], Tensor, Tensor]:
    r"""The largest decayed sum over all n-grams, token by token.

    :math:`B_j[s]` is the largest sum of a j-gram that starts at s, before decay. At token t, for
    j = n, ..., 2 and each start s < t, all from the values before t,

    .. math::
        z_j[t] = \max_s \lambda^{t-s-j+1} (B_{j-1}[s] + P_j[t]), \qquad
        B_j[s] \leftarrow \max(B_j[s],\; B_{j-1}[s] + P_j[t])

    with :math:`z_1[t] = P_1[t]`, then :math:`B_1[t] = P_1[t]` and
    :math:`c_j[t] = \max(\lambda\, c_j[t-1], z_j[t])`, which is
    :math:`\max_s \lambda^{t-s-j+1} B_j[s]`.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.
        decay: :math:`\lambda \geq 0`, :obj:`(1,)` or :obj:`(D,)`.
        packing: The texts.
        table: :math:`B_j[s]` of the S latest starts before the first token, the latest last,
            :obj:`(n, S, num_texts, D)`.
        c: :math:`c_j` before the first token, :obj:`(n, num_texts, D)`.
        seen: The tokens read so far, :obj:`(num_texts,)`.

    Returns:
        The n tensors :math:`c_j`, and :math:`z_n`, each :obj:`(N, D)`, and the table with a row
        for each time step added, :obj:`(n, S + T, num_texts, D)`.
    """
    order = len(projections)
    steps = [packing.split(p) for p in projections]
    tables, states = list(table), list(c)
    found: list[list[Tensor]] = [[] for _ in projections]
    z = []
    for t, size in enumerate(packing.batch_sizes):
        read = seen[:size] + t
        lag = torch.arange(tables[0].size(0), 0, -1, device=seen.device).view(-1, 1, 1)
        is_start = lag <= read.unsqueeze(1)
        for j in range(order, 0, -1):
            now = steps[j - 1][t]
            if j > 1 and not lag.numel():
                now = torch.zeros_like(now)
            elif j > 1:
                longer = tables[j - 1][:, :size]
                sums = tables[j - 2][:, :size] + now
                is_there, was_there = is_start & (lag >= j - 1), lag >= j
                scores = decay_powers(decay, lag - (j - 1)) * sums
                best = torch.where(is_there, scores, -torch.inf).max(0).values
                now = torch.where((read + 1 >= j).unsqueeze(1), best, 0)
                better = is_there & ~(was_there & (longer >= sums))
                ended = tables[j - 1][:, size:]
                tables[j - 1] = torch.cat([torch.where(better, sums, longer), ended], dim=1)
            if j == order:
                z.append(now)
            kept = decay * states[j - 1][:size]
            was_there = (read >= j).unsqueeze(1)
            states[j - 1] = torch.where(was_there & (kept >= now), kept, now)
            found[j - 1].append(states[j - 1])
        ended = table.new_zeros(packing.num_texts - size, table.size(3))
        starts = [
            torch.cat([steps[0][t], ended]),
            *[table.new_zeros(table.shape[2:])] * (order - 1),
        ]
        tables = [torch.cat([b, start[None]]) for b, start in zip(tables, starts, strict=True)]
    return [torch.cat(rows) for rows in found], torch.cat(z), torch.stack(tables)


def decay_powers(decay: Tensor, exponents: Tensor) -> Tensor:
    """The decay to whole exponents, with 0 ** 0 = 1; negative exponents count as 0.

    Both derivatives are finite at decay 0.

    Args:
        decay: :obj:`(1,)` or :obj:`(D,)`.
        exponents: Of shape :obj:`(..., 1)`.
    """
    return torch.where(exponents <= 0, 1.0, decay ** exponents.clamp(min=1))
