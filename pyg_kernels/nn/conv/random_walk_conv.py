"""The random-walk kernel layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import Act
from pyg_kernels.nn.conv.walk_conv import WalkConv
from pyg_kernels.nn.conv.weighting import Decay
from pyg_kernels.walk import Combine


class RandomWalkConv(WalkConv):
    r"""The random-walk kernel layer of Lei et al., `"Deriving Neural Architectures from Sequence
    and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), eqs. 6 and 8.

    .. math::
        c_1[v] &= W^{(1)} f_v \\
        c_j[v] &= \lambda \Bigl( \sum_{u \in \mathcal{N}(v)} W_e^{(j)} e_{uv} \odot
        \sigma(c_{j-1}[u]) \Bigr) \circ W^{(j)} f_v, \quad j = 2, \ldots, n

    where :math:`\circ` is the product or the sum, and the bond factor :math:`W_e^{(j)} e_{uv}` is
    present only with :obj:`edge_dim`. With the product and without an activation,
    :math:`\sum_v c_n[v]_k` is the random-walk kernel of order n between the graph and the k-th
    reference walk, whose nodes carry the k-th rows of :math:`W^{(1)}, \ldots, W^{(n)}`
    (theorem 3 of the paper).

    States are sums over walks, which nothing normalises: in a stack of layers, products of
    products grow without bound. Between two of these layers put a normalisation and an activation,
    such as :class:`torch.nn.BatchNorm1d` and a ReLU. :class:`GraphKernelConv` is made to be
    stacked and takes both as arguments.

    Args:
        in_channels: The number of node features F; -1 to read it off the first input; a tuple
            for source and target nodes of a bipartite graph.
        out_channels: The number of reference walks D.
        order: The number of nodes n in a walk, at least 1.
        decay: The weight :math:`\lambda` of every step: a number in [0, 1], or ``'learned'``
            for a vector :math:`\mathrm{sigmoid}(l)` with one weight per channel.
        combine: ``'mul'`` or ``'add'``. In the additive form a node without neighbours keeps
            :math:`c_n = W^{(n)} f_v`.
        act: The activation :math:`\sigma` between steps, by name or as a callable; None for the
            identity.
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        return_states: Whether to return the list :math:`[c_1, \ldots, c_n]`.
        non_backtracking: Whether walks never turn back, that is, never go along
            :math:`u \to v \to u` (Mahé et al. 2004). The sum that continues along an edge then
            leaves out the states that came from the edge's target, over all parallel edges; for a
            self-loop, it leaves out those that came over the node's self-loops. They are subtracted
            from the sum of all states: one that is not finite leaves NaN, and one far larger than
            the others leaves rounding errors in their sum. Theorem 3 holds with the kernel of these
            walks. At orders 1 and 2 the argument changes nothing.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** node features :math:`(N, F)`, or a pair :math:`((N_s, F_s), (N_t, F_t))` at
          order 2 (longer walks would continue from target nodes, which no edge leaves, and shorter
          ones have no edge); edge indices :math:`(2, E)` or a transposed sparse adjacency
          :math:`(N_t, N_s)`, whose values are edge weights; edge features :math:`(E, F_e)`; edge
          weights :math:`(E)`, which multiply the messages of every step.
        - **output:** :math:`(N, D)`, or a list of n such tensors with :obj:`return_states`.

    Raises:
        ValueError: For an order below 1, an unknown :obj:`combine`, a decay outside [0, 1], edge
            features that do not fit :obj:`edge_dim`, or a bipartite graph at an order other than 2.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pyg_kernels.kernels import RandomWalkKernel
        >>> from pyg_kernels.nn import RandomWalkConv
        >>> graph = Data(x=torch.rand(3, 4), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> conv = RandomWalkConv(4, 8, order=2, decay=0.5)
        >>> states = conv(graph.x, graph.edge_index)  # (3, 8)
        >>> nodes = torch.stack([lin.weight[0] for lin in conv.lins])  # of the first reference walk
        >>> walk = Data(x=nodes, edge_index=torch.tensor([[0], [1]]))
        >>> kernel = RandomWalkKernel(order=2, decay=0.5)
        >>> torch.allclose(kernel([graph], [walk]), states.sum(dim=0)[0])  # theorem 3
        True

    See Also:
        :class:`GatedWalkConv` and :class:`GraphKernelConv`; :class:`RandomWalkNet`, its network;
        :class:`~pyg_kernels.kernels.RandomWalkKernel`, its kernel; :func:`~pyg_kernels.walk.walk`,
        the recurrence; :func:`~pyg_kernels.explain.walk_contributions`.
    """

    weighting: Decay

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        order: int = 2,
        decay: float | str = 0.5,
        combine: Combine = "mul",
        act: Act = None,
        edge_dim: int | None = None,
        return_states: bool = False,
        non_backtracking: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            Decay(checked_count(out_channels, "out_channels"), decay),
            order=order,
            combine=combine,
            act=act,
            edge_dim=edge_dim,
            return_states=return_states,
            non_backtracking=non_backtracking,
            **kwargs,
        )

    @property
    def decay(self) -> float | Tensor:
        r"""The decay :math:`\lambda`: a number, or a vector of :obj:`(D,)` where it is learned."""
        return self.weighting.value
