"""Texts with classes, as words or as numbers; vocabulary, word vectors and batches."""

from pyg_kernels.datasets.loaders import TextLoader
from pyg_kernels.datasets.text.corpus import TextCorpus
from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch
from pyg_kernels.datasets.text.text_table import TextCSV, TextTable, read_text_table
from pyg_kernels.datasets.text.vocabulary import Vocabulary, tokenize
from pyg_kernels.datasets.text.word_vectors import WordVectors, find_glove, read_word_vectors

__all__ = [
    "EncodedTexts",
    "TextBatch",
    "TextCSV",
    "TextCorpus",
    "TextLoader",
    "TextTable",
    "Vocabulary",
    "WordVectors",
    "find_glove",
    "read_text_table",
    "read_word_vectors",
    "tokenize",
]
