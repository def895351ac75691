"""Extremely randomized trees on counts of atoms' environments and descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyg_kernels.kernels import Explanation, WLSubtreeKernel, explain

TREES = 100
ITERATIONS = 3  # of Weisfeiler-Lehman
TRIED = 0.1  # the share of the features that a split chooses from, in regression
LEAST = 3  # an environment is counted if so many fitted molecules have it


class MoleculeTrees:
    r"""Extremely randomized trees (Geurts et al. 2006), a forest for each target.

    Their features are the counts of a :class:`WLSubtreeKernel`, and the descriptors and extra
    columns of graphs from :func:`molecule_graphs`. A fully grown tree predicts a measured target,
    so that the predictions of trees are spread as measurements are. The variance is that of the
    trees plus the noise:

    .. math::
        \mu = \frac{1}{B} \sum_b t_b, \qquad
        \sigma^2 = \sigma_0^2 + \frac{1}{B} \sum_b (t_b - \mu)^2

    Args:
        noise: In regression :math:`\sigma_0^2` of each target, over its variance; None for classes.
        random_state: The seed of the trees.

    Attributes:
        forests: The forests of scikit-learn, one for each target.
        classes_: In classification, the classes of each target.
    """

    def __init__(self, noise: Any, random_state: int) -> None:
        self.noise, self._seed = noise, random_state
        self._scaler = StandardScaler().set_output(transform="default")  # ignores tiny variances
        self._counting = WLSubtreeKernel(
            ITERATIONS, edge_label="edge_attr", min_count=LEAST, verbose=False
        ).set_output(transform="default")

    def fit(self, graphs: Sequence[Any], y: NDArray[Any]) -> Self:
        """Grows trees on targets ``(M, T)``, NaN where one was not measured."""
        some = np.flatnonzero(~np.isnan(y).all(1))  # so that the others change nothing
        graphs, y = [graphs[i] for i in some.tolist()], y[some]
        self._counting.fit(graphs)
        x, self.forests = self._read(graphs), list[Any]()
        options = {"random_state": self._seed, "n_jobs": torch.get_num_threads()}
        y = y if self.noise is None else self._scaler.fit_transform(y)
        for column in y.T:
            there = ~np.isnan(column)
            forest: Any = ExtraTreesClassifier(TREES, **options)
            if self.noise is not None:
                forest = ExtraTreesRegressor(TREES, max_features=TRIED, **options)
            forest.fit(x[there], column[there])
            self.forests.append(forest.set_params(n_jobs=None))  # always sums in the same order
        self.classes_ = [getattr(forest, "classes_", None) for forest in self.forests]
        return self

    def predict(self, graphs: Sequence[Any], return_std: bool = True) -> Any:
        """Means and standard deviations, ``(M, T)`` each."""
        x = self._read(graphs)
        found = np.array([[tree.predict(x) for tree in forest] for forest in self.forests])
        means = self._scaler.inverse_transform(found.mean(1).T)
        stds = np.sqrt(found.var(1).T + self.noise) * self._scaler.scale_
        return (means, stds) if return_std else means

    def predict_proba(self, graphs: Sequence[Any]) -> list[NDArray[Any]]:
        """The probabilities of the classes of each target."""
        x = self._read(graphs)
        return [forest.predict_proba(x) for forest in self.forests]

    def explain(self, graph: Any, target: int) -> Explanation:
        """What atom environments add to a prediction in regression.

        At each split on the way to a leaf, the mean of the fitted molecules changes. The change
        counts for the feature of the split (Saabas 2014), and is divided among the atoms with the
        environment. Changes by absent environments and by descriptors are in the bias.
        """
        x = self._read([graph])
        added, bias = np.zeros(x.shape[1]), 0.0
        for tree in self.forests[target]:
            way = tree.decision_path(x).indices
            values, compared = tree.tree_.value[way, 0, 0], tree.tree_.feature[way[:-1]]
            bias += values[0] / TREES
            added += np.bincount(compared, np.diff(values), x.shape[1]) / TREES
        scale, mean = self._scaler.scale_[target], self._scaler.mean_[target]
        counts = self._counting.transform([graph]).toarray()[0]
        own = added[: len(counts)] * (counts > 0) * scale
        bias = mean + scale * (bias + added.sum()) - own.sum()
        if not len(counts):
            nothing = np.zeros(0)
            return Explanation(
                [], nothing, nothing.astype(int), np.zeros(graph.num_nodes), {}, bias
            )
        line = LinearRegression()
        line.coef_, line.intercept_ = own / np.maximum(counts, 1), bias
        return explain(make_pipeline(self._counting, line), graph)

    def _read(self, graphs: Sequence[Any]) -> Any:
        """The features of trees, ``(M, F)``, in single precision."""
        rows = [np.append(graph.descriptors, graph.extra) for graph in graphs]
        limits = np.finfo(np.float32)
        both = self._counting.transform(graphs), np.clip(rows, limits.min, limits.max)
        return sparse.csr_matrix(sparse.hstack(both), dtype=np.float32)
