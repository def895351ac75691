"""Which texts, which parts, and the batches that Lightning reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from benchmarks.corpora.ag_news import AGNews
from benchmarks.corpora.film_reviews import MR, SST
from benchmarks.corpora.published_text import use_fold
from benchmarks.corpora.trec import TREC
from benchmarks.harness.errors import InputError, as_input_error, tell
from benchmarks.harness.task import PARTS, Batches
from benchmarks.harness.text.options import OWN, Texts
from benchmarks.harness.words import Words, read_words, vector_file
from pyg_kernels.datasets.text import EncodedTexts, TextCorpus, TextCSV, TextTable
from pyg_kernels.datasets.text.text_table import has_columns, part_files
from pyg_kernels.tables import PARQUET

PHRASES = {"no": False, "yes": True, "auto": None}
HELD_OUT = 0.1
BUCKET = 20  # so many batches of texts are sorted by length together


def _own_texts(choice: Texts) -> TextCorpus:
    """Tables with named columns, or with a class number and texts in each row.

    A folder has ``train.csv`` and ``test.csv``, or either as ``.csv.gz``.
    """
    path, *second = choice.files or [choice.folder]
    test, seed = second[0] if second else None, choice.split_seed or 0
    first = part_files(path, test)[0]
    columns, label = list(choice.text_column) or ["text"], choice.label_column or "label"
    encoding = choice.encoding
    # Files without a header are in UTF-8.
    named = choice.text_column or choice.label_column or encoding != "utf-8"
    named = named or first.name.endswith(PARQUET)
    if named or has_columns(first, [*columns, label], encoding):
        return TextTable(path, test, columns, label, seed=seed, encoding=encoding)
    try:
        return TextCSV(path, test, seed=seed)
    except ValueError as error:
        raise InputError(
            f"{error}; a file with a header needs the columns text and label, or --text-column "
            "and --label-column"
        ) from error


CORPORA: dict[str, Callable[[Texts], TextCorpus]] = {
    "trec": lambda choice: TREC(choice.folder),
    "trec-fine": lambda choice: TREC(choice.folder, labels="fine"),
    "sst-fine": lambda choice: SST(choice.folder, "fine", PHRASES[choice.phrases]),
    "sst-binary": lambda choice: SST(choice.folder, "binary", PHRASES[choice.phrases]),
    "mr": lambda choice: MR(choice.folder, seed=choice.split_seed or 0),
    "ag_news": lambda choice: AGNews(choice.folder, seed=choice.split_seed or 0),
    OWN: _own_texts,
}


@dataclass(frozen=True, kw_only=True)
class TextData(Words):
    """Texts as word numbers, split into parts."""

    encoded: EncodedTexts
    choice: Texts  # where the texts come from

    def word_numbers(self) -> dict[str, Tensor]:
        return {part: self.encoded.batch(self.corpus.parts[part]).ids for part in PARTS}


def load_texts(choice: Texts, fold: int = 0) -> TextData:
    """Reads texts and word vectors; if several folds are requested, in the parts of one fold."""
    with as_input_error():
        file = vector_file(choice.folder, choice.vectors)
        corpus = CORPORA[choice.dataset](choice)
        if choice.folds > 1:
            use_fold(corpus, fold, choice.split_seed or 0)
        corpus.hold_out(HELD_OUT, choice.split_seed or 0)
        words = read_words(corpus, file, choice.tune_vectors)
    if choice.unit_norm and words.vectors is not None:
        words = replace(words, vectors=words.vectors.unit_norm())
    elif choice.unit_norm:
        tell("--unit-norm: there are no word vectors, which it would scale")
    encoded = EncodedTexts(*words.vocabulary.encode(corpus.texts), corpus.labels)
    return TextData(**vars(words), encoded=encoded, choice=choice)


def text_batches(
    parts: Mapping[str, Tensor], loader: Callable[..., Any], batch_size: int, seed: int
) -> Batches:
    """Batches of texts; training batches hold texts of similar length."""
    shuffled = {"shuffle": True, "seed": 10_000 * seed, "bucket": BUCKET}
    training = loader(parts["train"], batch_size, **shuffled)
    return Batches(training, {part: loader(parts[part], batch_size) for part in PARTS})
