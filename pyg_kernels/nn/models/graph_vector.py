"""What the models share between their layers and their graph vectors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Identity, Module
from torch_geometric.nn import global_add_pool
from torch_geometric.nn.resolver import normalization_resolver


def sum_over_nodes(x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """The sum of each graph's rows, (num_graphs, D); without a batch vector, one graph."""
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(f"batch_size={batch_size} without a batch vector: expected 1 or None")
        return x.sum(dim=0, keepdim=True)
    return global_add_pool(x, batch, batch_size)


def build_norm(norm: str | None, channels: int) -> Module:
    """A normalisation layer by PyG's name (``'batch'``, ``'layer'``, ...); the identity for None.

    Raises:
        ValueError: For a name that PyG does not know.
    """
    if norm is None:
        return Identity()
    aliases = {"batch": "BatchNorm", "layer": "LayerNorm"}
    return normalization_resolver(aliases.get(norm, norm), channels)


def checked_count(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
    return value
