"""Every exact kernel against its definition by brute force, with arguments of every kind."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as fwAD
from scipy.integrate import quad
from sklearn.base import clone
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    GatedSequenceKernel,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
    arc_cosine,
    inverse_polynomial,
    polynomial,
    random_walk,
)
from tests.covering import covering
from tests.kernels.cases import (
    F64,
    both_ways,
    changed,
    characters,
    close,
    close_sums,
    graph_collection,
    identified,
    ids,
    matrices,
    numba,
    one_hot,
    random_data,
    relabeling,
    vectors,
)
from tests.kernels.definitions import counted, defined, product_graph

EITHER = [False, True]

# Activations at the ends of their range --------------------------------------------------------

# Each with its values for inner products 1, 4, -1, -4 (t = 1 and -1), and at zero diagonals.
ENDS: dict[str, tuple[Any, list[float], float]] = {
    "inverse-polynomial": (inverse_polynomial(), [1, 1, 1 / 3, 1 / 3], 0.5),
    "polynomial": (polynomial((0.5, 0.0, 0.25, 2.0)), [2.75, 132.5, -1.25, -123.5], 0.5),
    "arc-cosine-0": (arc_cosine(0), [1, 1, 0, 0], 0.0),
    "arc-cosine-1": (arc_cosine(1), [1, 4, 0, 0], 0.0),
}


@pytest.mark.parametrize("name", ENDS)
def test_activations_by_hand(name: str) -> None:
    """Exact at t = 1 and t = -1; no NaN at zero diagonals, nor where |t| is a little above 1."""
    activation, ends, none = ENDS[name]
    known, zero = torch.tensor([1.0, 4.0, -1.0, -4.0], dtype=F64), torch.zeros(3, dtype=F64)
    close(activation(known, known.abs(), known.abs()), torch.tensor(ends, dtype=F64))
    for k_xx, k_yy in [(zero, zero), (zero, zero + 1), (zero + 1, zero)]:
        close(activation(zero, k_xx, k_yy), torch.full_like(zero, none))
    for dtype in (torch.float32, F64):
        squares = torch.linspace(0.1, 7, 1000, dtype=dtype)
        for k_xy in (squares, -squares):
            values = activation(k_xy * (1 + 4 * torch.finfo(dtype).eps), squares, squares)
            assert values.dtype == dtype and values.isfinite().all()
    rows = ([0.3, -0.5], [1.0, 0.5], [0.8, 0.9])
    inner = [torch.tensor(row, dtype=F64, requires_grad=True) for row in rows]
    assert torch.autograd.gradcheck(activation, inner)
    inputs = [known.requires_grad_(), *(known.abs().detach().requires_grad_() for _ in range(2))]
    slopes = torch.autograd.grad(activation(*inputs).sum(), inputs, materialize_grads=True)
    assert all(slope.isfinite().all() for slope in slopes)
    if name.startswith("arc-cosine"):  # the angle is the root of a rounding error
        one, eps = torch.ones((), dtype=F64), torch.finfo(F64).eps
        assert activation(one - 4 * eps, one, one) == 1 != activation(one - 64 * eps, one, one)


@pytest.mark.parametrize("degree", [0, 1])
def test_arc_cosine_is_an_integral_over_random_units(degree: int) -> None:
    """Cho and Saul 2009, eq. 1: 2 E[step(w x) step(w y) (w x)^n (w y)^n], w standard normal.

    With w = r (cos a, sin a), the radius integrates to 2^n n!, and only those angles count where
    both inner products are positive.
    """
    x, y = 1.3, 0.4  # norms
    for angle in (0.0, 0.3, math.pi / 2, 3.1):
        ends, exact = (angle - math.pi / 2, math.pi / 2), {"epsabs": 1e-13, "epsrel": 1e-13}
        value, _ = quad(
            lambda a, b: (math.cos(a) * math.cos(a - b)) ** degree, *ends, angle, **exact
        )
        expected = 2**degree * math.factorial(degree) / math.pi * (x * y) ** degree * value
        numbers = (x * y * math.cos(angle), x * x, y * y)
        found = arc_cosine(degree)(*(torch.tensor([value], dtype=F64) for value in numbers))
        tolerance = 1e-7 if degree == 0 and angle == 0 else 1e-10
        assert found.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_arguments_of_activations() -> None:
    numbers = [vectors(4)[:, k] for k in range(3)]
    for coefficients in [(1, 0, 2), np.array([1.0, 0.0, 2.0])]:
        close(polynomial(coefficients)(*numbers), 1 + 2 * numbers[0] ** 2)
    close(polynomial((3.0,))(*numbers), torch.full((4,), 3.0, dtype=F64))
    for coefficients in ((1.0, -0.5), (), (0.0,), (math.nan,), (1.0, math.inf), 5):
        with pytest.raises(ValueError, match="coefficient"):
            polynomial(coefficients)  # type: ignore[arg-type]
    for degree in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match="degree"):
            arc_cosine(degree)  # type: ignore[arg-type]
    activation, below = inverse_polynomial(normalize=False), torch.tensor([1.999], dtype=F64)
    close(activation(below, below, below), torch.tensor([1000.0], dtype=F64), rtol=1e-9)
    for diagonals in [(2 + 0 * below, below), (below, 2 + 0 * below), (1.5 * below, below)]:
        with pytest.raises(ValueError, match="2"):
            activation(0 * below, *diagonals)


# Every argument ---------------------------------------------------------------------------------

ARC_COSINE = [arc_cosine(0), arc_cosine(1)]
ACTIVATIONS = [None, inverse_polynomial(), polynomial((0.3, 0.2, 0.1)), *ARC_COSINE]
QUADRATIC = polynomial([0.3, 0.5, 0.2])
NAMES: list[dict[str, Any]] = [
    {"node_feature": "x", "edge_feature": None},
    {"node_feature": "x", "edge_feature": "edge_attr"},
    {"node_feature": "kind", "edge_feature": "length"},
    {"node_feature": None, "edge_feature": "bond"},
    {"node_feature": ["x", "kind_vector"], "edge_feature": ["edge_attr", "length"]},
    {"node_feature": ["name", "degree"], "edge_feature": None},
    {"node_feature": "x", "node_label": "kind", "edge_feature": "edge_attr", "edge_label": "bond"},
    {"node_feature": None, "node_label": "pair", "edge_feature": "edge_attr"},
]


def each(kind: type[Any], strength: int = 2, /, **options: Sequence[Any]) -> list[Any]:
    """Kernels of a class; any `strength` arguments meet in all combinations of their values.

    A value that is a dictionary sets several arguments at once.
    """
    kernels = []
    for row in covering(strength, **options):
        given: dict[str, Any] = {}
        for name, value in row.items():
            given |= value if isinstance(value, dict) else {name: value}
        kernels.append(kind(**given))
    return kernels


def bases(nodes: str) -> list[Any]:
    walk = {"decay": 0.4, "node_feature": nodes}
    return [
        RandomWalkKernel(1, **walk),
        RandomWalkKernel(3, **walk, edge_feature=None),
        RandomWalkKernel(2, **walk, normalize=True),
        DeepGraphKernel(1, 2, activation=QUADRATIC, **walk),
    ]


SQUARE = matrices((3, 3), (3, 3), (3, 3))
COMPARE = ["dot", "min", "minmax"]
OF_COUNTS: dict[str, Any] = {
    "compare": COMPARE,
    "normalize": EITHER,
    "output": ["gram"],
    "node_label": ["kind", [], "pair", ("name", "degree")],
}
WEIGHTS = [[0.0, 0.0, 0.0], [0.0, 0.3, 2.5]]
NODES = [{"num_nodes": n, "min_nodes": least} for n, least in ((1, 1), (2, 2), (3, 3), (4, 1))]
OF_BONDS = {"edge_label": [None, "bond", ["bond", "length"]], **OF_COUNTS}
COUNTED = [
    *each(WLSubtreeKernel, num_iterations=[0, 1, 2, 4], **OF_BONDS),
    *each(WLSubtreeKernel, num_iterations=[2], iteration_weights=WEIGHTS, **OF_BONDS),
    *each(LabelSequenceKernel, nodes=NODES, non_backtracking=EITHER, **OF_BONDS),
    *each(ShortestPathKernel, max_length=[None, 1, 2], **OF_COUNTS),
]
TEXT_KERNELS = [
    *each(
        StringKernel,
        3,
        order=[np.int64(1), 2, 4],
        decay=[0.0, 0.4, 1],
        combine=["mul", "add"],
        weighting=["end", "span"],
        normalize=[False, "weights", "cosine"],
    ),
    *each(GatedSequenceKernel, activation=ACTIVATIONS, normalize=EITHER),
    *each(
        DeepStringKernel,
        num_layers=[1, 2, 3],
        order=[1, 2, 3],
        decay=[0.0, 0.4, 0.8, 1.0],
        activation=ACTIVATIONS,
        post=EITHER,
        normalize=EITHER,
    ),
]
GRAPH_KERNELS = [
    *(RandomWalkKernel(), DeepGraphKernel(), WLKernel()),
    RandomWalkKernel(4, non_backtracking=True),
    RandomWalkKernel(2, edge_feature="absent"),
    *each(
        RandomWalkKernel,
        order=[1, np.int64(2), 3],
        decay=[0, 0.4, 2.5],
        sum_orders=EITHER,
        non_backtracking=EITHER,
        normalize=EITHER,
        names=NAMES,
    ),
    *each(
        DeepGraphKernel,
        num_layers=[1, 2, 3],
        order=[1, 2, 3],
        combine=["mul", "add"],
        sigma=[
            {"activation": None, "decay": 0.4},
            {"activation": arc_cosine(1), "decay": 0.4},
            {"activation": QUADRATIC, "decay": 0.01},
        ],
        empty_walks=["keep", "zero"],
        normalize=EITHER,
        names=NAMES,
    ),
    *each(
        WLKernel,
        base=[*bases("kind"), LabelSequenceKernel(1), ShortestPathKernel()],
        relabel=[DiscreteRelabeling("kind", edges) for edges in ("bond", None)],
        num_iterations=[1, 3],
        normalize=EITHER,
    ),
    *(
        WLKernel(RandomWalkKernel(2, **options), num_iterations=2)  # all are labels
        for options in ({"node_feature": "kind_vector"}, {"node_label": ["name", "degree"]})
    ),
    *each(
        WLKernel,
        base=[
            *bases("x"),
            RandomWalkKernel(2, 0.4, node_label="kind"),  # labels stay beside vectors
            RandomWalkKernel(2, 0.4, node_label="pair", edge_label="bond"),
        ],
        relabel=[
            SQUARE,
            relabeling("relu", "mul", "edge_attr"),
            relabeling("tanh", "add", "length"),
            relabeling("sigmoid", "mul", None),
            relabeling(torch.sin, "add", "edge_attr"),
            relabeling(None, "mul", "length"),
        ],
        num_iterations=[0, 1, 3],
    ),
    WLKernel(RandomWalkKernel(2, 0.4), matrices((5, 3), (5, 2), (2, 3)), 1),  # to 5 features
]
GRAPHS = graph_collection()
TWO_WAYS = random_data(9, 3, [(0, 1), (1, 0), (1, 2), (2, 1)])  # directions differ in features
LOOSE = [*GRAPHS[:1], *GRAPHS[2:], both_ways(GRAPHS[0]), both_ways(GRAPHS[6]), TWO_WAYS]
VECTORS = [vectors(length, seed=length) for length in (4, 0, 1, 5, 2, 3)]
VECTORS.insert(4, torch.zeros(2, 3, dtype=F64))


def root_of_rounding(kernel: Any) -> dict[str, float]:
    """Near t = 1, arc-cosine of degree 0 is the root of 1 - t, so of rounding, in every layer."""
    if getattr(kernel, "activation", None) != ARC_COSINE[0]:
        return {}
    size = 1e-6 if isinstance(kernel, GatedSequenceKernel) else 1e-4
    return {"rtol": size, "atol": size}


@identified(TEXT_KERNELS + GRAPH_KERNELS + COUNTED)
def test_every_argument(kernel: Any) -> None:
    """Texts of no token, one token, fewer than n tokens, zeros, and longer ones, side by side.

    Graphs with loops, parallel edges, isolated nodes, one-way edges and two-way edges.
    """
    items, same = VECTORS, partial(close, **root_of_rounding(kernel))
    if kernel not in TEXT_KERNELS:  # halved, as sums may be of high degree
        items, same = [changed(graph, x=graph.x / 2) for graph in LOOSE], close_sums
    expected = defined(kernel, items)
    assert expected.isfinite().all()
    same(kernel(items), expected)
    if not isinstance(kernel, WLKernel):  # one at a time
        same(clone(kernel).set_params(max_memory=1)(items), expected)
    same(kernel(items[:2], items[1:]), expected[:2, 1:])
    same(kernel.diagonal(items), expected.diagonal())
    same(torch.from_numpy(kernel.fit(items[:4]).transform(items[3:])), expected[3:, :4])


@identified(COUNTED)
def test_the_columns_are_the_patterns(kernel: Any) -> None:
    """In some order."""
    kernel = clone(kernel).set_params(output="features", normalize=False).fit(GRAPHS[:4])
    counts = [counted(kernel, graph) for graph in GRAPHS[:4]]
    known = set().union(*counts)
    table = sorted([c.get(pattern, 0.0) for c in counts] for pattern in known)
    assert sorted(kernel.features_.toarray().T.tolist()) == table
    assert len(kernel.get_feature_names_out()) == len(known)


@identified(TEXT_KERNELS)
def test_prefixes(kernel: Any) -> None:
    for x, y in ((VECTORS[0], VECTORS[3]), (VECTORS[0], VECTORS[0]), ("abc", "ca")):
        starts = [[z[: t + 1] for t in range(len(z))] for z in (x, y)]
        found = kernel.prefixes(x) if y is x else kernel.prefixes(x, y)
        close(found, defined(kernel, *starts), **root_of_rounding(kernel))
    assert kernel.prefixes("ab", "").shape == (2, 0)
    assert kernel.prefixes(vectors(0), vectors(3)).shape == (0, 3)


@identified(TEXT_KERNELS[::2])
def test_exact_matches(kernel: Any) -> None:
    """Equal tokens count as equal one-hot vectors, whatever the tokens and the form of texts."""
    texts = ["abcab", "", "c", "aaaa", "bca"]
    expected = defined(kernel, texts[:3], texts)
    words = [[f"word {token}" for token in text] for text in texts]
    numbers, hot = list(map(ids, texts)), list(map(one_hot, texts))
    far = [[[10**12, -5, 0][i] for i in text] for text in numbers]
    tensors = [torch.tensor(text, dtype=torch.long) for text in far]
    mixed = [*map(torch.tensor, numbers[:1]), *numbers[1:4], np.array(numbers[4], dtype=np.int32)]
    lists = [*map(list, texts[:4]), tuple("bca")]
    for forms in (texts, words, numbers, hot, far, tensors, mixed, lists):
        close(kernel(forms[:3], forms), expected, **root_of_rounding(kernel))


def test_long_texts_beside_short_ones() -> None:
    """More pairs than one scan takes at a time; slices, transposes and stacked texts (N, L, F)."""
    xs = [vectors(length, 2, seed=i) for i, length in enumerate([20, 2, 0, 1])]
    texts = [characters(i % 5, seed=i) for i in range(12)]
    for combine, weighting in product(["mul", "add"], ["end", "span"]):
        kernel = StringKernel(2, 0.9, combine, weighting)
        close_sums(kernel(xs), defined(kernel, xs))
        close(kernel(texts), defined(kernel, texts))
    deep = [x[:9] / 2 for x in xs]
    for kernel in (GatedSequenceKernel(), DeepStringKernel(2, 1, 0.5)):
        close(kernel(deep), defined(kernel, deep))
    kernel, pair = StringKernel(2, 0.4), (vectors(10, 40)[::2, ::2], vectors(20, 4).t())
    close(kernel(pair), defined(kernel, pair))
    stacked = torch.stack([vectors(4, seed=seed) for seed in range(3)])
    for form in (stacked, stacked.numpy()):
        close(kernel(form, form[:2]), defined(kernel, stacked, stacked[:2]))


def test_arc_cosine_of_degree_0() -> None:
    """For equal nodes of two graphs, the angle is the root of a rounding error, 1e-8."""
    graphs = [random_data(seed) for seed in range(3)]
    kernel = DeepGraphKernel(2, 2, 0.4, activation=arc_cosine(0))
    found, expected = kernel(graphs), defined(kernel, graphs)
    close(found, expected, rtol=1e-8, atol=1e-8)
    different = ~torch.eye(3, dtype=torch.bool)
    close_sums(found[different], expected[different])


# Walks of all orders -----------------------------------------------------------------------------

UNDIRECTED = list(map(both_ways, GRAPHS))
KIND = {"node_feature": "kind", "edge_feature": "bond"}
ALL_ORDERS = [NAMES[1], {"node_feature": "kind_vector", "edge_feature": None}, KIND]


def largest_decay(graphs: list[Data], **names: Any) -> float:
    """1 / the largest spectral radius of the product graphs of each graph with itself."""
    kernel = RandomWalkKernel(None, **names)
    found = (product_graph(kernel, graph, graph)[1] for graph in graphs)
    return 1 / max(torch.linalg.eigvals(m).abs().max().item() for m in found if m.numel())


@pytest.mark.parametrize("names", ALL_ORDERS)
@pytest.mark.parametrize("graphs", [GRAPHS, UNDIRECTED], ids=["directed", "undirected"])
def test_all_orders(names: dict[str, Any], graphs: list[Data]) -> None:
    """By conjugate gradients for labels on undirected graphs, and term by term elsewhere."""
    kernel = RandomWalkKernel(None, 0.9 * largest_decay(graphs, **names), **names)
    expected = defined(kernel, graphs)
    close_sums(kernel(graphs), expected)
    close_sums(kernel(graphs[:2], graphs), expected[:2])
    close_sums(kernel.diagonal(graphs), expected.diagonal())
    options = {"decay": 0.2 * kernel.decay, "non_backtracking": True, **names}
    orders = RandomWalkKernel(24, sum_orders=True, **options)(graphs)
    close_sums(RandomWalkKernel(None, **options)(graphs), orders)


@pytest.mark.parametrize("order", [3, 4, None])
@pytest.mark.parametrize("non_backtracking", [False, True])
def test_derivatives_where_both_directions_have_equal_features(
    order: int | None, non_backtracking: bool
) -> None:
    """Each direction has its own derivative, as an edge of its own, though features are equal."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x, weight = torch.arange(1.0, 4, dtype=F64).unsqueeze(1), torch.tensor([1, 1, 2, 2.0]).to(F64)
    options = {"sum_orders": order == 4, "non_backtracking": non_backtracking}
    kernel = RandomWalkKernel(order, 0.01, **options)

    def values(weight: torch.Tensor) -> torch.Tensor:
        return kernel([Data(x=x, edge_index=edge_index, edge_attr=weight)])

    assert torch.autograd.gradcheck(values, weight.requires_grad_())
    assert torch.autograd.gradcheck(values, weight, check_forward_ad=True) or order is None


