"""Layers whose sums over neighbours are one op, and PyG's messages where these are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing

from pyg_kernels.nn.arguments import checked_aggregation
from pyg_kernels.ops.edges import Edges


def _taking_messages(name: str) -> Callable[..., Any]:
    """PyG's method of that name, after which the layer takes messages."""

    def register(self: FusedConv, hook: Callable[..., Any]) -> Any:
        self.fuse = False
        return getattr(super(FusedConv, self), name)(hook)

    return register


class FusedConv(MessagePassing):
    """A layer that sums over neighbours by one op, without a message an edge.

    PyG's ``propagate`` takes its place, with the same numbers, where an explainer's edge mask is
    on (``explain``), and once ``fuse`` is False: a hook on the layer's messages sets that. To
    fuse again after the hook's removal, set ``fuse``.

    Args:
        **kwargs: Arguments of :class:`torch_geometric.nn.conv.MessagePassing`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(aggr=checked_aggregation(kwargs), **kwargs)
        self.fuse = True

    register_propagate_forward_pre_hook = _taking_messages("register_propagate_forward_pre_hook")
    register_propagate_forward_hook = _taking_messages("register_propagate_forward_hook")
    register_message_forward_pre_hook = _taking_messages("register_message_forward_pre_hook")
    register_message_forward_hook = _taking_messages("register_message_forward_hook")
    register_aggregate_forward_pre_hook = _taking_messages("register_aggregate_forward_pre_hook")
    register_aggregate_forward_hook = _taking_messages("register_aggregate_forward_hook")

    @property
    def takes_messages(self) -> bool:
        """Whether sums go through ``propagate``."""
        return bool(self.explain) or not self.fuse

    def propagate_along(self, edges: Edges, **kwargs: Tensor | None) -> Tensor:
        """PyG's ``propagate``, for edges as the ops take them; ``message`` gets their weights."""
        index = torch.stack([edges.source, edges.target])
        size = (edges.num_sources, edges.num_targets)
        if self.flow == "target_to_source":
            index, size = index.flip(0), (size[1], size[0])
        return self.propagate(index, size=size, edge_weight=edges.weight, **kwargs)
