"""Reads what kernels need from graphs in any accepted form, and checks every graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData
from torch_geometric.data.storage import BaseStorage

from pyg_kernels.kernels.arguments import Names, checked_collection, checked_names
from pyg_kernels.kernels.graphs import Column, Form, Graphs, LabeledData
from pyg_kernels.kernels.hashing import row_hashes, token_hash
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.segments import place, pointers

GRAPHS_AT_A_TIME = 4096
_OF_NODES = ("x", "pos", "batch", "n_id", "feat", "node_type")  # from which PyG counts nodes


@dataclass(frozen=True)
class Attributes:
    """What is read from a graph, named by the arguments of kernels (:class:`RandomWalkKernel`)."""

    node_label: Names = None
    node_feature: Names = None
    edge_label: Names = None
    edge_feature: Names = None
    edge_is_optional: bool = False  # whether graphs may all lack the features of edges
    featurizer: Any = None
    counted: tuple[str, ...] = ()  # attributes of nodes that another reader of these graphs reads

    def columns(self) -> list[Column]:
        """The attributes that are read, one by one."""
        return [
            Column(name, argument, self.edge_is_optional and argument == "edge_feature")
            for argument in ("node_label", "node_feature", "edge_label", "edge_feature")
            for name in checked_names(getattr(self, argument), argument)
        ]


@dataclass(eq=False, repr=False)
class GraphKernel(Kernel):
    """A kernel on graphs; its arguments with names of `Attributes` say what it reads from them."""

    _: KW_ONLY
    featurizer: Any = None

    def _attributes(self) -> Attributes:
        names = [field.name for field in fields(Attributes) if hasattr(self, field.name)]
        return Attributes(**{name: getattr(self, name) for name in names})


def read_graphs(
    graphs: Any, attributes: Attributes, dtype: torch.dtype | None, like: Graphs | None = None
) -> Graphs:
    """Reads graphs in any form that :class:`RandomWalkKernel` takes; they must match `like`.

    Graphs that have already been read are returned unchanged. Error messages name the graph.
    """
    if isinstance(graphs, Graphs):
        return graphs
    (found,) = read_chunks(graphs, attributes, like, sys.maxsize)
    if like is not None and found.device != like.device:
        raise ValueError(
            f"the graphs are on {found.device}, those to compare with on {like.device}"
        )
    return converted(found, like.dtype if dtype is None and like is not None else dtype)


def converted(graphs: Graphs, dtype: torch.dtype | None) -> Graphs:
    """Converts vectors to `dtype`; None: to their own type, or float64 where all are labels."""
    known = [values for values in (graphs.x, graphs.edge_attr) if values is not None]
    if dtype is None:
        floating = [values.dtype for values in known if values.is_floating_point()]
        dtype = reduce(torch.promote_types, floating) if floating else torch.float64
    x, *edges = [values.long() if values.dim() == 1 else values.to(dtype) for values in known]
    return replace(graphs, x=x, edge_attr=edges[0] if edges else None, dtype=dtype)


def read_chunks(
    graphs: Any, attributes: Attributes, like: Graphs | None = None, most: int | None = None
) -> Iterator[Graphs]:
    """Reads a collection at most `most` graphs at a time (None: `GRAPHS_AT_A_TIME`)."""
    most = GRAPHS_AT_A_TIME if most is None else most
    if isinstance(graphs, Graphs):
        yield from _split(graphs, most)
        return
    columns, form = attributes.columns(), Form()
    if like is not None:  # labels of every form can be compared
        known = ((c, value) for c, (_, value) in like.form.items() if not c.is_label)
        form = {column: ("the graphs to compare with", value) for column, value in known}
    if isinstance(graphs, Batch):
        yield from _split(_checked(_of_batch(graphs, 0, columns), columns, form), most)
        return
    graphs = graph_collection(graphs)
    if not len(graphs):
        raise ValueError("expected at least one graph, got none")
    made_by = attributes.featurizer
    for first in range(0, len(graphs), most):
        numbers = range(first, min(first + most, len(graphs)))
        if _is_read_in_batches(graphs):
            chunk = _of_batch(graphs.batch(numbers), first, columns)
        else:
            items = (with_molecule_read(graphs[i], i, made_by, columns) for i in numbers)
            chunk = _of_list(items, first, columns, attributes.counted)
        yield _checked(chunk, columns, form)


def _split(graphs: Graphs, most: int) -> Iterator[Graphs]:
    for items in torch.arange(len(graphs)).split(most):
        yield graphs if len(items) == len(graphs) else graphs.part(items)


def with_molecules_read(items: Any, featurizer: Any = None) -> Any:
    """A collection with graphs in place of molecules; all other items stay what they are."""
    items = graph_collection(items)
    if _is_read_in_batches(items):
        return items
    return [with_molecule_read(items[i], i, featurizer) for i in range(len(items))]


def with_molecule_read(
    item: Any, i: int, featurizer: Any, columns: Sequence[Column] | None = None
) -> Any:
    """A graph in place of the i-th item of a collection, if it is a molecule.

    If the columns to read are given, networkx graphs are replaced, too.
    """
    if is_networkx(item):
        return item if columns is None else _of_networkx(item, i, columns)
    if isinstance(item, BaseData) or (not _is_molecule(item) and not callable(featurizer)):
        return item
    from pyg_kernels.kernels.molecules import molecule_graph

    return molecule_graph(item, i, featurizer)


def _is_read_in_batches(items: Any) -> bool:
    """Whether a data set gives its graphs without a loop, as ``MoleculeDataset`` does."""
    return callable(getattr(items, "batch", None))


def _is_molecule(item: Any) -> bool:
    return isinstance(item, str) or type(item).__module__.startswith("rdkit")


def is_networkx(item: Any) -> bool:
    """Whether an item is a graph of networkx, which is not imported for this."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(item, networkx.Graph)


