"""The edges that sums over neighbours run over, and their order by target and by source."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.operator import cpu_backend

_MOST_TYPES = 256
_FEWEST_EDGES_A_TYPE = 4
_SAMPLE = 2048


@dataclass
class Edges:
    """Edges from source to target nodes, in the caller's order.

    Args:
        source: The source of each edge, int64 of shape :obj:`(E,)`.
        target: The target of each edge, int64 of shape :obj:`(E,)`.
        num_sources: The number of source nodes.
        num_targets: The number of target nodes (the same nodes unless the graph is bipartite).
        attr: Edge features: one row per edge type, shape :obj:`(T, edge_dim)`, or None.
        edge_type: The row of :obj:`attr` that belongs to each edge, int64 of shape :obj:`(E,)`;
            None where every edge has a row of its own (then T = E).
        weight: The number w that multiplies whatever an edge carries, :obj:`(E,)`; None for ones.

    The orders of the edges by target and by source are computed once, at the first call that needs
    them. After that, do not change or replace the tensors.

    Raises:
        ValueError: If an index names no node (checked on CPU, outside ``torch.compile``), or if
            shapes do not fit.
    """

    source: Tensor
    target: Tensor
    num_sources: int
    num_targets: int
    attr: Tensor | None = None
    edge_type: Tensor | None = None
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        self._orders: dict[str, tuple[Tensor, Tensor]] = {}
        edges = self.source.numel()
        check_shapes(
            source=(self.source, (edges,)),
            target=(self.target, (edges,)),
            edge_type=(self.edge_type, (edges,)),
            weight=(self.weight, (edges,)),
        )
        for name, index in zip(("source", "target", "edge_type"), self.index, strict=True):
            if index is not None and index.dtype not in (torch.int64, torch.int32):
                raise ValueError(f"{name} has dtype {index.dtype}: expected torch.int64")
        if self.source.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_range(self.source, self.num_sources, "source")
            _check_range(self.target, self.num_targets, "target")

    @property
    def num_edges(self) -> int:
        return self.source.numel()

    @property
    def index(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The source, target and type of each edge."""
        return self.source, self.target, self.edge_type

    def by_target(self) -> tuple[Tensor, Tensor]:
        """``(offset, order)``: edges ``order[offset[v]:offset[v + 1]]`` end in node v; kept."""
        return self._order("target", self.target, self.num_targets)

    def by_source(self) -> tuple[Tensor, Tensor]:
        """``(offset, order)``: edges ``order[offset[u]:offset[u + 1]]`` leave node u; kept."""
        return self._order("source", self.source, self.num_sources)

    def _order(self, side: str, node: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
        kept, compiling = self._orders.get(side), torch.compiler.is_compiling()
        trains = not (compiling or torch.is_inference_mode_enabled())
        # A later backward may read the orders, and cannot if compiled code kept inference tensors.
        if kept is None or (trains and kept[0].is_inference()):
            with nullcontext() if compiling else torch.inference_mode(False):
                self._orders[side] = sort_by_node(node, num_nodes)
        return self._orders[side]

    def edge_rows(self, table: Tensor) -> Tensor:
        """Expands a table with one row per edge type to one row per edge."""
        return table if self.edge_type is None else table.index_select(0, self.edge_type)


def weighted(rows: Tensor, weight: Tensor | None) -> Tensor:
    """Rows of :obj:`(E, D)`, each times the weight of its edge, in the dtype of the rows."""
    return rows if weight is None else rows * weight.to(rows.dtype).unsqueeze(1)


@torch.library.custom_op("pyg_kernels::sort_by_node", mutates_args=())
def sort_by_node(node: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Sorts positions by node; those of node v are ``order[offset[v]:offset[v + 1]]``.

    Args:
        node: The node of each position, int64 of shape :obj:`(E,)`.
        num_nodes: The number of nodes.

    Returns:
        ``offset``, of shape :obj:`(num_nodes + 1,)`, and ``order``, :obj:`(E,)`; the positions of a
        node keep their order.
    """
    if node.device.type == "cpu" and cpu_backend() == "numba":
        from pyg_kernels.ops.compiled import array, run
        from pyg_kernels.ops.neighbor_sum.cpu import counting_sort

        offset = node.new_zeros(num_nodes + 1, dtype=torch.long)
        order = node.new_empty(node.shape, dtype=torch.long)
        run(counting_sort, 1, node.numel(), array(node), array(offset), array(order))
        return offset, order
    node, order = torch.sort(node, stable=True)
    return torch.searchsorted(node, torch.arange(num_nodes + 1, device=node.device)), order


@sort_by_node.register_fake
def _(node: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    offset = node.new_empty(num_nodes + 1, dtype=torch.long)
    return offset, node.new_empty(node.shape, dtype=torch.long)


def _check_range(index: Tensor, num_nodes: int, side: str) -> None:
    if index.numel() == 0:
        return
    least, most = (int(value) for value in index.aminmax())
    if least < 0 or most >= num_nodes:
        raise ValueError(
            f"edge_index names {side} node {most if most >= num_nodes else least}, but there are "
            f"{num_nodes} {side} nodes: expected 0 to {num_nodes - 1}"
        )


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Finds the few distinct rows of a large table, such as the bond types of molecules.

    A weight that depends on edge features is then computed once per edge type, not once per edge.
    The rows are compared exactly: a projection to one number only proposes which are equal.

    Args:
        rows: The table, of shape :obj:`(E, edge_dim)`, which must not require a gradient.

    Returns:
        The distinct rows, :obj:`(T, edge_dim)`, and the index of each row among them,
        :obj:`(E,)`; or None where rows hardly repeat (continuous features).
    """
    num_rows, width = rows.shape
    if num_rows < 2 * _FEWEST_EDGES_A_TYPE or width == 0:
        return None
    direction = torch.linspace(1.0, 2.0, width, dtype=torch.float64, device=rows.device)
    keys = rows.to(torch.float64) @ torch.exp(direction).frac_()
    sample = keys[:: max(1, num_rows // _SAMPLE)].unique()
    limit = min(_MOST_TYPES, num_rows // _FEWEST_EDGES_A_TYPE)
    if sample.numel() > limit:
        return None
    index = torch.searchsorted(sample, keys).clamp_(max=sample.numel() - 1)
    if not torch.equal(sample[index], keys):  # rare rows that the sample missed
        sample, index = keys.unique(return_inverse=True)
        if sample.numel() > limit:
            return None
    first = torch.empty(sample.numel(), dtype=torch.long, device=rows.device)
    first[index] = torch.arange(num_rows, device=rows.device)
    distinct = rows.index_select(0, first)
    if not torch.equal(distinct.index_select(0, index), rows):  # collision, or NaN
        return None
    return distinct, index
