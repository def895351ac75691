"""Walks of all orders along texts, with the gates and outputs of a layer, in one scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.recurrence import Recurrence, Token
from pyg_kernels.walk import walk

__all__ = ["Form", "extremes", "linear_scan", "tokens_before", "walk_scan"]


class Form(NamedTuple):
    r"""The settings of a walk's scan.

    Attributes:
        order: The number of orders n.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether inputs are weighted by :math:`1 - \lambda`.
        gate: Where the decay comes from: ``'none'``, the first row of the parameters;
            ``'values'``, columns of x; ``'logits'``, the sigmoid of columns of x plus that row.
        width: The number of these columns, 0, 1 or D; if any, the first parameter has as many.
        readout: The state that is read out: ``'c'``, ``'z'`` or ``'sum'``.
        act: The activation of that state: ``'tanh'``, ``'relu'`` or ``'none'``.
        output_gate: Whether x has logits of an output gate.
        highway: Whether x has logits of a highway.
        hold: Whether a token that counts in part keeps the previous output for the rest.
        pooling: ``'sum'``, or ``'max'`` for the largest products in place of their sums.
    """

    order: int
    combine: str = "mul"
    normalize: bool = False
    gate: str = "none"
    width: int = 0
    readout: str = "c"
    act: str = "none"
    output_gate: bool = False
    highway: bool = False
    hold: bool = True
    pooling: str = "sum"


def walk_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    params: Tensor,
    c0: Tensor,
    h0: Tensor,
    select: Tensor | None = None,
    carried: Tensor | None = None,
    feed: Tensor | None = None,
    mask: Tensor | None = None,
    act: Callable[[Tensor], Tensor] | None = None,
    output_map: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The states of walks of all orders along texts, and the outputs made of them.

    .. math::
        z_1[t] &= P_1[t], \qquad z_j[t] = c_{j-1}[t-1] \circ P_j[t] \\
        c_j[t] &= \lambda_t \odot c_j[t-1] + (1 - \lambda_t)^\nu \odot z_j[t] \\
        h_t &= f_t \odot o_t \odot \sigma(s_t + b) + (1 - f_t) \odot y_t

    where s is one of :math:`c_n, z_n, \sum_j c_j` (Lei, PhD thesis, 2017, tables 2.1 and 2.2). A
    selection s' of tokens replaces :math:`\lambda_t` by :math:`1 - s'_t (1 - \lambda_t)` and
    :math:`h_t` by :math:`s'_t h_t + (1 - s'_t) h_{t-1}`; where :math:`\nu = 0`, it weights the
    inputs by :math:`s'_t`.

    With max-pooling (section 2.3.5), the states are the largest products of all n-grams, followed
    by the smallest products, which a negative factor turns into the largest:

    .. math::
        z_j^{max}[t] = \max(P_j[t] \odot c_{j-1}^{max}[t-1],\; P_j[t] \odot c_{j-1}^{min}[t-1]),
        \qquad c_j^{max}[t] = \max(\lambda_t \odot c_j^{max}[t-1],\; z_j^{max}[t])

    for decays that are not negative. A missing n-gram counts as 0. The gradient goes to the n-gram
    that attains the value. Of several, it goes to the one that was complete first; of those that
    end together, to the one whose first j - 1 tokens were complete first.

    Args:
        form: The settings.
        layout: The texts: N tokens, B texts.
        x: The columns of the decay and the output gate, :math:`P_1, \ldots, P_n`, and the columns
            of the highway, side by side; gates as logits: :obj:`(N, K)`, float32 or float64.
        params: The decay or its bias, the bias b, and the biases of the output gate and the
            highway: :obj:`(4, D)`.
        c0: :math:`c_1, \ldots, c_n` before the first token, :obj:`(n, B, D)`; with max-pooling
            the largest and then the smallest, :obj:`(2n, B, D)`.
        h0: h before the first token, :obj:`(B, D)`.
        select: The weight :math:`s'` of each token, :obj:`(N, 1)`; with max-pooling the number of
            tokens before it, see `extremes`.
        carried: The input y that the highway carries, :obj:`(N, D)`.
        feed: The map of :math:`h_{t-1}` into the logits of the decay and, where there is one, of
            the output gate, :obj:`(R, D)`.
        mask: Factors on the :math:`h_{t-1}` that `feed` reads, :obj:`(B, D)`.
        act: An activation that replaces the form's. With it, or with an output map, a loop of
            PyTorch's ops replaces the scan.
        output_map: A map of s, :obj:`(D, D)`.

    Returns:
        h, :obj:`(N, D)`; c of all orders, :obj:`(n, N + B, D)`, with those before the first
        token at the end; and c after the last token of each text, :obj:`(n, B, D)`.

    Raises:
        ValueError: Where the shapes do not fit.
    """
    form = form._replace(width=min(form.width, 2))  # only which of 0, 1 and D it is matters
    given = layout, x, params, h0, c0, select, carried, feed, mask
    return _SCAN.scan(form, *given, act=act, output_map=output_map)


def tokens_before(layout: Layout, seen: Tensor, dtype: torch.dtype) -> Tensor:
    """The number of tokens read before each, (N, 1); `seen` were read before a text's first token.

    If `seen` is below 0, n-grams begin that much later.
    """
    text, step = layout.places()
    return (seen.index_select(0, text) + step).to(dtype).unsqueeze(1)


