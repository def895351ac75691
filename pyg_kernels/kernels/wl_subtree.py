"""The Weisfeiler-Lehman subtree kernel: counts of labels over the iterations of relabelling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyg_kernels.kernels.arguments import Names, checked_count
from pyg_kernels.kernels.count_kernel import CountKernel, Occurrences
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.patterns import GraphTexts
from pyg_kernels.kernels.wl import DiscreteRelabeling


@dataclass(eq=False, repr=False)
class WLSubtreeKernel(CountKernel):
    r"""The Weisfeiler-Lehman subtree kernel, with explicit features.

    .. math::
        K(G, G') = \sum_{i=0}^h w_i \sum_a \#_a(r^i(G)) \, \#_a(r^i(G'))

    where :math:`\#_a(r^i(G))` counts the nodes with the label a after i iterations of
    :class:`DiscreteRelabeling` (Shervashidze et al. 2011). The feature map is finite:
    ``fit_transform`` gives the counts as a sparse matrix for linear models, and calling the kernel
    the Gram matrix. The counts are compared by their products, their minima (weighted alike), or
    the ratio of the sums of weighted minima and maxima. Errors are as of
    :class:`RandomWalkKernel`.

    Args:
        num_iterations: h, at least 0.
        node_label: The attribute of labels, ``(N,)``, or ``(N, F)``, whose distinct rows are the
            labels (one-hot vectors, say), or N strings; a list of names: labels are the tuples of
            all of them; None: nodes are all alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: edges are all alike.
        iteration_weights: :math:`w_0, \ldots, w_h`, at least 0; None: all 1.

    Equal whole numbers are one label in every type; a number and a string, or rows of different
    widths, are different labels, also where one was fitted and the other is new. All other
    arguments are as of :class:`CountKernel`.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.pipeline import make_pipeline
        >>> from pyg_kernels.kernels import WLSubtreeKernel
        >>> smiles, y = ["CCO", "CCN", "CCCO"], [1.0, 2.0, 1.1]
        >>> WLSubtreeKernel(num_iterations=1)(smiles)
        tensor([[ 6.,  3.,  6.],
                [ 3.,  6.,  4.],
                [ 6.,  4., 10.]], dtype=torch.float64)
        >>> features = WLSubtreeKernel(num_iterations=3, edge_label="edge_attr")
        >>> model = make_pipeline(features, Ridge()).fit(smiles, y)

    See Also:
        :class:`WLKernel`, of other base kernels; :class:`DiscreteRelabeling`;
        :class:`~pyg_kernels.nn.WLKernelNet`, the network; :class:`MoleculeSimilarity`.
    """

    num_iterations: int = 3
    node_label: Names = "x"
    edge_label: Names = None
    _: KW_ONLY
    iteration_weights: Sequence[float] | None = None

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

    def _occurrences(self, graphs: Graphs, complete: bool = False) -> Iterator[Occurrences]:
        relabeling = DiscreteRelabeling()
        state = graphs.x
        nodes = torch.arange(graphs.num_nodes, device=graphs.device)[:, None]
        for i in range(self.num_iterations + 1):
            yield Occurrences(state, nodes, nodes[:, :0])
            if i < self.num_iterations:
                state = relabeling.step(state, graphs)

    def _name(self, texts: GraphTexts, block: int, nodes: list[int], steps: list[int]) -> str:
        return texts.environment(nodes[0], block)
