"""Kernels that compare explicit sparse counts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_verbose
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.label_counts import LabelCounts
from pyg_kernels.kernels.reading import Attributes, read_graphs
from pyg_kernels.kernels.sparse_gram import row_sums, sparse_gram, squared_norms

COMPARISONS = ("dot", "min", "minmax")


class CountKernel(Kernel):
    r"""A kernel of graphs that compares how often each of some patterns occurs in them.

    With :math:`\#_a(G)` the number of times that pattern a occurs, ``compare`` is one of

    .. math::
        \text{dot} = \sum_a \#_a(G) \, \#_a(G'), \qquad
        \text{min} = \sum_a \min(\#_a(G), \#_a(G')), \qquad
        \text{minmax} = \frac{\sum_a \min(\#_a(G), \#_a(G'))}{\sum_a \max(\#_a(G), \#_a(G'))}

    the inner product; histogram intersection, the optimal-assignment kernel of Kriege et al. 2016;
    and min-max, Tanimoto's similarity of counts (Ralaivola et al. 2005). All three are positive
    semi-definite.
    """

    compare: str
    normalize: bool
    output: str
    dtype: torch.dtype | None
    max_memory: int
    verbose: bool | int | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns the patterns of a collection, which become the columns of the features."""
        super().fit(X)
        self.labels_ = self.collection_.labels
        self.features_ = self._features(self.collection_)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X)``, and the features of the collection, or its Gram matrix."""
        if self.output == "features":
            return self.fit(X).features_
        gram = super().fit_transform(X)
        self.labels_ = self.collection_.labels
        self.features_ = self._features(self.collection_)
        return gram

    def transform(self, X: Any) -> Any:
        """The features of a collection, or its Gram matrix with the fitted one."""
        check_is_fitted(self, "labels_")
        if self.output == "gram":
            return super().transform(X)
        self._check()
        return self._features(self._read(X))

    @property
    def _n_features_out(self) -> int:
        return int(self.features_.shape[int(self.output == "features")])

    def _check(self) -> None:
        checked_choice(self.compare, "compare", COMPARISONS)
        checked_choice(self.normalize, "normalize", (False, True))
        checked_choice(self.output, "output", ("features", "gram"))
        checked_choice(self.dtype, "dtype", (None, torch.float32, torch.float64))
        checked_count(self.max_memory, "max_memory")
        checked_verbose(self.verbose)

    @abstractmethod
    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        """The counts of a collection, in a type of NumPy."""

    def _weights(self) -> NDArray[Any] | None:
        """The weight of each block of patterns, or None for 1."""
        return None

    def _levels(self, collection: LabelCounts) -> list[LabelCounts]:
        if self._weights() is not None:
            return [collection]
        return [collection.up_to(number) for number in range(1, len(collection.labels) + 1)]

    def _read(self, items: Any, like: LabelCounts | None = None) -> LabelCounts:
        if isinstance(items, Graphs) and items.x.dim() != 1:
            raise TypeError(f"{type(self).__name__} counts labels: relabel='discrete' has them")
        counts = self._count(items, np.float32 if self.dtype == torch.float32 else np.float64)
        weights = self._weights()
        if weights is None:
            return counts
        return counts.weighted(np.sqrt(weights) if self.compare == "dot" else weights)

    def _read_edges(self, items: Any) -> Graphs:
        """The graphs with the labels of edges that the kernel reads, without those of nodes."""
        edges = Attributes(None, getattr(self, "edge_label", None), are_labels=True)
        return read_graphs(items, edges, self.dtype)

    def _raw_gram(self, a: LabelCounts, b: LabelCounts | None) -> Tensor:
        other, totals = None, None
        if b is not None:
            # Patterns that only one collection has count in its totals alone.
            other, totals = b.among(a.labels), (row_sums(a.matrix), row_sums(b.matrix))
        gram = sparse_gram(a.matrix, other, self.max_memory, self.verbose, self.compare, totals)
        return torch.from_numpy(gram).to(a.device)

    def _raw_diagonal(self, collection: LabelCounts) -> Tensor:
        if self.compare == "dot":
            values = squared_norms(collection.matrix)
        else:
            values = row_sums(collection.matrix)
            values = values if self.compare == "min" else (values > 0).astype(values.dtype)
        return torch.from_numpy(values).to(collection.device)

    def _features(self, counts: LabelCounts) -> sparse.csr_matrix:
        """The counts of fitted labels; rows of norm 1, with other labels, where normalized."""
        features = counts.among(self.labels_)
        scale = self._scale(counts)
        if scale is None:
            return features
        data = features.data * np.repeat(scale.numpy(), np.diff(features.indptr))
        return sparse.csr_matrix((data, features.indices, features.indptr), shape=features.shape)
