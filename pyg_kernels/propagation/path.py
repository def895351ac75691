"""The walk's propagation operator on path graphs: texts, whose walks are n-grams with gaps."""

from __future__ import annotations

from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import linear_scan


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
        layout: The texts whose tokens are the rows.
        initial: The states :math:`c_1, \ldots, c_n` before the first token,
            :obj:`(n, num_texts, D)`.
        normalize: Whether :math:`\nu` is 1 or 0.
        selection: The weight s of each token, :obj:`(N, 1)`; None: every token counts in full.
    """

    def __init__(
        self,
        decay: float | Tensor,
        layout: Layout,
        initial: Tensor,
        normalize: bool = False,
        selection: Tensor | None = None,
    ) -> None:
        decay = decay if isinstance(decay, Tensor) else initial.new_tensor([decay])
        self.decay = decay if selection is None else 1.0 - selection * (1.0 - decay)
        self.weight = None if normalize else selection
        self.layout, self.initial, self.normalize = layout, initial, normalize

    def __call__(self, z: Tensor, step: int) -> Tensor:
        return self.layout.before(self.aggregate(z, step - 1), self.initial[step - 2])

    def aggregate(self, z: Tensor, order: int) -> Tensor:
        r"""The state :math:`c` of one order, from what ends at each token."""
        z = z if self.weight is None else self.weight * z
        return linear_scan(self.decay, z, self.layout, self.initial[order - 1], self.normalize)
