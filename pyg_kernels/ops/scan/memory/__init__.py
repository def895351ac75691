"""Gated memory cells along texts, the LSTM family, with or without feedback of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.memory import definition
from pyg_kernels.ops.scan.memory.definition import Form, Pointwise
from pyg_kernels.ops.scan.operator import Scan
from pyg_kernels.ops.scan.walk import linear_scan

__all__ = ["Form", "memory_scan"]


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

    with the gates :math:`o, \eta, f` the sigmoids of their logits plus biases, to which what
    `feed` makes of :math:`h_{t-1}` is added; :math:`\eta = 1 - f` where they are coupled.
    Without an output gate o is 1; the other two may be constants (Liang et al., `"Kernel-Based
    Approaches for Sequence Modeling" <https://arxiv.org/abs/1910.04233>`_, 2019, table 1).

    Args:
        form: Which of these there are.
        layout: The texts: N tokens, B texts.
        x: The logits of the G - 1 gates that there are, in the order output, input, forget, and
            the candidate's values, side by side: :obj:`(N, G * D)`.
        params: The biases of these, layer normalization's scale and shift, and the constants
            in place of :math:`\eta` and f: :obj:`(G + 4, D)`.
        h0: h before the first token, :obj:`(B, D)`.
        c0: c before the first token, :obj:`(B, D)`.
        feed: The map of :math:`h_{t-1}` into the first R columns of x, :obj:`(R, D)`; R is a
            multiple of D.
        norm: A function in place of layer normalization.
        q: A function in place of both q and a.

    Returns:
        h, :obj:`(N, D)`; c, :obj:`(N + B, D)`, those before the first token last; and c after
        the last token of each text, :obj:`(B, D)`. They have the operands' common precision;
        half precision is computed in single, but with functions of one's own as it is.
    """
    rows, channels = layout.num_rows, c0.size(-1)
    gates = form.output + form.input + form.forget + 1
    check_shapes(
        x=(x, (rows, gates * channels)),
        params=(params, (gates + 4, channels)),
        h0=(h0, (layout.num_texts, channels)),
        c0=(c0, (layout.num_texts, channels)),
        feed=(feed, ((0 if feed is None else feed.size(0) // channels) * channels, channels)),
    )
    result = common_dtype(x, params, h0, c0, feed)
    dtype = result if norm or q else torch.promote_types(result, torch.float32)
    x, params, h0, c0 = (t.to(dtype) for t in (x, params, h0, c0))
    feed = None if feed is None else feed.to(dtype)
    linear = feed is None and form.carried == "none" and q is None
    if linear and (norm is not None or x.device.type != "cpu"):
        found = _parallel(form, layout, x, params, c0, norm)
    elif norm or q:
        found = definition.memory_scan(form, layout, x, params, feed, h0, c0, norm, q)
    else:
        found = _SCAN.scan(form, layout, x, params, feed, h0, c0)[:3]  # type: ignore[assignment]
    h, c, end = found
    return h.to(result), c.to(result), end.to(result)


def _parallel(
    form: Form, layout: Layout, x: Tensor, params: Tensor, c0: Tensor, norm: Pointwise | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the memory is a linear recurrence: all tokens at once around one scan."""
    gate, new, keep = definition.opened(form, x, params)
    c = linear_scan(keep, new.contiguous(), layout, c0) if form.memory else new
    h = definition.put_out(form, gate, c, params, norm)
    if layout.form == "padded":
        h, c = (torch.where(layout.is_token(), rows, 0) for rows in (h, c))
    return h, torch.cat((c, c0)), layout.last(c, c0)


def _fake(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, _, feed, _, c0 = tensors
    texts, channels = c0.shape
    kept = (0, 0) if feed is None else (x.size(0), feed.size(0))
    h, c = x.new_empty(x.size(0), channels), x.new_empty(x.size(0) + texts, channels)
    return h, c, x.new_empty(c0.shape), x.new_empty(kept)


_SCAN = Scan(
    "x params feed? h0 c0", Form, definition.memory_scan, _fake, num_outputs=4, num_defined=3
)
