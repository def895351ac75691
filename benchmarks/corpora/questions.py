"""Questions of a forum, which of them are similar, lists of candidates, and search by words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import bm25s
import torch
from torch import Tensor

from benchmarks.corpora.published_text import fingerprint

SATURATION, LENGTH_WEIGHT = 1.2, 0.75  # k_1 and b as in Lucene
HELD_OUT = 2000
RANKED = ("valid", "test")  # parts with candidates to rank


class Question(NamedTuple):
    """A question."""

    id: str  # its name in the corpus
    title: tuple[str, ...]  # its words, at least one
    body: tuple[str, ...] = ()  # its words


class TrainQuery(NamedTuple):
    """A question to train on, with others, as positions in :attr:`QuestionCorpus.questions`."""

    query: int  # the question
    positives: tuple[int, ...]  # the similar questions, at least one
    negatives: tuple[int, ...]  # questions that are not similar, at least one; training draws them


class Ranking(NamedTuple):
    """A question and the C candidates to rank for it, as positions like those of a query."""

    query: int  # the question
    candidates: tuple[int, ...]  # the C others, each once, without the query
    relevant: tuple[bool, ...]  # for each candidate, whether it is similar; possibly none is
    # the C scores of the search engine that found the candidates, if they are known
    bm25: tuple[float, ...] | None = None


def questions_of(rankings: Iterable[Ranking]) -> list[int]:
    """The positions of all questions that are queries or candidates, in order."""
    return sorted({place for each in rankings for place in (each.query, *each.candidates)})


def relevance_of(rankings: Iterable[Ranking]) -> list[Tensor]:
    """For each list of candidates, (C,) bool, which of them are similar."""
    return [torch.tensor(ranking.relevant, dtype=torch.bool) for ranking in rankings]


@dataclass(eq=False, repr=False)
class QuestionCorpus:
    """M questions, with similar ones to train on and candidates to rank (Lei et al. 2016)."""

    questions: list[Question]  # their ids differ
    train: list[TrainQuery]
    parts: dict[str, list[Ranking]]  # of 'valid' (dev) and 'test'
    split: str = "given split"  # how the parts came about, in a few words
    # sorted positions of questions that pre-training is to leave out, so that its perplexity can be
    # measured on them; empty if that does not matter
    held_out: tuple[int, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)  # items without use, by reason

    def __len__(self) -> int:
        return len(self.questions)

    def texts(self, fields: str) -> list[list[str]]:
        """The words of each of the M questions: its ``'title'``, or ``'title+body'`` joined."""
        if fields == "title":
            return [list(question.title) for question in self.questions]
        return [[*question.title, *question.body] for question in self.questions]

    def hold_out(self, seed: int = 0) -> None:
        """Draws the questions that pre-training leaves out, if the corpus names none: a tenth of
        all, but at most :data:`HELD_OUT`.
        """
        if not self.held_out:
            if len(self) < 10:
                raise ValueError(f"there must be ten questions to hold some out, not {len(self)}")
            order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
            self.held_out = tuple(sorted(order[: min(HELD_OUT, len(self) // 10)].tolist()))

    def digest(self) -> str:
        """A fingerprint of questions, parts and held-out questions: equal only if all are."""
        return fingerprint((self.questions, self.train, self.parts, self.held_out))


class BM25Index:
    """The BM25 score of a query with each of M texts, as Lucene computes it (package bm25s).

    A word that occurs twice in the query counts twice (Robertson and Zaragoza 2009).

    Args:
        texts: M sequences of words, at least one of which has words.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self._index = bm25s.BM25(method="lucene", k1=SATURATION, b=LENGTH_WEIGHT)
        self._index.index(list(map(list, texts)), show_progress=False)

    def scores(self, query: Sequence[str]) -> Tensor:
        """(M,) float32, the scores of a query of at least one word."""
        return torch.from_numpy(self._index.get_scores(list(query))).float()
