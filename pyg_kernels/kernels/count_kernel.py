"""Kernels that compare explicit sparse counts of patterns in graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.kernels.graphs import Graphs, consecutive_runs
from pyg_kernels.kernels.kernel import BoundedKernel, scaled
from pyg_kernels.kernels.patterns import GraphTexts, pattern_names
from pyg_kernels.kernels.reading import GraphKernel, read_chunks
from pyg_kernels.kernels.sparse_gram import min_max, row_sums, sparse_gram, squared_norms

Labels = list[NDArray[np.int64]]  # the sorted labels of every iteration
BYTES = 128  # the memory of an occurrence while it is counted


class Occurrences(NamedTuple):
    """Where the patterns of a block occur."""

    labels: Tensor  # of each occurrence, (W,)
    nodes: Tensor  # of each occurrence, (W, k); k is 1 where one node is enough
    steps: Tensor  # what joins the nodes: edges, or a length; (W, any number)


@dataclass(frozen=True)
class LabelCounts:
    """How often each label occurs in each graph."""

    labels: Labels  # that occur, block by block (for example, iteration by iteration)
    matrix: sparse.csr_matrix  # their counts, (n, number of labels)
    device: Any  # of the graphs

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def part(self, items: Any) -> LabelCounts:
        """The counts of some graphs; `items` is a NumPy array or a tensor of their indices."""
        return replace(self, matrix=self.matrix[np.asarray(items)])

    def block(self, first: int, stop: int) -> LabelCounts:
        """The counts of the labels of iterations `first` to ``stop - 1`` alone."""
        if (first, stop) == (0, len(self.labels)):
            return self
        labels, begin = self.labels[first:stop], sum(map(len, self.labels[:first]))
        return replace(
            self, labels=labels, matrix=self.matrix[:, begin : begin + sum(map(len, labels))]
        )

    def frequent(self, least: int) -> Labels:
        """The labels that occur in at least `least` graphs."""
        graphs = np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])
        ends = np.cumsum(list(map(len, self.labels)))[:-1]
        blocks = zip(self.labels, np.split(graphs >= least, ends), strict=True)
        return [labels[kept] for labels, kept in blocks]

    def weighted(self, weights: ArrayLike) -> LabelCounts:
        """The counts times the weight of their iteration."""
        factors = np.repeat(np.asarray(weights, self.matrix.dtype), list(map(len, self.labels)))
        matrix = self.matrix.copy()
        matrix.data *= factors[matrix.indices]  # new zeros stay: these patterns occur
        return replace(self, matrix=matrix)

    def among(self, known: Labels) -> sparse.csr_matrix:
        """The counts of known labels, a column for each."""
        if all(map(np.array_equal, self.labels, known)):
            return self.matrix
        width = sum(map(len, known))
        columns = columns_of(self.labels, known).astype(np.int32)
        shape = (len(self), width + 1)  # the last column counts unknown labels and is dropped
        arrays = (self.matrix.data, columns[self.matrix.indices], self.matrix.indptr)
        return sparse.csr_matrix(arrays, shape=shape)[:, :width]


def count_occurrences(graphs: Graphs, blocks: Iterable[Occurrences], dtype: type) -> LabelCounts:
    """Counts how often each label occurs in each graph; `dtype` is the counts' NumPy type."""
    labels: Labels = []
    rows, columns, total = [], [], 0
    owner = graphs.owner()
    for block in blocks:
        known, places = torch.unique(block.labels, return_inverse=True)
        labels.append(known.cpu().numpy())
        rows.append(owner[block.nodes[:, 0]].cpu().numpy())
        columns.append(places.cpu().numpy() + total)
        total += len(known)
    ones: NDArray[Any] = np.ones(sum(map(len, rows)), dtype=dtype)
    where = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_matrix((ones, where), shape=(len(graphs), total))
    return LabelCounts(labels, matrix, graphs.device)


