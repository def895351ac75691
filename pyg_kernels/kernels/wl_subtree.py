"""The Weisfeiler-Lehman subtree kernel: counts of labels over the iterations of relabelling."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_verbose
from pyg_kernels.kernels.blocks import keep_freed_memory
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.label_counts import LabelCounts, count_labels
from pyg_kernels.kernels.reading import Attributes, read_graphs
from pyg_kernels.kernels.relabeling import DiscreteRelabeling
from pyg_kernels.kernels.sparse_gram import sparse_gram, squared_norms


class WLSubtreeKernel(Kernel):
    r"""The Weisfeiler-Lehman subtree kernel, with explicit features.

    .. math::
        K(G, G') = \sum_{i=0}^h \sum_a \#_a(r^i(G)) \, \#_a(r^i(G'))

    where :math:`\#_a(r^i(G))` counts the nodes with the label a after i iterations of
    :class:`DiscreteRelabeling` (Shervashidze et al. 2011). The feature map is finite:
    ``fit_transform`` gives the counts as a sparse matrix for linear models, and calling the kernel
    the Gram matrix.

    Args:
        num_iterations: h, at least 0.
        node_label: The attribute of labels, ``(N,)``, or ``(N, F)``, whose distinct rows are the
            labels (one-hot vectors, say), or N strings; None: nodes are all alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: edges are all alike.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0. Rows of
            features are divided by their norm, labels that the fitted graphs do not have included.
        output: What ``transform`` gives. ``'features'``: counts, ``(n, number of labels)``, in
            SciPy's CSR form; its columns are the labels of the fitted graphs in an order that
            depends on the labels alone, and labels of other graphs are left out. ``'gram'``: the
            Gram matrix.
        dtype: The floating type of the result, float32 or float64; None: float64.
        max_memory: Bytes of working memory for the Gram matrix, besides features and result.
        verbose: Whether to show a progress bar; None: on a terminal, where it lasts over two
            seconds.

    Graphs are as for :class:`RandomWalkKernel`.

    Attributes:
        labels_: After ``fit``, the sorted hashes of the labels of every iteration.

    Raises:
        ValueError: On an argument out of range; on no graphs, a graph without its labels, NaN, an
            edge outside its graph.
        TypeError: On items that are no graphs.

    Example:
        >>> features = WLSubtreeKernel(num_iterations=3, edge_label="edge_attr")
        >>> model = make_pipeline(features, Ridge()).fit(molecules, y)
    """

    def __init__(
        self,
        num_iterations: int = 3,
        node_label: str | None = "x",
        edge_label: str | None = None,
        normalize: bool = False,
        output: str = "features",
        *,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.num_iterations = num_iterations
        self.node_label = node_label
        self.edge_label = edge_label
        self.normalize = normalize
        self.output = output
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns the labels of a collection, which become the columns of the features."""
        self._check()
        counts = self._read(X)
        self.labels_ = counts.labels
        self.features_ = self._features(counts)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X)``, and the features of the collection, or its Gram matrix."""
        self.fit(X)
        return self.features_ if self.output == "features" else self._product(self.features_)

    def transform(self, X: Any) -> Any:
        """The features of a collection, or its Gram matrix with the fitted one."""
        check_is_fitted(self, "labels_")
        self._check()
        features = self._features(self._read(X))
        return features if self.output == "features" else self._product(features, self.features_)

    @property
    def _n_features_out(self) -> int:
        return int(self.features_.shape[int(self.output == "features")])

    def _check(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        checked_choice(self.normalize, "normalize", (False, True))
        checked_choice(self.output, "output", ("features", "gram"))
        checked_choice(self.dtype, "dtype", (None, torch.float32, torch.float64))
        checked_count(self.max_memory, "max_memory")
        checked_verbose(self.verbose)

    def _read(self, items: Any, like: LabelCounts | None = None) -> LabelCounts:
        if isinstance(items, Graphs) and items.x.dim() != 1:
            raise TypeError("WLSubtreeKernel counts labels: relabel='discrete' has them")
        relabeling = DiscreteRelabeling(self.node_label, self.edge_label)
        dtype = np.float32 if self.dtype == torch.float32 else np.float64
        keep_freed_memory()
        return count_labels(relabeling.chunks(items), relabeling, self.num_iterations, dtype)

    def _read_edges(self, items: Any) -> Graphs:
        """The graphs with the labels of edges that the kernel reads, without those of nodes."""
        return read_graphs(items, Attributes(None, self.edge_label, are_labels=True), self.dtype)

    def _raw_gram(self, a: LabelCounts, b: LabelCounts | None) -> Tensor:
        gram = self._product(a.matrix, None if b is None else b.among(a.labels))
        return torch.from_numpy(gram).to(a.device)

    def _raw_diagonal(self, collection: LabelCounts) -> Tensor:
        return torch.from_numpy(squared_norms(collection.matrix)).to(collection.device)

    def _features(self, counts: LabelCounts) -> sparse.csr_matrix:
        """The counts of fitted labels; rows of norm 1, with other labels, where normalised."""
        features = counts.among(self.labels_)
        if self.normalize:
            norms = np.sqrt(squared_norms(counts.matrix))
            inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
            data = features.data * np.repeat(inverse, np.diff(features.indptr))
            features = sparse.csr_matrix(
                (data, features.indices, features.indptr), shape=features.shape
            )
        return features

    def _product(
        self, features: sparse.csr_matrix, others: sparse.csr_matrix | None = None
    ) -> NDArray[Any]:
        return sparse_gram(features, others, self.max_memory, self.verbose)
