"""Structure2vec by mean-field inference."""

from __future__ import annotations

from torch import Tensor

from pyg_kernels.nn.models.embedded_net import EmbeddedNet
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.propagation.cavity_sum import arriving_sum


class EmbeddedMeanField(EmbeddedNet):
    r"""Structure2vec with embedded mean field, of Dai et al., `"Discriminative Embeddings of
    Latent Variable Models for Structured Data" <https://arxiv.org/abs/1603.05629>`_ (2016),
    algorithm 1.

    .. math::
        p_v &= W_1 x_v + W_e \sum_{u \in \mathcal{N}(v)} e_{uv} + b \\
        \mu_v^{(0)} &= \sigma(p_v), \qquad
        \mu_v^{(t)} = \sigma\Bigl(W_2 \sum_{u \in \mathcal{N}(v)} \mu_u^{(t-1)} + p_v\Bigr),
        \quad t = 1, \ldots, T \\
        h_G &= \sum_v \sigma(W_o\, \mu_v^{(T)}) \\
        y &= A_2\, \sigma(A_1 \mathrm{norm}(h_G) + a_1) + a_2

    As in the authors' code, edge features are part of the potential p, and the paper's first
    iteration, on zeros, gives :math:`\mu^{(0)}`: T iterations here are :math:`T + 1` in the paper.

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        hidden_channels: The number of channels D.
        out_channels: The number of outputs per graph.
        num_iterations: The number of iterations T, at least 1.
        act: The activation :math:`\sigma`; None for the identity.
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        norm: The normalisation of :math:`h_G` and of the values before the activation in each of
            :math:`\mu^{(0)}, \ldots, \mu^{(T)}`: ``'batch'`` or ``'layer'``. ``'head'`` normalises
            :math:`h_G` alone, over the batch; None, as in the paper, normalises nothing.
        dropout: The probability of dropping a channel of :math:`\mu^{(0)}, \ldots, \mu^{(T)}`.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge weights :math:`(E)`; edge features :math:`(E, F_e)`; graph of each
          node :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: For sizes below 1, an unknown :obj:`norm`, a :obj:`dropout` outside [0, 1), and
            where edges and their features do not fit the nodes or :obj:`edge_dim`.

    Example:
        >>> from torch_geometric.data import Batch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import EmbeddedMeanField
        >>> mols = Batch.from_data_list([MolFeaturizer()(smiles) for smiles in ("CCO", "c1ccccc1")])
        >>> net = EmbeddedMeanField(mols.num_features, 32, 1, edge_dim=mols.num_edge_features)
        >>> net(mols.x, mols.edge_index, edge_attr=mols.edge_attr, batch=mols.batch).shape
        torch.Size([2, 1])

    See Also:
        :class:`EmbeddedLoopyBP`, whose messages run along edges;
        :func:`~pyg_kernels.ops.neighbor_sum.neighbor_sum`, the sum over neighbours.
    """

    def _iterated(self, x: Tensor, edges: Edges) -> Tensor:
        potential = self.lin_node(x) + self.bias
        if self.lin_edge is not None and edges.attr is not None:
            arrived = arriving_sum(edges.edge_rows(edges.attr), edges)
            potential = potential + self.lin_edge(arrived)
        state = self._activated(potential, self._norm(0))
        for iteration in range(1, self.num_iterations + 1):
            arrived = self.lin_message(neighbor_sum(state, edges))
            state = self._activated(arrived + potential, self._norm(iteration))
        return state
