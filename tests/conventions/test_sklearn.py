"""scikit-learn's conventions: its own checks, words and pipelines, and what users hand over."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    GatedSequenceKernel,
    Kernel,
    KernelGP,
    KernelGPClassifier,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
)
from tests.kernels.cases import (
    Case,
    close,
    dense,
    labelled_graph,
    object_array,
    of_each_class,
    of_every,
)

# scikit-learn's own checks -----------------------------------------------------------------------


def as_text(row: Any) -> Tensor:
    """A row of a matrix as a text, each number a token."""
    return torch.tensor(row)[:, None]


def as_graph(row: Any) -> Data:
    """A row of a matrix as a path, each number a node."""
    nodes = torch.arange(len(row))
    return Data(x=as_text(row), edge_index=torch.stack([nodes[:-1], nodes[1:]]))


def on_matrices(base: type[Any], item: Callable[[Any], Any]) -> type[Any]:
    """The estimator on matrices, which scikit-learn's checks hand over, each row one item."""

    class OnMatrices(base):  # type: ignore[misc]
        def _items(self, X: Any, reset: bool) -> Any:
            if isinstance(X, list) and X and isinstance(X[0], (Data, Tensor)):
                return X
            rows = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            return [item(row) for row in rows]

        def fit(self, X: Any, y: Any = None) -> Any:
            return super().fit(self._items(X, reset=True), y)

        if hasattr(base, "fit_transform"):

            def fit_transform(self, X: Any, y: Any = None) -> Any:
                return super().fit_transform(self._items(X, reset=True), y)

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array = True
            tags.input_tags.string = False
            for kind in (tags.regressor_tags, tags.classifier_tags):
                if kind is not None:
                    kind.poor_score = True  # paths of numbers are no good features
            return tags

    def of_matrices(name: str) -> Callable[..., Any]:
        def method(self: Any, X: Any, **options: Any) -> Any:
            check_is_fitted(self)
            return getattr(base, name)(self, self._items(X, reset=False), **options)

        return method

    for name in {"transform", "predict", "predict_proba"} & {*dir(base)}:
        setattr(OnMatrices, name, of_matrices(name))
    OnMatrices.__name__ = OnMatrices.__qualname__ = f"{base.__name__}OnMatrices"
    globals()[OnMatrices.__name__] = OnMatrices  # where pickle looks for it
    return OnMatrices


TEXT_KERNELS = [StringKernel, GatedSequenceKernel, DeepStringKernel]
COUNT_KERNELS = [WLSubtreeKernel, LabelSequenceKernel, ShortestPathKernel]
GRAPH_KERNELS = [RandomWalkKernel, DeepGraphKernel, WLKernel, *COUNT_KERNELS]
COUNTS = [on_matrices(kernel, as_graph) for kernel in COUNT_KERNELS]


# Of each class that has a fit or a transform, or reads items, of its own.
REPRESENTATIVES = [
    on_matrices(StringKernel, as_text)(),
    on_matrices(RandomWalkKernel, as_graph)(),
    on_matrices(WLKernel, as_graph)(),
    COUNTS[0](),
    COUNTS[0](output="gram", compare="minmax"),
    on_matrices(RandomFeatures, as_graph)(n_components=8),
    on_matrices(KernelGP, as_graph)(RandomWalkKernel(2)),
    on_matrices(KernelGPClassifier, as_graph)(RandomWalkKernel(2), tune=False),  # as KernelGP tunes
]
# The others add arguments and values to these alone: what of it they could break.
OTHERS = [
    on_matrices(GatedSequenceKernel, as_text)(),
    on_matrices(DeepStringKernel, as_text)(),
    on_matrices(DeepGraphKernel, as_graph)(),
    *(kernel() for kernel in COUNTS[1:]),
]
OF_OTHERS = {
    *("check_dict_unchanged", "check_do_not_raise_errors_in_init_or_set_param"),
    *("check_dont_overwrite_attributes", "check_estimator_cloneable", "check_estimator_repr"),
    *("check_estimators_pickle", "check_get_params_invariance", "check_set_params"),
    *("check_no_attributes_set_in_init", "check_parameters_default_constructible"),
    "check_transformer_general",
}


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


