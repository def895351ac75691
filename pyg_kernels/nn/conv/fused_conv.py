"""Layers that sum over neighbours in one op, or by PyG's messages where these are inspected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing

from pyg_kernels.nn.arguments import checked_aggregation
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.ops.edges import Edges

REGISTER_HOOK = [
    f"register_{part}_forward_{when}"
    for part in ("propagate", "message", "aggregate")
    for when in ("pre_hook", "hook")
]


def _taking_messages(name: str) -> Callable[..., Any]:
    """PyG's method of that name, which also makes the layer use PyG's messages."""

    def register(self: FusedConv, hook: Callable[..., Any]) -> Any:
        self.fuse = False
        return getattr(super(FusedConv, self), name)(hook)

    return register


def _is_ours(layer: type, method: str) -> bool:
    of = next(kind for kind in layer.__mro__ if method in vars(kind))
    return of.__module__.startswith(("pyg_kernels.", "torch_geometric."))


class FusedConv(Resettable, MessagePassing):
    """A layer that sums over neighbours in one op, without making a message for each edge.

    The layer falls back to PyG's ``propagate``, with the same numbers, while an explainer's edge
    mask is on (``explain``) and once ``fuse`` is False. A hook on the layer's messages sets
    ``fuse`` to False, and so does a ``message``, ``aggregate`` or ``update`` that a subclass
    defines. To fuse again after the hook is removed, set ``fuse`` to True.

    Args:
        **kwargs: Arguments of :class:`torch_geometric.nn.conv.MessagePassing`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(aggr=checked_aggregation(kwargs), **kwargs)
        self.fuse = all(_is_ours(type(self), name) for name in ("message", "aggregate", "update"))

    @property
    def takes_messages(self) -> bool:
        """Whether sums go through ``propagate``."""
        return bool(self.explain) or not self.fuse

    def propagate_along(self, edges: Edges, **kwargs: Tensor | None) -> Tensor:
        """Calls PyG's ``propagate`` with the ops' `Edges`; ``message`` receives their weights."""
        index = torch.stack([edges.source, edges.target])
        size = (edges.num_sources, edges.num_targets)
        if self.flow == "target_to_source":
            index, size = index.flip(0), (size[1], size[0])
        return self.propagate(index, size=size, edge_weight=edges.weight, **kwargs)


for _name in REGISTER_HOOK:
    setattr(FusedConv, _name, _taking_messages(_name))
