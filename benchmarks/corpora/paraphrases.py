"""Corpora of paraphrases, which take the place of similar questions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from benchmarks.corpora.published_text import numbered, obtain_text
from benchmarks.corpora.questions import BM25Index, Question, QuestionCorpus, Ranking, TrainQuery
from pyg_kernels.datasets.text.text_table import read_text_table
from pyg_kernels.datasets.text.vocabulary import tokenize

SOURCE = "https://www.microsoft.com/en-us/download/details.aspx?id=52398"
FILES = ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")
HEADER = "Quality"
NEGATIVES = 100
LABELS = {"0.0": "0", "1.0": "1", "false": "0", "true": "1"}  # spellings that programs write
TEST_FRACTION = 0.2  # of the user's own similar pairs
DEV_FRACTION = 0.1  # of the pairs to train on
NUM_CANDIDATES = 20  # of each query, including the true one; fewer if there are no more

# The row's place in its file, its label, and the id and the text of both sentences.
Row = tuple[str, str, tuple[str, str], tuple[str, str]]
Pair = tuple[int, int]  # the positions of two sentences that are paraphrases


class _PairCorpus(QuestionCorpus):
    """A corpus of a training and perhaps a test file, each a path and its rows.

    `given` describes the split of two files.
    """

    def __init__(self, *files: tuple[str | Path, Iterable[Row]], given: str, seed: int) -> None:
        reader = _Reader()
        read = [reader.read(path, rows) for path, rows in files]
        pairs = [pair for each in read for pair in each]
        similar, groups = _paraphrases(pairs), _groups(pairs, len(reader.questions))
        if len(read) == 2:
            (trained, tested), split = read, given
        else:
            tested, trained = _divided(pairs, groups, TEST_FRACTION, seed)
            split = f"random {100 * TEST_FRACTION:g}% of the similar pairs for testing"
        if not tested:
            raise ValueError(f"{files[-1][0]} has too few similar pairs to test on")
        taken = {groups[first] for first, _ in tested}
        apart = [pair for pair in trained if groups[pair[0]] not in taken]
        dev, train = _divided(apart, groups, DEV_FRACTION, seed)
        if not dev:
            raise ValueError(
                f"{files[0][0]} is too small for a dev part of {DEV_FRACTION:g}: it has "
                f"{len(apart)} pairs of paraphrases to train on"
            )
        pool = np.array(list(reader.seconds))
        index = BM25Index(reader.questions[place].title for place in pool)

        def rankings(pairs: Sequence[Pair]) -> Iterator[Ranking]:
            """One ranking per query; of candidates with equal scores, the earlier comes first."""
            found: dict[int, list[int]] = {}
            for first, second in pairs:
                found.setdefault(first, []).append(second)
            for query, seconds in found.items():
                scores = index.scores(reader.questions[query].title).numpy()
                order = np.argsort(-scores, kind="stable")
                order = order[pool[order] != query]
                true = np.isin(pool[order], seconds)
                best = order[true | (np.cumsum(~true) < NUM_CANDIDATES)]
                candidates = tuple(pool[best].tolist())
                relevant = tuple(place in similar[query] for place in candidates)
                yield Ranking(query, candidates, relevant, tuple(scores[best].tolist()))

        parts = {"valid": list(rankings(dev)), "test": list(rankings(tested))}
        split = f"{split}, {100 * DEV_FRACTION:g}% of training for dev (seed {seed})"
        super().__init__(reader.questions, list(_train_queries(train, seed)), parts, split)
        reasons = {
            "pairs of one and the same sentence": reader.identical,
            "training pairs connected with the test part": len(trained) - len(apart),
        }
        self.left_out = {reason: number for reason, number in reasons.items() if number}


class MSRPQuestions(_PairCorpus):
    """News sentences whose paraphrases are to be found among the hits of a search engine.

    The Microsoft Research Paraphrase Corpus (Dolan, Quirk and Brockett 2004) has 4,076 training and
    1,725 test pairs of sentences, of which 2,753 and 1,147 are paraphrases. A sentence is a
    question that has only a title; sentences with the same words are one question.

    The first sentence of each test pair labelled a paraphrase is a query. Its candidates are the
    true second sentence and, of all other second sentences, those with the best BM25 scores. A
    candidate is relevant if any pair, in either order, labels it a paraphrase of the query.
    Training paraphrases that are connected with a test sentence, perhaps through others, are left
    out. The dev part is drawn from the rest in whole groups of connected sentences.

    Args:
        root: the folder of ``msr_paraphrase_train.txt`` and ``msr_paraphrase_test.txt``.
        seed: the seed of the dev part and of the 100 negatives of each training query.
    """

    def __init__(self, root: str | Path, seed: int = 0) -> None:
        paths = [obtain_text(root, name, SOURCE) for name in FILES]
        files = ((path, _published(path)) for path in paths)
        super().__init__(*files, given="official test part", seed=seed)


class OwnPairs(_PairCorpus):
    """The user's own pairs of texts, the similar ones to be found among a search engine's hits.

    Queries, candidates and parts are as in :class:`MSRPQuestions`; a text is its own id. If
    several similar pairs have the same first text, it is one query with all of their second texts.

    Args:
        path: a table of pairs, see :func:`~pyg_kernels.datasets.text.read_text_table`.
        test: a table of pairs to test on. If None, a share of the similar pairs is drawn, in whole
            groups of connected texts.
        columns: the columns of the first text, the second text, and their similarity, 0 or 1.
        seed: the seed of the draws.
        encoding: the encoding of the files.
    """

    def __init__(
        self,
        path: str | Path,
        test: str | Path | None = None,
        *,
        columns: Sequence[str] = ("first", "second", "label"),
        seed: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        paths = [path] if test is None else [path, test]
        files = ((each, _own(each, columns, encoding)) for each in paths)
        super().__init__(*files, given="given test part", seed=seed)


class _Reader:
    """Reads pairs of sentences and numbers the different sentences."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.seconds: dict[int, None] = {}  # second sentences of all pairs, paraphrases or not
        self.identical = 0
        self._by_id: dict[str, str] = {}
        self._by_words: dict[tuple[str, ...], int] = {}

    def read(self, path: str | Path, rows: Iterable[Row]) -> list[Pair]:
        """The paraphrases of a file, each once, without pairs of a sentence with itself."""
        labels: dict[Pair, str] = {}
        for where, label, *sentences in rows:
            if label not in ("0", "1"):
                raise ValueError(f"{where}: the label must be 0 or 1, got {label!r}")
            first, second = (self._place(id_, text, where) for id_, text in sentences)
            if labels.setdefault((first, second), label) != label:
                texts = [" ".join(self.questions[place].title) for place in (first, second)]
                raise ValueError(f"{path}: {texts[0]!r} and {texts[1]!r} are labelled both 0 and 1")
        pairs = [(first, second) for first, second in labels if first != second]
        self.identical += len(labels) - len(pairs)
        if not pairs:
            raise ValueError(f"{path} has no pairs of two sentences")
        self.seconds |= dict.fromkeys(second for _, second in pairs)
        return [pair for pair in pairs if labels[pair] == "1"]

    def _place(self, id_: str, text: str, where: str) -> int:
        words = tuple(tokenize(text))
        if not words:
            raise ValueError(f"{where}: sentence {id_} has no words")
        if self._by_id.setdefault(id_, text) != text:
            raise ValueError(f"{where}: sentence {id_} was another one before")
        place = self._by_words.setdefault(words, len(self.questions))
        if place == len(self.questions):
            self.questions.append(Question(id_, words))
        return place


