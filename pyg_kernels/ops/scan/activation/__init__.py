"""Recurrent networks whose activations are kernel expansions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion import Green
from pyg_kernels.ops.operator import Operator, runs_compiled
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation import definition
from pyg_kernels.ops.scan.activation.definition import Form

__all__ = ["Form", "activation_scan"]

_FIELDS = len(Form._fields)


def activation_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    h0: Tensor,
    feed: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    slope: Tensor | None = None,
    intercept: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Networks whose activation is a kernel expansion, token by token.

    .. math::
        h_t = f\left(\gamma \odot \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta\right),
        \qquad a_t = u_t + W h_{t-1}

    with the mean :math:`\mu_t` and variance :math:`\sigma_t^2` over the texts that have a token t;
    without normalization :math:`h_t = f(a_t)`.

    Args:
        form: The Green function, and whether pre-activations are normalized.
        layout: The texts: N tokens, B texts.
        x: u, :obj:`(N, H)`.
        h0: The output before the first token, :obj:`(B, H)`.
        feed: W, :obj:`(H, H)`.
        centers, coefficients, slope, intercept: Those of f, as
            :func:`pyg_kernels.ops.expansion.kernel_expansion` takes them.
        weight: The scale :math:`\gamma`, :obj:`(H,)`, or None for 1.
        bias: The shift :math:`\beta`, :obj:`(H,)`, or None for 0.

    Returns:
        The outputs h and the pre-activations a, which carry no gradient, each :obj:`(N, H)`, in
        the operands' common precision.
    """
    given = (x, h0, feed, centers, coefficients, slope, intercept, weight, bias)
    channels, of_units = x.size(-1), 1 if centers.size(0) == 1 else x.size(-1)
    check_shapes(
        x=(x, (layout.num_rows, channels)),
        h0=(h0, (layout.num_texts, channels)),
        feed=(feed, (channels, channels)),
        centers=(centers, (of_units, centers.size(-1))),
        coefficients=(coefficients, (of_units, centers.size(-1))),
        slope=(slope, (of_units,)),
        intercept=(intercept, (of_units,)),
        weight=(weight, (channels,)),
        bias=(bias, (channels,)),
    )
    result = common_dtype(*given)
    dtype = torch.promote_types(result, torch.float32)
    tensors = (None if t is None else t.to(dtype).contiguous() for t in given)
    out, before, *_ = _OPERATOR(*tensors, layout.start, layout.length, *form, *layout.settings)
    return out.to(result), before.detach()


def _forward(
    x: Tensor,
    h0: Tensor,
    feed: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    slope: Tensor | None,
    intercept: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    start: Tensor,
    length: Tensor,
    green: str,
    bandwidth: float | None,
    normalize: bool,
    eps: float,
    num_steps: int,
    layout_form: str,
    steps_first: bool,
    backwards: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """h and a; the entries of f's pieces or the slopes of Gaussians; all pieces, their order."""
    tensors = (x, h0, feed, centers, coefficients, slope, intercept, weight, bias)
    form = Form(cast(Green, green), bandwidth, normalize, eps)
    settings = (num_steps, layout_form, steps_first, backwards)
    if not runs_compiled(x):
        h, a = definition.activation_scan(*tensors, start, length, *form, *settings)
        return h, a, x.new_empty(0, 0), x.new_empty(0, 0), x.new_empty(0, 0)
    from pyg_kernels.ops.scan.activation import cpu

    layout = Layout.of_settings(start, length, x.size(0), settings)
    return cpu.forward(form, layout, tensors)


def _backward(
    grads: Sequence[Tensor | None],
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    settings: Sequence[Any],
    needed: Sequence[bool],
) -> Sequence[Tensor | None]:
    if grads[0] is None:
        return (None,) * len(tensors)
    if not runs_compiled(grads[0]):
        return _OPERATOR.by_definition(tensors, settings, needed, grads)
    from pyg_kernels.ops.scan.activation import cpu

    *tensors, start, length = tensors
    layout = Layout.of_settings(start, length, tensors[0].size(0), tuple(settings[_FIELDS:]))
    form = Form(*settings[:_FIELDS])
    return *cpu.backward(form, layout, tensors, outputs, grads[0], needed), None, None


def _fake(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    (functions, d), green, shape = rest[2].shape, rest[10], x.shape
    kept, table, order = (x.new_empty(0, 0) for _ in range(3))
    if runs_compiled(x) and green == "gaussian":
        kept = x.new_empty(shape)
    elif runs_compiled(x):
        kept, table = x.new_empty(shape, dtype=torch.int32), x.new_empty(4, functions * (d + 1))
        order = x.new_empty(functions, d, dtype=torch.long)
    return x.new_empty(shape), x.new_empty(shape), kept, table, order


_OPERATOR = Operator(
    "activation_scan", _forward, _backward, definition.activation_scan, _fake, 11, 5
)