@pytest.mark.parametrize("decay", [0.5, 2.0])
def test_derivatives_of_all_orders_through_zeros(decay: float) -> None:
    """Walks through a node whose features are 0 have first and second derivatives."""
    source = torch.arange(11)
    x = torch.ones(12, 1, dtype=F64)
    x[3] = x[8] = 0
    options = {"edge_feature": None}

    def value(x: torch.Tensor, order: int | None = None) -> torch.Tensor:
        graph = Data(x=x, edge_index=torch.stack([source, source + 1]))
        ones = Data(x=torch.ones_like(x), edge_index=graph.edge_index)
        kernel = RandomWalkKernel(order, decay, sum_orders=order is not None, **options)
        return kernel([graph], [ones])[0, 0]

    for function in (torch.func.grad, torch.func.hessian):
        close(function(value)(x), function(partial(value, order=12))(x))
    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    hot = torch.eye(2, dtype=F64)[[0, 1, 0, 1]]
    slow = hot.clone().requires_grad_()
    kernel = RandomWalkKernel(None, 0.249, **options)
    sum_of_all = kernel([Data(x=slow, edge_index=ring)])
    close(sum_of_all, kernel([Data(x=hot, edge_index=ring)]), rtol=1e-9, atol=0)
    sum_of_all.sum().backward()
    with fwAD.dual_level():
        dual = Data(x=fwAD.make_dual(hot, torch.ones_like(hot)), edge_index=ring)
        found = fwAD.unpack_dual(RandomWalkKernel(None, 0.05, **options)([dual])).tangent
    close(found, torch.full((1, 1), 41.0, dtype=F64), rtol=1e-8, atol=0)


