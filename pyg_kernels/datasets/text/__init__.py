"""Texts with a class each: corpora, vocabulary, word vectors and batches."""

from pyg_kernels.datasets.text.ag_news import AGNews
from pyg_kernels.datasets.text.corpus import TextCorpus
from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch
from pyg_kernels.datasets.text.glove import WordVectors, find_glove, read_glove
from pyg_kernels.datasets.text.loader import TextLoader
from pyg_kernels.datasets.text.movie_reviews import MR
from pyg_kernels.datasets.text.sst import SST
from pyg_kernels.datasets.text.text_csv import TextCSV
from pyg_kernels.datasets.text.tokens import tokenize
from pyg_kernels.datasets.text.trec import TREC
from pyg_kernels.datasets.text.vocabulary import Vocabulary

__all__ = [
    "MR",
    "SST",
    "TREC",
    "AGNews",
    "EncodedTexts",
    "TextBatch",
    "TextCSV",
    "TextCorpus",
    "TextLoader",
    "Vocabulary",
    "WordVectors",
    "find_glove",
    "read_glove",
    "tokenize",
]
