"""Word vectors in GloVe's text format."""

from __future__ import annotations

from pathlib import Path

from pyg_kernels.datasets.text.vocabulary import Vocabulary
from pyg_kernels.datasets.text.word_vectors import WordVectors, read_vectors

PATTERNS = ("glove*.txt", "glove*.txt.gz")


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
        ValueError: if a line has fewer or more than D fields behind its word, or the first or the
            last of them is no number; the line of a word of the vocabulary has another that is no
            number, or one that is not finite; or the file is empty, damaged or not in UTF-8.
    """
    return read_vectors(path, vocabulary, header=False)
