"""scikit-learn's conventions: its own checks, pipelines, and the values and names that it uses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels import kernels
from pyg_kernels.features import RandomFeatures
from tests.kernels.cases import Case, labelled_graph, of_each_class

# scikit-learn's own checks -----------------------------------------------------------------------


def as_text(row: Any) -> Tensor:
    """A row of a matrix as a text; each number is a token."""
    return torch.tensor(row)[:, None]


def as_graph(row: Any) -> Data:
    """A row of a matrix as a path; each number is a node."""
    nodes = torch.arange(len(row))
    return Data(x=as_text(row), edge_index=torch.stack([nodes[:-1], nodes[1:]]))


def on_matrices(base: type[Any], item: Callable[[Any], Any]) -> type[Any]:
    """The estimator for matrices, as scikit-learn's checks need it; each row is one item."""

    class OnMatrices(base):  # type: ignore[misc]
        def _items(self, X: Any, reset: bool) -> Any:
            if isinstance(X, list) and X and isinstance(X[0], (Data, Tensor)):
                return X
            rows = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            return [item(row) for row in rows]

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array = True
            tags.input_tags.string = False
            for kind in (tags.regressor_tags, tags.classifier_tags):
                if kind is not None:
                    kind.poor_score = True  # paths of numbers are poor features
            return tags

    def of_matrices(name: str) -> Callable[..., Any]:
        def fit(self: Any, X: Any, y: Any = None) -> Any:
            return getattr(base, name)(self, self._items(X, reset=True), y)

        def read(self: Any, X: Any, **options: Any) -> Any:
            check_is_fitted(self)
            return getattr(base, name)(self, self._items(X, reset=False), **options)

        return fit if name.startswith("fit") else read

    for name in {"fit", "fit_transform", "transform", "predict", "predict_proba"} & {*dir(base)}:
        setattr(OnMatrices, name, of_matrices(name))
    OnMatrices.__name__ = OnMatrices.__qualname__ = f"{base.__name__}OnMatrices"
    globals()[OnMatrices.__name__] = OnMatrices  # where pickle looks for it
    return OnMatrices


COUNT_KERNELS = [kernels.WLSubtreeKernel, kernels.LabelSequenceKernel, kernels.ShortestPathKernel]
COUNTS = [on_matrices(kernel, as_graph) for kernel in COUNT_KERNELS]
WALKS = kernels.RandomWalkKernel(2)

ESTIMATORS = [
    on_matrices(kernels.StringKernel, as_text)(),
    on_matrices(kernels.GatedSequenceKernel, as_text)(),
    on_matrices(kernels.DeepStringKernel, as_text)(),
    on_matrices(kernels.RandomWalkKernel, as_graph)(),
    on_matrices(kernels.WLKernel, as_graph)(),
    on_matrices(kernels.DeepGraphKernel, as_graph)(),
    *(kernel() for kernel in COUNTS),
    COUNTS[0](output="gram", compare="minmax"),
    on_matrices(RandomFeatures, as_graph)(n_components=8),
    on_matrices(kernels.KernelGP, as_graph)(WALKS),
    on_matrices(kernels.KernelGPClassifier, as_graph)(WALKS, tune=False),  # KernelGP tunes
]


@parametrize_with_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(clone(estimator))


@of_each_class
def test_tags(case: Case) -> None:
    """Items are not rows of numbers; the input is never a matrix of pairs, whatever the output."""
    for estimator in (case.kernel, RandomFeatures(case.kernel)):
        tags = get_tags(estimator)
        assert tags.estimator_type is None and tags.requires_fit and not tags.non_deterministic
        assert not tags.input_tags.two_d_array and not tags.input_tags.pairwise
        assert tags.input_tags.string == (case.inputs.word == "text")
        assert not tags.target_tags.required


# Pipelines ---------------------------------------------------------------------------------------


