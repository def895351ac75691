"""Gaussian processes against their formulas, and on data drawn from them."""

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import check_grad, minimize
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import (
    Kernel,
    KernelGP,
    KernelGPClassifier,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    VectorKernel,
    WLKernel,
    WLSubtreeKernel,
    gp,
)
from tests.kernels.cases import Case, labelled_graph, object_array, of_each_class, vector_graph

Array = NDArray[Any]


SEQUENCES: dict[str, Any] = {"compare": "min", "normalize": True}
SUM = [
    WLSubtreeKernel(2, compare="minmax"),
    LabelSequenceKernel(3, **SEQUENCES),
    ShortestPathKernel(),
]
TERMS = [  # the kernels of SUM, each up to each of its blocks
    *(WLSubtreeKernel(i, compare="minmax") for i in range(3)),
    *(LabelSequenceKernel(i, **SEQUENCES) for i in (1, 2, 3)),
    ShortestPathKernel(),
]


def graphs_and_targets(count: int, seed: int = 0) -> tuple[list[Data], Array]:
    """Graphs of 2 to 9 nodes, and targets that grow with the number of nodes of one label."""
    graphs = [labelled_graph(2 + (i + seed) % 8, 1000 * seed + i) for i in range(count)]
    noise = np.random.default_rng(seed).standard_normal(count) / 3
    return graphs, 5 + 2 * np.array([float((g.x == 1).sum()) for g in graphs]) + noise


GRAPHS, Y = graphs_and_targets(6)
(OLD, OLD_Y), (NEW, _) = graphs_and_targets(30), graphs_and_targets(10, seed=1)


def same(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-10)


def grams(kernels: list[Any], old: Any, new: Any) -> tuple[Array, Array, Array]:
    """For all terms: the matrix of old items, that of new with old items, and the new diagonal."""
    found: tuple[list[Array], ...] = ([], [], [])
    for kernel in kernels:
        scale = kernel.diagonal(old).mean().item() or 1.0
        parts = kernel(old), kernel(new, old), kernel.diagonal(new)
        for of_terms, part in zip(found, parts, strict=True):
            of_terms.append((part / scale).double().numpy())
    return tuple(map(np.stack, found))


def posterior(
    gram: Array, cross: Array, diagonal: Array, y: Array, noise: float, known: Any = 0.0
) -> tuple[Array, Array, float]:
    """The mean and deviation of new measurements, and the log marginal likelihood.

    The deviation excludes the `known` noise, which is given in the units of the targets.
    """
    mean, scale = y.mean(), y.std() or 1.0
    z, covariance = (y - mean) / scale, gram + np.diag(noise + known / scale**2 + 0 * y)
    variance = diagonal - np.einsum("ij,ji->i", cross, np.linalg.solve(covariance, cross.T))
    likelihood = multivariate_normal(np.zeros(len(y)), covariance).logpdf(z)
    std = np.sqrt(np.maximum(variance, 0) + noise) * scale
    return cross @ np.linalg.solve(covariance, z) * scale + mean, std, likelihood


def assert_posterior(
    process: KernelGP, terms: list[Any], items: tuple[Any, Any, Any], rtol: float = 1e-10
) -> None:
    """Compares a process with the formula, at the process's own weights and noise.

    `items` are fitted items, targets and new items. A term's scale is its mean over fitted items.
    """
    old, y, new = items
    same(process.scales_[:, 0], [kernel.diagonal(old).mean() for kernel in terms], rtol)
    parts = [np.tensordot(process.weights_[:, 0], part, 1) for part in grams(terms, old, new)]
    mean, std, likelihood = posterior(*parts, y, process.noise_.item())
    found = [*process.predict(new, return_std=True), process.log_marginal_likelihood_]
    for value, expected in zip(found, (mean, std, [likelihood]), strict=True):
        same(value, expected, rtol)


