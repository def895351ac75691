"""The words of texts and their vectors, which are read from a file or learned from scratch."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.errors import InputError
from pyg_kernels.datasets.text import Vocabulary, WordVectors, find_glove, read_word_vectors

NO_FILE = "none"
EMBEDDING = 100  # size of learned vectors


@dataclass(frozen=True, kw_only=True)
class Words:
    """Texts, and the vocabulary that numbers their words."""

    corpus: Any  # the texts; it has a length and a ``digest``
    vocabulary: Vocabulary
    vectors: WordVectors | None = None  # of the vocabulary; ``None``: learned from scratch
    file: Path | None = None  # the file of the vectors
    tuned: bool = False  # whether vectors from a file are trained, too

    def __post_init__(self) -> None:
        if self.tuned and self.file is None:
            raise InputError("--tune-vectors goes with a file of word vectors; others are trained")

    def identity(self) -> dict[str, Any]:
        """The number of texts, and fingerprints of texts and word vectors."""
        vectors = None
        if self.vectors is not None:
            content = self.vectors.vectors.numpy().tobytes()
            vectors = hashlib.sha256(content).hexdigest()[:16]
        return {"number": len(self.corpus), "digest": self.corpus.digest(), "vectors": vectors}

    def sizes(self, embedding: int | None) -> dict[str, Any]:
        """A configuration's fields about words; `embedding` is the size of learned vectors."""
        fields = {"num_words": len(self.vocabulary), "fixed_embedding": False}
        if self.vectors is None:
            return {**fields, "embedding_dim": embedding or EMBEDDING}
        if embedding:
            raise InputError(f"--embedding goes with --vectors none; {self.file} has its own size")
        size = self.vectors.vectors.size(1)
        return {**fields, "embedding_dim": size, "fixed_embedding": not self.tuned}

    def start(self, embedding: nn.Embedding) -> None:
        """Copies the vectors of the file, if there is one, into a network's embedding."""
        if self.vectors is not None:
            embedding.load_state_dict({"weight": self.vectors.vectors})

    def describe_vectors(self, named: str | None, more: str = "") -> str:
        """A line on the word vectors that `named` requests; `more` follows their file's name."""
        if self.vectors is None or self.file is None:
            why = "" if named else " (no file of word vectors at hand; --vectors FILE names one)"
            return f"{len(self.vocabulary):,} words with learned vectors{why}"
        kind, use = "fixed vectors", "not counted as parameters"
        if self.tuned:
            kind, use = "vectors to start from", "trained and counted as parameters"
        return (
            f"{len(self.vocabulary):,} words, {int(self.vectors.found.sum()):,} with {kind} of "
            f"{self.vectors.vectors.size(1)} numbers from {self.file.name}{more}, {use}"
        )

    def describe_unknown(self, parts: Mapping[str, Tensor]) -> str:
        """A line on how many words of parts, given as word numbers, have no vector of their own."""
        what, known = "unknown", torch.ones(len(self.vocabulary), dtype=torch.bool)
        if self.vectors is not None:
            what, known = "without a vector in the file", self.vectors.found.clone()
        known[: self.vocabulary.unknown + 1] = False
        counts = {part: (int((~known[ids]).sum()), len(ids)) for part, ids in parts.items()}
        shares = [
            f"{number:,} of {words:,} in {part} ({number / max(1, words):.1%})"
            for part, (number, words) in counts.items()
        ]
        return f"Words of the texts that are {what}: {', '.join(shares)}"


def vector_file(root: str, vectors: str | None) -> Path | None:
    """The named file of word vectors, or one that is found in or beside a folder."""
    if vectors is None or vectors == NO_FILE:
        return None if vectors else find_glove(root)
    file = Path(vectors).expanduser()
    if not file.is_file():
        raise InputError(f"--vectors {vectors}: no such file")
    return file


def read_words(corpus: Any, file: Path | None, tuned: bool = False) -> Words:
    """The words of the training part and, with word vectors, words of other parts that have one.

    Words of other parts keep the vector of the file, as they would in new texts. Without a file,
    words that are not in the training part become the unknown word.
    """
    # Words that occur once train the vector of the unknown word.
    trained = Vocabulary.build(corpus.part("train"), min_count=2 if file is None else 1)
    if file is None:
        return Words(corpus=corpus, vocabulary=trained, tuned=tuned)
    every = trained.extended(word for text in corpus.texts for word in text)
    vectors, found = read_word_vectors(file, every)
    kept = found | (torch.arange(len(every)) < len(trained))
    vocabulary = trained.extended(every.decode(kept.nonzero().flatten()))
    own = WordVectors(vectors[kept], found[kept])
    return Words(corpus=corpus, vocabulary=vocabulary, vectors=own, file=file, tuned=tuned)
