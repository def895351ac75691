"""The perplexity of a user's text under a trained language model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.language_model.learner import perplexity
from benchmarks.harness.language_model.trained import TrainedModel
from benchmarks.harness.table import Table

CHUNK = 256  # words that are read at once


@dataclass(frozen=True)
class Scores:
    """What a model makes of a text."""

    lines: list[list[str]]  # the words of each line, with the end of sentence
    losses: list[Tensor]  # for each line, ``(N,)``: minus the logarithm of each word's probability
    unknown: Counter[str]  # words that the vocabulary has not, and how often each occurs

    def perplexity(self) -> float:
        return perplexity(torch.cat(self.losses).mean().item())


@torch.no_grad()
def score(model: TrainedModel, lines: Sequence[Sequence[str]]) -> Scores:
    """The loss of each word given all before, ends of sentences included.

    The first word follows an end of sentence, and the state is carried from line to line, as in
    training. An unknown word is scored as the unknown word.
    """
    if not any(lines):
        raise InputError("the text to score has no words")
    vocabulary = model.vocabulary
    end = vocabulary.words[vocabulary.end]
    whole = [[*line, end] for line in lines]
    words = [word for line in whole for word in line]
    targets = vocabulary.encode([words])[0].to(model.device)
    ids = torch.cat([targets.new_tensor([vocabulary.end]), targets[:-1]])
    losses, state = [], None
    for start in range(0, len(ids), CHUNK):
        hidden, state = model.net(ids[start : start + CHUNK].unsqueeze(1), state)
        scores = model.net.scores(hidden[:, 0]).float()
        chunk = targets[start : start + CHUNK]
        losses.append(F.cross_entropy(scores, chunk, reduction="none").double().cpu())
    of_lines = torch.cat(losses).split(list(map(len, whole)))
    return Scores(whole, list(of_lines), model.unknown(words))


def score_table(scores: Scores, name: str, each_line: bool) -> Table:
    """Words, unknown ones and perplexity of a text, and of each line if asked for."""

    def row(name: str, words: Sequence[str], losses: Tensor) -> list[str]:
        number = sum(word in scores.unknown for word in words)
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        return [shown, f"{len(words):,}", f"{number:,}", f"{perplexity(losses.mean().item()):.2f}"]

    lines = zip(scores.lines, scores.losses, strict=True) if each_line else ()
    rows = [row(" ".join(line[:-1]), line, losses) for line, losses in lines]
    words = [word for line in scores.lines for word in line]
    rows.append(row(name, words, torch.cat(scores.losses)))
    caption = "Words with the end of each line; perplexity with unknown words as the unknown word"
    return Table(caption, ("text", "words", "unknown", "perplexity"), rows)
