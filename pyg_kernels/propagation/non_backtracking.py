"""Walks on graphs that never turn back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.cavity_sum import arriving_sum, cavity_sum, find_reverse
from pyg_kernels.walk import Activation, Combine, combined

Messages = Callable[[Tensor, int], Tensor]


def non_backtracking_walk(
    projections: Sequence[Tensor],
    messages: Messages,
    edges: Edges,
    combine: Combine = "mul",
    act: Activation | None = None,
) -> list[Tensor]:
    r"""Takes n steps along the walks that never turn back (Mahé et al. 2004).

    .. math::
        y_1[u \to v] &= P_1[u], \qquad
        y_j[u \to v] = \Bigl(\sum_{t \to u,\ t \ne v} m_j(\sigma(y_{j-1}[t \to u]))\Bigr)
        \circ P_j[u] \\
        z_1 &= P_1, \qquad z_j[v] = \Bigl(\sum_{u \to v} m_j(\sigma(y_{j-1}[u \to v]))\Bigr)
        \circ P_j[v]

    where :math:`m_j` is the message that an edge makes of its state, and :math:`y_j[u \to v]` is
    the state of walks that continue along the edge, without the walks that came from its target.

    Args:
        projections: :math:`P_1, \ldots, P_n` of the nodes, each :obj:`(N, D)`.
        messages: The function :math:`m_j`: given the states of the edges, :obj:`(E, D)`, and the
            step j = 2, ..., n, it returns the messages, :obj:`(E, D)`, without the edges' weights.
        edges: The edges of a graph whose source and target nodes are the same.
        combine: ``'mul'`` or ``'add'``.
        act: The activation :math:`\sigma`, or None for the identity.

    Returns:
        The states :math:`z_1, \ldots, z_n` of the nodes.
    """
    reverse = find_reverse(edges)
    states, state = [projections[0]], projections[0].index_select(0, edges.source)
    for step, projection in enumerate(projections[1:], start=2):
        message = messages(state if act is None else act(state), step)
        total = arriving_sum(message, edges)
        states.append(combined(total, projection, combine))
        if step < len(projections):
            others = cavity_sum(message, edges, reverse, total)
            state = combined(others, projection.index_select(0, edges.source), combine)
    return states
