"""The definitions of the maxima over n-grams: plain loops through time.

An n-gram that is not there yet has the value 0 in what is returned, and takes no part in a maximum.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout


class ProductForm(NamedTuple):
    """Which state is read out."""

    readout: str


class SumForm(NamedTuple):
    """The number of orders n."""

    order: int


def product_max_scan(
    form: ProductForm, layout: Layout, x: Tensor, decay: Tensor, initial: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The state read out, (N, D), and the largest and smallest products at last, (2, n, B, D).

    Args:
        x: The projections, (N, n * D).
        decay: (1,), (D,), (N, 1) or (N, D).
        initial: The largest and the smallest before the first token, (2, n, B, D).
        seen: The number of tokens read before, (B,); below 0 where even single tokens
            count only later.
    """
    order, channels = initial.size(1), initial.size(3)
    if not layout.num_steps:
        return x.new_zeros(x.size(0), channels), initial.clone()
    (high, low), outs = (list(c.unbind()) for c in initial), []
    for t in range(layout.num_steps):
        read, token = (seen + t).unsqueeze(1), layout.has_token(t)
        weight = layout.rows_at(decay, t) if decay.dim() == 2 else decay
        steps = layout.rows_at(x, t).split(channels, 1)
        z = steps[-1]
        for j in range(order, 0, -1):
            z_high = z_low = p = steps[j - 1]
            if j > 1:
                swaps, most, least = p < 0, high[j - 2], low[j - 2]
                z_high = p * torch.where(swaps, least, most)
                z_low = p * torch.where(swaps, most, least)
            is_there, was_there = read + 1 >= j, read >= j
            z_high, z_low = torch.where(is_there, z_high, 0), torch.where(is_there, z_low, 0)
            z = z_high if j == order else z
            kept_high, kept_low = weight * high[j - 1], weight * low[j - 1]
            now_high = torch.where(was_there & _stays(kept_high, z_high), kept_high, z_high)
            now_low = torch.where(was_there & _stays(-kept_low, -z_low), kept_low, z_low)
            high[j - 1] = torch.where(token, now_high, high[j - 1])
            low[j - 1] = torch.where(token, now_low, low[j - 1])
        outs.append({"c": high[-1], "z": z, "sum": torch.stack(high).sum(0)}[form.readout])
    return layout.collect(outs), torch.stack([torch.stack(high), torch.stack(low)])


def sum_max_scan(
    form: SumForm, layout: Layout, x: Tensor, decay: Tensor, table: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest sums that end at each token, and those that start at each one.

    Args:
        x: The projections, (N, n * D).
        decay: (1,) or (D,).
        table: The largest sums that start at each token read before, without decay, (n, B, S, D).
        seen: The number of tokens read before, (B,).

    Returns:
        :math:`z_2, ..., z_n`, (N, n - 1, D), and the table after the last token,
        (n, B, S + T, D).
    """
    (order, texts, size, channels), steps = table.shape, layout.num_steps
    if not steps:
        return x.new_zeros(x.size(0), order - 1, channels), table.clone()
    tables = list(torch.cat((table, table.new_zeros(order, texts, steps, channels)), 2))
    starts, outs = torch.arange(size + steps, device=x.device), []
    for t in range(steps):
        read, token = (seen + t).unsqueeze(1), layout.has_token(t)
        lag = (read - starts).unsqueeze(2)
        p, ends = layout.rows_at(x, t).split(channels, 1), []
        for j in range(order, 1, -1):
            sums, longer = tables[j - 2] + p[j - 1].unsqueeze(1), tables[j - 1]
            is_there, was_there = lag >= j - 1, lag >= j
            scores = decay_powers(decay, lag - (j - 1)) * sums
            best = torch.where(is_there, scores, -torch.inf).max(1).values
            ends.append(torch.where(read + 1 >= j, best, 0))
            grows = is_there & ~(was_there & _stays(longer, sums)) & token.unsqueeze(2)
            tables[j - 1] = torch.where(grows, sums, longer)
        begins = (lag == 0) & token.unsqueeze(2)
        tables[0] = torch.where(begins, p[0].unsqueeze(1), tables[0])
        outs.append(torch.cat([*reversed(ends), p[0][:, :0]], 1))
    return layout.collect(outs).view(x.size(0), order - 1, channels), torch.stack(tables)


def largest_sums(table: Tensor, decay: Tensor, seen: Tensor) -> Tensor:
    """The largest decayed sums at the last token read, (n, B, D), from a table (n, B, S, D)."""
    if not table.size(2):
        return table.sum(2)  # of none: 0
    gap = gaps(table.size(0), table.size(2), seen)
    scores = torch.where(gap >= 0, decay_powers(decay, gap) * table, -torch.inf)
    return torch.where((gap >= 0).any(2), scores.max(2).values, 0)


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


def _stays(kept: Tensor, now: Tensor) -> Tensor:
    """Where the earlier value stays the largest."""
    return (kept >= now) | kept.isnan()
