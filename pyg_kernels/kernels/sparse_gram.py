"""Gram matrices of sparse counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pyg_kernels.kernels.kernel import progress_bar
from pyg_kernels.ops.operator import cpu_backend

_DENSE_FROM = 0.05  # columns with a larger share of nonzero entries are multiplied as dense
_ROWS = 2048  # most rows of a block, so that its dense columns stay in cache


def sparse_gram(
    x: sparse.csr_matrix,
    y: sparse.csr_matrix | None,
    max_memory: int,
    verbose: bool | int | None,
    compare: str = "dot",
) -> NDArray[Any]:
    """Sums over the columns of sparse matrices, (n, C) and (m, C), as (n, m); None stands for `x`.

    The sums are of products for ``'dot'``, else of the smaller entries.
    """
    other = x if y is None else y
    gram = np.empty((x.shape[0], other.shape[0]), dtype=x.dtype)
    kind = _type_of_sums(x, other, compare)
    rows = min(_ROWS, max(1, max_memory // (32 * max(1, x.shape[0]))))
    x, other = x.astype(kind, copy=False), other.astype(kind, copy=False)
    with progress_bar("Gram matrix", gram.size, verbose) as bar:
        for start in range(0, other.shape[0], rows):
            block = other[start : start + rows]
            if cpu_backend() == "numba":
                _compare(x, block.tocsc(), compare, gram, start)
            elif compare == "dot":
                gram[:, start : start + rows] = (x @ block.T).toarray()
            else:
                for i, sums in enumerate(gram[:, start : start + rows]):
                    sums[:] = row_sums(block.minimum(x[[i] * len(sums)]))
            bar.update(x.shape[0] * block.shape[0])
    return gram


def min_max(least: NDArray[Any], own: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
    """Divides sums of minima by sums of maxima (from row sums), in place; 0 where both are 0."""
    if cpu_backend() == "numba":
        from pyg_kernels.kernels import cpu
        from pyg_kernels.ops.compiled import run

        run(cpu.ratios, len(least), least.size, least, own, theirs)
        return least
    for sums, total in zip(least, own, strict=True):
        most = total + theirs - sums
        np.divide(sums, most, out=sums, where=most > 0)
    return least


def row_sums(x: sparse.csr_matrix) -> NDArray[Any]:
    """The sums of the rows, (n,)."""
    return np.asarray(x.sum(1)).ravel().astype(x.dtype)


def squared_norms(x: sparse.csr_matrix) -> NDArray[Any]:
    """The sums of squares of the rows, (n,)."""
    return row_sums(x.multiply(x))


def _compare(
    x: sparse.csr_matrix, block: sparse.csc_matrix, compare: str, gram: NDArray[Any], start: int
) -> None:
    from pyg_kernels.kernels import cpu
    from pyg_kernels.ops.compiled import run

    frequent = np.flatnonzero(np.diff(block.indptr) > _DENSE_FROM * block.shape[0])
    place = np.full(block.shape[1], -1)
    place[frequent] = np.arange(len(frequent))
    dense = np.ascontiguousarray(block[:, frequent].toarray().T)
    others, rows = ((m.indptr, m.indices, m.data) for m in (block, x))
    given = *rows, others, dense, place, compare != "dot", gram, start
    run(cpu.sparse_sums, x.shape[0], x.nnz * block.shape[0], *given)


def _type_of_sums(x: sparse.csr_matrix, y: sparse.csr_matrix, compare: str) -> np.dtype[Any]:
    """float32 where its sums are exact (whole numbers, no sum above 2^24), else the type of x."""
    for features in (x, y):
        whole = np.array_equal(features.data, np.round(features.data))
        sums = squared_norms(features) if compare == "dot" else row_sums(features)
        if not whole or sums.max(initial=0) > 2**24:
            return x.dtype
    return np.dtype(np.float32)