@of_each_class
def test_every_class(case: Case) -> None:
    """The posterior under one kernel, for every class of kernels."""
    items = case.collection(12), np.sin(np.arange(12)), case.collection(5, seed=50)
    process = KernelGP(case.build(), split=False, tune=False, noise=0.3).fit(*items[:2])
    assert process.weights_ == [[1]] and process.noise_ == [0.3] and process.jitter_ == [0]
    assert_posterior(process, [case.build()], items, max(1e-9, 10 * case.tolerance))


WEIGHTED = WLSubtreeKernel(2, iteration_weights=[1.0, 0.5, 0.0], compare="minmax")  # one term


@pytest.mark.parametrize("rows", [7, 2048])
def test_sums_of_kernels(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gp, "_ROWS", rows)
    options: dict[str, Any] = {"tune": False, "noise": 0.2}
    for kernels, split, terms, weights in (
        (SUM, False, SUM, None),
        (SUM, True, TERMS, None),
        (WEIGHTED, True, [WEIGHTED], None),
        (WLSubtreeKernel(2), False, [WLSubtreeKernel(2)], [0.7]),
        (SUM[:1], True, TERMS[:3], [0.0, 0.2, 0.5]),
    ):
        process = KernelGP(kernels, split=split, weights=weights, **options).fit(OLD, OLD_Y)
        same(process.weights_[:, 0], weights or np.full(len(terms), 1 / len(terms)))
        assert_posterior(process, terms, (OLD, OLD_Y, NEW))
        same(process.predict(NEW), process.predict(NEW, return_std=True)[0])


@pytest.mark.parametrize("few", [False, True])
def test_learned_sums_are_the_formula_at_their_weights(few: bool) -> None:
    """Terms of tiny weight are left out where targets depend on the labels of nodes alone."""
    (old, y), (new, _) = graphs_and_targets(100 if few else 30), graphs_and_targets(20, seed=1)
    process, terms = KernelGP(SUM), TERMS
    if few:
        process = KernelGP([WLSubtreeKernel(0), WLSubtreeKernel(2, "edge_")], prior=1e-6)
        terms = [WLSubtreeKernel(0), *(WLSubtreeKernel(i, "edge_") for i in range(3))]
        for graph in old + new:  # graphs of equal size have equal labels
            graph.edge_ = torch.arange(graph.num_nodes)
    weights = process.fit(old, y).weights_[:, 0]
    assert few == bool((weights == 0).any()) and weights[0] > 0
    assert (weights[weights > 0] >= 1e-3 * weights.sum()).all()
    assert_posterior(process, terms, (old, y, new), 1e-8)


def test_vectors_of_graphs() -> None:
    """The terms are gaussians and inner products of vectors, standardized over fitted graphs."""
    (graphs, y), (new, _) = graphs_and_targets(20), graphs_and_targets(6, seed=1)
    random = np.random.default_rng(0)
    for graph in graphs + new:
        graph.measured = torch.from_numpy(random.normal(3, 2, (1, 4)))
    vectors = np.concatenate([graph.measured.numpy() for graph in graphs + new])
    vectors = (vectors - vectors[:20].mean(0)) / vectors[:20].std(0)
    squares = np.square(vectors[:, None] - vectors).mean(2)
    terms = [np.exp(-squares / (2 * length**2)) for length in (0.5, 2.0)]
    terms.append(vectors @ vectors.T / 4)
    total = sum(term / term.diagonal()[:20].mean() for term in terms) / 3
    mean, std, _ = posterior(total[:20, :20], total[20:, :20], total.diagonal()[20:], y, 0.1)
    kernel = VectorKernel("measured", (0.5, 2.0))
    found = KernelGP(kernel, tune=False).fit(graphs, y).predict(new, return_std=True)
    same(found, (mean, std))
    same(kernel.fit_transform(graphs), sum(terms)[:20, :20])
    same(kernel.transform(new), sum(terms)[20:, :20])
    same(kernel.diagonal(graphs), sum(terms).diagonal()[:20])


