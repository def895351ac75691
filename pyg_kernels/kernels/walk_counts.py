"""Kernels that count label sequences of walks, and pairs of labels at a distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from pyg_kernels.checks import check_flags, checked_count
from pyg_kernels.kernels.arguments import Names
from pyg_kernels.kernels.count_kernel import BYTES, CountKernel, Occurrences
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import ALIKE, ODD, ODDER, mixed
from pyg_kernels.kernels.patterns import GraphTexts
from pyg_kernels.segments import segments


@dataclass(eq=False, repr=False)
class LabelSequenceKernel(CountKernel):
    r"""The kernel of the label sequences that occur along walks.

    The patterns are the sequences of node and edge labels along walks of 1, ..., n nodes. By
    default walks do not turn back: none goes along :math:`u \to v \to u` (Mahé et al., 2004). On
    graphs without short cycles such walks are paths. On molecules, with chemical labels, the
    sequences of four atoms are RDKit's topological torsions. With ``num_nodes=1`` the patterns are
    node labels, with ``num_nodes=2, min_nodes=2, node_label=None`` edge labels: the histograms that
    serve as baselines (Sugiyama and Borgwardt, 2015).

    Args:
        num_nodes: n, the most nodes of a walk.
        non_backtracking: Whether walks do not turn back; otherwise all walks count.
        min_nodes: The fewest nodes of a walk that counts.

    Labels and errors are as for :class:`WLSubtreeKernel`, all other arguments as for
    :class:`CountKernel`. The number of walks grows like the mean degree (minus one without turning
    back) to the power of the number of nodes, so this kernel is for sparse graphs.

    Example:
        >>> from pyg_kernels.kernels import LabelSequenceKernel
        >>> kernel = LabelSequenceKernel(num_nodes=3, min_nodes=3, node_label="element")
        >>> kernel(["CCO", "CCCO", "CCCC"])  # CCO and OCC; those and CCC, CCC; four times CCC
        tensor([[ 2.,  2.,  0.],
                [ 2.,  6.,  8.],
                [ 0.,  8., 16.]], dtype=torch.float64)

    See Also:
        :class:`RandomWalkKernel`, which has a decay and vectors; :class:`WLSubtreeKernel` and
        :class:`ShortestPathKernel`, of other patterns.
    """

    num_nodes: int = 4
    node_label: Names = "x"
    edge_label: Names = None
    _: KW_ONLY
    non_backtracking: bool = True
    min_nodes: int = 1

    def _check(self) -> None:
        if checked_count(self.min_nodes, "min_nodes") > checked_count(self.num_nodes, "num_nodes"):
            raise ValueError(f"min_nodes={self.min_nodes!r}: expected at most {self.num_nodes}")
        check_flags(non_backtracking=self.non_backtracking)
        super()._check()

    def _bytes(self, graphs: Graphs) -> Tensor:
        owner, (source, target) = graphs.owner(), graphs.edge_index
        walks = torch.ones(graphs.num_nodes, dtype=torch.float64, device=graphs.device)
        number = torch.zeros(len(graphs), dtype=torch.float64, device=graphs.device)
        for _ in range(self.num_nodes):  # also counts walks that turn back
            number.index_add_(0, owner, walks)
            walks = torch.zeros_like(walks).index_add_(0, target, walks.index_select(0, source))
        return BYTES * number

    def _occurrences(self, graphs: Graphs, complete: bool = False) -> Iterator[Occurrences]:
        source, target = graphs.edge_index
        nodes = torch.arange(graphs.num_nodes, device=graphs.device)[:, None]
        if self.min_nodes == 1:
            yield Occurrences(mixed(graphs.x + ALIKE), nodes, nodes[:, :0])
        edge = torch.arange(len(source), device=graphs.device)
        further = target if self.num_nodes > 2 else target[:0]
        last, following = _onward(graphs)(further)  # all pairs of edges that a walk can take
        if self.non_backtracking:
            goes_on = target.index_select(0, following) != source.index_select(0, last)
            last, following = last[goes_on], following[goes_on]
        begin = torch.searchsorted(last, torch.arange(len(source) + 1, device=graphs.device))
        walked, state = edge[:, None], mixed(graphs.x + ALIKE).index_select(0, source)
        for number in range(2, self.num_nodes + 1):
            if number > 2:
                places, walk, _ = segments(begin, edge)
                edge, state = following.index_select(0, places), state.index_select(0, walk)
                before = [walked.index_select(0, walk)] if complete else []
                walked = torch.cat([*before, edge[:, None]], dim=1)
            label = graphs.x.index_select(0, target.index_select(0, edge))
            if graphs.edge_attr is not None:
                label = label * ODDER + mixed(graphs.edge_attr.index_select(0, edge) + ALIKE)
            state = mixed(state * ODD + mixed(label + ODDER))
            if number >= self.min_nodes:
                nodes = source[walked]
                if complete:
                    nodes = torch.cat([nodes, target[walked[:, -1:]]], dim=1)
                yield Occurrences(state, nodes, walked)

    def _name(self, texts: GraphTexts, block: int, nodes: list[int], steps: list[int]) -> str:
        further = (
            texts.edge(edge) + texts.node(node) for edge, node in zip(steps, nodes[1:], strict=True)
        )
        return texts.node(nodes[0]) + "".join(further)


@dataclass(eq=False, repr=False)
class ShortestPathKernel(CountKernel):
    r"""The shortest-path kernel: pairs of node labels, with the number of edges between them.

    .. math::
        K(G, G') = \sum_{u, v \in G} \sum_{u', v' \in G'}
        [l_u = l_{u'}] [l_v = l_{v'}] [d(u, v) = d(u', v')]

    over the ordered pairs of different nodes that a path joins (Borgwardt and Kriegel, 2005).
    Edges have length 1. On molecules, with chemical labels, the patterns are RDKit's atom pairs.

    Args:
        max_length: The largest distance that counts; None: all.

    Labels and errors are as for :class:`WLSubtreeKernel`, all other arguments as for
    :class:`CountKernel`.

    Example:
        >>> import networkx as nx
        >>> from pyg_kernels.kernels import ShortestPathKernel
        >>> path = nx.path_graph(4)  # 6, 4 and 2 pairs at distances of 1, 2 and 3
        >>> ring = nx.cycle_graph(4)  # 8 and 4 pairs at distances of 1 and 2
        >>> ShortestPathKernel(node_label=None)([path, ring])
        tensor([[56., 64.],
                [64., 80.]], dtype=torch.float64)

    See Also:
        :class:`WLSubtreeKernel` and :class:`LabelSequenceKernel`, of other patterns.
    """

    max_length: int | None = None
    node_label: Names = "x"

    def _check(self) -> None:
        if self.max_length is not None:
            checked_count(self.max_length, "max_length")
        super()._check()

    def _bytes(self, graphs: Graphs) -> Tensor:
        return BYTES * graphs.ptr.diff().square()

    def _occurrences(self, graphs: Graphs, complete: bool = False) -> Iterator[Occurrences]:
        labels, owner, onward = mixed(graphs.x + ALIKE), graphs.owner(), _onward(graphs)
        every = torch.arange(graphs.num_nodes, device=graphs.device)
        sizes = graphs.ptr.diff().to(graphs.device)
        local = every - graphs.ptr.to(graphs.device).index_select(0, owner)
        # A table of the pairs of nodes of each graph, and where the row of each node begins.
        cells = sizes.square()
        row = (cells.cumsum(0) - cells).index_select(0, owner)
        row += local * sizes.index_select(0, owner)
        seen = torch.zeros(int(cells.sum()), dtype=torch.long, device=graphs.device)
        seen[row + local] = 1
        first, last, length = every, every, 0
        found = [torch.stack([first, last, last])[:, :0]]
        while len(first) and length != self.max_length:
            walk, edge = onward(last)
            first, last = first.index_select(0, walk), graphs.edge_index[1].index_select(0, edge)
            cell = row.index_select(0, first) + local.index_select(0, last)
            new = seen.index_select(0, cell) == 0
            first, last, cell = first[new], last[new], cell[new]
            number = torch.arange(1, len(cell) + 1, device=graphs.device)
            seen[cell] = number
            once = seen.index_select(0, cell) == number  # of several walks to one node, one goes on
            first, last, length = first[once], last[once], length + 1
            found.append(torch.stack([first, last, torch.full_like(first, length)]))
        first, last, steps = torch.cat(found, dim=1)
        state = mixed(labels.index_select(0, first) * ODD + steps)
        state = mixed(state + labels.index_select(0, last) * ODDER)
        yield Occurrences(state, torch.stack([first, last], dim=1), steps[:, None])

    def _name(self, texts: GraphTexts, block: int, nodes: list[int], steps: list[int]) -> str:
        return f"{texts.node(nodes[0])}..{steps[0]}..{texts.node(nodes[1])}"


def _onward(graphs: Graphs) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """A function of the last nodes of walks: which walks go on, in order, and by which edges."""
    source, order = graphs.edge_index[0].sort(stable=True)
    nodes = torch.arange(graphs.num_nodes + 1, device=graphs.device)
    begin = torch.searchsorted(source, nodes)

    def onward(ends: Tensor) -> tuple[Tensor, Tensor]:
        places, walk, _ = segments(begin, ends)
        return walk, order.index_select(0, places)

    return onward
