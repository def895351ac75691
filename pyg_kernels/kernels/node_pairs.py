"""Kernels on graphs that sum over pairs of nodes, and the kernel of stacked layers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.kernels.activations import ActivationKernel, activation_kernel
from pyg_kernels.kernels.arguments import Names, checked_decay
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.kernel import BlockKernel
from pyg_kernels.kernels.reading import GraphKernel, read_graphs
from pyg_kernels.ops.operator import is_plain, runs_compiled

_SELF_ROWS = 128  # most nodes in a block of graphs that are each compared with themselves


class NodePairKernel(GraphKernel, BlockKernel):
    """A kernel on graphs that sums over pairs of their nodes."""

    def _read(self, items: Any, like: Graphs | None = None) -> Graphs:
        return read_graphs(items, self._attributes(), self.dtype, like)

    def _self_limit(self, collection: Any) -> int:
        return min(self._limit(collection), _SELF_ROWS)


def node_base(a: Graphs, b: Graphs) -> Tensor:
    """The base kernel between all nodes of one collection and all of another, (N, M)."""
    return _base(a.x, b.x, a.node_label, b.node_label, a.dtype)


def edge_base(a: Graphs, b: Graphs) -> Tensor | None:
    """The base kernel between all edges of one collection and all of another, (E, E'), or None."""
    if a.edge_attr is None or b.edge_attr is None:
        return None
    return _base(a.edge_attr, b.edge_attr, a.edge_label, b.edge_label, a.dtype)


def neighbor_sums(values: Tensor, a: Graphs, b: Graphs, edges: Tensor | None) -> Tensor:
    r"""Sums over all pairs of edges that arrive at a pair of nodes.

    .. math::
        S[v, v'] = \sum_{u \to v} \sum_{u' \to v'} \langle e_{uv}, e'_{u'v'} \rangle \, Z[u, u']

    The sums run first along one graph, then along the other: the direct product graph is never
    built. Edges must be sorted by target. `edges` is their base kernel, (E, E'), or None for 1.
    """
    tensors = [values] if edges is None else [values, edges]
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if runs_compiled(values) and is_plain(*tensors) and not wanted:
        return _compiled_sums(values, a, b, edges)
    (source_a, target_a), (source_b, target_b) = a.edge_index, b.edge_index
    if edges is None:
        values = _added(values.index_select(0, source_a), target_a, a.num_nodes).t()
        return _added(values.index_select(0, source_b), target_b, b.num_nodes).t()
    gathered = values.index_select(0, source_a).t().contiguous()
    along_b = gathered.index_select(0, source_b) * edges.t()
    return _added(_added(along_b, target_b, values.size(1)).t(), target_a, values.size(0))


def graph_sums(values: Tensor, a: Graphs, b: Graphs) -> Tensor:
    """Sums over the pairs of nodes of every pair of graphs, from (N, M) to (n, m)."""
    return _added(_added(values, a.owner(), len(a)).t(), b.owner(), len(b)).t()


def sorted_by_target(graphs: Graphs) -> Graphs:
    """The same graphs with the edges sorted by target, then by source."""
    source, target = graphs.edge_index
    order = (target * graphs.num_nodes + source).argsort(stable=True)
    return graphs.with_edges(order, graphs.edge_index.index_select(1, order))


def _base(
    x: Tensor, y: Tensor, label: Tensor | None, other: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Inner products of vectors, 0 where labels differ; without vectors, equality of labels."""
    if not len(x) or not len(y):  # vectors of any size
        return torch.zeros(len(x), len(y), dtype=dtype, device=x.device)
    if x.dim() == 1:
        return torch.eq(
            x[:, None], y, out=torch.empty(len(x), len(y), dtype=dtype, device=x.device)
        )
    products = x @ y.t()
    return products if label is None or other is None else products * (label[:, None] == other)


def _compiled_sums(values: Tensor, a: Graphs, b: Graphs, edges: Tensor | None) -> Tensor:
    from pyg_kernels.kernels import cpu
    from pyg_kernels.ops.compiled import array, run

    (source, target), (other_source, other_target) = map(array, (a.edge_index, b.edge_index))
    begin = np.searchsorted(target, np.arange(a.num_nodes + 1))
    out = torch.empty_like(values, memory_format=torch.contiguous_format)
    sides = begin, source, other_source, other_target
    work = len(source) * len(other_source)
    run(cpu.neighbor_sums, len(out), work, array(values), *sides, array(edges, values), array(out))
    return out


def _added(values: Tensor, place: Tensor, number: int) -> Tensor:
    """The sums of the rows that go to each of `number` places, (number, M)."""
    return values.new_zeros(number, values.size(1)).index_add(0, place, values)


@dataclass(eq=False, repr=False)
class DeepGraphKernel(NodePairKernel):
    r"""The deep graph kernel of L layers of order n.

    The local kernel of two nodes is defined over layers l and steps j,

    .. math::
        K^{(l, 1)}(v, v') = K_\sigma^{(l-1)}(v, v'), \qquad
        K^{(l, j)}(v, v') = K_\sigma^{(l-1)}(v, v') \circ \lambda
        \sum_{u \to v} \sum_{u' \to v'} \langle e, e' \rangle \, K_\sigma^{(l, j-1)}(u, u'),

    where :math:`K_\sigma^{(0)} = \langle f_v, f_{v'} \rangle`, :math:`\circ` is the sum or the
    product, and :math:`K_\sigma^{(l)} = K_\sigma^{(l, n)}`. The kernel of two graphs is
    :math:`\sum_{v, v'} K_\sigma^{(L)}(v, v')` (Lei et al. 2017, section 3.3, theorem 4 and
    supplement E). Its feature space contains the outputs of L layers of
    :class:`~pyg_kernels.nn.GraphKernelConv`, summed over the nodes.

    Args:
        num_layers: L.
        order: n, the number of nodes in a walk.
        decay: :math:`\lambda`, at least 0.
        combine: ``'add'`` or ``'mul'``, the meaning of :math:`\circ`.
        activation: The kernel of the activation; None: :func:`inverse_polynomial`. As
            :math:`k_{xx}` and :math:`k_{yy}` it gets the local kernel of each node with itself.
        empty_walks: ``'keep'``: as above, which is what the layer computes. ``'zero'``:
            :math:`K^{(l, j)}(v, v') = 0` where no walk of j nodes ends at v or at v', the
            convention of supplement E.
        edge_feature: The attribute :math:`e`; None: factors of 1, as in the paper.

    Graphs, errors and all other arguments are as for :class:`RandomWalkKernel`. A pair without edge
    features takes O(L n (E N' + N E')).

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import DeepGraphKernel, RandomWalkKernel, polynomial
        >>> linear = polynomial([0.0, 1.0])
        >>> kernel = DeepGraphKernel(num_layers=1, order=3, combine="mul", activation=linear)
        >>> molecules = ["CCO", "CCN", "c1ccccc1O"]
        >>> walks = RandomWalkKernel(order=3, edge_feature=None)
        >>> torch.allclose(kernel(molecules), walks(molecules))
        True

    See Also:
        :class:`~pyg_kernels.nn.GraphKernelConv` and :class:`~pyg_kernels.nn.GraphKernelNet`, the
        layer and the network; :class:`RandomWalkKernel`; :func:`inverse_polynomial`,
        :func:`polynomial` and :func:`arc_cosine`, kernels of activations;
        :class:`DeepStringKernel`, of texts.
    """

    num_layers: int = 2
    order: int = 2
    decay: float = 0.5
    combine: str = "add"
    activation: ActivationKernel | None = None
    empty_walks: str = "keep"
    normalize: bool = False
    node_feature: Names = "x"
    edge_feature: Names = None
    _: KW_ONLY
    node_label: Names = None
    edge_label: Names = None

    def _check(self) -> None:
        super()._check()
        checked_count(self.num_layers, "num_layers")
        checked_count(self.order, "order")
        checked_decay(self.decay)
        checked_choice(self.combine, "combine", ("add", "mul"))
        checked_choice(self.empty_walks, "empty_walks", ("keep", "zero"))
        activation_kernel(self.activation)

    def _prepare(self, part: Graphs) -> _Prepared:
        part = sorted_by_target(part)
        runs = part.runs(self._self_limit(part))
        parts = [self._with_itself(part.part(run))[0] for run in runs]
        diagonals = zip(*(own.diagonals for own in parts), strict=True)
        return _Prepared(part, self._has_walks(part), [torch.cat(found) for found in diagonals])

    def _with_itself(self, part: Graphs) -> tuple[_Prepared, Tensor]:
        """Graphs sorted by target with diagonals, and the kernel of each graph with itself."""
        own = _Prepared(part, self._has_walks(part), [])
        return own, graph_sums(self._local(own, own), part, part).diagonal()

    def _values(self, a: _Prepared, b: _Prepared) -> Tensor:
        return graph_sums(self._local(a, b), a.graphs, b.graphs)

    def _self_values(self, part: Graphs) -> Tensor:
        return self._with_itself(sorted_by_target(part))[1]

    def _local(self, a: _Prepared, b: _Prepared) -> Tensor:
        """The kernel of all pairs of nodes after the last activation, (N, M).

        If the diagonals of `a` are not known yet, `a` and `b` are the same and this fills them in.
        """
        activation, edges = activation_kernel(self.activation), edge_base(a.graphs, b.graphs)
        after, is_known = node_base(a.graphs, b.graphs), bool(a.diagonals)
        for layer in range(self.num_layers):
            base = after
            for j in range(self.order):
                local = base
                if j > 0:
                    arrived = self.decay * neighbor_sums(after, a.graphs, b.graphs, edges)
                    local = base + arrived if self.combine == "add" else base * arrived
                    if self.empty_walks == "zero":
                        local = local * (a.has_walks[j][:, None] * b.has_walks[j])
                if not is_known:
                    a.diagonals.append(local.diagonal())
                step = layer * self.order + j
                after = activation(local, a.diagonals[step][:, None], b.diagonals[step])
        return after

    def _has_walks(self, part: Graphs) -> list[Tensor]:
        """1 where a walk of j nodes ends, else 0, for j = 1, ..., n, each (N,)."""
        source, target = part.edge_index
        found = [torch.ones(part.num_nodes, dtype=part.dtype, device=part.device)]
        for _ in range(self.order - 1):
            arrived = torch.zeros_like(found[-1]).index_add(0, target, found[-1][source])
            found.append((arrived > 0).to(part.dtype))
        return found


@dataclass
class _Prepared:
    """Graphs, where walks of 1, ..., n nodes end, and each node's kernel with itself per step."""

    graphs: Graphs
    has_walks: list[Tensor]
    diagonals: list[Tensor]
