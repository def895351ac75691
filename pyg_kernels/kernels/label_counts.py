"""Counts of Weisfeiler-Lehman labels in graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.reading import GRAPHS_AT_A_TIME
from pyg_kernels.kernels.relabeling import DiscreteRelabeling

Labels = list[NDArray[np.int64]]  # of every iteration, sorted


@dataclass(frozen=True)
class LabelCounts:
    """How often each label occurs in each graph.

    Args:
        labels: The labels that occur, block by block: iteration by iteration, say.
        matrix: Their counts, (n, number of labels).
        device: Of the graphs.
    """

    labels: Labels
    matrix: sparse.csr_matrix
    device: Any

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def part(self, items: Any) -> LabelCounts:
        """The counts of some graphs, a NumPy array or tensor of their numbers."""
        return replace(self, matrix=self.matrix[np.asarray(items)])

    def up_to(self, number: int) -> LabelCounts:
        """The labels of the first iterations alone."""
        if number == len(self.labels):
            return self
        labels = self.labels[:number]
        return replace(self, labels=labels, matrix=self.matrix[:, : sum(map(len, labels))])

    def weighted(self, weights: ArrayLike) -> LabelCounts:
        """The counts times the weight of their iteration."""
        factors = np.repeat(np.asarray(weights, self.matrix.dtype), list(map(len, self.labels)))
        data = self.matrix.data * factors[self.matrix.indices]
        arrays = (data, self.matrix.indices, self.matrix.indptr)
        return replace(self, matrix=sparse.csr_matrix(arrays, shape=self.matrix.shape))

    def among(self, known: Labels) -> sparse.csr_matrix:
        """The counts of known labels, a column for each."""
        if all(map(np.array_equal, self.labels, known)):
            return self.matrix
        width = sum(map(len, known))
        columns = _columns_of(self.labels, known).astype(np.int32)
        shape = (len(self), width + 1)  # the last column counts unknown labels and is dropped
        arrays = (self.matrix.data, columns[self.matrix.indices], self.matrix.indptr)
        return sparse.csr_matrix(arrays, shape=shape)[:, :width]


def count_chunks(chunks: Iterable[Graphs], count: Callable[[Graphs], LabelCounts]) -> LabelCounts:
    """Counts what `count` finds in all graphs, some thousand at a time."""
    counts = [
        count(chunk.between(start, min(start + GRAPHS_AT_A_TIME, len(chunk))))
        for chunk in chunks
        for start in range(0, len(chunk), GRAPHS_AT_A_TIME)
    ]
    return counts[0] if len(counts) == 1 else _merged(counts)


def count_occurrences(
    graphs: Graphs, blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], dtype: type
) -> LabelCounts:
    """Counts labels that occur any number of times.

    Args:
        graphs: Some graphs.
        blocks: The graph and the label of each occurrence, block by block.
        dtype: NumPy's type of the counts.
    """
    labels: Labels = []
    rows, columns, total = [], [], 0
    for owner, found in blocks:
        known, places = np.unique(found, return_inverse=True)
        labels.append(known)
        rows.append(owner)
        columns.append(places + total)
        total += len(known)
    ones: NDArray[Any] = np.ones(sum(map(len, rows)), dtype=dtype)
    where = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_matrix((ones, where), shape=(len(graphs), total))
    return LabelCounts(labels, matrix, graphs.device)


def count_labels(
    graphs: Graphs, relabeling: DiscreteRelabeling, num_iterations: int, dtype: type
) -> LabelCounts:
    """Counts the labels of all iterations.

    Args:
        graphs: The graphs, with the hashes of their labels.
        relabeling: Of the nodes.
        num_iterations: h; the labels of h + 1 iterations are counted.
        dtype: NumPy's type of the counts.
    """
    state = relabeling.start(graphs)
    columns = np.empty((graphs.num_nodes, num_iterations + 1), dtype=np.int32)
    labels: Labels = []
    total = 0
    for i in range(num_iterations + 1):
        numbers = state.cpu().numpy()
        found = np.unique(numbers)
        # Faster than np.unique(return_inverse=True).
        columns[:, i] = np.searchsorted(found, numbers) + total
        labels.append(found)
        total += len(found)
        if i < num_iterations:
            state = relabeling.step(state, graphs)
    # Nodes lie graph by graph, so these are the rows of a CSR matrix already.
    ones: NDArray[Any] = np.ones(columns.size, dtype=dtype)
    indptr = graphs.ptr.numpy() * columns.shape[1]
    matrix = sparse.csr_matrix((ones, columns.reshape(-1), indptr), shape=(len(graphs), total))
    matrix.sum_duplicates()
    return LabelCounts(labels, matrix, graphs.device)


def _merged(counts: Sequence[LabelCounts]) -> LabelCounts:
    number = len(counts[0].labels)
    labels = [np.unique(np.concatenate([c.labels[i] for c in counts])) for i in range(number)]
    width = sum(map(len, labels))
    matrices = [c.matrix for c in counts]
    indices = [_columns_of(c.labels, labels).astype(np.int32)[c.matrix.indices] for c in counts]
    lengths = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    matrix = sparse.csr_matrix(
        (
            np.concatenate([matrix.data for matrix in matrices]),
            np.concatenate(indices),
            np.concatenate([[0], lengths.cumsum()]),
        ),
        shape=(len(lengths), width),
    )
    return LabelCounts(labels, matrix, counts[0].device)


def _columns_of(labels: Labels, known: Labels) -> NDArray[np.int64]:
    """For every label its column among the known ones, and the column after them for others."""
    width = sum(map(len, known))
    columns, first = [], 0
    for found, vocabulary in zip(labels, known, strict=True):
        places = np.searchsorted(vocabulary, found)
        if len(vocabulary):
            same = vocabulary[np.minimum(places, len(vocabulary) - 1)] == found
        else:
            same = np.zeros(len(found), dtype=bool)
        columns.append(np.where(same, places + first, width))
        first += len(vocabulary)
    return np.concatenate(columns)
