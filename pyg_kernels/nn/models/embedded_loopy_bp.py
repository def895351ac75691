"""Structure2vec by loopy belief propagation."""

from __future__ import annotations

from torch import Tensor

from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.nn.models.embedded_net import EmbeddedNet
from pyg_kernels.nn.models.graph_vector import build_norm
from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.cavity_sum import arriving_sum, cavity_sum, find_reverse


class EmbeddedLoopyBP(EmbeddedNet):
    r"""Structure2vec with embedded loopy belief propagation, of Dai et al., `"Discriminative
    Embeddings of Latent Variable Models for Structured Data" <https://arxiv.org/abs/1603.05629>`_
    (2016), algorithm 2.

    .. math::
        p_{ij} &= W_1 x_i + W_e e_{ij} + b \\
        \nu_{ij}^{(0)} &= \sigma(p_{ij}), \qquad
        \nu_{ij}^{(t)} = \sigma\Bigl(W_2 \sum_{k \in \mathcal{N}(i) \setminus j}
        \nu_{ki}^{(t-1)} + p_{ij}\Bigr), \quad t = 1, \ldots, T \\
        \mu_i &= \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in \mathcal{N}(i)} \nu_{ki}^{(T)}\Bigr), \qquad
        h_G = \sum_i \sigma(W_o\, \mu_i) \\
        y &= A_2\, \sigma(A_1 \mathrm{norm}(h_G) + a_1) + a_2

    Messages run along the directed edges :math:`i \to j` of ``edge_index``. The sum over
    :math:`\mathcal{N}(i) \setminus j` leaves out every message that comes from node j: those of all
    parallel edges, none if no edge leads back, and for a self-loop those of the node's
    self-loops. A node that no edge reaches keeps :math:`\sigma(W_3 x_i)`.

    As in the authors' code, edge features are part of the potential p, :math:`W_o` is applied to
    the node states, and :math:`\nu^{(0)}` is the result of the paper's first iteration, which
    starts from zeros: T iterations here are :math:`T + 1` in the paper.

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        hidden_channels: The number of channels D.
        out_channels: The number of outputs per graph.
        num_iterations: The number of iterations T, at least 1.
        act: The activation :math:`\sigma`; None for the identity.
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        norm: The normalisation of :math:`h_G` and of the values before the activation in
            :math:`\mu` and in each of :math:`\nu^{(0)}, \ldots, \nu^{(T)}`: ``'batch'`` or
            ``'layer'``. ``'head'`` normalises :math:`h_G` alone, over the batch; None, as in the
            paper, normalises nothing.
        dropout: The probability of dropping a channel of :math:`\nu^{(0)}, \ldots, \nu^{(T)}` and
            of :math:`\mu`.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge weights :math:`(E)`; edge features :math:`(E, F_e)`; graph of each
          node :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: As :class:`EmbeddedMeanField`.

    Example:
        >>> from torch_geometric.data import Batch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import EmbeddedLoopyBP
        >>> mols = Batch.from_data_list([MolFeaturizer()(smiles) for smiles in ("CCO", "c1ccccc1")])
        >>> net = EmbeddedLoopyBP(mols.num_features, 32, 1, edge_dim=mols.num_edge_features)
        >>> net(mols.x, mols.edge_index, edge_attr=mols.edge_attr, batch=mols.batch).shape
        torch.Size([2, 1])

    See Also:
        :class:`EmbeddedMeanField`, whose values belong to nodes;
        :func:`~pyg_kernels.propagation.cavity_sum.cavity_sum`, the sum that leaves out node j.
    """

    def _build(self, in_channels: int, hidden_channels: int, norm: str | None) -> None:
        self.lin_state = UnitLinear(in_channels, hidden_channels)
        self.lin_arrived = UnitLinear(hidden_channels, hidden_channels)
        self.norm = build_norm(norm, hidden_channels)

    def _iterated(self, x: Tensor, edges: Edges) -> Tensor:
        potential = (self.lin_node(x) + self.bias).index_select(0, edges.source)
        if self.lin_edge is not None and edges.attr is not None:
            potential = potential + edges.edge_rows(self.lin_edge(edges.attr))
        reverse = find_reverse(edges)
        message = self._activated(potential, self._norm(0))
        for iteration in range(1, self.num_iterations + 1):
            arrived = self.lin_message(cavity_sum(message, edges, reverse))
            message = self._activated(arrived + potential, self._norm(iteration))
        arrived = self.lin_arrived(arriving_sum(message, edges))
        return self._activated(self.lin_state(x) + arrived, self.norm)
