"""The deep graph-kernel network."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import ModuleList

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import Act, checked_dropout
from pyg_kernels.nn.conv import GraphKernelConv
from pyg_kernels.nn.models.graph_net import GraphNet
from pyg_kernels.nn.models.graph_vector import GraphHead, build_norm
from pyg_kernels.ops.edges import Edges
from pyg_kernels.walk import Combine


class GraphKernelNet(GraphNet):
    r"""The deep graph-kernel network of Lei et al., `"Deriving Neural Architectures from Sequence
    and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), section 3.3.

    .. math::
        h^{(l)} = \mathrm{GraphKernelConv}(h^{(l-1)}), \quad h^{(0)} = f, \qquad
        y = A_2\, \sigma\Bigl(A_1 \mathrm{norm}\Bigl(\sum_v h^{(L)}_v\Bigr) + a_1\Bigr) + a_2

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        hidden_channels: The number of channels D of every layer.
        out_channels: The number of outputs per graph.
        num_layers: The number of layers L.
        order: The number of nodes n in a layer's walks, at least 1.
        decay: A number in [0, 1] or ``'learned'``; leave it at its default if :obj:`gated`.
        combine: ``'add'`` or ``'mul'``.
        act: The activation :math:`\sigma` of the layers and of the head.
        gated: Whether gates take the decay's place.
        edge_dim: The number of edge features, or None where edges have none.
        norm: The normalisation of each layer's output before its activation, and of the graph
            vector: ``'batch'`` or ``'layer'``. ``'head'`` normalises the graph vector alone, over
            the batch; None, as in the paper, normalises nothing.
        dropout: The probability of dropping a channel of a layer's output.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge weights :math:`(E)`; edge features :math:`(E, F_e)`; graph of each
          node :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: For sizes below 1 and as :class:`~pyg_kernels.nn.GraphKernelConv`.

    Example:
        >>> from torch_geometric.data import Batch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import GraphKernelNet
        >>> mols = Batch.from_data_list([MolFeaturizer()(smiles) for smiles in ("CCO", "c1ccccc1")])
        >>> net = GraphKernelNet(mols.num_features, 32, 1, num_layers=3)
        >>> net(mols.x, mols.edge_index, batch=mols.batch).shape
        torch.Size([2, 1])

    See Also:
        :class:`GraphKernelConv`, the layer; :class:`~pyg_kernels.kernels.DeepGraphKernel`, the
        kernel; :func:`~pyg_kernels.explain.model_contributions`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        order: int = 2,
        decay: float | str = 0.5,
        combine: Combine = "add",
        act: Act = "relu",
        gated: bool = False,
        edge_dim: int | None = None,
        norm: str | None = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(hidden_channels, out_channels, edge_dim)
        checked_count(num_layers, "num_layers")
        self.dropout = checked_dropout(dropout)
        self.convs = ModuleList(
            GraphKernelConv(
                in_channels if layer == 0 else hidden_channels,
                hidden_channels,
                order=order,
                decay=decay,
                combine=combine,
                act=act,
                gated=gated,
                edge_dim=edge_dim,
                norm=build_norm(norm, hidden_channels),
            )
            for layer in range(num_layers)
        )
        self.head = GraphHead(hidden_channels, hidden_channels, out_channels, norm, act)

    def _states(self, x: Tensor, edges: Edges) -> Tensor:
        for conv in self.convs:
            x = F.dropout(conv(x, edges), self.dropout, self.training)
        return x
