"""The walk whose gates read the output before: no scan, one step a token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.recurrent_scan import reference
from pyg_kernels.ops.recurrent_scan.reference import Form, Gates
from pyg_kernels.ops.recurrent_scan.stepped import ACTIVATIONS, RecurrentScan
from pyg_kernels.ops.transforms import transforms_active

__all__ = ["Form", "Gates", "recurrent_scan"]


def recurrent_scan(
    form: Form,
    packing: Packing,
    gates: Gates,
    h: Tensor,
    initial: Tensor,
    projections: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    r"""Walks whose decay reads the output before: see :func:`.reference.recurrent_scan`.

    Returns:
        The outputs h and the states :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.
    """
    given = [t for t in (*gates, h, initial, *projections) if t is not None]
    result = projections[0].dtype
    for tensor in given:
        result = torch.promote_types(result, tensor.dtype)
    dtype = torch.promote_types(result, torch.float32)
    gates = gates.to(dtype)
    h, initial, projections = h.to(dtype), initial.to(dtype), [p.to(dtype) for p in projections]
    if form.act not in ACTIVATIONS or transforms_active():
        outputs = reference.recurrent_scan(form, packing, gates, h, initial, projections)
    else:
        every = RecurrentScan.apply(form, packing, *gates, h, initial, *projections)
        outputs = every[: 1 + len(projections)]
    return tuple(t.to(result) for t in outputs)
