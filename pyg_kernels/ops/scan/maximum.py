r"""Maxima over all n-grams of a text, gaps included, in place of the decayed sum over them.

With :math:`P_j[t]` the projection of token t on the j-th token of a reference n-gram, the value
at token t of the n-gram of tokens :math:`i_1 < \ldots < i_j \le t` is the product (or the sum) of
:math:`P_1[i_1], \ldots, P_j[i_j]`, times :math:`\lambda_r` for each token r in
:math:`(i_1, t]` that is not picked: the weights of the decayed sum. :math:`c_j^{max}[t]` is the
largest value of all n-grams of j tokens up to t, :math:`z_j^{max}[t]` the largest of those that
end at t (Lei, PhD thesis, 2017, section 2.3.5).

There is no such recurrence for normalised aggregation, as a maximum adds nothing up; for a map of
the states, as the largest value of a mixture of channels is no function of their largest values;
and for sums under a gated decay, by which each token says anew which of two prefixes wins. A
constant decay is known from where the n-gram starts: one entry a start is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.operator import is_plain
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.operator import Scan
from pyg_kernels.ops.scan.recurrence import Recurrence, Token

__all__ = ["ProductExtremes", "SumTable", "product_max_scan", "sum_max_scan"]


class Form(NamedTuple):
    """The number of orders n, and which state of products is read out."""

    order: int
    readout: str


class ProductExtremes(NamedTuple):
    """What the largest products of a text read so far depend on.

    Attributes:
        c_max: The largest products of n-grams up to the last token, :obj:`(n, B, D)`; 0 where
            there is no n-gram yet.
        c_min: The smallest, of the same shape.
        seen: The number of tokens read, :obj:`(B,)`.
    """

    c_max: Tensor
    c_min: Tensor
    seen: Tensor


class SumTable(NamedTuple):
    """What the largest decayed sums of a text read so far depend on.

    Attributes:
        best: The largest sum, before decay, of the j-grams that start at token s,
            :obj:`(n, B, S, D)`, for each token s read so far, S being the most that a text has
            (more under ``torch.compile``); 0 where there is none yet.
        seen: The number of tokens read, :obj:`(B,)`.
    """

    best: Tensor
    seen: Tensor


def product_max_scan(
    x: Tensor,
    order: int,
    decay: float | Tensor,
    layout: Layout,
    state: ProductExtremes | None = None,
    readout: str = "c",
) -> tuple[Tensor, ProductExtremes]:
    r"""The largest decayed product over all n-grams, at every token.

    .. math::
        z_1^{max}[t] = P_1[t], \qquad
        z_j^{max}[t] = \max(P_j[t] \odot c_{j-1}^{max}[t-1],\; P_j[t] \odot c_{j-1}^{min}[t-1])

        c_j^{max}[t] = \max(\lambda_t \odot c_j^{max}[t-1],\; z_j^{max}[t])

    and the smallest likewise, which a negative factor makes the largest. Costs O(n N D) time.

    The gradient goes to the n-gram that attains the value. Of several, to the one that was
    complete first; of those that end together, to the one whose first j - 1 tokens were.

    Args:
        x: :math:`P_1, \ldots, P_n` side by side, :obj:`(N, n * D)`.
        order: n.
        decay: :math:`\lambda`, not negative: a number or a tensor :obj:`(1,)`, :obj:`(D,)`,
            :obj:`(N, 1)` or :obj:`(N, D)`.
        layout: The texts: N tokens, B texts.
        state: What an earlier call returned for the texts' tokens so far; None for none.
        readout: ``'c'`` for :math:`c_n^{max}`, ``'z'`` for :math:`z_n^{max}`, ``'sum'`` for
            :math:`\sum_j c_j^{max}`.

    Returns:
        What is read out, :obj:`(N, D)`, where an n-gram that is not there counts as 0, and the
        state after the last token. Half-precision inputs are computed in float32, in which the
        state stays, as under autocast the output does.

    Raises:
        ValueError: For other shapes, or another readout.
    """
    x, decay, result = _prepared(x, order, decay, layout, readout)
    shape = (order, layout.num_texts, x.size(1) // order)
    if state is None:
        initial, seen = x.new_zeros(2 * order, *shape[1:]), torch.zeros_like(layout.length)
    else:
        wanted = zip(state._fields, state, (shape, shape, shape[1:2]), strict=True)
        check_shapes(**{f"state.{name}": (tensor, size) for name, tensor, size in wanted})
        seen, j = state.seen, torch.arange(1, order + 1, device=x.device).repeat(2)
        initial = torch.cat([state.c_max, state.c_min]).to(x.dtype)
        initial = torch.where((seen >= j.unsqueeze(1)).unsqueeze(2), initial, 0)
    h, end = _largest_products(Form(order, readout), layout, x, decay, initial, seen)
    return h.to(result), ProductExtremes(end[:order], end[order:], seen + layout.length)


def sum_max_scan(
    x: Tensor,
    order: int,
    decay: float | Tensor,
    layout: Layout,
    state: SumTable | None = None,
    readout: str = "c",
) -> tuple[Tensor, SumTable]:
    r"""The largest decayed sum over all n-grams, at every token.

    Which n-gram will be the largest is not known before the text's end, since decay acts on the
    sum and not on its terms. But the decay is known from the first and the last token, so that
    the largest sum :math:`B_j[s]` of the j-grams that start at s is all that matters. At token t,
    for j = n, ..., 2 and s < t, from the values before t,

    .. math::
        z_j^{max}[t] = \max_s \lambda^{t-s-j+1} \odot (B_{j-1}[s] + P_j[t]), \qquad
        B_j[s] \leftarrow \max(B_j[s],\; B_{j-1}[s] + P_j[t])

        c_j^{max}[t] = \max_s \lambda^{t-s-j+1} \odot B_j[s]

    with :math:`z_1^{max} = P_1` and :math:`B_1[s] = P_1[s]`. Costs O(n L N D) time for texts of
    length L, and O(n N D) memory.

    The gradient goes to the n-gram that attains the value. Of several, to the one that was
    complete first; of those that end together, to the one that starts first; then to the one
    whose first j - 1 tokens were complete first.

    Arguments, results and errors as :func:`product_max_scan` has, but the decay may not differ
    between tokens: it is a number or a tensor :obj:`(1,)` or :obj:`(D,)`.
    """
    if isinstance(decay, Tensor) and decay.dim() > 1:
        raise ValueError(
            f"decay has shape {tuple(decay.shape)}: the largest sum needs a constant decay, a "
            "number or a tensor (1,) or (D,)"
        )
    x, decay, result = _prepared(x, order, decay, layout, readout)
    texts, channels = layout.num_texts, x.size(1) // order
    if state is None:
        best, seen = x.new_zeros(order, texts, 0, channels), torch.zeros_like(layout.length)
    else:
        size = state.best.size(2)
        best, seen = state.best.to(x.dtype), state.seen
        wanted = {"state.best": (best, (order, texts, size, channels))}
        check_shapes(**wanted, **{"state.seen": (seen, (texts,))})
        least, most = map(int, seen.aminmax()) if _is_readable(seen) else (0, size)
        if least < 0 or most > size:
            raise ValueError(
                f"state.seen goes from {least} to {most}: expected 0 to {size}, the starts in "
                "state.best"
            )
    starts, others = (torch.arange(n, device=x.device) for n in (best.size(2), order))
    skipped = (seen.unsqueeze(1) - starts - 1 - others.view(-1, 1, 1)).unsqueeze(3)
    best = torch.where(skipped >= 0, best, 0)
    given = _largest(best, skipped, decay) if best.size(2) else best.sum(2)
    z, table, *_ = _SUM.scan((), layout, x, decay, best, seen)
    ends, found = [x[:, :channels], *z.unbind(1)], []
    for j in {"c": [order - 1], "z": [], "sum": range(order)}[readout]:
        # c follows from z as for products of one factor, from token j on.
        initial = given[j].expand(2, texts, channels)
        h, _ = _largest_products(Form(1, "c"), layout, ends[j], decay, initial, seen - j)
        found.append(h)
    h = reduce(torch.add, found) if found else ends[-1]
    read = seen + layout.length
    if _is_readable(read):
        table = table[:, :, : int(read.max())]
    return h.to(result), SumTable(table, read)


def _prepared(
    x: Tensor, order: int, decay: float | Tensor, layout: Layout, readout: str
) -> tuple[Tensor, Tensor, torch.dtype]:
    """The inputs in the dtype to compute in, and the dtype of what is read out."""
    rows = layout.num_rows
    if order < 1 or x.dim() != 2 or x.size(0) != rows or x.size(1) % order:
        wanted = f"({rows}, order * D), order at least 1"
        raise ValueError(f"x has shape {tuple(x.shape)} for order {order}: expected {wanted}")
    if readout not in ("c", "z", "sum"):
        raise ValueError(f"readout is {readout!r}: expected 'c', 'z' or 'sum'")
    result, channels = common_dtype(x), x.size(1) // order
    dtype = torch.promote_types(result, torch.float32)
    decay = torch.as_tensor(decay, dtype=dtype, device=x.device)
    decay = decay.unsqueeze(0) if decay.dim() == 0 else decay
    if decay.shape not in ((1,), (channels,), (rows, 1), (rows, channels)):
        wanted = f"(1,), ({channels},), ({rows}, 1) or ({rows}, {channels})"
        raise ValueError(f"decay has shape {tuple(decay.shape)}: expected {wanted}")
    x = x.to(dtype)
    if layout.form == "padded":  # whose rows may hold anything
        x = torch.where(layout.is_token(), x, 0)
    return x, decay, result


def _is_readable(counts: Tensor) -> bool:
    """Whether Python may read numbers of this tensor, and there are some."""
    return counts.numel() > 0 and not torch.compiler.is_compiling() and is_plain(counts)


def _largest_products(
    form: Form, layout: Layout, x: Tensor, decay: Tensor, initial: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """What is read out and c at last; `seen` below 0 says that single tokens count only later."""
    text, step = layout.places()
    read = (seen.index_select(0, text) + step).to(x.dtype).unsqueeze(1)
    h0, every = x.new_zeros(initial.shape[1:]), decay.dim() == 1
    params = decay.expand(1, h0.size(1)).contiguous() if every else h0[:0]
    beside = None if every else decay.contiguous()
    h, _, end = _PRODUCT.scan(form, layout, x, params, h0, initial, weight=read, beside=beside)
    return h, end


def _step(form: Form, token: Token) -> tuple[Any, Sequence[Any]]:
    """The largest and the smallest products after a token; those not there yet are 0."""
    decay, read, order = token.params[0] if token.params else token.beside, token.weight, form.order
    high, low, most, least = token.c[:order], token.c[order:], [], []
    for j, p in enumerate(token.x):
        p = torch.where(read >= j, p, 0.0)
        z_high = z_low = p
        if j:
            swaps = p < 0
            z_high = p * torch.where(swaps, low[j - 1], high[j - 1])
            z_low = p * torch.where(swaps, high[j - 1], low[j - 1])
        kept_high, kept_low = decay * high[j], decay * low[j]
        stays_high = (kept_high >= z_high) | kept_high.isnan()
        stays_low = (kept_low <= z_low) | kept_low.isnan()
        most.append(torch.where((read > j) & stays_high, kept_high, z_high))
        least.append(torch.where((read > j) & stays_low, kept_low, z_low))
    return {"c": most[-1], "z": z_high, "sum": sum(most)}[form.readout], [*most, *least]


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
    """The largest of decayed sums, (..., S, D); those are there that skip no less than 0 tokens."""
    power = torch.where(skipped <= 0, 1.0, decay ** skipped.clamp(min=1))  # smooth at 0
    scores = torch.where(skipped >= 0, power * sums, -torch.inf).max(-2).values
    return torch.where((skipped >= 0).any(-2), scores, 0)


def _like(form: tuple[()], layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, table, _ = tensors
    (rows, _), (order, texts, size, channels) = x.shape, table.shape
    others, starts = order - 1, size + layout.num_steps
    shapes = (rows, others), (order, texts, starts), (rows, others, others)
    return tuple(x.new_empty(*s, channels) for s in (*shapes, (texts, starts, others, others)))


_PRODUCT = Recurrence("product_max_scan", Form, _step, lambda form: [True] * form.order)
_SUM = Scan(
    "sum_max_scan", "x decay table seen", tuple, _sum_maxima, _like, f"{__name__}_cpu", 4, 2, 2
)
