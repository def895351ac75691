"""Batches of questions to compare in training, of candidates to rank, and of titles to write."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.questions import QuestionCorpus, Ranking, TrainQuery
from benchmarks.harness.retrieval.data import END, QuestionData, drawn, trained_questions
from benchmarks.harness.task import PARTS, Batches
from pyg_kernels.datasets.text import EncodedTexts, TextBatch, TextLoader

PAIRS_A_QUERY = 20  # a batch to evaluate has this many pairs for each query of one to train on
BUCKET = 20  # batches' worth of contexts that are sorted by length together


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


class CandidateLoader:
    """Goes through the candidates of a part, in larger batches than those to train on."""

    def __init__(self, data: QuestionData, part: str, batch_size: int, bodies: bool) -> None:
        self.texts, self.bodies = data.texts, bodies
        self.groups = ranked_pairs(data.rankings[part]).split(PAIRS_A_QUERY * batch_size)

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[QuestionBatch]:
        for groups in self.groups:
            yield question_batch(self.texts, groups, self.bodies)


class NegativesLoader:
    """Goes through pairs of similar questions, each with random others, in an order of each epoch.

    Groups are a query, a similar question and K others, drawn anew each epoch by seed and epoch.
    """

    def __init__(
        self,
        texts: EncodedTexts,
        queries: Sequence[TrainQuery],
        num_negatives: int,
        batch_size: int,
        bodies: bool,
        seed: int,
    ) -> None:
        self.texts, self.bodies, self.batch_size, self.seed = texts, bodies, batch_size, seed
        self.num_negatives, self.trained_on = num_negatives, trained_questions(queries)
        self.pairs = [(query, other) for query in queries for other in query.positives]
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.pairs) // self.batch_size)

    def __iter__(self) -> Iterator[QuestionBatch]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        order = torch.randperm(len(self.pairs), generator=generator)
        for rows in order.split(self.batch_size):
            pairs = [self.pairs[row] for row in rows.tolist()]
            groups = [self.group(query, similar, generator) for query, similar in pairs]
            yield question_batch(self.texts, torch.stack(groups), self.bodies)

    def group(self, query: TrainQuery, similar: int, generator: torch.Generator) -> Tensor:
        """A query, a similar question and K random others, ``(2 + K,)``."""
        negatives = drawn(query, self.trained_on, self.num_negatives, generator)
        return torch.cat([torch.tensor([query.query, similar]), negatives])


class TitleBatch(NamedTuple):
    """B titles."""

    context: TextBatch  # the texts that the titles are written from
    before: TextBatch  # for each word of the titles and for their ends, the word before it
    after: Tensor  # (N,) int64, these words and ends


class TitleLoader:
    """Goes through pairs ``(P, 2)`` of a text to write from and the question of the title."""

    def __init__(
        self,
        data: QuestionData,
        pairs: Tensor,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        contexts = data.texts.batch(pairs[:, 0])
        self.texts, self.end = data.texts, data.vocabulary[END]
        self.contexts = TextLoader(
            EncodedTexts(contexts.ids, contexts.ptr, pairs[:, 1]),
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            bucket=BUCKET if shuffle else 1,
        )

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.contexts.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.contexts)

    def __iter__(self) -> Iterator[TitleBatch]:
        for context in self.contexts:
            titles = self.texts.batch(context.y)
            ptr = titles.ptr + torch.arange(len(titles.ptr))
            places = torch.arange(len(titles.ids)) + titles.text
            before = titles.ids.new_full((int(ptr[-1]),), self.end)
            after = before.clone()
            before[places + 1] = titles.ids
            after[places] = titles.ids
            yield TitleBatch(context, TextBatch(before, ptr, context.y), after)


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
