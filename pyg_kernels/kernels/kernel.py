"""What all exact kernels share: scikit-learn's calls, and normalisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pyg_kernels.kernels.activations import inverse_root
from pyg_kernels.kernels.arguments import (
    checked_choice,
    checked_count,
    checked_dtype,
    checked_verbose,
)

_TILE = 256  # rows of a part of a Gram matrix, few enough for the cache


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

    _normalizations: ClassVar[Sequence[Any]] = (False, True)
    _is_symmetric = False  # whether `_raw_gram` is exactly so

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
            return _array(scaled(gram, self._scale(collection), self.scale_))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X)``, and the Gram matrix of the collection with itself, ``(n, n)``."""
        self._check()
        with torch.no_grad(), _full_precision():
            self.collection_ = self._read(X)
            gram = self._raw_gram(self.collection_, None)
            self.scale_ = self._scale(self.collection_, gram.diagonal())
            return _array(self._of_one(gram, self.scale_))

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
            return self._of_one(gram, self._scale(a, gram.diagonal()))
        return scaled(gram, self._scale(a), self._scale(b))

    def _of_one(self, gram: Tensor, scale: Tensor | None) -> Tensor:
        """The Gram matrix of a collection with itself, normalized and exactly symmetric."""
        gram = scaled(gram, scale, scale)
        return gram if scale is None and self._is_symmetric else _symmetric(gram)

    def _diagonal(self, collection: Any) -> Tensor:
        """The kernel of each item with itself, of a collection that has been read."""
        values = self._raw_diagonal(collection)
        scale = self._scale(collection, values)
        return values if scale is None else values * scale * scale

    # What a kernel is made of

    def _check(self) -> None:
        """Checks the arguments, which scikit-learn wants stored as they came."""
        checked_choice(getattr(self, "normalize", False), "normalize", self._normalizations)

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

    def _level_grams(self, a: Any, b: Any = None) -> Iterator[Tensor]:
        """The Gram matrix of each level, one after the other."""
        others = [None] * len(self._levels(a)) if b is None else self._levels(b)
        for level, other in zip(self._levels(a), others, strict=True):
            yield self._gram(level, other)

    def _is_cosine(self) -> bool:
        return bool(getattr(self, "normalize", False))

    def _scale(self, collection: Any, diagonal: Tensor | None = None) -> Tensor | None:
        """The factor of each item that normalises, or None; `diagonal` where it is known."""
        if not self._is_cosine():
            return None
        return inverse_root(self._raw_diagonal(collection) if diagonal is None else diagonal)


@dataclass(eq=False, repr=False)
class BoundedKernel(Kernel):
    """A kernel with a type to compute in, bounded memory and a progress bar."""

    _: KW_ONLY
    dtype: torch.dtype | None = None
    max_memory: int = 2**28
    verbose: bool | int | None = None

    def _check(self) -> None:
        super()._check()
        checked_dtype(self.dtype)
        checked_count(self.max_memory, "max_memory")
        checked_verbose(self.verbose)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Without autocast: sums over walks leave the range of half precision."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def scaled(gram: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    """The Gram matrix times a factor of each row and column, or None for 1."""
    # A finite sum has finite summands, and takes a tenth of the time.
    if not bool(gram.sum().isfinite()) and not bool(gram.isfinite().all()):
        raise ValueError(
            f"a value of the kernel is not finite in {gram.dtype}; scale the features down, lower "
            "the order or the decay, or compute in torch.float64 (dtype)"
        )
    if rows is None or columns is None:
        return gram
    return gram * rows[:, None] * columns  # two products: rows[i] * columns[k] alone may overflow


def _symmetric(gram: Tensor) -> Tensor:
    """The matrix made exactly symmetric, in place, which rounding may have prevented."""
    if gram.requires_grad:
        return (gram + gram.t()) / 2
    tiles = [slice(start, start + _TILE) for start in range(0, len(gram), _TILE)]
    for number, rows in enumerate(tiles):
        for columns in tiles[number:]:
            mean = (gram[rows, columns] + gram[columns, rows].t()) / 2
            gram[rows, columns], gram[columns, rows] = mean, mean.t()
    return gram


def _array(gram: Tensor) -> np.ndarray[Any, Any]:
    gram = gram.float() if gram.dtype == torch.bfloat16 else gram  # NumPy has no bfloat16
    return gram.cpu().numpy()