def _of_networkx(graph: Any, i: int, columns: Sequence[Column]) -> Data:
    """A graph with the attributes that are read; each undirected edge leads both ways."""
    number = {node: k for k, node in enumerate(graph)}
    edges = list(graph.edges(data=True))
    if not graph.is_directed():
        edges += [(v, u, values) for u, v, values in edges if u != v]
    ends = [(number[u], number[v]) for u, v, _ in edges]
    data = Data(edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous())
    data.num_nodes = len(number)
    for column in columns:
        name, places = column.name, edges if column.of_edges else list(graph.nodes(data=True))
        if name in ("edge_index", "num_nodes"):
            raise ValueError(
                f"graph {i}: {column.argument} is {name!r}, which PyG keeps for itself"
            )
        if any(other.name == name and other.of_edges != column.of_edges for other in columns):
            raise ValueError(
                f"graph {i}: {name!r} is read of nodes and of edges: give one of them another name"
            )
        values: Any = [place[-1].get(name) for place in places]
        lacking = [k for k, value in enumerate(values) if value is None]
        if len(lacking) == len(values):
            continue
        if lacking:
            where = places[lacking[0]][:-1]
            what = f"edge {where}" if column.of_edges else f"node {where[0]!r}"
            raise ValueError(f"graph {i} has no {name!r} at {what}")
        if not all(isinstance(value, str) for value in values):
            try:
                values = torch.as_tensor(np.array([np.asarray(value) for value in values]))
            except (TypeError, ValueError):
                kinds = ", ".join(sorted({type(value).__name__ for value in values}))
                raise ValueError(
                    f"graph {i} has {name!r} of type {kinds}: expected strings, numbers, or "
                    "vectors of one size"
                ) from None
        data[name] = values
    return data


@dataclass
class _Chunk:
    """Some consecutive graphs as they were given: the index of the first, the values of each."""

    first: int
    values: list[list[Tensor | None]]  # of every column
    edge_index: list[Tensor]
    num_nodes: list[int]
    num_edges: list[int]


def graph_collection(graphs: Any) -> Any:
    """A collection of graphs that is read by position; one graph or molecule becomes a list."""
    if isinstance(graphs, Batch):
        return graphs.to_data_list()
    if isinstance(graphs, BaseData) or is_networkx(graphs) or _is_molecule(graphs):
        return [graphs]
    return checked_collection(graphs, "graphs or SMILES, a Batch or a data set")


def _of_list(
    graphs: Iterable[Any], first: int, columns: list[Column], counted: Sequence[str]
) -> _Chunk:
    chunk = _Chunk(first, [[] for _ in columns], [], [], [])
    for i, graph in enumerate(graphs, start=first):
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
        num_nodes, num_edges = _num_nodes(store, counted), _num_edges(edge_index, i)
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
        _value(store, column, first, num_edges if column.of_edges else int(ptr[-1]), labeled, True)
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
    store: BaseStorage,
    column: Column,
    i: int,
    count: int | None,
    labeled: bool,
    in_batch: bool = False,
) -> Tensor | None:
    """The attribute of a graph; None if it has none and is allowed to."""
    name, value = column.name, store.get(column.name)
    if value is None:
        if column.is_optional or count == 0:
            return None
        raise ValueError(
            f"graph {i} has no {name!r}: name another attribute, or {column.argument}=None"
        )
    if not isinstance(value, Tensor):
        words = _words(value, in_batch)
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


