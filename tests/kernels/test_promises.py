"""The promises of every exact kernel, on texts and on graphs."""

import pickle
import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import (
    CountKernel,
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    RandomWalkKernel,
    StringKernel,
    inverse_polynomial,
)
from tests.kernels.cases import (
    F64,
    Case,
    Stored,
    changed,
    close,
    continuous,
    dense,
    differentiable_everywhere,
    numba,
    of_each_class,
    of_every,
    vector_graph,
    vectors,
)
from tests.kernels.definitions import defined
from tests.promises import LargestTensor


@of_every
def test_the_gram_matrix(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the definition's, symmetric, with its diagonal; no value depends on order or company.

    If one object is compared with many, the progress bar counts as many pairs as there are values.
    No bar appears where it is not asked for, or where nobody would see it.
    """
    kernel, xs, ys = case.build(), case.collection(), case.collection(3, seed=50)
    gram, between = kernel(xs), kernel(xs, ys)
    assert gram.shape == (8, 8) and gram.isfinite().all() and gram.abs().max() > 0
    assert torch.equal(gram, gram.t())
    close(kernel(xs, xs), gram, atol=case.tolerance)
    close(kernel.diagonal(xs), gram.diagonal(), atol=case.tolerance)
    close(kernel(ys, xs), between.t(), atol=case.tolerance)
    close(between, defined(kernel, xs, ys), atol=case.tolerance)
    for i in (0, 2, 5):  # alone as among others
        close(kernel([xs[i]], [ys[1]])[0, 0], between[i, 1], atol=case.tolerance)
    order = torch.randperm(len(xs), generator=torch.Generator().manual_seed(1)).tolist()
    close(kernel([xs[i] for i in order], xs), gram[order], atol=case.tolerance)
    values = torch.linalg.eigvalsh(kernel(case.collection(16)))
    assert values.min() >= -max(case.tolerance, 1e-10) * values.max()
    empty = case.inputs.make(0, 0, F64)  # no tokens, no nodes: K = 0, alone or among others
    for found in (kernel([empty, empty]), kernel([empty, *xs])[0], kernel([empty], xs)):
        assert not found.any()
    assert not kernel.diagonal([empty]).any()
    case.build(verbose=False)(ys)
    assert capsys.readouterr() == ("", "")
    close(case.build(verbose=True)(ys[:1], xs), between[:, :1].t(), atol=case.tolerance)
    out, bar = capsys.readouterr()
    assert not out and set(re.findall(r"/([\d.]+k?) \[", bar)) == {"8.00"} and "pairs" in bar
    assert type(getattr(kernel, "base", kernel)).__name__ in bar or "Gram matrix" in bar
    if case.inputs.word == "graph":  # the numbering of nodes is irrelevant
        moved = [x.subgraph(torch.arange(x.num_nodes).flip(0)) for x in xs]
        close(kernel(moved, xs), gram, atol=case.tolerance)


@of_every
def test_transform_is_a_block_of_the_whole(case: Case) -> None:
    a, b = case.collection(6), case.collection(5, seed=50)
    kernel = case.build()
    kernel(a)
    with pytest.raises(NotFittedError):  # a call does not fit
        kernel.transform(b)
    fitted = kernel.fit_transform(a, [0] * 6)
    assert sparse.issparse(fitted) if case.features else isinstance(fitted, np.ndarray)
    assert fitted.shape[0] == 6 and (not case.features or fitted.format == "csr")
    check_is_fitted(kernel)
    close(case.gram(fitted, fitted), kernel(a), atol=case.tolerance)
    transformed = kernel.transform(b)
    close(case.gram(transformed, fitted), kernel(b, a), atol=case.tolerance)
    again = case.build().fit(b)
    assert again.fit(a, y=[0] * 6) is again  # forgets the first fit
    close(dense(again.transform(a)), dense(fitted), atol=case.tolerance)
    close(dense(again.transform(b)), dense(transformed), atol=case.tolerance)
    other = pickle.loads(pickle.dumps(again))
    close(dense(other.transform(b)), dense(transformed), atol=case.tolerance)
    before = pickle.dumps(b)  # inputs stay as they are
    again.fit(b).transform(b)
    assert pickle.dumps(b) == before
    again.set_params(**again.get_params()).transform(b)  # the same arguments
    name, values = case.grid  # with other arguments nothing is fitted
    value = next(value for value in values if value is not again.get_params()[name])
    with pytest.raises(NotFittedError):
        again.set_params(**{name: value}).transform(b)


@of_every
def test_small_blocks_and_no_numba_give_the_same_numbers(case: Case) -> None:
    """The 91 pairs of 13 objects need far more than 6,000 bytes at once."""
    xs, ys = case.collection(13), case.collection(2, seed=51)
    kernel, few = case.build(), xs[:4]
    gram, between = kernel(few), kernel(few, ys)
    transformed = dense(kernel.fit(few).transform(ys))
    for max_memory in (1, 3000):
        small = case.build(max_memory=max_memory)
        close(small(few), gram, atol=case.tolerance)
        close(small.diagonal(few), gram.diagonal(), atol=case.tolerance)
        close(dense(small.fit(few).transform(ys)), transformed)
    close(small(few, ys), between, atol=case.tolerance)
    with numba(is_installed=False):
        close(kernel(few, ys), between, atol=case.tolerance)
    with LargestTensor() as unbounded:
        kernel.fit_transform(xs)
    with LargestTensor() as largest:
        case.build(max_memory=6000).fit_transform(xs)
    assert largest.nbytes <= 6000
    counts = isinstance(getattr(case.kernel, "base", case.kernel), CountKernel)
    assert counts or unbounded.nbytes > 12_000  # counts are rows of integers, never pairs


@of_every
def test_dtypes(case: Case) -> None:
    """Continuous inputs keep their dtype, exact matches give float64, unless `dtype` is set."""
    single, double = (case.collection(dtype=dtype) for dtype in (torch.float32, F64))
    expected, own = case.build()(double), torch.float32 if case.continuous else F64
    assert expected.dtype == F64
    tolerance = max(2e-5, case.tolerance**0.5) * expected.abs().max().item()
    for asked, given, wanted in (
        (None, single, own),
        (torch.float32, double, torch.float32),
        (F64, single, F64),
    ):
        kernel = case.build(dtype=asked)
        found, fitted = kernel(given), dense(kernel.fit_transform(given)).dtype
        assert found.dtype == wanted == kernel.diagonal(given).dtype
        assert fitted == wanted or (case.features and asked is None and fitted == torch.int64)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F64, torch.float32], ids=["float64", "float32"])
@of_every
def test_on_a_cuda_device(case: Case, dtype: torch.dtype) -> None:
    xs, ys = case.collection(dtype=dtype), case.collection(3, dtype, seed=50)
    there = [[x if isinstance(x, str) else x.clone().to("cuda") for x in part] for part in (xs, ys)]
    kernel = case.build()
    expected, fitted = kernel(xs, ys), case.build().fit(there[0])
    single = dtype == torch.float32
    rtol, least = (1e-3, max(1e-4, case.tolerance**0.5)) if single else (1e-9, 1e-9)
    atol = max(least, case.tolerance) * max(expected.abs().max().item(), 1.0)
    found, device = kernel(*there), "cpu" if isinstance(xs[0], str) else "cuda"
    assert found.device.type == device and found.dtype == expected.dtype
    assert kernel.diagonal(there[0]).device.type == device
    transformed = dense(kernel.fit(xs).transform(ys))
    other = pickle.loads(pickle.dumps(fitted))
    for value, wanted in (
        (found, expected),
        (kernel(there[0]), kernel(xs)),
        (case.build(max_memory=3000)(*there), expected),
        (dense(fitted.transform(there[1])), transformed),
        (dense(other.transform(there[1])), transformed),
    ):
        close(value.cpu(), wanted, rtol=rtol, atol=atol)


def differentiable(case: Case, sizes: Sequence[int], seed: int) -> tuple[list[Any], list[Tensor]]:
    """Objects of these sizes, and leaves for all of their continuous features."""
    items = [case.inputs.make(size, seed + i, F64) for i, size in enumerate(sizes)]
    leaves = [leaf.clone().requires_grad_() for x in items for leaf in case.inputs.leaves(x)]
    return items, leaves


def rebuilt(case: Case, items: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
    count = len(leaves) // len(items)
    parts = [leaves[i * count : (i + 1) * count] for i in range(len(items))]
    return [case.inputs.replaced(x, part) for x, part in zip(items, parts, strict=True)]


@pytest.mark.usefixtures("threads")
@differentiable_everywhere
def test_gradients(case: Case) -> None:
    """Between two collections, within one, and of the diagonal.

    Blocks give the same gradients, which other threads would lose; the first needs none.
    """
    xs, of_xs = differentiable(case, [3, 2], seed=0)
    ys, of_ys = differentiable(case, [3], seed=20)
    kernel, blocks = case.build(), case.build(max_memory=1)

    def between(*leaves: Tensor, kernel: Any = kernel) -> Tensor:
        first = rebuilt(case, xs, leaves[: len(of_xs)])
        return kernel(first, rebuilt(case, ys, leaves[len(of_xs) :]))

    def within(*leaves: Tensor, kernel: Any = kernel) -> Tensor:
        return kernel([case.inputs.make(0, 0, F64), *rebuilt(case, xs, leaves)])

    def alone(*leaves: Tensor, kernel: Any = kernel) -> Tensor:
        return kernel.diagonal(rebuilt(case, xs, leaves))

    for function, leaves in ((between, (*of_xs, *of_ys)), (within, of_xs), (alone, of_xs)):
        assert torch.autograd.gradcheck(function, tuple(leaves), fast_mode=True)
        whole, parts = (function(*leaves, kernel=k).square().sum() for k in (kernel, blocks))
        expected = torch.autograd.grad(whole, leaves, allow_unused=True, materialize_grads=True)
        found = torch.autograd.grad(parts, leaves, allow_unused=True, materialize_grads=True)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    if case.inputs.word == "text":
        assert torch.autograd.gradcheck(kernel.prefixes, (*of_xs[:1], *of_ys), fast_mode=True)


@continuous
def test_gradients_are_finite(case: Case) -> None:
    """Also where objects are equal, empty or zero; a fit records no gradients."""
    xs, leaves = differentiable(case, [4, 0, 2, 1, 3], seed=0)
    with torch.no_grad():
        for leaf in leaves[-len(leaves) // 5 :]:
            leaf.zero_()
    kernel, items = case.build(), rebuilt(case, xs, leaves)
    for found in (kernel([*items, items[0]]), kernel.diagonal(items)):
        for gradient in torch.autograd.grad(found.sum(), leaves, allow_unused=True):
            assert gradient is None or gradient.isfinite().all()
    items = rebuilt(case, xs, [2 * leaf for leaf in leaves])
    close(dense(kernel.fit_transform(items)), kernel(items), atol=case.tolerance)
    other = pickle.loads(pickle.dumps(kernel))  # a tensor within a graph cannot be pickled
    close(dense(other.transform(items)), kernel(items), atol=case.tolerance)


@of_each_class
def test_every_form(case: Case) -> None:
    """Some graphs have no nodes; one of them is the last graph."""
    xs, ys = case.collection(11), case.collection(3, seed=50)
    kernel = case.build()
    expected, gram = kernel(xs, ys), kernel(xs)
    if case.inputs.word == "graph":
        forms: list[Any] = [Batch.from_data_list(xs), Stored(xs)]
        close(kernel(xs, Batch.from_data_list(ys)), expected, atol=case.tolerance)
        close(kernel(Stored(xs)[1:4], ys), expected[1:4], atol=case.tolerance)
        close(kernel(xs[0], ys), expected[:1], atol=case.tolerance)  # one graph
    else:
        forms = [[list(x) if isinstance(x, str) else x.numpy() for x in xs]]
    for form in (tuple(xs), *forms):
        close(kernel(form, ys), expected, atol=case.tolerance)
        close(kernel(form), gram, atol=case.tolerance)
        close(kernel.diagonal(form), gram.diagonal(), atol=case.tolerance)
        close(dense(case.build().fit_transform(form)), dense(case.build().fit_transform(xs)))


def broken_collections(case: Case) -> Iterator[tuple[Any, str, type[Exception]]]:
    """Broken collections, each with a pattern for the message and the type of the error."""
    word, good, kernel = case.inputs.word, case.collection(6), case.kernel
    yield [], f"at least one {word}", ValueError
    for nothing in (3, object()):
        yield nothing, ".", TypeError
    for nothing in (None, 3, object(), vectors(3) if word == "graph" else vector_graph(3, 0)):
        yield [*good[:2], nothing], rf"{word} 2\b", TypeError
    if word == "text":
        yield [*good[:2], "ab" if case.continuous else vectors(3)], "text 2", ValueError
    for place, leaf in enumerate(case.inputs.leaves(good[3])):
        leaves = list(case.inputs.leaves(good[3]))
        for value in (nan, inf, -inf):
            leaves[place] = leaf.clone()
            leaves[place].view(-1)[-1] = value
            bad = case.inputs.replaced(good[3], leaves)
            yield [*good[:3], bad, *good[4:]], rf"{word} 3\b.*(?i:nan|inf)", ValueError
    for narrow in narrower(case, good[3]):
        yield [*good[:3], narrow], rf"{word} 3\b", ValueError
    if word == "graph":
        for bad in broken_graphs(good[3], getattr(kernel, "node_label", "x") is not None):
            yield [*good[:3], bad, good[4]], r"graph 3\b", ValueError
        readers = (kernel, getattr(kernel, "relabel", None))
        names = [getattr(r, f"edge_{role}", "") for r in readers for role in ("label", "feature")]
        for rows in (None, good[3].edge_attr[:-1]) if "edge_attr" in names else ():
            bad = changed(good[3], edge_attr=rows)  # a row per edge, in all graphs or none
            yield [*good[:3], bad, good[4]], r"graph \d", ValueError


def narrower(case: Case, item: Any) -> Iterator[Any]:
    """For each of the item's features, the item with one column less in that feature."""
    for place, leaf in enumerate(case.inputs.leaves(item)):
        leaves = list(case.inputs.leaves(item))
        leaves[place] = leaf[:, :-1]
        yield case.inputs.replaced(item, leaves)


def broken_graphs(graph: Data, reads_nodes: bool) -> Iterator[Data]:
    """Variants of a graph of 6 nodes and 12 edges: indices out of range, wrong shapes and types."""
    index = graph.edge_index
    out_of_range = torch.where(index == index[0, 0], 6, index)
    others = (index - 10, index.view(3, 8), index.flatten(), index.double(), None)
    for other in (out_of_range, *others):
        yield changed(graph, edge_index=other)
    if reads_nodes:
        yield changed(graph, x=None, num_nodes=6)
        yield changed(graph, x=graph.x[:-1], num_nodes=6)


@of_each_class
def test_broken_collections(case: Case) -> None:
    """Every call that takes a collection raises the error."""
    good, kernel = case.collection(3), case.build()
    calls = [kernel, kernel.diagonal, kernel.fit, kernel.fit_transform, partial(kernel, good)]
    calls.append(case.build().fit(good).transform)
    for items, match, error in broken_collections(case):
        for call in calls:
            with pytest.raises(error, match=match):
                call(items)
    with pytest.raises(TypeError):
        kernel(None)
    good = case.collection(6)
    for narrow in narrower(case, good[4]):
        with pytest.raises(ValueError, match=rf"{case.inputs.word} 0\b"):
            kernel(good, [narrow])


NO_COUNTS, NO_NAMES = [0, -1, 1.5, True, "2", nan], [3, ["x", None], {"x": 1}]
WRONG: dict[str, list[Any]] = {
    "order": NO_COUNTS,
    **{key: [*NO_COUNTS, None] for key in ("num_layers", "num_nodes", "min_nodes", "min_count")},
    **dict.fromkeys(("node_label", "node_feature", "edge_label", "edge_feature"), NO_NAMES),
    "num_iterations": [*NO_COUNTS[1:], None],
    "iteration_weights": [[1.0], [1, 1, 1, -1.0], [1, 1, 1, inf], [1, 1, 1, nan]],
    "max_length": [0, 1.5],
    "max_memory": [0, -5, 1.5],
    "verbose": [-1, 1.5, "yes"],
    "dtype": [torch.long, "float64"],
    "decay": [-0.1, nan, inf, True, "1"],
    "combine": ["times", None],
    "weighting": ["start", None],
    "normalize": ["unit", "weight"],
    "non_backtracking": [1],
    "activation": [inverse_polynomial],
    "empty_walks": ["drop", None],
    "output": ["dense", None],
    "compare": ["max"],
    "relabel": ["continuous", None, DiscreteRelabeling],
    "analyzer": ["words"],
}
ALSO: dict[type[Any], dict[str, list[Any]]] = {
    StringKernel: {"order": [None], "decay": [1.01], "normalize": [True], "tokenizer": [str.split]},
    DeepStringKernel: {"order": [None], "decay": [1.01], "normalize": ["cosine"]},
    RandomWalkKernel: {"normalize": ["weights"]},
    DeepGraphKernel: {"order": [None]},
}


@of_each_class
def test_wrong_arguments(case: Case) -> None:
    """The constructor accepts anything; every call that uses it says what is wrong."""
    kind, items = type(case.kernel), case.collection(1)
    for argument in kind().get_params(deep=False):
        for value in WRONG.get(argument, []) + ALSO.get(kind, {}).get(argument, []):
            found = kind(**{argument: value})
            for call in (found, found.diagonal, found.fit, found.fit_transform):
                with pytest.raises(ValueError, match=argument):
                    call(items)
