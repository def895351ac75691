"""Word vectors in text files: GloVe's format and word2vec's."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.datasets.text.vocabulary import Vocabulary

GLOVE = ("glove*.txt", "glove*.txt.gz")


class WordVectors(NamedTuple):
    """The vectors of a vocabulary of V words.

    Attributes:
        vectors: (V, D) float32, zero where a word has none.
        found: (V,) bool, whether a word has one.
    """

    vectors: Tensor
    found: Tensor

    def unit_norm(self) -> WordVectors:
        """The same, each vector scaled to length 1; zero ones stay zero."""
        return WordVectors(torch.nn.functional.normalize(self.vectors, dim=1), self.found)


def find_glove(root: str | Path) -> Path | None:
    """A file ``glove*.txt`` or ``glove*.txt.gz`` in ``root``, ``root/glove`` or ``root/../glove``.

    The first by name of the first folder that has one; None if none has.
    """
    root = Path(root).expanduser()
    for folder in (root, root / "glove", root.resolve().parent / "glove"):
        found = sorted(path for pattern in GLOVE for path in folder.glob(pattern) if path.is_file())
        if found:
            return found[0]
    return None


def read_word_vectors(path: str | Path, vocabulary: Vocabulary) -> WordVectors:
    """The vectors of the words of a vocabulary, from a file in GloVe's or word2vec's text format.

    They differ in word2vec's first line, which has the number of words and that of numbers alone
    (Mikolov et al. 2013; also fastText's ``.vec``).

    Args:
        path: a file of lines ``word v1 .. vD``, decompressed if its name ends in ``.gz``. A word
            may contain spaces (GloVe's of 840 billion tokens has some); D is that of the first
            line. Of a word that comes twice the last vector counts.
        vocabulary: padding and the unknown word get no vector, even where the file has them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a line has fewer or more than D fields behind its word, or the first or the
            last of them is no number; the line of a word of the vocabulary has another that is no
            number, or one that is not finite; the file has more or fewer words than its first line
            says, or is empty, damaged or not in UTF-8.
    """
    path = Path(path).expanduser()
    opened = gzip.open if path.suffix == ".gz" else open
    lines = _Lines()
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            rows = lines.read(file, vocabulary)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not in {lines.format}'s text format, at line {lines.number}: {error}"
        ) from error
    if not lines.dimension:
        raise ValueError(f"{path} is empty")
    vectors = np.zeros((len(vocabulary), lines.dimension), dtype=np.float32)
    found = np.zeros(len(vocabulary), dtype=bool)
    if rows:
        places = np.fromiter(rows, dtype=np.int64)
        vectors[places] = np.stack(list(rows.values()))
        found[places] = True
    return WordVectors(torch.from_numpy(vectors), torch.from_numpy(found))


class _Lines:
    """Where the reading of a file is, for its errors to say."""

    def __init__(self) -> None:
        self.format = "GloVe"
        self.number = self.dimension = 0

    def read(self, file: Iterable[str], vocabulary: Vocabulary) -> dict[int, np.ndarray]:
        """The vectors of the words of a vocabulary by their numbers."""
        rows: dict[int, np.ndarray] = {}
        announced, words = None, 0
        for fields in self._fields(file):
            if self.number == 1 and announced is None and _is_header(fields):
                announced, self.dimension = map(int, fields)
                self.format = "word2vec"
                if self.dimension < 2:
                    raise ValueError(f"it announces {self.dimension} numbers a word, not 2 or more")
                continue
            self.dimension = self.dimension or len(fields) - 1
            self._check(fields)
            words += 1
            number = vocabulary[fields[0]]
            if number not in (vocabulary.padding, vocabulary.unknown):
                rows[number] = _vector(fields[1:])
        if announced not in (None, words):
            raise ValueError(f"the file ends with {words} words, its first line says {announced}")
        return rows

    def _fields(self, file: Iterable[str]) -> Iterator[list[str]]:
        for self.number, line in enumerate(file, start=1):
            yield line.rstrip().rsplit(" ", self.dimension or -1)

    def _check(self, fields: list[str]) -> None:
        if self.dimension < 2 or len(fields) != self.dimension + 1:
            raise ValueError(f"it has {len(fields) - 1} numbers, not {max(2, self.dimension)}")
        if " " in fields[0] and _is_number(fields[0].rpartition(" ")[2]):
            raise ValueError(f"it has more than {self.dimension} numbers")
        # Converting every number would make reading more than four times slower.
        float(fields[1])
        float(fields[-1])


def _is_header(fields: list[str]) -> bool:
    return len(fields) == 2 and all(field.isascii() and field.isdecimal() for field in fields)


def _is_number(text: str) -> bool:
    """Whether it is written as the numbers of vectors are; ``inf`` and ``nan`` are words too."""
    try:
        float(text)
    except ValueError:
        return False
    return any(letter.isdecimal() for letter in text)


def _vector(fields: list[str]) -> np.ndarray:
    vector = np.array(fields, dtype=np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("a number of it is not finite")
    return vector
