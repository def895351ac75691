"""Gated memory cells through time: the LSTM family, with or without feedback of the output."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.linear_scan.choice import chunks_pay
from pyg_kernels.ops.memory_scan import reference
from pyg_kernels.ops.memory_scan.blocked import ACTIVATIONS, filtered, scanned
from pyg_kernels.ops.memory_scan.reference import Form, Parts
from pyg_kernels.ops.memory_scan.reference import memory_scan as called_memory_scan
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import transforms_active
from pyg_kernels.ops.windows import Windows

__all__ = [
    "Form",
    "Parts",
    "called_memory_scan",
    "filtered",
    "fuses_products",
    "memory_scan",
    "path_in_use",
    "projected_memory_scan",
]


def memory_scan(
    form: Form, packing: Packing, logits: Tensor, parts: Parts, h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """Memory cells, token by token: see :func:`.reference.memory_scan`.

    Returns:
        The outputs and the memories, each :obj:`(N, D)`.
    """
    result = common_dtype(logits, *(t for t in parts if t is not None), h, c)
    # Half precision adds up in single; but what other functions hold is in the model's precision.
    dtype = torch.promote_types(result, torch.float32) if _known(form) else result
    parts = Parts(*(None if t is None else t.to(dtype) for t in parts))
    logits, h, c = logits.to(dtype), h.to(dtype), c.to(dtype)
    if _known(form) and not transforms_active():
        recurrent = () if parts.recurrent is None else parts.recurrent.split(c.size(1))
        tensors = (logits, h, c, None, *parts[1:], *recurrent)
        c, h = _both(scanned(form, packing, (), *tensors))
    else:
        h, c = reference.memory_scan(form, packing, logits, parts, h, c)
    return h.to(result), c.to(result)


def projected_memory_scan(
    form: Form,
    packing: Packing,
    windows: Sequence[Windows],
    x: Tensor,
    filters: Sequence[Tensor],
    bias: Tensor | None,
    recurrent: Sequence[Tensor],
    parts: Parts,
    h: Tensor,
    c: Tensor,
) -> tuple[Tensor, Tensor]:
    """`memory_scan` of what filters make of windows, where `fuses_products` says so: in one op.

    Args:
        form: What the cell is made of.
        packing: The texts.
        windows: The windows of each width.
        x: The tokens below their history.
        filters: The filters, gate by gate and in each gate width by width,
            :obj:`(D_b, F, n_b)`.
        bias: What is added to the first logits, or None.
        recurrent: The maps of the output before into the gates that read it, :obj:`(D, D)` each.
        parts: The cell's other tensors.
        h: The output before the first token, :obj:`(num_texts, D)`.
        c: The memory before the first token, :obj:`(num_texts, D)`.

    Returns:
        The outputs and the memories, each :obj:`(N, D)`.
    """
    tensors = (x.contiguous(), h, c, bias, *parts[1:], *filters, *recurrent)
    c, h = _both(scanned(form, packing, tuple(windows), *tensors))
    return h, c


def path_in_use(device: torch.device) -> str:
    """``'blocks'`` (CPU: products, gates and memory together), ``'steps'`` or ``'definition'``.

    Steps are PyTorch ops on one time step after the other, with a hand-written backward; they are
    for feedback, and without it the memory is a linear scan. The definition serves the transforms
    of ``torch.func``.
    """
    if transforms_active():
        return "definition"
    return "blocks" if device.type == "cpu" else "steps"


def fuses_products(
    form: Form, packing: Packing, windows: Sequence[Windows], x: Tensor, *others: Tensor | None
) -> bool:
    """Whether memory cells with the products under them are one op, and that the faster way.

    Args:
        form: What the cell is made of.
        packing: The texts.
        windows: The windows of each width.
        x: The tokens below their history.
        others: What else takes part; the first of them the output before, :obj:`(num_texts, D)`.
    """
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    if torch.is_autocast_enabled("cpu") or transforms_active() or not _known(form):
        return False
    if any(tensor is not None and tensor.dtype != x.dtype for tensor in others):
        return False
    if any(window.convolves(x) for window in windows):
        return False
    if form.stepped or not form.memory:
        return True
    channels = others[0].size(1) if others[0] is not None else 0
    return not chunks_pay(packing.num_steps, packing.num_texts * channels, x.device)


def _known(form: Form) -> bool:
    return form.carried in ACTIVATIONS and form.out in ACTIVATIONS


def _both(outputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The memories, and the outputs, which may be the same."""
    return outputs[0], outputs[-1]
