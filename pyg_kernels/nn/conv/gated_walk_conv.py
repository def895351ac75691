"""The gated random-walk kernel layer."""

from __future__ import annotations

from typing import Any

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import Act, checked_edge_dim, checked_pair
from pyg_kernels.nn.conv.walk_conv import WalkConv
from pyg_kernels.nn.conv.weighting import EdgeGate
from pyg_kernels.walk import Combine


class GatedWalkConv(WalkConv):
    r"""The gated random-walk kernel layer of Lei et al., `"Deriving Neural Architectures from
    Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), section 4.

    .. math::
        \lambda_{uv} &= \mathrm{sigmoid}(U [f_u, f_v, e_{uv}] + b) \\
        c_1[v] &= W^{(1)} f_v \\
        c_j[v] &= \Bigl( \sum_{u \in \mathcal{N}(v)} \lambda_{uv} \odot W_e^{(j)} e_{uv} \odot
        \sigma(c_{j-1}[u]) \Bigr) \circ W^{(j)} f_v, \quad j = 2, \ldots, n

    This is the random-walk layer with a gate in place of its decay. With ``combine='mul'`` and
    without an activation, each walk is weighted by the product of the gates along it. All steps
    use the same gates. Between stacked layers put a normalisation and an activation, as for
    :class:`RandomWalkConv`; :class:`GraphKernelConv` with ``gated=True`` takes both as arguments.

    Args:
        in_channels: The number of node features F; -1 to read it off the first input; a tuple
            for source and target nodes of a bipartite graph.
        out_channels: The number of reference walks D.
        order: The number of nodes n in a walk, at least 1 (a walk of one node has no gate).
        combine: ``'mul'`` or ``'add'``.
        edge_dim: The number of edge features (-1: any), or None where edges have none. Edge
            features enter both the gate and the bond factors :math:`W_e^{(j)} e_{uv}`.
        act: The activation :math:`\sigma` between steps, or None for the identity.
        return_states: Whether to return the list :math:`[c_1, \ldots, c_n]`.
        non_backtracking: As in :class:`RandomWalkConv`.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        As :class:`RandomWalkConv`.

    Raises:
        ValueError: As :class:`RandomWalkConv`.

    Example:
        >>> import torch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import GatedWalkConv
        >>> mol = MolFeaturizer()("CCO")
        >>> conv = GatedWalkConv(mol.num_features, 32, order=3, edge_dim=mol.num_edge_features)
        >>> conv(mol.x, mol.edge_index, mol.edge_attr).shape
        torch.Size([3, 32])

    See Also:
        :class:`RandomWalkConv`, whose decay the gate replaces;
        :class:`~pyg_kernels.kernels.GatedSequenceKernel`, the gated kernel on texts;
        :func:`~pyg_kernels.walk.walk`, the recurrence.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        order: int = 2,
        combine: Combine = "mul",
        edge_dim: int | None = None,
        act: Act = None,
        return_states: bool = False,
        non_backtracking: bool = False,
        **kwargs: Any,
    ) -> None:
        if "decay" in kwargs:
            raise ValueError("decay: gates take its place, leave it out")
        checked_count(out_channels, "out_channels")
        gate = EdgeGate(checked_pair(in_channels), out_channels, checked_edge_dim(edge_dim))
        super().__init__(
            in_channels,
            out_channels,
            gate if order != 1 else None,
            order=order,
            combine=combine,
            act=act,
            edge_dim=edge_dim,
            return_states=return_states,
            non_backtracking=non_backtracking,
            **kwargs,
        )
