"""Equation 11 of Lei et al. 2017: base kernels over relabelled graphs, summed over iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DiscreteRelabeling,
    GeneralizedRelabeling,
    RandomWalkKernel,
    WLKernel,
    WLSubtreeKernel,
    polynomial,
)
from tests.graphs import SMILES
from tests.kernels.patterns import patterns, subtree_gram
from tests.kernels.walks import (
    GraphKernel,
    close,
    cosine,
    deep_graph_kernel,
    generalized_relabelling,
    gram,
    graph_collection,
    iterated,
    random_walk_kernel,
)

GRAPHS = graph_collection()


def walk(order: int, edge_feature: str | None, node_feature: str = "x") -> GraphKernel:
    return lambda x, y: random_walk_kernel(x, y, order, 0.4, node_feature, edge_feature)


def deep(node_feature: str) -> GraphKernel:
    def value(x: Data, y: Data) -> float:
        return deep_graph_kernel(
            x, y, 1, 2, 0.4, "add", lambda k, *_: 0.5 + k + k * k, node_feature=node_feature
        )

    return value


def bases(node_feature: str) -> dict[str, tuple[Any, GraphKernel]]:
    """Base kernels and their definitions."""
    node = {"decay": 0.4, "node_feature": node_feature}
    quadratic = polynomial([0.5, 1.0, 1.0])
    return {
        "walk-1": (RandomWalkKernel(1, **node), walk(1, None, node_feature)),
        "walk-3": (RandomWalkKernel(3, **node, edge_feature=None), walk(3, None, node_feature)),
        "walk-3-edges": (RandomWalkKernel(3, **node), walk(3, "edge_attr", node_feature)),
        "deep": (DeepGraphKernel(1, 2, activation=quadratic, **node), deep(node_feature)),
    }


def discrete(graph: Data, num_iterations: int, edge_label: str | None) -> list[Data]:
    """r^0 is the graph as it is; then `kind` is a number that stands for the pattern's string."""
    found = []
    for labels in patterns(graph, num_iterations, "kind", edge_label):
        other = graph.clone()
        other.kind = torch.tensor([NUMBERS.setdefault(p, len(NUMBERS)) for p in labels]).long()
        found.append(other)
    return [graph, *found[1:]]


NUMBERS: dict[str, int] = {}


def expected_gram(kernel: GraphKernel, rounds: list[list[Data]]) -> Tensor:
    """The sum over iterations; rounds[g][i] is r^i of graph g."""
    return sum(gram(kernel, graphs, graphs) for graphs in zip(*rounds, strict=True))


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("edge_label", [None, "bond"])
@pytest.mark.parametrize("base", ["walk-1", "walk-3", "walk-3-edges", "deep"])
def test_discrete_relabelling(iterations: int, edge_label: str | None, base: str) -> None:
    kernel, definition = bases("kind")[base]
    relabel = DiscreteRelabeling("kind", edge_label)
    wl = WLKernel(kernel, relabel, iterations)
    expected = expected_gram(definition, [discrete(g, iterations, edge_label) for g in GRAPHS])
    close(wl(GRAPHS).double(), expected)
    close(wl(GRAPHS[:2], GRAPHS[1:]).double(), expected[:2, 1:])
    close(wl.diagonal(GRAPHS).double(), expected.diagonal())


@pytest.mark.parametrize("iterations", [0, 1, 2, 4])
@pytest.mark.parametrize("edge_label", [None, "bond"])
def test_walks_of_one_node_are_the_subtree_kernel(iterations: int, edge_label: str | None) -> None:
    wl = WLKernel(
        RandomWalkKernel(1, node_feature="kind"),
        DiscreteRelabeling("kind", edge_label),
        iterations,
    )
    subtree = WLSubtreeKernel(iterations, "kind", edge_label)
    close(wl(GRAPHS).double(), subtree(GRAPHS).double())
    close(wl(GRAPHS).double(), subtree_gram(GRAPHS, GRAPHS, iterations, "kind", edge_label))


