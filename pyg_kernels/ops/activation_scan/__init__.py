"""Recurrent networks whose activations are kernel expansions."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.ops.activation_scan import reference
from pyg_kernels.ops.activation_scan.reference import Expansion, Form
from pyg_kernels.ops.activation_scan.stepped import ActivationScan
from pyg_kernels.ops.dtypes import common_dtype, without_autocast
from pyg_kernels.ops.expansion import Green
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import has_numbers, transforms_active

__all__ = ["Expansion", "Form", "Green", "activation_scan", "path_in_use"]


def activation_scan(
    form: Form,
    packing: Packing,
    logits: Tensor,
    h: Tensor,
    recurrent: Tensor,
    expansion: Expansion,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Networks whose activation is a kernel expansion, token by token.

    .. math::
        h_t = f\left(\gamma \odot \frac{a_t - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta\right),
        \qquad a_t = u_t + W h_{t-1}

    Args:
        form: The Green function, and whether pre-activations are normalised by the mean and
            variance of their step; without, :math:`h_t = f(a_t)`.
        packing: The texts.
        logits: u, :obj:`(N, H)`.
        h: The output before the first token, :obj:`(num_texts, H)`.
        recurrent: W, :obj:`(H, H)`.
        expansion: f.
        weight: The scale :math:`\gamma`, :obj:`(H,)`, or None for 1.
        bias: The shift :math:`\beta`, :obj:`(H,)`, or None for 0.

    Returns:
        The outputs h and the pre-activations a, which carry no gradient, each :obj:`(N, H)`.
    """
    given = (recurrent, *expansion, weight, bias)
    result = common_dtype(logits, h, *given)
    dtype = torch.promote_types(result, torch.float32)
    logits, h = logits.to(dtype).contiguous(), h.to(dtype)
    tensors = [None if t is None else t.to(dtype) for t in given]
    path = path_in_use(logits.device, form.green)
    if path == "definition" or not packing.num_tokens or not has_numbers(logits):
        recurrent, *parts, weight, bias = cast(Any, tensors)
        of_units = Expansion(*parts)
        with without_autocast(logits.device):
            out, before = reference.activation_scan(
                form, packing, logits, h, recurrent, of_units, weight, bias
            )
    else:
        channels = logits.size(1)
        for k, value in ((-2, 1.0), (-1, 0.0)):
            if tensors[k] is None:
                tensors[k] = logits.new_full((channels,), value)
        out, before, *_ = ActivationScan.apply(form, packing, logits, h, *tensors)
    return out.to(result), before.detach()


def path_in_use(device: torch.device, green: Green = "relu") -> str:
    """``'steps'`` (CPU, piecewise-linear, hand-written backward) or ``'definition'``.

    The definition, a loop of PyTorch's ops, also serves the transforms of ``torch.func``.
    """
    if device.type != "cpu" or green == "gaussian" or transforms_active():
        return "definition"
    return "steps"