def merged(counts: Sequence[LabelCounts]) -> LabelCounts:
    """The counts of several collections as those of one."""
    if len(counts) == 1:
        return counts[0]
    blocks = zip(*(c.labels for c in counts), strict=True)
    labels = [np.unique(np.concatenate(found)) for found in blocks]
    matrix = sparse.vstack([c.among(labels) for c in counts], format="csr")
    return LabelCounts(labels, matrix, counts[0].device)


def columns_of(labels: Labels, known: Labels) -> NDArray[np.int64]:
    """The column of every label among the known ones; unknown labels get the column after these."""
    width = sum(map(len, known))
    columns, first = [], 0
    for found, vocabulary in zip(labels, known, strict=True):
        places = np.searchsorted(vocabulary, found)
        same = places < np.searchsorted(vocabulary, found, side="right")
        columns.append(np.where(same, places + first, width))
        first += len(vocabulary)
    return np.concatenate(columns)


@dataclass(eq=False, repr=False)
class CountKernel(GraphKernel, BoundedKernel):
    r"""A kernel on graphs that compares how often patterns occur in them.

    With :math:`\#_a(G)` the number of times that pattern a occurs in G, ``compare`` is one of

    .. math::
        \text{dot} = \sum_a \#_a(G) \, \#_a(G'), \qquad
        \text{min} = \sum_a \min(\#_a(G), \#_a(G')), \qquad
        \text{minmax} = \frac{\sum_a \min(\#_a(G), \#_a(G'))}{\sum_a \max(\#_a(G), \#_a(G'))}

    ``dot`` is the inner product, ``min`` is histogram intersection (the optimal-assignment kernel
    of Kriege et al. 2016), and ``minmax`` is Tanimoto's similarity of counts (Ralaivola et al.
    2005). All are positive semi-definite. Every kernel of counts takes these arguments by name:

    normalize
        Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0. Rows of features
        are divided by :math:`\sqrt{K(G, G)}`, which includes patterns that are not features.
    output
        What ``transform`` returns. ``'features'``: the counts, ``(n, number of patterns)``, as a
        SciPy CSR matrix. Its columns are the patterns of the fitted graphs, in an order that
        depends on these patterns alone; other patterns are left out. ``'gram'``: the Gram matrix.
    compare
        ``'dot'``, ``'min'`` or ``'minmax'``. Features are counts for all three; only the weights
        that multiply them and the norms that divide them depend on it.
    min_count
        How many of the fitted graphs must have a pattern for it to become a feature. Gram matrices
        include all patterns.
    dtype
        The floating type of the result, float32 or float64; None: float64.
    max_memory, verbose, featurizer
        See :class:`Kernel` and :class:`RandomWalkKernel`. The latter says which graphs are read.

    After ``fit``, ``labels_`` has the sorted hashes of each block of patterns. ``X_fit_`` has the
    fitted graphs themselves, which ``get_feature_names_out`` reads again.

    Example:
        >>> from pyg_kernels.kernels import LabelSequenceKernel, molecule_graphs
        >>> molecules = molecule_graphs(["CCO", "CCN", "CCCO"])
        >>> kernel = LabelSequenceKernel(num_nodes=1, node_label="element")
        >>> counts = kernel.fit_transform(molecules)
        >>> dict(zip(kernel.get_feature_names_out(), counts.toarray().T.tolist()))
        {'[#6]': [2.0, 2.0, 3.0], '[#8]': [1.0, 0.0, 1.0], '[#7]': [0.0, 1.0, 0.0]}
        >>> LabelSequenceKernel(num_nodes=1, node_label="element", compare="minmax")(molecules)
        tensor([[1.0000, 0.5000, 0.7500],
                [0.5000, 1.0000, 0.4000],
                [0.7500, 0.4000, 1.0000]], dtype=torch.float64)

    See Also:
        :class:`WLSubtreeKernel`, :class:`LabelSequenceKernel` and :class:`ShortestPathKernel`,
        which are such kernels; :func:`explain`.
    """

    _: KW_ONLY
    normalize: bool = False
    output: str = "features"
    compare: str = "dot"
    min_count: int = 1

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns the patterns of a collection, which become the columns of the features."""
        super().fit(X)
        self._keep(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Calls ``fit(X)``, and returns the features of the collection, or its Gram matrix."""
        if self.output == "features":
            return self.fit(X).features_
        gram = super().fit_transform(X)
        self._keep(X)
        return gram

    def transform(self, X: Any) -> Any:
        """The features of a collection, or its Gram matrix with the fitted one."""
        check_is_fitted(self, "labels_")
        if self.output == "gram":
            return super().transform(X)
        self._check()
        return self._features(self._read(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of the features.

        For molecules they are SMARTS of the pattern's first occurrence. Molecules are SMILES, RDKit
        molecules, or graphs with a ``mol`` or ``smiles`` whose atoms and bonds are the nodes and
        edges. For other graphs, and for the label ``role`` (``'donor/acceptor'``), names are made
        of labels. An environment is ``'C(C,N)'``: its center, then its neighbors in nested
        parentheses, each after the label of its edge. A sequence is ``'C-N'``, and a pair at a
        distance is ``'C..3..N'``. A second column with the same name ends in ``#2``.

        Args:
            input_features: Not used.
        """
        if self.output == "gram":
            return np.asarray(super().get_feature_names_out(input_features), dtype=object)
        check_is_fitted(self, "labels_")
        return np.array(pattern_names(self, self.X_fit_, self.labels_), dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.collection_) if self.output == "gram" else int(self.features_.shape[1])

    def _check(self) -> None:
        super()._check()
        checked_choice(self.compare, "compare", ("dot", "min", "minmax"))
        checked_choice(self.output, "output", ("features", "gram"))
        checked_choice(self.dtype, "dtype", (None, torch.float32, torch.float64))
        checked_count(self.min_count, "min_count")

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        """The counts of a collection, with a NumPy dtype."""
        parts = (
            graphs.part(torch.arange(start, stop)) if stop - start < len(graphs) else graphs
            for graphs in read_chunks(items, self._attributes())
            for start, stop in consecutive_runs(self._bytes(graphs).tolist(), self.max_memory)
        )
        return merged([count_occurrences(g, self._occurrences(g), dtype) for g in parts])

    def _bytes(self, graphs: Graphs) -> Tensor:
        """An estimate of the bytes of working memory for the occurrences in each graph."""
        return BYTES * graphs.sizes

    def _occurrences(self, graphs: Graphs, complete: bool = False) -> Iterator[Occurrences]:
        """Where patterns occur, block by block; `complete`: with all of their nodes."""
        raise TypeError(f"{type(self).__name__} does not say where its patterns occur")

    def _name(self, texts: GraphTexts, block: int, nodes: list[int], steps: list[int]) -> str:
        """The name of the pattern of a block that occurs at these nodes."""
        raise TypeError(f"{type(self).__name__} does not name its patterns")

    def _keep(self, X: Any) -> None:
        """Stores the fitted attributes other than the collection."""
        counts = self.collection_
        self.labels_ = counts.labels if self.min_count == 1 else counts.frequent(self.min_count)
        self.features_ = self._features(counts)
        self.X_fit_ = list(X) if isinstance(X, list) else X  # the caller may change its list

    def _weights(self) -> NDArray[Any] | None:
        """The weight of each block of patterns, or None for 1."""
        return None

    def _levels(self, collection: LabelCounts) -> list[LabelCounts]:
        if self._weights() is not None:
            return [collection]
        return [collection.block(0, stop) for stop in range(1, len(collection.labels) + 1)]

    def _level_grams(self, a: LabelCounts, b: LabelCounts | None = None) -> Iterator[Tensor]:
        """The Gram matrix of each level; the sums of a block are computed once for all levels."""
        if self._weights() is not None:
            yield from super()._level_grams(a, b)
            return
        total, rows, columns = (np.zeros((), a.matrix.dtype) for _ in range(3))
        for number, level in enumerate(self._levels(a)):
            one = a.block(number, number + 1)
            two = one if b is None else b.block(number, number + 1)
            total = total + self._sums(one, None if b is None else two)
            gram = total
            if self.compare == "minmax":
                rows, columns = rows + row_sums(one.matrix), columns + row_sums(two.matrix)
                gram = min_max(total.copy(), rows, columns)
            scale = self._scale(level)
            scales = scale, scale if b is None else self._scale(b.block(0, number + 1))
            yield scaled(torch.from_numpy(gram).to(a.device), *scales)

    def _read(self, items: Any, like: LabelCounts | None = None) -> LabelCounts:
        counts = self._count(items, np.float32 if self.dtype == torch.float32 else np.float64)
        weights = self._weights()
        if weights is None:
            return counts
        return counts.weighted(np.sqrt(weights) if self.compare == "dot" else weights)

    def _raw_gram(self, a: LabelCounts, b: LabelCounts | None) -> Tensor:
        gram = self._sums(a, b)
        if self.compare == "minmax":
            # A pattern that only one collection has counts in the row sums of that one alone.
            gram = min_max(gram, row_sums(a.matrix), row_sums((a if b is None else b).matrix))
        return torch.from_numpy(gram).to(a.device)

    def _sums(self, a: LabelCounts, b: LabelCounts | None) -> NDArray[Any]:
        """The sums of products, or of minima."""
        other = None if b is None else b.among(a.labels)
        return sparse_gram(a.matrix, other, self.max_memory, self.verbose, self.compare)

    def _raw_diagonal(self, collection: LabelCounts) -> Tensor:
        if self.compare == "dot":
            values = squared_norms(collection.matrix)
        else:
            values = row_sums(collection.matrix)
            values = values if self.compare == "min" else (values > 0).astype(values.dtype)
        return torch.from_numpy(values).to(collection.device)

    def _features(self, counts: LabelCounts) -> sparse.csr_matrix:
        """The counts of fitted labels; if normalized, divided by norms that include all labels."""
        features, scale = counts.among(self.labels_), self._scale(counts)
        if scale is not None:
            features = features.copy()
            features.data *= np.repeat(scale.cpu().numpy(), np.diff(features.indptr))
        return features

    def _linear_shares(self, x: LabelCounts, coefficients: NDArray[Any]) -> NDArray[Any]:
        """The part of each pattern of one graph in its features' product with coefficients."""
        scale = self._scale(x)
        own = x.matrix.toarray()[0] * (1.0 if scale is None else float(scale[0]))
        return own * np.append(coefficients, 0.0)[columns_of(x.labels, self.labels_)]

    def _kernel_shares(
        self, x: LabelCounts, others: LabelCounts, alpha: NDArray[Any]
    ) -> NDArray[Any]:
        r"""The part of each pattern of one graph in :math:`\sum_i \alpha_i K(x, x_i)`.

        In a min-max kernel, the part of a pattern is its minimum over the sum of all maxima.
        """
        matrix = others.among(x.labels)
        columns, rows = matrix.indices, np.repeat(np.arange(len(others)), np.diff(matrix.indptr))
        own = x.matrix.toarray()[0].astype(float)[columns]
        parts = own * matrix.data if self.compare == "dot" else np.minimum(own, matrix.data)
        factors = alpha
        if self.compare == "minmax":
            least = np.bincount(rows, parts, minlength=len(others))
            most = row_sums(x.matrix) + row_sums(others.matrix) - least
            factors = alpha / np.where(most > 0, most, 1.0)
        scales = self._scale(x), self._scale(others)
        if scales[0] is not None and scales[1] is not None:
            factors = factors * (scales[0] * scales[1]).cpu().numpy()
        return np.bincount(columns, parts * factors[rows], minlength=x.matrix.shape[1])
