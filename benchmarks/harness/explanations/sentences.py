"""A text classifier, and exact attributions of what it says: tokens, n-grams and gates."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.encoders import RCNNEncoder
from benchmarks.harness.text.explanation import load_classifier
from benchmarks.harness.text.options import TextModels
from benchmarks.harness.text.task import TextTask, text_model_configs
from benchmarks.harness.training import BEST, Run, TrainingConfig, train
from pyg_kernels.datasets.text import TextBatch, Vocabulary, tokenize
from pyg_kernels.explain import TextNet
from pyg_kernels.explain.ngrams import cell_of, ngram_sum
from pyg_kernels.explain.text_net import text_contributions

MOST_GAP = 1e-6  # of a score in double precision, relative to one above 1
HIDDEN, BATCH_SIZE, LEARNING_RATE = 100, 50, 0.003
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


def trained_classifier(
    data: TextData, epochs: int, seed: int, folder: Path, device: str, show: str
) -> tuple[TextClassifier, dict[str, Any]]:
    """The classifier of some texts, trained in a folder unless it lies there, and its record.

    One layer of an RCNN of order 2 with an input-gated decay, the sum over orders, ReLU, and the
    output at the last word: up to a constant its scores are sums over words and pairs of words.

    Raises:
        DivergenceError: If the training error is no finite number.
        InputError: If the folder cannot be written or read.
        KeyboardInterrupt: If interrupted.
    """
    models = TextModels(models=("rcnn",), hidden=HIDDEN, layers=(1,), readout="last")
    (config,) = text_model_configs(models, data)
    training = TrainingConfig(
        epochs=epochs,
        batch_size=BATCH_SIZE,
        patience=max(10, epochs // 3),
        clip=5.0,
        optimizer=OptimizerConfig(learning_rate=LEARNING_RATE),
        device=device,
        precision="32-true",
        show=show,
    )
    run = Run.read(folder)
    if run is None:
        run = train(TextTask(data), config, seed, training, folder)
        assert run is not None  # there is one process
        run.write(folder)
    return load_classifier(folder / BEST), run.record


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


class TextAttributor:
    """Attributions of a classifier's scores, in double precision.

    Args:
        classifier: With one layer of an RCNN whose activation is piecewise linear, read out
            at the last word.
        best (int): N-grams of each attribution.

    Raises:
        InputError: If it has another encoder, or several layers.
    """

    def __init__(self, classifier: TextClassifier, best: int) -> None:
        net = copy.deepcopy(classifier.net).cpu().double().eval()
        if not isinstance(net.encoder, RCNNEncoder):
            raise InputError("only a classifier with one layer of an RCNN has an exact attribution")
        try:
            self.net = TextNet(net.encoder.rcnn, net.head)
        except ValueError as error:
            raise InputError(f"no attribution for this classifier: {error}") from error
        self.classifier = net
        self.vocabulary = Vocabulary(classifier.hparams["words"])
        self.classes: list[str] = classifier.hparams["classes"]
        self.best = best

    @torch.no_grad()
    def __call__(self, words: Sequence[str]) -> Sentence:
        """The attribution of a text's score: the last class of two against the first one, or the
        predicted one against the mean of the others.

        Raises:
            InputError: If the classifier is no sum over n-grams; the message names what is not.
        """
        ids, ptr = self.vocabulary.encode([list(words)])
        x = self.classifier.embedding(ids)
        scores = self.classifier(TextBatch(ids, ptr, torch.zeros(1, dtype=torch.long)))[0]
        weights, question = self._against(scores)
        try:
            found = text_contributions(self.net, x, weights, self.best)
        except ValueError as error:
            raise InputError(f"no attribution for this classifier: {error}") from error
        score, expected = float(found.tokens.sum() + found.remainder), float(weights @ scores)
        gap = abs(score - expected)
        if not gap <= MOST_GAP * max(1.0, abs(expected)):
            raise InputError(
                f"no attribution for this classifier: words add up to {score:g}, its score is "
                f"{expected:g}"
            )
        return Sentence(
            words=list(words),
            tokens=found.tokens,
            ngrams=[(positions, float(value)) for positions, value in found.ngrams],
            gates=self._gates(x),
            score=score,
            question=question,
            predicted=self.classes[int(scores.argmax())],
            gap=gap,
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
        """The decays at which the attribution holds the layer, ``(T, H)``."""
        cell = cell_of(self.net.rcnn)
        return ngram_sum(cell, x, x.new_ones(cell.hidden_size)).decay
