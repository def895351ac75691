"""Random features: untrained layers as unbiased feature maps of their kernels.

This is the only module that knows both the layers and the exact kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import Module
from torch.random import fork_rng
from torch_geometric.nn import global_add_pool

from pyg_kernels.checks import checked_count
from pyg_kernels.kernels import Kernel, RandomWalkKernel, StringKernel
from pyg_kernels.kernels.graphs import Graphs, consecutive_runs
from pyg_kernels.kernels.hashing import mixed
from pyg_kernels.kernels.kernel import as_array, full_precision
from pyg_kernels.kernels.texts import Texts
from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN, RCNNCell

_STEP, _FEATURE = 0x2545F4914F6CDD1D, 0x5851F42D4C957F2D
_EDGES = 1 << 20  # the steps of edge maps are numbered from here on, the steps of node maps from 0
_ELEMENTS = 2**23  # most numbers in the states of a batch
_ROW_BYTES = 64  # bytes that a node takes for each feature
_LABELED_ROWS = 2048  # most rows of a batch whose labels become one-hot vectors


@dataclass(eq=False, repr=False)
class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random features of a string or random-walk kernel, from a layer that is never trained.

    .. math::
        \hat\phi(G) = m^{-1/2} \sum_v c_n[v], \qquad
        \mathbb{E} \langle \hat\phi(G), \hat\phi(G') \rangle = K(G, G')

    with the states :math:`c_n` of a :class:`~pyg_kernels.nn.RandomWalkConv` that has m channels and
    decay :math:`\sqrt\lambda`. Its weights are independent and :math:`\pm 1` with equal
    probability: by theorem 3 of Lei et al. 2017, each channel is the kernel's feature map projected
    on a random tensor product. Walks may turn back in the layer if they may in the kernel. For
    texts, the layer is an unnormalised :class:`~pyg_kernels.sequence.RCNN` of decay
    :math:`\lambda`: ``weighting='end'`` reads its state at the last token, ``'span'`` sums its
    states ``z``. With ``sum_orders``, the states of all orders are summed.

    The features of n objects cost O(n m), a Gram matrix O(n²): a linear model on the features
    replaces a kernel method where the Gram matrix would be too large. The error of
    :math:`\langle \hat\phi(G), \hat\phi(G') \rangle` falls as :math:`1 / \sqrt m`. With a single
    feature its standard deviation is at most :math:`3^{d/2} \sqrt{K(G, G) K(G', G')}`, where d is
    the number of random factors of a walk: n for walks of n nodes, or 2n - 1 with edge features.

    Args:
        kernel: A :class:`~pyg_kernels.kernels.RandomWalkKernel` or
            :class:`~pyg_kernels.kernels.StringKernel`; None for ``RandomWalkKernel()``. It also
            sets which attributes of a graph are read, the floating type and the working memory.
        n_components: The number of features m.
        random_state: The seed of the weights: an integer, which gives the same features in every
            process and on every device; a NumPy ``RandomState``, from which each ``fit`` draws a
            seed; or None for NumPy's global ``RandomState``.

    ``fit`` only learns the form of the inputs; ``transform`` returns features of shape ``(n, m)``.

    Attributes:
        seed_: After ``fit``, the seed of the weights.

    Raises:
        TypeError: If the kernel is of another class, or an item is not a graph or a text.
        ValueError: If the kernel has ``combine='add'``, cosine normalisation, a decay above 1 or
            ``order=None``, for which there is no such layer; for inputs that the kernel refuses.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.pipeline import make_pipeline
        >>> from pyg_kernels.features import RandomFeatures
        >>> from pyg_kernels.kernels import RandomWalkKernel
        >>> features = RandomFeatures(RandomWalkKernel(order=3), n_components=64, random_state=0)
        >>> features.fit_transform(["CCO", "CCN", "CCC"]).shape
        (3, 64)
        >>> model = make_pipeline(features, Ridge()).fit(["CCO", "CCN", "CCC"], [1.0, 2.0, 0.0])

    See Also:
        :class:`~pyg_kernels.kernels.RandomWalkKernel` and
        :class:`~pyg_kernels.kernels.StringKernel`, the kernels;
        :class:`~pyg_kernels.nn.RandomWalkConv` and :class:`~pyg_kernels.sequence.RCNN`, the layers.
    """

    kernel: Kernel | None = None
    n_components: int = 1024
    random_state: int | np.random.RandomState | None = None

    def __sklearn_tags__(self) -> Any:
        """Declares the same input tags as the kernel."""
        tags = super().__sklearn_tags__()
        kernel = self.kernel if isinstance(self.kernel, Kernel) else RandomWalkKernel()
        tags.input_tags = kernel.__sklearn_tags__().input_tags
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns the kind and size of the features of a collection."""
        kernel = self._checked_kernel()
        self._start(kernel._read(X))
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The features of n graphs or texts, ``(n, m)``."""
        check_is_fitted(self, "form_")
        kernel = self._checked_kernel()
        return self._features(kernel, kernel._read(X, self.form_))

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """``fit(X)`` and ``transform(X)``, reading the collection once."""
        kernel = self._checked_kernel()
        collection = kernel._read(X)
        self._start(collection)
        return self._features(kernel, collection)

    def _checked_kernel(self) -> StringKernel | RandomWalkKernel:
        checked_count(self.n_components, "n_components")
        kernel = RandomWalkKernel() if self.kernel is None else self.kernel
        if not isinstance(kernel, (StringKernel, RandomWalkKernel)):
            raise TypeError(
                f"kernel={kernel!r}: expected a StringKernel or a RandomWalkKernel; the maps of "
                "other kernels are no frozen layer's"
            )
        kernel._check()
        additive = isinstance(kernel, StringKernel) and kernel.combine == "add"
        cosine = kernel._is_cosine()
        for refused, why in (
            (cosine, "the cosine needs K(x, x); divide the features by their norm instead"),
            (additive, "the additive layer also counts incomplete n-grams"),
            (kernel.order is None, "walks of all orders are no frozen layer's"),
            (kernel.decay > 1, "the layer's decay is at most 1"),
        ):
            if refused:
                raise ValueError(f"kernel={kernel!r}: {why}")
        return kernel

    def _start(self, collection: Any) -> None:
        """Keeps the form of a collection and sets the seed."""
        if isinstance(self.random_state, Integral):
            self.seed_: int = checked_count(self.random_state, "random_state", least=0)
        else:
            self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        self.form_ = collection.part(torch.tensor([], dtype=torch.long))

    def _features(self, kernel: StringKernel | RandomWalkKernel, collection: Any) -> NDArray[Any]:
        rows = _ELEMENTS // ((cast(int, kernel.order) + 2) * int(self.n_components))
        rows = min(rows, kernel.max_memory // _ROW_BYTES // self.n_components)
        if collection.has_labels:
            rows = min(rows, _LABELED_ROWS)
        found = torch.empty(len(collection), self.n_components, dtype=collection.dtype)
        module: Any = None
        known: Sequence[Tensor] = ()  # the columns of nodes, and of edges, that the module reads
        with torch.no_grad(), full_precision():
            for start, stop in consecutive_runs(collection.sizes.tolist(), max(1, rows)):
                part = collection.part(torch.arange(start, stop))
                inputs, columns = zip(*_read(part), strict=True)
                if module is None or not all(map(torch.equal, known, columns)):
                    module, known = self._layer(kernel, columns).to(inputs[0]), columns
                of_items = _of_texts if isinstance(kernel, StringKernel) else _of_graphs
                features = of_items(kernel, part, module, *inputs)
                found[start:stop] = features.mul_(self.n_components**-0.5).cpu()
        return as_array(found)

    def _layer(self, kernel: StringKernel | RandomWalkKernel, columns: Sequence[Tensor]) -> Module:
        """The layer of a kernel, with random signs as the weights of its maps."""
        channels, order = int(self.n_components), int(cast(int, kernel.order))
        layer: RandomWalkConv | RCNN
        maps: list[Any]
        with fork_rng(devices=[]):
            if isinstance(kernel, StringKernel):
                layer = RCNN(
                    len(columns[0]),
                    channels,
                    order=order,
                    decay=float(kernel.decay),
                    normalize=False,
                    readout="z" if kernel.weighting == "span" else "c",
                    act=None,
                    bias=False,
                )
                maps = [cast(RCNNCell, layer.cells[0]).lins]
            else:
                layer = RandomWalkConv(
                    len(columns[0]),
                    channels,
                    order,
                    decay=float(kernel.decay) ** 0.5,
                    edge_dim=len(columns[1]) if len(columns) > 1 else None,
                    return_states=True,
                    non_backtracking=bool(kernel.non_backtracking),
                )
                maps = [layer.lins, layer.edge_lins]
        for first, own, lins in zip((0, _EDGES), columns, maps, strict=False):
            for step, lin in enumerate(lins, start=first):
                lin.weight.copy_(self._signs(step, own))
        return layer

    def _signs(self, step: int, columns: Tensor) -> Tensor:
        """The weights of a step, +1 or -1, (m, number of columns).

        They are hashes of seed, step, feature and column, so that a label has the same weights in
        every batch.
        """
        start = mixed(torch.tensor(self.seed_ & (2**63 - 1)) + torch.tensor(step) * _STEP)
        features = mixed(start + torch.arange(self.n_components) * _FEATURE).to(columns.device)
        bits = mixed(features[:, None] ^ mixed(columns + _STEP)) >> 63
        return 1 + 2 * bits


def _of_graphs(
    kernel: RandomWalkKernel, graphs: Graphs, layer: Module, nodes: Tensor, *edges: Tensor
) -> Tensor:
    states = layer(nodes, graphs.edge_index, *edges)
    total = sum(states[1:], states[0]) if kernel.sum_orders else states[-1]
    return global_add_pool(total, graphs.owner(), len(graphs))


def _of_texts(kernel: StringKernel, texts: Texts, layer: Module, tokens: Tensor) -> Tensor:
    states, _ = layer(tokens, ptr=texts.ptr.to(tokens.device))
    lengths = texts.sizes.to(tokens.device)
    if kernel.weighting == "span":
        features = global_add_pool(states, torch.repeat_interleave(lengths), len(texts))
    else:
        features = states.new_zeros(len(texts), states.size(1))
        ends = texts.ptr[1:].to(tokens.device)[lengths > 0] - 1
        features[lengths > 0] = states.index_select(0, ends)
    scale = kernel._scale(texts)
    return features if scale is None else features * scale[:, None]


def _read(part: Graphs | Texts) -> list[tuple[Tensor, Tensor]]:
    """The vectors of tokens, or of nodes and any edges, each with the names of its columns."""
    if isinstance(part, Texts):
        return [_vectors(part.values, None, part.dtype)]
    found = [_vectors(part.x, part.node_label, part.dtype)]
    if part.edge_attr is not None:
        found.append(_vectors(part.edge_attr, part.edge_label, part.dtype))
    return found


def _vectors(values: Tensor, labels: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The vectors, or one-hot labels, or the tensor product of both; and the columns' names."""
    if values.dim() == 2:
        names = torch.arange(values.size(1), device=values.device)
        if labels is None:
            return values, names
        one_hot, columns = _vectors(labels, None, dtype)
        products = one_hot[:, :, None] * values[:, None]
        return products.flatten(1), (mixed(columns)[:, None] + names).flatten()
    columns, place = values.unique(return_inverse=True)
    if not len(columns):
        columns = torch.zeros(1, dtype=torch.long, device=values.device)
    one_hot = torch.zeros(len(values), len(columns), dtype=dtype, device=values.device)
    return one_hot.scatter_(1, place[:, None], 1), columns
