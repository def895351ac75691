"""What kernels read of graphs in every form, checked graph by graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData
from torch_geometric.data.storage import BaseStorage

from pyg_kernels.kernels.arguments import Attributes, Column, checked_collection
from pyg_kernels.kernels.graphs import Graphs, LabeledData
from pyg_kernels.kernels.hashing import row_hashes, token_hash
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.networkx import data_of, is_networkx
from pyg_kernels.segments import place, pointers

GRAPHS_AT_A_TIME = 4096


@dataclass(eq=False, repr=False)
class GraphKernel(Kernel):
    """A kernel of graphs; what it reads of them are arguments named as those of `Attributes`."""

    _: KW_ONLY
    featurizer: Any = None

    def _attributes(self) -> Attributes:
        names = [field.name for field in fields(Attributes) if hasattr(self, field.name)]
        return Attributes(**{name: getattr(self, name) for name in names})


def read_graphs(
    graphs: Any, attributes: Attributes, dtype: torch.dtype | None, like: Graphs | None = None
) -> Graphs:
    """Reads graphs in any form that :class:`RandomWalkKernel` takes, in the form of `like`.

    Graphs that have been read stay what they are. The message of an error names the graph.
    """
    if isinstance(graphs, Graphs):
        return graphs
    joined = _joined(list(read_chunks(graphs, attributes)))
    if like is not None:
        joined = compared(joined, like, attributes)
        dtype = like.dtype if dtype is None else dtype
    return converted(joined, dtype)


def converted(graphs: Graphs, dtype: torch.dtype | None) -> Graphs:
    """Vectors in the type to compute in; None: their own, or float64 where all are labels."""
    known = [values for values in (graphs.x, graphs.edge_attr) if values is not None]
    if dtype is None:
        floating = [values.dtype for values in known if values.is_floating_point()]
        dtype = reduce(torch.promote_types, floating) if floating else torch.float64
    x, *edges = [values.long() if values.dim() == 1 else values.to(dtype) for values in known]
    return replace(graphs, x=x, edge_attr=edges[0] if edges else None, dtype=dtype)


def read_chunks(graphs: Any, attributes: Attributes) -> Iterator[Graphs]:
    """Reads a collection some thousand graphs at a time."""
    if isinstance(graphs, Graphs):
        yield graphs
        return
    columns = attributes.columns()
    having: dict[Column, tuple[int, Tensor]] = {}
    lacking: dict[Column, int] = {}
    is_empty = True
    for chunk in _chunks_of(graphs, attributes, columns):
        is_empty = False
        for column, values in zip(columns, chunk.values, strict=True):
            _check_values(column, values, chunk, having, lacking)
        yield _checked(chunk, columns)
    if is_empty:
        raise ValueError("expected at least one graph, got none")


def with_molecules_read(items: Any, featurizer: Any = None) -> Any:
    """Graphs in place of molecules; PyTorch Geometric's and networkx's stay what they are."""
    if callable(getattr(items, "batch", None)):  # a data set of graphs, read in batches
        return items
    return [with_molecule_read(items[i], i, featurizer) for i in range(len(items))]


def with_molecule_read(item: Any, i: int, featurizer: Any) -> Any:
    """A graph in place of the i-th item of a collection, if it is a molecule."""
    if isinstance(item, BaseData) or is_networkx(item):
        return item
    if not _is_molecule(item) and not callable(featurizer):
        return item
    from pyg_kernels.kernels.molecules import molecule_graph

    return molecule_graph(item, i, featurizer)


def _is_molecule(item: Any) -> bool:
    return isinstance(item, str) or type(item).__module__.startswith("rdkit")


@dataclass
class _Chunk:
    """Some consecutive graphs as they came: the number of the first, and each one's values."""

    first: int
    values: list[list[Tensor | None]]  # of every column
    edge_index: list[Tensor]
    num_nodes: list[int]
    num_edges: list[int]


def _chunks_of(graphs: Any, attributes: Attributes, columns: list[Column]) -> Iterator[_Chunk]:
    if isinstance(graphs, Batch):
        yield _of_batch(graphs, 0, columns)
        return
    graphs = graph_collection(graphs)
    whole = getattr(graphs, "batch", None)  # as MoleculeDataset.batch, without a loop
    for first in range(0, len(graphs), GRAPHS_AT_A_TIME):
        numbers = range(first, min(first + GRAPHS_AT_A_TIME, len(graphs)))
        if callable(whole):
            yield _of_batch(whole(numbers), first, columns)
        else:
            items = [with_molecule_read(graphs[i], i, attributes.featurizer) for i in numbers]
            yield _of_list(items, first, columns)


