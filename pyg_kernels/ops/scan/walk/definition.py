"""The definition of the walk's scan: a plain loop through time around `pyg_kernels.walk.walk`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.definition import loop
from pyg_kernels.walk import Combine, walk

Activation = Callable[[Tensor], Tensor]


class Form(NamedTuple):
    r"""What a walk's scan is made of.

    Attributes:
        order: The number of orders n.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether inputs are weighted by :math:`1 - \lambda`.
        gate: Where the decay comes from: ``'none'``, the first row of the parameters;
            ``'values'``, columns of x; ``'logits'``, the sigmoid of columns of x plus that row.
        width: The number of these columns: 0, 1 or D.
        readout: The state that is put out: ``'c'``, ``'z'`` or ``'sum'``.
        act: Its activation: ``'tanh'``, ``'relu'`` or ``'none'``.
        output_gate: Whether x has logits of an output gate.
        highway: Whether x has logits of a highway.
        hold: Whether a token that counts in part holds the output before for the rest.
    """

    order: int
    combine: str = "mul"
    normalize: bool = False
    gate: str = "none"
    width: int = 0
    readout: str = "c"
    act: str = "none"
    output_gate: bool = False
    highway: bool = False
    hold: bool = True


def walk_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    params: Tensor,
    select: Tensor | None,
    carried: Tensor | None,
    feed: Tensor | None,
    mask: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    act: Activation | None = None,
    output_map: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """h, c and the last c; arguments as :func:`pyg_kernels.ops.scan.walk.walk_scan` names them."""
    if not layout.num_steps:
        return x[:, : c0.size(2)].clone(), c0.clone(), c0.clone()

    def after(t: int | Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        chosen = None if select is None else layout.rows_at(select, t)
        passed = None if carried is None else layout.rows_at(carried, t)
        read = h if mask is None else h * mask
        fed = None if feed is None else torch.nn.functional.linear(read, feed)
        now = layout.rows_at(x, t)
        return walk_step(form, now, params, fed, chosen, passed, h, c, act, output_map)

    (outs, states), (_, c) = loop(after, layout, h0.to(x.dtype), c0.to(x.dtype))
    every = [torch.cat((layout.collect(steps), c0[j])) for j, steps in enumerate(states.unbind(1))]
    return layout.collect(outs), torch.stack(every), c


def walk_step(
    form: Form,
    x: Tensor,
    params: Tensor,
    fed: Tensor | None,
    select: Tensor | None,
    carried: Tensor | None,
    h: Tensor,
    c: Tensor,
    act: Activation | None = None,
    output_map: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One token of each text: h and c after it, :obj:`(B, D)` and :obj:`(n, B, D)`."""
    channels = c.size(2)
    gate, output, rest = x.split(_columns(form, channels, x.size(1)), 1)
    *p, highway = (*rest.split(channels, 1), None) if not form.highway else rest.split(channels, 1)
    decay = params[0]
    if form.gate == "values":
        decay = gate
    elif form.gate == "logits":
        logit = gate if fed is None else gate + fed[:, : form.width]
        decay = torch.sigmoid(logit + params[0][: form.width])
    if select is not None:
        decay = 1 - select * (1 - decay)
    z = walk(p, lambda _, step: c[step - 2], _combine(form))
    weight = 1 - decay if form.normalize else 1.0 if select is None else select
    c = torch.stack([decay * c_j + weight * z_j for c_j, z_j in zip(c, z, strict=True)])
    state = {"c": lambda: c[-1], "z": lambda: z[-1], "sum": lambda: c.sum(0)}[form.readout]()
    state = state if output_map is None else torch.nn.functional.linear(state, output_map)
    state = state + params[1]
    out = activated(form.act, state) if act is None else act(state)
    if form.output_gate:
        logit = output if fed is None else output + fed[:, form.width :]
        out = torch.sigmoid(logit + params[2]) * out
    if highway is not None and carried is not None:
        opened = torch.sigmoid(highway + params[3])
        out = opened * out + (1 - opened) * carried
    return out if select is None or not form.hold else select * out + (1 - select) * h, c


def activated(act: str, x: Tensor) -> Tensor:
    """An activation by name; ``'none'`` is the identity."""
    return x if act == "none" else getattr(torch, act)(x)


def _columns(form: Form, channels: int, total: int) -> Sequence[int]:
    """The widths of the decay's columns, the output gate's, and all others."""
    output = channels if form.output_gate else 0
    return form.width, output, total - form.width - output


def _combine(form: Form) -> Combine:
    return "mul" if form.combine == "mul" else "add"
