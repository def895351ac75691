"""Titles to write and what they are written from, as batches."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.questions import QuestionCorpus
from benchmarks.harness.retrieval.data import END, QuestionData
from pyg_kernels.datasets.text import EncodedTexts, TextBatch, TextLoader

BUCKET = 20  # batches' worth of contexts that are sorted by length together


class TitleBatch(NamedTuple):
    """B titles.

    Attributes:
        context: The texts that the titles are written from.
        before: For each word of the titles and for their ends, the word before it.
        after: ``(N,)`` int64, these words and ends.
    """

    context: TextBatch
    before: TextBatch
    after: Tensor


def title_batch(texts: EncodedTexts, context: TextBatch, end: int) -> TitleBatch:
    """The titles of the questions ``context.y``, to be written from the context.

    Args:
        texts: The titles of all questions first.
        context: Texts; the class of each is its question.
        end (int): The number of the word that stands before and after a title.
    """
    titles = texts.batch(context.y)
    ptr = titles.ptr + torch.arange(len(titles.ptr))
    places = torch.arange(len(titles.ids)) + titles.text
    before = titles.ids.new_full((int(ptr[-1]),), end)
    after = before.clone()
    before[places + 1] = titles.ids
    after[places] = titles.ids
    return TitleBatch(context, TextBatch(before, ptr, context.y), after)


class TitleLoader:
    """Goes through titles and their contexts.

    Args:
        data: The questions.
        pairs: ``(P, 2)``: a text, as a position in ``data.texts``, and the question whose title is
            written from it.
        batch_size (int): Titles a batch.
        shuffle (bool): Whether each epoch has an order of its own, texts of similar length
            together.
        seed (int): Of the orders.
    """

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
            yield title_batch(self.texts, context, self.end)


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
