"""The time loop of the scans' definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout

Step = Callable[..., Sequence[Tensor]]


def loop(after: Step, layout: Layout, *states: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The states after each token, (T, ...), and after the last token of each text.

    A text that has ended keeps its states. In ONNX, where the number of steps may vary, the
    loop becomes a loop of ONNX.

    Args:
        after: The function that gives the states after step t, from t and the states before.
        layout: The texts.
        states: The states before the first token, (..., B, D).
    """

    def step(t: int | Tensor, *before: Tensor) -> Sequence[Tensor]:
        now = after(t, *before)
        if layout.full:
            return now
        token = layout.has_token(t)
        return [torch.where(token, new, old) for new, old in zip(now, before, strict=True)]

    if torch.onnx.is_in_onnx_export() and hasattr(torch, "while_loop"):
        return _exported(step, layout.num_steps, states)
    every: list[list[Tensor]] = [[] for _ in states]
    last: Sequence[Tensor] = states
    for t in range(layout.num_steps):
        last = step(t, *last)
        for steps, state in zip(every, last, strict=True):
            steps.append(state)
    if not layout.num_steps:
        return [state.new_empty(0, *state.shape) for state in states], last
    return [torch.stack(steps) for steps in every], last


def _exported(
    step: Step, num_steps: int, states: Sequence[Tensor]
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    def own(states: Sequence[Tensor]) -> list[Tensor]:
        return [state.clone(memory_format=torch.contiguous_format) for state in states]

    def body(t: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        now, every = step(t, *carried[: len(states)]), carried[len(states) :]
        stacked = (
            rows.index_copy(0, t.view(1), state.unsqueeze(0))
            for rows, state in zip(every, now, strict=True)
        )
        return t + 1, *own(now), *stacked

    empty = [state.new_zeros(num_steps, *state.shape) for state in states]
    first = (torch.zeros((), dtype=torch.long), *own(states), *empty)
    found = torch.while_loop(lambda t, *_: t < num_steps, body, first)
    return found[1 + len(states) :], found[1 : 1 + len(states)]
