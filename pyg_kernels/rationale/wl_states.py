"""The states of atoms that a generator of rationales of graphs reads."""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.nn.arguments import Act, checked_dropout, checked_nodes
from pyg_kernels.nn.linear import Resettable, UnitLinear
from pyg_kernels.nn.models.graph_vector import build_norm
from pyg_kernels.nn.models.wl_kernel_net import build_iterations, iterations
from pyg_kernels.propagation.graph import EdgeSource, as_edges
from pyg_kernels.walk import Combine


class WLStates(Resettable, Module):
    r"""The states that the iterations of a Weisfeiler-Lehman kernel network give to each node,

    .. math::
        h^{(0)} = E f, \qquad (h^{(l)}, c_n^{(l)}) = \mathrm{WLKernelConv}(h^{(l-1)}), \qquad
        s_v = \mathrm{norm}\Bigl(\sum_{l=1}^{L} c_n^{(l)}[v]\Bigr),

    the summands of :class:`~pyg_kernels.nn.WLKernelNet`'s graph vector, node by node. A
    :class:`Generator` of atoms reads these states.

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        channels: The number of channels D.
        num_iterations: The number of iterations L.
        order: The number of nodes n in a walk, at least 1.
        gated: Whether gates replace the decay.
        decay: A number in [0, 1] or ``'learned'``; unused if :obj:`gated`.
        act: The activation of the relabelling.
        relabel: How the relabelling combines its two terms: ``'add'`` or ``'mul'``.
        edge_dim: The number of edge features, or None where edges have none.
        norm: The normalisation of the states: ``'layer'`` (of each node), ``'batch'`` or None.
        dropout: The probability of dropping a channel of the labels.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)`; edge features
          :math:`(E, F_e)`
        - **output:** :math:`(N, D)`

    Raises:
        ValueError: For sizes below 1, and as :class:`~pyg_kernels.nn.WLKernelConv`.

    Example:
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.rationale import Generator, WLStates
        >>> mol = MolFeaturizer()("CCO")
        >>> generator = Generator(WLStates(65, 16, edge_dim=7), channels=16)
        >>> generator(mol.x, None, mol.edge_index, mol.edge_attr).sample().shape
        torch.Size([1, 3])

    See Also:
        :class:`Generator`; :class:`~pyg_kernels.nn.WLKernelNet`, whose sum over nodes these states
        are part of; :class:`~pyg_kernels.nn.WLKernelConv`, its layers.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        num_iterations: int = 3,
        order: int = 2,
        gated: bool = True,
        decay: float | str = 0.5,
        act: Act = "relu",
        relabel: Combine = "add",
        edge_dim: int | None = None,
        norm: str | None = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        checked_choice(norm, "norm", ("layer", "batch", None))
        checked_count(channels, "channels")
        checked_count(num_iterations, "num_iterations")
        self.edge_dim, self.dropout = edge_dim, checked_dropout(dropout)
        self.embedding = UnitLinear(in_channels, channels)
        options = {"order": order, "decay": decay, "gated": gated, "act": act, "edge_dim": edge_dim}
        self.convs = ModuleList(
            build_iterations(channels, num_iterations, relabel, None, **options)
        )
        self.norm = build_norm(norm, channels)

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeSource,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        sizes = (checked_nodes(x).size(0),) * 2
        edges = as_edges(edge_index, *sizes, edge_attr, self.edge_dim, edge_weight=edge_weight)
        passes = iterations(self.convs, self.embedding(x), edges, self.dropout, self.training)
        states = [state for _, state in passes]
        total = functools.reduce(torch.add, states)
        return total if self.norm is None else self.norm(total)
