"""Random features: unbiased estimates of the kernels, with errors as the design states them."""

import itertools
import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    GatedSequenceKernel,
    RandomWalkKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
)
from tests.kernels.cases import changed, graph_collection, random_data
from tests.kernels.definitions import defined
from tests.sequence.texts import random_text

NUM_FEATURES = 20_000
GRAPHS = [g for i, g in enumerate(graph_collection()) if i != 1]
TEXTS = [random_text(length, 3, seed=length) for length in (6, 4, 3, 0, 1)]
TOKENS = [[0, 1, 2, 0, 1], [1, 1, 0, 2], [2, 0], [], [1]]
WORDS = [["a", "b", "c", "a", "b"], ["b", "b", "a", "c"], ["c", "a"], [], ["b"]]


WALK = {"decay": 0.4, "edge_feature": None}
TYPED = {"node_feature": "kind", "edge_feature": "bond"}
LABELLED = {"node_label": "kind", "edge_label": "bond"}
ONWARDS, UNIT = {"non_backtracking": True, "sum_orders": True}, {"normalize": "weights"}
#: A kernel, its inputs, and the number of random factors per walk.
CASES: dict[str, tuple[Any, Sequence[Any], int]] = {
    **{f"walk-{n}": (RandomWalkKernel(n, **WALK), GRAPHS, n) for n in (1, 2, 3)},
    "walk-edges": (RandomWalkKernel(3, 0.4), GRAPHS, 5),
    "walk-lengths": (RandomWalkKernel(2, 0.4, edge_feature="length"), GRAPHS, 3),
    "walk-labels": (RandomWalkKernel(3, 0.4, **TYPED), GRAPHS, 5),
    "walk-labels-and-vectors": (RandomWalkKernel(2, 0.5, **LABELLED), GRAPHS, 6),
    "walk-onwards": (RandomWalkKernel(3, 0.4, **ONWARDS), GRAPHS, 5),
    "walk-without-decay": (RandomWalkKernel(2, 0.0, sum_orders=True), GRAPHS, 1),
    "walk-summed": (RandomWalkKernel(3, sum_orders=True, **WALK), GRAPHS, 3),
    "walk-summed-edges": (RandomWalkKernel(3, 0.4, sum_orders=True), GRAPHS, 5),
    **{
        f"text-{how}-{n}": (StringKernel(n, 0.6, weighting=how), TEXTS, n)
        for how, n in itertools.product(("end", "span"), (1, 2, 3))
    },
    **{
        f"text-{how}-weights": (StringKernel(2, 0.6, weighting=how, **UNIT), TEXTS, 2)
        for how in ("end", "span")
    },
    "text-without-decay": (StringKernel(2, 0.0), TEXTS, 2),
    "text-decay-1": (StringKernel(2, 1.0), TEXTS, 2),
    "tokens": (StringKernel(2, 0.6), TOKENS, 2),
    "words": (StringKernel(2, 0.6, weighting="span"), WORDS, 2),
}


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def estimates(kernel: Any, inputs: Any, seed: int = 0, number: int = NUM_FEATURES) -> Tensor:
    """One estimate of the Gram matrix for each feature, (m, n, n)."""
    features = RandomFeatures(kernel, number, seed).fit_transform(inputs)
    assert isinstance(features, np.ndarray)
    assert features.shape == (len(inputs), number)
    rows = math.sqrt(number) * torch.from_numpy(features).double().t()
    return rows[:, :, None] * rows[:, None, :]


def assert_unbiased(found: Tensor, exact: Tensor) -> Tensor:
    """The mean over the first dimension is exact within 5 standard errors; gives deviations."""
    deviation = found.std(dim=0)
    error = 5 * deviation / math.sqrt(len(found)) + 1e-10 * exact.abs().max()
    assert ((found.mean(dim=0) - exact).abs() <= error).all()
    return deviation


