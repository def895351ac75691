"""What kernels read of PyTorch Geometric's data, checked graph by graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData
from torch_geometric.data.storage import BaseStorage

from pyg_kernels.kernels.arguments import checked_collection
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import row_hashes, token_hash

GRAPHS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Attributes:
    """What is read of a graph.

    Args:
        node: The attribute of node features; None: nodes are all alike.
        edge: The attribute of edge features; None: none are read.
        edge_is_optional: Whether graphs may all lack it.
        are_labels: Whether each distinct row is a label: then hashes are read, (N,) and (E,).
            Else integers in two dimensions must be 0 or 1.
    """

    node: str | None
    edge: str | None = None
    edge_is_optional: bool = False
    are_labels: bool = False


def read_graphs(
    graphs: Any, attributes: Attributes, dtype: torch.dtype | None, like: Graphs | None = None
) -> Graphs:
    """Reads a collection of graphs.

    Args:
        graphs: ``Graphs``, which are returned; a ``Batch``, a ``Data`` (a single graph), a list or
            a data set of ``Data``.
        attributes: What to read.
        dtype: As of :class:`~pyg_kernels.kernels.blocks.BlockKernel`.
        like: A collection with which this one will be compared.

    Raises:
        TypeError: If they are no graphs.
        ValueError: If there are none, a graph lacks an attribute or is broken, or they do not go
            together; the message names the graph.
    """
    if isinstance(graphs, Graphs):
        return graphs
    joined = _joined(list(read_chunks(graphs, attributes)))
    if like is not None:
        compare(joined, like, attributes)
    if dtype is None:
        dtype = like.dtype if like is not None else _common_dtype(joined)
    return replace(
        joined,
        x=_as(joined.x, dtype),
        edge_attr=None if joined.edge_attr is None else _as(joined.edge_attr, dtype),
        dtype=dtype,
    )


def read_chunks(graphs: Any, attributes: Attributes) -> Iterator[Graphs]:
    """Reads a collection some thousand graphs at a time; errors as of :func:`read_graphs`."""
    if isinstance(graphs, Graphs):
        yield graphs
        return
    before: _Chunk | None = None
    for chunk in _chunks_of(graphs, attributes):
        before = before or chunk
        for name, values, others in (
            (attributes.node, chunk.x, before.x),
            (attributes.edge, chunk.edge_attr, before.edge_attr),
        ):
            if bool(values) != bool(others):
                lacking = before.first if values else chunk.first
                raise ValueError(f"graph {lacking} has no {name!r}, but others have")
            if values:
                _same_features(values[0], others[0], str(name), chunk.first, "graph 0")
        yield _checked(chunk, attributes)
    if before is None:
        raise ValueError("expected at least one graph, got none")


@dataclass
class _Chunk:
    """Some consecutive graphs as they came: the number of the first, and each one's values."""

    first: int
    x: list[Tensor]
    edge_index: list[Tensor]
    edge_attr: list[Tensor]
    num_nodes: list[int]
    num_edges: list[int]


def _chunks_of(graphs: Any, attributes: Attributes) -> Iterator[_Chunk]:
    if isinstance(graphs, Batch):
        yield _of_batch(graphs, 0, attributes)
        return
    if isinstance(graphs, BaseData):
        graphs = [graphs]
    graphs = checked_collection(graphs, "Data, a Batch or a data set")
    graphs = with_molecules_read(graphs)
    whole = getattr(graphs, "batch", None)  # as MoleculeDataset.batch, without a loop
    for first in range(0, len(graphs), GRAPHS_AT_A_TIME):
        numbers = range(first, min(first + GRAPHS_AT_A_TIME, len(graphs)))
        if callable(whole):
            yield _of_batch(whole(numbers), first, attributes)
        else:
            yield _of_list([graphs[i] for i in numbers], first, attributes)


def with_molecules_read(items: Any) -> Any:
    """Graphs in place of SMILES or molecules of RDKit; other items as they are."""
    first = items[0] if len(items) else None
    if isinstance(first, str) or type(first).__module__.startswith("rdkit"):
        from pyg_kernels.kernels.molecules import molecule_graphs

        return molecule_graphs(items)
    return items


