"""The definition of the walk with recurrent gates: a plain loop through time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan.reference import walk_scan
from pyg_kernels.ops.packing import Packing

Activation = Callable[[Tensor], Tensor] | None


class Form(NamedTuple):
    """What the layer makes of the walk's states, and how it walks.

    Attributes:
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether inputs are weighted by one minus the decay.
        state: ``'c'``, ``'z'`` or ``'sum'``.
        act: The activation: a name (``'tanh'``, ``'relu'``), None, or any function.
    """

    combine: str = "mul"
    normalize: bool = False
    state: str = "c"
    act: str | Activation = None


class Gates(NamedTuple):
    """The parts of a walk with recurrent gates, N tokens, B texts and D channels.

    Attributes:
        decay: The logits of the decay without the recurrent part, :obj:`(N, D)` or :obj:`(N, 1)`.
        recurrent: The maps of the output before into the decay's logits and, below, into the
            output gate's, :obj:`(D or 1 [+ D], D)`.
        output: The logits of the output gate without the recurrent part, :obj:`(N, D)`, or None.
        output_map: A map of the state, :obj:`(D, D)`, or None.
        bias: What is added before the activation, :obj:`(D,)`, or None.
        highway: The highway's gate, :obj:`(N, D)`, or None.
        carried: What the highway carries past the layer, :obj:`(N, D)`, or None.
        mask: The factors on the output before as the gates read it, :obj:`(B, D)`, or None.
    """

    decay: Tensor
    recurrent: Tensor
    output: Tensor | None = None
    output_map: Tensor | None = None
    bias: Tensor | None = None
    highway: Tensor | None = None
    carried: Tensor | None = None
    mask: Tensor | None = None

    def to(self, dtype: torch.dtype) -> Gates:
        """The gates in another precision."""
        others = (None if t is None else t.to(dtype) for t in self[2:])
        return Gates(self.decay.to(dtype), self.recurrent.to(dtype), *others)


def recurrent_scan(
    form: Form,
    packing: Packing,
    gates: Gates,
    h: Tensor,
    initial: Tensor,
    projections: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    r"""Walks whose decay reads the output before, token by token.

    .. math::
        \lambda_t = \sigma(u_t + V (m \odot h_{t-1})), \qquad
        h_t = f_t \odot o_t \odot g(M s_t + b) + (1 - f_t) \odot x_t

    with the state s among :math:`c_n, z_n, \sum_j c_j`, one step of the walk's scan a token.

    Args:
        form: How states are made and activated.
        packing: The texts.
        gates: The gates and maps.
        h: The output before the first token, :obj:`(num_texts, D)`.
        initial: The states before the first token, :obj:`(n, num_texts, D)`.
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.

    Returns:
        The outputs h and the states :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.
    """
    steps = [packing.split(p) for p in projections]
    outputs: list[list[Tensor]] = [[] for _ in range(len(projections) + 1)]
    rows = {
        name: packing.split(tensor)
        for name, tensor in zip(gates._fields, gates, strict=True)
        if tensor is not None and name in ("decay", "output", "highway", "carried")
    }
    states, width = initial, gates.decay.size(1)
    for t, texts in enumerate(packing.batch_sizes):
        h, states = h[:texts], states[:, :texts]
        read = h if gates.mask is None else h * gates.mask[:texts]
        logits = torch.nn.functional.linear(read, gates.recurrent)
        decay = torch.sigmoid(rows["decay"][t] + logits[:, :width])
        p = [step[t] for step in steps]
        one = Packing.of_equal_lengths(1, texts)
        before = states
        every = decay.expand_as(p[0])
        states = torch.stack(walk_scan(p, every, one, before, form.combine, form.normalize))
        h = _state(form, p, before, states)
        if gates.output_map is not None:
            h = torch.nn.functional.linear(h, gates.output_map)
        if gates.bias is not None:
            h = h + gates.bias
        h = activated(form.act, h)
        if "output" in rows:
            h = torch.sigmoid(rows["output"][t] + logits[:, width:]) * h
        if "highway" in rows:
            h = torch.lerp(rows["carried"][t], h, rows["highway"][t])
        for kept, tensor in zip(outputs, (h, *states), strict=True):
            kept.append(tensor)
    if not packing.batch_sizes:
        return tuple(torch.zeros_like(p) for p in (projections[0], *projections))
    return tuple(torch.cat(kept) for kept in outputs)


def activated(act: str | Activation, x: Tensor) -> Tensor:
    """The activation by name or function."""
    if act is None:
        return x
    return getattr(torch, act)(x) if isinstance(act, str) else act(x)


def _state(form: Form, p: Sequence[Tensor], before: Tensor, states: Tensor) -> Tensor:
    if form.state == "c":
        return states[-1]
    if form.state == "sum":
        return states.sum(0)
    if len(p) == 1:
        return p[0]
    return before[-2] * p[-1] if form.combine == "mul" else before[-2] + p[-1]
