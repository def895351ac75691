"""The Weisfeiler-Lehman subtree kernel: counts of labels over the iterations of relabelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyg_kernels.kernels.arguments import checked_count
from pyg_kernels.kernels.blocks import keep_freed_memory
from pyg_kernels.kernels.count_kernel import CountKernel
from pyg_kernels.kernels.label_counts import LabelCounts, count_chunks, count_labels
from pyg_kernels.kernels.relabeling import DiscreteRelabeling


class WLSubtreeKernel(CountKernel):
    r"""The Weisfeiler-Lehman subtree kernel, with explicit features.

    .. math::
        K(G, G') = \sum_{i=0}^h w_i \sum_a \#_a(r^i(G)) \, \#_a(r^i(G'))

    where :math:`\#_a(r^i(G))` counts the nodes with the label a after i iterations of
    :class:`DiscreteRelabeling` (Shervashidze et al. 2011). The feature map is finite:
    ``fit_transform`` gives the counts as a sparse matrix for linear models, and calling the kernel
    the Gram matrix. The counts are compared by their products, their minima (weighted alike), or
    the ratio of the sums of weighted minima and maxima: see :class:`CountKernel`.

    Args:
        num_iterations: h, at least 0.
        node_label: The attribute of labels, ``(N,)``, or ``(N, F)``, whose distinct rows are the
            labels (one-hot vectors, say), or N strings; None: nodes are all alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: edges are all alike.
        compare: ``'dot'``, ``'min'`` or ``'minmax'``: see :class:`CountKernel`.
        iteration_weights: :math:`w_0, \ldots, w_h`, at least 0; None: all 1.
        normalize: Whether to divide by :math:`\sqrt{K(G, G) K(G', G')}`; 0 where that is 0. Rows of
            features are divided by :math:`\sqrt{K(G, G)}`, labels of other graphs included.
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
        compare: str = "dot",
        iteration_weights: Sequence[float] | None = None,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.num_iterations = num_iterations
        self.node_label = node_label
        self.edge_label = edge_label
        self.normalize = normalize
        self.output = output
        self.compare = compare
        self.iteration_weights = iteration_weights
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        super()._check()
        if self.iteration_weights is not None:
            weights = np.asarray(self.iteration_weights, float)
            known = np.isfinite(weights) & (weights >= 0)
            if weights.shape != (self.num_iterations + 1,) or not known.all():
                raise ValueError(
                    f"iteration_weights={self.iteration_weights!r}: expected "
                    f"{self.num_iterations + 1} finite numbers of at least 0, for iterations 0 to "
                    f"{self.num_iterations}"
                )

    def _weights(self) -> NDArray[Any] | None:
        return None if self.iteration_weights is None else np.asarray(self.iteration_weights, float)

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        relabeling = DiscreteRelabeling(self.node_label, self.edge_label)
        keep_freed_memory()
        return count_chunks(
            relabeling.chunks(items),
            lambda graphs: count_labels(graphs, relabeling, self.num_iterations, dtype),
        )
