"""Similar questions of the forum AskUbuntu."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from benchmarks.corpora.published_text import numbered, obtain_text
from benchmarks.corpora.questions import Question, QuestionCorpus, Ranking, TrainQuery
from pyg_kernels.datasets.public_file import find_file

SOURCE = "https://github.com/taolei87/askubuntu"
TEXTS, TRAIN, HELD_OUT = "text_tokenized.txt", "train_random.txt", "heldout.txt"
PARTS = {"valid": "dev.txt", "test": "test.txt"}
BODY_WORDS = 100  # of a body, at most, that are read
VECTORS = ("vectors_pruned.200.txt", "vector/vectors_pruned.200.txt")

T = TypeVar("T")


class AskUbuntu(QuestionCorpus):
    """Questions about Ubuntu, with similar ones marked by users and by experts (Lei et al. 2016).

    There are 167,765 questions. Users have marked similar ones of 12,584 training questions. For
    each of the 200 questions in either ranked part, experts judged a search engine's 20 best hits.

    Args:
        root: the folder of these files, whose cells are separated by tabs: ``text_tokenized.txt``
            (id, words of the title, words of the body), ``train_random.txt`` (id, ids of similar
            questions, ids of others), ``dev.txt`` and ``test.txt`` (id, ids of similar questions,
            ids of candidates and, optionally, the candidates' BM25 scores), and, optionally,
            ``heldout.txt`` (ids of questions that pre-training leaves out).
        leave_out: whether to leave out, and count in ``left_out``, what cannot be used, such as an
            id without a question. Otherwise it is an error. If the others of a training question
            include the question itself or a similar one, these are always left out and counted.

    Attributes:
        vectors: the file of word vectors in ``root`` or, as in the published corpus, in
            ``root/vector``; None if it is in neither.
    """

    def __init__(self, root: str | Path, leave_out: bool = False) -> None:
        reader = _Reader(root, leave_out)
        questions = reader.some(TEXTS, reader.questions())
        train = reader.some(TRAIN, reader.train())
        parts = {part: reader.some(name, reader.rankings(name)) for part, name in PARTS.items()}
        held_out = reader.held_out()
        super().__init__(questions, train, parts, "published parts", held_out, reader.left_out)
        self.vectors = find_file(root, *VECTORS)


class _Reader:
    """Reads the files of the corpus, the questions first, and counts what it leaves out."""

    def __init__(self, root: str | Path, leave_out: bool) -> None:
        self.root, self.leave_out = root, leave_out
        self.left_out: Counter[str] = Counter()
        self.position: dict[str, int] = {}

    def some(self, name: str, found: Iterable[T]) -> list[T]:
        """The items found in a file as a list; it is an error if there are none."""
        kept = list(found)
        if not kept:
            path = obtain_text(self.root, name, SOURCE)
            raise ValueError(f"{path} has no questions that can be used")
        return kept

    def questions(self) -> Iterator[Question]:
        """All questions that have a title."""
        for where, (id_, *texts) in self._rows(TEXTS, (3,)):
            # Each word is stored once: there are 11 million.
            title, body = (tuple(map(sys.intern, text.split())) for text in texts)
            if id_ in self.position:
                raise ValueError(f"{where}: there is another question {id_}")
            if not title:
                self._leave_out("question without a title", id_, where)
                continue
            self.position[id_] = len(self.position)
            yield Question(id_, title, body[:BODY_WORDS])

    def train(self) -> Iterator[TrainQuery]:
        for where, (id_, similar, others) in self._rows(TRAIN, (3,)):
            for query in self._places(id_, where):
                positives, drawn = self._places(similar, where, query), self._places(others, where)
                negatives = tuple(place for place in drawn if place not in {query, *positives})
                if not positives or not negatives:
                    lacking = "another" if positives else "a similar"
                    self._leave_out(f"training question without {lacking} one", id_, where)
                    continue
                if same := len(drawn) - len(negatives):
                    self.left_out["training question's other that is similar"] += same
                yield TrainQuery(query, tuple(positives), negatives)

    def rankings(self, name: str) -> Iterator[Ranking]:
        for where, (id_, similar, candidates, *more) in self._rows(name, (3, 4)):
            scores = _numbers(more[0], len(candidates.split()), where) if more else []
            for query in self._places(id_, where):
                relevant = self._places(similar, where, query)
                kept = self._places(candidates, where, query)
                for place in relevant.keys() - kept.keys():
                    lacking = similar.split()[relevant[place]]
                    self._leave_out("similar question that is no candidate", lacking, where)
                if not kept:
                    self._leave_out("ranked question without candidates", id_, where)
                    continue
                found = tuple(place in relevant for place in kept)
                bm25 = tuple(scores[number] for number in kept.values()) if scores else None
                yield Ranking(query, tuple(kept), found, bm25)

    def held_out(self) -> tuple[int, ...]:
        """The questions of ``heldout.txt``, in order; none if there is no such file."""
        if find_file(self.root, HELD_OUT) is None:
            return ()
        rows = self._rows(HELD_OUT, (1,))
        return tuple(sorted({p for where, (id_,) in rows for p in self._places(id_, where)}))

    def _rows(self, name: str, widths: tuple[int, ...]) -> Iterator[tuple[str, list[str]]]:
        """The lines of a file, split at tabs, each after its name for error messages."""
        path = obtain_text(self.root, name, SOURCE)
        for where, line in numbered(path, needed=False):
            cells = line.split("\t")
            if len(cells) not in widths:
                expected = " or ".join(map(str, widths))
                raise ValueError(f"{where}: expected {expected} cells, got {len(cells)}")
            if len(cells[0].split()) != 1:
                raise ValueError(f"{where}: the first cell must be one id, got {cells[0]!r}")
            yield where, [cells[0].strip(), *cells[1:]]

    def _places(self, ids: str, where: str, query: int | None = None) -> dict[int, int]:
        """The position of each question that the ids name, without their query's, and the place of
        its first id among them.
        """
        places: dict[int, int] = {}
        for number, name in enumerate(ids.split()):
            place = self.position.get(name)
            if place is None:
                self._leave_out("id without a question", name, where)
            elif place == query:
                self._leave_out("question similar to itself or its own candidate", name, where)
            else:
                places.setdefault(place, number)
        return places

    def _leave_out(self, reason: str, id_: str, where: str) -> None:
        if not self.leave_out:
            how = "leave_out=True, --leave-out, leaves such out and counts them"
            raise ValueError(f"{where}: {reason}, {id_} ({how})")
        self.left_out[reason] += 1


def _numbers(cell: str, number: int, where: str) -> list[float]:
    """The BM25 scores in a cell, one for each of `number` candidates."""
    try:
        scores = [float(score) for score in cell.split()]
    except ValueError:
        scores = []
    if len(scores) != number or not all(map(math.isfinite, scores)):
        raise ValueError(f"{where}: expected {number} finite BM25 scores, got {cell!r}")
    return scores
