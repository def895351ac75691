"""The definition of memory cells: a plain loop through time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.definition import loop

Pointwise = Callable[[Tensor], Tensor]


class Form(NamedTuple):
    """What a memory cell is made of; activations are ``'none'``, ``'tanh'``, ``'relu'`` or
    ``'sigmoid'``.

    Attributes:
        output: Whether there is an output gate.
        input: Whether there is an input gate.
        forget: Whether there is a forget gate.
        coupled: Whether the input gate is one minus the forget gate.
        memory: Whether the memory before is carried on.
        candidate: The activation of the candidate, ``'none'`` or ``'tanh'``.
        carried: The activation of the memory before.
        out: The activation of the memory in the output.
        norm: Whether there is layer normalization.
        eps: What it adds to the variance.
    """

    output: bool = False
    input: bool = False
    forget: bool = False
    coupled: bool = False
    memory: bool = True
    candidate: str = "none"
    carried: str = "none"
    out: str = "none"
    norm: bool = False
    eps: float = 1e-5

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates that there are, in the order of their columns, and the candidate."""
        there = zip(("output", "input", "forget"), self[:3], strict=True)
        return (*(name for name, has in there if has), "candidate")


def memory_scan(
    form: Form,
    layout: Layout,
    x: Tensor,
    params: Tensor,
    feed: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    norm: Pointwise | None = None,
    q: Pointwise | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`pyg_kernels.ops.scan.memory.memory_scan`."""

    def after(t: int | Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        logits = layout.rows_at(x, t)
        if feed is not None:
            fed = F.linear(h, feed)
            logits = logits + F.pad(fed, (0, logits.size(1) - fed.size(1)))
        gate, new, keep = opened(form, logits, params)
        c = new + keep * activation(form.carried, q)(c) if form.memory else new
        return put_out(form, gate, c, params, norm, q), c

    (outs, states), (_, c) = loop(after, layout, h0.to(x.dtype), c0.to(x.dtype))
    return layout.collect(outs), torch.cat((layout.collect(states), c0.to(x.dtype))), c


def opened(form: Form, x: Tensor, params: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
    """The output gate, what is new in the memory, and the factor of the memory before."""
    gates = form.gates
    logits = x.unflatten(1, (len(gates), params.size(1))) + params[: len(gates)]
    at = {name: torch.sigmoid(logits[:, k]) for k, name in enumerate(gates[:-1])}
    candidate = activation(form.candidate)(logits[:, -1])
    keep = at.get("forget", params[-1])
    share = 1 - keep if form.coupled else at.get("input", params[-2])
    return at.get("output"), share * candidate, keep


def put_out(
    form: Form,
    gate: Tensor | None,
    c: Tensor,
    params: Tensor,
    norm: Pointwise | None = None,
    q: Pointwise | None = None,
) -> Tensor:
    """The outputs that memories give."""
    if form.norm and norm is None:
        norm = partial(_normalized, scale=params[-4], shift=params[-3], eps=form.eps)
    h = activation(form.out, q)(c if norm is None else norm(c))
    return h if gate is None else gate * h


def activation(name: str, q: Pointwise | None = None) -> Pointwise:
    """A function by its name, unless it is given."""
    if q is not None:
        return q
    found: Pointwise = torch.clone if name == "none" else getattr(torch, name)
    return found


def _normalized(c: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    return F.layer_norm(c, scale.shape, scale, shift, eps)
