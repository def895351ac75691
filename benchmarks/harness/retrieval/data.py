"""Questions, candidates to rank and word vectors; batches to compare, to rank and to write."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.ask_ubuntu import AskUbuntu
from benchmarks.corpora.paraphrases import MSRPQuestions, OwnPairs
from benchmarks.corpora.questions import (
    RANKED,
    QuestionCorpus,
    Ranking,
    TrainQuery,
    questions_of,
)
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.retrieval.options import Questions
from benchmarks.harness.task import PARTS, Batches
from benchmarks.harness.words import Words, vector_file
from pyg_kernels.datasets.loaders import EpochLoader
from pyg_kernels.datasets.text import (
    EncodedTexts,
    TextBatch,
    TextLoader,
    Vocabulary,
    WordVectors,
    read_word_vectors,
)

END = "<eos>"  # before and after a title that is written
TRAIN_RANKINGS = 200  # queries of the training part whose ranking is measured
CANDIDATES = 20  # dissimilar candidates of each of these queries
PAIRS_A_QUERY = 20  # pairs in an evaluation batch for each query of a training batch


@dataclass(frozen=True, kw_only=True)
class QuestionData(Words):
    """Questions as numbers, and candidates to rank in three parts."""

    texts: EncodedTexts  # the titles of all questions, then their bodies
    # for each part the lists of candidates. Those of 'train' have a similar question among random
    # ones for some training queries: they measure learning, not the task
    rankings: Mapping[str, Sequence[Ranking]]
    choice: Questions  # where the questions come from

    def ids(self, places: Iterable[int]) -> list[str]:
        return [self.corpus.questions[place].id for place in places]

    def has_bodies(self) -> bool:
        return bool(self.texts.lengths[len(self.corpus) :].any())

    def word_numbers(self) -> dict[str, Tensor]:
        number = len(self.corpus)
        places = {part: torch.tensor(_questions_of(self.corpus, part)) for part in PARTS}
        rows = {part: torch.cat([each, each + number]) for part, each in places.items()}
        return {part: self.texts.batch(each).ids for part, each in rows.items()}


def load_questions(choice: Questions) -> QuestionData:
    """Reads questions and word vectors."""
    with as_input_error():
        corpus = _corpus(choice)
        corpus.hold_out(seed=choice.split_seed)
        file = vector_file(choice.folder, choice.vectors)
        if choice.vectors is None and isinstance(corpus, AskUbuntu):
            file = corpus.vectors or file
        data = question_data(corpus, choice, file)
    for part in RANKED:
        if not any(any(ranking.relevant) for ranking in data.rankings[part]):
            raise InputError(f"{choice.folder}: no question of the {part} part has a similar one")
    return data


def question_data(corpus: QuestionCorpus, choice: Questions, file: Path | None) -> QuestionData:
    """Questions as numbers, with the word vectors of a file or without any.

    With word vectors, words without a vector are the unknown word. Without word vectors, words
    that occur at most once in the training questions are.
    """
    titles = [question.title for question in corpus.questions]
    texts = [*titles, *(question.body for question in corpus.questions)]
    vectors = None
    if file is None:
        trained = (corpus.questions[place] for place in _questions_of(corpus, "train"))
        learned = (text for question in trained for text in (question.title, question.body))
        vocabulary = Vocabulary.build(learned, min_count=2, specials=(END,))
    else:
        vocabulary = Vocabulary.build(texts, specials=(END,))
        every, found = read_word_vectors(file, vocabulary)
        kept = found | (torch.arange(len(vocabulary)) <= vocabulary[END])
        words = vocabulary.decode(kept.nonzero().flatten())
        vocabulary = Vocabulary(words[3:], specials=(END,))
        vectors = WordVectors(every[kept], found[kept])
    encoded = EncodedTexts(*vocabulary.encode(texts), torch.zeros(len(texts), dtype=torch.long))
    return QuestionData(
        corpus=corpus,
        vocabulary=vocabulary,
        vectors=vectors,
        file=file,
        tuned=choice.tune_vectors,
        texts=encoded,
        rankings={"train": _train_rankings(corpus, choice.split_seed), **corpus.parts},
        choice=choice,
    )


def drawn(query: TrainQuery, number: int, generator: torch.Generator) -> Tensor:
    """Random questions that are not similar to a query; if there are too few, some are repeated."""
    pool = torch.tensor(query.negatives)
    order = torch.randperm(len(pool), generator=generator)
    return pool[order.repeat(-(-number // len(pool)))[:number]]


def _questions_of(corpus: QuestionCorpus, part: str) -> list[int]:
    """The questions that a part compares; for ``'train'`` these include its random questions."""
    if part != "train":
        return questions_of(corpus.parts[part])
    groups = [(q.query, *q.positives, *q.negatives) for q in corpus.train]
    return sorted({place for group in groups for place in group})


def _train_rankings(corpus: QuestionCorpus, seed: int) -> list[Ranking]:
    """Lists with a similar question among random ones, for some of the training queries."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(corpus.train), generator=generator)[:TRAIN_RANKINGS]
    rankings = []
    for query in (corpus.train[place] for place in chosen.tolist()):
        wrong = drawn(query, CANDIDATES, generator).unique().tolist()
        relevant = (True, *[False] * len(wrong))
        rankings.append(Ranking(query.query, (query.positives[0], *wrong), relevant))
    return rankings