def test_close_to_the_largest_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.9999 of it the series takes over 100,000 terms; too many terms are an error."""
    names = {"node_feature": "kind", "edge_feature": None}
    kernel = RandomWalkKernel(None, 0.9999 * largest_decay(UNDIRECTED, **names), **names)
    close(kernel(UNDIRECTED), defined(kernel, UNDIRECTED), rtol=1e-9, atol=0)
    monkeypatch.setattr(random_walk, "_MOST_STEPS", 500)
    with pytest.raises(ValueError, match=r"after 500 steps; expected a smaller decay$"):
        RandomWalkKernel(None, 0.999999, non_backtracking=True)(ALIKE)


@pytest.mark.parametrize("names", ALL_ORDERS)
@pytest.mark.parametrize("size", [5, 12])
def test_a_decay_that_is_too_large(names: dict[str, Any], size: int) -> None:
    """The error names the largest admissible decay, for small graphs and for large ones."""
    graphs = [*GRAPHS[3:], random_data(8, size, 30)]
    most, options = largest_decay(graphs, **names), {"order": None, **names}
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
    for size in (3, 12):
        tree = random_data(size, size, [(v // 2, v) for v in range(1, size)])
        trees = [tree, both_ways(tree)]
        for feature, decay in (("x", 3.0), (None, 5.0)):
            options = {"decay": decay, "node_feature": feature, "non_backtracking": True}
            longest = RandomWalkKernel(size, sum_orders=True, **options)(trees)
            close_sums(RandomWalkKernel(None, **options)(trees), longest)


@pytest.mark.parametrize("scale", [1.0, 1 / 7, 257.0**2])
@pytest.mark.parametrize("compare", COMPARE)
def test_dense_and_rare_labels_in_many_blocks(compare: str, scale: float) -> None:
    """Small whole numbers are added in single precision; all others are not."""
    random = np.random.default_rng(0)
    collections = []
    for rows, chance in ((25, 0.3), (35, np.linspace(0, 1, 30) ** 4)):
        counts = random.integers(1, 9, (rows, 30)) * (random.random((rows, 30)) < chance)
        labels = (torch.arange(30).repeat_interleave(torch.from_numpy(row)) for row in counts)
        none = torch.zeros(2, 0, dtype=torch.long)
        collections.append([Data(x=x, edge_index=none) for x in labels])
    kernel = WLSubtreeKernel(0, compare=compare, iteration_weights=[scale])
    expected, within = defined(kernel, *collections), defined(kernel, collections[0])
    for is_installed, max_memory in ((True, 2**28), (True, 10_000), (False, 10_000)):
        for dtype, rtol in ((torch.float32, 1e-5), (F64, 1e-12)):
            found = clone(kernel).set_params(dtype=dtype, max_memory=max_memory)
            with numba(is_installed):
                close(found(*collections), expected.to(dtype), rtol=rtol)
                close(found(collections[0]), within.to(dtype), rtol=rtol)


# By hand -----------------------------------------------------------------------------------------

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # both ways
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
ALIKE = [Data(x=torch.zeros(3).long(), edge_index=TRIANGLE[:, :k]) for k in (6, 4)]
PALINDROME = Data(x=torch.tensor([0, 1, 0]), edge_index=PATH)
NAMED = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
EDGE = Data(x=torch.tensor([[5.0], [7.0]]), edge_index=torch.tensor([[0], [1]]))
DIAMOND = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 0, 1], [1, 1, 0]]))
THERE, BACK = (
    Data(x=torch.tensor([4, 9]), edge_index=torch.tensor(e)) for e in ([[0], [1]], [[1], [0]])
)
ONES = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
STEP = Data(x=torch.tensor([[1.0], [2.0]]), edge_index=torch.tensor([[0], [1]]))
GATE = polynomial((0.25, 0.0, 1.0))
SQUARED = polynomial((0.0, 0.0, 1.0))
SPAN = StringKernel(2, 0.3, weighting="span")
BY_HAND: list[tuple[Any, Any, Any, list[list[float]]]] = [
    # Lodhi et al. 2002, section 3: K_2(car, cat) = λ^4, K_2(car, car) = 2 λ^4 + λ^6. Their
    # exponents count every token from the first to the last of a bigram, picked or not. Our values
    # are theirs divided by λ^4; the cosine is 1 / (2 + λ^2).
    (SPAN, ["car"], ["cat", "car"], [[1, 2 + 0.3**2]]),
    (clone(SPAN).set_params(normalize="cosine"), ["car"], ["cat"], [[1 / (2 + 0.3**2)]]),
    # Lei 2017 (thesis), eq. 2.5: bigrams of "abcb" are ab (0 and 2 skipped), ac (1), bc, bb (1),
    # cb; those of "acb" are ac, ab (1), cb. Shared: ac λ, ab (1 + λ^2) λ, cb 1.
    (StringKernel(2, 0.5, weighting="span"), ["abcb"], ["acb"], [[0.5 + 1.25 * 0.5 + 1]]),
    # Lei et al. 2017, eq. 3: a bigram that starts at i weighs λ^(|x| - i - 1), wherever it ends.
    # "aba": ab and aa (i = 1) weigh λ, ba (i = 2) weighs 1. "ab": ab weighs 1. "bba": bb, ba
    # (i = 1) weigh λ, ba (i = 2) weighs 1.
    (
        StringKernel(2, 0.25),
        ["aba", "ab"],
        ["aba", "ab", "bba"],
        [[1.125, 0.25, 1.25], [0.25, 1, 0]],
    ),
    # "cab": ca and cb weigh λ and share 0 and 1 tokens with "ab"; ab weighs 1 and shares 2.
    (StringKernel(2, 0.5, "add"), ["ab"], ["ab", "cb", "ba", "b", "cab"], [[2, 1, 0, 0, 2.5]]),
    # Two layers, unigrams, λ = 1, sigma of the square. K^(1) counts equal pairs of tokens:
    # prefixes a, ab against a: 1, 1; squared: 1, 1; K^(2) adds up all pairs of prefixes: 2. "ab"
    # with itself: K^(1) is 1, 1 / 1, 2; squared 1, 1 / 1, 4; 7.
    (DeepStringKernel(2, 1, 1.0, SQUARED), ["ab"], ["a", "ab"], [[2, 7]]),
    # The gate of equal tokens is 1 / (2 - 1) = 1, that of others 1 / 2. "ab" and "cb": 1 * 0 + 1
    # from the last tokens. "ab" and "aa": (1 / 2) * 1 + 0.
    (GatedSequenceKernel(), ["ab"], ["cb", "aa", "ab"], [[1, 0.5, 2]]),
    # A path 1 -> 2 -> 3 and an edge 5 -> 7, where a node's feature is its name; parallel edges.
    (RandomWalkKernel(1, 0.5), [NAMED], [EDGE], [[6 * 12]]),
    (RandomWalkKernel(2, 0.5), [NAMED, EDGE], [EDGE, DIAMOND], [[140, 12], [0.5 * 35**2, 52.5]]),
    (RandomWalkKernel(None, 3.0), [ONES], None, [[16 + 3 * 9 + 9 * 4 + 27]]),  # 4, 3, 2, 1 walks
    (RandomWalkKernel(2, 0.5), [THERE, BACK], None, [[0.5, 0], [0, 0.5]]),  # 4 -> 9, 9 -> 4
    # A triangle of A, and a path of A: one iteration separates the ends from the middle.
    (WLSubtreeKernel(0), ALIKE, None, [[9, 9], [9, 9]]),
    (WLSubtreeKernel(1, None), ALIKE, None, [[18, 12], [12, 9 + 1 + 4]]),
    (WLSubtreeKernel(2), ALIKE, None, [[27, 12], [12, 14 + 1 + 4]]),
    (WLSubtreeKernel(1), [THERE, BACK], None, [[4, 2], [2, 4]]),  # a node reads its sources
    # A - B - A, both ways. Nodes: A twice, B once. Edges AB and BA and paths ABA: twice each. Walks
    # A-B-A may also return to the same A. Paths of one step, AB and BA, and of two, AA: twice each.
    (LabelSequenceKernel(3), [PALINDROME], None, [[4 + 1 + 3 * 4]]),
    (LabelSequenceKernel(3, non_backtracking=False), [PALINDROME], None, [[4 + 1 + 3 * 4 + 16]]),
    (ShortestPathKernel(), [PALINDROME], None, [[3 * 4]]),
    # 1 -> 2: walks of two nodes end only in the second node, and no walk has three; σ(k) is
    # 0.25 + k^2. There K_2 = 4 * 0.5 σ(1) = 2.5 or 4 + 0.5 σ(1) = 4.625; elsewhere 0, or 1 and 2.
    (DeepGraphKernel(1, 2, 0.5, "mul", GATE), [STEP], None, [[6.5 + 0.75]]),
    (DeepGraphKernel(1, 2, 0.5, "add", GATE, "zero"), [STEP], None, [[21.640625 + 3 * 0.25]]),
    (DeepGraphKernel(1, 3, 0.5, "add", GATE), [STEP], None, [[21.640625 + 1.25 + 2 * 4.25]]),
    (DeepGraphKernel(1, 3, 0.5, "add", GATE, "zero"), [STEP], None, [[1]]),
]


@pytest.mark.parametrize(("kernel", "xs", "ys", "expected"), BY_HAND)
def test_by_hand(kernel: Any, xs: Any, ys: Any, expected: list[list[float]]) -> None:
    for gram in (kernel(xs, ys), defined(kernel, xs, ys)):
        close(gram.double(), torch.tensor(expected, dtype=F64))
