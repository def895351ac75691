"""A trained language model out of its checkpoint, and the words that it knows and draws."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from benchmarks.corpora.language import LanguageVocabulary
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.devices import torch_device
from benchmarks.harness.language_model.learner import LanguageLearner
from benchmarks.harness.language_model.models import LanguageModel
from benchmarks.harness.language_model.splitting import WordSplitter

SHOWN = 10  # unknown words that a message names


@dataclass(frozen=True)
class TrainedModel:
    """A language model in evaluation mode, and its vocabulary."""

    net: LanguageModel
    vocabulary: LanguageVocabulary
    corpus: str  # what it was trained on

    @property
    def device(self) -> torch.device:
        return self.net.bias.device

    @cached_property
    def split(self) -> WordSplitter:
        """Splits running text into words, written as the vocabulary writes them."""
        return WordSplitter(self.vocabulary)

    def unknown(self, words: Sequence[str]) -> Counter[str]:
        """The words that the vocabulary has not, and how often each occurs."""
        return Counter(word for word in words if word not in self.vocabulary)

    @torch.no_grad()
    def generate(
        self, prompt: Sequence[str], length: int, temperature: float = 1.0,
        top_k: int | None = None, seed: int = 0,
    ) -> Iterator[str]:  # fmt: skip
        r"""Draws words after a prompt, each from :math:`p(v) \propto \exp(s_v / \tau)`.

        The prompt follows an end of sentence, as texts in training do. The unknown word is never
        drawn.
        """
        generator, state = torch.Generator().manual_seed(seed), None
        ids, _ = self.vocabulary.encode([[self.vocabulary.words[self.vocabulary.end], *prompt]])
        for _ in range(length):
            hidden, state = self.net(ids.to(self.device).unsqueeze(1), state)
            scores = self.net.scores(hidden[-1, 0]).double().cpu()
            scores[self.vocabulary.unknown] = -torch.inf
            order = scores.argsort(descending=True, stable=True)  # the first of equals is higher
            kept = order[:top_k] if temperature else order[:1]
            weights = ((scores[kept] - scores[order[0]]) / (temperature or 1.0)).exp()
            ids = kept[torch.multinomial(weights, 1, generator=generator)]
            yield self.vocabulary.words[int(ids)]


def load_model(path: str, device: str = "auto") -> TrainedModel:
    """The model of a checkpoint."""
    place = torch_device(device)
    learner = load_learner(path, LanguageLearner)
    words, corpus = learner.hparams["words"], learner.hparams["corpus"]
    return TrainedModel(learner.net.to(place), LanguageVocabulary(words[2:]), corpus)


def unknown_words(counts: Counter[str]) -> str:
    """How many words are unknown and which, in one line; empty if none is."""
    if not counts:
        return ""
    named = ", ".join(repr(word) for word, _ in counts.most_common(SHOWN))
    more = f" and {len(counts) - SHOWN:,} others" if len(counts) > SHOWN else ""
    words = "word is" if counts.total() == 1 else "words are"
    return f"{counts.total():,} {words} not in the vocabulary: {named}{more}"
