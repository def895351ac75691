"""A text classifier, and exact attributions of what it says: tokens, n-grams and gates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.study import Record
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.models import RCNNEncoder
from benchmarks.harness.text.options import TextModels
from benchmarks.harness.text.task import TextClassifier, TextTask, text_model_configs
from benchmarks.harness.training import LAST, TrainingConfig, train
from pyg_kernels.datasets.text import TextBatch, Vocabulary, tokenize
from pyg_kernels.explain import TextNet
from pyg_kernels.explain.ngrams import cell_of, ngram_sum
from pyg_kernels.explain.text_net import text_contributions

MOST_GAP = 1e-6  # of a score in double precision, relative to one above 1
OPTIMIZER = OptimizerConfig(learning_rate=0.003)
TRAINING = TrainingConfig(
    epochs=12, batch_size=50, patience=10, clip=5.0, optimizer=OPTIMIZER, precision="32-true"
)
LENGTHS = range(6, 21)  # of the test texts that are shown where none is given
BEST_NGRAMS = 8


@dataclass(frozen=True)
class Sentence:
    """What adds up to the score of a text."""

    words: Sequence[str]  # the T words
    tokens: Tensor  # (T,), of each word
    ngrams: Sequence[tuple[Sequence[int], float]]  # positions and value of the best ones
    gates: Tensor  # (T, H), the decay at each word: what is kept of the words before
    score: float  # the sum of the words and of what is constant
    gap: float  # how far that sum is from what the classifier computes
    title: str  # which score this is, and the most probable class

    def record(self) -> Record:
        """What ``metrics.json`` says of it."""
        ngrams = [[" ".join(self.words[i] for i in places), x] for places, x in self.ngrams]
        return {
            "text": " ".join(self.words),
            "title": self.title,
            "score": self.score,
            "gap": self.gap,
            "tokens": self.tokens.tolist(),
            "ngrams": ngrams,
        }


def train_classifier(data: TextData, seed: int, folder: Path, **options: Any) -> Record:
    """Trains a classifier of some texts in a folder and gives its record.

    One layer of an RCNN of order 2 with an input-gated decay, the sum over orders, ReLU, and the
    output at the last word: up to a constant its scores are sums over words and pairs of words.
    """
    models = TextModels(models=("rcnn",), hidden=100, layers=(1,), readout="last")
    (config,) = text_model_configs(models, data)
    run = train(TextTask(data), config, seed, replace(TRAINING, **options), folder)
    (folder / LAST).unlink(missing_ok=True)
    return run.record


def chosen_texts(texts: Sequence[str], data: TextData, number: int) -> list[list[str]]:
    """The words of given texts, or of the first test texts of middling length."""
    if not texts:
        tested = data.corpus.part("test")
        return [list(text) for text in tested if len(text) in LENGTHS][:number]
    words = [tokenize(text) for text in texts]
    if not all(words):
        raise InputError("--sentences: a text has no words")
    return words


@torch.no_grad()
def attributed(classifier: TextClassifier, words: Sequence[str]) -> Sentence:
    """The attribution of a text's score, of the last class of two over the first one, in double
    precision.
    """
    net, (first, last) = classifier.net.cpu().double().eval(), classifier.hparams["classes"]
    assert isinstance(net.encoder, RCNNEncoder)
    text_net = TextNet(net.encoder.rcnn, net.head)
    ids, ptr = Vocabulary(classifier.hparams["words"]).encode([list(words)])
    x = net.embedding(ids)
    scores = net(TextBatch(ids, ptr, torch.zeros(1, dtype=torch.long)))[0]
    found = text_contributions(text_net, x, scores.new_tensor([-1.0, 1.0]), BEST_NGRAMS)
    score, expected = float(found.tokens.sum() + found.remainder), float(scores[1] - scores[0])
    gap = abs(score - expected)
    if not gap <= MOST_GAP * max(1.0, abs(expected)):
        raise InputError(f"words add up to {score:g}, the classifier's score is {expected:g}")
    cell = cell_of(text_net.rcnn)
    predicted = last if expected > 0 else first
    return Sentence(
        words=list(words),
        tokens=found.tokens,
        ngrams=[(positions, float(value)) for positions, value in found.ngrams],
        gates=ngram_sum(cell, x, x.new_ones(cell.hidden_size)).decay,
        score=score,
        gap=gap,
        title=f"score of class {last} over class {first}: {score:+.2f}; predicted {predicted}",
    )
