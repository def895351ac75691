"""The definition of the largest decayed sums: a plain loop through time."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout


class Form(NamedTuple):
    """The number of orders n."""

    order: int


def sum_max_scan(
    form: Form, layout: Layout, x: Tensor, decay: Tensor, table: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest sums that end at each token, and those that start at each one.

    Args:
        x: The projections, (N, n * D).
        decay: (1,) or (D,).
        table: The largest sums that start at each token read before, without decay, (n, B, S, D).
        seen: The number of tokens read before, (B,).

    Returns:
        :math:`z_2, ..., z_n`, (N, n - 1, D), minus infinity where there is none, and the table
        after the last token, (n, B, S + T, D).
    """
    (order, texts, size, channels), steps = table.shape, layout.num_steps
    if not steps:
        return x.new_zeros(x.size(0), order - 1, channels), table.clone()
    tables = list(torch.cat((table, table.new_zeros(order, texts, steps, channels)), 2))
    starts, outs = torch.arange(size + steps, device=x.device), []
    for t in range(steps):
        token, lag = layout.has_token(t), ((seen + t).unsqueeze(1) - starts).unsqueeze(2)
        p, ends = layout.rows_at(x, t).split(channels, 1), []
        for j in range(order, 1, -1):
            sums, longer = tables[j - 2] + p[j - 1].unsqueeze(1), tables[j - 1]
            is_there, was_there = lag >= j - 1, lag >= j
            scores = decay_powers(decay, lag - (j - 1)) * sums
            ends.append(torch.where(is_there, scores, -torch.inf).max(1).values)
            stays = was_there & ((longer >= sums) | longer.isnan())
            tables[j - 1] = torch.where(is_there & ~stays & token.unsqueeze(2), sums, longer)
        begins = (lag == 0) & token.unsqueeze(2)
        tables[0] = torch.where(begins, p[0].unsqueeze(1), tables[0])
        outs.append(torch.cat([*reversed(ends), p[0][:, :0]], 1))
    return layout.collect(outs).view(x.size(0), order - 1, channels), torch.stack(tables)


def largest_sums(table: Tensor, decay: Tensor, seen: Tensor) -> Tensor:
    """The largest decayed sums at the last token read, (n, B, D), from a table (n, B, S, D)."""
    gap = gaps(table.size(0), table.size(2), seen)
    scores = torch.where(gap >= 0, decay_powers(decay, gap) * table, -torch.inf)
    none = scores.new_full((*scores.shape[:2], 1, scores.size(3)), -torch.inf)
    return torch.cat((scores, none), 2).max(2).values


def gaps(order: int, size: int, seen: Tensor) -> Tensor:
    """How many tokens the j-grams that start at each token have skipped, (n, B, S, 1).

    Negative where there is none yet.
    """
    j = torch.arange(1, order + 1, device=seen.device).view(-1, 1, 1)
    found = seen.unsqueeze(1) - torch.arange(size, device=seen.device) - j
    return found.unsqueeze(3)


def decay_powers(decay: Tensor, exponents: Tensor) -> Tensor:
    """The decay to whole exponents, with 0 ** 0 = 1; negative exponents count as 0.

    Both derivatives are finite at decay 0.

    Args:
        decay: (1,) or (D,).
        exponents: Of shape (..., 1).
    """
    return torch.where(exponents <= 0, 1.0, decay ** exponents.clamp(min=1))
