"""What every exact kernel promises, on texts and on graphs."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Batch, Data, InMemoryDataset

from pyg_kernels.kernels import (
    CountKernel,
    Kernel,
    sparse_gram,
)
from pyg_kernels.ops import operator
from tests.kernels.cases import (
    CASES,
    F64,
    Case,
    close,
    continuous,
    continuous_of_each_class,
    dense,
    differentiable_everywhere,
    of_each_class,
    of_each_graph_kernel,
    of_every,
    of_graphs,
    of_texts,
    unit,
    vector_graph,
    vectors,
)
from tests.kernels.definitions import defined

# The Gram matrix ---------------------------------------------------------------------------------


@of_every
def test_the_gram_matrix(case: Case) -> None:
    """The definition's, symmetric, with its diagonal; neither order nor company touch a value."""
    kernel, xs, ys = case.build(), case.collection(), case.collection(3, seed=50)
    gram = kernel(xs)
    assert gram.shape == (8, 8) and gram.dtype == F64 and gram.isfinite().all()
    assert gram.abs().max() > 0
    assert torch.equal(gram, gram.t())
    close(kernel(xs, xs), gram, atol=case.tolerance)
    diagonal = kernel.diagonal(xs)
    assert diagonal.shape == (8,)
    close(diagonal, gram.diagonal(), atol=case.tolerance)
    between = kernel(xs, ys)
    assert between.shape == (8, 3)
    close(kernel(ys, xs), between.t(), atol=case.tolerance)
    close(between, defined(kernel, xs, ys), atol=case.tolerance)
    for i in (0, 2, 5):  # alone as among others
        close(kernel([xs[i]], [ys[1]])[0, 0], between[i, 1], atol=case.tolerance)
    moved = torch.randperm(len(xs), generator=torch.Generator().manual_seed(1)).tolist()
    shuffled = [xs[i] for i in moved]
    close(kernel(shuffled), gram[moved][:, moved], atol=case.tolerance)
    close(kernel(shuffled, xs), gram[moved], atol=case.tolerance)


@of_every
def test_positive_semi_definite(case: Case) -> None:
    gram = case.build()(case.collection(16))
    values = torch.linalg.eigvalsh(gram)
    assert values.min() >= -max(case.tolerance, 1e-10) * values.max()


@unit
def test_unit_diagonal(case: Case) -> None:
    """1 where K(x, x) > 0, and a row of zeros, not of NaN, where it is 0."""
    xs = case.collection(12)
    plain = case.build(normalize=False)(xs)
    gram = case.build()(xs)
    diagonal = plain.diagonal()
    close(gram.diagonal(), (diagonal > 0).double(), atol=case.tolerance)
    assert (diagonal > 0).any() and not gram[diagonal == 0].any()
    scale = torch.outer(diagonal, diagonal).sqrt()
    close(gram, torch.where(scale > 0, plain / scale, 0.0), atol=case.tolerance)


@of_every
def test_nothing_at_all(case: Case) -> None:
    """Texts of no tokens, graphs of no nodes: K = 0, alone or among others."""
    kernel, empty = case.build(), case.inputs.make(0, 0, F64)
    assert not kernel([empty, empty]).any()
    assert not kernel([empty, *case.collection()])[0].any()
    assert not kernel([empty], case.collection()).any()
    assert not kernel.diagonal([empty]).any()


# fit and transform -------------------------------------------------------------------------------


@of_every
def test_transform_is_a_block_of_the_whole(case: Case) -> None:
    a, b = case.collection(6), case.collection(5, seed=50)
    kernel = case.build()
    fitted = kernel.fit_transform(a, [0] * 6)
    assert sparse.issparse(fitted) if case.features else isinstance(fitted, np.ndarray)
    assert fitted.shape[0] == 6 and (not case.features or fitted.format == "csr")
    check_is_fitted(kernel)
    close(case.gram(fitted, fitted), kernel(a), atol=case.tolerance)
    transformed = kernel.transform(b)
    close(case.gram(transformed, fitted), kernel(b, a), atol=case.tolerance)
    rows = case.build().fit_transform(a + b)
    gram = case.gram(rows, rows)
    assert gram.shape == (11, 11)
    close(case.gram(transformed, fitted), gram[6:, :6], atol=case.tolerance)
    again = case.build().fit(b)
    assert again.fit(a, y=[0] * 6) is again  # which forgets the first
    close(dense(again.transform(a)), dense(fitted), atol=case.tolerance)
    close(dense(again.transform(b)), dense(transformed), atol=case.tolerance)
    other = pickle.loads(pickle.dumps(again))
    close(dense(other.transform(b)), dense(transformed), atol=case.tolerance)
    close(pickle.loads(pickle.dumps(case.build()))(a), kernel(a), atol=case.tolerance)


