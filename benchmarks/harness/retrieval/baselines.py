"""Ranking by the words that questions share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bm25s  # noqa: F401 (used further down: a run without it must not begin)
import torch
from sklearn.feature_extraction.text import (
    ENGLISH_STOP_WORDS,
    CountVectorizer,
    TfidfVectorizer,
)
from torch import Tensor

from benchmarks.corpora.bm25 import BM25Index
from benchmarks.corpora.questions import QuestionCorpus
from benchmarks.harness.errors import InputError
from benchmarks.harness.retrieval.metrics import evaluate

NGRAMS = (1, 2, 3)


def bm25(corpus: QuestionCorpus, part: str, fields: str = "title+body") -> list[Tensor]:
    """The BM25 score of each candidate with the query as what is searched for.

    How rare a word is and how long texts are is taken from all questions of the corpus.

    Args:
        corpus (QuestionCorpus): The questions.
        part (str): ``'dev'`` or ``'test'``.
        fields (str): ``'title'`` or ``'title+body'``, one after the other.

    Returns:
        list of Tensor: For each query ``(C,)`` float32.
    """
    texts = corpus.texts(fields)
    index = BM25Index(texts)
    return [
        index.scores(texts[ranking.query])[list(ranking.candidates)]
        for ranking in corpus.parts[part]
    ]


def published_bm25(corpus: QuestionCorpus, part: str, fields: str = "title+body") -> list[Tensor]:
    """The scores of the search engine that found the candidates, as the corpus has them.

    Args:
        corpus (QuestionCorpus): The questions.
        part (str): ``'dev'`` or ``'test'``.
        fields (str): Of no effect: the corpus was searched in one way.

    Returns:
        list of Tensor: For each query ``(C,)`` float32.

    Raises:
        InputError: If a query has none.
    """
    scores = []
    for ranking in corpus.parts[part]:
        if ranking.bm25 is None:
            name = corpus.questions[ranking.query].id
            raise InputError(f"question {name} of the {part} part has no BM25 scores")
        scores.append(torch.tensor(ranking.bm25))
    return scores


@dataclass(frozen=True)
class TfIdf:
    """The cosine of the counts of words, each times the logarithm of how rare the word is.

    How rare is taken from all questions of the corpus (scikit-learn's ``TfidfVectorizer``).

    Args:
        ngrams (int): Runs of 1 to this many words count as words too.
        stop_words (bool): Leave out scikit-learn's English stop words.
    """

    ngrams: int = 1
    stop_words: bool = False

    def __call__(
        self, corpus: QuestionCorpus, part: str, fields: str = "title+body"
    ) -> list[Tensor]:
        """As :func:`bm25`, between 0 and 1; 0 where a question has no word that counts."""
        texts = corpus.texts(fields)
        if self.stop_words:
            texts = [[word for word in text if word not in ENGLISH_STOP_WORDS] for text in texts]
        rankings = corpus.parts[part]
        ranked = sorted({place for r in rankings for place in (r.query, *r.candidates)})
        if not any(texts[place] for place in ranked):  # nothing but stop words
            return [torch.zeros(len(ranking.candidates)) for ranking in rankings]
        # Words of other questions change neither products nor lengths, and with runs of three
        # there are millions of them.
        counter = CountVectorizer(**self._words()).fit(texts[place] for place in ranked)
        vectorizer = TfidfVectorizer(vocabulary=counter.vocabulary_, **self._words()).fit(texts)
        vectors = vectorizer.transform([texts[place] for place in ranked])
        row = {place: number for number, place in enumerate(ranked)}
        scores = []
        for ranking in rankings:
            candidates = vectors[[row[place] for place in ranking.candidates]]
            cosines = (candidates @ vectors[row[ranking.query]].T).toarray()[:, 0]
            scores.append(torch.from_numpy(cosines).float())
        return scores

    def _words(self) -> dict[str, Any]:
        """What makes scikit-learn take words as they are."""
        return {
            "tokenizer": _as_they_are,
            "preprocessor": _as_they_are,
            "token_pattern": None,
            "lowercase": False,
            "ngram_range": (1, self.ngrams),
        }


def tuned_tf_idf(corpus: QuestionCorpus, fields: str = "title+body") -> TfIdf:
    """The setting of TF-IDF with the best mean reciprocal rank on the dev part.

    Runs of up to 1, 2 or 3 words, with and without stop words, as Lei et al. 2016 try them; of
    equally good settings the first.

    Args:
        corpus (QuestionCorpus): The questions.
        fields (str): ``'title'`` or ``'title+body'``.

    Returns:
        TfIdf: The setting.
    """
    settings = [TfIdf(ngrams, pruned) for ngrams in NGRAMS for pruned in (False, True)]
    relevance = corpus.relevance("dev")
    return max(settings, key=lambda s: evaluate(s(corpus, "dev", fields), relevance)["MRR"])


def _as_they_are(words: Sequence[str]) -> Sequence[str]:
    return words