def extremes(
    layout: Layout, high: Tensor, low: Tensor, seen: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`c0` and `select` of a scan of maxima.

    Args:
        layout: The texts.
        high: The largest products so far, (n, B, D); entries without an n-gram may be anything.
        low: The smallest products so far, of the same shape.
        seen: The number of tokens that each text had so far, (B,).
        dtype: The precision of the scan.
    """
    order = torch.arange(len(high), device=high.device).repeat(2)
    c0 = torch.cat((high, low)).to(dtype)
    c0 = torch.where((seen > order.unsqueeze(1)).unsqueeze(2), c0, 0)
    return c0, tokens_before(layout, seen, dtype)


def linear_scan(
    decay: Tensor, x: Tensor, layout: Layout, initial: Tensor, normalize: bool = False
) -> Tensor:
    r"""The recurrence :math:`c_t = \lambda_t \odot c_{t-1} + (1 - \lambda_t)^\nu \odot x_t`.

    Args:
        decay: :math:`\lambda`: :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or :obj:`(N, D)`.
        x: The inputs, :obj:`(N, D)`.
        layout: The texts.
        initial: c before the first token, :obj:`(B, D)`.
        normalize: Whether :math:`\nu` is 1, rather than 0.

    Returns:
        c, :obj:`(N, D)`, in the operands' common precision.

    Raises:
        ValueError: Where the shapes do not fit.
    """
    if decay.dim() == 2:
        wide = decay.size(1) if decay.size(1) == 1 else x.size(1)
        check_shapes(decay=(decay, (layout.num_rows, wide)))
    elif decay.dim() != 1 or decay.size(0) not in (1, x.size(1)):
        raise ValueError(f"decay has shape {tuple(decay.shape)}: expected (1,) or ({x.size(1)},)")
    result = torch.promote_types(torch.promote_types(x.dtype, decay.dtype), initial.dtype)
    dtype = torch.promote_types(result, torch.float32)
    decay, x, initial = decay.to(dtype), x.to(dtype), initial.to(dtype)
    params = x.new_zeros(4, x.size(1))
    width = 0
    if decay.dim() == 2:
        width, x = decay.size(1), torch.cat((decay, x), 1)
    else:
        params = torch.cat((decay.expand(1, params.size(1)), params[1:]))
    form = Form(1, "mul", normalize, "values" if width else "none", width)
    h, _, _ = walk_scan(form, layout, x, params, initial.unsqueeze(0), initial)
    return h.to(result)


def _step(
    form: Form,
    token: Token,
    act: Callable[[Tensor], Tensor] | None = None,
    output_map: Tensor | None = None,
) -> tuple[Any, Sequence[Any]]:
    x, (decay, bias, output_bias, highway_bias) = list(token.x), token.params
    c, n, maxima = token.c, form.order, form.pooling == "max"
    select = None if maxima else token.weight
    if form.gate != "none":
        gate = x.pop(0)
        decay = gate if form.gate == "values" else torch.sigmoid(gate + decay)
    output = x.pop(0) if form.output_gate else None
    highway = x.pop() if form.highway else None
    if select is not None:
        decay = 1 - select * (1 - decay)
    if maxima:
        z, c = _largest(x, decay, token.weight, c)
    else:
        z = walk(x, lambda _, step: c[step - 2], "mul" if form.combine == "mul" else "add")
        weight = 1 - decay if form.normalize else 1.0 if select is None else select
        c = [decay * c_j + weight * z_j for c_j, z_j in zip(c, z, strict=True)]
    state = {"c": lambda: c[n - 1], "z": lambda: z[-1], "sum": lambda: sum(c[:n])}[form.readout]()
    state = state if output_map is None else torch.nn.functional.linear(state, output_map)
    out = activated(form.act, state + bias) if act is None else act(state + bias)
    if output is not None:
        out = torch.sigmoid(output + output_bias) * out
    if highway is not None:
        opened = torch.sigmoid(highway + highway_bias)
        out = opened * out + (1 - opened) * token.beside
    return out if select is None or not form.hold else select * out + (1 - select) * token.h, c


def _largest(
    x: Sequence[Any], decay: Any, before: Any, c: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The largest products that end at a token; the largest and smallest of all up to it."""
    high, low = c[: len(x)], c[len(x) :]
    ends: list[Any] = []
    most: list[Any] = []
    least: list[Any] = []
    for j, p in enumerate(x):
        p = torch.where(before >= j, p, 0.0)
        z_high = z_low = p
        if j:
            swaps = p < 0
            z_high = p * torch.where(swaps, low[j - 1], high[j - 1])
            z_low = p * torch.where(swaps, high[j - 1], low[j - 1])
        kept_high, kept_low = decay * high[j], decay * low[j]
        stays_high = (kept_high >= z_high) | kept_high.isnan()
        stays_low = (kept_low <= z_low) | kept_low.isnan()
        most.append(torch.where((before > j) & stays_high, kept_high, z_high))
        least.append(torch.where((before > j) & stays_low, kept_low, z_low))
        ends.append(z_high)
    return ends, [*most, *least]


def activated(act: str, x: Any) -> Any:
    """An activation by name; ``'none'`` is the identity."""
    return x if act == "none" else getattr(torch, act)(x)


def _columns(form: Form) -> list[bool]:
    """Whether each part of x has D columns: the gates, the projections, the highway."""
    gate = [form.width > 1] if form.width else []
    return gate + [True] * (form.output_gate + form.order + form.highway)


_SCAN = Recurrence("walk_scan", Form, _step, _columns, lambda form: [0] if form.width == 1 else [])
