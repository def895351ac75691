"""Every exact kernel and the items it compares, for the promises that all kernels keep."""

import random
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    GatedSequenceKernel,
    GeneralizedRelabeling,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
    arc_cosine,
    inverse_polynomial,
    polynomial,
)
from pyg_kernels.ops.operator import cpu_backend
from tests.sequence.texts import close

F64 = torch.float64

SHARED = ["dtype", "max_memory", "verbose"]  # a WLKernel leaves these to its base
LENGTHS = [4, 1, 0, 6, 3, 5, 2, 4]  # of texts, or of graphs in nodes; cycled


@dataclass(frozen=True)
class Inputs:
    """The items that a kernel compares."""

    word: str  # what an error message calls one of them
    make: Callable[[int, int, torch.dtype], Any]  # from its size, a seed and a dtype
    features: tuple[str, ...] = ()  # a graph's continuous ones; "" stands for a text itself

    def leaves(self, item: Any) -> list[Tensor]:
        return [item[name] if name else item for name in self.features]

    def replaced(self, item: Any, leaves: Sequence[Tensor]) -> Any:
        """The item with its continuous features replaced by these."""
        if self.features == ("",):
            return leaves[0]
        return changed(item, **dict(zip(self.features, leaves, strict=True)))

    def collection(self, count: int, dtype: torch.dtype = F64, seed: int = 0) -> list[Any]:
        return [self.make(LENGTHS[i % len(LENGTHS)], seed + i, dtype) for i in range(count)]


@dataclass(frozen=True)
class Case:
    """A kernel, which itself is never fitted, and the items that it compares."""

    kernel: Any
    inputs: Inputs
    tolerance: float = 1e-10  # how far two ways to the same number may be apart

    @property
    def features(self) -> bool:
        """Whether ``transform`` returns sparse features instead of a Gram matrix."""
        return getattr(self.kernel, "output", "gram") == "features"

    @property
    def continuous(self) -> bool:
        return bool(self.inputs.features)

    @property
    def grid(self) -> tuple[str, list[Any]]:
        """A parameter and values that a search may choose from."""
        if isinstance(self.kernel, WLKernel):
            return "base__normalize", [False, True]
        return "normalize", [False, "cosine" if isinstance(self.kernel, StringKernel) else True]

    def build(self, **options: Any) -> Any:
        """The kernel with other arguments."""
        if isinstance(self.kernel, WLKernel):
            options = {f"base__{n}" if n in SHARED else n: v for n, v in options.items()}
        return clone(self.kernel).set_params(**options)

    def collection(self, count: int = 8, dtype: torch.dtype = F64, seed: int = 0) -> list[Any]:
        return self.inputs.collection(count, dtype, seed)

    def gram(self, rows: Any, fitted: Any) -> Tensor:
        """The Gram matrix with the fitted objects, from the results of ``transform`` for both."""
        return torch.as_tensor((rows @ fitted.T).toarray() if self.features else rows)


def close_sums(found: Tensor, expected: Tensor) -> None:
    """Relative tolerance 1e-10; absolute, 1e-12 of the largest value, as terms may cancel."""
    scale = max([1.0, *expected.detach().abs().flatten().tolist()])
    close(found, expected, atol=1e-12 * scale)


def dense(found: Any) -> Tensor:
    """The result of ``transform`` as a dense tensor."""
    return torch.as_tensor(found.toarray() if sparse.issparse(found) else found)


@contextmanager
def numba(is_installed: bool) -> Iterator[None]:
    """Computes with Numba, or as if Numba were not installed."""
    with pytest.MonkeyPatch.context() as patch:
        if not is_installed:
            patch.setitem(sys.modules, "numba", None)
        cpu_backend.cache_clear()
        try:
            assert cpu_backend() == ("numba" if is_installed else "definition")
            yield
        finally:
            cpu_backend.cache_clear()