def graph_collection(graphs: Any) -> Any:
    """A collection of graphs that is read by position; a single graph or SMILES is one of one."""
    if isinstance(graphs, Batch):
        return graphs.to_data_list()
    if isinstance(graphs, BaseData) or is_networkx(graphs) or _is_molecule(graphs):
        return [graphs]
    return checked_collection(graphs, "graphs or SMILES, a Batch or a data set")


def _of_list(graphs: Sequence[Any], first: int, columns: list[Column]) -> _Chunk:
    chunk = _Chunk(first, [[] for _ in columns], [], [], [])
    for i, graph in enumerate(graphs, start=first):
        graph = data_of(graph, i, columns) if is_networkx(graph) else graph
        if not isinstance(graph, Data) or isinstance(graph, Batch):
            raise TypeError(
                f"graph {i} is a {type(graph).__name__}: expected a Data, a networkx graph, SMILES "
                "or an RDKit molecule"
            )
        store = graph.stores[0]
        edge_index = store.get("edge_index")
        if edge_index is None:
            hint = "make one from its adj_t" if "adj_t" in store else "without edges it is (2, 0)"
            raise ValueError(f"graph {i} has no edge_index; {hint}")
        num_nodes, num_edges = store.get("num_nodes"), _num_edges(edge_index, i)
        labeled = isinstance(graph, LabeledData)
        for column, values in zip(columns, chunk.values, strict=True):
            count = num_edges if column.of_edges else num_nodes
            values.append(_value(store, column, i, count, labeled))
            if not column.of_edges and values[-1] is not None and num_nodes is None:
                num_nodes = len(values[-1])
        chunk.num_nodes.append(int(graph.num_nodes or 0) if num_nodes is None else num_nodes)
        chunk.num_edges.append(num_edges)
        chunk.edge_index.append(edge_index)
        for value in (edge_index, *(values[-1] for values in chunk.values)):
            if value is not None and value.device != chunk.edge_index[0].device:
                raise ValueError(
                    f"graph {i} is on {value.device}, graph {first} on {chunk.edge_index[0].device}"
                )
    return chunk


def _of_batch(batch: Batch, first: int, columns: list[Column]) -> _Chunk:
    if not isinstance(batch, Data):
        raise TypeError("expected a batch of Data, not of HeteroData")
    if batch.edge_index is None:
        raise ValueError("the batch has no edge_index")
    ptr = batch.ptr if "ptr" in batch else None
    if ptr is None:
        if bool((batch.batch.diff() < 0).any()):
            raise ValueError("the batch has no ptr, and its nodes are not sorted by graph")
        ptr = pointers(torch.bincount(batch.batch, minlength=int(batch.num_graphs)))
    index = batch.edge_index
    num_edges = _num_edges(index, first)
    # Edges out of range get some graph here; _checked finds and names them.
    graph = torch.searchsorted(ptr[1:], index[0].contiguous(), right=True)
    graph = graph.clamp(max=max(len(ptr) - 2, 0))
    store, labeled = batch.stores[0], isinstance(batch, LabeledData)
    values = [
        _value(store, column, first, num_edges if column.of_edges else int(ptr[-1]), labeled)
        for column in columns
    ]
    if bool((graph.diff() < 0).any()):
        graph, order = graph.sort(stable=True)
        index = index.index_select(1, order)
        values = [
            value if value is None or not column.of_edges else value.index_select(0, order)
            for column, value in zip(columns, values, strict=True)
        ]
    local = index - ptr.index_select(0, graph)
    sizes = torch.bincount(graph, minlength=len(ptr) - 1).tolist()
    return _Chunk(first, [[value] for value in values], [local], ptr.diff().tolist(), sizes)


def _value(
    store: BaseStorage, column: Column, i: int, count: int | None, labeled: bool
) -> Tensor | None:
    """What a graph has as an attribute; None where it may lack it."""
    name, value = column.name, store.get(column.name)
    if value is None:
        if column.is_optional or count == 0:
            return None
        raise ValueError(
            f"graph {i} has no {name!r}: name another attribute, or {column.argument}=None"
        )
    if not isinstance(value, Tensor):
        words = _words(value)
        if words is None:
            raise TypeError(
                f"graph {i} has a {type(value).__name__} as {name!r}: expected a tensor, or a list "
                "or an array of strings"
            )
        hashes = [token_hash(word) for word in words]
        value = torch.tensor(hashes, dtype=torch.long, device=store["edge_index"].device)
    if value.dim() not in (1, 2):
        raise ValueError(
            f"graph {i} has {name!r} of shape {tuple(value.shape)}: expected one or two dimensions"
        )
    if count is not None and len(value) != count:
        raise ValueError(f"graph {i} has {len(value)} rows of {name!r} for {count}")
    if labeled and not column.is_label and not value.is_floating_point():
        return row_hashes(value)
    return value


