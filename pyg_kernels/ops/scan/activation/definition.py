"""The definition of recurrent networks with kernel expansions: a plain loop through time."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.expansion.definition import Green, direct_sum, linear_pieces, read_pieces
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.definition import loop


class Form(NamedTuple):
    """What a step is made of.

    Attributes:
        green: The Green function.
        bandwidth: The standard deviation of a Gaussian.
        normalize: Whether pre-activations are normalized by statistics of their step.
        eps: What is added to variances.
    """

    green: Green
    bandwidth: float | None = None
    normalize: bool = False
    eps: float = 1e-5


def activation_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    h0: Tensor,
    feed: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    slope: Tensor | None,
    intercept: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """h and a; arguments as :func:`pyg_kernels.ops.scan.activation.activation_scan` names them."""
    pieces = None
    if form.green != "gaussian" and not torch.onnx.is_in_onnx_export():
        pieces = linear_pieces(centers, coefficients, form.green)

    def after(t: int | Tensor, h: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        before = a = layout.rows_at(x, t) + F.linear(h, feed)
        if form.normalize:
            a = _normalized(a, layout.has_token(t), form.eps)
            a = a if weight is None else a * weight
            a = a if bias is None else a + bias
        if pieces is not None:
            found = read_pieces(a, pieces, form.green)
        else:
            found = direct_sum(a, centers, coefficients, form.green, form.bandwidth)
        if slope is not None and intercept is not None:
            found = found + torch.addcmul(intercept, slope, a)
        return found, before

    (outs, inputs), _ = loop(after, layout, h0, torch.zeros_like(h0))
    return layout.collect(outs), layout.collect(inputs)


def _normalized(a: Tensor, token: Tensor, eps: float) -> Tensor:
    """Rows less their mean over the texts that have a token, over their deviation."""
    count = token.sum().clamp_min(1)
    centered = a - torch.where(token, a, 0).sum(0) / count
    return centered * torch.rsqrt(torch.where(token, centered, 0).square().sum(0) / count + eps)
