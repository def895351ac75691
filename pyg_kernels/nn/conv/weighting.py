"""The weight that each edge puts on the states it carries: a decay or a gate."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from pyg_kernels.nn.arguments import checked_decay
from pyg_kernels.nn.linear import Resettable, UnitLinear
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import Gate


class Decay(Module):
    r"""A decay :math:`\lambda` that all edges share.

    Args:
        channels: The number of channels D.
        decay: A number in [0, 1], or ``'learned'`` for a vector :math:`\mathrm{sigmoid}(l)` of
            :obj:`(D,)`, where the parameter :math:`l` starts at zero.

    Raises:
        ValueError: For any other :obj:`decay`.
    """

    def __init__(self, channels: int, decay: float | str) -> None:
        super().__init__()
        self.constant = checked_decay(decay)
        if self.constant is None:
            self.logit = Parameter(torch.empty(channels))
        else:
            self.register_parameter("logit", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.logit is not None:
            torch.nn.init.zeros_(self.logit)

    @property
    def value(self) -> float | Tensor:
        return self.logit.sigmoid() if self.constant is None else self.constant

    def extra_repr(self) -> str:
        return "learned" if self.constant is None else f"{self.constant}"


class EdgeGate(Resettable, Module):
    r"""The gate :math:`\lambda_{uv} = \mathrm{sigmoid}(U[f_u, f_v, e_{uv}] + b)`.

    U is applied in three blocks: to source nodes, to target nodes, and to edge features, once for
    each edge type where these repeat. The bias starts at zero.

    Args:
        in_channels: The number of features of source and target nodes (-1 for lazy sizes).
        channels: The number of channels D.
        edge_dim: The number of edge features, or None.
    """

    def __init__(
        self, in_channels: tuple[int, int], channels: int, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        self.lin_source = UnitLinear(in_channels[0], channels)
        self.lin_target = UnitLinear(in_channels[1], channels)
        self.lin_edge = None if edge_dim is None else UnitLinear(edge_dim, channels)
        self.bias = Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.zeros_(self.bias)

    def logits(self, source: Tensor, target: Tensor, edges: Edges) -> Gate:
        """The gate's logits, given the products of its blocks with source and target nodes."""
        if self.lin_edge is None or edges.attr is None:
            return source, target + self.bias, None
        return source, target, self.lin_edge(edges.attr) + self.bias
