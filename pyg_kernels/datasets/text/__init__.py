"""Texts with classes, streams of words, and questions; vocabulary, word vectors and batches."""

from pyg_kernels.datasets.text.ag_news import AGNews
from pyg_kernels.datasets.text.ask_ubuntu import AskUbuntu
from pyg_kernels.datasets.text.beer_advocate import BeerAdvocate, decorrelated
from pyg_kernels.datasets.text.bm25 import BM25Index
from pyg_kernels.datasets.text.corpus import TextCorpus
from pyg_kernels.datasets.text.encoded import EncodedTexts, TextBatch
from pyg_kernels.datasets.text.glove import find_glove, read_glove
from pyg_kernels.datasets.text.language import LanguageCorpus, LanguageVocabulary, TextStreams
from pyg_kernels.datasets.text.language_loader import LanguageBatch, LanguageLoader
from pyg_kernels.datasets.text.loader import TextLoader
from pyg_kernels.datasets.text.movie_reviews import MR
from pyg_kernels.datasets.text.paraphrases import MSRPQuestions
from pyg_kernels.datasets.text.planted_evidence import PlantedEvidence
from pyg_kernels.datasets.text.python_documentation import PythonDocumentation
from pyg_kernels.datasets.text.questions import Question, QuestionCorpus, Ranking, TrainQuery
from pyg_kernels.datasets.text.sst import SST
from pyg_kernels.datasets.text.text_csv import TextCSV
from pyg_kernels.datasets.text.text_table import TextTable, read_text_table
from pyg_kernels.datasets.text.tokens import tokenize
from pyg_kernels.datasets.text.trec import TREC
from pyg_kernels.datasets.text.vocabulary import Vocabulary
from pyg_kernels.datasets.text.word_vectors import WordVectors, read_word_vectors

__all__ = [
    "MR",
    "SST",
    "TREC",
    "AGNews",
    "AskUbuntu",
    "BM25Index",
    "BeerAdvocate",
    "EncodedTexts",
    "LanguageBatch",
    "LanguageCorpus",
    "LanguageLoader",
    "LanguageVocabulary",
    "MSRPQuestions",
    "PlantedEvidence",
    "PythonDocumentation",
    "Question",
    "QuestionCorpus",
    "Ranking",
    "TextBatch",
    "TextCSV",
    "TextCorpus",
    "TextLoader",
    "TextStreams",
    "TextTable",
    "TrainQuery",
    "Vocabulary",
    "WordVectors",
    "decorrelated",
    "find_glove",
    "read_glove",
    "read_text_table",
    "read_word_vectors",
    "tokenize",
]
