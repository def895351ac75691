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
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.operator import is_plain
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import definition
from pyg_kernels.ops.scan.maximum.definition import ProductForm, SumForm
from pyg_kernels.ops.scan.operator import Scan

__all__ = ["ProductExtremes", "SumTable", "product_max_scan", "sum_max_scan"]


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
        initial, seen = x.new_zeros(2, *shape), torch.zeros_like(layout.length)
    else:
        _check_state(state, {"c_max": shape, "c_min": shape, "seen": shape[1:2]})
        seen, j = state.seen, torch.arange(1, order + 1, device=x.device)
        is_there = (seen >= j.unsqueeze(1)).unsqueeze(2)
        initial = torch.stack([state.c_max, state.c_min]).to(x.dtype)
        initial = torch.where(is_there, initial, 0)
    h, end = _PRODUCT.scan(ProductForm(readout), layout, x, decay, initial, seen)
    return h.to(result), ProductExtremes(end[0], end[1], seen + layout.length)


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
        wanted = {"best": (order, texts, state.best.size(2), channels), "seen": (texts,)}
        _check_state(state, wanted)
        _check_starts(state)
        best, seen = state.best.to(x.dtype), state.seen
        best = torch.where(definition.gaps(order, best.size(2), seen) >= 0, best, 0)
    z, table, *_ = _SUM.scan(SumForm(order), layout, x, decay, best, seen)
    ends = [x[:, :channels], *z.unbind(1)]
    given = definition.largest_sums(best, decay, seen)
    orders = {"c": [order - 1], "z": [], "sum": range(order)}[readout]
    found = []
    for j in orders:  # c follows from z as for products of one factor, from token j on
        initial = given[j].expand(2, 1, texts, channels)
        h, _ = _PRODUCT.scan(ProductForm("c"), layout, ends[j], decay, initial, seen - j)
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
        raise ValueError(
            f"x has shape {tuple(x.shape)} for order {order}: expected ({rows}, order * D), "
            "order at least 1"
        )
    if readout not in ("c", "z", "sum"):
        raise ValueError(f"readout is {readout!r}: expected 'c', 'z' or 'sum'")
    result, channels = common_dtype(x), x.size(1) // order
    dtype = torch.promote_types(result, torch.float32)
    decay = torch.as_tensor(decay, dtype=dtype, device=x.device)
    decay = decay.unsqueeze(0) if decay.dim() == 0 else decay
    if decay.shape not in ((1,), (channels,), (rows, 1), (rows, channels)):
        raise ValueError(
            f"decay has shape {tuple(decay.shape)}: expected (1,), ({channels},), ({rows}, 1) or "
            f"({rows}, {channels})"
        )
    x = x.to(dtype)
    if layout.form == "padded":  # whose rows may hold anything
        x = torch.where(layout.is_token(), x, 0)
    return x, decay, result


def _check_state(state: Any, wanted: dict[str, tuple[int, ...]]) -> None:
    check_shapes(**{f"state.{name}": (getattr(state, name), s) for name, s in wanted.items()})


def _check_starts(state: SumTable) -> None:
    if not _is_readable(state.seen):
        return
    least, most = (int(number) for number in state.seen.aminmax())
    size = state.best.size(2)
    if least < 0 or most > size:
        raise ValueError(
            f"state.seen goes from {least} to {most}: expected 0 to {size}, the starts in "
            "state.best"
        )


def _is_readable(counts: Tensor) -> bool:
    """Whether Python may read numbers of this tensor, and there are some."""
    return counts.numel() > 0 and not torch.compiler.is_compiling() and is_plain(counts)


def _fake_product(form: ProductForm, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, initial, _ = tensors
    return x.new_empty(x.size(0), initial.size(3)), initial.new_empty(initial.shape)


def _fake_sum(form: SumForm, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, table, _ = tensors
    order, texts, size, channels = table.shape
    grown = x.new_empty(order, texts, size + layout.num_steps, channels)
    z = x.new_empty(x.size(0), order - 1, channels)
    return z, grown, z.new_empty(z.shape, dtype=torch.int32)


_PRODUCT = Scan(
    "x decay initial seen",
    ProductForm,
    definition.product_max_scan,
    _fake_product,
    num_outputs=2,
    num_defined=2,
    first_kept=1,
)
_SUM = Scan(
    "x decay table seen",
    SumForm,
    definition.sum_max_scan,
    _fake_sum,
    num_outputs=3,
    num_defined=2,
    first_kept=2,
)
