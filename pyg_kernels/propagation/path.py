"""The walk's propagation operator on path graphs: texts, whose walks are n-grams with gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan import linear_scan
from pyg_kernels.ops.packing import Packing


class PathPropagation:
    r"""Carries states from all earlier tokens of a text, decayed token by token.

    .. math::
        S(z)_t = c_{t-1}, \qquad
        c_t = \lambda_t \odot c_{t-1} + (1 - \lambda_t)^\nu \odot z_t

    This is the operator of :class:`~pyg_kernels.propagation.GraphPropagation` on the transitive
    closure of the path, with the weight :math:`(1 - \lambda_s)^\nu \prod_{s<r<t} \lambda_r` on
    the edge from s to t, in time linear in the length.

    With a selection s of tokens, weights in [0, 1], a token counts for as much as it is selected,

    .. math::
        c_t = (1 - s_t) c_{t-1} + s_t (\lambda_t \odot c_{t-1} + (1 - \lambda_t)^\nu \odot z_t),

    which is the operator above with the decay :math:`1 - s_t (1 - \lambda_t)`, and, where
    :math:`\nu = 0`, inputs :math:`s_t z_t`. A token of weight 0 leaves no trace.

    Args:
        decay: :math:`\lambda`: a number or a tensor :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or
            :obj:`(N, D)`.
        packing: The texts whose tokens are the rows.
        initial: The states :math:`c_1, \ldots, c_n` before the first token,
            :obj:`(n, num_texts, D)`.
        normalize: Whether :math:`\nu` is 1 or 0.
        selection: The weight s of each token, :obj:`(N, 1)`; None: every token counts in full.

    Attributes:
        decay: The decay with the selection in it.
        weight: The weight of each input beside that decay, or None where all are 1.
    """

    def __init__(
        self,
        decay: float | Tensor,
        packing: Packing,
        initial: Tensor,
        normalize: bool = False,
        selection: Tensor | None = None,
    ) -> None:
        self.decay = decay if selection is None else 1.0 - selection * (1.0 - decay)
        self.weight = None if normalize else selection
        self.packing = packing
        self.initial = initial
        self.normalize = normalize

    def __call__(self, z: Tensor, step: int) -> Tensor:
        return self.before(self.aggregate(z, step - 1), step - 1)

    def aggregate(self, z: Tensor, order: int) -> Tensor:
        r"""The state :math:`c` of one order, from what ends at each token."""
        packing, initial = self.packing, self.initial[order - 1]
        z = z if self.weight is None else self.weight * z
        if packing.uniform:
            grid = z.view(packing.num_steps, packing.num_texts, z.size(1))
            a = self._decay(lambda d: d.view(*grid.shape[:2], d.size(1)))
            c = linear_scan(a, grid, initial, normalize=self.normalize).view_as(z)
        else:
            rows = packing.rows(z.device)
            a = self._decay(lambda d: d.index_select(0, rows.by_text))
            in_turn = z.index_select(0, rows.by_text)
            c = linear_scan(a, in_turn, initial, ptr=rows.ptr, normalize=self.normalize)
            c = c.index_select(0, rows.place)
        return c

    def _decay(self, arrange: Callable[[Tensor], Tensor]) -> float | Tensor:
        per_token = isinstance(self.decay, Tensor) and self.decay.dim() == 2
        return arrange(self.decay) if per_token else self.decay  # type: ignore[arg-type]

    def before(self, c: Tensor, order: int) -> Tensor:
        """The state of one order before each token."""
        packing = self.packing
        if not packing.num_steps:
            return c
        initial = self.initial[order - 1][: packing.batch_sizes[0]].to(c.dtype)
        if packing.uniform:
            return torch.cat((initial, c[: c.size(0) - initial.size(0)]))
        return torch.cat((initial, c.index_select(0, packing.rows(c.device).before)))

    def last(self, up_to: Sequence[Tensor]) -> Tensor:
        """The states after the last token of each text, :obj:`(n, num_texts, D)`."""
        packing = self.packing
        if packing.uniform and packing.num_steps:
            return torch.stack([c[c.size(0) - packing.num_texts :] for c in up_to])
        rows = packing.rows(up_to[0].device)
        ends = torch.stack([c.index_select(0, rows.last) for c in up_to])
        filled = ends.size(1)
        return torch.cat((ends, self.initial[:, filled:].to(ends.dtype)), dim=1)
