"""Scans with a pointwise step: one step in PyTorch's ops gives the definition and the kernels.

Called with tensors, the step computes the definition. Traced, it gives expressions of itself and of
its derivative. The programs that the loop on CPU calls and Triton's kernels are made from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.definition import loop
from pyg_kernels.ops.scan.operator import Scan

_MODULES = {"numba": "pyg_kernels.ops.scan.cpu", "triton": "pyg_kernels.ops.scan.cuda"}


class Token(NamedTuple):
    """What a step reads, per channel or one for all: tensors, (B, D) or (B, 1), or values.

    Attributes:
        x: The columns of the inputs, as the recurrence's `columns` cut them.
        params: The parameters.
        weight: The number of the token, such as a weight.
        beside: The other row of the token.
        h: The previous output.
        c: The previous states.
    """

    x: Sequence[Any]
    params: Sequence[Any]
    weight: Any
    beside: Any
    h: Any
    c: Sequence[Any]


class Recurrence(Scan):
    r"""A scan along texts that carries the output and the states from token to token.

    .. math::
        (h_t, c_t) = \mathrm{step}(x_t + U (m \odot h_{t-1}), h_{t-1}, c_{t-1})

    Args:
        name: Its name as an op.
        form: The named tuple of the settings.
        step: ``step(form, token)``, see `Token`: the output and the states after a token, written
            in ops that :mod:`pyg_kernels.ops.expression` traces.
        columns: ``columns(form)``: whether each part of the inputs has D columns, or one.
        params: ``params(form)``: the parameters of which only the first number is used.
    """

    def __init__(
        self,
        name: str,
        form: type,
        step: Callable[..., tuple[Any, Sequence[Any]]],
        columns: Callable[[Any], Sequence[bool]],
        params: Callable[[Any], Sequence[int]] = lambda form: (),
    ) -> None:
        self.step, self.columns, self.narrow = step, columns, params
        tensors = "x params weight? beside? feed? mask? h0 c0"
        super().__init__(name, tensors, form, self.define, _like, _MODULES, 4, 3)

    def scan(  # type: ignore[override]
        self,
        form: Any,
        layout: Layout,
        x: Tensor,
        params: Tensor,
        h0: Tensor,
        c0: Tensor,
        weight: Tensor | None = None,
        beside: Tensor | None = None,
        feed: Tensor | None = None,
        mask: Tensor | None = None,
        **own: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Reads whole texts.

        Args:
            form: The settings.
            layout: The texts: N tokens, B texts.
            x: The inputs, (N, K).
            params: The parameters, (P, D).
            h0: The output before the first token, (B, D).
            c0: The states before it, (n, B, D).
            weight: One number per token, (N, 1).
            beside: Another row per token, (N, D) or (N, 1).
            feed: The map U of the previous output into the first R columns of x, (R, D).
            mask: The factors m on the previous output that `feed` reads, (B, D).
            own: Further arguments of the step; if any is given, the step runs on tensors.

        Returns:
            h, (N, D); c, (n, N + B, D), with the states before the first token at the end; and
            the states after the last token of each text, (n, B, D).

        Raises:
            ValueError: If the shapes or, on CPU, the precisions do not fit.
        """
        rows, texts, (order, _, channels) = layout.num_rows, layout.num_texts, c0.shape
        width = sum(channels if wide else 1 for wide in self.columns(form))
        check_shapes(
            x=(x, (rows, width)),
            params=(params, (params.size(0), channels)),
            h0=(h0, (texts, channels)),
            c0=(c0, (order, texts, channels)),
            weight=(weight, (rows, 1)),
            beside=(beside, (rows, 1 if beside is not None and beside.size(1) == 1 else channels)),
            feed=(feed, (0 if feed is None else feed.size(0), channels)),
            mask=(mask, (texts, channels)),
        )
        tensors = (x, params, weight, beside, feed, mask, h0, c0)
        if any(argument is not None for argument in own.values()):
            return self.define(form, layout, *tensors, **own)
        h, c, end, *_ = super().scan(form, layout, *tensors)
        return h, c, end

    def define(
        self,
        form: Any,
        layout: Layout,
        x: Tensor,
        params: Tensor,
        weight: Tensor | None,
        beside: Tensor | None,
        feed: Tensor | None,
        mask: Tensor | None,
        h0: Tensor,
        c0: Tensor,
        **own: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs by definition: a plain loop through time."""
        if not layout.num_steps:
            return x[:, : c0.size(2)].clone(), c0.clone(), c0.clone()

        def after(t: int | Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
            now = layout.rows_at(x, t)
            if feed is not None:
                fed = F.linear(h if mask is None else h * mask, feed)
                now = now + F.pad(fed, (0, now.size(1) - fed.size(1)))
            sizes = [c.size(2) if wide else 1 for wide in self.columns(form)]
            rows = [
                row[:1] if k in self.narrow(form) else row for k, row in enumerate(params.unbind())
            ]
            here = [None if y is None else layout.rows_at(y, t) for y in (weight, beside)]
            token = Token(now.split(sizes, 1), rows, here[0], here[1], h, c.unbind())
            out, states = self.step(form, token, **own)
            return out, torch.stack(list(states))

        (outs, states), (_, c) = loop(after, layout, h0.to(x.dtype), c0.to(x.dtype))
        every = torch.stack([layout.collect(steps) for steps in states.unbind(1)])
        return layout.collect(outs), torch.cat((every, c0.to(x.dtype)), 1), c

    def kernels_for(self, like: Tensor) -> Any:
        module = super().kernels_for(like)
        return module and module.kernels(self)


def _like(form: Any, layout: Layout, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    x, feed, (order, texts, channels) = tensors[0], tensors[4], tensors[7].shape
    h, c = x.new_empty(x.size(0), channels), x.new_empty(order, x.size(0) + texts, channels)
    kept = () if feed is None else (x.new_empty(x.size(0), feed.size(0)),)
    return h, c, x.new_empty(order, texts, channels), *kept
