"""One layer of the deep graph-kernel network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import OptTensor

from pyg_kernels.checks import check_flags
from pyg_kernels.nn.arguments import Act, checked_aggregation, checked_module
from pyg_kernels.nn.conv.fused_conv import REGISTER_HOOK
from pyg_kernels.nn.conv.gated_walk_conv import GatedWalkConv
from pyg_kernels.nn.conv.random_walk_conv import RandomWalkConv
from pyg_kernels.nn.conv.walk_conv import NodeFeatures
from pyg_kernels.nn.linear import Resettable, UnitLinear
from pyg_kernels.propagation.graph import EdgeSource
from pyg_kernels.walk import Combine


def build_walk(
    in_channels: int | tuple[int, int],
    out_channels: int,
    order: int,
    decay: float | str,
    gated: bool,
    **kwargs: Any,
) -> RandomWalkConv | GatedWalkConv:
    """The walk inside another layer or model, gated or with a decay.

    Raises:
        ValueError: Where :obj:`gated` comes with a decay other than the default, which the
            gates would silently replace.
    """
    check_flags(gated=gated)
    if not gated:
        return RandomWalkConv(in_channels, out_channels, order=order, decay=decay, **kwargs)
    if decay != 0.5:
        raise ValueError(f"decay={decay!r} with gated=True: the gates take the decay's place")
    return GatedWalkConv(in_channels, out_channels, order=order, **kwargs)


class WithWalk:
    """The parts of a walk that a layer around it exposes."""

    walk: RandomWalkConv | GatedWalkConv

    @property
    def decay(self) -> float | Tensor:
        r"""The decay :math:`\lambda`; raises an ``AttributeError`` where gates take its place."""
        return self.walk.decay

    @property
    def lins(self) -> ModuleList:
        """The n bias-free maps: ``lins[j].weight`` is :math:`W^{(j + 1)}`."""
        return self.walk.lins

    @property
    def edge_lins(self) -> ModuleList:
        """The maps of the bond factors: ``edge_lins[j]`` belongs to step j + 2."""
        return self.walk.edge_lins


class GraphKernelConv(WithWalk, Resettable, MessagePassing):
    r"""One layer of the deep graph-kernel network of Lei et al., `"Deriving Neural Architectures
    from Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), eq. 9.

    .. math::
        c_1[v] &= W^{(1)} h_v \\
        c_j[v] &= W^{(j)} h_v \circ \lambda \sum_{u \in \mathcal{N}(v)} W_e^{(j)} e_{uv} \odot
        \sigma(c_{j-1}[u]), \quad j = 2, \ldots, n \\
        h'_v &= \sigma(U c_n[v])

    The outputs of a stack of L layers lie in the space of the deep graph kernel of depth L
    (theorem 4 of the paper).

    To stack layers, give each a norm, ``norm=torch.nn.BatchNorm1d(out_channels)``: otherwise sums
    over neighbours grow from layer to layer. With more than three layers, also add each layer's
    input to its output, ``x = x + conv(x, edge_index)``. Theorem 4 assumes neither.

    Args:
        in_channels: The number of node features; -1 to read it off the first input; a tuple for
            source and target nodes of a bipartite graph.
        out_channels: The number of channels D, of the states and of the output.
        order: The number of nodes n in a walk, at least 1.
        decay: A number in [0, 1] or ``'learned'``; leave it at its default if :obj:`gated`.
        combine: ``'add'`` or ``'mul'``.
        act: The activation :math:`\sigma`, by name or as a callable; None for the identity.
        gated: Whether a gate :math:`\lambda_{uv}` takes the decay's place
            (:class:`GatedWalkConv`).
        edge_dim: The number of edge features (-1: any), or None where edges have none.
        norm: A module that normalises :math:`U c_n`, :math:`(N, D)`, before the activation.
        **kwargs: Further arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** as :class:`RandomWalkConv`
        - **output:** :math:`(N, D)`

    Raises:
        ValueError: As :class:`RandomWalkConv`, and for a non-default decay with :obj:`gated`.

    Example:
        >>> import torch
        >>> from pyg_kernels.nn import GraphKernelConv
        >>> x, edge_index = torch.rand(3, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> first = GraphKernelConv(4, 16, order=3, norm=torch.nn.BatchNorm1d(16))
        >>> second = GraphKernelConv(16, 16, order=3, norm=torch.nn.BatchNorm1d(16))
        >>> second(first(x, edge_index), edge_index).shape
        torch.Size([3, 16])

    See Also:
        :class:`GraphKernelNet`, its network; :class:`RandomWalkConv`, the walk inside;
        :class:`~pyg_kernels.kernels.DeepGraphKernel`, the kernel of a stack of layers.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        order: int = 2,
        decay: float | str = 0.5,
        combine: Combine = "add",
        act: Act = "relu",
        gated: bool = False,
        edge_dim: int | None = None,
        norm: Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(aggr=checked_aggregation(kwargs), **kwargs)
        self.in_channels = in_channels
        self.out_channels = out_channels
        options = {"combine": combine, "act": act, "edge_dim": edge_dim, **kwargs}
        self.walk = build_walk(in_channels, out_channels, order, decay, gated, **options)
        self.lin = UnitLinear(out_channels, out_channels)
        self.norm = checked_module(norm, "norm")

    def forward(
        self,
        x: NodeFeatures,
        edge_index: EdgeSource,
        edge_attr: OptTensor = None,
        edge_weight: OptTensor = None,
    ) -> Tensor:
        nodes_and_edges = self.walk.read(x, edge_index, edge_attr, edge_weight)
        out = self.lin(self.walk.states(*nodes_and_edges)[-1])
        out = out if self.norm is None else self.norm(out)
        return out if self.walk.act is None else self.walk.act(out)

    def __repr__(self) -> str:
        walk = self.walk
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"order={walk.order}, combine={walk.combine!r}, "
            f"gated={isinstance(walk, GatedWalkConv)})"
        )


def _of_walk(name: str) -> Callable[..., Any]:
    """The walk's method of that name; a hook receives this layer, as hooks do in PyG."""
    return lambda conv, hook: getattr(conv.walk, name)(partial(_hooked, conv, hook))


def _hooked(conv: GraphKernelConv, hook: Callable[..., Any], walk: Any, *args: Any) -> Any:
    return hook(conv, *args)


for _name in REGISTER_HOOK:
    setattr(GraphKernelConv, _name, _of_walk(_name))
