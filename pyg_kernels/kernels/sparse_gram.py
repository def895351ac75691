"""Gram matrices of sparse counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pyg_kernels.kernels.blocks import progress_bar
from pyg_kernels.ops.operator import cpu_backend

_DENSE_FROM = 0.05  # columns with a larger share of nonzero entries are multiplied as dense
_ROWS = 2048  # most rows of a block, so that its dense columns stay in cache


def sparse_gram(
    x: sparse.csr_matrix, y: sparse.csr_matrix | None, max_memory: int, verbose: bool | int | None
) -> NDArray[Any]:
    """The inner products of all rows of two sparse matrices, dense.

    Args:
        x: (n, C).
        y: (m, C), or None for x.
        max_memory: Bytes for intermediate results.
        verbose: As of :func:`~pyg_kernels.kernels.blocks.progress_bar`.

    Returns:
        (n, m), in the type of x.
    """
    other = x if y is None else y
    gram = np.empty((x.shape[0], other.shape[0]), dtype=x.dtype)
    kind = _product_type(x, other)
    rows = min(_ROWS, max(1, max_memory // (32 * max(1, x.shape[0]))))
    x, other = x.astype(kind, copy=False), other.astype(kind, copy=False)
    with progress_bar("Gram matrix", gram.size, " pairs", verbose) as bar:
        for start in range(0, other.shape[0], rows):
            block = other[start : start + rows]
            if cpu_backend() == "numba":
                _multiply(x, block.tocsc(), gram, start)
            else:
                gram[:, start : start + rows] = (x @ block.T).toarray()
            bar.update(x.shape[0] * block.shape[0])
    return gram


def squared_norms(x: sparse.csr_matrix) -> NDArray[Any]:
    """The sums of squares of the rows, (n,)."""
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return np.bincount(rows, weights=x.data * x.data, minlength=x.shape[0]).astype(x.dtype)


def _multiply(
    x: sparse.csr_matrix, block: sparse.csc_matrix, gram: NDArray[Any], start: int
) -> None:
    from pyg_kernels.kernels import cpu
    from pyg_kernels.ops.compiled import run

    frequent = np.flatnonzero(np.diff(block.indptr) > _DENSE_FROM * block.shape[0])
    place = np.full(block.shape[1], -1)
    place[frequent] = np.arange(len(frequent))
    dense = np.ascontiguousarray(block[:, frequent].toarray().T)
    others = block.indptr, block.indices, block.data
    work = x.nnz * block.shape[0]
    rows = x.indptr, x.indices, x.data
    run(cpu.sparse_products, x.shape[0], work, *rows, others, dense, place, gram, start)


def _product_type(x: sparse.csr_matrix, y: sparse.csr_matrix) -> np.dtype[Any]:
    """float32 where its products are exact: whole numbers, and no sum of products above 2^24."""
    for features in (x, y):
        whole = np.array_equal(features.data, np.round(features.data))
        if not whole or squared_norms(features).max(initial=0) > 2**24:
            return x.dtype
    return np.dtype(np.float32)
