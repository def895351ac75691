"""The equations of one RCNN layer (thesis, table 2.2 and section 2.3.5), written out in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell


def random_rcnn(*args: Any, seed: int = 0, scale: float = 0.6, **kwargs: Any) -> RCNN:
    """A layer in float64 in which no parameter is left at zero."""
    torch.manual_seed(seed)
    rcnn = RCNN(*args, **kwargs).double()
    for parameter in rcnn.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return rcnn


def projections(cell: RCNNCell, x: Tensor) -> list[Tensor]:
    """W^(1) x, ..., W^(n) x."""
    return [x @ lin.weight.t() for lin in cell.lins]


def decays(cell: RCNNCell, x: Tensor, decay: float | str) -> Tensor:
    """The decay of every token and channel where it does not read the output before, (..., H)."""
    shape = (*x.shape[:-1], cell.lins[0].weight.size(0))
    if decay == "learned":
        return torch.sigmoid(cell.decay_logit).expand(shape)
    if decay == "input":
        return torch.sigmoid(x @ cell.decay_lin.weight.t() + cell.decay_bias).expand(shape)
    assert not isinstance(decay, str)
    return torch.full(shape, decay, dtype=x.dtype)


def activation(act: str | Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor]:
    if act is None:
        return lambda t: t
    if act == "tanh":
        return torch.tanh
    if act == "relu":
        return torch.relu
    assert callable(act)
    return act


def layer_equations(
    cell: RCNNCell,
    x: Tensor,
    h: Tensor | None = None,
    c: Tensor | None = None,
    *,
    order: int = 2,
    combine: str = "mul",
    normalize: bool | None = None,
    decay: float | str = 0.5,
    readout: str = "c",
    output_map: bool = False,
    output_gate: bool = False,
    highway: bool = False,
    act: str | Callable[[Tensor], Tensor] | None = "tanh",
    bias: bool = True,
    scalar_decay: bool = False,
    selection: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs (T, ..., H) of texts x (T, ..., F), the last h (..., H) and c (..., n, H).

    With a weight for each token, (T,), tokens count for as much as that.
    """
    hidden = cell.lins[0].weight.size(0)
    h = x.new_zeros(*x.shape[1:-1], hidden) if h is None else h
    c = x.new_zeros(*x.shape[1:-1], order, hidden) if c is None else c
    states = list(c.unbind(dim=-2))
    outputs = []
    for x_t, s in zip(x, x.new_ones(len(x)) if selection is None else selection, strict=True):
        if decay == "recurrent":
            gate = x_t @ cell.decay_lin.weight.t() + h @ cell.decay_recurrent.weight.t()
            lam = torch.sigmoid(gate + cell.decay_bias)
        else:
            lam = decays(cell, x_t, decay)
        weight = torch.ones_like(lam) if normalize is False else 1 - lam
        p = projections(cell, x_t)
        z = [p[0]]
        for j in range(1, order):
            z.append(states[j - 1] * p[j] if combine == "mul" else states[j - 1] + p[j])
        states = [
            (1 - s) * before + s * (lam * before + weight * new)
            for before, new in zip(states, z, strict=True)
        ]
        u = {"c": states[-1], "z": z[-1], "sum": torch.stack(states).sum(dim=0)}[readout]
        if output_map:
            u = u @ cell.output_lin.weight.t()
        if bias:
            u = u + cell.bias
        u = activation(act)(u)
        if output_gate:
            gate = x_t @ cell.output_gate_lin.weight.t() + cell.output_gate_bias
            if decay == "recurrent":
                gate = gate + h @ cell.output_gate_recurrent.weight.t()
            u = torch.sigmoid(gate) * u
        if highway:
            f = torch.sigmoid(x_t @ cell.highway_lin.weight.t() + cell.highway_bias)
            u = f * u + (1 - f) * x_t
        h = (1 - s) * h + s * u
        outputs.append(h)
    stacked = torch.stack(outputs) if outputs else x.new_zeros(0, *h.shape)
    return stacked, h, torch.stack(states, dim=-2)