CHECKS = [
    pytest.param(owner, check, id=f"{type(owner).__name__}-{name_of(check)}-{number}")
    for estimators, chosen in ((REPRESENTATIVES, None), (OTHERS, OF_OTHERS))
    for number, one in enumerate(estimators)
    for owner, check in estimator_checks_generator(one)
    if chosen is None or name_of(check) in chosen
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(clone(estimator))


@pytest.mark.parametrize("kernel", [*TEXT_KERNELS, *GRAPH_KERNELS])
def test_tags(kernel: type[Kernel]) -> None:
    """Items are no rows of numbers; the input is no matrix of pairs, whatever the output is."""
    features = [RandomFeatures(kernel())] if kernel in (StringKernel, RandomWalkKernel) else []
    for estimator in (kernel(), *features):
        tags = get_tags(estimator)
        assert tags.estimator_type is None and tags.requires_fit and not tags.non_deterministic
        assert not tags.input_tags.two_d_array and not tags.input_tags.pairwise
        assert tags.input_tags.string == (kernel in TEXT_KERNELS)
        assert not tags.target_tags.required


# Parameters --------------------------------------------------------------------------------------


@of_every
def test_clone_and_set_params(case: Case) -> None:
    xs = case.collection()
    fitted = case.build().fit(xs)
    copy = clone(fitted)
    with pytest.raises(NotFittedError):
        copy.transform(xs)
    close(copy(xs), fitted(xs), atol=case.tolerance)
    with pytest.raises(NotFittedError):  # a call asks for no fit, and is none
        copy.transform(xs)
    name, values = case.grid
    for value in values:
        copy.set_params(**{name: value})
        assert copy.get_params()[name] == value
        fresh = case.build()
        fresh.set_params(**{name: value})
        close(copy(xs), fresh(xs), atol=case.tolerance)
        if "__" not in name:
            close(case.build(**{name: value})(xs), copy(xs), atol=case.tolerance)
    with pytest.raises(ValueError, match="parameter"):
        copy.set_params(no_such=1)


# Pipelines ---------------------------------------------------------------------------------------


def targets(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A number and a class for every object."""
    numbers = np.sin(np.arange(count))
    return numbers, (numbers > 0).astype(int)


@of_each_class
def test_pipeline(case: Case) -> None:
    """The same predictions as from Gram matrices that were computed before."""
    a, b = case.collection(12), case.collection(5, seed=50)
    numbers, classes = targets(12)
    kernel = case.build()
    gram, between = kernel(a).numpy(), kernel(b, a).numpy()
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    ridge = KernelRidge(alpha=1.0, kernel="precomputed")
    of_features = Ridge(alpha=1.0, fit_intercept=False, tol=1e-10)
    model = make_pipeline(case.build(), of_features if case.features else clone(ridge))
    found = model.fit(a, numbers).predict(b)
    np.testing.assert_allclose(found, ridge.fit(gram, numbers).predict(between), **tolerance)
    if case.features:
        return
    machine = SVC(kernel="precomputed")
    found = make_pipeline(case.build(), clone(machine)).fit(a, classes).decision_function(b)
    expected = machine.fit(gram, classes).decision_function(between)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@of_each_class
def test_grid_search(case: Case) -> None:
    xs, (_, classes) = case.collection(12), targets(12)
    name, values = case.grid
    machine = SVC(kernel="linear" if case.features else "precomputed")
    pipeline = make_pipeline(case.build(), machine)
    step = pipeline.steps[0][0]
    grid = {f"{step}__{name}": values, "svc__C": [1.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(xs, classes)
    assert search.best_params_[f"{step}__{name}"] in values
    assert search.predict(xs[:4]).shape == (4,)
    scores = [search.cv_results_[f"split{fold}_test_score"] for fold in range(2)]
    assert np.shape(scores) == (2, 2) and np.isfinite(scores).all()


# Words -------------------------------------------------------------------------------------------


@of_each_class
def test_progress(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar on standard error where it is asked for, none where not; the numbers are the same."""
    xs = case.collection()
    expected = case.build()(xs)
    for verbose in (None, False):
        case.build(verbose=verbose, max_memory=1).fit_transform(xs)
        captured = capsys.readouterr()
        assert not captured.out and not captured.err
    close(case.build(verbose=True, max_memory=3000)(xs), expected, atol=case.tolerance)
    captured = capsys.readouterr()
    name = type(getattr(case.kernel, "base", case.kernel)).__name__
    assert name in captured.err or "Gram matrix" in captured.err
    assert "pairs" in captured.err and not captured.out


def test_random_state() -> None:
    """A number: the same features; None or NumPy's generator: others at each fit."""
    texts = ["abc", "cab"]

    def found(random_state: Any) -> Any:
        features = RandomFeatures(StringKernel(), n_components=16, random_state=random_state)
        return features.fit_transform(texts)

    features = RandomFeatures(StringKernel(), 16).fit(texts)  # once fitted, the same
    assert np.array_equal(features.transform(texts), features.transform(texts))
    assert np.array_equal(found(3), found(np.int64(3))) and not np.array_equal(found(3), found(4))
    assert not np.array_equal(found(None), found(None))
    generator = np.random.RandomState(0)
    first, second = found(generator), found(generator)
    assert not np.array_equal(first, second)
    assert np.array_equal(found(np.random.RandomState(0)), first)
    np.random.seed(5)
    first = found(None)
    np.random.seed(5)
    assert np.array_equal(found(None), first)
    for wrong in (-1, 1.5, "0", True):
        with pytest.raises(ValueError, match=r"random_state|seed"):
            found(wrong)


GRAPHS = [labelled_graph(3, seed) for seed in range(8)]


def test_grids_of_numpy() -> None:
    texts = [list(map(int, row)) for row in np.random.default_rng(0).integers(0, 3, (20, 5))]
    y = [text[0] % 2 for text in texts]
    model = make_pipeline(StringKernel(), SVC(kernel="precomputed"))
    grid = {
        "stringkernel__order": np.arange(1, 3),
        "stringkernel__normalize": np.array(["cosine", "weights"]),
    }
    assert GridSearchCV(model, grid, cv=2).fit(texts, y).best_score_ >= 0
    kernel = RandomWalkKernel(np.int64(2), sum_orders=np.bool_(True))
    assert RandomFeatures(kernel, np.int64(8), 2**63).fit_transform(GRAPHS).shape == (8, 8)


def test_names_of_features() -> None:
    for kernel in (RandomWalkKernel(1), WLSubtreeKernel(1, output="gram")):
        table = kernel.set_output(transform="pandas").fit_transform(GRAPHS)
        expected = [f"{type(kernel).__name__.lower()}{k}" for k in range(8)]
        assert list(table.columns) == list(kernel.get_feature_names_out()) == expected
    assert len(RandomFeatures(n_components=4).fit(GRAPHS).get_feature_names_out()) == 4
    kernel = WLSubtreeKernel(1)
    assert kernel.fit_transform(GRAPHS).shape[1] == len(kernel.get_feature_names_out())


# Forms of collections ----------------------------------------------------------------------------


@of_each_class
def test_arrays_of_objects(case: Case) -> None:
    xs, ys = case.collection(), case.collection(3, seed=50)
    kernel = case.build().fit(object_array(xs))
    expected = dense(case.build().fit(xs).transform(ys))
    close(dense(kernel.transform(object_array(ys))), expected)
    close(dense(kernel.transform(pd.Series(ys))), expected)


def test_classifying_texts() -> None:
    """As a user writes it: a column of a table, a pipeline, cross-validation."""
    table = pd.DataFrame({"text": ["abab", "xyxy", "bab", "yxy", "aba", "xyx"] * 4})
    table["class"] = ["first" if "a" in text else "second" for text in table["text"]]
    kernel = StringKernel(order=2, normalize="cosine")
    model = make_pipeline(kernel, SVC(kernel="precomputed"))
    for X in (table["text"], table["text"].to_numpy(), list(table["text"])):
        assert cross_val_score(model, X, table["class"], cv=3, error_score="raise").min() == 1
    features = make_pipeline(RandomFeatures(StringKernel(), 256, random_state=0), SVC())
    assert cross_val_score(features, table["text"], table["class"], cv=3).min() == 1
