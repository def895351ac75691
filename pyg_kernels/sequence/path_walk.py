"""The walk on paths: n-grams of texts, consecutive or not."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pyg_kernels.ops.linear_scan import fuses_orders, walk_scan
from pyg_kernels.propagation.path import PathPropagation
from pyg_kernels.walk import Combine, walk


def states_up_to(
    path: PathPropagation, projections: Sequence[Tensor], combine: Combine = "mul"
) -> list[Tensor]:
    r"""The states :math:`c_1, \ldots, c_n`: what ends up to each token.

    By :func:`pyg_kernels.walk.walk`, or in one op that equals it.

    Args:
        path: The propagation on the texts.
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.
        combine: ``'mul'`` or ``'add'``.

    Returns:
        n tensors of :obj:`(N, D)`.
    """
    if path.weight is None and fuses_orders(path.packing, projections[0]):
        found = walk_scan(
            projections, path.decay, path.packing, path.initial, combine, path.normalize
        )
        return list(found)
    aggregated = []

    def propagate(z: Tensor, step: int) -> Tensor:
        aggregated.append(path.aggregate(z, step - 1))
        return path.before(aggregated[-1], step - 1)

    last = walk(projections, propagate, combine)[-1]
    return [*aggregated, path.aggregate(last, len(projections))]


def state_at(
    path: PathPropagation,
    projections: Sequence[Tensor],
    states: Sequence[Tensor],
    combine: Combine = "mul",
) -> Tensor:
    r"""The state :math:`z_n`, :obj:`(N, D)`: what ends exactly at each token.

    Args:
        path: The propagation on the texts.
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`.
        states: What `states_up_to` gave for them.
        combine: ``'mul'`` or ``'add'``.
    """
    order = len(projections)
    return walk(projections[-2:], lambda *_: path.before(states[-2], order - 1), combine)[-1]
