"""Word vectors in GloVe's text format."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.datasets.text.vocabulary import Vocabulary

PATTERNS = ("glove*.txt", "glove*.txt.gz")


class WordVectors(NamedTuple):
    """The vectors of a vocabulary of V words.

    Attributes:
        vectors: (V, D) float32, zero where a word has none.
        found: (V,) bool, whether a word has one.
    """

    vectors: Tensor
    found: Tensor


def find_glove(root: str | Path) -> Path | None:
    """A file ``glove*.txt`` or ``glove*.txt.gz`` in ``root``, ``root/glove`` or ``root/../glove``.

    The first by name of the first folder that has one; None if none has.
    """
    root = Path(root).expanduser()
    for folder in (root, root / "glove", root.resolve().parent / "glove"):
        found = sorted(
            path for pattern in PATTERNS for path in folder.glob(pattern) if path.is_file()
        )
        if found:
            return found[0]
    return None


def read_glove(path: str | Path, vocabulary: Vocabulary) -> WordVectors:
    """The vectors of the words of a vocabulary (Pennington et al. 2014).

    Args:
        path: a file of lines ``word v1 .. vD``, decompressed if its name ends in ``.gz``. A word
            may contain spaces (that of 840 billion tokens has some); D is that of the first line.
        vocabulary: padding and the unknown word get no vector, even where the file has them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a line has fewer than D numbers, a vector is not of finite numbers, or the
            file is empty, damaged or not in UTF-8.
    """
    path = Path(path).expanduser()
    opened = gzip.open if path.suffix == ".gz" else open
    rows: dict[int, np.ndarray] = {}
    dimension = line_number = 0
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            for line_number, line in enumerate(file, start=1):  # noqa: B007
                fields = line.rstrip().rsplit(" ", dimension or -1)
                dimension = dimension or len(fields) - 1
                if dimension < 2 or len(fields) != dimension + 1:
                    raise ValueError(f"it has {len(fields) - 1} numbers, not {max(2, dimension)}")
                number = vocabulary[fields[0]]
                if number not in (vocabulary.padding, vocabulary.unknown):
                    rows[number] = _vector(fields[1:])
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not in GloVe's text format, at line {line_number}: {error}"
        ) from error
    if not dimension:
        raise ValueError(f"{path} is empty")
    vectors = np.zeros((len(vocabulary), dimension), dtype=np.float32)
    found = np.zeros(len(vocabulary), dtype=bool)
    if rows:
        places = np.fromiter(rows, dtype=np.int64)
        vectors[places] = np.stack(list(rows.values()))
        found[places] = True
    return WordVectors(torch.from_numpy(vectors), torch.from_numpy(found))


def _vector(fields: list[str]) -> np.ndarray:
    vector = np.array(fields, dtype=np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("a number of it is not finite")
    return vector
