"""Collections of graphs, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels.blocks import consecutive_runs
from pyg_kernels.segments import segments


@dataclass(frozen=True)
class Graphs:
    """Graphs one after the other.

    Args:
        x: Node features, (N, F), or labels that match exactly, int64 of shape (N,).
        edge_index: Edges from row 0 to row 1, numbered through all graphs, (2, E).
        ptr: Where the nodes of each graph begin, and the end, (n + 1,), on the CPU.
        edge_ptr: The same for edges.
        dtype: In which kernels of them are computed.
        edge_attr: Edge features, (E, D), or labels, int64 of shape (E,); None for none.
    """

    x: Tensor
    edge_index: Tensor
    ptr: Tensor
    edge_ptr: Tensor
    dtype: torch.dtype
    edge_attr: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def requires_grad(self) -> bool:
        edges = self.edge_attr is not None and self.edge_attr.requires_grad
        return self.x.requires_grad or edges

    @property
    def has_labels(self) -> bool:
        """Whether nodes or edges have labels that match exactly."""
        return self.x.dim() == 1 or (self.edge_attr is not None and self.edge_attr.dim() == 1)

    @property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @property
    def sizes(self) -> Tensor:
        """The rows of a graph: its nodes, or its edges where they have features."""
        nodes = self.ptr.diff()
        return nodes if self.edge_attr is None else torch.maximum(nodes, self.edge_ptr.diff())

    def owner(self) -> Tensor:
        """The graph of each node, (N,)."""
        graphs = torch.arange(len(self), device=self.device)
        return graphs.repeat_interleave(self.ptr.diff().to(self.device), output_size=self.num_nodes)

    def part(self, items: Tensor) -> Graphs:
        nodes, _, ptr = segments(self.ptr, items)
        edges, owner, edge_ptr = segments(self.edge_ptr, items)
        shift = ptr[:-1] - self.ptr.index_select(0, items)
        nodes, edges = nodes.to(self.device), edges.to(self.device)
        shift = shift.index_select(0, owner).to(self.device)
        return Graphs(
            self.x.index_select(0, nodes),
            self.edge_index.index_select(1, edges) + shift,
            ptr,
            edge_ptr,
            self.dtype,
            None if self.edge_attr is None else self.edge_attr.index_select(0, edges),
        )

    def between(self, start: int, stop: int) -> Graphs:
        """The graphs from one to before another."""
        nodes = slice(int(self.ptr[start]), int(self.ptr[stop]))
        edges = slice(int(self.edge_ptr[start]), int(self.edge_ptr[stop]))
        return Graphs(
            self.x[nodes],
            self.edge_index[:, edges] - nodes.start,
            self.ptr[start : stop + 1] - nodes.start,
            self.edge_ptr[start : stop + 1] - edges.start,
            self.dtype,
            None if self.edge_attr is None else self.edge_attr[edges],
        )

    def runs(self, limit: int) -> Iterator[Tensor]:
        for start, stop in consecutive_runs(self.sizes.tolist(), limit):
            yield torch.arange(start, stop)

    def to_data_list(self) -> list[Data]:
        """The graphs as PyTorch Geometric's data."""
        found = []
        for i in range(len(self)):
            nodes = slice(int(self.ptr[i]), int(self.ptr[i + 1]))
            edges = slice(int(self.edge_ptr[i]), int(self.edge_ptr[i + 1]))
            data = Data(x=self.x[nodes], edge_index=self.edge_index[:, edges] - nodes.start)
            if self.edge_attr is not None:
                data.edge_attr = self.edge_attr[edges]
            found.append(data)
        return found
