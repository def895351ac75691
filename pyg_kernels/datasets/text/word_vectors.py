"""Word vectors in text files: GloVe's format and word2vec's."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.datasets.text.vocabulary import Vocabulary

GLOVE = ("glove*.txt", "glove*.txt.gz")
COUNTS = re.compile("[0-9]+ [0-9]+")  # the first line of word2vec's format


class WordVectors(NamedTuple):
    """The vectors of a vocabulary of V words.

    Attributes:
        vectors: (V, D) float32, zero for words without a vector.
        found: (V,) bool, whether a word has a vector.
    """

    vectors: Tensor
    found: Tensor

    def unit_norm(self) -> WordVectors:
        """The same vectors, each scaled to length 1; zero vectors stay zero."""
        return WordVectors(torch.nn.functional.normalize(self.vectors, dim=1), self.found)


def find_glove(root: str | Path) -> Path | None:
    """A file ``glove*.txt`` or ``glove*.txt.gz`` in ``root``, ``root/glove`` or ``root/../glove``.

    It is the first by name in the first of these folders that has one; None if none has.
    """
    root = Path(root).expanduser()
    for folder in (root, root / "glove", root.resolve().parent / "glove"):
        found = sorted(path for pattern in GLOVE for path in folder.glob(pattern) if path.is_file())
        if found:
            return found[0]
    return None


def read_word_vectors(path: str | Path, vocabulary: Vocabulary) -> WordVectors:
    """The vectors of the words of a vocabulary, from a file in GloVe's or word2vec's text format.

    Unlike GloVe's, word2vec's format (Mikolov et al. 2013; also fastText's ``.vec``) has a first
    line that contains only the number of words and the number of entries D of a vector.

    Args:
        path: a file of lines ``word v1 .. vD``, decompressed if its name ends in ``.gz``. A word
            may contain spaces (some do in GloVe's file of 840 billion tokens). The first line
            determines D. If a word occurs twice, its last vector is used.
        vocabulary: padding and the unknown word get no vector, even if the file has them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a line has fewer or more than D fields after its word, or if the first or
            the last of these is not a number; if, for a word of the vocabulary, any field is not a
            finite number; if the file has more or fewer words than its first line says, or is
            empty, damaged or not in UTF-8.
    """
    path = Path(path).expanduser()
    opened = gzip.open if path.suffix == ".gz" else open
    rows: dict[int, np.ndarray] = {}
    kind, number, size, announced, words = "GloVe", 0, 0, None, 0
    try:
        with opened(path, "rb") as file:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip()
                fields = line.rsplit(" ", size or -1)
                if number == 1 and COUNTS.fullmatch(line):
                    kind, (announced, size) = "word2vec", map(int, fields)
                    if size < 2:
                        raise ValueError(f"it announces {size} numbers a word, not 2 or more")
                    continue
                size = size or len(fields) - 1
                _check(fields, size)
                words += 1
                place = vocabulary[fields[0]]
                if place not in (vocabulary.padding, vocabulary.unknown):
                    rows[place] = np.array(fields[1:], dtype=np.float32)
                    if not np.isfinite(rows[place]).all():
                        raise ValueError("a number of it is not finite")
        if announced not in (None, words):
            raise ValueError(f"the file ends with {words} words, its first line says {announced}")
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not in {kind}'s text format, at line {number}: {error}"
        ) from error
    if not size:
        raise ValueError(f"{path} is empty")
    vectors = torch.zeros(len(vocabulary), size)
    for place, vector in rows.items():
        vectors[place] = torch.from_numpy(vector)
    return WordVectors(vectors, torch.tensor([place in rows for place in range(len(vocabulary))]))


def _check(fields: list[str], size: int) -> None:
    """Refuses a wrong number of fields; converting all of them would take four times longer."""
    if size < 2 or len(fields) != size + 1:
        raise ValueError(f"it has {len(fields) - 1} numbers, not {max(2, size)}")
    if " " in fields[0] and _is_number(fields[0].rpartition(" ")[2]):
        raise ValueError(f"it has more than {size} numbers")
    float(fields[1])
    float(fields[-1])


def _is_number(text: str) -> bool:
    """Whether a text is a number; ``inf`` and ``nan``, which are words too, do not count."""
    try:
        float(text)
    except ValueError:
        return False
    return any(letter.isdecimal() for letter in text)