@pytest.mark.parametrize("name", list(CASES))
def test_mean_and_deviation(name: str) -> None:
    """The mean over features equals the kernel within 5 standard errors, entry by entry.

    Fewer than 1 in 2,000 choices of the seed make any of all 600 entries fail by chance. A single
    feature deviates by at most 3^(d/2) √(K(G, G) K(G', G')), with d random factors per walk:
    its nodes and edges have one each, or two, for labels and for vectors.
    """
    kernel, inputs, degree = CASES[name]
    exact = defined(kernel, inputs)
    deviation = assert_unbiased(estimates(kernel, inputs), exact)
    assert (deviation > 0).any() or name == "walk-without-decay"
    root = torch.outer(exact.diagonal(), exact.diagonal()).sqrt()
    assert (deviation <= 3 ** (degree / 2) * root + 1e-9).all()


@pytest.mark.parametrize("name", ["walk-edges", "text-span-2"])
def test_unbiased_over_seeds(name: str) -> None:
    """Few features and many seeds: different seeds are as independent as different features."""
    kernel, inputs, _ = CASES[name]
    found = torch.stack([estimates(kernel, inputs, seed, 8).mean(dim=0) for seed in range(100)])
    assert assert_unbiased(found, defined(kernel, inputs)).max() > 0


def test_weights_are_signs_and_defaults() -> None:
    """With order 1, one node and one number, features are that number with either sign."""
    graph = Data(x=torch.tensor([[2.0]], dtype=torch.float64), edge_index=torch.zeros(2, 0).long())
    found = RandomFeatures(RandomWalkKernel(1), 4096, 0).fit_transform([graph])[0] * 64
    assert set(np.round(found, 9).tolist()) == {-2.0, 2.0}
    assert abs((found > 0).mean() - 0.5) < 5 * 0.5 / 64
    expected = RandomFeatures(RandomWalkKernel(), 1024, 0).fit_transform(GRAPHS)
    np.testing.assert_array_equal(RandomFeatures(random_state=0).fit_transform(GRAPHS), expected)
    text = torch.tensor([[2.0], [3.0]], dtype=torch.float64)
    found = RandomFeatures(StringKernel(2), 4096, 0).fit_transform([text])[0] * 64
    assert set(np.round(found, 9).tolist()) == {-6.0, 6.0}


@pytest.mark.parametrize("name", ["walk-edges", "walk-labels", "text-end-2", "words"])
def test_the_seed_decides(name: str) -> None:
    """Equal seeds give equal features; the global generators have no influence and do not move.

    clone drops the fitted state; a pickle keeps it.
    """
    kernel, inputs, _ = CASES[name]
    torch.manual_seed(0)
    features = RandomFeatures(kernel, 32, 3).fit(inputs)
    first = features.transform(inputs)
    torch.manual_seed(1)
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    copy = clone(features)
    with pytest.raises(NotFittedError):
        copy.transform(inputs)
    np.testing.assert_array_equal(copy.fit_transform(inputs), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)
    pickled = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(pickled.transform(inputs), first)
    for other in ({"random_state": 4}, {"kernel__order": 1}):
        assert not np.allclose(copy.set_params(**other).fit_transform(inputs), first)


@pytest.mark.parametrize("name", list(CASES))
def test_new_data(name: str) -> None:
    """A row depends only on its own graph or text, not on the others transformed with it."""
    kernel, inputs, _ = CASES[name]
    features = RandomFeatures(kernel, 64, 0)
    whole = features.fit_transform(inputs)
    same(features.transform(inputs), whole)
    same(features.transform(inputs[::-1]), whole[::-1])
    for one, row in zip(inputs, whole, strict=True):
        same(features.transform([one])[0], row)
    if name not in ("tokens", "words") and "labels" not in name:  # in those fit sees the words
        same(features.fit(inputs[:2]).transform(inputs), whole)


