"""Recurrent networks whose activations are kernel expansions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion.definition import Green, direct_sum, linear_pieces, read_pieces
from pyg_kernels.ops.operator import path_of
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.definition import loop
from pyg_kernels.ops.scan.operator import Scan

__all__ = ["Form", "activation_scan"]


class Form(NamedTuple):
    """The settings of a step.

    Attributes:
        green: The Green function.
        bandwidth: The standard deviation of a Gaussian.
        normalize: Whether pre-activations are normalized by statistics of their step.
        eps: The number that is added to variances.
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
    slope: Tensor | None = None,
    intercept: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Recurrent networks whose activation is a kernel expansion, along texts.

    .. math::
        h_t = f\left(\gamma \odot \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta\right),
        \qquad a_t = u_t + W h_{t-1}

    with the mean :math:`\mu_t` and variance :math:`\sigma_t^2` over the texts that have a token t.
    Without normalization, :math:`h_t = f(a_t)`.

    Args:
        form: The Green function, and whether pre-activations are normalized.
        layout: The texts: N tokens, B texts.
        x: u, :obj:`(N, H)`.
        h0: The output before the first token, :obj:`(B, H)`.
        feed: W, :obj:`(H, H)`.
        centers, coefficients, slope, intercept: The parameters of f, as
            :func:`pyg_kernels.ops.expansion.kernel_expansion` takes them.
        weight: The scale :math:`\gamma`, :obj:`(H,)`, or None for 1.
        bias: The shift :math:`\beta`, :obj:`(H,)`, or None for 0.

    Returns:
        The outputs h, in the operands' common precision, and the pre-activations a, which carry no
        gradient and have at least single precision; each :obj:`(N, H)`.
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


def define(form: Form, layout: Layout, *tensors: Any) -> tuple[Tensor, Tensor]:
    """h and a by definition: a plain loop through time."""
    x, h0, feed, centers, coefficients, slope, intercept, weight, bias = tensors
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
    """Rows minus their mean over the texts that have a token, divided by their deviation."""
    count = token.sum().clamp_min(1)
    centered = a - torch.where(token, a, 0).sum(0) / count
    return centered * torch.rsqrt(torch.where(token, centered, 0).square().sum(0) / count + eps)


def scale_and_shift(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """The scale and shift of a normalization, (2, H), for the kernels."""
    scale = x.new_ones(x.size(1)) if weight is None else weight
    return torch.stack((scale, torch.zeros_like(scale) if bias is None else bias))


def of_line(slope: Tensor | None, reaching: Tensor, inputs: Tensor) -> list[Tensor | None]:
    """The gradients of slope and intercept, from the outputs' gradients and the inputs."""
    if slope is None:
        return [None, None]
    return [t.sum(0).sum_to_size(slope.shape) for t in (reaching * inputs, reaching)]


def _fake(form: Form, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, (functions, d) = tensors[0], tensors[3].shape
    pieces = form.green != "gaussian" and path_of(x) != "triton"
    return (
        x.new_empty(x.shape),
        x.new_empty(x.shape),
        x.new_empty(x.shape, dtype=torch.int32 if pieces else x.dtype),
        x.new_empty(4, functions, d + 1) if pieces else x.new_empty(0, 0, 0),
        x.new_empty((functions, d) if pieces else (0, 0), dtype=torch.long),
        x.new_empty(2, layout.num_steps * form.normalize, x.size(1)),
    )


_SCAN = Scan(
    "activation_scan",
    "x h0 feed centers coefficients slope? intercept? weight? bias?",
    Form,
    define,
    _fake,
    {"numba": f"{__name__}_cpu", "triton": f"{__name__}_cuda"},
    num_outputs=6,
    num_defined=2,
)
