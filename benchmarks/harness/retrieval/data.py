"""Which questions, which candidates to rank, which word vectors."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpora.ask_ubuntu import AskUbuntu, LeaveOutError
from benchmarks.corpora.paraphrases import MSRPQuestions, OwnPairs
from benchmarks.corpora.questions import QuestionCorpus, Ranking
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.retrieval.negatives import drawn, trained_questions
from benchmarks.harness.retrieval.options import COLUMNS, OWN
from pyg_kernels.datasets.text import (
    EncodedTexts,
    Vocabulary,
    WordVectors,
    find_glove,
    read_word_vectors,
)

NO_VECTORS = "none"
RANKED = {"valid": "dev", "test": "test"}  # parts of runs and of corpora
END = "<eos>"  # before and after a title that is written
TRAIN_RANKINGS = 200  # queries of the training part whose ranking is measured
CANDIDATES = 20  # not similar, of each of these


@dataclass(frozen=True)
class QuestionChoice:
    """The questions that the command line names.

    Args:
        dataset (str): A key of :data:`CORPORA`.
        root (str): Folder of its files.
        vectors (str, optional): File of word vectors; ``None``: look for one, ``'none'``: use none.
        tune_vectors (bool): Train the vectors of the file as well.
        leave_out (bool): Leave out, and count, what is wrong in AskUbuntu's files.
        split_seed (int): Of the questions that are held out where a corpus has no development part.
        files (list of str): Of pairs of one's own: all of them, or those to train and to test on.
        columns (list of str): Their columns.
        encoding (str): Of these files.
    """

    dataset: str = "msrp"
    root: str = "data/msrp"
    vectors: str | None = None
    tune_vectors: bool = False
    leave_out: bool = False
    split_seed: int = 0
    files: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))
    encoding: str = "utf-8"


CORPORA: dict[str, Callable[[QuestionChoice], QuestionCorpus]] = {
    "askubuntu": lambda choice: AskUbuntu(choice.root, leave_out=choice.leave_out),
    "msrp": lambda choice: MSRPQuestions(choice.root, seed=choice.split_seed),
    OWN: lambda choice: _own_pairs(choice),
}


def _own_pairs(choice: QuestionChoice) -> OwnPairs:
    first, *second = choice.files
    return OwnPairs(
        first,
        second[0] if second else None,
        columns=choice.columns,
        seed=choice.split_seed,
        encoding=choice.encoding,
    )


@dataclass(frozen=True)
class QuestionData:
    """Questions as numbers, and candidates to rank in three parts.

    Args:
        corpus: Questions, similar ones to train on, candidates to rank.
        vocabulary: The words.
        texts: The titles of all questions, then their bodies.
        rankings: For each part the lists of candidates. ``'valid'`` and ``'test'`` are the
            corpus's dev and test parts; those of ``'train'`` are a similar question among random
            ones for some of the queries to train on: how well they are ranked tells of learning,
            not of the task.
        vectors: Word vectors of the vocabulary; ``None``: learned from nothing.
        source: The file that they are from.
        choice: Where the questions come from.
    """

    corpus: QuestionCorpus
    vocabulary: Vocabulary
    texts: EncodedTexts
    rankings: Mapping[str, Sequence[Ranking]]
    vectors: WordVectors | None
    source: Path | None
    choice: QuestionChoice

    def identity(self) -> dict[str, Any]:
        """The number of questions, and fingerprints of corpus and word vectors."""
        vectors = None
        if self.vectors is not None:
            vectors = hashlib.sha256(self.vectors.vectors.numpy().tobytes()).hexdigest()[:16]
        return {"number": len(self.corpus), "digest": self.corpus.digest(), "vectors": vectors}

    def has_bodies(self) -> bool:
        """Whether a question has more than a title."""
        return bool(self.texts.lengths[len(self.corpus) :].any())

    def unknown_words(self, part: str) -> tuple[int, int]:
        """How many words of a part's questions are the unknown word, and how many words it has."""
        places = torch.tensor(_questions_of(self.corpus, part))
        ids = self.texts.batch(torch.cat([places, places + len(self.corpus)])).ids
        return int((ids == self.vocabulary.unknown).sum()), len(ids)


def load_questions(choice: QuestionChoice, hint: str = "") -> QuestionData:
    """Reads questions and word vectors.

    Args:
        choice: Which ones.
        hint (str): How to have ``leave_out``, to end the error with where it would help.

    Raises:
        InputError: If a file is missing or cannot be read, or a part has nothing to be found.
    """
    with as_input_error():
        try:
            corpus = CORPORA[choice.dataset](choice)
        except LeaveOutError as error:
            ending = f" ({hint})" if hint else ""
            raise InputError(f"{error.problem}{ending}") from error
        corpus.hold_out(seed=choice.split_seed)
        data = question_data(corpus, choice, _vectors_file(corpus, choice))
    for part in ("valid", "test"):
        if not any(any(ranking.relevant) for ranking in data.rankings[part]):
            raise InputError(f"{choice.root}: no question of the {part} part has a similar one")
    return data


def question_data(
    corpus: QuestionCorpus, choice: QuestionChoice, source: Path | None
) -> QuestionData:
    """Questions as numbers, with the word vectors of a file or none.

    With word vectors, words without one are the unknown word; without, words that the questions to
    train on do not have or have once.
    """
    titles = [question.title for question in corpus.questions]
    texts = [*titles, *(question.body for question in corpus.questions)]
    vectors = None
    if source is None:
        trained = (corpus.questions[place] for place in _questions_of(corpus, "train"))
        learned = (text for question in trained for text in (question.title, question.body))
        vocabulary = Vocabulary.build(learned, min_count=2, specials=(END,))
    else:
        vocabulary = Vocabulary.build(texts, specials=(END,))
        every, found = read_word_vectors(source, vocabulary)
        kept = found | (torch.arange(len(vocabulary)) <= vocabulary[END])
        words = vocabulary.decode(kept.nonzero().flatten())
        vocabulary = Vocabulary(words[3:], specials=(END,))
        vectors = WordVectors(every[kept], found[kept])
    encoded = EncodedTexts(*vocabulary.encode(texts), torch.zeros(len(texts), dtype=torch.long))

    rankings = {
        "train": _train_rankings(corpus, choice.split_seed),
        **{part: corpus.parts[name] for part, name in RANKED.items()},
    }
    return QuestionData(corpus, vocabulary, encoded, rankings, vectors, source, choice)


def _questions_of(corpus: QuestionCorpus, part: str) -> list[int]:
    """The questions that a part compares; those of ``'train'`` include its random ones."""
    if part == "train":
        groups = [(q.query, *q.positives, *q.negatives) for q in corpus.train]
    else:
        rankings = corpus.parts[RANKED[part]]
        groups = [(ranking.query, *ranking.candidates) for ranking in rankings]
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


def _vectors_file(corpus: QuestionCorpus, choice: QuestionChoice) -> Path | None:
    if choice.vectors == NO_VECTORS:
        return None
    if choice.vectors is None:
        own = corpus.vectors if isinstance(corpus, AskUbuntu) else None
        return own or find_glove(choice.root)
    path = Path(choice.vectors).expanduser()
    if not path.is_file():
        raise InputError(f"--vectors {choice.vectors}: no such file")
    return path
