"""Which texts, which parts, which word vectors, and the batches that Lightning reads."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch

from benchmarks.corpora.ag_news import AGNews
from benchmarks.corpora.movie_reviews import MR
from benchmarks.corpora.sst import SST
from benchmarks.corpora.trec import TREC
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.processes import processes
from benchmarks.harness.task import PARTS
from benchmarks.harness.text.names import OWN
from pyg_kernels.datasets.text import (
    EncodedTexts,
    TextCorpus,
    TextCSV,
    TextLoader,
    TextTable,
    Vocabulary,
    WordVectors,
    find_glove,
    read_word_vectors,
)
from pyg_kernels.datasets.text.text_table import has_columns
from pyg_kernels.tables import PARQUET

NO_GLOVE = "none"
HELD_OUT = 0.1
BUCKET = 20  # batches' worth of texts that are sorted by length together


@dataclass(frozen=True)
class TextChoice:
    """The texts that the command line names.

    Args:
        dataset (str): A key of :data:`CORPORA`.
        root (str): Folder of its files.
        glove (str, optional): File of word vectors; ``None``: look for one, ``'none'``: use none.
        tune_vectors (bool): Train the vectors of the file as well.
        split_seed (int): Of the texts held out of training where a corpus has no part to validate
            on, and of all parts where it has none.
        csv (list of str): For ``'csv'``: a file, or a training and a test file, in place of `root`.
        text_columns (list of str): Of these files, the columns of texts; none: ``text``, or files
            without a header.
        label_column (str, optional): The column of classes, ``label`` unless given.
        encoding (str): Of these files.
        unit_norm (bool): Scale the vectors of the file to length 1.
        phrases (bool, optional): Whether to train on the labelled phrases of ``'sst-...'`` too;
            ``None``: where its folder has them.
    """

    dataset: str = "trec"
    root: str = "data/trec"
    glove: str | None = None
    tune_vectors: bool = False
    split_seed: int = 0
    csv: list[str] = field(default_factory=list)
    text_columns: list[str] = field(default_factory=list)
    label_column: str | None = None
    encoding: str = "utf-8"
    unit_norm: bool = False
    phrases: bool | None = False


CORPORA: dict[str, Callable[[TextChoice], TextCorpus]] = {
    "trec": lambda choice: TREC(choice.root),
    "trec-fine": lambda choice: TREC(choice.root, labels="fine"),
    "sst-fine": lambda choice: SST(choice.root, labels="fine", phrases=choice.phrases),
    "sst-binary": lambda choice: SST(choice.root, labels="binary", phrases=choice.phrases),
    "mr": lambda choice: MR(choice.root, seed=choice.split_seed),
    "ag_news": lambda choice: AGNews(choice.root, seed=choice.split_seed),
    OWN: lambda choice: _own_texts(choice),
}


def _own_texts(choice: TextChoice) -> TextCorpus:
    """Tables with named columns, or rows of the number of a class and texts."""
    first, *second = choice.csv or [choice.root]
    test = second[0] if second else None
    columns, label = choice.text_columns or ["text"], choice.label_column or "label"
    # Files without a header are in UTF-8.
    named = bool(choice.text_columns or choice.label_column or choice.encoding != "utf-8")
    if named or first.endswith(PARQUET) or has_columns(first, [*columns, label], choice.encoding):
        return TextTable(
            first, test, columns, label, seed=choice.split_seed, encoding=choice.encoding
        )
    try:
        return TextCSV(first, test, seed=choice.split_seed)
    except ValueError as error:
        raise InputError(
            f"{error}; a file with a header needs the columns text and label, or --text-column "
            "and --label-column"
        ) from error


@dataclass(frozen=True)
class TextData:
    """Texts in parts, as numbers.

    Args:
        corpus: Words, classes and parts.
        vocabulary: The training part's words and, with word vectors, further words that have one.
        encoded: The texts as numbers.
        vectors: Word vectors of the vocabulary; ``None``: learned from nothing.
        glove: The file that they are from.
        choice: Where the texts come from.
    """

    corpus: TextCorpus
    vocabulary: Vocabulary
    encoded: EncodedTexts
    vectors: WordVectors | None
    glove: Path | None
    choice: TextChoice

    def identity(self) -> dict[str, Any]:
        """The number of texts, and fingerprints of texts and word vectors."""
        vectors = None
        if self.vectors is not None:
            vectors = hashlib.sha256(self.vectors.vectors.numpy().tobytes()).hexdigest()[:16]
        return {
            "number": len(self.corpus),
            "digest": self.corpus.digest(),
            "vectors": vectors,
        }

    def unknown_words(self, part: str) -> tuple[int, int]:
        """How many words of a part have no vector of their own, and how many it has in all."""
        known = torch.ones(len(self.vocabulary), dtype=torch.bool)
        if self.vectors is not None:
            known = self.vectors.found.clone()
        known[: self.vocabulary.unknown + 1] = False
        ids = self.encoded.batch(self.corpus.parts[part]).ids
        return int((~known[ids]).sum()), len(ids)


def load_texts(choice: TextChoice) -> TextData:
    """Reads texts and word vectors.

    With word vectors, words that only other parts have keep theirs, as every word of the file would
    for new texts; without, they are the unknown word.

    Raises:
        InputError: If a file is neither at hand nor to be downloaded, or cannot be read.
    """
    with as_input_error():
        glove = glove_file(choice)
        corpus = CORPORA[choice.dataset](choice)
        corpus.hold_out(HELD_OUT, choice.split_seed)
        vectors = None
        if glove:
            vocabulary, vectors = known_words(corpus, glove)
            if choice.unit_norm:
                vectors = vectors.unit_norm()
        else:
            # A word that occurs once teaches what to make of unknown words.
            vocabulary = Vocabulary.build(corpus.part("train"), min_count=2)
    encoded = EncodedTexts(*vocabulary.encode(corpus.texts), corpus.labels)
    return TextData(corpus, vocabulary, encoded, vectors, glove, choice)


def glove_file(choice: Any) -> Path | None:
    """The file of word vectors that a choice with ``root`` and ``glove`` names or leaves to find.

    Raises:
        InputError: If the file that it names is not there.
    """
    if choice.glove is None:
        return find_glove(choice.root)
    if choice.glove == NO_GLOVE:
        return None
    glove = Path(choice.glove).expanduser()
    if not glove.is_file():
        raise InputError(f"--vectors {choice.glove}: no such file")
    return glove


def known_words(corpus: Any, glove: Path) -> tuple[Vocabulary, WordVectors]:
    """The words of training and those of other parts that have a vector, and the vectors."""
    trained = Vocabulary.build(corpus.part("train"))
    every = trained.extended(word for text in corpus.texts for word in text)
    vectors, found = read_word_vectors(glove, every)
    kept = found | (torch.arange(len(every)) < len(trained))
    vocabulary = trained.extended(every.decode(kept.nonzero().flatten()))
    return vocabulary, WordVectors(vectors[kept], found[kept])


class TextBatches(lightning.LightningDataModule):
    """Batches of the training and validation parts.

    The order of the training texts depends on seed and epoch alone, so that a resumed run sees the
    batches that the uninterrupted one would have seen. Several processes share each batch.

    Args:
        data: Texts in parts.
        batch_size (int): Texts a batch of all processes.
        seed (int): Seed of the order.
    """

    def __init__(self, data: TextData, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data = data
        self.batch_size = batch_size
        self.seed = seed

    def part(self, name: str, **options: Any) -> TextLoader:
        """A loader over one part, in its own order unless `options` say otherwise."""
        places = self.data.corpus.parts[name]
        return TextLoader(
            self.data.encoded,
            places,
            batch_size=self.batch_size,
            share=processes().share,
            **options,
        )

    def train_dataloader(self) -> TextLoader:
        """Shuffled batches of this epoch."""
        loader = self.part("train", shuffle=True, seed=10_000 * self.seed, bucket=BUCKET)
        loader.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return loader

    def val_dataloader(self) -> TextLoader:
        """The validation part in its own order."""
        return self.part("valid")

    def all_parts(self) -> list[TextLoader]:
        """One loader for each of the parts, in their own order."""
        return [self.part(name) for name in PARTS]