def _words(value: Any) -> list[str] | None:
    """A list or an array of strings, or one of these a graph, as a batch has them; else None."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return None
    lists = [part if isinstance(part, (list, tuple, np.ndarray)) else [part] for part in value]
    words = [word for words in lists for word in words]
    return words if all(isinstance(word, str) for word in words) else None


def _num_edges(edge_index: Any, i: int) -> int:
    shape: Any = None
    kind = type(edge_index).__name__
    if isinstance(edge_index, Tensor):
        shape, strided = tuple(edge_index.shape), edge_index.layout == torch.strided
        kind = str(edge_index.dtype if strided else edge_index.layout)
    if kind not in ("torch.int64", "torch.int32") or len(shape) != 2 or shape[0] != 2:
        raise ValueError(
            f"graph {i} has an edge_index of shape {shape} and {kind}: expected (2, E) and int64"
        )
    return edge_index.size(1)


def _check_values(
    column: Column,
    values: Sequence[Tensor | None],
    chunk: _Chunk,
    having: dict[Column, tuple[int, Tensor]],
    lacking: dict[Column, int],
) -> None:
    """Raises where a chunk's values of an attribute do not go with those before."""
    counts = chunk.num_edges if column.of_edges else chunk.num_nodes
    counts = counts if len(values) == len(counts) else [sum(counts)]
    for i, (value, count) in enumerate(zip(values, counts, strict=True), start=chunk.first):
        if value is None and count:
            lacking.setdefault(column, i)
        elif value is not None and count:
            where, first = having.setdefault(column, (i, value))
            _check_alike(value, first, column.name, i, f"graph {where}", column.is_label)
        if column in having and column in lacking:
            raise ValueError(
                f"graph {lacking[column]} has no {column.name!r}, but graph {having[column][0]} has"
            )


def _check_alike(
    value: Tensor, other: Tensor, name: str, i: int, where: str, is_label: bool = False
) -> None:
    if value.shape[1:] != other.shape[1:]:
        raise ValueError(
            f"graph {i} has {name!r} with {_width(value)}, but {where} with {_width(other)}"
        )
    one_type = value.is_floating_point() == other.is_floating_point()
    if (is_label or value.dim() == 1) and not one_type:
        raise ValueError(
            f"graph {i} has {name!r} of {value.dtype}, but {where} of {other.dtype}: expected "
            "labels of one type, or vectors"
        )


def _width(value: Tensor) -> str:
    return f"{value.size(1)} features" if value.dim() == 2 else "one number each"


def _checked(chunk: _Chunk, columns: list[Column]) -> Graphs:
    """The graphs of a chunk, checked, with converted features."""
    ptr, edge_ptr = pointers(chunk.num_nodes), pointers(chunk.num_edges)
    index = torch.cat(chunk.edge_index, dim=1).long()  # a copy, also of a single one
    counts = torch.tensor(chunk.num_nodes, device=index.device)
    owner = torch.arange(len(counts), device=index.device).repeat_interleave(
        edge_ptr.diff().to(index.device), output_size=int(edge_ptr[-1])
    )
    outside = ((index < 0) | (index >= counts.index_select(0, owner))).any(dim=0)
    if bool(outside.any()):
        edge = int(outside.nonzero()[0])
        i = int(owner[edge])
        raise ValueError(
            f"graph {chunk.first + i} has an edge {index[:, edge].tolist()}, but "
            f"{chunk.num_nodes[i]} nodes"
        )
    index = index + ptr[:-1].to(index.device).index_select(0, owner)
    parts: tuple[list[Tensor], list[Tensor]] = [], []
    for column, values in zip(columns, chunk.values, strict=True):
        starts = edge_ptr if column.of_edges else ptr
        found = _joined_values(column, values, chunk.first, starts)
        if found is not None:
            parts[column.of_edges].append(found)
    (label, x), (edge_label, edge_attr) = map(_combined, parts)
    if x is None and label is None:
        label = row_hashes(torch.zeros(int(ptr[-1]), dtype=torch.long, device=index.device))
    x, label = (label, None) if x is None else (x, label)
    edge_attr, edge_label = (edge_label, None) if edge_attr is None else (edge_attr, edge_label)
    assert x is not None
    return Graphs(x, index, ptr, edge_ptr, torch.float64, edge_attr, label, edge_label)