def _published(path: Path) -> Iterator[Row]:
    """The rows of a file of the corpus."""
    for where, line in numbered(path, needed=False):
        label, *cells = line.split("\t")
        if label == HEADER:
            continue
        if len(cells) != 4:
            raise ValueError(f"{where}: expected 5 cells, got {1 + len(cells)}")
        first, second, *texts = cells
        yield where, label, (first, texts[0]), (second, texts[1])


def _own(path: str | Path, columns: Sequence[str], encoding: str) -> Iterator[Row]:
    """The rows of a table with these columns; each text is its own id."""
    table = read_text_table(path, columns, encoding)
    for line, first, second, label in table[list(columns)].itertuples():
        label = LABELS.get(label.strip().lower(), label.strip())
        yield f"{path}, line {line}", label, (first, first), (second, second)


def _paraphrases(pairs: Iterable[Pair]) -> dict[int, dict[int, None]]:
    """The paraphrases of each sentence, in the order of the pairs."""
    similar: dict[int, dict[int, None]] = {}
    for first, second in pairs:
        similar.setdefault(first, {})[second] = None
        similar.setdefault(second, {})[first] = None
    return similar


def _groups(pairs: Sequence[Pair], number: int) -> np.ndarray:
    """(number,) the group of each sentence; paraphrases are in the same group."""
    edges = np.array(pairs, dtype=int).reshape(-1, 2).T
    graph = coo_matrix((np.ones(edges.shape[1]), edges), shape=(number, number))
    groups: np.ndarray = connected_components(graph, directed=False)[1]
    return groups


def _divided(
    pairs: Sequence[Pair], groups: np.ndarray, fraction: float, seed: int
) -> tuple[list[Pair], list[Pair]]:
    """Pairs of groups that are drawn and fit into what is left of the share, and the others."""
    sizes = list(Counter(groups[first] for first, _ in pairs).items())
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    room, held = int(fraction * len(pairs)), set()
    for name, size in (sizes[place] for place in order.tolist()):
        if size <= room:
            held.add(name)
            room -= size
    dev = [pair for pair in pairs if groups[pair[0]] in held]
    return dev, [pair for pair in pairs if groups[pair[0]] not in held]


def _train_queries(pairs: Sequence[Pair], seed: int) -> Iterator[TrainQuery]:
    """A query for each first sentence, with negatives drawn from the sentences of these pairs."""
    similar, generator = _paraphrases(pairs), torch.Generator().manual_seed(seed)
    sentences = torch.tensor(list(similar))
    for query in dict.fromkeys(first for first, _ in pairs):
        kept = {query, *similar[query]}
        order = torch.randperm(len(sentences), generator=generator)[: NEGATIVES + len(kept)]
        drawn = sentences[order].tolist()
        negatives = [place for place in drawn if place not in kept][:NEGATIVES]
        if not negatives:
            raise ValueError("all sentences to train on are similar to each other")
        yield TrainQuery(query, tuple(similar[query]), tuple(negatives))
