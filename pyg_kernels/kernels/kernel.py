"""What exact kernels share: scikit-learn's interface, normalisation, blocks of bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import product, repeat
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from tqdm import tqdm

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.kernels.activations import inverse_root
from pyg_kernels.ops.operator import is_plain

T = TypeVar("T")

_CACHED_ELEMENTS = 2**18  # most numbers in a tensor of a block on CPU, few enough for the cache
_SECONDS_BEFORE_BAR = 2.0


@contextmanager
def full_precision() -> Iterator[None]:
    """Turns autocast off: sums over walks leave the range of half precision."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


class Forgetful(BaseEstimator):
    """An estimator that drops its fitted attributes when arguments change that affect them."""

    _no_matter: ClassVar[set[str]] = {"max_memory", "verbose"}  # what may change after a fit

    def set_params(self, **params: Any) -> Self:
        """Sets arguments; a change that affects values drops the fitted attributes."""
        before = self.get_params()
        try:
            return super().set_params(**params)
        finally:
            after = self.get_params()
            changed = {name for name in after if after[name] is not before.get(name)}
            if {name.rpartition("__")[2] for name in changed} - self._no_matter:
                self._forget()

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)


class Kernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Forgetful, ABC):
    r"""An exact kernel with scikit-learn's interface, which can also be called on two collections.

    ``kernel(xs, ys)`` is the Gram matrix :math:`K(x_i, y_j)` as a tensor, differentiable in
    continuous inputs. After ``fit``, ``transform`` gives the Gram matrix against the fitted
    collection as a NumPy array, for estimators with ``kernel='precomputed'``; ``fit_transform``
    does both. These methods record no gradients.

    All kernels but :class:`WLKernel`, which leaves them to its base, and :class:`VectorKernel` take
    three more arguments:

    dtype
        The floating type to compute in; None: the type of continuous inputs, or float64 for labels.
    max_memory
        Bytes of working memory for the blocks of the Gram matrix that are computed at a time,
        besides inputs and result. A single pair may need more, and so do gradients.
    verbose
        Whether to show a progress bar; None: on a terminal, if the work takes over two seconds.

    Example:
        >>> from sklearn.svm import SVC
        >>> from pyg_kernels.kernels import StringKernel
        >>> kernel = StringKernel(order=2)
        >>> gram = kernel.fit_transform(["cat", "car", "dog", "dot"])
        >>> model = SVC(kernel="precomputed").fit(gram, ["c", "c", "d", "d"])
        >>> model.predict(kernel.transform(["cap", "dob"]))
        array(['c', 'd'], dtype='<U1')

    See Also:
        :class:`RandomWalkKernel` and :class:`WLSubtreeKernel` of graphs, :class:`StringKernel` of
        texts; :class:`KernelGP`; :class:`~pyg_kernels.features.RandomFeatures`, where a Gram matrix
        does not fit; ``pyg_kernels.kernels.gpytorch.GPyTorchKernel``.
    """

    _normalizations: ClassVar[Sequence[Any]] = (False, True)

    def __sklearn_tags__(self) -> Any:
        """Says that the input is a collection of texts or graphs, not a matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    @torch.no_grad()
    @full_precision()
    def fit(self, X: Any, y: Any = None) -> Self:
        """Reads and keeps the collection that ``transform`` compares with."""
        self._check()
        self.collection_ = self._read(X)
        self.scale_ = self._scale(self.collection_)
        return self

    @torch.no_grad()
    @full_precision()
    def transform(self, X: Any) -> Any:
        """The Gram matrix of a collection and the fitted one, ``(n, n_fitted)``."""
        check_is_fitted(self, "collection_")
        self._check()
        collection = self._read(X, self.collection_)
        gram = self._raw_gram(collection, self.collection_)
        return as_array(scaled(gram, self._scale(collection), self.scale_))

    @torch.no_grad()
    @full_precision()
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Calls ``fit(X)``, and returns the collection's Gram matrix with itself, ``(n, n)``."""
        self._check()
        self.collection_ = self._read(X)
        gram = self._raw_gram(self.collection_, None)
        self.scale_ = self._scale(self.collection_, gram.diagonal())
        return as_array(self._of_one(gram, self.scale_))

    @full_precision()
    def __call__(self, xs: Any, ys: Any = None) -> Tensor:
        """The Gram matrix of two collections, or of one with itself.

        Args:
            xs: n items.
            ys: m items; None: those of `xs`.

        Returns:
            The values ``(n, m)`` on the inputs' device.
        """
        self._check()
        first = self._read(xs)
        return self._gram(first, None if ys is None else self._read(ys, first))

    @full_precision()
    def diagonal(self, xs: Any) -> Tensor:
        """The kernel of each of n items with itself, ``(n,)``."""
        self._check()
        return self._diagonal(self._read(xs))

    @property
    def _n_features_out(self) -> int:
        return len(self.collection_)

    def _gram(self, a: Any, b: Any = None) -> Tensor:
        """The Gram matrix of collections that were read; of one with itself it is symmetric."""
        gram = self._raw_gram(a, b)
        if b is not None:
            return scaled(gram, self._scale(a), self._scale(b))
        return self._of_one(gram, self._scale(a, gram.diagonal()))

    def _of_one(self, gram: Tensor, scale: Tensor | None) -> Tensor:
        """The Gram matrix of a collection with itself, normalized and exactly symmetric."""
        gram = scaled(gram, scale, scale)
        return gram if scale is None else (gram + gram.t()).div_(2)

    def _diagonal(self, collection: Any) -> Tensor:
        """The kernel of each item with itself, of a collection that has been read."""
        values = self._raw_diagonal(collection)
        scale = self._scale(collection, values)
        return values if scale is None else values * scale * scale

    # What a kernel is made of

    def _check(self) -> None:
        """Checks the arguments; constructors only store them, as scikit-learn requires."""
        checked_choice(getattr(self, "normalize", False), "normalize", self._normalizations)

    @abstractmethod
    def _read(self, items: Any, like: Any = None) -> Any:
        """Reads and checks a collection; `like` is one that it will be compared with."""

    @abstractmethod
    def _raw_gram(self, a: Any, b: Any) -> Tensor:
        """The Gram matrix without normalisation.

        Where b is None it is that of a with itself, and exactly symmetric.
        """

    @abstractmethod
    def _raw_diagonal(self, collection: Any) -> Tensor:
        """The kernel of each item with itself, without normalisation."""

    def _levels(self, collection: Any) -> list[Any]:
        """The parts of a collection that each give a kernel of their own in a learned sum."""
        return [collection]

    def _level_grams(self, a: Any, b: Any = None) -> Iterator[Tensor]:
        """The Gram matrix of each level, one after the other."""
        others = repeat(None) if b is None else self._levels(b)
        return map(self._gram, self._levels(a), others)

    def _is_cosine(self) -> bool:
        return getattr(self, "normalize", False) in (True, "cosine")

    def _scale(self, collection: Any, diagonal: Tensor | None = None) -> Tensor | None:
        """The normalising factor of each item, or None; `diagonal` saves work where it is known."""
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
        dtype, verbose = self.dtype, self.verbose
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise ValueError(
                f"dtype={dtype!r}: expected torch.float64, torch.float32, ..., or None"
            )
        checked_count(self.max_memory, "max_memory")
        if verbose is not None and not (isinstance(verbose, np.bool_ | Integral) and verbose >= 0):
            raise ValueError(f"verbose={verbose!r}: expected True, False or None")


