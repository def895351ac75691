"""Groups of questions as batches: to compare in training, candidates to rank."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lightning.pytorch as lightning
import torch
from torch import Tensor

from benchmarks.corpora.questions import Ranking, TrainQuery
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.negatives import drawn, trained_questions
from benchmarks.harness.task import PARTS
from pyg_kernels.datasets.text import EncodedTexts, TextBatch

PAIRS_A_QUERY = 20  # a batch to evaluate has this many pairs for each query of one to train on


class QuestionBatch(NamedTuple):
    """B groups of K questions; each question that occurs in them stands in the batch once.

    Attributes:
        words: The texts of the questions, titles and perhaps bodies, none of them empty.
        question: ``(T,)`` int64, the question of each of the T texts.
        groups: ``(B, K)`` int64, questions of the batch; the first of a group is the query.
        num_questions: Number of questions in the batch.
    """

    words: TextBatch
    question: Tensor
    groups: Tensor
    num_questions: int


def question_batch(texts: EncodedTexts, groups: Tensor, bodies: bool) -> QuestionBatch:
    """The batch of groups of questions.

    Args:
        texts: The titles of all M questions, then their bodies.
        groups: ``(B, K)`` int64, positions of questions.
        bodies (bool): Whether bodies are read as well, where they are not empty.
    """
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


class PairLoader:
    """Goes through pairs of questions in their order.

    Args:
        texts: The titles of all questions, then their bodies.
        pairs: ``(P, 2)``.
        batch_size (int): Pairs a batch.
        bodies (bool): Whether bodies are read.
    """

    def __init__(self, texts: EncodedTexts, pairs: Tensor, batch_size: int, bodies: bool) -> None:
        self.texts, self.pairs, self.bodies = texts, pairs, bodies
        self.batch_size = batch_size

    def __len__(self) -> int:
        return -(-len(self.pairs) // self.batch_size)

    def __iter__(self) -> Iterator[QuestionBatch]:
        for pairs in self.pairs.split(self.batch_size):
            yield question_batch(self.texts, pairs, self.bodies)


class NegativesLoader:
    """Goes through pairs of similar questions, each with random others, in an order of each epoch.

    Groups are a query, a similar question and K others, drawn anew each epoch; see
    :func:`negatives.drawn`.

    Args:
        texts: The titles of all questions, then their bodies.
        queries: The questions to train on.
        num_negatives (int): K.
        batch_size (int): Pairs a batch.
        bodies (bool): Whether bodies are read.
        seed (int): Of orders and questions.

    Attributes:
        epoch (int): The number of the next pass, from 0.
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
        self.queries, self.num_negatives = queries, num_negatives
        self.pairs = [(query, other) for query in queries for other in query.positives]
        self.trained_on = trained_questions(queries)
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


class QuestionBatches(lightning.LightningDataModule):
    """Batches of similar questions to train on, and of candidates to rank.

    What is drawn depends on seed and epoch alone, so that a resumed run sees the batches that the
    uninterrupted one would have seen.

    Args:
        data: The questions.
        fields (str): What the network reads: ``'title'`` or ``'title+body'``.
        num_negatives (int): Random questions for each similar one.
        batch_size (int): Pairs of similar questions a batch.
        seed (int): Of the order and of random questions.
    """

    def __init__(
        self, data: QuestionData, fields: str, num_negatives: int, batch_size: int, seed: int
    ) -> None:
        super().__init__()
        self.data, self.bodies = data, fields != "title"
        self.batch_size = batch_size
        self.training = NegativesLoader(
            data.texts, data.corpus.train, num_negatives, batch_size, self.bodies, 10_000 * seed
        )

    def train_dataloader(self) -> NegativesLoader:
        """Pairs of this epoch, with random others."""
        self.training.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return self.training

    def val_dataloader(self) -> PairLoader:
        """The candidates of the validation part."""
        return self.part("valid")

    def all_parts(self) -> list[Any]:
        """One loader for the candidates of each part."""
        return [self.part(part) for part in PARTS]

    def part(self, name: str) -> PairLoader:
        """The candidates of one part."""
        pairs = ranked_pairs(self.data.rankings[name])
        return PairLoader(self.data.texts, pairs, PAIRS_A_QUERY * self.batch_size, self.bodies)