@pytest.mark.parametrize(
    ("prior", "known"), [(0.02, 0.0), (3.0, 0.0), (0.02, torch.linspace(0.1, 2, 60).double())]
)
def test_the_most_likely_weights(prior: float, known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without known noise, for targets that are drawn from the process."""
    losses = []
    monkeypatch.setattr(
        gp, "minimize", lambda f, *rest, **how: losses.append(f) or minimize(f, *rest, **how)
    )
    graphs, _ = graphs_and_targets(60)
    terms = np.stack([kernel(graphs).numpy() for kernel in TERMS[:3]])
    covariance = np.tensordot([0.5, 0.2, 0.3], terms, 1) + 0.2 * np.eye(60)
    y = np.linalg.cholesky(covariance) @ np.random.default_rng(0).standard_normal(60)
    weights, noise = gp.learned_weights(torch.from_numpy(terms), torch.from_numpy(y), prior, known)
    (loss,) = losses

    def by_hand(logs: Array) -> float:
        noises = np.full(60, np.exp(logs[-1])) + np.asarray(known)
        covariance = np.tensordot(np.exp(logs[:-1]), terms, 1) + np.diag(noises)
        likelihood = multivariate_normal(np.zeros(60), covariance).logpdf(y)
        return float(-likelihood + prior * np.square(logs).sum())

    random = np.random.default_rng(0)
    constant = 30 * np.log(2 * np.pi)
    for _ in range(5):
        logs = random.normal(-1, 1, 4)
        same(loss(logs)[0] + constant, by_hand(logs))
        wrong = check_grad(lambda a: loss(a)[0], lambda a: loss(a)[1], logs)
        assert wrong < 1e-4 * np.linalg.norm(loss(logs)[1])
    best = np.log([*weights, noise])
    assert (best > -8.9).all() and (best < 2.9).all()
    for step in np.vstack([np.eye(4), random.standard_normal((20, 4))]):
        for size in (-0.3, -0.03, 0.03, 0.3):
            assert by_hand(best + size * step) > by_hand(best)


def test_tuning_on_some_items() -> None:
    graphs, y = graphs_and_targets(60)
    few = [KernelGP(SUM, tune_items=20, random_state=seed) for seed in (0, 0, 1, None)]
    found = [process.fit(graphs, y).weights_ for process in few]
    assert np.array_equal(found[0], found[1]) and not np.allclose(found[0], found[2])
    assert not np.allclose(found[0], found[3])
    whole = [KernelGP(SUM, random_state=seed).fit(graphs, y) for seed in (0, 1)]
    same(whole[0].predict(graphs), whole[1].predict(graphs), 1e-3)  # the order alone differs


@pytest.mark.parametrize("tune", [False, True])
def test_several_targets_that_miss_some(tune: bool) -> None:
    """Each is predicted as if it were alone, from the items where it was measured."""
    targets = np.stack([OLD_Y, -3 * OLD_Y + np.arange(30), np.cos(OLD_Y)], axis=1)
    targets[3:9, 0] = targets[::2, 1] = np.nan
    kernel = WLSubtreeKernel(2, compare="minmax")
    process = KernelGP(kernel, tune=tune).fit(OLD, targets)
    mean, std = process.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (10, 3) and process.weights_.shape == (3, 3)
    for t in range(3):
        there = np.flatnonzero(~np.isnan(targets[:, t]))
        alone = KernelGP(kernel, tune=tune).fit([OLD[i] for i in there], targets[there, t])
        expected = alone.predict(NEW, return_std=True)
        same(mean[:, t], expected[0], 1e-3 if tune else 1e-9)
        same(std[:, t], expected[1], 1e-3 if tune else 1e-9)
        for name in ("noise_", "log_marginal_likelihood_", "jitter_"):
            same(getattr(process, name)[t], getattr(alone, name)[0], 1e-2 if tune else 1e-9)
    given = KernelGP(kernel, tune=False, weights=process.weights_, noise=process.noise_)
    found = given.fit(OLD, targets).predict(NEW, return_std=True)  # given what was learned
    assert np.array_equal(found, (mean, std))
    process = KernelGP(kernel, tune=tune, random_state=0)
    flat, column = (process.fit(OLD, y).predict(NEW) for y in (OLD_Y, OLD_Y[:, None]))
    assert column.shape == (10, 1) and np.array_equal(column[:, 0], flat)


@pytest.mark.parametrize("tune", [False, True])
def test_items_without_targets(tune: bool) -> None:
    """Items measured for no target change nothing; those of another target alone, no term."""
    long = [nx.path_graph(60) for _ in range(3)]
    for graph in long:
        nx.set_node_attributes(graph, 1, "x")
    kernels, given = [WLSubtreeKernel(2), ShortestPathKernel()], {"tune": tune, "random_state": 0}
    alone = KernelGP(kernels, **given).fit(OLD, OLD_Y)
    process = KernelGP(kernels, **given).fit([*long, *OLD], np.append([np.nan] * 3, OLD_Y))
    for name in ("scales_", "weights_", "noise_"):
        assert np.array_equal(getattr(process, name), getattr(alone, name))
    assert np.array_equal(process.predict(NEW, True), alone.predict(NEW, True))
    targets = np.full((33, 2), np.nan)
    targets[3:, 0], targets[:3, 1] = OLD_Y, [1, 2, 3]
    process = KernelGP(kernels, **given).fit([*long, *OLD], targets)
    same(np.array(process.predict(NEW, True))[:, :, 0], alone.predict(NEW, True), 1e-6)


def test_what_was_fitted_is_forgotten() -> None:
    """Fits are forgotten when arguments change, and when another fit is refused."""
    process = KernelGP(WLSubtreeKernel(2), tune=False).fit(OLD, OLD_Y)
    process.set_params(split=True).predict(NEW)
    process.set_params(split=False)
    with pytest.raises(NotFittedError):
        process.predict(NEW)
    with pytest.raises(ValueError, match="measured on 1 sample"):
        process.fit(OLD, OLD_Y).fit(OLD, [1.0] + 29 * [np.nan])
    with pytest.raises(NotFittedError):
        process.predict(NEW)


def test_units() -> None:
    """Units do not matter: terms are divided by their means over fitted items, even if learned.

    Features may require gradients, but none are recorded.
    """
    mean, std = KernelGP(random_state=0).fit(OLD, OLD_Y).predict(NEW, return_std=True)
    other = KernelGP(random_state=0).fit(OLD, -1000 * OLD_Y + 7).predict(NEW, return_std=True)
    same(other, (-1000 * mean + 7, 1000 * std), 1e-4)
    kernels = [RandomWalkKernel(order, edge_feature=None) for order in (1, 2)]
    found = []
    for scale in (1.0, 10.0):
        items = [Data(x=scale * torch.eye(3)[g.x].double(), edge_index=g.edge_index) for g in OLD]
        for item in items:  # like a network's outputs
            item.x.requires_grad_()
        process = KernelGP(kernels, random_state=0).fit(items, OLD_Y)
        found.append([*process.weights_[:, 0], *process.noise_, *process.predict(items)])
    same(*found, 1e-3)


def test_targets_of_every_form() -> None:
    """Constant targets, only two, lists, tensors; far from all items the prior is predicted.

    Equal targets may differ from their mean by rounding, which is not divided by as a deviation.
    """
    graphs, y = OLD[:12], OLD_Y[:12]
    mean, std = KernelGP().fit(graphs, np.full(12, 3.5)).predict(graphs, return_std=True)
    same(mean, 3.5)
    assert (std > 0).all() and (std < 2).all()
    mean, std = KernelGP().fit(graphs[:2], y[:2]).predict(graphs[:1], return_std=True)
    assert mean.shape == std.shape == (1,) and np.isfinite([mean, std]).all()
    expected = KernelGP(tune=False).fit(graphs, y).predict(graphs)
    for form in (list(y), torch.from_numpy(y), y.astype(object)):
        assert np.array_equal(KernelGP(tune=False).fit(graphs, form).predict(graphs), expected)
    strange = Data(x=torch.tensor([77, 78]), edge_index=torch.tensor([[0], [1]]))
    process = KernelGP(WLSubtreeKernel(compare="minmax"), tune=False).fit(graphs, y)
    mean, std = process.predict([strange], return_std=True)
    same(mean, y.mean())
    same(std, np.sqrt(1.1) * y.std())
    equal = (KernelGP(random_state=0).fit(GRAPHS, [value] * 6) for value in (0.1, 1.0))
    np.testing.assert_allclose(*(process.predict(GRAPHS, return_std=True)[1] for process in equal))


def test_score_of_what_was_measured() -> None:
    """The coefficient of determination, averaged over targets."""
    targets = np.stack([OLD_Y, np.cos(OLD_Y), np.sin(OLD_Y)], 1)
    targets[3:9, 0] = targets[::2, 1] = np.nan
    process = KernelGP(tune=False).fit(OLD, targets)
    held = targets.copy()
    held[1:, 2] = np.nan  # one measurement has no variance
    found, expected = process.predict(OLD), []
    weight = np.arange(30.0)
    for t in range(2):
        there = ~np.isnan(held[:, t])
        own = held[there, t], found[there, t]
        expected.append([r2_score(*own), r2_score(*own, sample_weight=weight[there])])
    same([process.score(OLD, held), process.score(OLD, held, weight)], np.mean(expected, 0))
    for items, y, message in (
        (OLD, np.full((30, 3), np.nan), "no target has 2 measurements or more"),
        (OLD, OLD_Y, r"y has shape \(30,\): expected \(30, 3\)"),
        (OLD[:1], 1.0, r"y has shape \(\): expected \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            process.score(items, y)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(29,\): expected \(30,\)"):
        process.score(OLD, held, weight[1:])


def graphs_and_classes(count: int, seed: int = 0) -> tuple[list[Data], Array]:
    """Classes that say whether most nodes have the first label, the second, or neither."""
    graphs, _ = graphs_and_targets(count, seed)
    shares = np.array([[float((g.x == label).double().mean()) for label in (0, 1)] for g in graphs])
    names = np.where(shares[:, 0] > 0.4, "first", "second")
    return graphs, np.where(shares.max(1) > 0.4, names, "neither")


def test_classes_are_regressions_with_known_noise() -> None:
    """Milios et al. 2018, equations 6 to 8, here with the noise on the diagonal by hand.

    The weights and the remaining noise are learned as well.
    """
    (old, labels), (new, _) = graphs_and_classes(40), graphs_and_classes(10, seed=1)
    process = KernelGPClassifier(SUM, tune=False, noise=0.3).fit(old, labels)
    assert process.classes_.tolist() == ["first", "neither", "second"]
    learned, terms = KernelGPClassifier(SUM).fit(old, labels), grams(TERMS, old, new)
    assert learned.score(old, labels) > 0.9
    parts = [part.mean(0) for part in terms]
    draws = np.random.default_rng(0).standard_normal((20_000, 3, 1))
    functions = []
    for k, name in enumerate(process.classes_):
        alpha = np.where(labels == name, 1.01, 0.01)
        noise = np.log(1 / alpha + 1)
        y = np.log(alpha) - noise / 2
        mean, std, likelihood = posterior(*parts, y, 0.3, noise)
        functions.append(mean + draws[:, k] * np.sqrt(std**2 - 0.3 * y.var()))
        same(process.log_marginal_likelihood_[k], likelihood, 1e-9)
        given = map(torch.from_numpy, (terms[0], (y - y.mean()) / y.std(), noise / y.var()))
        gram, standardized, known = given
        weights, added = gp.learned_weights(gram, standardized, 0.02, known)
        same(learned.weights_[:, k], weights, 1e-3)
        same(learned.noise_[k], added, 1e-3)
    expected = softmax(np.stack(functions), axis=0).mean(1).T
    found = process.predict_proba(new)
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.array_equal(process.predict(new), process.classes_[found.argmax(1)])


def test_several_targets_of_classes() -> None:
    """Each is predicted as if it were alone, from the items where it was measured."""
    (old, labels), (new, _) = graphs_and_classes(60), graphs_and_classes(15, seed=1)
    names = ["first", "neither", "second"]
    several = pd.DataFrame({"a": labels, "b": labels == "first", "c": labels[::-1]}, dtype=object)
    several.loc[:19, "c"] = None
    process = KernelGPClassifier(SUM[:1], tune=False).fit(old, several)
    assert [classes.tolist() for classes in process.classes_] == [names, [False, True], names]
    predicted, found = process.predict(new), process.predict_proba(new)
    assert predicted.dtype == object and set(predicted[:, 1]) <= {True, False}
    for place, first in enumerate((0, 0, 20)):
        column = several.iloc[first:, place].to_numpy().tolist()
        alone = KernelGPClassifier(SUM[:1], tune=False).fit(old[first:], column)
        atol = 1e-2 if first else 1e-9
        np.testing.assert_allclose(found[place], alone.predict_proba(new), atol=atol)
        likely = process.classes_[place][found[place].argmax(1)]
        assert np.array_equal(predicted[:, place], likely)
    right = process.predict(old) == several.to_numpy(object)
    expected = (right[:, 0].mean() + right[:, 1].mean() + right[20:, 2].mean()) / 3
    assert process.score(old, several) == pytest.approx(expected)
    kept = KernelGPClassifier(tune=False).fit(old, (labels == "first").astype(np.uint8))
    assert kept.predict(old).dtype == np.uint8


def test_jitter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs, y = OLD[:20] * 2, np.tile(OLD_Y[:20], 2)
    monkeypatch.setattr(gp, "DOUBLE_UP_TO", 10)
    process = KernelGP(WLSubtreeKernel(0), tune=False, noise=1e-12)
    with pytest.warns(UserWarning, match="added to the Gram matrix's diagonal"):
        process.fit(graphs, y)
    assert 0 < process.jitter_.item() <= 1e-2
    assert np.isfinite(process.predict(graphs, return_std=True)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelGP(WLSubtreeKernel(0), tune=False).fit(graphs, y)


def test_what_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With missing targets, a factor is only as large as the number of measured items."""
    monkeypatch.setattr(gp.os, "sysconf", lambda name: 60)  # 60 pages of 60 bytes
    said = r"Gram matrix of 20 items .* 0\.0 GB, the machine has 0\.0"
    with pytest.raises(MemoryError, match=said):
        KernelGP().fit(OLD[:20], OLD_Y[:20])
    KernelGP(tune=False).fit(OLD[:15], OLD_Y[:15])  # 2 matrices of 15 x 15 numbers of 8 bytes
    y = np.kron(np.where(np.eye(4), 1, np.nan), np.arange(6)[:, None])  # each measured on six
    monkeypatch.setattr(gp, "DOUBLE_UP_TO", 6)
    monkeypatch.setattr(gp, "_machine_memory", lambda: 8.0 * 5 * 36)
    assert KernelGP(SUM).fit(OLD[:24], y).predict(OLD).dtype == np.float64
    monkeypatch.setattr(gp, "_machine_memory", lambda: 8.0 * 5 * 36 - 1)
    with pytest.raises(MemoryError, match="Gram matrix of 6 items"):
        KernelGP(SUM).fit(OLD[:24], y)


def test_model_selection() -> None:
    """A search over the arguments of a kernel, and over kernels."""
    one, noises = WLSubtreeKernel(compare="minmax"), [0.1, 10.0]
    grid = [
        {"kernel": [one], "kernel__num_iterations": [0, 2], "noise": noises},
        {"kernel": [SUM], "noise": noises},
    ]
    search = GridSearchCV(KernelGP(tune=False), grid, cv=3, error_score="raise").fit(OLD, OLD_Y)
    assert search.best_params_["noise"] == 0.1 and search.best_score_ > 0.5


REFUSED: list[tuple[Any, Any, str]] = [
    (KernelGP(), Y[:5], r"y has shape \(5,\): expected \(6,\)"),
    (KernelGP(), 1.0, "y has shape"),
    (KernelGP(), np.ones((6, 1, 1)), "y has shape"),
    (KernelGP(), None, "requires y"),
    (KernelGP(), [1, 2, 3, 4, 5, np.inf], "infinite"),
    (KernelGP(), np.ma.array(Y, mask=[0] + 5 * [1]), "measured on 1 sample"),
    (KernelGP(), pd.Series(pd.to_timedelta([1, None] * 3)), "y has dates or times"),
    (KernelGP(), pd.Series(pd.to_datetime([1] * 6, utc=True)), "y has dates or times"),
    (KernelGP(), pd.DataFrame({"y": Y, "day": pd.to_datetime([1] * 6)}), "y has dates or times"),
    (KernelGP(), Y * 1j, "or complex numbers"),
    (KernelGP(), np.stack([Y, np.full(6, np.nan)], 1), "measured on 0 samples"),
    (KernelGP(), [1e300, -1e300] * 3, "are not finite: rescale them"),
    (KernelGP(), Y * 1e-200, "squares vanish: rescale them"),
    (KernelGP(tune_items=1), Y, "tune_items=1"),
    (KernelGP(noise=0.0), Y, "noise=0.0"),
    (KernelGP(noise="small"), Y, "noise='small'"),
    (KernelGP(noise=np.ones(2)), Y, r"noise has shape \(2,\): expected a number or \(1,\)"),
    (KernelGP(prior=-1.0), Y, "prior=-1.0"),
    (KernelGP(tune=False, weights=np.ones(3)), Y, r"expected \(4,\) or \(4, 1\) finite"),
    (KernelGP(split=1), Y, "split=1"),
    (KernelGP(tune=None), Y, "tune=None"),
    (KernelGP(random_state=-1), Y, "Seed"),
    (KernelGPClassifier(), ["a"] * 6, "target 0 has 1 class"),
    (KernelGPClassifier(), np.arange(6) + 0.5, "Unknown label type"),
    (KernelGPClassifier(), ["a", 0] * 3, "target 0 has words and numbers as labels"),
    (KernelGPClassifier(), np.stack([[0, 1] * 3, [1] * 6], 1), "target 1 has 1 class"),
    *((KernelGP(kernel), Y, "expected a kernel") for kernel in ("minmax", [], [SUM[0], 3], Kernel)),
]


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
@pytest.mark.parametrize(("process", "y", "message"), REFUSED)
def test_refused(process: Any, y: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        process.fit(GRAPHS, y)


def test_forms_of_collections() -> None:
    """Kernels that are handed over are copied, and stay as they were."""
    process = KernelGP(SUM, tune=False)
    assert process.fit(OLD, OLD_Y) is process and process.kernel is SUM
    assert not any(hasattr(kernel, "collection_") for kernel in SUM)
    values = process.predict(OLD)
    series = pd.Series(OLD, index=range(100, 130))
    for form in (series, object_array(OLD), tuple(OLD), Batch.from_data_list(OLD)):
        assert np.array_equal(KernelGP(SUM, tune=False).fit(form, OLD_Y).predict(form), values)
        assert np.array_equal(process.predict(form, return_std=True)[0], values)
    same(process.predict(OLD[3]), values[3:4])  # one graph
    assert process.predict(OLD[3], return_std=True)[1].shape == (1,)
    ring = nx.cycle_graph(3)
    nx.set_node_attributes(ring, 1, "x")
    assert KernelGP(WLSubtreeKernel(1)).fit([ring, ring], [0.0, 1.0]).predict(ring).shape == (1,)
    with pytest.raises(ValueError, match="at least one item"):
        KernelGP().fit([], [])
    with pytest.raises(ValueError, match="at least one graph"):
        process.predict([])


def test_single_precision_for_more_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that cannot be factored in float32 is factored in float64."""
    expected = KernelGP(SUM, random_state=0).fit(OLD, OLD_Y)
    monkeypatch.setattr(gp, "DOUBLE_UP_TO", 29)
    process = KernelGP(SUM, random_state=0).fit(OLD, OLD_Y)
    assert all(kernel.dtype == torch.float32 for kernel in process.kernels_)
    same(process.predict(NEW, True), expected.predict(NEW, True), 2e-3)
    same(process.log_marginal_likelihood_, expected.log_marginal_likelihood_, 1e-3)
    with torch.autocast("cpu", torch.bfloat16):
        found = KernelGP(SUM, random_state=0).fit(OLD, OLD_Y).predict(NEW, True)
    assert np.array_equal(found, process.predict(NEW, True))
    far = KernelGP(SUM, random_state=0).fit(OLD, OLD_Y + 1e8)
    same(far.predict(NEW) - 1e8, expected.predict(NEW), 2e-3)  # its mean is added in float64
    sizes = np.random.default_rng(0).integers(2, 60, 300)
    paths = [torch.arange(n) for n in sizes]
    graphs = [Data(x=0 * path, edge_index=torch.stack([path[:-1], path[1:]])) for path in paths]
    process = KernelGP(WLSubtreeKernel(), tune=False, noise=1e-5, split=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process.fit(graphs, sizes.astype(float))
    assert np.abs(process.predict(graphs) - sizes).max() < 1.0


def test_kernels_within_kernels_compute_as_the_process_does() -> None:
    """In float64 on float32 vectors, as a base kernel with dtype float64 of its own."""
    graphs = [vector_graph(5, seed) for seed in range(8)]
    single = [Data(x=g.x.float(), edge_index=g.edge_index, edge_attr=None) for g in graphs]
    eye, y = [0.3 * torch.eye(graphs[0].x.size(1))] * 3, np.arange(8.0)
    for base in (RandomWalkKernel(2), None):
        double = RandomWalkKernel(2 if base else 3, dtype=torch.float64)
        found, expected = (
            KernelGP(WLKernel(kernel, eye, 1), tune=False, noise=1e-4).fit(single, y)
            for kernel in (base, double)
        )
        same(found.predict(single), expected.predict(single), 1e-12)


def test_errors_name_items_by_their_place_among_all() -> None:
    graphs = [labelled_graph(4, seed) for seed in range(6)]
    del graphs[4].x
    with pytest.raises(ValueError, match="graph 4 has no 'x'"):
        KernelGP(RandomWalkKernel(2)).fit(graphs, [np.nan, np.nan, 1, 2, 3, 4])


def test_missing_labels_and_numbers_in_every_form() -> None:
    """NaN beside words in a list, and pandas' NA, are missing values."""
    smiles = ["CCO", "CCCO", "c1ccccc1", "CCN", "Cc1ccccc1"]
    words: list[Any] = ["chain", "chain", "ring", float("nan"), "ring"]
    kernel = WLSubtreeKernel(compare="minmax")
    gp = KernelGPClassifier(kernel, tune=False)
    expected = gp.fit(smiles, [*words[:3], None, words[4]]).predict_proba(smiles)
    for labels in (words, pd.Series(words, dtype="string"), np.array(words, dtype=object)):
        assert gp.fit(smiles, labels).classes_.tolist() == ["chain", "ring"]
        np.testing.assert_array_equal(gp.predict_proba(smiles), expected)
        assert gp.score(smiles, labels) == 1
    gp.fit(smiles, [[word, number] for word, number in zip(words, [1, 2, 1, 2, 2], strict=True)])
    assert [known.tolist() for known in gp.classes_] == [["chain", "ring"], [1, 2]]
    y = pd.DataFrame({"a": pd.Series([1, None, 3, 4, 5], dtype="Int64"), "b": np.arange(5) / 10})
    plain, process = y.to_numpy(dtype=float, na_value=np.nan), KernelGP(kernel, tune=False)
    found = [process.fit(smiles, each).predict(smiles) for each in (y, plain)]
    np.testing.assert_array_equal(*found)
    assert process.score(smiles, y) == process.score(smiles, plain)
