"""A linear classifier of the n-grams that a text has."""

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from pyg_kernels.datasets.text import TextBatch

PENALTIES = (0.3, 1.0, 3.0)  # inverse penalties, of which the validation part chooses one
LOG_SCALES = (-4.0, 1.0)  # the range of the scale's logarithm


class NGramClassifier(nn.Module):
    r"""Log-probabilities of classes, linear in indicators of the n-grams that a text has.

    .. math::
        \log p(c) = \tau \Big(b_c + \sum_{g \in x} r_{gc} \, w_{gc}\Big) + \text{const},
        \qquad r_{gc} = \log \frac{P(g \mid c)}{P(g \mid \lnot c)}

    over the n-grams g of up to `order` words: the feature map of the exact string kernel with
    contiguous matches. Each is weighted by the ratio r of naive Bayes with counts smoothed by 1. A
    logistic regression of each class against the rest gives w and b (Wang and Manning, *Baselines
    and Bigrams*, 2012). Its penalty and the scale :math:`\tau` minimise the log-loss on the
    validation part. Nothing here is trained with the network.

    Args:
        order: The most words of an n-gram.
        num_words: The size of the vocabulary.
        num_ngrams: The number of different n-grams in the training part.
        num_classes: C.
    """

    ngrams: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, order: int, num_words: int, num_ngrams: int, num_classes: int) -> None:
        super().__init__()
        self.order, self.num_words = order, num_words
        self.register_buffer("ngrams", torch.zeros(num_ngrams, dtype=torch.long))
        self.register_buffer("weight", torch.zeros(num_ngrams, num_classes))
        self.register_buffer("bias", torch.zeros(num_classes))

    def forward(self, batch: TextBatch) -> Tensor:
        """The log-probabilities, (B, C)."""
        text, place = self._occurrences(batch)
        total = self.bias.repeat(batch.num_texts, 1)
        return total.index_add(0, text, self.weight.index_select(0, place)).log_softmax(1)

    def fit(self, train: TextBatch, valid: TextBatch) -> Self:
        """Learns n-grams and weights from the training part; the validation part tunes them."""
        self.ngrams = self._ngrams_of(train)[1].unique()
        x, held = self._matrix(train), self._matrix(valid)
        classes = range(len(self.bias))
        least = np.inf
        ratios = np.stack([_ratio(x, (train.y == c).numpy()) for c in classes], 1)
        for penalty in PENALTIES:
            weight, bias = np.zeros_like(ratios), np.zeros(len(classes))
            for c in classes:
                model = LogisticRegression(C=penalty, max_iter=500)
                model.fit(x.multiply(ratios[:, c]).tocsr(), (train.y == c).numpy())
                weight[:, c], bias[c] = ratios[:, c] * model.coef_[0], model.intercept_[0]
            scale, loss = _scale(held @ weight + bias, valid.y.numpy())
            if loss < least:
                least = loss
                self.weight = torch.from_numpy(scale * weight).float()
                self.bias = torch.from_numpy(scale * bias).float()
        return self

    def _ngrams_of(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """The text and the number of each n-gram; its words are digits in base `num_words`."""
        texts, keys = [], []
        text, key = batch.text, torch.zeros_like(batch.ids)
        for n in range(self.order):
            rest = len(text) - n
            key = key[:rest] * self.num_words + batch.ids[n:]
            inside = text[:rest] == text[n:]
            texts.append(text[:rest][inside])
            keys.append(key[inside])
        return torch.cat(texts), torch.cat(keys)

    def _occurrences(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Pairs of a text and the place of one of its known n-grams, each pair once."""
        text, key = self._ngrams_of(batch)
        place = torch.searchsorted(self.ngrams, key).clamp(max=len(self.ngrams) - 1)
        known = self.ngrams.index_select(0, place) == key
        pair = (text[known] * len(self.ngrams) + place[known]).unique()
        return pair // len(self.ngrams), pair % len(self.ngrams)

    def _matrix(self, batch: TextBatch) -> sparse.csr_matrix:
        where = tuple(index.numpy() for index in self._occurrences(batch))
        ones = np.ones(len(where[0]))
        return sparse.csr_matrix((ones, where), shape=(batch.num_texts, len(self.ngrams)))


def _ratio(x: sparse.csr_matrix, is_class: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The log-ratio of each n-gram's probability in a class to that in the other classes."""
    own, others = (1 + np.asarray(x[rows].sum(0))[0] for rows in (is_class, ~is_class))
    return np.log(own / own.sum()) - np.log(others / others.sum())


def _scale(scores: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[float, float]:
    """The factor on scores with the least log-loss, and this log-loss."""

    def loss(logarithm: float) -> float:
        found = log_softmax(np.exp(logarithm) * scores, axis=1)
        return -float(found[np.arange(len(y)), y].mean())

    best = minimize_scalar(loss, bounds=LOG_SCALES, method="bounded")
    return float(np.exp(best.x)), float(best.fun)