def object_array(items: list[Any]) -> Any:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def identified(kernels: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kernel", kernels, ids=lambda kernel: type(kernel).__name__)


# Texts -------------------------------------------------------------------------------------------


def vectors(length: int, size: int = 3, seed: int = 0) -> Tensor:
    """A text of random vectors, (L, F)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, size, generator=generator, dtype=F64)


def characters(length: int, alphabet: str = "abc", seed: int = 0) -> str:
    """A text of random characters."""
    return "".join(random.Random(seed).choices(alphabet, k=length))


def ids(text: str, alphabet: str = "abc") -> list[int]:
    """The same text as a list of token numbers."""
    return [alphabet.index(token) for token in text]


def one_hot(text: str, alphabet: str = "abc") -> Tensor:
    """The same text as one-hot vectors, (L, len(alphabet))."""
    return torch.eye(len(alphabet), dtype=F64)[ids(text, alphabet)]


VECTORS = Inputs("text", lambda size, seed, dtype: vectors(size, seed=seed).to(dtype), ("",))
CHARACTERS = Inputs("text", lambda size, seed, dtype: characters(size, seed=seed))
IDS = Inputs(
    "text", lambda size, seed, dtype: torch.tensor(ids(characters(size, seed=seed))).long()
)


# Graphs ------------------------------------------------------------------------------------------


def random_data(
    seed: int, num_nodes: int = 6, edges: int | list[tuple[int, int]] = 9, channels: int = 3
) -> Data:
    """A directed graph with every sort of feature.

    Vectors `x`, `kind_vector` (one-hot) and `edge_attr`; numbers `length`; labels `kind`, `name`
    (strings), `degree`, `pair` (rows) and `bond`. If `edges` is a number, as many are drawn: with
    self-loops and parallel edges, while the last node stays isolated.
    """
    generator = torch.Generator().manual_seed(seed)
    if isinstance(edges, int):
        edge_index = torch.randint(max(num_nodes - 1, 1), (2, edges), generator=generator)
    else:
        edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    num_edges = edge_index.size(1)
    kind = torch.randint(3, (num_nodes,), generator=generator)
    bond = torch.randint(2, (num_edges,), generator=generator)
    degree = torch.bincount(edge_index[1], minlength=num_nodes)
    return Data(
        num_nodes=num_nodes,
        edge_index=edge_index,
        x=torch.randn(num_nodes, channels, generator=generator, dtype=F64),
        edge_attr=torch.randn(num_edges, 2, generator=generator, dtype=F64),
        length=torch.rand(num_edges, generator=generator, dtype=F64),
        kind=kind,
        bond=bond,
        kind_vector=torch.eye(3, dtype=F64)[kind],
        name=[f"label {label}" for label in kind.tolist()],
        degree=degree,
        pair=torch.stack([kind, degree], dim=1),
    )


def graph_collection() -> list[Data]:
    """Random graphs, then awkward ones: no nodes, no edges, two loops on one node, one edge."""
    return [
        random_data(0),
        random_data(1, 8, 12),
        random_data(2, 5, 11),
        random_data(3, 0, []),
        random_data(4, 3, []),
        random_data(5, 1, [(0, 0), (0, 0)]),
        random_data(6, 3, [(0, 1)]),
    ]


def both_ways(graph: Data, loops: bool = True) -> Data:
    """The graph with every edge in both directions; self-loops occur twice if `loops`, or once."""
    others = (graph.edge_index[0] != graph.edge_index[1]) | loops
    found = graph.clone()
    found.edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)[:, others]], dim=1)
    for name in ("edge_attr", "length", "bond"):
        found[name] = torch.cat([graph[name], graph[name][others]])
    return found


def as_networkx(graph: Data, kind: type[Any] = nx.MultiDiGraph) -> Any:
    """The graph in NetworkX, with node names that are not numbers."""
    found = kind()
    for v in range(graph.num_nodes or 0):
        numbers = {name: graph[name][v].numpy() for name in ("x", "kind_vector", "pair")}
        labels = {name: int(graph[name][v]) for name in ("kind", "degree")}
        found.add_node(f"node {v}", **numbers, **labels, name=graph.name[v])
    for e, (u, v) in enumerate(graph.edge_index.t().tolist()):
        values = {"edge_attr": graph.edge_attr[e].tolist(), "length": float(graph.length[e])}
        found.add_edge(f"node {u}", f"node {v}", **values, bond=int(graph.bond[e]))
    return found


def changed(graph: Data, **attributes: Any) -> Data:
    """The graph with other attributes, or without those that are None."""
    return graph.clone().update(attributes)


def vector_graph(num_nodes: int, seed: int, dtype: torch.dtype = F64) -> Data:
    """Vectors on nodes and edges; directed, with self-loops, parallel edges, an isolated node."""
    found = random_data(seed, num_nodes, 2 * num_nodes if num_nodes > 1 else 0)
    x, edge_attr = (t.to(dtype) / 2 for t in (found.x, found.edge_attr))
    return Data(x=x, edge_index=found.edge_index, edge_attr=edge_attr)


def labelled_graph(num_nodes: int, seed: int, dtype: torch.dtype = F64) -> Data:
    """The same with labels in place of vectors; labels have no `dtype` of their own."""
    found = random_data(seed, num_nodes, 2 * num_nodes if num_nodes > 1 else 0)
    index = found.edge_index
    return Data(x=found.kind, edge_index=index, edge_attr=found.bond, num_nodes=num_nodes)


class Stored(InMemoryDataset):
    """A data set of PyTorch Geometric, of given graphs."""

    def __init__(self, graphs: list[Data], transform: Callable[[Data], Data] | None = None) -> None:
        super().__init__(transform=transform)
        self.data, self.slices = self.collate(graphs)


GRAPHS = Inputs("graph", vector_graph, ("x", "edge_attr"))
NODE_GRAPHS = Inputs("graph", vector_graph, ("x",))  # for kernels that read these alone
LABELLED = Inputs("graph", labelled_graph)


def matrices(*shapes: tuple[int, int]) -> tuple[Tensor, ...]:
    """Random matrices, such as U_1, U_2 and V of a relabelling."""
    generator = torch.Generator().manual_seed(0)
    return tuple(0.6 * torch.randn(*size, generator=generator, dtype=F64) for size in shapes)


def relabeling(act: Any, combine: str, edges: str | None) -> GeneralizedRelabeling:
    """A relabelling for nodes of 3 features."""
    maps = matrices((3, 3), (3, 4), (4, {None: 3, "edge_attr": 5, "length": 4}[edges]))
    return GeneralizedRelabeling(*maps, act=act, combine=combine, edge_feature=edges)


OPEN = 1e-7  # arc-cosine of degree 0 at t = 1: the root of the rounding error
BONDS: dict[str, Any] = {"edge_label": "edge_attr"}
EDGES: dict[str, Any] = {"edge_feature": "edge_attr"}
UNIT: dict[str, Any] = {"normalize": True}
GRAM: dict[str, Any] = {"output": "gram"}
RELABELED = DiscreteRelabeling(**BONDS)

TABLE: list[tuple[Any, ...]] = [
    (StringKernel(), VECTORS),
    (StringKernel(3, weighting="span", normalize="cosine"), VECTORS),
    (StringKernel(2, 0.8, "add", normalize="weights"), VECTORS),
    (StringKernel(normalize="cosine"), CHARACTERS),
    (StringKernel(1), IDS),
    (GatedSequenceKernel(), VECTORS),
    (GatedSequenceKernel(arc_cosine(0), **UNIT), VECTORS, OPEN),
    (GatedSequenceKernel(), CHARACTERS),
    (DeepStringKernel(), VECTORS),
    (DeepStringKernel(3, 1, activation=polynomial((0.1, 0.5, 0.2)), post=True), VECTORS),
    (DeepStringKernel(activation=arc_cosine(1), **UNIT), VECTORS),
    (DeepStringKernel(**UNIT), IDS),
    (RandomWalkKernel(), GRAPHS),
    (RandomWalkKernel(4, sum_orders=True, edge_feature=None, **UNIT), NODE_GRAPHS),
    (RandomWalkKernel(decay=0.2), LABELLED),
    (RandomWalkKernel(non_backtracking=True), GRAPHS),
    (RandomWalkKernel(None, 0.02), LABELLED),
    (RandomWalkKernel(None, 0.01, **UNIT), GRAPHS),
    (WLSubtreeKernel(**BONDS, **UNIT), LABELLED),
    (WLSubtreeKernel(), LABELLED),
    (WLSubtreeKernel(2, **GRAM), LABELLED),
    (WLSubtreeKernel(2, compare="min", iteration_weights=(0.5, 0, 2), **GRAM), LABELLED),
    (WLSubtreeKernel(compare="minmax", **BONDS, **GRAM), LABELLED),
    (LabelSequenceKernel(), LABELLED),
    (LabelSequenceKernel(3, compare="minmax", **BONDS, **GRAM), LABELLED),
    (LabelSequenceKernel(compare="min", non_backtracking=False, **GRAM, **UNIT), LABELLED),
    (ShortestPathKernel(**UNIT), LABELLED),
    (ShortestPathKernel(3, compare="minmax", **GRAM), LABELLED),
    (WLKernel(RandomWalkKernel(), num_iterations=2), LABELLED),
    (WLKernel(WLSubtreeKernel(1), RELABELED, **UNIT), LABELLED),
    (WLKernel(LabelSequenceKernel(2, compare="minmax", **BONDS), RELABELED, 1), LABELLED),
    (WLKernel(RandomWalkKernel(2), matrices((3, 3), (3, 4), (4, 3)), 2), GRAPHS),
    (WLKernel(DeepGraphKernel(1), relabeling("tanh", "mul", "edge_attr"), 1, **UNIT), GRAPHS),
    (DeepGraphKernel(), NODE_GRAPHS),
    (DeepGraphKernel(2, 3, 0.5, "mul", polynomial((0.2, 0.6, 0.1)), **EDGES, **UNIT), GRAPHS),
    (DeepGraphKernel(1, activation=arc_cosine(1), empty_walks="zero"), NODE_GRAPHS),
    (DeepGraphKernel(activation=inverse_polynomial(), **EDGES, **UNIT), LABELLED),
]
CASES = {
    f"{type(row[0]).__name__}-{number}": Case(*row) for number, row in enumerate(TABLE, start=1)
}


def _of(chosen: Callable[[Case], bool], among: Collection[str] = tuple(CASES)) -> Any:
    cases = {name: CASES[name] for name in among if chosen(CASES[name])}
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


_first = {  # one case for each way to read and check inputs
    (type(case.kernel), type(getattr(case.kernel, "base", None)), case.inputs): name
    for name, case in reversed(CASES.items())
}.values()
of_every = _of(lambda case: True)
of_each_class = _of(lambda case: True, _first)
continuous = _of(lambda case: case.continuous)
differentiable_everywhere = _of(lambda case: case.continuous and case.tolerance < OPEN)
