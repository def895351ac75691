r"""Maxima of decayed sums over all n-grams of a text, gaps included.

With :math:`P_j[t]` the projection of token t on the j-th token of a reference n-gram, the value
at token t of the n-gram of tokens :math:`i_1 < \ldots < i_j \le t` is the sum of
:math:`P_1[i_1], \ldots, P_j[i_j]`, times :math:`\lambda` for each token in :math:`(i_1, t]` that
is not picked: the weights of the decayed sum. :math:`c_j^{max}[t]` is the largest value of all
n-grams of j tokens up to t, :math:`z_j^{max}[t]` the largest of those that end at t (Lei, PhD
thesis, 2017, section 2.3.5). For maxima of products, see `walk_scan`.

Three cases have no such recurrence: normalised aggregation, as a maximum adds nothing up; a map of
the states, as the largest value of a mixture of channels is not a function of their largest values;
and a gated decay, as each token decides anew which of two prefixes wins. The start of an n-gram
determines the power of a constant decay, so that one entry per start is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.operator import is_readable
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.operator import Scan
from pyg_kernels.ops.scan.walk import Form, tokens_before, walk_scan

__all__ = ["SumTable", "sum_max_scan"]


class SumTable(NamedTuple):
    """The state of the largest decayed sums, after the tokens read so far.

    Attributes:
        best: The largest sum, before decay, of the j-grams that start at token s,
            :obj:`(n, B, S, D)`, for each token s read so far; 0 where there is none yet. S is the
            largest number of tokens of a text (more under ``torch.compile``).
        seen: The number of tokens read, :obj:`(B,)`.
    """

    best: Tensor
    seen: Tensor


def sum_max_scan(
    x: Tensor, decay: float | Tensor, layout: Layout, state: SumTable, readout: str = "c"
) -> tuple[Tensor, SumTable]:
    r"""The largest decayed sum over all n-grams, at every token.

    Which n-gram will be the largest is not known before the end of the text, since decay acts on
    the sum and not on its terms. But the first and the last token determine the decay, so that only
    the largest sum :math:`B_j[s]` of the j-grams that start at s matters. At token t, for j = n,
    ..., 2 and s < t, the values before t give

    .. math::
        z_j^{max}[t] = \max_s \lambda^{t-s-j+1} \odot (B_{j-1}[s] + P_j[t]), \qquad
        B_j[s] \leftarrow \max(B_j[s],\; B_{j-1}[s] + P_j[t])

        c_j^{max}[t] = \max_s \lambda^{t-s-j+1} \odot B_j[s]

    with :math:`z_1^{max} = P_1` and :math:`B_1[s] = P_1[s]`. This takes O(n L N D) time for
    texts of length L, and O(n N D) memory.

    The gradient goes to the n-gram that attains the value. Of several, it goes to the one that was
    complete first; of those that end together, to the one that starts first; then to the one
    whose first j - 1 tokens were complete first.

    Args:
        x: :math:`P_1, \ldots, P_n` side by side, :obj:`(N, n * D)`.
        decay: :math:`\lambda`, not negative: a number or a tensor :obj:`(1,)` or :obj:`(D,)`.
        layout: The texts: N tokens, B texts.
        state: What an earlier call returned for the texts' tokens so far.
        readout: ``'c'`` for :math:`c_n^{max}`, ``'z'`` for :math:`z_n^{max}`, ``'sum'`` for
            :math:`\sum_j c_j^{max}`.

    Returns:
        The readout, :obj:`(N, D)`, where a missing n-gram counts as 0, and the state after the
        last token. Half-precision inputs are computed in float32. The state stays in float32;
        under autocast, so does the output.

    Raises:
        ValueError: For other shapes, or a state that has read more tokens than its table has.
    """
    (order, _, size, channels), texts, seen = state.best.shape, layout.num_texts, state.seen
    wanted = {"state.best": (state.best, (order, texts, size, channels))}
    check_shapes(x=(x, (layout.num_rows, order * channels)), **wanted)
    check_shapes(**{"state.seen": (seen, (texts,))})
    least, most = map(int, seen.aminmax()) if _is_readable(seen) else (0, size)
    if least < 0 or most > size:
        raise ValueError(
            f"state.seen goes from {least} to {most}: expected 0 to {size}, the starts in "
            "state.best"
        )
    result = common_dtype(x)
    dtype = torch.promote_types(result, torch.float32)
    x, best = x.to(dtype), state.best.to(dtype)
    decay = torch.as_tensor(decay, dtype=dtype, device=x.device).reshape(-1)
    if layout.form == "padded":  # whose padding may hold anything
        x = torch.where(layout.is_token(), x, 0)
    starts, others = (torch.arange(n, device=x.device) for n in (best.size(2), order))
    skipped = (seen.unsqueeze(1) - starts - 1 - others.view(-1, 1, 1)).unsqueeze(3)
    best = torch.where(skipped >= 0, best, 0)
    given = _largest(best, skipped, decay) if best.size(2) else best.sum(2)
    z, table, *_ = _SUM.scan((), layout, x, decay, best, seen)
    ends, found = [x[:, :channels], *z.unbind(1)], []
    params = torch.nn.functional.pad(decay.expand(1, channels), (0, 0, 0, 3))
    for j in {"c": [order - 1], "z": [], "sum": range(order)}[readout]:
        # c follows from z like the maxima of products of one factor, from token j on.
        before, initial = tokens_before(layout, seen - j, x.dtype), given[j]
        both = initial.expand(2, texts, channels)
        found.append(walk_scan(_ENDS, layout, ends[j], params, both, initial, before)[0])
    h = reduce(torch.add, found) if found else ends[-1]
    read = seen + layout.length
    if _is_readable(read):
        table = table[:, :, : int(read.max())]
    return h.to(result), SumTable(table, read)


def _is_readable(counts: Tensor) -> bool:
    """Whether Python may read numbers of this tensor, and there are some."""
    return counts.numel() > 0 and is_readable(counts)


def _sum_maxima(
    form: tuple[()], layout: Layout, x: Tensor, decay: Tensor, table: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The sums z_2, ..., z_n, (N, n - 1, D), and the table B after the last token."""
    (order, texts, size, channels), steps = table.shape, layout.num_steps
    if not steps:
        return x.new_zeros(x.size(0), order - 1, channels), table.clone()
    best = list(torch.cat((table, table.new_zeros(order, texts, steps, channels)), 2))
    starts, outs = torch.arange(size + steps, device=x.device), []
    for t in range(steps):
        lag = ((seen + t).unsqueeze(1) - starts).unsqueeze(2)
        token, p = layout.has_token(t).unsqueeze(2), layout.rows_at(x, t).split(channels, 1)
        ends = [p[0][:, :0]]
        for j in range(order - 1, 0, -1):
            now, past = best[j - 1] + p[j].unsqueeze(1), best[j]
            ends.insert(1, _largest(now, lag - j, decay))
            stays = (lag > j) & ((past >= now) | past.isnan())
            best[j] = torch.where(token & (lag >= j) & ~stays, now, past)
        best[0] = torch.where(token & (lag == 0), p[0].unsqueeze(1), best[0])
        outs.append(torch.cat(ends, 1))
    return layout.collect(outs).view(x.size(0), order - 1, channels), torch.stack(best)


def _largest(sums: Tensor, skipped: Tensor, decay: Tensor) -> Tensor:
    """The largest of decayed sums, (..., S, D); only sums that skip at least 0 tokens exist."""
    power = torch.where(skipped <= 0, 1.0, decay ** skipped.clamp(min=1))  # smooth at 0
    scores = torch.where(skipped >= 0, power * sums, -torch.inf).max(-2).values
    return torch.where((skipped >= 0).any(-2), scores, 0)


def _like(form: tuple[()], layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, table, _ = tensors
    (rows, _), (order, texts, size, channels) = x.shape, table.shape
    others, starts = order - 1, size + layout.num_steps
    shapes = (rows, others), (order, texts, starts), (rows, others, others)
    return tuple(x.new_empty(*s, channels) for s in (*shapes, (texts, starts, others, others)))


_ENDS = Form(1, pooling="max")
_SUM = Scan(
    "sum_max_scan",
    "x decay table seen",
    tuple,
    _sum_maxima,
    _like,
    {"numba": f"{__name__}_cpu"},
    4,
    2,
    2,
)
