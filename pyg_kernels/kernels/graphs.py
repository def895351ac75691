"""Collections of graphs, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.segments import segments


class LabeledData(Data):
    """A graph whose integer attributes are labels, even those of two dimensions."""


@dataclass(frozen=True)
class Column:
    """An attribute of nodes or edges that is read."""

    name: str
    argument: str  # the argument that names it
    is_optional: bool = False

    @property
    def of_edges(self) -> bool:
        return self.argument.startswith("edge")

    @property
    def is_label(self) -> bool:
        return self.argument.endswith("label")


#: For each attribute, the first graph that has items of it, and its values there without rows.
Form = dict[Column, tuple[str, Tensor | None]]


@dataclass(frozen=True)
class Graphs:
    """Graphs one after the other."""

    x: Tensor  # features of nodes, (N, F), or labels that match exactly, int64 of shape (N,)
    edge_index: Tensor  # from row 0 to row 1, numbered through all graphs, (2, E)
    ptr: Tensor  # where the nodes of each graph begin, and the end, (n + 1,), on the CPU
    edge_ptr: Tensor  # the same for edges
    dtype: torch.dtype  # in which kernels are computed
    edge_attr: Tensor | None = None  # features of edges, (E, D), or labels, (E,)
    node_label: Tensor | None = None  # labels of nodes beside their features, (N,)
    edge_label: Tensor | None = None  # the same for edges
    form: Form = field(default_factory=dict)  # the form of collections to compare with

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def requires_grad(self) -> bool:
        return any(v is not None and v.requires_grad for v in (self.x, self.edge_attr))

    @property
    def has_labels(self) -> bool:
        """Whether nodes or edges have labels that match exactly."""
        given = self.x, self.edge_attr, self.node_label, self.edge_label
        return any(values is not None and values.dim() == 1 for values in given)

    @property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @property
    def sizes(self) -> Tensor:
        """The rows of a graph: its nodes, or, if more, its edges where they have features."""
        nodes = self.ptr.diff()
        return nodes if self.edge_attr is None else torch.maximum(nodes, self.edge_ptr.diff())

    def owner(self) -> Tensor:
        """The graph of each node, (N,)."""
        sizes = self.ptr.diff().to(self.device)
        return torch.repeat_interleave(sizes, output_size=self.num_nodes)

    def part(self, items: Tensor) -> Graphs:
        nodes, _, ptr = segments(self.ptr, items)
        edges, owner, edge_ptr = segments(self.edge_ptr, items)
        shift = ptr[:-1] - self.ptr.index_select(0, items)
        nodes, edges = nodes.to(self.device), edges.to(self.device)
        shift = shift.index_select(0, owner).to(self.device)
        return replace(
            self.with_edges(edges, self.edge_index.index_select(1, edges) + shift),
            x=self.x.index_select(0, nodes),
            ptr=ptr,
            edge_ptr=edge_ptr,
            node_label=_rows(self.node_label, nodes),
        )

    def with_edges(self, edges: Tensor, edge_index: Tensor) -> Graphs:
        """The same nodes with some of the edges, which now join the nodes of `edge_index`."""
        return replace(
            self,
            edge_index=edge_index,
            edge_attr=_rows(self.edge_attr, edges),
            edge_label=_rows(self.edge_label, edges),
        )

    def runs(self, limit: int) -> Iterator[Tensor]:
        for start, stop in consecutive_runs(self.sizes.tolist(), limit):
            yield torch.arange(start, stop)


def _rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else values.index_select(0, rows)


def consecutive_runs(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Splits items into consecutive runs of total size at most `limit`, or of a single item."""
    start, total = 0, 0
    for item, size in enumerate(sizes):
        if item > start and total + size > limit:
            yield start, item
            start, total = item, 0
        total += size
    yield start, len(sizes)


def line_graph(graphs: Graphs) -> Graphs:
    r"""The graphs whose nodes are the edges, joined where a walk goes on without turning back.

    The edge :math:`u \to v` leads to every :math:`v \to w` with :math:`w \ne u`. Node features
    stay those of the given nodes. Edges must be sorted by target; those of the result are, too.
    """
    source, target = graphs.edge_index
    nodes = torch.arange(graphs.num_nodes + 1, device=graphs.device)
    before, edge, _ = segments(torch.searchsorted(target.contiguous(), nodes), source)
    goes_on = source.index_select(0, before) != target.index_select(0, edge)
    before, edge = before[goes_on], edge[goes_on]
    edge_ptr = torch.searchsorted(edge.cpu(), graphs.edge_ptr)
    return replace(
        graphs,
        edge_index=torch.stack([before, edge]),
        ptr=graphs.edge_ptr,
        edge_ptr=edge_ptr,
        edge_attr=None,
        edge_label=None,
    )
