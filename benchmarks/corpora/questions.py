"""Questions of a forum, which of them are similar, and lists of candidates to rank."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.datasets.text.vocabulary import words_of

FIELDS = ("title", "title+body")
RANKED_PARTS = ("dev", "test")


class Question(NamedTuple):
    """A question.

    Attributes:
        id: its name in the corpus.
        title: the words of the title, at least one.
        body: the words of the body; may be empty.
    """

    id: str
    title: Sequence[str]
    body: Sequence[str] = ()


class TrainQuery(NamedTuple):
    """A question to train on, with others that are similar and some that are not.

    All are positions in :attr:`QuestionCorpus.questions`.

    Attributes:
        query: the question.
        positives: the similar questions, at least one.
        negatives: questions to draw from that count as not similar; never the query or one of the
            similar ones. May be empty.
    """

    query: int
    positives: tuple[int, ...]
    negatives: tuple[int, ...] = ()


class Ranking(NamedTuple):
    """A question and the C candidates to be put in order for it.

    Questions are positions in :attr:`QuestionCorpus.questions`.

    Attributes:
        query: the question.
        candidates: the C others, each once, without the query.
        relevant: C times, whether the candidate is similar. None may be.
        bm25: the C scores that the search engine gave which found the candidates, if they are
            known.
    """

    query: int
    candidates: tuple[int, ...]
    relevant: tuple[bool, ...]
    bm25: tuple[float, ...] | None = None


class QuestionCorpus:
    """M questions, similar ones among them to train on, and candidates to rank (Lei et al. 2016).

    Make one from your own questions, or through a subclass that reads a published corpus.

    Args:
        questions: the M questions.
        train: the questions to train on.
        parts: for ``'dev'`` and ``'test'``, the lists of candidates to rank.
        split: how the parts came about, in a few words.
        held_out: questions that pre-training is to leave out, so that its perplexity can be
            measured on them; none where that does not matter.

    Attributes:
        questions: list of M :class:`Question`.
        position: from the id of a question to its place in ``questions``.
        train: list of :class:`TrainQuery`.
        parts: for ``'dev'`` and ``'test'`` the list of its :class:`Ranking`.
        split: as given.
        held_out: sorted positions in ``questions``, each once.
        left_out: what a reader left out at the caller's request, from a reason to a number.

    Raises:
        ValueError: if two questions have one id, a question has no words in its title, a part is
            unknown, missing or empty, or no question is there to train on.
        TypeError: if a title or a body is a string.
        IndexError: if a position of ``held_out`` is out of range.
    """

    def __init__(
        self,
        questions: Iterable[Question],
        train: Iterable[TrainQuery],
        parts: Mapping[str, Iterable[Ranking]],
        split: str = "given split",
        held_out: Iterable[int] = (),
    ) -> None:
        self.questions = [_checked_question(question) for question in questions]
        self.position = {question.id: place for place, question in enumerate(self.questions)}
        if len(self.position) != len(self.questions):
            twice = next(
                question.id
                for place, question in enumerate(self.questions)
                if self.position[question.id] != place
            )
            raise ValueError(f"two questions have the id {twice!r}")
        if set(parts) != set(RANKED_PARTS):
            raise ValueError(f"parts must be dev and test, got {', '.join(parts) or 'none'}")
        self.train = list(train)
        if not self.train:
            raise ValueError("the training part has no questions")
        self.parts: dict[str, list[Ranking]] = {}
        for name in RANKED_PARTS:
            self.parts[name] = list(parts[name])
            if not self.parts[name]:
                raise ValueError(f"the {name} part has no questions")
        self.split = split
        self.held_out = tuple(sorted(set(held_out)))
        if self.held_out and not 0 <= self.held_out[0] <= self.held_out[-1] < len(self):
            found = f"{self.held_out[0]} to {self.held_out[-1]}"
            raise IndexError(f"positions must be from 0 to {len(self) - 1}, got {found}")
        self.left_out: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.questions)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={len(rankings)}" for name, rankings in self.parts.items())
        return f"{type(self).__name__}({len(self)} questions, train={len(self.train)}, {sizes})"

    def texts(self, fields: str = "title") -> list[list[str]]:
        """The words of each of the M questions.

        Args:
            fields: ``'title'``, or ``'title+body'`` for one after the other.

        Raises:
            ValueError: if ``fields`` is neither.
        """
        if fields not in FIELDS:
            raise ValueError(f"fields must be 'title' or 'title+body', got {fields!r}")
        if fields == "title":
            return [list(question.title) for question in self.questions]
        return [[*question.title, *question.body] for question in self.questions]

    def relevance(self, part: str) -> list[Tensor]:
        """For each list of candidates of a part, (C,) bool, which of them are similar."""
        return [torch.tensor(ranking.relevant, dtype=torch.bool) for ranking in self.parts[part]]

    def hold_out(self, number: int = 2000, seed: int = 0) -> None:
        """Draws questions that pre-training is to leave out, where the corpus names none.

        Args:
            number: how many, but at most a tenth of all.
            seed: of the draw.

        Raises:
            ValueError: if ``number`` is not positive, or there are fewer than ten questions.
        """
        if self.held_out:
            return
        if number < 1:
            raise ValueError(f"number must be at least 1, got {number}")
        if len(self) < 10:
            raise ValueError(f"there must be ten questions to hold some out, not {len(self)}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        self.held_out = tuple(sorted(order[: min(number, len(self) // 10)].tolist()))

    def digest(self) -> str:
        """A fingerprint of questions, parts and those held out: equal only if all are."""
        content = hashlib.sha256()
        for question in self.questions:
            content.update(repr(tuple(question)).encode())
        ranked = [[tuple(ranking) for ranking in self.parts[name]] for name in RANKED_PARTS]
        for query in self.train:
            content.update(repr(tuple(query)).encode())
        content.update(repr((ranked, self.held_out)).encode())
        return content.hexdigest()[:16]


def _checked_question(question: Question) -> Question:
    title, body = tuple(words_of(question.title)), tuple(words_of(question.body))
    if not title:
        raise ValueError(f"question {question.id!r} has no words in its title")
    return Question(str(question.id), title, body)
