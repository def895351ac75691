"""Checks of arguments and inputs: they return the value or raise a ``ValueError`` naming it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.resolver import activation_resolver

from pyg_kernels.checks import checked_choice, checked_count, is_number
from pyg_kernels.walk import Combine

Act = str | Callable[[Tensor], Tensor] | None


def differing(**arguments: tuple[object, object]) -> list[str]:
    """The arguments that differ from their defaults, given a (value, default) pair for each."""
    given = arguments.items()
    return [f"{name}={value!r}" for name, (value, default) in given if value != default]


def checked_lazy_count(value: int, name: str) -> int:
    """A whole number of at least 1, or -1 for a size that is read off the first input."""
    if value == -1:
        return value
    try:
        return checked_count(value, name)
    except ValueError as error:
        raise ValueError(f"{error}, or -1 for a lazy size") from None


def checked_pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """The numbers of features of source and target nodes."""
    if isinstance(in_channels, (tuple, list)):
        if len(in_channels) != 2:
            raise ValueError(f"in_channels={in_channels!r}: expected a number or a pair of numbers")
        source, target = in_channels
        return checked_lazy_count(source, "in_channels"), checked_lazy_count(target, "in_channels")
    return (checked_lazy_count(in_channels, "in_channels"),) * 2


def checked_edge_dim(edge_dim: int | None) -> int | None:
    """A number of edge features, -1 for any, or None for none."""
    return None if edge_dim is None else checked_lazy_count(edge_dim, "edge_dim")


def checked_combine(combine: str, name: str = "combine") -> Combine:
    """``'mul'`` or ``'add'``."""
    return cast(Combine, checked_choice(combine, name, get_args(Combine)))


def checked_decay(decay: float | str) -> float | None:
    """The constant decay as a float, or None where it is learned."""
    if decay == "learned":
        return None
    if not is_number(decay) or not 0.0 <= float(decay) <= 1.0:
        raise ValueError(f"decay={decay!r}: expected a number in [0, 1] or 'learned'")
    return float(decay)


def checked_dropout(dropout: float, name: str = "dropout") -> float:
    """A probability below 1."""
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name}={dropout!r}: expected a probability in [0, 1)")
    return dropout


def checked_aggregation(kwargs: dict[str, Any]) -> str:
    """Takes the aggregation out of the arguments for PyG; it must be a sum, as walk kernels are."""
    aggr = kwargs.pop("aggr", "add")
    if aggr not in ("add", "sum"):
        raise ValueError(f"aggr={aggr!r}: a walk kernel is a sum over walks, expected 'add'")
    return "add"


def checked_module(module: Module | None, name: str) -> Module | None:
    """A module, or None."""
    if module is not None and not isinstance(module, Module):
        raise ValueError(f"{name}={module!r}: expected a torch.nn.Module or None")
    return module


def build_activation(act: Act) -> Callable[[Tensor], Tensor] | None:
    """The activation, looked up by name or returned as it is; None for the identity."""
    if isinstance(act, type):
        raise ValueError(f"act={act.__name__}: expected an instance, {act.__name__}()")
    if getattr(act, "inplace", False):
        raise ValueError(f"act={act!r}: it works in place, but the states are read again")
    return cast("Callable[[Tensor], Tensor] | None", activation_resolver(act))


def checked_nodes(x: Tensor) -> Tensor:
    """Node features of shape (N, F)."""
    if not isinstance(x, Tensor):
        raise ValueError(f"x is a {type(x).__name__}: expected a tensor of shape (N, F)")
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: expected (N, F)")
    return x


def checked_batch(batch: Tensor | None, num_nodes: int, batch_size: int | None) -> Tensor | None:
    """The graph of each node, (N,); None for one graph."""
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(f"batch_size={batch_size} without a batch vector: expected 1 or None")
        return None
    if batch.dim() != 1 or batch.size(0) != num_nodes or batch.dtype != torch.long:
        raise ValueError(
            f"batch has shape {tuple(batch.shape)} and dtype {batch.dtype}: expected the graph of "
            f"each node, ({num_nodes},) and torch.int64"
        )
    return batch