@of_each_class
def test_inputs_are_left_alone(case: Case) -> None:
    xs = case.collection()
    copy = pickle.loads(pickle.dumps(xs))
    case.build().fit(xs).transform(xs)
    for found, expected in zip(xs, copy, strict=True):
        if isinstance(expected, Data):
            assert found.keys() == expected.keys()
            for key, value in expected.to_dict().items():
                assert (
                    value == found[key]
                    if isinstance(value, int)
                    else torch.equal(value, found[key])
                )
        else:
            assert found == expected if isinstance(found, str) else torch.equal(found, expected)


# Blocks, precision and devices -------------------------------------------------------------------


@of_every
def test_small_blocks_give_the_same_numbers(case: Case) -> None:
    xs, ys = case.collection(), case.collection(3, seed=50)
    kernel = case.build()
    gram, between, diagonal = kernel(xs), kernel(xs, ys), kernel.diagonal(xs)
    transformed = dense(kernel.fit(xs).transform(ys))
    for max_memory in (1, 3000):
        small = case.build(max_memory=max_memory)
        close(small(xs), gram, atol=case.tolerance)
        close(small(xs, ys), between, atol=case.tolerance)
        close(small.diagonal(xs), diagonal, atol=case.tolerance)
        close(dense(small.fit(xs).transform(ys)), transformed)


