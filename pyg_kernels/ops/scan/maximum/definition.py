"""The definitions of the maxima over n-grams: plain loops through time.

An n-gram that is not there yet has the value 0 in what is returned, and takes no part in a maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout


class Form(NamedTuple):
    """How n-grams combine their tokens, ``'mul'`` or ``'add'``, and which state is read out."""

    combine: str
    readout: str


def product_max_scan(
    x: Tensor,
    decay: Tensor,
    initial: Tensor,
    seen: Tensor,
    start: Tensor,
    length: Tensor,
    combine: str,
    readout: str,
    *settings: int | str | bool,
) -> tuple[Tensor, Tensor]:
    """The state read out, (N, D), and the largest and smallest products at last, (2, n, B, D).

    Args:
        initial: The largest and the smallest before the first token, (2, n, B, D).
    """
    layout = Layout.of_settings(start, length, x.size(0), settings)  # type: ignore[arg-type]
    order, channels = initial.size(1), initial.size(3)
    if not layout.num_steps:
        return x.new_zeros(x.size(0), channels), initial.clone()
    (high, low), outs = (list(c.unbind()) for c in initial), []
    for t in range(layout.num_steps):
        read, token = (seen + t).unsqueeze(1), layout.has_token(t)
        steps = layout.rows_at(x, t).split(channels, 1)
        weight = layout.rows_at(decay, t) if decay.dim() == 2 else decay
        z_last = steps[0]
        for j in range(order, 0, -1):
            z_high = z_low = p = steps[j - 1]
            if j > 1:
                swaps, is_there = p < 0, read + 1 >= j
                z_high = p * torch.where(swaps, low[j - 2], high[j - 2])
                z_low = p * torch.where(swaps, high[j - 2], low[j - 2])
                z_high, z_low = torch.where(is_there, z_high, 0), torch.where(is_there, z_low, 0)
            z_last = z_high if j == order else z_last
            was_there, kept_high, kept_low = read >= j, weight * high[j - 1], weight * low[j - 1]
            now_high = torch.where(was_there & _stays(kept_high, z_high), kept_high, z_high)
            now_low = torch.where(was_there & _stays(-kept_low, -z_low), kept_low, z_low)
            high[j - 1] = torch.where(token, now_high, high[j - 1])
            low[j - 1] = torch.where(token, now_low, low[j - 1])
        outs.append(_read_out(readout, high, z_last))
    return layout.collect(outs), torch.stack([torch.stack(high), torch.stack(low)])


def sum_max_scan(
    x: Tensor,
    decay: Tensor,
    c: Tensor,
    table: Tensor,
    seen: Tensor,
    start: Tensor,
    length: Tensor,
    combine: str,
    readout: str,
    *settings: int | str | bool,
) -> tuple[Tensor, Tensor]:
    """The state read out, (N, D), and the table after the last token, (n, B, S + T, D).

    Args:
        c: The largest decayed sums before the first token, (n, B, D).
        table: The largest sums that start at each token, before decay, (n, B, S, D).
    """
    layout = Layout.of_settings(start, length, x.size(0), settings)  # type: ignore[arg-type]
    (order, texts, size, channels), steps = table.shape, layout.num_steps
    if not steps:
        return x.new_zeros(x.size(0), channels), table.clone()
    new = table.new_zeros(order, texts, steps, channels)
    tables, states = list(torch.cat((table, new), 2)), list(c)
    starts, outs = torch.arange(size + steps, device=x.device), []
    for t in range(steps):
        read, token = (seen + t).unsqueeze(1), layout.has_token(t)
        lag = (read - starts).unsqueeze(2)
        p = layout.rows_at(x, t).split(channels, 1)
        z_last = p[0]
        for j in range(order, 0, -1):
            z = p[j - 1]
            if j > 1:
                sums, longer = tables[j - 2] + z.unsqueeze(1), tables[j - 1]
                is_there, was_there = lag >= j - 1, lag >= j
                scores = decay_powers(decay, lag - (j - 1)) * sums
                best = torch.where(is_there, scores, -torch.inf).max(1).values
                z = torch.where(read + 1 >= j, best, 0)
                better = is_there & ~(was_there & _stays(longer, sums)) & token.unsqueeze(2)
                tables[j - 1] = torch.where(better, sums, longer)
            z_last = z if j == order else z_last
            kept = decay * states[j - 1]
            now = torch.where((read >= j) & _stays(kept, z), kept, z)
            states[j - 1] = torch.where(token, now, states[j - 1])
        begins = (lag == 0) & token.unsqueeze(2)
        tables[0] = torch.where(begins, p[0].unsqueeze(1), tables[0])
        outs.append(_read_out(readout, states, z_last))
    return layout.collect(outs), torch.stack(tables)


def largest_sums(table: Tensor, decay: Tensor, seen: Tensor) -> Tensor:
    """The largest decayed sums at the last token read, (n, B, D), from a table (n, B, S, D)."""
    order, size = table.size(0), table.size(2)
    if not size:
        return table.new_zeros(order, table.size(1), table.size(3))
    gap = gaps(order, size, seen)
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


def _read_out(readout: str, states: Sequence[Tensor], z: Tensor) -> Tensor:
    if readout == "sum":
        return torch.stack(list(states)).sum(0)
    return states[-1] if readout == "c" else z