def test_strings_have_the_same_features_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features depend neither on the fitted strings, nor on other strings, nor on the blocks."""
    first, second = (RandomFeatures(StringKernel(1, 1.0), 4096, 0).fit([t]) for t in ("ab", "ba"))
    np.testing.assert_array_equal(first.transform(["aab"]), second.transform(["aab"]))
    together = first.transform(["x", "y"])
    np.testing.assert_array_equal(first.transform(["y"]), together[1:])
    monkeypatch.setattr("pyg_kernels.features._LABELED_ROWS", 1)
    np.testing.assert_array_equal(first.transform(["x", "y"]), together)
    assert abs(float(together[0] @ together[1])) < 5 / 4096**0.5


@pytest.mark.parametrize("kind", ["tokens", "graphs"])
def test_labels_that_fit_has_not_seen(kind: str) -> None:
    """Labels new to transform match nothing that was fitted; the estimates stay unbiased."""
    if kind == "tokens":
        kernel, old, new = StringKernel(2, 0.6), TOKENS[:2], [[0, 9, 1], [9, 8, 9], [8, 0]]
        exact = kernel(new, old).double()
    else:
        kernel = RandomWalkKernel(2, 0.4, node_feature="kind", edge_feature="bond")
        old, new = [random_data(0), random_data(1)], [random_data(2), random_data(3)]
        for graph in new:
            graph.kind, graph.bond = graph.kind + 1, graph.bond + 1
        exact = defined(kernel, new, old)
    features = RandomFeatures(kernel, NUM_FEATURES, 0)
    known = features.fit_transform(old) * math.sqrt(NUM_FEATURES)
    found = features.transform(new) * math.sqrt(NUM_FEATURES)
    products = torch.from_numpy(found[:, None] * known[None]).double()
    assert_unbiased(products.movedim(-1, 0), exact)


def test_collections() -> None:
    """A batch and a list of the same graphs are equivalent; texts may come as one tensor.

    Features keep the precision of the inputs; the random weights are the same in each precision.
    """
    features = RandomFeatures(RandomWalkKernel(3), 64, 0).fit(GRAPHS)
    expected = features.transform(GRAPHS)
    same(features.transform(Batch.from_data_list(GRAPHS)), expected)
    texts = random_text(4, 5, 3)
    features = RandomFeatures(StringKernel(2), 64, 0).fit(texts)
    same(features.transform(texts), features.transform(list(texts)))
    graphs = [changed(g, x=g.x.float(), edge_attr=g.edge_attr.float()) for g in GRAPHS]
    found = RandomFeatures(RandomWalkKernel(3), 64, 0).fit_transform(graphs)
    assert (expected.dtype, found.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


OTHERS = (DeepGraphKernel(), WLKernel(), WLSubtreeKernel(), DeepStringKernel(), "walk")
REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    *((kernel, GRAPHS, TypeError, "RandomWalkKernel") for kernel in OTHERS),
    (GatedSequenceKernel(), TEXTS, TypeError, "RandomWalkKernel"),
    (RandomWalkKernel(), 3, TypeError, "expected a list of"),
    (RandomWalkKernel(normalize=True), GRAPHS, ValueError, "normalize"),
    (StringKernel(normalize="cosine"), TEXTS, ValueError, "normalize"),
    (StringKernel(combine="add"), TEXTS, ValueError, "combine"),
    (StringKernel(normalize="unit"), TEXTS, ValueError, "normalize='unit'"),
    (RandomWalkKernel(None, 0.001), GRAPHS, ValueError, "all orders"),
    (RandomWalkKernel(decay=1.5), GRAPHS, ValueError, "decay"),
    (StringKernel(decay=1.5), TEXTS, ValueError, "decay"),
]


def test_refused() -> None:
    for kernel, inputs, error, match in REFUSED:
        with pytest.raises(error, match=match):
            RandomFeatures(kernel, 8).fit_transform(inputs)
    fitted = RandomFeatures(RandomWalkKernel(), 8).fit(GRAPHS)
    with pytest.raises(ValueError, match=r"graph 0 .* 4 features, but the graphs to compare"):
        fitted.transform([random_data(1, channels=4)])
    for count in (0, -1, 2.5, None):
        with pytest.raises(ValueError, match="n_components"):
            RandomFeatures(RandomWalkKernel(), count).fit(GRAPHS)


def test_autocast_and_half_precision() -> None:
    torch.manual_seed(0)
    texts = [torch.randn(4, 3), torch.randn(6, 3)]
    expected = RandomFeatures(StringKernel(), 16, 0).fit_transform(texts)
    with torch.autocast("cpu", torch.bfloat16):
        found = RandomFeatures(StringKernel(), 16, 0).fit_transform(texts)
    np.testing.assert_array_equal(found, expected)
    half = RandomFeatures(StringKernel(dtype=torch.bfloat16), 16, 0).fit_transform(texts)
    np.testing.assert_allclose(half, expected, atol=0.1)
