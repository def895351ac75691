"""The random-walk kernel network."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import Linear, ModuleList

from pyg_kernels.nn.arguments import Act, build_activation
from pyg_kernels.nn.conv.graph_kernel_conv import build_walk
from pyg_kernels.nn.models.graph_net import GraphNet
from pyg_kernels.nn.models.graph_vector import build_norm
from pyg_kernels.ops.edges import Edges
from pyg_kernels.walk import Combine


class RandomWalkNet(GraphNet):
    r"""The random-walk kernel network of Lei et al., `"Deriving Neural Architectures from
    Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), eq. 6, with a linear
    head.

    .. math::
        h_G = \sigma\Bigl(\mathrm{norm}\Bigl(\sum_v c_n[v]\Bigr)\Bigr), \qquad y = A h_G + a

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        hidden_channels: The number of reference walks D.
        out_channels: The number of outputs per graph.
        order: The number of nodes n in a walk, at least 1.
        decay: A number in [0, 1] or ``'learned'``; leave it at its default if :obj:`gated`.
        gated: Whether a gate takes the decay's place.
        combine: ``'mul'`` or ``'add'``.
        act: The activation :math:`\sigma` of the graph vector; None for the identity.
        edge_dim: The number of edge features, or None where edges have none.
        norm: The normalisation of the sum over nodes: ``'batch'`` (``'head'`` is the same here) or
            ``'layer'``; None, as in the paper, for none.
        non_backtracking: Whether walks never turn back: see
            :class:`~pyg_kernels.nn.RandomWalkConv`.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge weights :math:`(E)`; edge features :math:`(E, F_e)`; graph of each
          node :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: For sizes below 1 and as :class:`~pyg_kernels.nn.RandomWalkConv`.

    Example:
        >>> from torch_geometric.data import Batch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import RandomWalkNet
        >>> mols = Batch.from_data_list([MolFeaturizer()(smiles) for smiles in ("CCO", "c1ccccc1")])
        >>> net = RandomWalkNet(mols.num_features, 32, 1, order=4, edge_dim=mols.num_edge_features)
        >>> net(mols.x, mols.edge_index, edge_attr=mols.edge_attr, batch=mols.batch).shape
        torch.Size([2, 1])

    See Also:
        :class:`RandomWalkConv` and :class:`GatedWalkConv`, the layers;
        :class:`~pyg_kernels.kernels.RandomWalkKernel`, the kernel;
        :func:`~pyg_kernels.explain.model_contributions`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        order: int = 2,
        decay: float | str = 0.5,
        gated: bool = False,
        combine: Combine = "mul",
        act: Act = "tanh",
        edge_dim: int | None = None,
        norm: str | None = "batch",
        non_backtracking: bool = False,
    ) -> None:
        super().__init__(hidden_channels, out_channels, edge_dim)
        options: dict[str, Any] = {"combine": combine, "edge_dim": edge_dim}
        options["non_backtracking"] = non_backtracking
        conv = build_walk(in_channels, hidden_channels, order, decay, gated, **options)
        self.convs = ModuleList([conv])
        self.norm = build_norm(norm, hidden_channels, of_graphs=True)
        self.act = build_activation(act)
        self.head = Linear(hidden_channels, out_channels)

    def _states(self, x: Tensor, edges: Edges) -> Tensor:
        return self.convs[0](x, edges)

    def _output(self, graph: Tensor) -> Tensor:
        graph = graph if self.norm is None else self.norm(graph)
        return self.head(graph if self.act is None else self.act(graph))
