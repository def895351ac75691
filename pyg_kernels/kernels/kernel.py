"""What all exact kernels share: scikit-learn's calls, and normalisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.kernels.activations import inverse_root


class Kernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    r"""An exact kernel, called in scikit-learn's way or on two collections.

    ``kernel(xs, ys)`` is the Gram matrix :math:`K(x_i, y_j)` as a tensor, differentiable in
    continuous inputs; ``fit``, ``transform`` and ``fit_transform`` give the Gram matrix against the
    fitted collection as a NumPy array, for estimators with ``kernel='precomputed'``. Nothing is
    recorded for gradients there.

    All kernels but :class:`WLKernel`, which leaves them to its base, and :class:`VectorKernel` take
    three more arguments:

    dtype
        The floating type to compute in; None: that of continuous inputs, float64 for exact matches.
    max_memory
        Bytes of working memory for the blocks of the Gram matrix that are computed at a time,
        besides inputs and result. A single pair may need more, and so do gradients.
    verbose
        Whether to show a progress bar; None: on a terminal, where it lasts over two seconds.
    """

    def __sklearn_tags__(self) -> Any:
        """Says that the input is a collection of texts or graphs, not a matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Reads and keeps the collection that ``transform`` compares with."""
        self._check()
        with torch.no_grad(), _full_precision():
            self.collection_ = self._read(X)
            self.scale_ = self._scale(self.collection_)
        return self

    def transform(self, X: Any) -> Any:
        """The Gram matrix of a collection and the fitted one, ``(n, n_fitted)``."""
        check_is_fitted(self, "collection_")
        self._check()
        with torch.no_grad(), _full_precision():
            collection = self._read(X, self.collection_)
            gram = self._raw_gram(collection, self.collection_)
            return _array(_scaled(gram, self._scale(collection), self.scale_))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X)``, and the Gram matrix of the collection with itself, ``(n, n)``."""
        self._check()
        with torch.no_grad(), _full_precision():
            self.collection_ = self._read(X)
            gram = self._raw_gram(self.collection_, None)
            self.scale_ = self._scale(self.collection_, gram.diagonal())
            return _array(_symmetric(_scaled(gram, self.scale_, self.scale_)))

    def __call__(self, xs: Any, ys: Any = None) -> Tensor:
        """The Gram matrix of two collections, or of one with itself.

        Args:
            xs: n items.
            ys: m items; None: those of `xs`.

        Returns:
            The values ``(n, m)`` on the inputs' device.
        """
        self._check()
        with _full_precision():
            first = self._read(xs)
            return self._gram(first, None if ys is None else self._read(ys, first))

    def diagonal(self, xs: Any) -> Tensor:
        """The kernel of each of n items with itself, ``(n,)``."""
        self._check()
        with _full_precision():
            return self._diagonal(self._read(xs))

    @property
    def _n_features_out(self) -> int:
        return len(self.collection_)

    def _gram(self, a: Any, b: Any = None) -> Tensor:
        """The Gram matrix of collections that have been read."""
        gram = self._raw_gram(a, b)
        if b is None:
            scale = self._scale(a, gram.diagonal())
            return _symmetric(_scaled(gram, scale, scale))
        return _scaled(gram, self._scale(a), self._scale(b))

    def _diagonal(self, collection: Any) -> Tensor:
        """The kernel of each item with itself, of a collection that has been read."""
        values = self._raw_diagonal(collection)
        return _scaled_diagonal(values, self._scale(collection, values))

    # What a kernel is made of

    @abstractmethod
    def _check(self) -> None:
        """Checks the arguments, which scikit-learn wants stored as they came."""

    @abstractmethod
    def _read(self, items: Any, like: Any = None) -> Any:
        """Reads and checks a collection; `like` is one that it will be compared with."""

    @abstractmethod
    def _raw_gram(self, a: Any, b: Any) -> Tensor:
        """The Gram matrix without normalisation; b is None for that of a with itself."""

    @abstractmethod
    def _raw_diagonal(self, collection: Any) -> Tensor:
        """The kernel of each item with itself, without normalisation."""

    def _levels(self, collection: Any) -> list[Any]:
        """The parts of what was read that are kernels of their own, in a sum that is learned."""
        return [collection]

    def _is_cosine(self) -> bool:
        return bool(getattr(self, "normalize", False))

    def _scale(self, collection: Any, diagonal: Tensor | None = None) -> Tensor | None:
        """The factor of each item that normalises, or None; `diagonal` where it is known."""
        if not self._is_cosine():
            return None
        return inverse_root(self._raw_diagonal(collection) if diagonal is None else diagonal)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Without autocast: sums over walks leave the range of half precision."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def _scaled(gram: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    if not bool(gram.isfinite().all()):
        raise ValueError(
            f"a value of the kernel is not finite in {gram.dtype}; scale the features down, lower "
            "the order or the decay, or compute in torch.float64 (dtype)"
        )
    if rows is None or columns is None:
        return gram
    return gram * rows[:, None] * columns  # two products: rows[i] * columns[k] alone may overflow


def _scaled_diagonal(values: Tensor, scale: Tensor | None) -> Tensor:
    return values if scale is None else values * scale * scale


def _symmetric(gram: Tensor) -> Tensor:
    """The matrix made exactly symmetric, which rounding may have prevented."""
    return (gram + gram.t()) / 2


def _array(gram: Tensor) -> np.ndarray[Any, Any]:
    gram = gram.float() if gram.dtype == torch.bfloat16 else gram  # NumPy has no bfloat16
    return gram.cpu().numpy()