def _of_list(graphs: Sequence[Any], first: int, attributes: Attributes) -> _Chunk:
    chunk = _Chunk(first, [], [], [], [], [])
    for i, graph in enumerate(graphs, start=first):
        if not isinstance(graph, Data) or isinstance(graph, Batch):
            raise TypeError(f"graph {i} is a {type(graph).__name__}: expected a Data")
        store = graph.stores[0]
        edge_index = store.get("edge_index")
        if edge_index is None:
            hint = "make one from its adj_t" if "adj_t" in store else "without edges it is (2, 0)"
            raise ValueError(f"graph {i} has no edge_index; {hint}")
        x = None if attributes.node is None else _attribute(store, attributes.node, i)
        edge_attr = _edge_attribute(store, attributes, i)
        num_nodes = graph.num_nodes if x is None else x.size(0)
        if store.get("num_nodes", num_nodes) != num_nodes:
            raise ValueError(
                f"graph {i} has {num_nodes} rows of {attributes.node!r}, but "
                f"{store['num_nodes']} nodes"
            )
        chunk.num_nodes.append(int(num_nodes or 0))
        chunk.num_edges.append(_num_edges(edge_index, i))
        chunk.edge_index.append(edge_index)
        if x is not None:
            chunk.x.append(x)
        if edge_attr is not None:
            chunk.edge_attr.append(edge_attr)
        elif chunk.edge_attr:
            raise ValueError(f"graph {i} has no {attributes.edge!r}, but graphs before it have")
        if edge_attr is not None and len(chunk.edge_attr) <= i - first:
            raise ValueError(f"graph {i} has {attributes.edge!r}, but graphs before it have none")
    return chunk


def _of_batch(batch: Batch, first: int, attributes: Attributes) -> _Chunk:
    if not isinstance(batch, Data):
        raise TypeError("expected a batch of Data, not of HeteroData")
    if batch.edge_index is None:
        raise ValueError("the batch has no edge_index")
    ptr = batch.ptr if "ptr" in batch else None
    if ptr is None:
        if bool((batch.batch.diff() < 0).any()):
            raise ValueError("the batch has no ptr, and its nodes are not sorted by graph")
        counts = torch.bincount(batch.batch, minlength=int(batch.num_graphs))
        ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    index = batch.edge_index
    _num_edges(index, first)
    graph = torch.searchsorted(ptr[1:], index[0].contiguous(), right=True)
    # Edges out of range get some graph here; _checked finds and names them.
    graph = graph.clamp(max=max(len(ptr) - 2, 0))
    store = batch.stores[0]
    x = None if attributes.node is None else _attribute(store, attributes.node, first)
    edge_attr = _edge_attribute(store, attributes, first)
    if bool((graph.diff() < 0).any()):
        graph, order = graph.sort(stable=True)
        index = index.index_select(1, order)
        edge_attr = None if edge_attr is None else edge_attr.index_select(0, order)
    local = index - ptr.index_select(0, graph)
    num_graphs = len(ptr) - 1
    return _Chunk(
        first,
        [] if x is None else [x],
        [local],
        [] if edge_attr is None else [edge_attr],
        ptr.diff().tolist(),
        torch.bincount(graph, minlength=num_graphs).tolist(),
    )


def _attribute(store: BaseStorage, name: str, i: int) -> Tensor:
    value = store.get(name)
    if value is None:
        raise ValueError(f"graph {i} has no {name!r}")
    if not isinstance(value, Tensor):
        words = _words(value)
        if words is None:
            raise TypeError(
                f"graph {i} has a {type(value).__name__} as {name!r}: expected a tensor, or a list "
                "or an array of strings"
            )
        return torch.tensor([token_hash(word) for word in words], device=store["edge_index"].device)
    if value.dim() not in (1, 2):
        raise ValueError(
            f"graph {i} has {name!r} of shape {tuple(value.shape)}: expected one or two dimensions"
        )
    return value