@of_every
def test_without_numba(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    xs, ys = case.collection(), case.collection(3, seed=50)
    expected = case.build()(xs, ys)
    for module in (operator, sparse_gram):
        monkeypatch.setattr(module, "cpu_backend", lambda: "definition")
    close(case.build()(xs, ys), expected, atol=case.tolerance)


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor of numbers that any operation returns."""

    nbytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for part in tree_leaves(found):
            if (
                isinstance(part, Tensor)
                and part.layout == torch.strided
                and part.dtype != torch.uint8
            ):
                self.nbytes = max(self.nbytes, part.untyped_storage().nbytes())
        return found


@of_every
def test_max_memory_bounds_every_tensor(case: Case) -> None:
    """Of 13 objects there are 91 pairs, far more than fit into 6,000 bytes at once."""
    xs = case.collection(13)
    with LargestTensor() as unbounded:
        case.build().fit_transform(xs)
    with LargestTensor() as largest:
        case.build(max_memory=6000).fit_transform(xs)
    assert largest.nbytes <= 6000
    kernels = case.kernel, type(case.options.get("base"))
    counts = any(issubclass(kernel, CountKernel) for kernel in kernels)
    assert counts or unbounded.nbytes > 12_000  # counts are rows of integers, never pairs


@of_every
def test_dtypes(case: Case) -> None:
    """The dtype of continuous inputs, float64 for exact matches, or the one that is asked for."""
    single, double = (case.collection(dtype=dtype) for dtype in (torch.float32, F64))
    expected = case.build()(double)
    assert expected.dtype == F64
    of_single = torch.float32 if case.continuous else F64
    found = case.build()(single)
    assert found.dtype == of_single == case.build().diagonal(single).dtype
    assert dense(case.build().fit_transform(single)).dtype in (
        (of_single, torch.int64) if case.features else (of_single,)
    )
    scale = expected.abs().max().item()
    tolerance = max(2e-5, case.tolerance**0.5) * scale
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=tolerance)
    lower = case.build(dtype=torch.float32)
    assert lower(double).dtype == torch.float32 == lower.diagonal(double).dtype
    assert dense(lower.fit_transform(double)).dtype == torch.float32
    torch.testing.assert_close(lower(double).double(), expected, rtol=1e-4, atol=tolerance)
    higher = case.build(dtype=F64)
    assert higher(single).dtype == F64 and dense(higher.fit_transform(single)).dtype == F64
    torch.testing.assert_close(higher(single), expected, rtol=1e-4, atol=tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F64, torch.float32], ids=["float64", "float32"])
@of_every
def test_on_a_cuda_device(case: Case, dtype: torch.dtype) -> None:
    xs, ys = case.collection(dtype=dtype), case.collection(3, dtype, seed=50)
    kernel = case.build()
    moved = [[case.inputs.moved(x, "cuda") for x in part] for part in (xs, ys)]
    expected = kernel(xs, ys)
    scale = max(expected.abs().max().item(), 1.0)
    tolerance = {"rtol": 1e-9, "atol": max(1e-9, case.tolerance) * scale}
    if dtype == torch.float32:
        tolerance = {"rtol": 1e-3, "atol": max(1e-4, case.tolerance**0.5) * scale}
    found = kernel(*moved)
    there = "cpu" if isinstance(xs[0], str) else "cuda"
    assert found.device.type == there and found.dtype == expected.dtype
    torch.testing.assert_close(found.cpu(), expected, **tolerance)
    torch.testing.assert_close(kernel(moved[0]).cpu(), kernel(xs), **tolerance)
    assert kernel.diagonal(moved[0]).device.type == there
    small = case.build(max_memory=3000)
    torch.testing.assert_close(small(*moved).cpu(), expected, **tolerance)
    fitted = case.build().fit(moved[0])
    torch.testing.assert_close(
        dense(fitted.transform(moved[1])), dense(kernel.fit(xs).transform(ys)), **tolerance
    )
    other = pickle.loads(pickle.dumps(fitted))
    torch.testing.assert_close(
        dense(other.transform(moved[1])), dense(fitted.transform(moved[1])), **tolerance
    )


# Derivatives -------------------------------------------------------------------------------------


def differentiable(case: Case, sizes: Sequence[int], seed: int) -> tuple[list[Any], list[Tensor]]:
    """Objects of these sizes, and all of their continuous features as leaves."""
    items = [case.inputs.make(size, seed + i, F64) for i, size in enumerate(sizes)]
    leaves = [leaf.clone().requires_grad_() for x in items for leaf in case.inputs.leaves(x)]
    return items, leaves


def rebuilt(case: Case, items: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
    count = len(leaves) // len(items)
    parts = [leaves[i * count : (i + 1) * count] for i in range(len(items))]
    return [case.inputs.replaced(x, part) for x, part in zip(items, parts, strict=True)]


@differentiable_everywhere
def test_gradients(case: Case) -> None:
    xs, of_xs = differentiable(case, [3, 2], seed=0)
    ys, of_ys = differentiable(case, [3], seed=20)
    kernel = case.build()

    def between(*leaves: Tensor) -> Tensor:
        first = rebuilt(case, xs, leaves[: len(of_xs)])
        return kernel(first, rebuilt(case, ys, leaves[len(of_xs) :]))

    assert torch.autograd.gradcheck(between, (*of_xs, *of_ys), fast_mode=True)

    def alone(*leaves: Tensor) -> Tensor:
        return kernel.diagonal(rebuilt(case, ys, leaves))

    assert torch.autograd.gradcheck(alone, tuple(of_ys), fast_mode=True)
    if case.inputs.word == "text":
        assert torch.autograd.gradcheck(kernel.prefixes, (*of_xs[:1], *of_ys), fast_mode=True)


@differentiable_everywhere
def test_gradients_of_the_gram_matrix_of_one_collection(case: Case) -> None:
    """Each object is on both sides: its gradient is the sum over the two."""
    xs, leaves = differentiable(case, [4, 0, 2, 3], seed=0)
    kernel = case.build()
    weights = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=F64)

    def gradients(gram: Tensor, of: list[Tensor]) -> list[Tensor]:
        total = (weights * gram).sum()
        return list(torch.autograd.grad(total, of, allow_unused=True, materialize_grads=True))

    found = gradients(kernel(rebuilt(case, xs, leaves)), leaves)
    copies = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    two_sided = kernel(rebuilt(case, xs, leaves), rebuilt(case, xs, copies))
    both = gradients(two_sided, [*leaves, *copies])
    sides = zip(both[: len(leaves)], both[len(leaves) :], strict=True)
    for one, expected in zip(found, [a + b for a, b in sides], strict=True):
        close(one, expected)


@continuous
def test_gradients_are_finite(case: Case) -> None:
    """Also where objects are equal, or nothing at all, or zero."""
    xs, leaves = differentiable(case, [4, 0, 2, 1, 3], seed=0)
    with torch.no_grad():
        for leaf in leaves[-len(leaves) // 5 :]:
            leaf.zero_()
    kernel, items = case.build(), rebuilt(case, xs, leaves)
    for found in (kernel([*items, items[0]]), kernel.diagonal(items)):
        for gradient in torch.autograd.grad(found.sum(), leaves, allow_unused=True):
            assert gradient is None or gradient.isfinite().all()


@continuous
def test_fit_and_transform_keep_no_graph(case: Case) -> None:
    xs, leaves = differentiable(case, [4, 2, 3], seed=0)
    items = rebuilt(case, xs, [2 * leaf for leaf in leaves])
    kernel = case.build()
    close(dense(kernel.fit_transform(items)), kernel(items), atol=case.tolerance)
    other = pickle.loads(pickle.dumps(kernel))  # a tensor within a graph cannot be pickled
    close(dense(other.transform(items)), kernel(items), atol=case.tolerance)


@continuous
def test_blocks_do_not_change_gradients(case: Case) -> None:
    xs, leaves = differentiable(case, [4, 2, 3], seed=0)
    found = []
    for memory in (2**26, 1):
        gram = case.build(max_memory=memory)(rebuilt(case, xs, leaves), case.collection(4, seed=50))
        found.append(torch.autograd.grad(gram.square().sum(), leaves))
    for a, b in zip(*found, strict=True):
        close(a, b)


# Forms of collections ----------------------------------------------------------------------------


class Stored(InMemoryDataset):
    """A PyG dataset of given graphs."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


@of_each_graph_kernel
def test_graphs_in_every_form(case: Case) -> None:
    xs, ys = case.collection(), case.collection(3, seed=50)
    kernel = case.build()
    expected, gram = kernel(xs, ys), kernel(xs)
    batch = Batch.from_data_list(xs)  # the third graph has no nodes
    assert batch.num_graphs == 8
    for form in (tuple(xs), Stored(xs), batch):
        close(kernel(form, ys), expected, atol=case.tolerance)
        close(kernel(form), gram, atol=case.tolerance)
        close(kernel.diagonal(form), gram.diagonal(), atol=case.tolerance)
        close(dense(case.build().fit_transform(form)), dense(case.build().fit_transform(xs)))
    close(kernel(xs, Batch.from_data_list(ys)), expected, atol=case.tolerance)
    close(kernel(Stored(xs)[1:4], ys), expected[1:4], atol=case.tolerance)
    close(kernel(xs[0], ys), expected[:1], atol=case.tolerance)  # one graph


@of_each_graph_kernel
def test_a_trailing_graph_of_no_nodes_does_not_vanish(case: Case) -> None:
    xs = [case.inputs.make(size, size, F64) for size in (3, 0, 2, 0)]
    batch = Batch.from_data_list(xs)
    gram = case.build()(batch)
    assert gram.shape == (4, 4)
    close(gram, case.build()(xs), atol=case.tolerance)


@of_graphs
def test_names_of_nodes_do_not_matter(case: Case) -> None:
    xs, moved = case.collection(), []
    generator = torch.Generator().manual_seed(3)
    for graph in xs:
        names = torch.randperm(graph.num_nodes, generator=generator)
        edges = torch.randperm(graph.num_edges, generator=generator)
        x = torch.empty_like(graph.x)
        x[names] = graph.x
        index = names[graph.edge_index][:, edges] if graph.num_edges else graph.edge_index
        moved.append(Data(x=x, edge_index=index, edge_attr=graph.edge_attr[edges]))
        moved[-1].num_nodes = graph.num_nodes
    kernel = case.build()
    close(kernel(moved), kernel(xs), atol=case.tolerance)
    close(kernel(moved, xs), kernel(xs), atol=case.tolerance)


@of_texts
def test_texts_in_every_form(case: Case) -> None:
    xs = case.collection()
    kernel = case.build()
    expected = kernel(xs)
    close(kernel(tuple(xs)), expected, atol=case.tolerance)
    arrays = [list(x) if isinstance(x, str) else x.numpy() for x in xs]
    close(kernel(arrays), expected, atol=case.tolerance)
    close(kernel(arrays, xs), expected, atol=case.tolerance)


# Errors ------------------------------------------------------------------------------------------


def calls(kernel: Kernel, items: Any) -> list[Any]:
    """Every way in which a kernel meets a collection."""
    return [
        lambda: kernel(items),
        lambda: kernel.diagonal(items),
        lambda: kernel.fit(items),
        lambda: kernel.fit_transform(items),
    ]


def assert_raises(kernel: Kernel, items: Any, error: type[Exception], match: str) -> None:
    for call in calls(kernel, items):
        with pytest.raises(error, match=match):
            call()


def assert_raises_everywhere(
    case: Case, items: list[Any], match: str, error: type[Exception] = ValueError
) -> None:
    """Also in the second place, and where another collection was fitted."""
    good = case.collection(3)
    assert_raises(case.build(), items, error, match)
    with pytest.raises(error, match=match):
        case.build()(good, items)
    with pytest.raises(error, match=match):
        case.build().fit(good).transform(items)


@of_each_class
def test_what_is_no_collection(case: Case) -> None:
    assert_raises_everywhere(case, [], f"at least one {case.inputs.word}")
    for nothing in (None, 3, object(), 2.5):
        assert_raises(case.build(), nothing, TypeError, ".")


@of_each_class
def test_what_is_neither_text_nor_graph(case: Case) -> None:
    good = case.collection(2)
    for nothing in (None, 3, object()):
        match = rf"{case.inputs.word} 2\b"
        assert_raises_everywhere(case, [*good, nothing], match, TypeError)
    other = vectors(3) if case.inputs.word == "graph" else vector_graph(3, 0)
    assert_raises_everywhere(case, [*good, other], rf"{case.inputs.word} 2\b", TypeError)


@continuous_of_each_class
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_features_that_are_no_numbers(case: Case, value: float) -> None:
    items = case.collection(6)
    for place in range(len(case.inputs.leaves(items[3]))):
        leaves = [leaf.clone() for leaf in case.inputs.leaves(items[3])]
        leaves[place].view(-1)[-1] = value
        broken = [*items[:3], case.inputs.replaced(items[3], leaves), *items[4:]]
        assert_raises_everywhere(case, broken, rf"{case.inputs.word} 3\b.*(?i:nan|inf)")


@continuous_of_each_class
def test_feature_sizes_that_differ(case: Case) -> None:
    items = case.collection(6)
    for place in range(len(case.inputs.leaves(items[4]))):
        leaves = list(case.inputs.leaves(items[4]))
        leaves[place] = leaves[place][:, :-1]
        narrow = case.inputs.replaced(items[4], leaves)
        assert_raises_everywhere(case, [*items[:4], narrow], rf"{case.inputs.word} 4\b")
        with pytest.raises(ValueError, match=rf"{case.inputs.word} 0\b"):
            case.build()(items, [narrow])


@of_texts
def test_tokens_beside_vectors(case: Case) -> None:
    items = case.collection(2)
    assert_raises_everywhere(case, [*items, vectors(3) if not case.continuous else "ab"], "text 2")


NO_COUNTS = [0, -1, 1.5, True, "2", None, nan]
WRONG: list[tuple[str, str, list[Any]]] = [
    *((name, "order", NO_COUNTS) for name in ("string", "deep-string", "deep-graph")),
    ("walk", "order", NO_COUNTS[:-2]),
    *((name, "num_layers", NO_COUNTS) for name in ("deep-string", "deep-graph")),
    *(
        (name, "num_iterations", NO_COUNTS[1:])
        for name in ("subtree-features", "subtree-gram", "wl-labels", "wl-matrices")
    ),
    *((name, "decay", [-0.1, 1.01, nan, inf, True]) for name in ("string", "deep-string")),
    *((name, "decay", [-0.1, nan, inf, "1"]) for name in ("walk", "deep-graph")),
    *((name, "max_memory", [0, -5, 1.5]) for name in ("string", "walk", "subtree-gram")),
    *((name, "verbose", [-1, 1.5, "yes"]) for name in ("string", "walk", "subtree-gram")),
    *((name, "dtype", [torch.long, "float64"]) for name in ("string", "walk", "subtree-gram")),
    *((name, "combine", ["times", None]) for name in ("string", "deep-graph")),
    ("string", "weighting", ["start", None]),
    ("string", "normalize", ["unit", True, "weight"]),
    ("deep-string", "normalize", ["cosine"]),
    ("walk", "normalize", ["weights"]),
    ("deep-graph", "empty_walks", ["drop", None]),
    ("subtree-features", "output", ["dense", None]),
    ("wl-labels", "relabel", ["continuous", None]),
]


@pytest.mark.parametrize(("name", "argument", "values"), WRONG)
def test_wrong_arguments(name: str, argument: str, values: list[Any]) -> None:
    """The constructor takes anything; whatever uses it says what is wrong."""
    case = CASES[name]
    for value in values:
        assert_raises(case.build(**{argument: value}), case.collection(3), ValueError, argument)


@pytest.mark.parametrize("name", ["string", "deep-string", "walk", "deep-graph"])
def test_numbers_of_other_types(name: str) -> None:
    case = CASES[name]
    xs = case.collection(3)
    close(case.build(order=np.int64(2))(xs), case.build(order=2)(xs))
    for value in (0, 1):
        close(case.build(decay=value)(xs), case.build(decay=float(value))(xs))
    if case.inputs.word == "graph":
        assert case.build(decay=1.5)(xs).isfinite().all()


def changed(graph: Data, **attributes: Any) -> Data:
    found = graph.clone()
    for name, value in attributes.items():
        if value is None:
            del found[name]
        else:
            found[name] = value
    return found


@of_each_graph_kernel
def test_broken_graphs(case: Case) -> None:
    items = case.collection(5)
    graph = items[3]
    index = graph.edge_index
    assert graph.num_nodes == 6 and graph.num_edges == 12
    broken = {
        "out of range": changed(graph, edge_index=torch.where(index == index[0, 0], 6, index)),
        "negative": changed(graph, edge_index=index - 10),
        "three rows": changed(graph, edge_index=index.view(3, 8)),
        "one dimension": changed(graph, edge_index=index.flatten()),
        "floats": changed(graph, edge_index=index.double()),
        "no edges": changed(graph, edge_index=None),
    }
    reads_nodes = case.options.get("node_label", "x") is not None
    if reads_nodes:
        broken["no features"] = changed(graph, x=None, num_nodes=6)
        broken["rows"] = changed(graph, x=graph.x[:-1], num_nodes=6)
    for what, bad in broken.items():
        try:
            assert_raises_everywhere(case, [*items[:3], bad, items[4]], r"graph 3\b")
        except BaseException as error:
            raise AssertionError(f"{what}: {error}") from error


@pytest.mark.parametrize(
    "name", ["walk", "walk-labels", "subtree-features-cosine", "deep-graph-mul", "wl-labels-cosine"]
)
def test_broken_features_of_edges(name: str) -> None:
    """One row an edge, in all graphs or in none."""
    case = CASES[name]
    items = case.collection(5)
    for bad in (
        changed(items[3], edge_attr=None),
        changed(items[3], edge_attr=items[3].edge_attr[:-1]),
    ):
        broken = [*items[:3], bad, items[4]]
        assert_raises(case.build(), broken, ValueError, r"graph \d")
        with pytest.raises(ValueError, match=r"graph \d"):
            case.build()(items, broken)
