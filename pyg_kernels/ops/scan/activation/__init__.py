"""Recurrent networks whose activations are kernel expansions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation import definition
from pyg_kernels.ops.scan.activation.definition import Form
from pyg_kernels.ops.scan.operator import Scan

__all__ = ["Form", "activation_scan"]


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
    out, before, *_ = _SCAN.scan(form, layout, *tensors)
    return out.to(result), before.detach()


def _fake(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, (functions, d) = tensors[0], tensors[3].shape
    out, before = x.new_empty(x.shape), x.new_empty(x.shape)
    if form.green == "gaussian":
        return out, before, x.new_empty(x.shape), x.new_empty(0, 0), x.new_empty(0, 0)
    kept, table = x.new_empty(x.shape, dtype=torch.int32), x.new_empty(4, functions * (d + 1))
    return out, before, kept, table, x.new_empty(functions, d, dtype=torch.long)


_SCAN = Scan(
    "x h0 feed centers coefficients slope? intercept? weight? bias?",
    Form,
    definition.activation_scan,
    _fake,
    num_outputs=5,
    num_defined=2,
)
