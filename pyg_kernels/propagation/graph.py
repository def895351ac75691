"""The forms in which PyG gives edges."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from pyg_kernels.ops.edges import Edges, distinct_rows
from pyg_kernels.ops.operator import is_plain

EdgeSource: TypeAlias = Tensor | SparseTensor | EdgeIndex | Edges


def as_edges(
    edge_index: EdgeSource,
    num_sources: int,
    num_targets: int,
    edge_attr: Tensor | None = None,
    edge_dim: int | None = None,
    flow: str = "source_to_target",
    edge_weight: Tensor | None = None,
) -> Edges:
    """Reads edges in any form that PyG takes.

    Args:
        edge_index: An index of shape :obj:`(2, E)` (a tensor or ``EdgeIndex``), or a transposed
            sparse adjacency of shape :obj:`(num_targets, num_sources)` (a PyTorch sparse tensor
            or ``SparseTensor``), or `Edges`, which are returned as they are. Values of an adjacency
            are edge features if their shape is :obj:`(E, edge_dim)`, and edge weights if it is
            :obj:`(E,)`; but without :obj:`edge_attr`, ``edge_dim=1`` or -1 reads them as features.
        num_sources: The number of source nodes.
        num_targets: The number of target nodes.
        edge_attr: Edge features, :obj:`(E, edge_dim)`, in the order of the index or of the
            adjacency's entries.
        edge_dim: The number of edge features that the layer takes (-1: any); None for none.
        flow: ``'source_to_target'`` or ``'target_to_source'``.
        edge_weight: The number that multiplies each message along an edge, :obj:`(E,)`, in the same
            order as :obj:`edge_attr`.

    Raises:
        ValueError: Where the index or adjacency has another shape or names nodes that are not
            there, the edge features do not fit :obj:`edge_dim` or the number of edges, or the
            edge weights are not one number an edge.
    """
    if isinstance(edge_index, Edges):
        given = {"edge_attr": edge_attr, "edge_weight": edge_weight}
        return _checked_edges(edge_index, num_sources, num_targets, given, edge_dim)
    source, target, values = _endpoints(edge_index, num_sources, num_targets, flow)
    if values is not None:
        if edge_attr is not None or edge_weight is not None or values.dim() > 1:
            _check_coalesced(edge_index)
        edge_attr, edge_weight = _read_values(values, edge_attr, edge_weight, edge_dim)
    edge_attr = _checked_attr(edge_attr, edge_dim, source.numel())
    edge_weight = _checked_weight(edge_weight, source.numel())
    edge_type = None
    if edge_attr is not None and _may_repeat(edge_attr):
        found = distinct_rows(edge_attr)
        if found is not None:
            edge_attr, edge_type = found
    return Edges(source, target, num_sources, num_targets, edge_attr, edge_type, edge_weight)


def _checked_edges(
    edges: Edges,
    num_sources: int,
    num_targets: int,
    given: dict[str, Tensor | None],
    edge_dim: int | None,
) -> Edges:
    if (edges.num_sources, edges.num_targets) != (num_sources, num_targets):
        raise ValueError(
            f"Edges of {edges.num_sources} source and {edges.num_targets} target nodes: expected "
            f"{num_sources} and {num_targets}"
        )
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} was given beside Edges, which carry their own")
    _checked_attr(edges.attr, edge_dim, 0 if edges.attr is None else edges.attr.size(0))
    _checked_weight(edges.weight, edges.num_edges)
    return edges


def _endpoints(
    edge_index: Tensor | SparseTensor, num_sources: int, num_targets: int, flow: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Source and target of each edge, and the adjacency's values."""
    if isinstance(edge_index, SparseTensor) or is_torch_sparse_tensor(edge_index):
        if flow != "source_to_target":
            raise ValueError(
                f"flow={flow!r}: a sparse adjacency is transposed already; pass its transpose "
                "with flow='source_to_target'"
            )
        rows, columns = edge_index.size(0), edge_index.size(1)
        if (rows, columns) != (num_targets, num_sources):
            raise ValueError(
                f"the adjacency has shape ({rows}, {columns}): expected the transposed one, "
                f"(num_targets, num_sources) = ({num_targets}, {num_sources})"
            )
        return _entries(edge_index)
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"edge_index has shape {tuple(edge_index.shape)}: expected (2, num_edges) or a sparse "
            "adjacency"
        )
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"edge_index has dtype {edge_index.dtype}: expected torch.long")
    forward = flow == "source_to_target"
    if isinstance(edge_index, EdgeIndex):
        size = (num_sources, num_targets) if forward else (num_targets, num_sources)
        for known, needed in zip(edge_index.sparse_size(), size, strict=True):
            if known is not None and known != needed:
                raise ValueError(
                    f"the EdgeIndex has sparse size {tuple(edge_index.sparse_size())}: expected "
                    f"{size}"
                )
        edge_index = edge_index.as_tensor()
    first, second = edge_index.long().unbind(0)
    return (first, second, None) if forward else (second, first, None)


