"""Texts as numbers, and batches of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.segments import segments


class TextBatch(NamedTuple):
    """B texts, one after the other.

    Attributes:
        ids: (N,) int64, the numbers of the words of all texts.
        ptr: (B + 1,) int64; the words of text b are ``ids[ptr[b]:ptr[b + 1]]``.
        y: (B,) int64, the class of each text.
    """

    ids: Tensor
    ptr: Tensor
    y: Tensor

    @property
    def num_texts(self) -> int:
        """The number of texts B."""
        return len(self.ptr) - 1

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, the number of words of each text."""
        return self.ptr.diff()

    @property
    def text(self) -> Tensor:
        """(N,) int64, the text of each word."""
        return torch.repeat_interleave(self.lengths, output_size=len(self.ids))


class EncodedTexts:
    """M texts as the numbers of their words, held in one tensor.

    Args:
        ids: (N,) int64, the words of all texts, as :meth:`Vocabulary.encode` gives them.
        ptr: (M + 1,) int64, where each text begins, followed by N.
        labels: (M,) int64, their classes.

    Raises:
        ValueError: if ``ptr`` does not run from 0 to N without decreasing, or ``labels`` does not
            have length M.
    """

    def __init__(self, ids: Tensor, ptr: Tensor, labels: Tensor) -> None:
        ends = ptr[[0, -1]].tolist() if len(ptr) else []
        if ends != [0, len(ids)] or bool((ptr.diff() < 0).any()):
            raise ValueError(f"ptr must go from 0 to {len(ids)} in steps of at least 0")
        if labels.shape != (len(ptr) - 1,):
            raise ValueError(
                f"labels must be of shape ({len(ptr) - 1},), one a text, not {tuple(labels.shape)}"
            )
        self.ids, self.ptr, self.labels = ids, ptr, labels

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Tensor:
        """(M,) int64, the number of words of each text."""
        return self.ptr.diff()

    def batch(self, indices: Tensor) -> TextBatch:
        """The texts at these positions, in this order.

        Args:
            indices: (B,) int64, from 0.

        Raises:
            IndexError: if a position is out of range.
        """
        words, _, ptr = segments(self.ptr, indices)
        return TextBatch(self.ids[words], ptr, self.labels[indices])
