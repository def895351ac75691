"""The rows of table 1 of Liang et al. (2019), and the arguments that each row takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import check_flags, is_number

Pointwise = Callable[[Tensor], Tensor]
Static = float | tuple[float, float] | None


@dataclass(frozen=True)
class Kind:
    """A row of table 1.

    Attributes:
        gates: The sigmoid gates, in the order in which the op holds them.
        static: The default static factors; None where gates take their place.
        out: The activation of the memory in the output.
        candidate: The activation of the candidate, which then has a bias.
        coupled: Whether the input gate is one minus the forget gate.
        memory: Whether the previous memory is carried on.
        feeds_candidate: Whether feedback reaches the candidate as well as the gates.
    """

    gates: tuple[str, ...] = ()
    static: tuple[float, float] | None = None
    out: str | None = None
    candidate: str | None = None
    coupled: bool = False
    memory: bool = True
    feeds_candidate: bool = True


CELLS = {
    "lstm": Kind(("output", "input", "forget"), out="tanh", candidate="tanh"),
    "rkm-lstm": Kind(("output", "input", "forget")),
    "rkm-cifg": Kind(("output", "forget"), coupled=True),
    "linear-gated": Kind(("output",), static=(0.5, 0.5)),
    "linear": Kind(static=(0.5, 0.5), out="tanh"),
    "gated-cnn": Kind(("output",), static=(1.0, 0.0), memory=False),
    "cnn": Kind(static=(1.0, 0.0), out="tanh", memory=False),
    "ran": Kind(("input", "forget"), feeds_candidate=False),
    "general": Kind(),
}


def checked_feedback(feedback: bool | None, cell: str, kind: Kind) -> bool:
    """Whether there is feedback; by default, cells with a memory have it."""
    check_flags(feedback=kind.memory if feedback is None else feedback)
    if feedback and not kind.memory:
        raise ValueError(f"feedback=True with cell={cell!r}: a convolution reads the text alone")
    return kind.memory if feedback is None else bool(feedback)


def checked_q(q: str | Pointwise | None, cell: str) -> str | Pointwise | None:
    """The name of q, or q itself; None for the identity and for cells without q."""
    if cell != "general":
        if q is not None:
            raise ValueError(f"q={q!r} with cell={cell!r}: only cell='general' has one")
        return None
    if q is None:
        raise ValueError("q=None with cell='general': expected a function of the memory, as 'tanh'")
    if q == "identity" or isinstance(q, torch.nn.Identity):
        return None
    if isinstance(q, str):
        if q not in ("tanh", "relu", "sigmoid"):
            raise ValueError(
                f"q={q!r}: expected 'identity', 'tanh', 'relu', 'sigmoid' or a function"
            )
        return q
    if isinstance(q, type) or not callable(q):
        raise ValueError(f"q={q!r}: expected a function of the memory, or its name")
    parts = q.modules() if isinstance(q, Module) else (q,)
    if any(getattr(part, "inplace", False) for part in parts):
        raise ValueError(f"q={q!r}: it works in place, but the memory is read again")
    return q


def described_q(q: str | Pointwise | None) -> str:
    """q on one line: a name, a function's name, or a module."""
    if q is None or isinstance(q, str):
        return repr(q or "identity")
    return getattr(q, "__name__", None) or " ".join(repr(q).split())


def checked_static(
    static: Static, cell: str, default: tuple[float, float], memory: bool, learn: bool
) -> tuple[float, float]:
    """The factors of the candidate and of the previous memory."""
    if static is None:
        values = default
    elif is_number(static) and not memory:
        values = (float(cast(float, static)), 0.0)
    elif isinstance(static, (tuple, list)) and [*map(is_number, static)] == [True, True]:
        values = (float(static[0]), float(static[1]))
    else:
        expected = "two numbers (s_i, s_f)" if memory else "a number s_i"
        raise ValueError(f"static={static!r} with cell={cell!r}: expected {expected}")
    s_i, s_f = values
    if not math.isfinite(s_i) or not math.isfinite(s_f):
        raise ValueError(f"static={static!r}: expected finite numbers")
    if not memory and s_f:
        raise ValueError(f"static={static!r} with cell={cell!r}: it has no memory to keep, s_f = 0")
    if learn and s_i <= 0:
        raise ValueError(f"static={static!r} with learn_static=True: expected s_i above 0")
    if learn and memory and not 0.0 < s_f < 1.0:
        raise ValueError(f"static={static!r} with learn_static=True: expected s_f in (0, 1)")
    return values