class BlockKernel(BoundedKernel):
    """A kernel whose Gram matrix is computed block by block.

    Its collections have ``device``, ``dtype``, ``requires_grad``, ``part(items)``, ``runs(limit)``.
    The last splits items into runs whose blocks have at most `limit` rows, or hold one large item.
    """

    @abstractmethod
    def _values(self, a: Any, b: Any) -> Tensor:
        """The kernel of all pairs of two prepared parts, without normalisation."""

    @abstractmethod
    def _prepare(self, part: Any) -> Any:
        """What a part contributes to all its blocks, computed once."""

    def _self_values(self, part: Any) -> Tensor:
        """The kernel of each item of a part with itself."""
        prepared = self._prepare(part)
        return self._values(prepared, prepared).diagonal()

    def _limit(self, collection: Any) -> int:
        """The most rows of a block on either side."""
        elements = self.max_memory // (self._tensors_in_block * collection.dtype.itemsize)
        if collection.device.type == "cpu":
            elements = min(elements // torch.get_num_threads(), _CACHED_ELEMENTS)
        return max(1, int(elements**0.5))

    @property
    def _tensors_in_block(self) -> int:
        """How many tensors of the size of a block there are at a time."""
        return 6

    def _runs(self, collection: Any, limit: int) -> list[Tensor]:
        """The items of each part, whose blocks have at most `limit` rows."""
        return list(collection.runs(limit))

    def _self_limit(self, collection: Any) -> int:
        """The most rows of a part whose items are compared with themselves."""
        return self._limit(collection)

    def _raw_gram(self, a: Any, b: Any) -> Tensor:
        _keep_freed_memory()
        limit = self._limit(a)
        rows = [(run, self._prepare(a.part(run))) for run in self._runs(a, limit)]
        columns = rows
        if b is not None:
            columns = [(run, self._prepare(b.part(run))) for run in self._runs(b, limit)]
        size = len(a), len(a if b is None else b)
        gram = torch.zeros(size, dtype=a.dtype, device=a.device)

        def fill(block: tuple[int, int]) -> Tensor:
            i, j = block
            (items, part), (others, other) = rows[i], columns[j]
            values = self._values(part, other)
            if b is None and i == j:
                values = (values + values.t()) / 2
            gram[items[:, None], others] = values
            if b is None and i < j:
                gram[others[:, None], items] = values.t()
            return values

        every = product(range(len(rows)), range(len(columns)))
        blocks = [(i, j) for i, j in every if b is not None or i <= j]
        with progress_bar(type(self).__name__, gram.numel(), self.verbose) as bar:
            for (i, j), values in zip(blocks, _map_in_threads(fill, blocks, a, b), strict=True):
                bar.update(values.numel() * (2 if b is None and i < j else 1))
        return gram

    def _raw_diagonal(self, collection: Any) -> Tensor:
        _keep_freed_memory()
        runs = self._runs(collection, self._self_limit(collection))

        def compare(run: Tensor) -> Tensor:
            return self._self_values(collection.part(run))

        values = torch.cat(list(_map_in_threads(compare, runs, collection)))
        return values.index_select(0, torch.cat(runs).argsort().to(values.device))


def _map_in_threads(
    task: Callable[[T], Tensor], items: Sequence[T], *collections: Any
) -> Iterator[Tensor]:
    """Maps a task on PyTorch's number of threads, each with single-threaded operations.

    A block's operations are too small to use several threads each. Tasks run one after another on a
    GPU, and where a collection or (through parameters of an activation) the first result requires
    gradients: these threads have no autograd tape and no transforms of torch.func.
    """
    first = task(items[0])
    yield first
    known = [c for c in collections if c is not None]
    wanted = torch.is_grad_enabled() and any(c.requires_grad for c in known)
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    on_cpu = all(c.device.type == "cpu" for c in known)
    if not on_cpu or wanted or first.requires_grad or not is_plain(first) or threads == 1:
        yield from map(task, items[1:])
        return

    def alone(item: T) -> Tensor:
        with torch.inference_mode() if inference else torch.no_grad():
            return task(item)

    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(alone, items[1:])
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def progress_bar(name: str, total: int, verbose: bool | int | None) -> tqdm[Any]:
    """A progress bar of pairs; with ``verbose=None`` only on a terminal, after two seconds."""
    return tqdm(
        total=total,
        desc=name,
        unit=" pairs",
        unit_scale=True,
        disable=None if verbose is None else not verbose,
        delay=_SECONDS_BEFORE_BAR if verbose is None else 0.0,
        leave=False,
    )


def scaled(gram: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    """The Gram matrix times a factor of each row and column, or None for 1."""
    # If the sum is finite, so are its summands; checking the sum takes a tenth of the time.
    if not bool(gram.sum().isfinite()) and not bool(gram.isfinite().all()):
        raise ValueError(
            f"a value of the kernel is not finite in {gram.dtype}; scale the features down, lower "
            "the order or the decay, or compute in torch.float64 (dtype)"
        )
    if rows is None or columns is None:
        return gram
    return gram * rows[:, None] * columns  # two products: rows[i] * columns[k] alone may overflow


def as_array(gram: Tensor) -> np.ndarray[Any, Any]:
    """The Gram matrix as a NumPy array."""
    gram = gram.float() if gram.dtype == torch.bfloat16 else gram  # NumPy has no bfloat16
    return gram.cpu().numpy()


def _keep_freed_memory() -> None:
    """Lets the C library keep the memory of freed tensors for the next ones.

    glibc returns every freed block above a threshold to the system. Each new tensor of a block of
    the Gram matrix would fault its pages in again, at 18 times the cost of a copy of 2 MB. Freeing
    one untouched block raises the threshold to its size; it is just below the limit of 32 MB.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
