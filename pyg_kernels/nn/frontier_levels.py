"""Eigenvalues of a learned matrix of a graph, around a learned filling."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn import Linear
from torch_geometric.typing import OptTensor

from pyg_kernels.nn.arguments import checked_batch, checked_count, checked_edge_dim, checked_nodes
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.eigenvectors import eigenvectors
from pyg_kernels.propagation.graph import EdgeSource, as_edges

_RANK = 8  # of the part of a coupling that its two nodes decide together
_STD = 0.02  # of that part's weights


class FrontierLevels(Module):
    r"""Eigenvalues of a learned symmetric matrix of each graph, around a learned filling.

    .. math::
        H_{vv} &= \langle a, x_v \rangle + a_0, \qquad
        H_{uv} = w_{uv} \bigl(b_0 + \langle b, e_{uv} \rangle + \langle P x_u, P x_v \rangle\bigr)
        \quad \text{along edges} \\
        q &= \sum_v \mathrm{sigmoid}(\langle f, x_v \rangle + f_0)

    Of the eigenvalues :math:`\lambda_1 \geq \ldots \geq \lambda_N` of a graph the first q are
    filled, and the layer gives the F lowest filled and the F highest empty ones, interpolated
    linearly between whole numbers and held at the first and the last:

    .. math::
        \epsilon_k = \lambda(q - k + 1), \qquad \epsilon_{F + k} = \lambda(q + k), \qquad
        k = 1, \ldots, F

    This is the theory of Hückel (1931) with its constants learned: :math:`H_{vv}` is what an
    electron has at an atom, :math:`H_{uv}` what it has of a bond, in units in which what binds is
    positive; :math:`\epsilon_1` is the highest occupied orbital of a molecule and
    :math:`\epsilon_{F + 1}` the lowest unoccupied one. Powers of H sum over walks,
    :math:`\sum_i \lambda_i^p = \sum_v (H^p)_{vv}` over the closed walks of p steps: a level depends
    on walks of all lengths, and no number of layers bounds how far it sees.

    The output is each node's share of the levels of its graph,
    :math:`u_v (H u)_v` with u the eigenvector of unit length, so that their sum over nodes,
    which a network takes, is the level.

    Args:
        in_channels: The number of node features.
        num_levels: F, how many levels there are on either side of the filling.
        edge_dim: The number of edge features, or None where edges have none.

    Shapes:
        - **input:** node features :math:`(N, F_x)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge features :math:`(E, F_e)`; graph of each node :math:`(N)`. An edge
          in one direction alone counts half in each.
        - **output:** shares :math:`(N, 2F)`

    The gradients are those of the levels, with eigenvectors held (Hellmann and Feynman): exact for
    what is made of sums over nodes. There are no second derivatives, and none by ``torch.func``.
    Eigenvalues are computed in double precision; time grows with the cube of the nodes of a graph.
    A graph with a number that is not finite has shares of NaN.

    Raises:
        ValueError: For sizes below 1, and for inputs of other shapes.
        NotImplementedError: For gradients that are to have gradients (``create_graph=True``).

    Example:
        >>> import torch
        >>> from pyg_kernels.nn import FrontierLevels
        >>> x, edge_index = torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> FrontierLevels(5, num_levels=2)(x, edge_index).sum(0).shape
        torch.Size([4])

    See Also:
        :class:`WLKernelNet` and :class:`GraphKernelNet`, which take ``num_levels``.
    """

    def __init__(self, in_channels: int, num_levels: int = 4, edge_dim: int | None = None) -> None:
        super().__init__()
        self.num_levels = checked_count(num_levels, "num_levels")
        self.edge_dim = checked_edge_dim(edge_dim)
        channels = checked_count(in_channels, "in_channels")
        self.lin_site, self.lin_filling = Linear(channels, 1), Linear(channels, 1)
        self.lin_pair = Linear(channels, _RANK, bias=False)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, 1, bias=False)
        self.coupling = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All nodes and all edges alike, half of the eigenvalues filled."""
        torch.nn.init.ones_(self.coupling)
        torch.nn.init.normal_(self.lin_pair.weight, std=_STD)
        for module in (self.lin_site, self.lin_filling, self.lin_edge):
            for parameter in () if module is None else module.parameters():
                torch.nn.init.zeros_(parameter)

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeSource,
        edge_attr: OptTensor = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: int | None = None,
    ) -> Tensor:
        number = checked_nodes(x).size(0)
        checked_batch(batch, number)
        edges = as_edges(
            edge_index, number, number, edge_attr, self.edge_dim, edge_weight=edge_weight
        )
        if batch is None:
            batch, batch_size = edges.source.new_zeros(number), 1
        elif batch_size is None:
            batch_size = int(batch.max()) + 1 if number else 0
        return self.shares(x, edges, batch, batch_size).to(x.dtype)

    def shares(self, x: Tensor, edges: Edges, batch: Tensor, batch_size: int) -> Tensor:
        """The shares of the nodes, ``(N, 2F)``, in double precision."""
        site, coupling, filling = self.matrix(x, edges)
        lower, upper, share = self.places(filling, batch, batch_size)
        places = torch.cat([lower, upper], 1)
        vectors = eigenvectors(site, coupling, edges.source, edges.target, batch, places)
        carried = coupling.unsqueeze(1) * vectors.index_select(0, edges.source)
        image = (site.unsqueeze(1) * vectors).index_add(0, edges.target, carried)
        first, second = (vectors * image).chunk(2, dim=1)
        return torch.lerp(first, second, share.index_select(0, batch))

    def places(
        self, filling: Tensor, batch: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The levels among a graph's eigenvalues, ``(B, 2F)`` each.

        They are the whole places below and above each, from 0, and how far it is from the first to
        the second.
        """
        size = batch.new_zeros(batch_size).index_add(0, batch, torch.ones_like(batch))
        last = (size - 1).clamp(min=0).unsqueeze(1)
        filled = filling.new_zeros(batch_size).index_add(0, batch, filling).unsqueeze(1)
        k = torch.arange(self.num_levels, device=batch.device)
        place = torch.minimum((filled + torch.cat([-1 - k, k])).clamp(min=0), last)
        lower = place.detach().nan_to_num().long()
        return lower, torch.minimum(lower + 1, last), place - lower

    def matrix(self, x: Tensor, edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
        """The matrix on nodes ``(N,)`` and on edges ``(E,)``, and the filling of nodes ``(N,)``."""
        coupling: Tensor = self.coupling
        if self.lin_edge is not None:
            coupling = coupling + edges.edge_rows(self.lin_edge(edges.attr))[:, 0]
        pair = self.lin_pair(x)
        ends = [pair.index_select(0, index) for index in (edges.source, edges.target)]
        coupling = coupling + (ends[0] * ends[1]).sum(1)
        if edges.weight is not None:
            coupling = coupling * edges.weight
        site, filling = self.lin_site(x)[:, 0], self.lin_filling(x)[:, 0].sigmoid()
        return site.double(), coupling.double(), filling.double()