def _words(value: Any, in_batch: bool) -> list[str] | None:
    """The strings of a list or an array (in a batch, of one such per graph); otherwise None."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return None
    lists = [
        part if in_batch and isinstance(part, (list, tuple, np.ndarray)) else [part]
        for part in value
    ]
    words = [word for words in lists for word in words]
    return words if all(isinstance(word, str) for word in words) else None


def _num_nodes(store: BaseStorage, counted: Sequence[str]) -> int | None:
    """The number of nodes, from the attributes of nodes; None where only edges would tell it."""
    number: int | None = store.get("num_nodes")
    for name in (*_OF_NODES, *counted) if number is None else ():
        value = store.get(name)
        words = name in counted and isinstance(value, list | tuple)
        if words or (isinstance(value, Tensor | np.ndarray) and value.ndim):
            return len(value)
    return number


def _num_edges(edge_index: Any, i: int) -> int:
    shape, dtype = tuple(getattr(edge_index, "shape", ())), getattr(edge_index, "dtype", None)
    layout = getattr(edge_index, "layout", type(edge_index))
    known = layout == torch.strided and dtype in (torch.int64, torch.int32)
    if not known or len(shape) != 2 or shape[0] != 2:
        raise ValueError(
            f"graph {i} has an edge_index of shape {shape}, {dtype} and {layout}: expected (2, E), "
            "int64"
        )
    return int(shape[1])


def _checked(chunk: _Chunk, columns: list[Column], form: Form) -> Graphs:
    """The graphs of a chunk, joined and checked; their form must be that of the graphs before."""
    ptr, edge_ptr = pointers(chunk.num_nodes), pointers(chunk.num_edges)
    index = torch.cat(chunk.edge_index, dim=1).long()  # a copy, also of a single one
    counts = torch.tensor(chunk.num_nodes, device=index.device)
    edges = torch.tensor(chunk.num_edges, device=index.device)
    owner = torch.repeat_interleave(edges, output_size=int(edge_ptr[-1]))
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
        counted = chunk.num_edges if column.of_edges else chunk.num_nodes
        found = _joined_values(column, values, chunk.first, counted, form)
        if found is not None:
            parts[column.of_edges].append(found)
    (x, label), (edge_attr, edge_label) = map(_combined, parts)
    if x is None:
        x = row_hashes(torch.zeros(int(ptr[-1]), dtype=torch.long, device=index.device))
    return Graphs(x, index, ptr, edge_ptr, torch.float64, edge_attr, label, edge_label, form)


def _joined_values(
    column: Column, values: Sequence[Tensor | None], first: int, counts: Sequence[int], form: Form
) -> Tensor | None:
    """An attribute of all nodes or edges of a chunk: labels (N,), or finite vectors (N, F)."""
    name = column.name
    of_values = counts if len(values) == len(counts) else [sum(counts)]
    for i, (value, count) in enumerate(zip(values, of_values, strict=True), start=first):
        if count:
            _check_alike(column, value, i, form)
    known = [value for value in values if value is not None]
    known = [value for value in known if len(value)] or known[:1]
    if not known:
        return None
    joined, starts = torch.cat(known), pointers(counts).tolist()
    if joined.is_complex():
        raise ValueError(f"{name!r} of the graphs has complex numbers: expected real ones")
    if joined.is_floating_point() and not bool(joined.isfinite().all()):
        i, row = place(int((~joined.isfinite()).nonzero()[0, 0]), starts)
        raise ValueError(f"graph {first + i} has NaN or infinite {name!r} in row {row}")
    if column.is_label:
        return row_hashes(joined)
    if joined.dim() == 1:
        return joined.unsqueeze(1) if joined.is_floating_point() else joined.long()
    if not all(value.is_floating_point() for value in known):
        sizes, integer = zip(*((len(v), not v.is_floating_point()) for v in known), strict=True)
        codes = ((joined != 0) & (joined != 1) | (joined.size(1) == 1)).any(1).cpu()
        codes &= torch.tensor(integer).repeat_interleave(torch.tensor(sizes))
        if bool(codes.any()):
            i, _ = place(int(codes.nonzero()[0]), starts)
            raise ValueError(
                f"graph {first + i} has one column of integers or others than 0 and 1 in {name!r}, "
                "whose inner products mean nothing: name them as labels (node_label, edge_label), "
                "make them one-hot, or floating numbers where they are numbers"
            )
    return joined


def _check_alike(column: Column, value: Tensor | None, i: int, form: Form) -> None:
    """Raises an error if a graph's values do not match those of the graphs before."""
    if column not in form:
        form[column] = f"graph {i}", None if value is None else value.detach()[:0].clone()
    where, other = form[column]
    name, has = f"graph {i} has {column.name!r}", "have" if "graphs" in where else "has"
    if value is None or other is None:
        if value is not other:
            here, there = ("has no", has) if value is None else ("has", f"{has} not")
            raise ValueError(f"graph {i} {here} {column.name!r}, but {where} {there}")
        return
    if value.shape[1:] != other.shape[1:]:
        raise ValueError(f"{name} with {_width(value)}, but {where} with {_width(other)}")
    one_type = value.is_floating_point() == other.is_floating_point()
    if (column.is_label or value.dim() == 1) and not one_type:
        raise ValueError(
            f"{name} of {value.dtype}, but {where} of {other.dtype}: expected labels of one type, "
            "or vectors"
        )


def _width(value: Tensor) -> str:
    return f"{value.size(1)} features" if value.dim() == 2 else "one number each"


def _combined(parts: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Concatenated vectors, and all labels as one; without vectors, these labels and None."""
    labels = [part for part in parts if part.dim() == 1]
    vectors = [part for part in parts if part.dim() == 2]
    label = row_hashes(torch.stack(labels, dim=1)) if len(labels) > 1 else next(iter(labels), None)
    return (torch.cat(vectors, dim=1), label) if vectors else (label, None)
