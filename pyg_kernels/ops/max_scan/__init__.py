r"""Maxima over all n-grams of a text, gaps included, in place of the decayed sum over them.

With :math:`P_j[t]` the projection of token t on the j-th token of a reference n-gram, the value
at token t of the n-gram of tokens :math:`i_1 < \ldots < i_j \le t` is the product (or the sum) of
:math:`P_1[i_1], \ldots, P_j[i_j]`, times :math:`\lambda_r` for each token r in
:math:`(i_1, t]` that is not picked: the weights of the decayed sum. :math:`c_j^{max}[t]` is the
largest value of all n-grams of j tokens up to t, :math:`z_j^{max}[t]` the largest of those that
end at t (Lei, PhD thesis, 2017, section 2.3.5).

No such recurrence is given for the layer's other variants:

- Normalised aggregation. :math:`1 - \lambda` makes the weights of a sum add up to one; a maximum
  adds nothing up.
- A map of the states (an output matrix). It mixes channels, whose maxima belong to different
  n-grams: the largest value of a mixture is not a function of the largest values of its parts.
- Sums with a gated decay. Decay multiplies the sum as a whole, so which of two prefixes wins can
  change with each token that is added. With a constant decay the weight is known from where the
  n-gram starts, and one entry a start is enough; gates make it depend on which tokens were
  skipped, and no table smaller than the n-grams themselves is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.max_scan import reference
from pyg_kernels.ops.max_scan.reference import decay_powers
from pyg_kernels.ops.max_scan.stepped import ProductMaxScan, SumMaxScan
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import transforms_active

__all__ = [
    "ProductExtremes",
    "SumTable",
    "path_in_use",
    "product_max_scan",
    "sum_max_scan",
]


class ProductExtremes(NamedTuple):
    """What the largest products of a text read so far depend on.

    Attributes:
        c_max: The largest products of n-grams up to the last token, :obj:`(n, num_texts, D)`;
            0 where there is no n-gram yet.
        c_min: The smallest, of the same shape.
        seen: The number of tokens read, :obj:`(num_texts,)`.
    """

    c_max: Tensor
    c_min: Tensor
    seen: Tensor


class SumTable(NamedTuple):
    """What the largest decayed sums of a text read so far depend on.

    Attributes:
        best: The largest sum, before decay, of the j-grams that start at token s,
            :obj:`(n, num_texts, S, D)`, for each token s read so far, S being the most that a
            text has; 0 where there is none yet.
        seen: The number of tokens read, :obj:`(num_texts,)`.
    """

    best: Tensor
    seen: Tensor


def product_max_scan(
    projections: Sequence[Tensor],
    decay: float | Tensor,
    packing: Packing,
    state: ProductExtremes | None = None,
) -> tuple[tuple[Tensor, ...], Tensor, ProductExtremes]:
    r"""The largest decayed product over all n-grams, at every token.

    .. math::
        z_1^{max}[t] = P_1[t], \qquad
        z_j^{max}[t] = \max(P_j[t] \odot c_{j-1}^{max}[t-1],\; P_j[t] \odot c_{j-1}^{min}[t-1])

        c_j^{max}[t] = \max(\lambda_t \odot c_j^{max}[t-1],\; z_j^{max}[t])

    and the smallest likewise, which a negative factor makes the largest. Costs O(n N D) time and
    memory.

    The gradient goes to the n-gram that attains the value. Of several, to the one that was
    complete first; of those that end together, to the one whose first j - 1 tokens were.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`, in the order of the packing.
        decay: :math:`\lambda`, not negative: a number or a tensor :obj:`(1,)`, :obj:`(D,)`,
            :obj:`(N, 1)` or :obj:`(N, D)`.
        packing: The texts.
        state: What an earlier call returned for the texts' tokens so far; None for none.

    Returns:
        :math:`c_1^{max}, \ldots, c_n^{max}` and :math:`z_n^{max}`, each :obj:`(N, D)`, 0 where no
        n-gram is complete, and the state after the last token. Half-precision inputs are
        computed in float32, in which the state stays, as under autocast the outputs do.

    Raises:
        ValueError: Where the shapes do not fit.
    """
    projections, decay, result = _prepared(projections, decay, packing)
    n, texts, first = len(projections), packing.num_texts, projections[0]
    shape = (n, texts, first.size(1))
    if state is None:
        c_max = c_min = first.new_zeros(shape)
        seen = torch.zeros(texts, dtype=torch.long, device=first.device)
    else:
        _check_state("c_max", state.c_max, shape)
        _check_state("c_min", state.c_min, shape)
        _check_state("seen", state.seen, (texts,))
        seen = state.seen
        is_there = _is_there(n, seen).unsqueeze(2)
        c_max = torch.where(is_there, state.c_max.to(first.dtype), 0)
        c_min = torch.where(is_there, state.c_min.to(first.dtype), 0)
    if not packing.num_steps:
        empty = tuple(p.to(result) for p in projections)
        return empty, empty[-1], ProductExtremes(c_max, c_min, seen)
    if path_in_use() == "definition":
        highs, lows, z = reference.product_max_scan(projections, decay, packing, c_max, c_min, seen)
    else:
        initial = torch.stack([c_max, c_min])
        *found, z, _ = ProductMaxScan.apply(packing, seen, decay, initial, *projections)
        highs, lows = found[:n], found[n:]
    lengths = _lengths(packing, first.device)
    c_max = _last(highs, c_max, packing, lengths)
    c_min = _last(lows, c_min, packing, lengths)
    after = ProductExtremes(c_max, c_min, seen + lengths)
    return tuple(c.to(result) for c in highs), z.to(result), after


def sum_max_scan(
    projections: Sequence[Tensor],
    decay: float | Tensor,
    packing: Packing,
    state: SumTable | None = None,
) -> tuple[tuple[Tensor, ...], Tensor, SumTable]:
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
    length L, and O(n² N D) memory.

    The gradient goes to the n-gram that attains the value. Of several, to the one that was
    complete first; of those that end together, to the one that starts first; then to the one
    whose first j - 1 tokens were complete first.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`, in the order of the packing.
        decay: :math:`\lambda`, not negative: a number or a tensor :obj:`(1,)` or :obj:`(D,)`.
        packing: The texts.
        state: What an earlier call returned for the texts' tokens so far; None for none.

    Returns:
        :math:`c_1^{max}, \ldots, c_n^{max}` and :math:`z_n^{max}`, each :obj:`(N, D)`, 0 where no
        n-gram is complete, and the state after the last token. Half-precision inputs are
        computed in float32, in which the state stays, as under autocast the outputs do.

    Raises:
        ValueError: Where the shapes do not fit, or the decay differs between tokens.
    """
    if isinstance(decay, Tensor) and decay.dim() > 1:
        raise ValueError(
            f"decay has shape {tuple(decay.shape)}: the largest sum needs a constant decay, a "
            "number or a tensor (1,) or (D,)"
        )
    projections, decay, result = _prepared(projections, decay, packing)
    n, texts, first = len(projections), packing.num_texts, projections[0]
    if state is None:
        best = first.new_zeros(n, texts, 0, first.size(1))
        seen = torch.zeros(texts, dtype=torch.long, device=first.device)
    else:
        _check_state("best", state.best, (n, texts, state.best.size(2), first.size(1)))
        _check_state("seen", state.seen, (texts,))
        best, seen = state.best.to(first.dtype), state.seen
        _check_starts(best, seen)
    if not packing.num_steps:
        empty = tuple(p.to(result) for p in projections)
        return empty, empty[-1], SumTable(best, seen)
    table = _latest_last(best, seen)
    c = _largest(table, decay, seen)
    if path_in_use() == "definition":
        states, z, table = reference.sum_max_scan(projections, decay, packing, table, c, seen)
    else:
        inputs = (decay, table, c, *projections)
        traces = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
        found = SumMaxScan.apply(packing, traces, seen, *inputs)
        states, z, table = found[:n], found[n], found[n + 1]
    read = seen + _lengths(packing, first.device)
    after = SumTable(_first_first(table, best.size(2) - seen, read), read)
    return tuple(c.to(result) for c in states), z.to(result), after


def path_in_use() -> str:
    """``'steps'`` (hand-written backward) or ``'definition'`` (loops of PyTorch ops).

    The definition serves ``torch.compile`` and the transforms of ``torch.func``.
    """
    if torch.compiler.is_compiling() or transforms_active():
        return "definition"
    return "steps"


def _prepared(
    projections: Sequence[Tensor], decay: float | Tensor, packing: Packing
) -> tuple[list[Tensor], Tensor, torch.dtype]:
    """The inputs in the dtype to compute in, and the dtype of the outputs."""
    if not projections:
        raise ValueError("projections is empty: expected at least one tensor")
    first = projections[0]
    tokens = sum(packing.batch_sizes)
    if any(p.dim() != 2 or p.size(0) != tokens or p.size(1) != first.size(1) for p in projections):
        shapes = [tuple(p.shape) for p in projections]
        raise ValueError(f"projections have shapes {shapes}: expected all ({tokens}, D)")
    result = first.dtype
    if torch.is_autocast_enabled(first.device.type):
        result = torch.promote_types(result, torch.float32)
    for p in projections:
        result = torch.promote_types(result, p.dtype)
    dtype = torch.promote_types(result, torch.float32)
    if not isinstance(decay, Tensor):
        decay = first.new_full((1,), decay, dtype=dtype)
    elif decay.dim() == 0:
        decay = decay.unsqueeze(0)
    rows, channels = first.shape
    if decay.shape not in ((1,), (channels,), (rows, 1), (rows, channels)):
        raise ValueError(
            f"decay has shape {tuple(decay.shape)}: expected (1,), ({channels},), ({rows}, 1) or "
            f"({rows}, {channels})"
        )
    return [p.to(dtype) for p in projections], decay.to(dtype), result


def _check_state(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise ValueError(f"state.{name} has shape {tuple(tensor.shape)}: expected {shape}")


def _check_starts(best: Tensor, seen: Tensor) -> None:
    if path_in_use() == "definition" or not seen.numel():  # transforms cannot read numbers
        return
    least, most = (int(number) for number in seen.aminmax())
    if least < 0 or most > best.size(2):
        raise ValueError(
            f"state.seen goes from {least} to {most}: expected 0 to {best.size(2)}, the starts in "
            "state.best"
        )


def _lengths(packing: Packing, device: torch.device) -> Tensor:
    """The tokens of each text, in ops that compile."""
    sizes = torch.tensor(packing.batch_sizes, device=device)
    return (sizes.unsqueeze(1) > torch.arange(packing.num_texts, device=device)).sum(0)


def _is_there(orders: int, seen: Tensor) -> Tensor:
    """Whether each text has n-grams of 1, ..., n tokens, (n, num_texts)."""
    return seen >= torch.arange(1, orders + 1, device=seen.device).unsqueeze(1)


def _last(rows: Sequence[Tensor], before: Tensor, packing: Packing, lengths: Tensor) -> Tensor:
    """The states at the last tokens, (n, num_texts, D), and of empty texts those before."""
    first, last = packing.batch_sizes[0], packing.batch_sizes[-1]
    if first == last:
        found = torch.stack([row[row.size(0) - last :] for row in rows])
    else:
        sizes = torch.tensor(packing.batch_sizes, device=lengths.device)
        starts = sizes.cumsum(0) - sizes
        text = torch.arange(first, device=lengths.device)
        index = starts[lengths[:first] - 1] + text
        found = torch.stack([row.index_select(0, index) for row in rows])
    return torch.cat([found, before[:, first:]], dim=1)


def _latest_last(best: Tensor, seen: Tensor) -> Tensor:
    """The table by start as one whose last row is every text's latest start.

    From :obj:`(n, num_texts, S, D)` to :obj:`(n, S, num_texts, D)`, 0 where no n-gram is.
    """
    orders, size = best.size(0), best.size(2)
    row = torch.arange(size, device=best.device).unsqueeze(1)
    start = row - size + seen
    taken = start.clamp(min=0).unsqueeze(2).expand(orders, -1, -1, best.size(3))
    j = torch.arange(1, orders + 1, device=best.device).view(-1, 1, 1)
    is_there = (start >= 0) & (row + j <= size)
    table = best.transpose(1, 2).gather(1, taken)
    return torch.where(is_there.unsqueeze(3), table, 0)


def _first_first(table: Tensor, skipped: Tensor, seen: Tensor) -> Tensor:
    """The table by start, :obj:`(n, num_texts, S, D)`, S being the most that a text has.

    Args:
        table: Of shape :obj:`(n, S, num_texts, D)`.
        skipped: How many of its rows come before each text's first token.
        seen: The tokens of each text.
    """
    orders, size = table.size(0), table.size(1)
    if path_in_use() != "definition":  # reads a number, which transforms cannot
        size = int(seen.max()) if seen.numel() else 0
    start = torch.arange(size, device=table.device).unsqueeze(1)
    taken = (start + skipped).clamp(max=table.size(1) - 1)
    best = table.gather(1, taken.unsqueeze(2).expand(orders, -1, -1, table.size(3)))
    j = torch.arange(1, orders + 1, device=table.device).view(-1, 1, 1)
    is_there = start + j <= seen
    return torch.where(is_there.unsqueeze(3), best, 0).transpose(1, 2)


def _largest(table: Tensor, decay: Tensor, seen: Tensor) -> Tensor:
    """The largest decayed sums at the last token read, :obj:`(n, num_texts, D)`."""
    orders, size = table.size(0), table.size(1)
    if not size:
        return table.new_zeros(orders, table.size(2), table.size(3))
    row = torch.arange(size, device=table.device).view(1, -1, 1, 1)
    j = torch.arange(1, orders + 1, device=table.device).view(-1, 1, 1, 1)
    is_there = (row + j <= size) & (row >= size - seen.unsqueeze(1))
    scores = decay_powers(decay, size - row - j) * table
    best = torch.where(is_there, scores, -torch.inf).max(1).values
    return torch.where(_is_there(orders, seen).unsqueeze(2), best, 0)
