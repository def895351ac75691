"""Exact accounts of what a text classifier says: tokens, n-grams and gates."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.encoders import RCNNEncoder
from pyg_kernels.datasets.text import TextBatch, Vocabulary, tokenize
from pyg_kernels.sequence import RCNNCell

LENGTHS = range(6, 21)  # of the test texts that are shown where none is given


@dataclass(frozen=True)
class Sentence:
    """What adds up to the score of a text.

    Args:
        words: The T words.
        tokens (Tensor): ``(T,)``, of each word.
        ngrams: The best n-grams, as pairs of positions and value.
        gates (Tensor): ``(T, H)``, the decay at each word: what is kept of the words before.
        score (float): The sum of the words and of what is constant.
        question (str): Which score this is.
        predicted (str): The most probable class.
        gap (float): How far that sum is from what the classifier computes.
    """

    words: Sequence[str]
    tokens: Tensor
    ngrams: Sequence[tuple[Sequence[int], float]]
    gates: Tensor
    score: float
    question: str
    predicted: str
    gap: float

    def title(self) -> str:
        """One line for pictures."""
        return f"{self.question}: {self.score:+.2f}; predicted {self.predicted}"

    def record(self) -> dict[str, Any]:
        """What ``metrics.json`` says of it."""
        return {
            "text": " ".join(self.words),
            "question": self.question,
            "score": self.score,
            "predicted": self.predicted,
            "gap": self.gap,
            "tokens": self.tokens.tolist(),
            "ngrams": [
                [" ".join(self.words[i] for i in positions), value]
                for positions, value in self.ngrams
            ],
        }


def chosen_texts(texts: Sequence[str], data: TextData, number: int) -> list[list[str]]:
    """The words of given texts, or of the first test texts of middling length.

    Raises:
        InputError: If a text has no words.
    """
    if texts:
        words = [tokenize(text) for text in texts]
        if not all(words):
            raise InputError("--sentences: a text has no words")
        return words
    tested = data.corpus.part("test")
    return [list(text) for text in tested if len(text) in LENGTHS][:number]


class TextAccountant:
    """Accounts of a classifier's scores, in double precision.

    Args:
        classifier: With one layer of an RCNN whose activation is the identity or ReLU, read out at
            the last word.
        best (int): N-grams of each account.

    Raises:
        InputError: If it is another.
    """

    def __init__(self, classifier: TextClassifier, best: int) -> None:
        encoder = classifier.net.encoder
        if not isinstance(encoder, RCNNEncoder) or encoder.rcnn.num_layers > 1:
            raise InputError("only a classifier with one layer of an RCNN has an exact account")
        self.net = copy.deepcopy(classifier.net).cpu().double().eval()
        assert isinstance(self.net.encoder, RCNNEncoder)
        self.rcnn = self.net.encoder.rcnn
        (cell,) = self.rcnn.cells
        assert isinstance(cell, RCNNCell)
        self.cell = cell
        self.vocabulary = Vocabulary(classifier.hparams["words"])
        self.classes: list[str] = classifier.hparams["classes"]
        self.best = best

    @torch.no_grad()
    def __call__(self, words: Sequence[str]) -> Sentence:
        """The account of a text's score: the class of two that comes last against the first one,
        or the predicted one against the mean of the others.
        """
        from pyg_kernels.explain import ngram_contributions

        ids, ptr = self.vocabulary.encode([list(words)])
        x = self.net.embedding(ids)
        output, _ = self.rcnn(x, ptr=ptr)
        scores = self.net(TextBatch(ids, ptr, torch.zeros(1, dtype=torch.long)))[0]
        weights, question = self._against(scores)
        head = self.net.head
        assert isinstance(head, torch.nn.Linear)
        # The last output is held at its slope: 1 or 0 where the activation is a ReLU.
        last = weights @ head.weight * (1.0 if self.cell.act is None else output[-1] > 0)
        found: Any = ngram_contributions(self.rcnn, x, position=-1, head=last, k=self.best)
        constant = weights @ head.bias
        if self.cell.bias is not None:
            constant = constant + last @ self.cell.bias
        score = float(found.tokens.sum() + constant)
        return Sentence(
            words=list(words),
            tokens=found.tokens,
            ngrams=[(positions, float(value)) for positions, value in found.ngrams],
            gates=self._gates(x),
            score=score,
            question=question,
            predicted=self.classes[int(scores.argmax())],
            gap=abs(score - float(weights @ scores)),
        )

    def _against(self, scores: Tensor) -> tuple[Tensor, str]:
        """The weights of the classes' scores, and what their sum is called."""
        number = len(scores)
        chosen = 1 if number == 2 else int(scores.argmax())
        weights = torch.full_like(scores, -1.0 / (number - 1))
        weights[chosen] = 1.0
        others = f"class {self.classes[0]}" if number == 2 else "the others"
        return weights, f"score of class {self.classes[chosen]} over {others}"

    def _gates(self, x: Tensor) -> Tensor:
        if self.cell.decay_lin is not None and self.cell.decay_recurrent is None:
            assert self.cell.decay_bias is not None
            return torch.sigmoid(self.cell.decay_lin(x) + self.cell.decay_bias)
        decay = torch.as_tensor(self.cell.decay if self.cell.decay is not None else torch.nan)
        return decay.to(x).reshape(1, -1).expand(len(x), -1)
