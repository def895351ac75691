"""Which texts, which parts, which word vectors, and the batches that Lightning reads."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.corpora.ag_news import AGNews
from benchmarks.corpora.movie_reviews import MR
from benchmarks.corpora.sst import SST
from benchmarks.corpora.trec import TREC
from benchmarks.harness.batches import Batches
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.task import PARTS
from benchmarks.harness.text.options import OWN, Texts
from pyg_kernels.datasets.text import (
    EncodedTexts,
    TextCorpus,
    TextCSV,
    TextTable,
    Vocabulary,
    WordVectors,
    find_glove,
    read_word_vectors,
)
from pyg_kernels.datasets.text.text_table import has_columns
from pyg_kernels.tables import PARQUET

NO_GLOVE = "none"
PHRASES = {"no": False, "yes": True, "auto": None}
HELD_OUT = 0.1
BUCKET = 20  # batches' worth of texts that are sorted by length together


def _own_texts(choice: Texts) -> TextCorpus:
    """Tables with named columns, or rows of the number of a class and texts.

    A folder has ``train.csv`` and ``test.csv``, each perhaps as ``.csv.gz``.
    """

    def in_folder(part: str) -> str:
        plain, packed = (Path(choice.folder) / f"{part}{end}" for end in (".csv", ".csv.gz"))
        return str(packed if packed.is_file() and not plain.is_file() else plain)

    first, *second = choice.files or [in_folder(part) for part in ("train", "test")]
    test, seed = second[0] if second else None, choice.split_seed or 0
    columns, label = list(choice.text_column) or ["text"], choice.label_column or "label"
    # Files without a header are in UTF-8.
    named = bool(choice.text_column or choice.label_column or choice.encoding != "utf-8")
    if named or first.endswith(PARQUET) or has_columns(first, [*columns, label], choice.encoding):
        return TextTable(first, test, columns, label, seed=seed, encoding=choice.encoding)
    if not choice.files:
        first, test = choice.folder, None
    try:
        return TextCSV(first, test, seed=seed)
    except ValueError as error:
        raise InputError(
            f"{error}; a file with a header needs the columns text and label, or --text-column "
            "and --label-column"
        ) from error


CORPORA: dict[str, Callable[[Texts], TextCorpus]] = {
    "trec": lambda choice: TREC(choice.folder),
    "trec-fine": lambda choice: TREC(choice.folder, labels="fine"),
    "sst-fine": lambda choice: SST(choice.folder, phrases=PHRASES[choice.phrases]),
    "sst-binary": lambda choice: SST(
        choice.folder, labels="binary", phrases=PHRASES[choice.phrases]
    ),
    "mr": lambda choice: MR(choice.folder, seed=choice.split_seed or 0),
    "ag_news": lambda choice: AGNews(choice.folder, seed=choice.split_seed or 0),
    OWN: _own_texts,
}


@dataclass(frozen=True)
class TextData:
    """Texts in parts, as numbers."""

    corpus: TextCorpus  # words, classes and parts
    # the training part's words and, with word vectors, further words that have one
    vocabulary: Vocabulary
    encoded: EncodedTexts
    vectors: WordVectors | None  # word vectors of the vocabulary; ``None``: learned from nothing
    glove: Path | None  # the file that they are from
    choice: Texts  # where the texts come from

    def identity(self) -> dict[str, Any]:
        vectors = fingerprint(self.vectors)
        return {"number": len(self.corpus), "digest": self.corpus.digest(), "vectors": vectors}

    def unknown_words(self, part: str) -> tuple[int, int]:
        """How many words of a part have no vector of their own, and how many it has in all."""
        known = torch.ones(len(self.vocabulary), dtype=torch.bool)
        if self.vectors is not None:
            known = self.vectors.found.clone()
        known[: self.vocabulary.unknown + 1] = False
        ids = self.encoded.batch(self.corpus.parts[part]).ids
        return int((~known[ids]).sum()), len(ids)


def load_texts(choice: Texts) -> TextData:
    """Reads texts and word vectors.

    With word vectors, words that only other parts have keep theirs, as every word of the file would
    for new texts; without, they are the unknown word.
    """
    with as_input_error():
        glove = vector_file(choice.folder, choice.vectors)
        if choice.tune_vectors and not glove:
            raise InputError("--tune-vectors goes with a file of word vectors; others are trained")
        corpus = CORPORA[choice.dataset](choice)
        corpus.hold_out(HELD_OUT, choice.split_seed or 0)
        if glove:
            vocabulary, found = known_words(corpus, glove)
            vectors = found.unit_norm() if choice.unit_norm else found
        else:
            # A word that occurs once teaches what to make of unknown words.
            vocabulary, vectors = Vocabulary.build(corpus.part("train"), min_count=2), None
    encoded = EncodedTexts(*vocabulary.encode(corpus.texts), corpus.labels)
    return TextData(corpus, vocabulary, encoded, vectors, glove, choice)


def vector_file(root: str, vectors: str | None) -> Path | None:
    """The file of word vectors that is named, or found in or beside a folder."""
    if vectors is None:
        return find_glove(root)
    if vectors == NO_GLOVE:
        return None
    glove = Path(vectors).expanduser()
    if not glove.is_file():
        raise InputError(f"--vectors {vectors}: no such file")
    return glove


def fingerprint(vectors: WordVectors | None) -> str | None:
    """Of word vectors, if there are any."""
    if vectors is None:
        return None
    return hashlib.sha256(vectors.vectors.numpy().tobytes()).hexdigest()[:16]


def known_words(corpus: Any, glove: Path) -> tuple[Vocabulary, WordVectors]:
    """The words of training and those of other parts that have a vector, and the vectors."""
    trained = Vocabulary.build(corpus.part("train"))
    every = trained.extended(word for text in corpus.texts for word in text)
    vectors, found = read_word_vectors(glove, every)
    kept = found | (torch.arange(len(every)) < len(trained))
    vocabulary = trained.extended(every.decode(kept.nonzero().flatten()))
    return vocabulary, WordVectors(vectors[kept], found[kept])


def text_batches(
    parts: Mapping[str, Tensor], loader: Callable[..., Any], batch_size: int, seed: int
) -> Batches:
    """Texts, those to train on with others of similar length."""
    shuffled = {"shuffle": True, "seed": 10_000 * seed, "bucket": BUCKET}
    training = loader(parts["train"], batch_size, **shuffled)
    return Batches(training, {part: loader(parts[part], batch_size) for part in PARTS})
