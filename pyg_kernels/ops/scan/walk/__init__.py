"""Walks of all orders along texts, their gates, and what a layer puts out, in one scan."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.operator import cpu_backend, runs_compiled
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.operator import Scan
from pyg_kernels.ops.scan.walk import definition
from pyg_kernels.ops.scan.walk.definition import Form

__all__ = ["Form", "linear_scan", "walk_scan"]

# Kernels keep tuples of states, which Triton 3.2, that of PyTorch 2.6, cannot.
_HAS_TRITON = find_spec("triton") is not None and not torch.__version__.startswith("2.6.")


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
    act: definition.Activation | None = None,
    output_map: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The states of walks of all orders along texts, and the outputs made of them.

    .. math::
        z_1[t] &= P_1[t], \qquad z_j[t] = c_{j-1}[t-1] \circ P_j[t] \\
        c_j[t] &= \lambda_t \odot c_j[t-1] + (1 - \lambda_t)^\nu \odot z_j[t] \\
        h_t &= f_t \odot o_t \odot \sigma(s_t + b) + (1 - f_t) \odot y_t

    with s one of :math:`c_n, z_n, \sum_j c_j`, and with a selection s' of tokens
    :math:`\lambda_t` in place of :math:`1 - s'_t (1 - \lambda_t)`, inputs weighted by
    :math:`s'_t` where :math:`\nu = 0`, and :math:`s'_t h_t + (1 - s'_t) h_{t-1}` in place of
    :math:`h_t` (Lei, PhD thesis, 2017, tables 2.1 and 2.2).

    Args:
        form: Which of these there are.
        layout: The texts: N tokens, B texts.
        x: Side by side the decay's columns, the output gate's, :math:`P_1, \ldots, P_n` and the
            highway's, gates as logits: :obj:`(N, K)`, float32 or float64.
        params: The decay or its bias, the bias b, the output gate's and the highway's:
            :obj:`(4, D)`.
        c0: :math:`c_1, \ldots, c_n` before the first token, :obj:`(n, B, D)`.
        h0: h before the first token, :obj:`(B, D)`.
        select: The weight :math:`s'` of each token, :obj:`(N, 1)`.
        carried: What the highway carries past, y, :obj:`(N, D)`.
        feed: The map of :math:`h_{t-1}` into the logits of the decay and, where there is one, of
            the output gate, :obj:`(R, D)`.
        mask: Factors on :math:`h_{t-1}` as `feed` reads it, :obj:`(B, D)`.
        act: An activation in place of the form's; with it, and with a map, a loop of PyTorch's
            ops takes the place of the scan.
        output_map: A map of s, :obj:`(D, D)`.

    Returns:
        h, :obj:`(N, D)`; c of all orders, :obj:`(n, N + B, D)`, those before the first token
        last; and c after the last token of each text, :obj:`(n, B, D)`.

    Raises:
        ValueError: Where the shapes do not fit.
    """
    rows, texts, channels = layout.num_rows, layout.num_texts, c0.size(-1)
    gates = form.width + channels * form.output_gate
    check_shapes(
        x=(x, (rows, gates + channels * (form.order + form.highway))),
        params=(params, (4, channels)),
        c0=(c0, (form.order, texts, channels)),
        h0=(h0, (texts, channels)),
        select=(select, (rows, 1)),
        carried=(carried, (rows, channels)),
        feed=(feed, (gates, channels)),
        mask=(mask, (texts, channels)),
    )
    tensors = (x, params, select, carried, feed, mask, h0, c0)
    if act is not None or output_map is not None:
        return definition.walk_scan(form, layout, *tensors, act, output_map)
    if _runs_triton(x, select, feed) and not _is_bare(form):
        return _around_bare(form, layout, x, params, c0, h0, carried)
    h, c, end, *_ = _SCAN.scan(form, layout, *tensors)
    return h, c, end


def linear_scan(
    decay: Tensor, x: Tensor, layout: Layout, initial: Tensor, normalize: bool = False
) -> Tensor:
    r"""The recurrence :math:`c_t = \lambda_t \odot c_{t-1} + (1 - \lambda_t)^\nu \odot x_t`.

    Args:
        decay: :math:`\lambda`: :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or :obj:`(N, D)`.
        x: The inputs, :obj:`(N, D)`.
        layout: The texts.
        initial: c before the first token, :obj:`(B, D)`.
        normalize: Whether :math:`\nu` is 1 or 0.

    Returns:
        c, :obj:`(N, D)`, of the operands' common precision.

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


def path_in_use(device: torch.device) -> str:
    """``'numba'`` on CPU, ``'triton'`` on CUDA, or ``'definition'``: PyTorch's own ops.

    The definition also serves what is fed back and selections on CUDA, ONNX, the transforms of
    ``torch.func`` and second derivatives.
    """
    if device.type == "cuda" and _HAS_TRITON:
        return "triton"
    return cpu_backend() if device.type == "cpu" else "definition"


def _runs_triton(x: Tensor, select: Tensor | None, feed: Tensor | None) -> bool:
    known = x.is_cuda and x.dtype in (torch.float32, torch.float64)
    return known and _HAS_TRITON and select is None and feed is None


def _is_bare(form: Form) -> bool:
    """Whether Triton's kernels compute all of a form."""
    return form.act == "none" and not form.output_gate and not form.highway


def _around_bare(
    form: Form,
    layout: Layout,
    x: Tensor,
    params: Tensor,
    c0: Tensor,
    h0: Tensor,
    carried: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The bare form by the op, and what is around it by PyTorch's."""
    token = None
    if layout.form == "padded":  # whose rows may hold anything
        token = layout.is_token()
        x = torch.where(token, x, 0)
        carried = None if carried is None else torch.where(token, carried, 0)
    channels = c0.size(2)
    sizes = (form.width, channels * form.output_gate, form.order * channels)
    gate, output, p, highway = x.split((*sizes, x.size(1) - sum(sizes)), 1)
    bare = form._replace(act="none", output_gate=False, highway=False)
    read = torch.cat((gate, p), 1) if form.output_gate or form.highway else x
    out, c, end = walk_scan(bare, layout, read, params, c0, h0)
    out = definition.activated(form.act, out)
    if form.output_gate:
        out = torch.sigmoid(output + params[2]) * out
    if form.highway:
        assert carried is not None
        opened = torch.sigmoid(highway + params[3])
        out = opened * out + (1 - opened) * carried
    return out if token is None else torch.where(token, out, 0), c, end


def _path(form: Form, tensors: Sequence[Tensor | None]) -> str | None:
    x, _, select, _, feed, *_ = tensors
    assert x is not None
    if _runs_triton(x, select, feed) and _is_bare(form):
        return "cuda"
    return "cpu" if runs_compiled(x) else None


def _fake(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, feed, c0 = tensors[0], tensors[4], tensors[7]
    order, texts, channels = c0.shape
    kept = (0, 0) if feed is None else (x.size(0), feed.size(0))
    states = x.new_empty(order, x.size(0) + texts, channels)
    return x.new_empty(x.size(0), channels), states, x.new_empty(c0.shape), x.new_empty(kept)


_SCAN = Scan(
    "x params select? carried? feed? mask? h0 c0",
    Form,
    definition.walk_scan,
    _fake,
    num_outputs=4,
    num_defined=3,
    path=_path,
)
