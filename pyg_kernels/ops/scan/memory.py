"""Gated memory cells along texts, the LSTM family, with or without feedback of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.recurrence import Recurrence, Token
from pyg_kernels.ops.scan.walk import linear_scan

__all__ = ["Form", "memory_scan"]

Pointwise = Callable[[Tensor], Tensor]


class Form(NamedTuple):
    """The settings of a memory cell; activations are ``'none'``, ``'tanh'``, ``'relu'`` or
    ``'sigmoid'``.

    Attributes:
        output: Whether there is an output gate.
        input: Whether there is an input gate.
        forget: Whether there is a forget gate.
        coupled: Whether the input gate is one minus the forget gate.
        memory: Whether the previous memory is carried on.
        candidate: The activation of the candidate, ``'none'`` or ``'tanh'``.
        carried: The activation of the previous memory.
        out: The activation of the memory in the output.
        norm: Whether there is layer normalization.
        eps: The number that layer normalization adds to the variance.
    """

    output: bool = False
    input: bool = False
    forget: bool = False
    coupled: bool = False
    memory: bool = True
    candidate: str = "none"
    carried: str = "none"
    out: str = "none"
    norm: bool = False
    eps: float = 1e-5

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates of the cell, in the order of their columns, and the candidate."""
        there = zip(("output", "input", "forget"), self[:3], strict=True)
        return (*(name for name, has in there if has), "candidate")


def memory_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    params: Tensor,
    h0: Tensor,
    c0: Tensor,
    feed: Tensor | None = None,
    norm: Pointwise | None = None,
    q: Pointwise | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The memories of gated cells along texts, and the outputs made of them.

    .. math::
        c_t = \eta_t \odot g(\tilde c_t) + f_t \odot q(c_{t-1}), \qquad
        h_t = o_t \odot a(\mathrm{LN}(c_t))

    The gates :math:`o, \eta, f` are the sigmoids of their logits plus biases; `feed` adds a map of
    :math:`h_{t-1}` to the logits. Coupled gates have :math:`\eta = 1 - f`. Without an output
    gate, o is 1; the other two may be constants (Liang et al., `"Kernel-Based
    Approaches for Sequence Modeling" <https://arxiv.org/abs/1910.04233>`_, 2019, table 1).

    Args:
        form: The settings.
        layout: The texts: N tokens, B texts.
        x: The logits of the cell's G - 1 gates, in the order output, input, forget, and the values
            of the candidate, side by side: :obj:`(N, G * D)`.
        params: The biases of gates and candidate, the scale and shift of layer normalization, and
            the constants that may replace :math:`\eta` and f: :obj:`(G + 4, D)`.
        h0: h before the first token, :obj:`(B, D)`.
        c0: c before the first token, :obj:`(B, D)`.
        feed: The map of :math:`h_{t-1}` into the first R columns of x, :obj:`(R, D)`; R is a
            multiple of D.
        norm: A function that replaces layer normalization.
        q: A function that replaces both q and a.

    Returns:
        h, :obj:`(N, D)`; c, :obj:`(N + B, D)`, with those before the first token at the end; and c
        after the last token of each text, :obj:`(B, D)`. They have the operands' common precision.
        Half precision is computed in single precision, unless `norm` or `q` is given.

    Raises:
        ValueError: Where the shapes do not fit.
    """
    result = common_dtype(x, params, h0, c0, feed)
    dtype = result if norm or q else torch.promote_types(result, torch.float32)
    x, params, h0, c0 = (t.to(dtype) for t in (x, params, h0, c0))
    feed = None if feed is None else feed.to(dtype)
    if norm is not None and feed is None and form.carried == "none" and q is None:
        h, c, end = _parallel(form, layout, x, params, c0, norm)
    else:
        states = c0.unsqueeze(0)
        h, c, end = _SCAN.scan(form, layout, x, params, h0, states, feed=feed, norm=norm, q=q)
        c, end = c[0], end[0]
    return h.to(result), c.to(result), end.to(result)


def _parallel(
    form: Form, layout: Layout, x: Tensor, params: Tensor, c0: Tensor, norm: Pointwise | None
) -> tuple[Tensor, Tensor, Tensor]:
    """A cell whose memory is a linear recurrence: all tokens at once, around one scan."""
    columns = x.split(params.size(1), 1)
    gate, new, keep = _opened(form, columns, params)
    c = linear_scan(keep, new.contiguous(), layout, c0) if form.memory else new
    h = _put_out(form, gate, c, params, norm)
    if layout.form == "padded":
        h, c = (torch.where(layout.is_token(), rows, 0) for rows in (h, c))
    return h, torch.cat((c, c0)), layout.last(c, c0)


def _step(
    form: Form, token: Token, norm: Pointwise | None = None, q: Pointwise | None = None
) -> tuple[Any, Sequence[Any]]:
    gate, new, keep = _opened(form, token.x, token.params)
    c = new + keep * _activation(form.carried, q)(token.c[0]) if form.memory else new
    return _put_out(form, gate, c, token.params, norm, q), [c]


def _opened(form: Form, x: Sequence[Any], params: Any) -> tuple[Any, Any, Any]:
    """The output gate, the new part of the memory, and the factor of the previous memory."""
    logits = [column + bias for column, bias in zip(x, params, strict=False)]
    at = {name: torch.sigmoid(y) for name, y in zip(form.gates[:-1], logits, strict=False)}
    candidate = _activation(form.candidate)(logits[-1])
    keep = at.get("forget", params[-1])
    share = 1 - keep if form.coupled else at.get("input", params[-2])
    return at.get("output"), share * candidate, keep


def _put_out(
    form: Form,
    gate: Any,
    c: Any,
    params: Any,
    norm: Pointwise | None = None,
    q: Pointwise | None = None,
) -> Any:
    """The outputs for some memories."""
    if norm is not None:
        h = norm(c)
    elif form.norm:
        centered = c - c.mean(-1, keepdim=True)
        deviation = torch.rsqrt(centered.square().mean(-1, keepdim=True) + form.eps)
        h = centered * deviation * params[-4] + params[-3]
    else:
        h = c
    h = _activation(form.out, q)(h)
    return h if gate is None else gate * h


def _activation(name: str, q: Pointwise | None = None) -> Any:
    """The function q if it is given, else the function of this name."""
    return q or (torch.clone if name == "none" else getattr(torch, name))


_SCAN = Recurrence("memory_scan", Form, _step, lambda form: [True] * len(form.gates))
