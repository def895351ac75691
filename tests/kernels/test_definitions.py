"""Every exact kernel against its definition by brute force, with arguments of every sort."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    CountKernel,
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
    sparse_gram,
)
from tests.kernels.cases import (
    F64,
    both_ways,
    characters,
    close,
    close_sums,
    graph_collection,
    ids,
    one_hot,
    random_data,
    vectors,
)
from tests.kernels.definitions import (
    compared,
    cosine,
    counted,
    defined,
    product_graph,
    spelled,
    total_weight,
)
from tests.string_kernels import ngrams, string_features, tabulated_additive_state, weight

COMBINE, WEIGHTING = ["mul", "add"], ["end", "span"]


def identified(kernels: list[Any]) -> pytest.MarkDecorator:
    names = [f"{type(kernel).__name__}-{number}" for number, kernel in enumerate(kernels)]
    return pytest.mark.parametrize("kernel", kernels, ids=names)


# Texts -------------------------------------------------------------------------------------------

ARC_COSINE = [arc_cosine(0), arc_cosine(1)]
ACTIVATIONS = [None, inverse_polynomial(), polynomial((0.3, 0.2, 0.1)), *ARC_COSINE]
SHAPES = [(1, 1, 0.5), (1, 3, 0.5), (2, 1, 0.4), (2, 3, 1.0), (3, 2, 0.0), (3, 2, 0.8)]
TEXT_KERNELS = [
    *(
        StringKernel(order, decay, combine, weighting)
        for order, decay in ((1, 0.4), (2, 0.0), (2, 0.4), (3, 0.7), (3, 1.0), (4, 0.4))
        for combine in COMBINE
        for weighting in WEIGHTING
    ),
    *map(GatedSequenceKernel, ACTIVATIONS),
    *(DeepStringKernel(2, 2, 0.6, a, post) for a in ACTIVATIONS for post in (False, True)),
    *(
        DeepStringKernel(*shape, activation, post)
        for shape, activation in zip(SHAPES, cycle(ACTIVATIONS[2:]), strict=False)
        for post in (False, True)
    ),
]
NORMALIZATIONS = {StringKernel: (False, "weights", "cosine")}


def root_of_rounding(kernel: Any) -> dict[str, float]:
    """Near t = 1 arc-cosine of degree 0 is the root of 1 - t: of rounding, once in every layer."""
    if getattr(kernel, "activation", None) != ARC_COSINE[0]:
        return {}
    size = 1e-6 if isinstance(kernel, GatedSequenceKernel) else 1e-4
    return {"rtol": size, "atol": size}


@identified(TEXT_KERNELS)
def test_texts(kernel: Any) -> None:
    """No text, one token, texts shorter than n, zeros, and longer ones, side by side."""
    xs = [vectors(length, seed=i) for i, length in enumerate([4, 0, 1, 5])]
    xs.append(torch.zeros(2, 3, dtype=F64))
    ys = [vectors(length, seed=9 + i) for i, length in enumerate([5, 2, 3])]
    for normalize in NORMALIZATIONS.get(type(kernel), (False, True)):
        kernel = clone(kernel).set_params(normalize=normalize)
        expected = defined(kernel, xs)
        close(kernel(xs), expected, **root_of_rounding(kernel))
        close(kernel.diagonal(xs), expected.diagonal(), **root_of_rounding(kernel))
        close(kernel(xs, ys), defined(kernel, xs, ys), **root_of_rounding(kernel))


@identified(TEXT_KERNELS[::2])
def test_exact_matches(kernel: Any) -> None:
    """Equal tokens are equal one-hot vectors, whatever the tokens are."""
    texts = ["abcab", "", "c", "aaaa", "bca"]
    expected = defined(kernel, texts[:3], texts)
    words = [[f"word {token}" for token in text] for text in texts]
    for forms in (texts, words, [ids(t) for t in texts], [one_hot(t) for t in texts]):
        close(kernel(forms[:3], forms), expected, **root_of_rounding(kernel))


@identified(TEXT_KERNELS[::3])
def test_prefixes(kernel: Any) -> None:
    x, y = vectors(4), vectors(3, seed=1)
    for normalize in NORMALIZATIONS.get(type(kernel), (False, True)):
        kernel = clone(kernel).set_params(normalize=normalize)
        for other in (y, x):
            starts = ([z[: t + 1] for t in range(len(z))] for z in (x, other))
            found = kernel.prefixes(x, other) if other is y else kernel.prefixes(x)
            close(found, defined(kernel, *starts), **root_of_rounding(kernel))
    starts = [["a", "ab", "abc"], ["c", "ca"]]
    close(kernel.prefixes("abc", "ca"), defined(kernel, *starts), **root_of_rounding(kernel))
    assert kernel.prefixes("ab", "").shape == (2, 0)
    assert kernel.prefixes(vectors(0), vectors(3)).shape == (0, 3)


@pytest.mark.parametrize("weighting", WEIGHTING)
@pytest.mark.parametrize("combine", COMBINE)
def test_long_texts_beside_short_ones(combine: str, weighting: str) -> None:
    """More pairs than one scan takes at a time, too."""
    xs = [vectors(length, 2, seed=i) for i, length in enumerate([20, 2, 0, 1])]
    kernel = StringKernel(2, 0.9, combine, weighting)
    close_sums(kernel(xs), defined(kernel, xs))
    texts = [characters(i % 5, seed=i) for i in range(12)]
    close(kernel(texts), defined(kernel, texts))
    deep = [x[:9] / 2 for x in xs]
    for kernel in (GatedSequenceKernel(), DeepStringKernel(2, 1, 0.5)):
        close(kernel(deep), defined(kernel, deep))


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("ab", max_size=6), min_size=1, max_size=4),
    order=st.integers(1, 4),
    decay=st.floats(0, 1),
    options=st.tuples(st.sampled_from(COMBINE), st.sampled_from(WEIGHTING)),
    normalize=st.sampled_from([False, "weights", "cosine"]),
)
def test_any_texts(
    texts: list[str], order: int, decay: float, options: tuple[str, str], normalize: Any
) -> None:
    kernel = StringKernel(order, decay, *options, normalize=normalize)
    close(kernel(texts), defined(kernel, texts))


def test_forms_of_texts() -> None:
    """Any whole numbers as tokens, forms mixed, (N, L, F) in memory, slices and transposes."""
    texts = ["abcab", "cab", "aab"]
    kernel = StringKernel(2, 0.4)
    expected = defined(kernel, texts)
    far = [[[10**12, -5, 0][i] for i in ids(text)] for text in texts]
    mixed = [ids("abcab"), torch.tensor(ids("cab")), np.array(ids("aab"), dtype=np.int32)]
    for form in (far, list(map(torch.tensor, far)), mixed, ["abcab", list("cab"), tuple("aab")]):
        close(kernel(form), expected)
    close(kernel(mixed, list(map(ids, texts))), expected)
    x = torch.stack([vectors(4, seed=seed) for seed in range(3)])
    close(kernel(x, x[:2]), defined(kernel, x, x[:2]))
    close(kernel(x.numpy()), defined(kernel, x))
    x, y = vectors(10, 40, seed=1)[::2, ::2], vectors(20, 4, seed=2).t()
    close(kernel([x], [y]), defined(kernel, [x], [y]))


def test_any_function_of_three_tables() -> None:
    """An activation kernel of the user's own: the signature is all that is asked of it."""

    def half(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        return 0.25 + k_xy / 2 + 0 * (k_xx + k_yy)

    texts = [characters(length, seed=length) for length in [4, 5, 0]]
    expected = defined(GatedSequenceKernel(polynomial((0.25, 0.5))), texts)
    close(GatedSequenceKernel(half)(texts), expected)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_table_5(order: int) -> None:
    """Lei et al. 2017, table 5: the kernels are the inner products of its maps."""
    decay = 0.4
    xs = [vectors(length, 2, seed=length) for length in [5, order, 3, 0]]
    weights = [total_weight(len(x), order, decay) for x in xs]
    scales = torch.tensor([1 / w if w else 0.0 for w in weights], dtype=F64)[:, None]
    plain = torch.stack([string_features(x, order, decay) for x in xs])
    joined = torch.zeros(len(xs), order * 2, dtype=F64)
    for row, x in zip(joined, xs, strict=True):
        for picked in ngrams(len(x), order):
            row += weight(picked, len(x), decay) * torch.cat([x[i] for i in picked])
    for rows, options in (
        (plain, {}),
        (scales * plain, {"normalize": "weights"}),
        (scales * joined, {"normalize": "weights", "combine": "add"}),
    ):
        close(StringKernel(order, decay, **options)(xs), rows @ rows.t())


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_table_2_1(order: int) -> None:
    """Thesis, table 2.1: c_n[t] / C_n[t] is the kernel against a reference string of n tokens."""
    x, decay = vectors(6, seed=3), 0.6
    references = [vectors(order, seed=4 + i) for i in range(3)]
    projections = [x @ torch.stack([w[j] for w in references]).t() for j in range(order)]
    value, total = tabulated_additive_state(projections, decay, exactly=False)
    kernel = StringKernel(order, decay, combine="add", normalize="weights")
    close(kernel([x], references)[0], value / total)
    assert total == pytest.approx(total_weight(6, order, decay), rel=1e-12)


def test_the_map_of_a_gated_sequence() -> None:
    """phi(x_{1:t}) = [x_t, phi(x_{1:t-1}) (x) phi_sigma(x_t)], exact for a polynomial gate."""
    coefficients = (0.5, 0.25, 0.125)
    b = torch.tensor(coefficients, dtype=F64).sqrt()

    def features(x: Tensor) -> Tensor:
        found = torch.zeros(0, dtype=F64)
        for token in x:
            gate = torch.cat([b[:1], b[1] * token, b[2] * torch.outer(token, token).flatten()])
            found = torch.cat([token, torch.outer(found, gate).flatten()])
        return found

    maps = [features(vectors(length, 2, seed=length)) for length in [1, 3, 2, 4, 0]]
    rows = torch.nn.utils.rnn.pad_sequence(maps, batch_first=True)
    texts = [vectors(length, 2, seed=length) for length in [1, 3, 2, 4, 0]]
    close(GatedSequenceKernel(polynomial(coefficients))(texts), rows @ rows.t())


def test_kernels_that_are_others() -> None:
    """One layer is the string kernel; unigrams at decay 0 are the last token in every layer."""
    xs = [vectors(length, seed=length) for length in [5, 0, 2, 40]]
    close(DeepStringKernel(1, 3, 0.7)(xs), StringKernel(3, 0.7)(xs))
    last = torch.stack([x[-1] if len(x) else torch.zeros(3, dtype=F64) for x in xs])
    close(DeepStringKernel(4, 1, 0.0, polynomial((0.0, 1.0)))(xs), last @ last.t())


# Graphs ------------------------------------------------------------------------------------------

GRAPHS = graph_collection()
LOOSE = [*GRAPHS[:3], *GRAPHS[5:], both_ways(GRAPHS[0]), both_ways(GRAPHS[6])]
OLD, NEW = GRAPHS[:4], GRAPHS[4:] + GRAPHS[1:2]
NODES = ["x", "kind", "kind_vector"]
EDGES = [None, "edge_attr", "length", "bond", "bond_vector"]
PAIRS = [("x", "edge_attr"), ("kind", None), ("kind", "bond")]
QUADRATIC = polynomial([0.3, 0.5, 0.2])


def features(nodes: str | None, edges: str | None) -> dict[str, Any]:
    return {"node_feature": nodes, "edge_feature": edges}


def matrices(*shapes: tuple[int, int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [0.6 * torch.randn(*s, generator=generator, dtype=F64) for s in shapes]


SQUARE = matrices((3, 3), (3, 3), (3, 3))
WIDTHS = {None: 3, "edge_attr": 5, "length": 4}


def bases(nodes: str) -> list[Any]:
    walk = {"decay": 0.4, "node_feature": nodes}
    return [
        RandomWalkKernel(1, **walk),
        RandomWalkKernel(3, **walk, edge_feature=None),
        RandomWalkKernel(2, **walk, normalize=True),
        DeepGraphKernel(1, 2, activation=QUADRATIC, **walk),
    ]


def generalized(act: Any, combine: str, edges: str | None) -> GeneralizedRelabeling:
    maps = matrices((3, 3), (3, 4), (4, WIDTHS[edges]))
    return GeneralizedRelabeling(*maps, act=act, combine=combine, edge_feature=edges)


WALKS = [
    RandomWalkKernel(),
    *(RandomWalkKernel(3, 0.4, **features(*pair)) for pair in product(NODES, EDGES)),
    *(RandomWalkKernel(n, 0.4, **features(*pair)) for n in (1, 2, 4) for pair in PAIRS),
    *(RandomWalkKernel(3, decay, sum_orders=True) for decay in (0.0, 0.7, 2.5)),
    RandomWalkKernel(2, edge_feature="absent"),
]
ONWARDS = [
    RandomWalkKernel(n, 0.4, sum_orders=several, non_backtracking=True, **features(*pair))
    for n, several in ((1, False), (2, False), (3, True), (5, False))
    for pair in PAIRS
]
DEEP = [
    DeepGraphKernel(),
    *(
        DeepGraphKernel(layers, order, decay, combine, activation, empty, edge_feature=edges)
        for (layers, order, combine, empty), (activation, decay), edges in zip(
            product((1, 2, 3), (1, 2, 3), COMBINE, ("keep", "zero")),
            cycle([(None, 0.4), (QUADRATIC, 0.01), (arc_cosine(1), 0.4)]),
            cycle([None, None, "edge_attr", "edge_attr", None]),
            strict=False,
        )
    ),
    *(
        DeepGraphKernel(2, 2, 0.4, combine, **features(*pair))
        for pair, combine in zip(product(NODES, EDGES), cycle(COMBINE), strict=False)
    ),
]
RELABELED = [
    *(
        WLKernel(base, DiscreteRelabeling("kind", edges), number)
        for base in bases("kind")
        for number, edges in ((0, None), (1, "bond"), (3, None))
    ),
    *(WLKernel(base, tuple(SQUARE), 2) for base in bases("x")),
    *(
        WLKernel(RandomWalkKernel(2, 0.4), generalized(act, combine, edges), number)
        for act, combine, edges, number in (
            ("relu", "add", None, 0),
            ("relu", "mul", "edge_attr", 1),
            ("tanh", "add", "length", 3),
            ("sigmoid", "mul", None, 3),
            (torch.sin, "add", "edge_attr", 2),
            (None, "mul", "length", 1),
        )
    ),
    WLKernel(  # one iteration may change the number of features
        RandomWalkKernel(2, 0.4), tuple(matrices((5, 3), (5, 2), (2, 3))), 1
    ),
    WLKernel(RandomWalkKernel(2), DiscreteRelabeling("kind", "bond"), 2),  # labels, whatever x has
]


def halved(graphs: list[Data]) -> list[Data]:
    """The same with smaller features, for sums of high degree."""
    found = [graph.clone() for graph in graphs]
    for graph in found:
        graph.x = 0.5 * graph.x
    return found


@identified([*WALKS, *ONWARDS, *DEEP, *RELABELED])
def test_graphs(kernel: Any) -> None:
    """With loops, parallel edges, isolated nodes, edges of one direction and of both."""
    graphs = LOOSE if getattr(kernel, "non_backtracking", False) else GRAPHS
    graphs = halved(graphs) if isinstance(kernel, DeepGraphKernel) else graphs
    expected = defined(kernel, graphs)
    assert expected.isfinite().all()
    close_sums(kernel(graphs), expected)
    close_sums(kernel(graphs[:2], graphs[1:]), expected[:2, 1:])
    close_sums(kernel.diagonal(graphs), expected.diagonal())
    unit = cosine(expected, expected.diagonal(), expected.diagonal())
    close_sums(clone(kernel).set_params(normalize=True)(graphs), unit)


def test_arc_cosine_of_degree_0() -> None:
    """Between equal nodes of two graphs the angle is the root of a rounding error, 1e-8."""
    graphs = [random_data(seed) for seed in range(3)]
    kernel = DeepGraphKernel(2, 2, 0.4, activation=arc_cosine(0))
    found, expected = kernel(graphs), defined(kernel, graphs)
    close(found, expected, rtol=1e-8, atol=1e-8)
    different = ~torch.eye(3, dtype=torch.bool)
    close_sums(found[different], expected[different])


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("empty_walks", ["keep", "zero"])
def test_without_activation_it_is_the_random_walk_kernel(order: int, empty_walks: str) -> None:
    """One multiplicative layer with K_σ = K."""
    edges, linear = {"edge_feature": "edge_attr"}, polynomial([0.0, 1.0])
    deep = DeepGraphKernel(1, order, 0.4, "mul", linear, empty_walks, **edges)
    close_sums(deep(GRAPHS), RandomWalkKernel(order, 0.4, **edges)(GRAPHS))


def test_reversing_every_edge_changes_nothing() -> None:
    reverse = [g.clone() for g in GRAPHS]
    for graph in reverse:
        graph.edge_index = graph.edge_index.flip(0)
    kernel = RandomWalkKernel(4, 0.4)
    close_sums(kernel(reverse), kernel(GRAPHS))
    assert not torch.allclose(kernel(reverse, GRAPHS), kernel(GRAPHS))


@pytest.mark.parametrize("kernel", [RandomWalkKernel(4, 0.7), WLSubtreeKernel(2, "x", "edge_attr")])
def test_edges_that_lead_both_ways_with_different_features(kernel: Any) -> None:
    """The same features, each way round on a path: walks differ from walks read backwards."""
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=F64)
    graphs = [
        Data(x=x, edge_index=index, edge_attr=torch.tensor(bonds, dtype=F64))
        for bonds in ([1.0, 3.0, 2.0, 5.0], [3.0, 1.0, 5.0, 2.0])
    ]
    expected = defined(kernel, graphs)
    assert expected[0, 1] < expected[0, 0]
    close(kernel(graphs), expected)


# Walks of all orders -----------------------------------------------------------------------------

UNDIRECTED = list(map(both_ways, GRAPHS))
ALL_ORDERS = [("x", "edge_attr"), ("kind_vector", None), ("kind", "bond")]


def test_undirected_graphs_beside_directed_ones() -> None:
    """Either side may have walks that are others backwards."""
    directed = random_data(7, 4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    kernel, sides = RandomWalkKernel(4, 0.4), ([both_ways(directed)], [directed, GRAPHS[0]])
    for xs, ys in (sides, sides[::-1]):
        close_sums(kernel(xs, ys), defined(kernel, xs, ys))


def largest_decay(graphs: list[Data], *pair: str | None) -> float:
    """1 / the spectral radius of the product graphs of each graph with itself."""
    kernel = RandomWalkKernel(None, **features(*pair))
    found = (product_graph(kernel, graph, graph)[1] for graph in graphs)
    return 1 / max(torch.linalg.eigvals(m).abs().max().item() for m in found if m.numel())


@pytest.mark.parametrize("pair", ALL_ORDERS)
@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("graphs", [GRAPHS, UNDIRECTED], ids=["directed", "undirected"])
def test_all_orders(pair: tuple[str, str | None], share: float, graphs: list[Data]) -> None:
    """By conjugate gradients for labels on undirected graphs, term by term elsewhere."""
    kernel = RandomWalkKernel(None, share * largest_decay(graphs, *pair), **features(*pair))
    expected = defined(kernel, graphs)
    close_sums(kernel(graphs), expected)
    close_sums(kernel(graphs[:2], graphs), expected[:2])
    close_sums(kernel.diagonal(graphs), expected.diagonal())
    unit = cosine(expected, expected.diagonal(), expected.diagonal())
    close_sums(clone(kernel).set_params(normalize=True)(graphs), unit)


def test_close_to_the_largest_decay() -> None:
    """0.9999 of it, where the series takes over 100,000 terms."""
    decay = 0.9999 * largest_decay(UNDIRECTED, "kind", None)
    kernel = RandomWalkKernel(None, decay, **features("kind", None))
    close(kernel(UNDIRECTED), defined(kernel, UNDIRECTED), rtol=1e-9, atol=0)


@pytest.mark.parametrize("pair", ALL_ORDERS)
def test_all_orders_that_never_turn_back(pair: tuple[str, str | None]) -> None:
    graphs = [GRAPHS[0], *GRAPHS[2:], *UNDIRECTED]
    decay = 0.2 * largest_decay(graphs, *pair)
    options = {"decay": decay, "non_backtracking": True, **features(*pair)}
    orders = RandomWalkKernel(24, sum_orders=True, **options)(graphs)
    close_sums(RandomWalkKernel(None, **options)(graphs), orders)


@pytest.mark.parametrize("pair", ALL_ORDERS)
@pytest.mark.parametrize("size", [5, 12])
def test_a_decay_that_is_too_large(pair: tuple[str, str | None], size: int) -> None:
    """The error names the largest that is admissible; of small graphs, and of large ones."""
    graphs = [*GRAPHS[3:], random_data(8, size, 30)]
    most = largest_decay(graphs, *pair)
    options = {"order": None, **features(*pair)}
    with pytest.raises(ValueError, match="expected less than") as error:
        RandomWalkKernel(decay=1.001 * most, **options)(graphs)
    named = float(str(error.value).partition("less than ")[2].partition(",")[0])
    assert named == pytest.approx(most, rel=1e-5)
    for collection in (graphs[:1], graphs):
        RandomWalkKernel(decay=0.9 * most, **options).fit(graphs[:1]).transform(collection)
    kernel = RandomWalkKernel(decay=1.001 * most, **options).fit(graphs[:1])
    with pytest.raises(ValueError, match="expected less than"):
        kernel.transform(graphs)


def test_walks_that_end_have_all_orders_with_any_decay() -> None:
    path = Data(x=torch.ones(4, 1).double(), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert RandomWalkKernel(None, 3.0)([path]).item() == 16 + 3 * 9 + 9 * 4 + 27
    both = Data(x=path.x, edge_index=torch.cat([path.edge_index, path.edge_index.flip(0)], 1))
    kernel = RandomWalkKernel(None, 3.0, non_backtracking=True)
    assert kernel([both]).item() == 16 + 3 * 36 + 9 * 16 + 27 * 4
    for size in (3, 12):
        tree = random_data(size, size, [(v // 2, v) for v in range(1, size)])
        trees = [tree, both_ways(tree)]
        for feature, decay in (("x", 3.0), (None, 5.0)):
            options = {"decay": decay, "node_feature": feature, "non_backtracking": True}
            longest = RandomWalkKernel(size, sum_orders=True, **options)(trees)
            close_sums(RandomWalkKernel(None, **options)(trees), longest)


def test_sums_over_all_orders_end() -> None:
    kernel = RandomWalkKernel(order=None, decay=0.999999, non_backtracking=True)
    with pytest.raises(ValueError, match="has not converged"):
        kernel(["c1ccccc1"])


# Counts ------------------------------------------------------------------------------------------

WEIGHTS = (None, [0.0, 0.0, 0.0], [0.0, 0.3, 2.5])
COUNTED = [
    *(
        WLSubtreeKernel(2, "kind", edges, iteration_weights=weights)
        for edges in (None, "bond")
        for weights in WEIGHTS
    ),
    *(WLSubtreeKernel(number, "kind", "bond") for number in (0, 1, 5)),
    WLSubtreeKernel(3, None, "bond"),
    WLSubtreeKernel(3, None),
    *(
        LabelSequenceKernel(number, "kind", edges, non_backtracking=forward)
        for number, edges in ((1, None), (2, "bond"), (3, None), (4, "bond"))
        for forward in (False, True)
    ),
    *(LabelSequenceKernel(3, "kind", "bond", min_nodes=number) for number in (2, 3)),
    *(ShortestPathKernel(most, "kind") for most in (None, 1, 2)),
    ShortestPathKernel(node_label=None),
]


@identified(COUNTED)
@pytest.mark.parametrize("compare", ["dot", "min", "minmax"])
def test_counts(kernel: CountKernel, compare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown patterns of new graphs count in totals and norms, but have no column."""
    kernel = clone(kernel).set_params(compare=compare, output="gram")
    whole = defined(kernel, LOOSE)
    expected, diagonals = defined(kernel, NEW, OLD), [defined(kernel, gs) for gs in (NEW, OLD)]
    unit = cosine(expected, *(gram.diagonal() for gram in diagonals))
    normal = clone(kernel).set_params(normalize=True)
    for backend in ("numba", "definition"):
        if backend == "definition":
            monkeypatch.setattr(sparse_gram, "cpu_backend", lambda: "definition")
        close(kernel(LOOSE), whole)
        close(kernel(LOOSE, LOOSE), whole)
        close(kernel(NEW, OLD), expected)
        close(torch.from_numpy(kernel.fit(OLD).transform(NEW)), expected)
        close(normal(NEW, OLD), unit)
        close(torch.from_numpy(normal.fit(OLD).transform(NEW)), unit)
        single = clone(kernel).set_params(dtype=torch.float32)(NEW, OLD)
        torch.testing.assert_close(single, expected.float(), rtol=2e-6, atol=1e-6)
    if compare == "dot":
        for own, wanted in ((kernel, expected), (normal, unit)):
            own = clone(own).set_params(output="features").fit(OLD)
            fitted, found = own.transform(OLD), own.transform(NEW)
            assert fitted.shape[1] == found.shape[1] == len(own.get_feature_names_out())
            close(torch.from_numpy((found @ fitted.T).toarray()), wanted)


@pytest.mark.parametrize("edges", [None, "bond"])
def test_walks_of_one_node_are_the_subtree_kernel(edges: str | None) -> None:
    relabel, subtrees = DiscreteRelabeling("kind", edges), WLSubtreeKernel(2, "kind", edges)
    for base in (RandomWalkKernel(1, node_feature="kind"), LabelSequenceKernel(1)):
        close(WLKernel(base, relabel, 2)(GRAPHS), subtrees(GRAPHS))
    paths = WLKernel(ShortestPathKernel(), DiscreteRelabeling("kind"), 0)(GRAPHS)
    close(paths, ShortestPathKernel(node_label="kind")(GRAPHS))
    graphs = [Data(x=g.kind_vector, edge_index=g.edge_index) for g in GRAPHS]  # rows are labels
    expected = defined(WLSubtreeKernel(3), graphs)
    for relabel in ("discrete", DiscreteRelabeling()):
        close(WLKernel(RandomWalkKernel(1), relabel, 3)(graphs), expected)
    close(WLKernel(RandomWalkKernel(1))(graphs), expected)


@pytest.mark.parametrize(
    ("n", "m", "scale"),
    [(0, 3, 1.0), (1, 1, 1.0), (40, 55, 1.0), (40, 55, 1 / 7), (40, 55, 2.0**22), (70, None, 1.0)],
)
@pytest.mark.parametrize("compare", ["dot", "min", "minmax"])
def test_dense_and_rare_columns_in_many_blocks(
    compare: str, n: int, m: int | None, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that are whole and small are added in single precision, others are not."""
    random = np.random.default_rng(0)
    x, y = (
        scale * random.integers(1, 9, (rows, 30)) * (random.random((rows, 30)) < chance)
        for rows, chance in ((n, 0.3), (m or 0, np.linspace(0, 1, 30) ** 4))
    )
    counts = [[dict(enumerate(row)) for row in rows] for rows in (x, x if m is None else y)]
    expected = np.array([[compared(compare, a, b) for b in counts[1]] for a in counts[0]])
    for backend, rows in (("numba", 2048), ("numba", 7), ("definition", 7)):
        with monkeypatch.context() as patch:
            patch.setattr(sparse_gram, "_ROWS", rows)
            if backend == "definition":
                patch.setattr(sparse_gram, "cpu_backend", lambda: "definition")
            for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-12)):
                sides = [sparse.csr_matrix(side.astype(dtype)) for side in (x, y)]
                sides[1] = None if m is None else sides[1]
                found = sparse_gram.sparse_gram(*sides, 2**20, False, compare)
                assert found.dtype == dtype
                np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=rtol)


def test_large_numbers_are_exact() -> None:
    """Labels beside 2^53, which a float64 does not tell apart; products of counts above 2^24."""
    edge = torch.tensor([[0], [1]])
    graphs = [Data(kind=torch.tensor([2**53 + i, -7]), edge_index=edge) for i in (0, 1)]
    for kernel in (RandomWalkKernel(1, node_feature="kind"), WLSubtreeKernel(0, "kind")):
        assert kernel(graphs).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    sizes = [5001, 4999]
    graphs = [Data(x=torch.zeros(n, dtype=torch.long), edge_index=edge[:, :0]) for n in sizes]
    assert WLSubtreeKernel(0)(graphs).tolist() == [[a * b for b in sizes] for a in sizes]


def test_features_count_patterns() -> None:
    """The columns are the patterns, in some order: as many, with the same counts."""
    for kernel in (WLSubtreeKernel(3, "kind", "bond"), WLSubtreeKernel(2, None)):
        counts = [counted(kernel, graph) for graph in GRAPHS]
        known = sorted(set().union(*counts))
        expected = [[c.get(p, 0.0) for c in counts] for p in known]
        found = kernel.fit_transform(GRAPHS)
        assert sorted(found.toarray().T.tolist()) == sorted(expected)
        assert (found != kernel.transform(GRAPHS)).nnz == 0
        assert (kernel.transform(GRAPHS[::-1]) != found[::-1]).nnz == 0


# By hand -----------------------------------------------------------------------------------------

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # both ways
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
ALIKE = [Data(x=torch.zeros(3).long(), edge_index=TRIANGLE[:, :k]) for k in (6, 4)]
NAMED = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
EDGE = Data(x=torch.tensor([[5.0], [7.0]]), edge_index=torch.tensor([[0], [1]]))
DIAMOND = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 0, 1], [1, 1, 0]]))
THERE, BACK = (
    Data(x=torch.tensor([4, 9]), edge_index=torch.tensor(e)) for e in ([[0], [1]], [[1], [0]])
)
SQUARED = polynomial((0.0, 0.0, 1.0))
SPAN = StringKernel(2, 0.3, weighting="span")
BY_HAND: list[tuple[Any, Any, Any, list[list[float]]]] = [
    # Lodhi et al. 2002, section 3: K_2(car, cat) = λ^4, K_2(car, car) = 2 λ^4 + λ^6. Their
    # exponents count every token from the first to the last of a bigram, picked or not: ours are
    # theirs over λ^4, and 1 / (2 + λ^2) as a cosine.
    (SPAN, ["car"], ["cat", "car"], [[1, 2 + 0.3**2]]),
    (clone(SPAN).set_params(normalize="cosine"), ["car"], ["cat"], [[1 / (2 + 0.3**2)]]),
    # Lei 2017 (thesis), eq. 2.5: bigrams of "abcb" are ab (0 and 2 skipped), ac (1), bc, bb (1),
    # cb; those of "acb" are ac, ab (1), cb. Shared: ac λ, ab (1 + λ^2) λ, cb 1.
    (StringKernel(2, 0.5, weighting="span"), ["abcb"], ["acb"], [[0.5 + 1.25 * 0.5 + 1]]),
    # Lei et al. 2017, eq. 3: an i before the end weighs λ^(|x| - i - 1), whatever j is.
    # "aba": ab and aa (i = 1) weigh λ, ba (i = 2) weighs 1. "ab": ab weighs 1. "bba": bb, ba
    # (i = 1) weigh λ, ba (i = 2) weighs 1.
    (
        StringKernel(2, 0.25),
        ["aba", "ab"],
        ["aba", "ab", "bba"],
        [[1.125, 0.25, 1.25], [0.25, 1, 0]],
    ),
    # Partial matches: "ab" and "cb" share their second token, "ab" and "ba" none in its place.
    # "cab": ca and cb weigh λ and share 0 and 1 with "ab"; ab weighs 1 and shares 2.
    (StringKernel(2, 0.5, "add"), ["ab"], ["ab", "cb", "ba", "b", "cab"], [[2, 1, 0, 0, 2.5]]),
    # At decay 0 only the last n-gram ('end') or the consecutive ones ('span') weigh: 0^0 = 1.
    (StringKernel(2, 0.0), ["abc"], ["bbc"], [[1]]),
    (StringKernel(2, 0.0, weighting="span"), ["abab"], ["abcab"], [[4]]),
    # Two layers, unigrams, λ = 1, sigma of the square. K^(1) counts equal pairs of tokens:
    # prefixes a, ab against a: 1, 1; squared: 1, 1; K^(2) adds up all pairs of prefixes: 2. "ab"
    # with itself: K^(1) is 1, 1 / 1, 2; squared 1, 1 / 1, 4; 7.
    (DeepStringKernel(2, 1, 1.0, SQUARED), ["ab"], ["a", "ab"], [[2, 7]]),
    # The gate of equal tokens is 1 / (2 - 1) = 1, that of others 1 / 2. "ab" and "cb": 1 * 0 + 1
    # from the last tokens. "ab" and "aa": (1 / 2) * 1 + 0. "cab" and "cbb": the last tokens match,
    # with gate 1; b before a does not, with gate 1 / 2; then c matches.
    (GatedSequenceKernel(), ["ab"], ["cb", "aa", "ab"], [[1, 0.5, 2]]),
    (GatedSequenceKernel(), ["cab"], ["cbb"], [[1.5]]),
    # A path 1 -> 2 -> 3 and an edge 5 -> 7, each node's feature its name; parallel edges.
    (RandomWalkKernel(1, 0.5), [NAMED], [EDGE], [[6 * 12]]),
    (RandomWalkKernel(2, 0.5), [NAMED, EDGE], [EDGE, DIAMOND], [[140, 12], [0.5 * 35**2, 52.5]]),
    (RandomWalkKernel(3, 0.5), [NAMED], [EDGE], [[0]]),
    (RandomWalkKernel(2, 0.5), [THERE, BACK], None, [[0.5, 0], [0, 0.5]]),  # 4 -> 9, 9 -> 4
    # A triangle of A, and a path of A: one iteration parts the ends from the middle.
    (WLSubtreeKernel(0), ALIKE, None, [[9, 9], [9, 9]]),
    (WLSubtreeKernel(1, None), ALIKE, None, [[18, 12], [12, 9 + 1 + 4]]),
    (WLSubtreeKernel(2), ALIKE, None, [[27, 12], [12, 14 + 1 + 4]]),
    (WLSubtreeKernel(1), [THERE, BACK], None, [[4, 2], [2, 4]]),  # a node reads its sources
]


@pytest.mark.parametrize(("kernel", "xs", "ys", "expected"), BY_HAND)
def test_by_hand(kernel: Any, xs: Any, ys: Any, expected: list[list[float]]) -> None:
    for gram in (kernel(xs, ys), defined(kernel, xs, ys)):
        close(gram.double(), torch.tensor(expected, dtype=F64))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_lodhi(order: int, decay: float) -> None:
    """Lodhi et al. 2002, definition 1: λ to the length of either occurrence, over all u."""
    texts = ["science", "is organized", "nice", "", "sc"]

    def occurrences(text: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for picked in ngrams(len(text), order):
            u = "".join(text[i] for i in picked)
            found[u] = found.get(u, 0.0) + decay ** (picked[-1] - picked[0] + 1)
        return found

    counts = [occurrences(text) for text in texts]
    expected = [[compared("dot", f, g) for g in counts] for f in counts]
    found = decay ** (2 * order) * StringKernel(order, decay, weighting="span")(texts)
    close(found, torch.tensor(expected, dtype=F64))


@pytest.mark.parametrize("weighting", WEIGHTING)
@pytest.mark.parametrize(("order", "decay"), [(1, 0.4), (2, 0.0), (3, 1.0), (4, 0.4)])
def test_weights_sum_to_one(order: int, decay: float, weighting: str) -> None:
    """Of texts of the token 1 alone, a normalised kernel is the mean match: 1, or n added up."""
    lengths = [1, 2, 3, 7, 0]
    texts = [torch.ones(length, 1, dtype=F64) for length in lengths]
    some = torch.tensor([float(length >= order) for length in lengths], dtype=F64)
    for combine, most in (("mul", 1), ("add", order)):
        kernel = StringKernel(order, decay, combine, weighting, normalize="weights")
        close(kernel(texts), most * torch.outer(some, some))


@pytest.mark.parametrize("combine", COMBINE)
def test_nodes_that_end_no_walk(combine: str) -> None:
    """An edge 0 -> 1: only node 1 ends a walk of two nodes, and no node one of three."""
    graph = Data(x=torch.tensor([[1.0], [2.0]]).double(), edge_index=torch.tensor([[0], [1]]))

    def value(order: int, empty_walks: str) -> float:
        activation = polynomial([0.25, 0.0, 1.0])
        kernel = DeepGraphKernel(1, order, 0.5, combine, activation, empty_walks)
        return kernel([graph], [graph]).item()

    def sigma(k: float) -> float:
        return 0.25 + k * k

    end = 4 * 0.5 * sigma(1) if combine == "mul" else 4 + 0.5 * sigma(1)
    kept, mixed = (0, 0) if combine == "mul" else (1, 2)
    assert value(2, "keep") == sigma(end) + sigma(kept) + 2 * sigma(mixed)
    assert value(2, "zero") == sigma(end) + 3 * 0.25
    assert value(3, "zero") == 4 * 0.25
    if combine == "add":
        assert value(3, "keep") == sigma(4 + 0.5 * sigma(1)) + sigma(1) + 2 * sigma(2)


def test_paths_by_hand() -> None:
    """A - B - A: three nodes, two edges both ways, and one path of three nodes both ways."""
    graph = Data(x=torch.tensor([0, 1, 0]), edge_index=PATH)
    assert sorted(LabelSequenceKernel(3).fit_transform([graph]).data) == [1, 2, 2, 2, 2]
    assert sorted(ShortestPathKernel().fit_transform([graph]).data) == [2, 2, 2]
    all_walks = LabelSequenceKernel(3, non_backtracking=False).fit_transform([graph])
    assert sorted(all_walks.data) == [1, 2, 2, 2, 2, 4]  # A-B-A also by way of the same A


def test_brute_force_spells_numbers() -> None:
    graph = Data(x=torch.tensor([[0.0], [-0.0], [1.0]]))
    assert spelled(graph, "x", 3) == ["[0.0]", "[0.0]", "[1.0]"]
