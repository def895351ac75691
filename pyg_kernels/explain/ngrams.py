"""What n-grams and tokens add to the state of a layer on a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import checked_count
from pyg_kernels.explain.arguments import (
    as_stored,
    checked_features,
    checked_finite,
    checked_head,
    checked_place,
)
from pyg_kernels.explain.ngram_sum import NgramSum, TextWalks
from pyg_kernels.explain.search import Walk, best_walks
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence import RCNN, RCNNCell

_ONE_CELL = "explain one of its cells, rcnn.cells[i], fed the input of its layer"


@dataclass(frozen=True, eq=False)
class NgramContributions:
    """What each part of a text adds to a layer's state at one position.

    Attributes:
        tokens: The share of each token, :obj:`(T,)`; they add up to :obj:`total`, and are zero
            after the position.
        ngrams: The k best n-grams by absolute value: their positions, from 0, and the value.
        total: The weighted sum of the state's channels.
        remainder: What no token accounts for: zero for a layer's state, since a text begins from
            the zero state; for an output of a network, the constant that its biases add.
    """

    tokens: Tensor
    ngrams: list[Walk]
    total: Tensor
    remainder: Tensor


@torch.no_grad()
def ngram_contributions(
    rcnn: RCNN | RCNNCell,
    x: Tensor,
    position: int = -1,
    head: Tensor | Sequence[float] | None = None,
    k: int = 10,
) -> NgramContributions:
    r"""Shares out :math:`\langle \theta, s_t \rangle` over tokens and n-grams, exactly.

    :math:`s_t` is the layer's state at a position, :math:`c_n`, :math:`z_n` or
    :math:`\sum_j c_j`, before its output map, bias, activation, output gate and highway. It is a
    sum over n-grams, consecutive or not (Lei et al. 2017, theorem 1). Every decay is held at its
    value, even if it depends on x or h. In a layer that multiplies, the n-gram at
    :math:`i_1 < \ldots < i_n \le t` adds

    .. math::
        \Bigl\langle \theta, \bigodot_{m=1}^n (1 - \lambda_{i_m})^\nu \odot W^{(m)} x_{i_m} \odot
        \bigodot_r \lambda_r \Bigr\rangle

    to :math:`c_n`, where r runs over the tokens from :math:`i_1` to t that it skips. Each of its
    tokens gets 1/n. A layer that adds is a sum over suffixes of n-grams, of 1 to n tokens. Each
    takes the features of its first token alone, and this token gets the value. Sums take
    :math:`\mathcal{O}(n T D)` by reverse scans. The best n-grams are found by :func:`best-first
    search <pyg_kernels.explain.search.best_walks>`.

    Args:
        rcnn: An :class:`~pyg_kernels.sequence.RCNN` of one layer and one direction with sum
            pooling, or its cell. Dropout is left out, as in evaluation.
        x: The tokens of one text, :obj:`(T, F)`.
        position: The token at which the state is read; negative numbers count from the end.
        head: The weight :math:`\theta` of each channel, :obj:`(H,)`; ones by default. To explain
            :math:`\langle \theta, M s_t \rangle` with an output map M, give :math:`M^\top \theta`.
        k: How many n-grams to find. The value of an n-gram is all that it adds; with
            ``combine='add'`` and ``readout='sum'``, over all orders of n-grams that end with it.
            N-grams whose values differ only by rounding (ten digits) are sorted by position.

    Returns:
        The shares, in the precision of the layer.

    Raises:
        ValueError: For a layer of another type, several layers, two directions or max pooling; a
            position outside the text; features or a head that do not fit; :obj:`k` below 0; a sum
            that is not finite.

    Example:
        >>> import torch
        >>> from pyg_kernels.explain import ngram_contributions
        >>> from pyg_kernels.sequence import RCNN
        >>> found = ngram_contributions(RCNN(8, 16, order=2), torch.randn(6, 8), k=3)
        >>> found.tokens.shape, len(found.ngrams)
        (torch.Size([6]), 3)
    """
    k = checked_count(k, "k", 0)
    cell = cell_of(rcnn)
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        raise ValueError("x: expected the features of one text, a tensor of shape (T, F)")
    checked_features(x, cell.lins[0])
    place = checked_place(position, x.size(0), "position", "tokens")
    with as_stored(x):
        ngrams = ngram_sum(cell, x[: place + 1], checked_head(head, cell.hidden_size, x))
    total = checked_finite(ngrams.total())
    tokens = total.new_zeros(x.size(0))
    tokens[: place + 1] = ngrams.tokens()
    best = best_walks(TextWalks(ngrams), k)
    return NgramContributions(tokens, best, total, total.new_zeros(()))


def cell_of(rcnn: Module) -> RCNNCell:
    """The one cell of a layer that sums over n-grams."""
    cell: Module = rcnn
    if isinstance(rcnn, RCNN):
        if rcnn.num_layers != 1:
            raise ValueError(f"rcnn has num_layers={rcnn.num_layers}: {_ONE_CELL}")
        if rcnn.bidirectional:
            raise ValueError(f"rcnn has bidirectional=True: {_ONE_CELL}")
        (cell,) = rcnn.cells
    if not isinstance(cell, RCNNCell):
        raise ValueError(f"rcnn is a {type(rcnn).__name__}: expected an RCNN or an RCNNCell")
    if cell.pooling != "sum":
        raise ValueError(f"rcnn has pooling={cell.pooling!r}: a maximum is no sum, expected 'sum'")
    return cell


def ngram_sum(cell: RCNNCell, x: Tensor, theta: Tensor) -> NgramSum:
    r"""The state at the last token as a sum over n-grams, weighted by :math:`\theta`, (H,)."""
    projections = [lin(x) for lin in cell.lins]
    decay = _decays(cell, x).expand_as(projections[0])
    keep = 1 - decay if cell.normalize else torch.ones_like(decay)
    if cell.readout == "sum" and cell.combine == "add":
        # An n-gram of m tokens is a suffix of n-grams of orders m, ..., n. In these its first
        # token is read by the maps 1, ..., n - m + 1.
        projections = list(accumulate(projections, torch.add))
    at_last = torch.zeros_like(decay)
    at_last[-1] = theta
    end = at_last if cell.readout == "z" else theta * keep * _kept_to_the_end(decay)
    every_order = cell.readout == "sum" and cell.combine == "mul"
    ends = [*([end if every_order else None] * (cell.order - 1)), end]
    return NgramSum(projections, decay, keep, ends, cell.combine, cell.readout == "z")


def _decays(cell: RCNNCell, x: Tensor) -> Tensor:
    """The decay at each token, (T, H), (T, 1), (H,) or (1,)."""
    if cell.decay_lin is None:
        decay = cell.decay
        return decay if isinstance(decay, Tensor) else x.new_tensor([decay])
    assert cell.decay_bias is not None
    logits = cell.decay_lin(x) + cell.decay_bias
    if cell.decay_recurrent is not None:
        h, _ = cell.read(x, Layout.of_grid(x.size(0), 1, x.device), cell.start(1, x))
        logits = logits + cell.decay_recurrent(torch.cat((torch.zeros_like(h[:1]), h[:-1])))
    return torch.sigmoid(logits)


def _kept_to_the_end(decay: Tensor) -> Tensor:
    """The product of the decays after each token, (T, H)."""
    after = torch.cat((decay[1:], torch.ones_like(decay[:1])))
    return after.flip(0).cumprod(0).flip(0)
