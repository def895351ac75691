"""What walks, nodes and edges add to the output of a layer on a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import checked_count
from pyg_kernels.explain.arguments import (
    as_stored,
    checked_features,
    checked_finite,
    checked_head,
    checked_output,
)
from pyg_kernels.explain.linearized import slope_of
from pyg_kernels.explain.search import Walk, best_walks
from pyg_kernels.explain.walk_sum import GraphWalks, WalkSum
from pyg_kernels.nn.conv import GatedWalkConv, RandomWalkConv, WLKernelConv
from pyg_kernels.nn.conv.weighting import Decay
from pyg_kernels.ops.edges import Edges, weighted
from pyg_kernels.ops.neighbor_sum import message_weight
from pyg_kernels.propagation.graph import EdgeSource, as_edges
from pyg_kernels.walk import walk

WalkLayer = RandomWalkConv | GatedWalkConv


@dataclass(frozen=True, eq=False)
class WalkContributions:
    """What each part of a graph adds to a layer's output.

    Attributes:
        nodes: The share of each node, :obj:`(N,)`; they add up to :obj:`total`.
        edges: The share of each edge, :obj:`(E,)`, in the order of the given index, or of a sparse
            adjacency's entries; they add up to :obj:`total` minus :obj:`remainder`.
        walks: The k best walks by absolute value: the nodes, first to last, and the value.
        total: The output.
        remainder: The part of :obj:`total` that walks of one node add. They have no edge.
    """

    nodes: Tensor
    edges: Tensor
    walks: list[Walk]
    total: Tensor
    remainder: Tensor


@torch.no_grad()
def walk_contributions(
    conv: RandomWalkConv | GatedWalkConv | WLKernelConv,
    x: Tensor,
    edge_index: EdgeSource,
    edge_attr: Tensor | None = None,
    head: Tensor | Sequence[float] | None = None,
    k: int = 10,
    *,
    edge_weight: Tensor | None = None,
) -> WalkContributions:
    r"""Shares out :math:`\sum_v \langle \theta, c_n[v] \rangle` exactly.

    A random-walk layer is a sum over walks (Lei et al. 2017, theorem 3). Let
    :math:`a^{(j)}_{uv}` be the whole weight of an edge (edge weight, decay or gate, bond factor)
    and :math:`m_j[u]` the slope of the activation at :math:`c_j[u]`, both held at their values.
    In a layer that multiplies, a walk of n nodes adds

    .. math::
        \Bigl\langle \theta, \bigodot_{j=1}^n W^{(j)} f_{u_j} \odot
        \bigodot_{j=2}^n m_{j-1}[u_{j-1}] \odot a^{(j)}_{u_{j-1} u_j} \Bigr\rangle ,

    of which each node gets 1/n and each edge 1/(n - 1). A layer that adds is a sum over walks of
    1 to n nodes that end at step n. Such a walk takes the features of its first node alone. This
    node gets the whole value, and the walk's edges get equal parts of it. The sums take
    :math:`\mathcal{O}(n E D)` by forward and backward recurrences. The best walks are found by
    :func:`best-first search <pyg_kernels.explain.search.best_walks>`, not by enumeration.

    Args:
        conv: A :class:`~pyg_kernels.nn.RandomWalkConv` or :class:`~pyg_kernels.nn.GatedWalkConv`
            with no activation, relu, leaky relu or abs; or a
            :class:`~pyg_kernels.nn.WLKernelConv`, whose :math:`c_n` is explained.
        x: Node features, :obj:`(N, F)`; for a WL layer, the labels that it reads.
        edge_index: The edges, in any form that the layer takes.
        edge_attr: Edge features, if the layer takes them.
        head: The weight :math:`\theta` of each channel, :obj:`(D,)`; ones by default.
        k: How many walks to find. Parallel edges make different walks of the same nodes. Walks
            whose values differ only by rounding (ten digits) are sorted by their nodes.
        edge_weight: The number that multiplies every message along an edge, :obj:`(E,)`.

    Returns:
        The shares, in the precision of the layer.

    Raises:
        ValueError: For an unsupported layer or activation, which the message names; a layer of
            non-backtracking walks of three nodes or more; a head or features that do not fit; edges
            that name missing nodes; :obj:`k` below 0; an output that is not finite or differs from
            the sum over walks (because messages are overridden or changed by hooks).

    Example:
        >>> import torch
        >>> from pyg_kernels.explain import walk_contributions
        >>> from pyg_kernels.nn import RandomWalkConv
        >>> x, edge_index = torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> found = walk_contributions(RandomWalkConv(5, 16, order=3), x, edge_index, k=2)
        >>> found.nodes.shape, found.edges.shape, len(found.walks)
        (torch.Size([3]), torch.Size([4]), 2)
    """
    k = checked_count(k, "k", 0)
    walk_layer = walk_of(conv)
    with as_stored(x):
        edges = edges_of(walk_layer, x, edge_index, edge_attr, edge_weight)
        checked_features(x, walk_layer.lins[0])
        ends = checked_head(head, walk_layer.out_channels, x).expand(x.size(0), -1)
        walks = walk_sum(walk_layer, x, edges, ends)
        total = checked_finite(walks.total())
        output = walk_layer(x, edges)
        output = output[-1] if walk_layer.return_states else output
        checked_output(walks.arriving[-1], output)
    best = best_walks(GraphWalks(walks), k)
    return WalkContributions(walks.nodes(), walks.edges(), best, total, walks.single_nodes())


def walk_of(conv: Module) -> WalkLayer:
    """The random-walk layer inside a WL layer, or the random-walk layer itself."""
    if isinstance(conv, WLKernelConv):
        return conv.walk
    if isinstance(conv, (RandomWalkConv, GatedWalkConv)):
        return conv
    raise ValueError(
        f"conv is a {type(conv).__name__}: expected a RandomWalkConv, a GatedWalkConv or a "
        "WLKernelConv, whose outputs are sums over walks"
    )


def edges_of(
    conv: WalkLayer,
    x: Tensor,
    edge_index: EdgeSource,
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
) -> Edges:
    """The edges as the layer reads them."""
    sizes = (x.size(0),) * 2
    return as_edges(edge_index, *sizes, edge_attr, conv.edge_dim, conv.flow, edge_weight)


def walk_sum(conv: WalkLayer, x: Tensor, edges: Edges, ends: Tensor) -> WalkSum:
    r"""A layer's :math:`\sum_v \langle \theta_v, c_n[v] \rangle` as a sum over walks.

    Args:
        conv: The layer.
        x: Its input, :obj:`(N, F)`.
        edges: The edges.
        ends: :math:`\theta`, :obj:`(N, D)`.
    """
    if conv.non_backtracking and conv.order > 2:
        raise ValueError(
            f"conv is a {type(conv).__name__} with non_backtracking=True: the shares are known for "
            "sums over all walks"
        )
    slope = slope_of(conv.act, f"conv, a {type(conv).__name__},")
    projections, bonds, gate = conv.projected(x, x, edges)
    decay = conv.weighting.value if isinstance(conv.weighting, Decay) else 1.0
    steps: list[Tensor] = []

    def carry(state: Tensor, step: int) -> Tensor:
        """Sums the neighbours' states, and stores what each edge multiplies walks by."""
        weight = message_weight(edges.index, gate, bonds[step - 2] if bonds else None)
        along = weighted(slope(state).index_select(0, edges.source) * decay, edges.weight)
        along = along if weight is None else along * weight
        carried = along * state.index_select(0, edges.source)
        if conv.combine == "mul":
            along = along * projections[step - 1].index_select(0, edges.target)
        steps.append(along)
        return torch.zeros_like(state).index_add_(0, edges.target, carried)

    walk(projections, carry, conv.combine)
    starts = [projections[0], *(None if conv.combine == "mul" else p for p in projections[1:])]
    return WalkSum(starts, steps, ends, edges.source, edges.target, conv.combine)
