"""A linear support vector machine on words and pairs of words: a baseline of rationales."""

from collections.abc import Sequence
from functools import partial
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC, LinearSVR
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.task import PARTS
from benchmarks.rationales.options import SVM
from benchmarks.rationales.selections import CURVE, num_selected, precision

if TYPE_CHECKING:
    from benchmarks.rationales.task import ItemRationales

COSTS = (0.001, 0.01, 0.1, 1.0)  # candidates for C, the cost of errors
ITERATIONS = 10_000
Texts = Sequence[Sequence[str]]


class SVMEstimator:
    r"""A linear SVM on the words and pairs of neighbouring words that a text has.

    The baseline of Lei's thesis (2017), section 3.4.1. A text's features are 1 for words and pairs
    that occur in it. The words of the features with the largest weights are its rationale. Uses
    scikit-learn's ``LinearSVC`` for classes, and ``LinearSVR`` with squared loss for numbers.
    """

    machine: Pipeline
    cost: float

    def __init__(self, data: "ItemRationales", rate: float) -> None:
        self.data, self.rate = data, rate

    def fit(self) -> None:
        """Learns from the training part. C is chosen by the error on the validation part; if errors
        are equal, the smallest C is taken.
        """
        texts, y = self.data.texts("train"), self.data.right("train").numpy()
        kind: Any = LinearSVC
        if not self.data.classes:
            kind = partial(LinearSVR, loss="squared_epsilon_insensitive")
        machines = {}
        with as_input_error():
            for cost in COSTS:
                counter = CountVectorizer(analyzer=_ngrams, binary=True, dtype=np.float64)
                machine = kind(C=cost, dual="auto", max_iter=ITERATIONS, random_state=0)
                machines[cost] = make_pipeline(counter, machine).fit(texts, y)

        def error(cost: float) -> float:
            found = torch.from_numpy(machines[cost].predict(self.data.texts("valid")))
            return self.data.goal.error(found, self.data.right("valid"))

        self.cost = min(COSTS, key=error)
        self.machine = machines[self.cost]

    def predictions(self) -> dict[str, Tensor]:
        """Answers and selections of each part, in the format of a network's ``predict_step``."""
        found = {}
        for part in PARTS:
            texts = self.data.texts(part)
            chosen = self.select(texts, self.rate)
            selected = [list(compress(*each)) for each in zip(texts, chosen, strict=True)]
            rest = [list(compress(text, ~marks)) for text, marks in zip(texts, chosen, strict=True)]
            # A text without words also has an answer.
            answers = [self.machine.predict(some) for some in (selected, texts, rest)]
            scores = torch.zeros(len(texts), self.data.longest)
            for row, marks in zip(scores, chosen, strict=True):
                row[: len(marks)] = marks.float()
            answered = torch.from_numpy(np.stack(answers, axis=1)).float()
            found[part] = torch.cat([answered, scores], dim=1)
        return found

    def num_parameters(self) -> int:
        return sum(each.size for each in self._weights())

    def details(self) -> dict[str, Any]:
        """Its C and further settings, and its precision at several shares."""
        texts, evidence = self.data.texts("test"), self.data.evidence_of("test")
        curve = {
            key: precision(torch.cat(self.select(texts, share)), *evidence)
            for key, share in CURVE.items()
        }
        settings = {"method": f"C = {self.cost:g}", "fitted_on": len(self.data.parts["train"])}
        known = {key: value for key, value in curve.items() if value is not None}
        return {**settings, "kind": SVM, "rate": self.rate, **known}

    def checkpoint(self) -> dict[str, Any]:
        """Weights and biases; weights have a column for each word and pair of words."""
        weights, bias = map(torch.from_numpy, self._weights())
        named = {"ngrams": list(self.machine[0].get_feature_names_out())}
        return {"weights": weights, "bias": bias, **named, "classes": list(self.data.classes)}

    def select(self, texts: Texts, share: float) -> list[Tensor]:
        """Selects the words of the features with the largest weights, one feature after the other.

        Weights count by absolute value; with more than two classes, weights of the predicted class.
        Among equal weights, words come before pairs, and earlier features before later ones. A pair
        that would select one word too many is skipped, so that every text has the same share of its
        words selected, as :func:`~.selections.num_selected` rounds it. Returns ``(T,)`` bool for
        each text.
        """
        numbers = num_selected(torch.tensor([len(text) for text in texts]), share).tolist()
        weights = np.abs(self._weights()[0])
        rows = np.zeros(len(texts), dtype=int)
        if len(weights) > 1:  # more than two classes
            rows = np.searchsorted(self.machine[1].classes_, self.machine.predict(texts))
        places = self.machine[0].vocabulary_
        return [
            best_words(text, number, places, weights[row])
            for text, number, row in zip(texts, numbers, rows, strict=True)
        ]

    def _weights(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Weights ``(K, V)``, biases ``(K,)``: a row per class, or one for two or for numbers."""
        fitted = self.machine[1]
        return np.atleast_2d(fitted.coef_), np.atleast_1d(fitted.intercept_)


def best_words(
    text: Sequence[str], number: int, places: dict[str, int], weights: NDArray[Any]
) -> Tensor:
    """The selected words of one text, `number` of them."""
    spans = [(t, t + 1) for t in range(len(text))] + [(t, t + 2) for t in range(len(text) - 1)]
    # A feature that no training text has gets the weight 0.
    found = [weights[places[name]] if name in places else 0.0 for name in _ngrams(text)]
    chosen = torch.zeros(len(text), dtype=torch.bool)
    for place in np.argsort(-np.array(found), kind="stable"):
        start, end = spans[place]
        new = int((~chosen[start:end]).sum())
        if new <= number:
            chosen[start:end] = True
            number -= new
    return chosen


def _ngrams(text: Sequence[str]) -> list[str]:
    """The words of a text, then its pairs of neighbouring words."""
    return [*text, *(f"{first} {second}" for first, second in pairwise(text))]
