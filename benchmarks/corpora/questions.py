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
            unknown, missing or empty, no question is there to train on, or a :class:`TrainQuery`
            or a :class:`Ranking` is not as described there.
        TypeError: if a title or a body is a string.
        IndexError: if a position is out of range.
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
        self.train = [self._checked_query(query) for query in train]
        if not self.train:
            raise ValueError("the training part has no questions")
        self.parts: dict[str, list[Ranking]] = {}
        for name in RANKED_PARTS:
            self.parts[name] = [self._checked_ranking(ranking) for ranking in parts[name]]
            if not self.parts[name]:
                raise ValueError(f"the {name} part has no questions")
        self.split = split
        self.held_out = tuple(sorted(set(held_out)))
        self._check_positions(self.held_out)
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

    def _checked_query(self, query: TrainQuery) -> TrainQuery:
        query = TrainQuery(query.query, tuple(query.positives), tuple(query.negatives))
        self._check_positions((query.query, *query.positives, *query.negatives))
        name = f"training question {self.questions[query.query].id!r}"
        if not query.positives:
            raise ValueError(f"{name} has no similar question")
        if query.query in query.positives or query.query in query.negatives:
            raise ValueError(f"{name} is its own similar or dissimilar question")
        both = set(query.positives).intersection(query.negatives)
        if both:
            other = self.questions[min(both)].id
            raise ValueError(f"{name} has {other!r} both as a similar and a dissimilar question")
        return query

    def _checked_ranking(self, ranking: Ranking) -> Ranking:
        candidates = tuple(ranking.candidates)
        relevant = tuple(bool(similar) for similar in ranking.relevant)
        bm25 = None if ranking.bm25 is None else tuple(float(score) for score in ranking.bm25)
        self._check_positions((ranking.query, *candidates))
        name = f"question {self.questions[ranking.query].id!r}"
        if not candidates:
            raise ValueError(f"{name} has no candidates")
        for what, values in (("relevant", relevant), ("bm25", bm25)):
            if values is not None and len(values) != len(candidates):
                raise ValueError(
                    f"{name} has {len(candidates)} candidates, but {what} has {len(values)} values"
                )
        if ranking.query in candidates:
            raise ValueError(f"{name} is among its own candidates")
        if len(set(candidates)) != len(candidates):
            raise ValueError(f"{name} has a candidate twice")
        return Ranking(ranking.query, candidates, relevant, bm25)

    def _check_positions(self, places: Sequence[int]) -> None:
        if places and not 0 <= min(places) <= max(places) < len(self):
            found = f"{min(places)} to {max(places)}"
            raise IndexError(f"positions must be from 0 to {len(self) - 1}, got {found}")


def _checked_question(question: Question) -> Question:
    title, body = tuple(words_of(question.title)), tuple(words_of(question.body))
    if not title:
        raise ValueError(f"question {question.id!r} has no words in its title")
    return Question(str(question.id), title, body)