def test_labels_by_name() -> None:
    """relabel='discrete' is DiscreteRelabeling() with the labels in x; one-hot rows are labels."""
    graphs = [Data(x=g.kind_vector, edge_index=g.edge_index) for g in GRAPHS]
    expected = subtree_gram(graphs, graphs, 3)
    base = RandomWalkKernel(1)
    close(WLKernel(base)(graphs), expected)
    close(WLKernel(base, "discrete", 3)(graphs), expected)
    close(WLKernel(base, DiscreteRelabeling(), 3)(graphs), expected)


def test_every_term_compares_labels() -> None:
    """The first one too, whatever features the base kernel would find in the graphs."""
    rounds = [discrete(g, 2, "bond") for g in GRAPHS]
    wl = WLKernel(RandomWalkKernel(2, 0.4), DiscreteRelabeling("kind", "bond"), 2)
    close(wl(GRAPHS), expected_gram(walk(2, "edge_attr", "kind"), rounds))


def test_any_function_may_be_the_base() -> None:
    """Of two lists of graphs; labels then stand in x as one-dimensional integers."""

    def alike(xs: Sequence[Data], ys: Sequence[Data]) -> Tensor:
        return gram(lambda x, y: float((x.x[:, None] == y.x[None]).sum()), xs, ys)

    wl = WLKernel(alike, DiscreteRelabeling("kind", "bond"), 2)
    close(wl(GRAPHS), subtree_gram(GRAPHS, GRAPHS, 2, "kind", "bond"))
    close(wl(GRAPHS[:2], GRAPHS[2:]), subtree_gram(GRAPHS[:2], GRAPHS[2:], 2, "kind", "bond"))