@of_each_class
def test_pipeline(case: Case) -> None:
    """Predictions equal those from precomputed Gram matrices; searches can vary arguments."""
    a, b, numbers = case.collection(12), case.collection(5, seed=50), np.sin(np.arange(12))
    classes = (numbers > 0).astype(int)
    kernel = case.build()
    gram, between = kernel(a).numpy(), kernel(b, a).numpy()
    ridge = KernelRidge(alpha=1.0, kernel="precomputed")
    of_features = Ridge(alpha=1.0, fit_intercept=False, tol=1e-10)
    model = make_pipeline(case.build(), of_features if case.features else clone(ridge))
    found, expected = model.fit(a, numbers).predict(b), ridge.fit(gram, numbers).predict(between)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    model = make_pipeline(case.build(), SVC(kernel="linear" if case.features else "precomputed"))
    expected = SVC(kernel="precomputed").fit(gram, classes).decision_function(between)
    found = model.fit(a, classes).decision_function(b)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    name, values = case.grid
    grid = {f"{model.steps[0][0]}__{name}": values}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(a, classes)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(b).shape == (5,)


def test_classifying_texts() -> None:
    """As a user would write it: a column of a table, a pipeline, cross-validation."""
    table = pd.DataFrame({"text": ["abab", "xyxy", "bab", "yxy", "aba", "xyx"] * 4})
    table["class"] = ["first" if "a" in text else "second" for text in table["text"]]
    kernel = kernels.StringKernel(order=2, normalize="cosine")
    model = make_pipeline(kernel, SVC(kernel="precomputed"))
    for X in (table["text"], table["text"].to_numpy(), list(table["text"])):
        assert cross_val_score(model, X, table["class"], cv=3, error_score="raise").min() == 1
    features = RandomFeatures(kernels.StringKernel(), 256, random_state=0)
    model = make_pipeline(features, SVC())
    assert cross_val_score(model, table["text"], table["class"], cv=3).min() == 1


# Words -------------------------------------------------------------------------------------------

GRAPHS = [labelled_graph(3, seed) for seed in range(8)]


def test_random_state() -> None:
    """A number gives the same features; None or NumPy's generator gives new ones at each fit."""

    def found(random_state: Any) -> Any:
        features = RandomFeatures(kernels.StringKernel(), 16, random_state=random_state)
        return features.fit_transform(["abc", "cab"])

    assert np.array_equal(found(3), found(np.int64(3))) and not np.array_equal(found(3), found(4))
    generator = np.random.RandomState(0)
    first, second = found(generator), found(generator)
    assert not np.array_equal(first, second)
    assert np.array_equal(found(np.random.RandomState(0)), first)
    np.random.seed(5)
    first, second = found(None), found(None)
    assert not np.array_equal(first, second)
    np.random.seed(5)
    assert np.array_equal(found(None), first)
    for wrong in (-1, 1.5, "0", True):
        with pytest.raises(ValueError, match=r"random_state|seed"):
            found(wrong)


def test_values_of_numpy() -> None:
    """Searches may choose arguments from NumPy arrays."""
    orders, norms = np.arange(1, 3), np.array(["cosine", "weights"])
    assert kernels.StringKernel(orders[0], normalize=norms[0])(["ab"]).item() == 1
    kernel = kernels.RandomWalkKernel(orders[1], sum_orders=np.bool_(True))
    assert RandomFeatures(kernel, np.int64(8), 2**63).fit_transform(GRAPHS).shape == (8, 8)


def test_names_of_features() -> None:
    for kernel in (kernels.RandomWalkKernel(1), kernels.WLSubtreeKernel(1, output="gram")):
        table = kernel.set_output(transform="pandas").fit_transform(GRAPHS)
        expected = [f"{type(kernel).__name__.lower()}{k}" for k in range(8)]
        assert list(table.columns) == list(kernel.get_feature_names_out()) == expected
    assert len(RandomFeatures(n_components=4).fit(GRAPHS).get_feature_names_out()) == 4
