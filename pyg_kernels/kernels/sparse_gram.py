"""Gram matrices of sparse counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pyg_kernels.kernels.blocks import progress_bar

_DENSE_FROM = 0.05  # of the rows that have a column: it goes into a dense product
_BLOCK_BYTES = 2**24  # stay in cache


def sparse_gram(
    x: sparse.csr_matrix, y: sparse.csr_matrix | None, max_memory: int, progress: bool | None
) -> NDArray[Any]:
    """The inner products of all rows of two sparse matrices, dense.

    A label that many graphs have makes a sparse product as slow as a dense one without its speed:
    frequent columns are multiplied as a dense block, the others sparsely, and those that a single
    row has add to the diagonal alone.

    Args:
        x: (n, C).
        y: (m, C), or None for x.
        max_memory: Bytes for intermediate results.
        progress: As of :func:`~pyg_kernels.kernels.blocks.progress_bar`.

    Returns:
        (n, m), in the type of x.
    """
    other = x if y is None else y
    frequency = np.bincount(x.indices, minlength=x.shape[1])
    frequent = frequency > max(1.0, _DENSE_FROM * x.shape[0])
    columns = np.flatnonzero(frequent)
    most = max_memory // (4 * x.dtype.itemsize * (x.shape[0] + other.shape[0]))
    if len(columns) > most:
        columns = columns[np.argsort(-frequency[columns], kind="stable")[:most]]
        columns.sort()
    rest = np.flatnonzero(frequency > (1 if y is None else 0))
    rest = np.setdiff1d(rest, columns, assume_unique=True)
    kind = _product_type(x, other)
    dense, sparse_part = x[:, columns].astype(kind).toarray(), x[:, rest]
    dense_other = dense if y is None else other[:, columns].astype(kind).toarray()
    sparse_other = (sparse_part if y is None else other[:, rest]).T.tocsc()
    gram = np.empty((x.shape[0], other.shape[0]), dtype=x.dtype)
    block_bytes = min(max_memory, _BLOCK_BYTES)
    rows = max(1, block_bytes // (2 * other.shape[0] * x.dtype.itemsize))
    with progress_bar("Gram matrix", gram.size, " pairs", progress) as bar:
        for start in range(0, x.shape[0], rows):
            block = gram[start : start + rows]
            block[:] = dense[start : start + rows] @ dense_other.T
            block += (sparse_part[start : start + rows] @ sparse_other).toarray()
            bar.update(block.size)
    if y is None:
        single = frequency == 1
        data = np.where(single[x.indices], x.data, 0)
        gram[np.diag_indices_from(gram)] += _row_sums(data * data, x.indptr)
    return gram


def squared_norms(x: sparse.csr_matrix) -> NDArray[Any]:
    """The sums of squares of the rows, (n,)."""
    return _row_sums(x.data * x.data, x.indptr)


def _product_type(x: sparse.csr_matrix, y: sparse.csr_matrix) -> np.dtype[Any]:
    """float32 where its products are exact: whole numbers, and no sum of products above 2^24."""
    for features in (x, y):
        whole = np.array_equal(features.data, np.round(features.data))
        if not whole or squared_norms(features).max(initial=0) > 2**24:
            return x.dtype
    return np.dtype(np.float32)


def _row_sums(data: NDArray[Any], indptr: NDArray[Any]) -> NDArray[Any]:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.bincount(rows, weights=data, minlength=len(indptr) - 1).astype(data.dtype)
