"""The definition of recurrent networks with kernel expansions: a plain loop through time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.expansion import Line, as_line
from pyg_kernels.ops.expansion.gaussian import gaussian_expansion
from pyg_kernels.ops.expansion.pieces import linear_pieces, searched_pieces
from pyg_kernels.ops.expansion.reference import Green
from pyg_kernels.ops.packing import Packing


class Expansion(NamedTuple):
    """The activations of H units: arguments of `pyg_kernels.ops.expansion.kernel_expansion`."""

    centers: Tensor
    coefficients: Tensor
    slope: Tensor | None
    intercept: Tensor | None

    @property
    def line(self) -> Line | None:
        return as_line(self.slope, self.intercept)


class Form(NamedTuple):
    """What a step is made of.

    Attributes:
        green: The Green function.
        bandwidth: The standard deviation of a Gaussian.
        normalize: Whether pre-activations are normalised by statistics of their step.
        eps: What is added to variances.
    """

    green: Green
    bandwidth: float | None = None
    normalize: bool = False
    eps: float = 1e-5


def activation_scan(
    form: Form,
    packing: Packing,
    logits: Tensor,
    h: Tensor,
    recurrent: Tensor,
    expansion: Expansion,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r"""Networks whose activation is a kernel expansion, token by token.

    .. math::
        a_t = u_t + W h_{t-1}, \qquad
        h_t = f\left(\gamma \odot \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta\right)

    with the mean :math:`\mu_t` and variance :math:`\sigma_t^2` over the texts that have a token t;
    without normalisation :math:`h_t = f(a_t)`.

    Args:
        form: What a step is made of.
        packing: The texts.
        logits: u, :obj:`(N, H)`.
        h: The output before the first token, :obj:`(num_texts, H)`.
        recurrent: W, :obj:`(H, H)`.
        expansion: f.
        weight: The scale :math:`\gamma`, :obj:`(H,)`, or None for 1.
        bias: The shift :math:`\beta`, :obj:`(H,)`, or None for 0.

    Returns:
        The outputs h and the pre-activations a, each :obj:`(N, H)`.
    """
    activate = _activation(form, expansion)
    outputs, inputs = [], []
    for u in packing.split(logits):
        a = u + F.linear(h[: len(u)], recurrent)
        inputs.append(a)
        if form.normalize:
            centred = a - a.mean(0)
            a = centred * torch.rsqrt(centred.square().mean(0) + form.eps)
            a = a if weight is None else a * weight
            a = a if bias is None else a + bias
        h = activate(a)
        outputs.append(h)
    if not outputs:
        return logits.clone(), logits.clone()
    return torch.cat(outputs), torch.cat(inputs)


def _activation(form: Form, parts: Expansion) -> Callable[[Tensor], Tensor]:
    if form.green != "gaussian":
        pieces = linear_pieces(parts.centers, parts.coefficients, form.green)
        return partial(searched_pieces, pieces=pieces, line=parts.line)
    assert form.bandwidth is not None
    return partial(
        gaussian_expansion,
        centers=parts.centers,
        coefficients=parts.coefficients,
        bandwidth=form.bandwidth,
        line=parts.line,
    )
