"""A linear support vector machine on words and pairs of words: a baseline of rationales."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import LinearSVC, LinearSVR
from torch import Tensor

from benchmarks.harness.rationale.measures import num_selected

COSTS = (0.001, 0.01, 0.1, 1.0)  # of errors, from which C is chosen
ITERATIONS = 10_000

Texts = Sequence[Sequence[str]]


class BigramSVM:
    r"""A linear SVM on the words and pairs of neighbouring words that a text has.

    The baseline of Lei's thesis (2017), section 3.4.1: a text's features are 1 for what occurs in
    it, and the words of the features with the largest weights are its rationale. scikit-learn's
    ``LinearSVC`` for classes, and ``LinearSVR`` with the squared loss for numbers.

    Args:
        regression (bool): Predict numbers in place of classes.
        costs (sequence of float): The values of C to choose from.
        seed (int): Of the order in which the solver takes texts.

    Attributes:
        cost (float): The C that was chosen.
        weights: ``(K, V)`` float64, a row for each class, one where there are two or numbers.
        bias: ``(K,)``.
    """

    cost: float
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]

    def __init__(
        self, regression: bool = False, costs: Sequence[float] = COSTS, seed: int = 0
    ) -> None:
        self.regression, self.costs, self.seed = regression, tuple(costs), seed

    def fit(self, texts: Texts, y: Tensor, valid_texts: Texts, valid_y: Tensor) -> "BigramSVM":
        """Learns from texts, and chooses C by the error on others; of equal ones the smallest.

        Args:
            texts: Lists of words.
            y: ``(M,)``, their classes or numbers.
            valid_texts: Others.
            valid_y: Theirs.

        Returns:
            BigramSVM: Itself.

        Raises:
            ValueError: If there are no words, or one class alone.
        """
        self._counter = CountVectorizer(analyzer=_ngrams, binary=True, dtype=np.float64)
        features = self._counter.fit_transform(texts)
        valid = self._counter.transform(valid_texts)
        targets, valid_targets = y.numpy(), valid_y.numpy()
        best = np.inf
        for cost in sorted(self.costs):
            machine = self._machine(cost).fit(features, targets)
            error = self._error(machine.predict(valid), valid_targets)
            if error < best:
                best, self.cost, self._fitted = error, cost, machine
        self.weights = np.atleast_2d(self._fitted.coef_)
        self.bias = np.atleast_1d(self._fitted.intercept_)
        return self

    def predict(self, texts: Texts) -> Tensor:
        """The class or number of each text, ``(M,)``; a text may have no words."""
        return torch.from_numpy(self._fitted.predict(self._counter.transform(texts)))

    @property
    def num_parameters(self) -> int:
        """Weights and biases."""
        return self.weights.size + self.bias.size

    @property
    def ngrams(self) -> list[str]:
        """The V words and pairs of words, in the order of the columns of the weights."""
        return list(self._counter.get_feature_names_out())

    def select(self, texts: Texts, share: float) -> list[Tensor]:
        """Takes the words of the features with the largest weights, one feature after the other.

        A feature's weight counts by its absolute value; with more than two classes, by that for the
        class which is predicted. Of equal ones words come before pairs, and earlier ones before
        later ones. A pair that would take one word too many is passed over, so that every text
        has the same share of its words selected, as :func:`~.measures.num_selected` rounds it.

        Args:
            texts: Lists of words.
            share (float): Of the words of each text.

        Returns:
            list of Tensor: For each text ``(T,)`` bool.

        Raises:
            ValueError: If `share` is not from 0 to 1.
        """
        numbers = num_selected(torch.tensor([len(text) for text in texts]), share).tolist()
        rows = self._rows(texts)
        return [
            self._selected(text, number, np.abs(self.weights[row]))
            for text, number, row in zip(texts, numbers, rows, strict=True)
        ]

    def _machine(self, cost: float) -> Any:
        settings: dict[str, Any] = {
            "C": cost,
            "dual": "auto",
            "max_iter": ITERATIONS,
            "random_state": self.seed,
        }
        if self.regression:
            return LinearSVR(loss="squared_epsilon_insensitive", **settings)
        return LinearSVC(**settings)

    def _error(self, found: NDArray[Any], expected: NDArray[Any]) -> float:
        if self.regression:
            return float(np.mean((found - expected) ** 2))
        return float(np.mean(found != expected))

    def _rows(self, texts: Texts) -> list[int]:
        """The row of weights that says what is predicted of each text."""
        if len(self.weights) == 1:
            return [0] * len(texts)
        places = {name: row for row, name in enumerate(self._fitted.classes_.tolist())}
        return [places[name] for name in self.predict(texts).tolist()]

    def _selected(self, text: Sequence[str], number: int, weights: NDArray[np.float64]) -> Tensor:
        """The words of one text, `number` of them."""
        numbers = self._counter.vocabulary_
        spans = [(t, t + 1) for t in range(len(text))] + [(t, t + 2) for t in range(len(text) - 1)]
        found = [numbers.get(name, -1) for name in _ngrams(text)]
        # A feature that no training text has weighs nothing.
        weighed = np.array([weights[place] if place >= 0 else 0.0 for place in found])
        chosen = torch.zeros(len(text), dtype=torch.bool)
        left = number
        for place in np.argsort(-weighed, kind="stable"):
            start, end = spans[place]
            new = int((~chosen[start:end]).sum())
            if new <= left:
                chosen[start:end] = True
                left -= new
            if not left:
                break
        return chosen


def _ngrams(text: Sequence[str]) -> list[str]:
    """The words of a text, then its pairs of neighbouring words."""
    return [*text, *(f"{first} {second}" for first, second in pairwise(text))]
