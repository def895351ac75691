"""The definition of gated memory cells: a plain loop through time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.packing import Packing

Activation = Callable[[Tensor], Tensor]
GATES = ("output", "input", "forget", "candidate")


class Form(NamedTuple):
    """What a memory cell is made of.

    Attributes:
        gates: Which of `GATES` there are, in their order.
        reading: How many of them, from the first, read the output before.
        coupled: Whether the input gate is one minus the forget gate.
        memory: Whether the memory before is carried on.
        candidate: The activation of the candidate: ``'tanh'`` or None.
        carried: The activation of the memory before: a name, any function, or None.
        out: That of the memory in the output.
        eps: What is added to the variance in layer normalisation.
    """

    gates: tuple[str, ...]
    reading: int = 0
    coupled: bool = False
    memory: bool = True
    candidate: str | None = None
    carried: str | Activation | None = None
    out: str | Activation | None = None
    eps: float = 1e-5

    @property
    def stepped(self) -> bool:
        """Whether the memory is no linear recurrence, so that tokens come one after the other."""
        return self.reading > 0 or self.carried is not None

    @property
    def num_sigmoids(self) -> int:
        """How many of the gates are sigmoids: those before the candidate."""
        return len(self.gates) - 1


class Parts(NamedTuple):
    """The tensors of memory cells with D channels, B texts; None where a cell has no such.

    Attributes:
        recurrent: The maps of the output before into the gates that read it, :obj:`(r * D, D)`.
        norm_weight: Layer normalisation's scale, :obj:`(D,)`.
        norm_bias: Its shift, :obj:`(D,)`.
        static: The factors of the candidate and of the memory before, :obj:`(2,)`, where they are
            not gates.
    """

    recurrent: Tensor | None = None
    norm_weight: Tensor | None = None
    norm_bias: Tensor | None = None
    static: Tensor | None = None


def memory_scan(
    form: Form,
    packing: Packing,
    logits: Tensor,
    parts: Parts,
    h: Tensor,
    c: Tensor,
    feed: Activation | None = None,
    norm: Activation | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Memory cells, token by token.

    .. math::
        c_t = \eta_t \odot g(\tilde c_t) + f_t \odot q(c_{t-1}), \qquad
        h_t = o_t \odot a(\mathrm{LN}(c_t))

    with the gates :math:`o, \eta, f` the sigmoids of their logits, :math:`\eta = 1 - f` where
    they are coupled, or the static factors; without an output gate, o is 1.

    Args:
        form: What the cell is made of.
        packing: The texts.
        logits: The gates' and last the candidate's values before activation, but for what reads
            the output before, side by side, :obj:`(N, k * D)`.
        parts: Its other tensors.
        h: The output before the first token, :obj:`(num_texts, D)`.
        c: The memory before the first token, :obj:`(num_texts, D)`.
        feed: What makes of the output before what the gates read, :obj:`(B, r * D)`, in place of
            the product with ``parts.recurrent``.
        norm: What normalises memories, in place of layer normalisation.

    Returns:
        The outputs and the memories, :obj:`(N, D)`.
    """
    channels = c.size(1)
    outputs, memories = [], []
    recurrent, norm = parts.recurrent, norm or partial(_normalised, form, parts)
    if recurrent is not None:
        feed = partial(F.linear, weight=recurrent)
    for texts, rows in zip(packing.batch_sizes, packing.split(logits), strict=True):
        h, c = h[:texts], c[:texts]
        if feed is not None:
            read = feed(h)
            rows = rows + F.pad(read, (0, rows.size(1) - read.size(1)))
        found = dict(zip(form.gates, rows.split(channels, 1), strict=True))
        gates = {name: torch.sigmoid(found[name]) for name in form.gates[:-1]}
        c = _memory(form, activated(form.candidate, found["candidate"]), gates, parts, c)
        h = activated(form.out, norm(c))
        if "output" in gates:
            h = gates["output"] * h
        outputs.append(h)
        memories.append(c)
    if not outputs:
        return logits[:, :channels], logits[:, :channels]
    return torch.cat(outputs), torch.cat(memories)


def activated(act: str | Activation | None, x: Tensor) -> Tensor:
    """The activation by name or function."""
    if act is None:
        return x
    return getattr(torch, act)(x) if isinstance(act, str) else act(x)


def _memory(
    form: Form, candidate: Tensor, gates: dict[str, Tensor], parts: Parts, c: Tensor
) -> Tensor:
    static = parts.static
    if form.coupled:
        new = (1 - gates["forget"]) * candidate
    elif "input" in gates:
        new = gates["input"] * candidate
    else:
        new = candidate if static is None else static[0] * candidate
    if not form.memory:
        return new
    c = activated(form.carried, c)
    if "forget" in gates:
        return new + gates["forget"] * c
    return new + (c if static is None else static[1] * c)


def _normalised(form: Form, parts: Parts, c: Tensor) -> Tensor:
    if parts.norm_weight is None:
        return c
    shape = (c.size(1),)
    return F.layer_norm(c, shape, parts.norm_weight, parts.norm_bias, form.eps)
