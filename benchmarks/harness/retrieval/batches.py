"""Batches of questions to compare in training, of candidates to rank, and of titles to write."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.questions import QuestionCorpus, Ranking, TrainQuery
from benchmarks.harness.retrieval.data import END, QuestionData, drawn, trained_questions
from benchmarks.harness.task import PARTS, Batches
from pyg_kernels.datasets.loaders import EpochLoader
from pyg_kernels.datasets.text import EncodedTexts, TextBatch, TextLoader

PAIRS_A_QUERY = 20  # a batch to evaluate has this many pairs for each query of one to train on


class QuestionBatch(NamedTuple):
    """B groups of K questions; each question that occurs in them stands in the batch once."""

    words: TextBatch  # the texts of the questions, titles and perhaps bodies, none of them empty
    question: Tensor  # (T,) int64, the question of each of the T texts
    groups: Tensor  # (B, K) int64, questions of the batch; the first of a group is the query
    num_questions: int  # number of questions in the batch


def question_batch(texts: EncodedTexts, groups: Tensor, bodies: bool) -> QuestionBatch:
    """The batch of groups ``(B, K)`` of questions; of the texts titles come before bodies."""
    number = len(texts) // 2
    questions, places = groups.unique(return_inverse=True)
    rows = torch.cat([questions, questions + number]) if bodies else questions
    rows = rows[texts.lengths[rows] > 0]
    question = torch.searchsorted(questions, rows % number)
    return QuestionBatch(texts.batch(rows), question, places, len(questions))


def ranked_pairs(rankings: Sequence[Ranking]) -> Tensor:
    """The pairs of a query and a candidate, ``(P, 2)``, one list of candidates after another."""
    return torch.tensor(
        [(ranking.query, other) for ranking in rankings for other in ranking.candidates]
    )


class CandidateLoader(EpochLoader[QuestionBatch]):
    """Goes through the candidates of a part, in larger batches than those to train on."""

    items = "pairs"

    def __init__(self, data: QuestionData, part: str, batch_size: int, bodies: bool) -> None:
        pairs = ranked_pairs(data.rankings[part])
        super().__init__(pairs, None, PAIRS_A_QUERY * batch_size, shuffle=False, seed=0)
        self.texts, self.bodies = data.texts, bodies

    def assemble(self, indices: Tensor) -> QuestionBatch:
        return question_batch(self.texts, self.dataset[indices], self.bodies)


class NegativesLoader(EpochLoader[QuestionBatch]):
    """Goes through pairs of similar questions, each with random others, in an order of each epoch.

    Groups are a query, a similar question and K others, drawn anew each epoch by seed and epoch.
    """

    items = "pairs"

    def __init__(
        self,
        texts: EncodedTexts,
        queries: Sequence[TrainQuery],
        num_negatives: int,
        batch_size: int,
        bodies: bool,
        seed: int,
    ) -> None:
        self.pairs = [(query, other) for query in queries for other in query.positives]
        super().__init__(self.pairs, None, batch_size, shuffle=True, seed=seed)
        self.texts, self.bodies = texts, bodies
        self.num_negatives, self.trained_on = num_negatives, trained_questions(queries)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        for rows in super().batches(generator):
            pairs = [self.pairs[row] for row in rows.tolist()]
            yield torch.stack([self.group(one, other, generator) for one, other in pairs])

    def assemble(self, indices: Tensor) -> QuestionBatch:
        return question_batch(self.texts, indices, self.bodies)

    def group(self, query: TrainQuery, similar: int, generator: torch.Generator) -> Tensor:
        """A query, a similar question and K random others, ``(2 + K,)``."""
        negatives = drawn(query, self.trained_on, self.num_negatives, generator)
        return torch.cat([torch.tensor([query.query, similar]), negatives])


class TitleBatch(NamedTuple):
    """B titles."""

    context: TextBatch  # the texts that the titles are written from
    before: TextBatch  # for each word of the titles and for their ends, the word before it
    after: Tensor  # (N,) int64, these words and ends


class TitleLoader(TextLoader):
    """Goes through pairs ``(P, 2)`` of a text to write from and the question of the title."""

    def __init__(self, data: QuestionData, pairs: Tensor, batch_size: int, **order: Any) -> None:
        contexts = data.texts.batch(pairs[:, 0])
        encoded = EncodedTexts(contexts.ids, contexts.ptr, pairs[:, 1])
        super().__init__(encoded, batch_size=batch_size, **order)
        self.texts, self.end = data.texts, data.vocabulary[END]

    def assemble(self, indices: Tensor) -> TitleBatch:  # type: ignore[override]
        context = super().assemble(indices)
        titles = self.texts.batch(context.y)
        ptr = titles.ptr + torch.arange(len(titles.ptr))
        places = torch.arange(len(titles.ids)) + titles.text
        before = titles.ids.new_full((int(ptr[-1]),), self.end)
        after = before.clone()
        before[places + 1] = titles.ids
        after[places] = titles.ids
        return TitleBatch(context, TextBatch(before, ptr, context.y), after)


def written_pairs(corpus: QuestionCorpus) -> Tensor:
    """All contexts to learn from and the titles to write from them, ``(P, 2)``.

    The title of a question is written from itself, from the question's body and, where users have
    marked a question as similar, from the title and the body of that one. Questions that the
    corpus holds out occur in none of them.
    """
    number, outside = len(corpus), set(corpus.held_out)
    pairs = [(place, place) for place in range(number)]
    for query in corpus.train:
        for other in query.positives:
            pairs += [(query.query, other), (other, query.query)]
    pairs = [pair for pair in dict.fromkeys(pairs) if outside.isdisjoint(pair)]
    bodies = [(number + one, other) for one, other in pairs if corpus.questions[one].body]
    return torch.tensor(pairs + bodies)


def held_out_pairs(corpus: QuestionCorpus, held_out: Sequence[int]) -> Tensor:
    """The pairs to measure, ``(P, 2)``: a title from the body, or from itself if there is none."""
    number = len(corpus)
    return torch.tensor(
        [(number + place if corpus.questions[place].body else place, place) for place in held_out]
    )


def question_batches(
    data: QuestionData, fields: str, num_negatives: int, batch_size: int, seed: int
) -> Batches:
    """Similar questions to train on, and candidates to rank."""
    bodies, queries = fields != "title", data.corpus.train
    training = NegativesLoader(
        data.texts, queries, num_negatives, batch_size, bodies, 10_000 * seed
    )
    return Batches(
        training, {part: CandidateLoader(data, part, batch_size, bodies) for part in PARTS}
    )
