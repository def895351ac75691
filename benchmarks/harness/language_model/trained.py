"""A trained language model from its checkpoint: its vocabulary, samples, and scores of a text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.corpora.language import END, LanguageVocabulary
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError
from benchmarks.harness.language_model.learner import LanguageLearner, perplexity
from benchmarks.harness.language_model.models import LanguageModel
from benchmarks.harness.language_model.splitting import WordSplitter
from benchmarks.harness.table import Table
from pyg_kernels.tables import shortened

SHOWN = 10  # unknown words that a message names
CHUNK = 256  # words read at once


@dataclass(frozen=True)
class Scores:
    """A model's scores of a text."""

    lines: list[list[str]]  # the words of each line, with the end of sentence
    losses: list[Tensor]  # for each line, ``(N,)``: minus the logarithm of each word's probability
    unknown: Counter[str]  # words missing from the vocabulary, and how often each occurs

    def perplexity(self) -> float:
        return perplexity(torch.cat(self.losses).mean().item())

    def table(self, name: str, each_line: bool) -> Table:
        """Words, unknown words and perplexity of the text, and on request of each line."""

        def row(name: str, words: Sequence[str], losses: Tensor) -> list[str]:
            number = sum(word in self.unknown for word in words)
            value = perplexity(losses.mean().item())
            return [shortened(name), f"{len(words):,}", f"{number:,}", f"{value:.2f}"]

        lines = zip(self.lines, self.losses, strict=True) if each_line else ()
        rows = [row(" ".join(line[:-1]), line, losses) for line, losses in lines]
        words = [word for line in self.lines for word in line]
        rows.append(row(name, words, torch.cat(self.losses)))
        caption = (
            "Words with the end of each line; perplexity with unknown words as the unknown word"
        )
        return Table(caption, ("text", "words", "unknown", "perplexity"), rows)


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
        """The words missing from the vocabulary, and how often each occurs."""
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
        ids, _ = self.vocabulary.encode([[END, *prompt]])
        for _ in range(length):
            hidden, state, _ = self.net(ids.to(self.device).unsqueeze(1), state)
            scores = self.net.scores(hidden[-1, 0]).double().cpu()
            scores[self.vocabulary.unknown] = -torch.inf
            order = scores.argsort(descending=True, stable=True)  # of equal scores the first wins
            kept = order[:top_k] if temperature else order[:1]
            weights = ((scores[kept] - scores[order[0]]) / (temperature or 1.0)).exp()
            ids = kept[torch.multinomial(weights, 1, generator=generator)]
            yield self.vocabulary.words[int(ids)]

    @torch.no_grad()
    def score(self, lines: Sequence[Sequence[str]]) -> Scores:
        """The loss of each word given all words before it, ends of sentences included.

        The first word follows an end of sentence, and the state is carried from line to line, as in
        training. A word outside the vocabulary is scored as the unknown word.
        """
        if not any(lines):
            raise InputError("the text to score has no words")
        whole = [[*line, END] for line in lines]
        words = [word for line in whole for word in line]
        targets = self.vocabulary.encode([words])[0].to(self.device)
        ids = torch.cat([targets.new_tensor([self.vocabulary.end]), targets[:-1]])
        losses, state = [], None
        for read, predicted in zip(ids.split(CHUNK), targets.split(CHUNK), strict=True):
            hidden, state, _ = self.net(read.unsqueeze(1), state)
            scores = self.net.scores(hidden[:, 0]).float()
            losses.append(F.cross_entropy(scores, predicted, reduction="none").double().cpu())
        of_lines = torch.cat(losses).split(list(map(len, whole)))
        return Scores(whole, list(of_lines), self.unknown(words))


def load_model(path: str, device: str = "auto") -> TrainedModel:
    """The model of a checkpoint."""
    place = torch_device(device)
    learner = load_learner(path, LanguageLearner)
    words, corpus = learner.hparams["words"], learner.hparams["corpus"]
    return TrainedModel(learner.net.to(place), LanguageVocabulary(words[2:]), corpus)


def unknown_words(counts: Counter[str]) -> str:
    """The number and the names of unknown words, in one line; empty if there are none."""
    if not counts:
        return ""
    named = ", ".join(repr(word) for word, _ in counts.most_common(SHOWN))
    more = f" and {len(counts) - SHOWN:,} others" if len(counts) > SHOWN else ""
    words = "word is" if counts.total() == 1 else "words are"
    return f"{counts.total():,} {words} not in the vocabulary: {named}{more}"
