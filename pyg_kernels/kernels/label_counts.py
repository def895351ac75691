"""Counts of patterns in graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor

from pyg_kernels.kernels.graphs import Graphs

Labels = list[NDArray[np.int64]]  # of every iteration, sorted


class Occurrences(NamedTuple):
    """Where the patterns of a block occur."""

    labels: Tensor  # of each occurrence, (W,)
    nodes: Tensor  # (W, k); one of them where no more are needed
    steps: Tensor  # what joins them: edges, or a length; (W, any number)


@dataclass(frozen=True)
class LabelCounts:
    """How often each label occurs in each graph."""

    labels: Labels  # that occur, block by block: iteration by iteration, say
    matrix: sparse.csr_matrix  # their counts, (n, number of labels)
    device: Any  # of the graphs

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def part(self, items: Any) -> LabelCounts:
        """The counts of some graphs, a NumPy array or tensor of their numbers."""
        return replace(self, matrix=self.matrix[np.asarray(items)])

    def block(self, first: int, stop: int) -> LabelCounts:
        """The labels of some consecutive iterations alone."""
        if (first, stop) == (0, len(self.labels)):
            return self
        labels, begin = self.labels[first:stop], sum(map(len, self.labels[:first]))
        return replace(
            self, labels=labels, matrix=self.matrix[:, begin : begin + sum(map(len, labels))]
        )

    def frequent(self, least: int) -> Labels:
        """The labels that at least so many graphs have."""
        graphs = np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])
        ends = np.cumsum(list(map(len, self.labels)))[:-1]
        blocks = zip(self.labels, np.split(graphs >= least, ends), strict=True)
        return [labels[kept] for labels, kept in blocks]

    def weighted(self, weights: ArrayLike) -> LabelCounts:
        """The counts times the weight of their iteration."""
        factors = np.repeat(np.asarray(weights, self.matrix.dtype), list(map(len, self.labels)))
        return replace(self, matrix=self.matrix @ sparse.diags(factors))

    def among(self, known: Labels) -> sparse.csr_matrix:
        """The counts of known labels, a column for each."""
        if all(map(np.array_equal, self.labels, known)):
            return self.matrix
        width = sum(map(len, known))
        columns = columns_of(self.labels, known).astype(np.int32)
        shape = (len(self), width + 1)  # the last column counts unknown labels and is dropped
        arrays = (self.matrix.data, columns[self.matrix.indices], self.matrix.indptr)
        return sparse.csr_matrix(arrays, shape=shape)[:, :width]


def count_occurrences(graphs: Graphs, blocks: Iterable[Occurrences], dtype: type) -> LabelCounts:
    """Counts labels that occur any number of times, in a type of NumPy."""
    labels: Labels = []
    rows, columns, total = [], [], 0
    owner = graphs.owner()
    for block in blocks:
        known, places = torch.unique(block.labels, return_inverse=True)
        labels.append(known.cpu().numpy())
        rows.append(owner[block.nodes[:, 0]].cpu().numpy())
        columns.append(places.cpu().numpy() + total)
        total += len(known)
    ones: NDArray[Any] = np.ones(sum(map(len, rows)), dtype=dtype)
    where = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_matrix((ones, where), shape=(len(graphs), total))
    return LabelCounts(labels, matrix, graphs.device)


def merged(counts: Sequence[LabelCounts]) -> LabelCounts:
    """The counts of several collections as those of one."""
    if len(counts) == 1:
        return counts[0]
    blocks = zip(*(c.labels for c in counts), strict=True)
    labels = [np.unique(np.concatenate(found)) for found in blocks]
    matrix = sparse.vstack([c.among(labels) for c in counts], format="csr")
    return LabelCounts(labels, matrix, counts[0].device)


def columns_of(labels: Labels, known: Labels) -> NDArray[np.int64]:
    """For every label its column among the known ones, and the column after them for others."""
    width = sum(map(len, known))
    columns, first = [], 0
    for found, vocabulary in zip(labels, known, strict=True):
        places = np.searchsorted(vocabulary, found)
        same = places < np.searchsorted(vocabulary, found, side="right")
        columns.append(np.where(same, places + first, width))
        first += len(vocabulary)
    return np.concatenate(columns)