def _corpus(choice: Questions) -> QuestionCorpus:
    if choice.dataset == "askubuntu":
        return AskUbuntu(choice.folder, leave_out=choice.leave_out)
    if choice.dataset == "msrp":
        return MSRPQuestions(choice.folder, seed=choice.split_seed)
    options: dict[str, Any] = {"columns": choice.columns, "encoding": choice.encoding}
    return OwnPairs(*choice.data, seed=choice.split_seed, **options)


class QuestionBatch(NamedTuple):
    """B groups of K questions; each question that occurs in them is in the batch once."""

    words: TextBatch  # the texts of the questions, titles and perhaps bodies, none of them empty
    question: Tensor  # (T,) int64, the question of each of the T texts
    groups: Tensor  # (B, K) int64, questions of the batch; the first of a group is the query
    num_questions: int  # number of questions in the batch


def question_batch(texts: EncodedTexts, groups: Tensor, bodies: bool) -> QuestionBatch:
    """The batch of groups ``(B, K)`` of questions; among its texts, titles come before bodies."""
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
    """Goes through the candidates of a part, in larger batches than in training."""

    items = "pairs"

    def __init__(self, data: QuestionData, part: str, batch_size: int, bodies: bool) -> None:
        pairs = ranked_pairs(data.rankings[part])
        super().__init__(pairs, None, PAIRS_A_QUERY * batch_size, shuffle=False, seed=0)
        self.texts, self.bodies = data.texts, bodies

    def assemble(self, indices: Tensor) -> QuestionBatch:
        return question_batch(self.texts, self.dataset[indices], self.bodies)


class NegativesLoader(EpochLoader[QuestionBatch]):
    """Goes through pairs of similar questions, each with random others, reordered each epoch."""

    items = "pairs"

    def __init__(
        self, data: QuestionData, num_negatives: int, batch_size: int, bodies: bool, seed: int
    ) -> None:
        pairs = [(query, other) for query in data.corpus.train for other in query.positives]
        super().__init__(pairs, None, batch_size, shuffle=True, seed=seed)
        self.texts, self.bodies, self.num_negatives = data.texts, bodies, num_negatives

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Groups of a query, a similar question and K random others, ``(B, 2 + K)``."""
        for rows in super().batches(generator):
            groups = []
            for query, similar in (self.dataset[row] for row in rows.tolist()):
                others = drawn(query, self.num_negatives, generator)
                groups.append(torch.cat([torch.tensor([query.query, similar]), others]))
            yield torch.stack(groups)

    def assemble(self, indices: Tensor) -> QuestionBatch:
        return question_batch(self.texts, indices, self.bodies)


class TitleBatch(NamedTuple):
    """B titles."""

    context: TextBatch  # the texts that the titles are written from
    before: TextBatch  # for each word of the titles and for their ends, the word before it
    after: Tensor  # (N,) int64, these words and ends


class TitleLoader(TextLoader):
    """Goes through pairs ``(P, 2)``: a context, and the question whose title is written from it."""

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
    """All training pairs of a context and a title to write from it, ``(P, 2)``.

    The title of a question is written from itself, from the question's body and from the titles and
    bodies of similar questions to train on. Questions that are held out occur in no pair.
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
    """Batches of similar questions to train on, and of candidates to rank."""
    sizes = batch_size, fields != "title"
    training = NegativesLoader(data, num_negatives, *sizes, 10_000 * seed)
    return Batches(training, {part: CandidateLoader(data, part, *sizes) for part in PARTS})