def test_rows_of_molecules_are_labels() -> None:
    """Rows of several ones, whose inner products are not 0 or 1."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import MoleculeDataset

    molecules = MoleculeDataset.from_smiles(SMILES)
    expected = subtree_gram(list(molecules), list(molecules), 2, "x", "edge_attr")
    wl = WLKernel(RandomWalkKernel(1), DiscreteRelabeling(edge_label="edge_attr"), 2)
    close(wl(molecules).double(), expected)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def matrices(*shapes: tuple[int, int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [0.6 * torch.randn(*s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("act", list(ACTIVATIONS))
@pytest.mark.parametrize("combine", ["add", "mul"])
@pytest.mark.parametrize("edges", [None, "edge_attr", "length"])
def test_generalised_relabelling(
    iterations: int, act: str, combine: str, edges: str | None
) -> None:
    """Equation 10, over walks of two nodes."""
    extra = {None: 0, "edge_attr": 2, "length": 1}[edges]
    maps = matrices((3, 3), (3, 4), (4, 3 + extra))
    sigma = ACTIVATIONS[act]
    relabel = GeneralizedRelabeling(*maps, act=act, combine=combine, edge_feature=edges)
    wl = WLKernel(RandomWalkKernel(2, 0.4), relabel, iterations)
    rounds = [
        iterated(g, lambda r: generalized_relabelling(r, *maps, sigma, combine, edges), iterations)
        for g in GRAPHS
    ]
    expected = expected_gram(walk(2, "edge_attr"), rounds)
    close(wl(GRAPHS), expected)
    close(wl(GRAPHS[:2], GRAPHS[1:]), expected[:2, 1:])
    close(wl.diagonal(GRAPHS), expected.diagonal())


@pytest.mark.parametrize("base", ["walk-1", "walk-3", "walk-3-edges", "deep"])
def test_generalised_relabelling_under_several_bases(base: str) -> None:
    kernel, definition = bases("x")[base]
    maps = matrices((3, 3), (3, 3), (3, 3))
    rounds = [
        iterated(g, lambda r: generalized_relabelling(r, *maps, torch.relu), 2) for g in GRAPHS
    ]
    expected = expected_gram(definition, rounds)
    close(WLKernel(kernel, tuple(maps), 2)(GRAPHS), expected)
    close(WLKernel(kernel, GeneralizedRelabeling(*maps), 2)(GRAPHS), expected)
    close(WLKernel(kernel, tuple(maps), 2)(Batch.from_data_list(GRAPHS)), expected)


def test_any_callable_and_other_sizes() -> None:
    """One iteration may change the number of features."""
    maps = matrices((5, 3), (5, 2), (2, 3))
    relabel = GeneralizedRelabeling(*maps, act=torch.sin)
    rounds = [
        iterated(g, lambda r: generalized_relabelling(r, *maps, torch.sin), 1) for g in GRAPHS
    ]
    close(
        WLKernel(RandomWalkKernel(2, 0.4), relabel, 1)(GRAPHS),
        expected_gram(walk(2, "edge_attr"), rounds),
    )


@pytest.mark.parametrize("relabel", ["discrete", "generalised"])
@pytest.mark.parametrize("inner", [False, True])
def test_normalised(relabel: str, inner: bool) -> None:
    """Normalised as a whole, over a base kernel that is normalised or not."""
    maps = matrices((3, 3), (3, 3), (3, 3))
    node = "kind" if relabel == "discrete" else "x"
    base = RandomWalkKernel(2, 0.4, node_feature=node, normalize=inner)
    how = DiscreteRelabeling("kind") if relabel == "discrete" else tuple(maps)
    rounds = [
        discrete(g, 2, None)
        if relabel == "discrete"
        else iterated(g, lambda r: generalized_relabelling(r, *maps, torch.relu), 2)
        for g in GRAPHS
    ]
    definition = walk(2, "edge_attr", node)
    terms = [gram(definition, graphs, graphs) for graphs in zip(*rounds, strict=True)]
    if inner:
        terms = [cosine(t, t.diagonal(), t.diagonal()) for t in terms]
    total = sum(terms)
    expected = cosine(total, total.diagonal(), total.diagonal())
    close(WLKernel(base, how, 2)(GRAPHS), total)
    close(WLKernel(base, how, 2, normalize=True)(GRAPHS), expected)
    close(WLKernel(base, how, 2, normalize=True)(GRAPHS[2:], GRAPHS[:2]), expected[2:, :2])


def test_new_graphs() -> None:
    """fit on A and transform on B is the block of fit_transform on A + B."""
    for wl in (
        WLKernel(RandomWalkKernel(2, node_feature="kind"), DiscreteRelabeling("kind", "bond")),
        WLKernel(RandomWalkKernel(2), tuple(matrices((3, 3), (3, 3), (3, 3)))),
    ):
        whole = wl.fit_transform(GRAPHS)
        found = wl.fit(GRAPHS[:3]).transform(GRAPHS[3:])
        close(torch.from_numpy(found), torch.from_numpy(whole[3:, :3]))


def test_gradients_reach_the_features() -> None:
    """Through every iteration: by finite differences of the definition."""
    maps = matrices((3, 3), (3, 3), (3, 3))
    graph = GRAPHS[0].clone()
    graph.x = graph.x.clone().requires_grad_()
    wl = WLKernel(RandomWalkKernel(2, 0.4), GeneralizedRelabeling(*maps, act="tanh"), 2)
    (found,) = torch.autograd.grad(wl([graph], GRAPHS[1:2])[0, 0], graph.x)
    direction = matrices((6, 3))[0]

    def value(step: float) -> float:
        moved = GRAPHS[0].clone()
        moved.x = moved.x + step * direction
        rounds = [
            iterated(g, lambda r: generalized_relabelling(r, *maps, torch.tanh), 2)
            for g in (moved, GRAPHS[1])
        ]
        return sum(walk(2, "edge_attr")(x, y) for x, y in zip(*rounds, strict=True))

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    assert math.isclose((found * direction).sum().item(), slope, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WLKernel(num_iterations=-1), "num_iterations"),
        (lambda: WLKernel(relabel="colours"), "relabel"),
        (lambda: WLKernel(relabel=tuple(matrices((3, 3), (3, 4), (3, 3)))), "U2|V"),
        (lambda: WLKernel(relabel=tuple(matrices((3, 3), (4, 3), (3, 3)))), "U1|U2"),
        (lambda: WLKernel(relabel=tuple(matrices((4, 4), (4, 3), (3, 4)))), "U1|V|graph 0"),
        (lambda: WLKernel(relabel=DiscreteRelabeling("absent")), "graph 0.*absent"),
    ],
    ids=["iterations", "relabel", "inner-size", "outer-size", "features", "label"],
)
def test_errors(make: Callable[[], WLKernel], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()(GRAPHS[:2])
