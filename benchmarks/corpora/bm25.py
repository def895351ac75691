"""Search by words."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pyg_kernels.datasets.text.vocabulary import words_of

SATURATION, LENGTH_WEIGHT = 1.2, 0.75  # k_1 and b as Lucene has them


class BM25Index:
    r"""The BM25 score of a query with each of M texts, as the search engine Lucene computes it.

    .. math::

        \sum_{w \in \text{query}} \log\Big(1 + \frac{M - M_w + 0.5}{M_w + 0.5}\Big)
        \frac{\text{tf}_w(d)}{\text{tf}_w(d) + k_1 \big(1 - b + b |d| / \overline{|d|}\big)},

    :math:`M_w` the number of texts that contain the word, :math:`k_1 = 1.2`, :math:`b = 0.75`; a
    word that the query contains twice counts twice, one that no text contains not at all
    (Robertson and Zaragoza 2009; computed by the package bm25s).

    Args:
        texts: M sequences of words, not strings; some must have words.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        import bm25s

        words = [list(words_of(text)) for text in texts]
        if not any(words):
            raise ValueError("none of the texts to search has words")
        self.number = len(words)
        self._index = bm25s.BM25(method="lucene", k1=SATURATION, b=LENGTH_WEIGHT)
        self._index.index(words, show_progress=False)

    def scores(self, query: Sequence[str]) -> Tensor:
        """(M,) float32, the scores of a query of words; all are zero where it has none."""
        words = list(words_of(query))
        if not words:
            return torch.zeros(self.number)
        return torch.from_numpy(self._index.get_scores(words)).float()