def _joined_values(
    column: Column, values: Sequence[Tensor | None], first: int, ptr: Tensor
) -> Tensor | None:
    """An attribute of all nodes or edges of a chunk, finite: labels (N,), or vectors (N, F)."""
    name = column.name
    known = [value for value in values if value is not None]
    known = [value for value in known if len(value)] or known[:1]
    if not known:
        return None
    joined = torch.cat(known)
    if joined.is_floating_point() and not bool(joined.isfinite().all()):
        i, row = place(int((~joined.isfinite()).nonzero()[0, 0]), ptr.tolist())
        raise ValueError(f"graph {first + i} has NaN or infinite {name!r} in row {row}")
    if column.is_label:
        return row_hashes(joined)
    if joined.dim() == 1:
        return joined.unsqueeze(1) if joined.is_floating_point() else joined.long()
    for k, value in enumerate(values if joined.is_floating_point() else [joined]):
        if value is not None and not value.is_floating_point():
            _refuse_codes(value, ptr[k:], first + k, name)
    return joined


def _refuse_codes(values: Tensor, ptr: Tensor, first: int, name: str) -> None:
    """Raises where integers are codes: of these rows and pointers, graph `first` is the first."""
    codes = (values != 0) & (values != 1)
    if bool(codes.any()):
        i, _ = place(int(codes.nonzero()[0, 0]), (ptr - ptr[0]).tolist())
        raise ValueError(
            f"graph {first + i} has integers other than 0 and 1 in {name!r}, whose inner products "
            "mean nothing: make them one-hot, or name them as labels (node_label, edge_label)"
        )


def _combined(parts: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """The labels among some attributes as one, and the vectors side by side."""
    labels = [part for part in parts if part.dim() == 1]
    vectors = [part for part in parts if part.dim() == 2]
    label = row_hashes(torch.stack(labels, dim=1)) if len(labels) > 1 else next(iter(labels), None)
    return label, torch.cat(vectors, dim=1) if vectors else None


def _joined(found: list[Graphs]) -> Graphs:
    if len(found) == 1:
        return found[0]
    shifts = pointers([graphs.num_nodes for graphs in found]).tolist()[:-1]

    def together(name: str) -> Any:
        values = [getattr(graphs, name) for graphs in found]
        values = [value for value in values if value is not None]
        return torch.cat(values) if values else None

    return Graphs(
        together("x"),
        torch.cat([g.edge_index + shift for g, shift in zip(found, shifts, strict=True)], dim=1),
        pointers(torch.cat([graphs.ptr.diff() for graphs in found])),
        pointers(torch.cat([graphs.edge_ptr.diff() for graphs in found])),
        found[0].dtype,
        *map(together, ("edge_attr", "node_label", "edge_label")),
    )


def compared(graphs: Graphs, like: Graphs, attributes: Attributes) -> Graphs:
    """Graphs in the form of those to compare them with; a ``ValueError`` where they have another.

    Collections without nodes or edges have no features that could differ.
    """
    if graphs.device != like.device:
        raise ValueError(
            f"the graphs are on {graphs.device}, those to compare with on {like.device}"
        )
    where = "the graphs to compare with"
    if not graphs.num_nodes:
        graphs = replace(graphs, x=like.x[:0], node_label=_none_of(like.node_label))
    elif like.num_nodes or not len(like):
        nodes = str(attributes.node_feature or attributes.node_label)
        _check_alike(graphs.x, like.x, nodes, 0, where)
    if not graphs.num_edges:
        edges = _none_of(like.edge_attr), _none_of(like.edge_label)
        return replace(graphs, edge_attr=edges[0], edge_label=edges[1])
    if like.num_edges or not len(like):
        name = str(attributes.edge_feature or attributes.edge_label)
        if (graphs.edge_attr is None) != (like.edge_attr is None):
            verb = ("has no", "have") if graphs.edge_attr is None else ("has", "have no")
            raise ValueError(f"graph 0 {verb[0]} {name!r}, but {where} {verb[1]} such")
        if graphs.edge_attr is not None and like.edge_attr is not None:
            _check_alike(graphs.edge_attr, like.edge_attr, name, 0, where)
    return graphs


def _none_of(values: Tensor | None) -> Tensor | None:
    return values if values is None else values[:0]
