"""Which questions, which candidates to rank, which word vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.corpora.ask_ubuntu import AskUbuntu, LeaveOutError
from benchmarks.corpora.paraphrases import MSRPQuestions, OwnPairs
from benchmarks.corpora.questions import QuestionCorpus, Ranking, TrainQuery, questions_of
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.retrieval.options import COLUMNS, Questions
from benchmarks.harness.task import PARTS
from benchmarks.harness.words import Words, vector_file
from pyg_kernels.datasets.text import EncodedTexts, Vocabulary, WordVectors, read_word_vectors

RANKED = {"valid": "dev", "test": "test"}  # parts of runs and of corpora
END = "<eos>"  # before and after a title that is written
TRAIN_RANKINGS = 200  # queries of the training part whose ranking is measured
CANDIDATES = 20  # not similar, of each of these


@dataclass(frozen=True, kw_only=True)
class QuestionData(Words):
    """Questions as numbers, and candidates to rank in three parts."""

    texts: EncodedTexts  # the titles of all questions, then their bodies
    # for each part the lists of candidates. 'valid' and 'test' are the corpus's dev and test parts;
    # those of 'train' are a similar question among random ones for some of the queries to train on:
    # how well they are ranked tells of learning, not of the task
    rankings: Mapping[str, Sequence[Ranking]]
    choice: Questions  # where the questions come from

    def has_bodies(self) -> bool:
        """Whether a question has more than a title."""
        return bool(self.texts.lengths[len(self.corpus) :].any())

    def word_numbers(self) -> dict[str, Tensor]:
        """Those of the words of each part's questions."""
        found = {}
        for part in PARTS:
            places = torch.tensor(_questions_of(self.corpus, part))
            rows = torch.cat([places, places + len(self.corpus)])
            found[part] = self.texts.batch(rows).ids
        return found


def load_questions(choice: Questions) -> QuestionData:
    """Reads questions and word vectors."""
    with as_input_error():
        try:
            corpus = _corpus(choice)
        except LeaveOutError as error:
            hint = "--leave-out leaves such out and counts them"
            raise InputError(f"{error.problem} ({hint})") from error
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
    """Questions as numbers, with the word vectors of a file or none.

    With word vectors, words without one are the unknown word; without, words that the questions to
    train on do not have or have once.
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
    rankings = {"train": _train_rankings(corpus, choice.split_seed)}
    rankings |= {part: corpus.parts[name] for part, name in RANKED.items()}
    return QuestionData(
        corpus=corpus,
        vocabulary=vocabulary,
        vectors=vectors,
        file=file,
        tuned=choice.tune_vectors,
        texts=encoded,
        rankings=rankings,
        choice=choice,
    )


def trained_questions(queries: Sequence[TrainQuery]) -> Tensor:
    """The questions that are queries to train on or similar to one, in the order of positions."""
    return torch.tensor(
        sorted({place for query in queries for place in (query.query, *query.positives)})
    )


def drawn(query: TrainQuery, others: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Random questions that are not similar to one.

    Drawn from those that the corpus lists for it or, where it lists none, from `others` without
    those that are known to be similar; where these are fewer than `number`, some come twice.
    """
    if query.negatives:
        pool = torch.tensor(query.negatives)
    else:
        pool = others[~torch.isin(others, torch.tensor([query.query, *query.positives]))]
    if not len(pool):
        raise ValueError("there are no questions to train on that are not similar to another one")
    order = torch.randperm(len(pool), generator=generator)
    return pool[order.repeat(-(-number // len(pool)))[:number]]


def _questions_of(corpus: QuestionCorpus, part: str) -> list[int]:
    """The questions that a part compares; those of ``'train'`` include its random ones."""
    if part != "train":
        return questions_of(corpus.parts[RANKED[part]])
    groups = [(q.query, *q.positives, *q.negatives) for q in corpus.train]
    return sorted({place for group in groups for place in group})


def _train_rankings(corpus: QuestionCorpus, seed: int) -> list[Ranking]:
    """A similar question among random ones, for some of the queries to train on."""
    generator = torch.Generator().manual_seed(seed)
    others = trained_questions(corpus.train)
    chosen = torch.randperm(len(corpus.train), generator=generator)[:TRAIN_RANKINGS]
    rankings = []
    for query in (corpus.train[place] for place in chosen.tolist()):
        wrong = drawn(query, others, CANDIDATES, generator).unique().tolist()
        relevant = (True, *[False] * len(wrong))
        rankings.append(Ranking(query.query, (query.positives[0], *wrong), relevant))
    return rankings


def _corpus(choice: Questions) -> QuestionCorpus:
    if choice.dataset == "askubuntu":
        return AskUbuntu(choice.folder, leave_out=choice.leave_out)
    if choice.dataset == "msrp":
        return MSRPQuestions(choice.folder, seed=choice.split_seed)
    first, *second = choice.data
    return OwnPairs(
        first,
        second[0] if second else None,
        columns=choice.columns or COLUMNS,
        seed=choice.split_seed,
        encoding=choice.encoding,
    )