def _entries(adjacency: Tensor | SparseTensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """The entries of a transposed adjacency; parallel ones of a COO tensor are added up."""
    if isinstance(adjacency, SparseTensor):
        target, source, values = adjacency.coo()
        return source, target, values
    if adjacency.layout == torch.sparse_coo:
        adjacency = adjacency.coalesce()
        target, source = adjacency.indices()
        return source, target, adjacency.values()
    (target, source), values = to_edge_index(adjacency)
    return source, target, values


def _check_coalesced(adjacency: Tensor | SparseTensor) -> None:
    """Refuses a COO tensor whose entries `_entries` may have put in another order."""
    is_coo = isinstance(adjacency, Tensor) and adjacency.layout == torch.sparse_coo
    if is_coo and not adjacency.is_coalesced():
        raise ValueError(
            "the adjacency is not coalesced, so that edge features and weights have no order to "
            "follow: expected adjacency.coalesce()"
        )


def _read_values(
    values: Tensor, edge_attr: Tensor | None, edge_weight: Tensor | None, edge_dim: int | None
) -> tuple[Tensor | None, Tensor | None]:
    """The edge features and weights; the adjacency's values stand for one that was not given."""
    if edge_attr is None and (values.dim() > 1 or edge_dim in (1, -1)):
        return values, edge_weight
    if values.dim() > 1:
        raise ValueError("edge_attr was given beside an adjacency whose values are edge features")
    if _all_ones(values):
        return edge_attr, edge_weight
    if edge_weight is not None:
        raise ValueError("edge_weight was given beside an adjacency whose values are edge weights")
    return edge_attr, values


def _all_ones(values: Tensor) -> bool:
    constant = not values.requires_grad and not torch.compiler.is_compiling() and is_plain(values)
    return constant and bool((values == 1).all())


def _checked_attr(edge_attr: Tensor | None, edge_dim: int | None, num_edges: int) -> Tensor | None:
    if edge_dim is None:
        if edge_attr is not None:
            raise ValueError(
                f"edge_attr of shape {tuple(edge_attr.shape)} was given, but the layer takes no "
                "edge features: build it with edge_dim"
            )
        return None
    if edge_attr is None:
        raise ValueError(f"edge_attr is missing: the layer was built with edge_dim={edge_dim}")
    if edge_attr.dim() == 1:
        edge_attr = edge_attr.unsqueeze(1)
    if edge_attr.dim() != 2 or edge_attr.size(0) != num_edges:
        raise ValueError(
            f"edge_attr has shape {tuple(edge_attr.shape)}: expected one row for each of "
            f"{num_edges} edges"
        )
    if edge_dim != -1 and edge_attr.size(1) != edge_dim:
        raise ValueError(
            f"edge_attr has {edge_attr.size(1)} features: expected edge_dim={edge_dim}"
        )
    return edge_attr


def _checked_weight(edge_weight: Tensor | None, num_edges: int) -> Tensor | None:
    if edge_weight is not None and not isinstance(edge_weight, Tensor):
        raise TypeError(f"edge_weight is a {type(edge_weight).__name__}: expected a tensor")
    if edge_weight is not None and edge_weight.is_complex():
        raise ValueError(f"edge_weight has dtype {edge_weight.dtype}: expected real numbers")
    if edge_weight is not None and edge_weight.shape != (num_edges,):
        raise ValueError(
            f"edge_weight has shape {tuple(edge_weight.shape)}: expected one number for each edge, "
            f"({num_edges},); features of several numbers are edge_attr"
        )
    return edge_weight


def _may_repeat(edge_attr: Tensor) -> bool:
    return (
        edge_attr.device.type == "cpu"
        and not edge_attr.requires_grad
        and not torch.compiler.is_compiling()
        and is_plain(edge_attr)  # tangents and batches have no equal rows
    )