def _words(value: Any) -> list[str] | None:
    """A list or an array of strings, or one of these a graph, as a batch has them; else None."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return None
    words: list[Any] = []
    for part in value:
        words.extend(part if isinstance(part, (list, tuple, np.ndarray)) else [part])
    return words if words and all(isinstance(word, str) for word in words) else None


def _edge_attribute(store: BaseStorage, attributes: Attributes, i: int) -> Tensor | None:
    name = attributes.edge
    if name is None or (attributes.edge_is_optional and store.get(name) is None):
        return None
    return _attribute(store, name, i)


def _num_edges(edge_index: Any, i: int) -> int:
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.layout != torch.strided
        or edge_index.dim() != 2
        or edge_index.size(0) != 2
        or edge_index.dtype not in (torch.long, torch.int)
    ):
        shape = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else None
        kind = edge_index.dtype if isinstance(edge_index, Tensor) else type(edge_index).__name__
        kind = edge_index.layout if getattr(edge_index, "is_sparse", False) else kind
        raise ValueError(
            f"graph {i} has an edge_index of shape {shape} and {kind}: expected (2, E) and int64"
        )
    return edge_index.size(1)


def _checked(chunk: _Chunk, attributes: Attributes) -> Graphs:
    """The graphs of a chunk, checked, with converted features."""
    ptr, edge_ptr = _pointers(chunk.num_nodes), _pointers(chunk.num_edges)
    index = _cat(chunk.edge_index, chunk, "edge_index", dim=1).long()
    counts = torch.tensor(chunk.num_nodes, device=index.device)
    owner = torch.arange(len(counts), device=index.device).repeat_interleave(
        edge_ptr.diff().to(index.device), output_size=int(edge_ptr[-1])
    )
    inside = (index >= 0) & (index < counts.index_select(0, owner))
    if not bool(inside.all()):
        edge = int((~inside).any(dim=0).nonzero()[0])
        i = int(owner[edge])
        raise ValueError(
            f"graph {chunk.first + i} has an edge {index[:, edge].tolist()}, but "
            f"{chunk.num_nodes[i]} nodes"
        )
    index = index + ptr[:-1].to(index.device).index_select(0, owner)
    if attributes.node is None:
        alike = torch.zeros(int(ptr[-1]), dtype=torch.long, device=index.device)
        x = row_hashes(alike) if attributes.are_labels else alike
    else:
        x = _features(chunk.x, chunk, ptr, attributes.node, attributes)
        if x.dim() == 1 and x.is_floating_point():
            at_fault = [value.is_floating_point() for value in chunk.x].index(True)
            raise ValueError(
                f"graph {chunk.first + at_fault} has one floating number a node as "
                f"{attributes.node!r}: "
                "expected vectors (N, F) or integers (N,) as labels"
            )
    edge_attr = None
    if attributes.edge is not None and chunk.edge_attr:
        edge_attr = _features(chunk.edge_attr, chunk, edge_ptr, attributes.edge, attributes)
        if edge_attr.dim() == 1 and edge_attr.is_floating_point():
            edge_attr = edge_attr.unsqueeze(1)
    return Graphs(x, index, ptr, edge_ptr, torch.float64, edge_attr)


def _features(
    values: list[Tensor], chunk: _Chunk, ptr: Tensor, name: str, attributes: Attributes
) -> Tensor:
    """The features of all nodes or edges of a chunk, finite and one row each."""
    if len(values) > 1:
        counts = ptr.diff().tolist()
        for i, (value, count) in enumerate(zip(values, counts, strict=True), start=chunk.first):
            if len(value) != count:
                raise ValueError(f"graph {i} has {len(value)} rows of {name!r} for {count}")
    joined = _cat(values, chunk, name, dim=0, are_labels=attributes.are_labels)
    if len(joined) != int(ptr[-1]):
        i = chunk.first
        raise ValueError(f"graph {i}: {len(joined)} rows of {name!r} for {int(ptr[-1])}")
    if joined.is_floating_point() and not bool(joined.isfinite().all()):
        bad = ~joined.isfinite()
        row = int((bad.any(dim=1) if bad.dim() == 2 else bad).nonzero()[0])
        i = int(torch.searchsorted(ptr, row, right=True)) - 1
        raise ValueError(
            f"graph {chunk.first + i} has NaN or infinite {name!r} in row {row - int(ptr[i])}"
        )
    if attributes.are_labels:
        return row_hashes(joined)
    if joined.dim() == 2:
        for k, value in enumerate([joined] if not joined.is_floating_point() else values):
            _refuse_codes(value, ptr[k:], chunk.first + k, name)
    return joined


def _refuse_codes(values: Tensor, ptr: Tensor, first: int, name: str) -> None:
    """Raises where integers are codes: of these rows and pointers, graph `first` is the first."""
    if values.is_floating_point():
        return
    codes = ((values != 0) & (values != 1)).any(dim=1)
    if bool(codes.any()):
        row = int(codes.nonzero()[0])
        i = int(torch.searchsorted(ptr - ptr[0], row, right=True)) - 1
        raise ValueError(
            f"graph {first + i} has integers other than 0 and 1 in {name!r}, whose inner products "
            "mean nothing: make them one-hot, or labels of one dimension"
        )


def _cat(
    values: list[Tensor], chunk: _Chunk, name: str, dim: int, are_labels: bool = False
) -> Tensor:
    first = values[0]
    for i, value in enumerate(values, start=chunk.first):
        if are_labels and value.is_floating_point() != first.is_floating_point():
            raise ValueError(
                f"graph {i} has {name!r} of {value.dtype}, graph {chunk.first} of {first.dtype}: "
                "expected labels of one type"
            )
        if value.device != first.device:
            raise ValueError(
                f"graph {i} is on {value.device}, graph {chunk.first} on {first.device}"
            )
        if dim == 0:
            _same_features(value, first, name, i, f"graph {chunk.first}")
    return torch.cat(values, dim=dim)  # a copy, also of a single one


def _same_features(value: Tensor, other: Tensor, name: str, i: int, where: str) -> None:
    if value.shape[1:] != other.shape[1:]:
        raise ValueError(
            f"graph {i} has {name!r} with {_width(value)}, but {where} with {_width(other)}"
        )


def _width(value: Tensor) -> str:
    return f"{value.size(1)} features" if value.dim() == 2 else "one number each"


def _joined(found: list[Graphs]) -> Graphs:
    if len(found) == 1:
        return found[0]
    shifts = [0]
    for graphs in found:
        shifts.append(shifts[-1] + graphs.num_nodes)
    edges = [graphs.edge_attr for graphs in found if graphs.edge_attr is not None]
    return Graphs(
        torch.cat([graphs.x for graphs in found]),
        torch.cat([g.edge_index + shift for g, shift in zip(found, shifts, strict=False)], dim=1),
        _pointers([count for graphs in found for count in graphs.ptr.diff().tolist()]),
        _pointers([count for graphs in found for count in graphs.edge_ptr.diff().tolist()]),
        found[0].dtype,
        torch.cat(edges) if edges else None,
    )


def compare(graphs: Graphs, like: Graphs, attributes: Attributes) -> None:
    """Raises a ``ValueError`` where graphs have not the form of those to compare them with."""
    if graphs.device != like.device:
        raise ValueError(
            f"the graphs are on {graphs.device}, those to compare with on {like.device}"
        )
    where = "the graphs to compare with"
    _same_features(graphs.x, like.x, str(attributes.node), 0, where)
    if (graphs.edge_attr is None) != (like.edge_attr is None):
        verb = ("has no", "have") if graphs.edge_attr is None else ("has", "have no")
        raise ValueError(f"graph 0 {verb[0]} {attributes.edge!r}, but {where} {verb[1]} such")
    if graphs.edge_attr is not None and like.edge_attr is not None:
        _same_features(graphs.edge_attr, like.edge_attr, str(attributes.edge), 0, where)


def _common_dtype(graphs: Graphs) -> torch.dtype:
    """The type of continuous features; float64 where all are labels."""
    kinds = [t.dtype for t in (graphs.x, graphs.edge_attr) if t is not None]
    floating = [kind for kind in kinds if kind.is_floating_point]
    if not floating:
        return torch.float64
    return floating[0] if len(floating) == 1 else torch.promote_types(*floating)


def _as(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Labels as int64, vectors in the type to compute in."""
    return values.long() if values.dim() == 1 else values.to(dtype)


def _pointers(counts: Sequence[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0)
