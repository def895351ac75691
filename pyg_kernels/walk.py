r"""The recurrence that every layer of this library evaluates.

For projections :math:`P_j = W^{(j)} f`, one per step, and a linear operator :math:`S_j` that
carries states along edges,

.. math::
    z_1 = P_1, \qquad z_j = S_j(\sigma(z_{j-1})) \circ P_j, \quad j = 2, \ldots, n,

where :math:`\circ` is the product or the sum and :math:`\sigma` the identity or an activation.
:math:`z_n` sums, over all walks of n nodes, their comparison with learned reference walks (Lei et
al. 2017, eqs. 4, 6 and 8). On graphs, S sums over neighbours; on sequences, over earlier tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor

Combine = Literal["mul", "add"]
Propagation = Callable[[Tensor, int], Tensor]
Activation = Callable[[Tensor], Tensor]


def walk(
    projections: Sequence[Tensor],
    propagate: Propagation,
    combine: Combine = "mul",
    act: Activation | None = None,
) -> list[Tensor]:
    r"""Takes n steps along the walks.

    Args:
        projections: :math:`P_1, \ldots, P_n`, of any shapes that combine elementwise.
        propagate: The operator S; called with the states and the step j = 2, ..., n.
        combine: ``'mul'`` or ``'add'``.
        act: The activation between steps, or None for the identity.

    Returns:
        The states :math:`z_1, \ldots, z_n`.
    """
    states = [projections[0]]
    for step, projection in enumerate(projections[1:], start=2):
        state = states[-1] if act is None else act(states[-1])
        states.append(combined(propagate(state, step), projection, combine))
    return states


def combined(arrived: Tensor, projection: Tensor, combine: Combine) -> Tensor:
    """Multiplies what arrives at a step by the projection of the step, or adds the two."""
    return arrived * projection if combine == "mul" else arrived + projection
