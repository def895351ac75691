"""Ranking by the words that questions share, and one ranking out of several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import bm25s  # noqa: F401 (used further down: a run without it must not begin)
import numpy as np
import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from torch import Tensor

from benchmarks.corpora.questions import BM25Index, QuestionCorpus, Ranking, questions_of
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.retrieval.data import RANKED
from benchmarks.harness.retrieval.task import evaluate

RERANKER, TF_IDF, BM25 = "re-ranker", "TF-IDF", "BM25"
NGRAMS = (1, 2, 3)
FOLDS = 5
CONSTANT = 1e-6  # a spread relative to the largest score that is rounding

Ranker = Callable[[Sequence[Ranking]], list[Tensor]]
Scores = Mapping[str, Sequence[Tensor]]  # of both parts: for each query those of its candidates
Measures = dict[str, dict[str, float]]  # of both parts: those of ``evaluate``


class Baselines:
    """How words alone rank, of titles, of titles and bodies or of both, and a re-ranker over them.

    The re-ranker is a logistic regression (scikit-learn) of the scores, standardised within each
    query, that counts similar and other candidates alike. It is learned on dev, where its own
    numbers are cross-validated: queries are dealt to five folds. ``'BM25 of the corpus'`` is the
    search engine that found the candidates, where the corpus has its scores.
    """

    def __init__(self, corpus: QuestionCorpus, fields: Sequence[str]) -> None:
        self.relevance: Scores = {part: corpus.relevance(name) for part, name in RANKED.items()}
        self.scores: dict[str, dict[str, list[Tensor]]] = {}  # of each baseline, in both parts
        self.notes: list[str] = []  # what is to be said of some of them
        if all(ranking.bm25 for name in RANKED.values() for ranking in corpus.parts[name]):
            name = f"{BM25} of the corpus"
            self._add(name, corpus, lambda ranked: [torch.tensor(one.bm25) for one in ranked])
        with as_input_error():
            for field in fields:
                texts, ending = corpus.texts(field), ", title" * (field == "title")
                self._add(f"{BM25}{ending}", corpus, bm25(texts))
                ngrams, pruned = tuned_tf_idf(corpus, texts)
                name = f"{TF_IDF}{ending}"
                self._add(name, corpus, partial(tf_idf, texts, ngrams, pruned))
                kept = "without" if pruned else "with"
                self.notes.append(
                    f"{name}: n-grams up to {ngrams}, {kept} stop words, the best of six on dev"
                )
            assert self.measures  # found now: an error comes before hours of training

    @cached_property
    def has_reranker(self) -> bool:
        """Whether each fold of the dev part has similar candidates and others to learn from."""
        similar = self.relevance["valid"]
        return len(similar) > 1 and all(
            torch.cat([similar[q] for q in train]).unique().numel() == 2
            for train, _ in _folds(len(similar))
        )

    @cached_property
    def measures(self) -> dict[str, Measures]:
        """MAP, MRR, P@1 and P@5 of each baseline and, if there can be one, the re-ranker."""
        found = {name: self.measured(scores) for name, scores in self.scores.items()}
        reranker = {RERANKER: self.measured(self.reranked_scores())} if self.has_reranker else {}
        return found | reranker

    def reranked_scores(self, *others: Scores) -> Scores:
        """Those of the re-ranker over the baselines and other scores; those of a query of dev are
        learned from other queries.
        """
        rankers = [*self.scores.values(), *others]
        valid, test = (standardized([ranker[part] for ranker in rankers]) for part in RANKED)
        similar = self.relevance["valid"]
        held: dict[int, Tensor] = {}
        for train, places in _folds(len(valid)):
            weights = _weights([valid[q] for q in train], [similar[q] for q in train])
            held |= {q: valid[q] @ weights for q in places.tolist()}
        weights = _weights(valid, similar)
        return {
            "valid": [held[q] for q in range(len(valid))],
            "test": [features @ weights for features in test],
        }

    def _add(self, name: str, corpus: QuestionCorpus, ranker: Ranker) -> None:
        self.scores[name] = {part: ranker(corpus.parts[own]) for part, own in RANKED.items()}

    def measured(self, scores: Scores) -> Measures:
        return {part: evaluate(scores[part], self.relevance[part]) for part in RANKED}


def bm25(texts: Sequence[Sequence[str]]) -> Ranker:
    """BM25, the query being what is searched for among all texts of the corpus."""
    index = BM25Index(texts)
    return lambda rankings: [
        index.scores(texts[ranking.query])[list(ranking.candidates)] for ranking in rankings
    ]


def tf_idf(
    texts: Sequence[Sequence[str]], ngrams: int, pruned: bool, rankings: Sequence[Ranking]
) -> list[Tensor]:
    """The cosine of the counts of words, each times the logarithm of how rare the word is.

    How rare is taken from all texts of the corpus (scikit-learn's ``TfidfVectorizer``).
    """
    if pruned:
        texts = [[word for word in text if word not in ENGLISH_STOP_WORDS] for text in texts]
    ranked = questions_of(rankings)
    if not any(texts[place] for place in ranked):  # nothing but stop words
        return [torch.zeros(len(ranking.candidates)) for ranking in rankings]
    words: dict[str, Any] = {"tokenizer": list, "token_pattern": None, "lowercase": False}
    words["ngram_range"] = (1, ngrams)
    # Words of other questions change neither products nor lengths, and with runs of three there
    # are millions of them.
    counter = CountVectorizer(**words).fit(texts[place] for place in ranked)
    vectorizer = TfidfVectorizer(vocabulary=counter.vocabulary_, **words).fit(texts)
    vectors = vectorizer.transform([texts[place] for place in ranked])
    row = {place: number for number, place in enumerate(ranked)}
    scores = []
    for ranking in rankings:
        candidates = vectors[[row[place] for place in ranking.candidates]]
        cosines = (candidates @ vectors[row[ranking.query]].T).toarray()[:, 0]
        scores.append(torch.from_numpy(cosines).float())
    return scores


def tuned_tf_idf(corpus: QuestionCorpus, texts: Sequence[Sequence[str]]) -> tuple[int, bool]:
    """The `ngrams` and `pruned` of :func:`tf_idf` with the best mean reciprocal rank on dev, as Lei
    et al. 2016 try them; of equally good ones the first.
    """
    rankings, relevance = corpus.parts["dev"], corpus.relevance("dev")

    def rate(setting: tuple[int, bool]) -> float:
        return evaluate(tf_idf(texts, *setting, rankings), relevance)["MRR"]

    return max(product(NGRAMS, (False, True)), key=rate)


def standardized(rankers: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """For each query ``(C, R)`` float64, the scores of R rankers with mean 0 and standard deviation
    1 within the query, 0 where a ranker's are all the same.
    """
    features = []
    for columns in zip(*rankers, strict=True):
        raw = torch.stack([column.double() for column in columns], dim=1)
        centered = raw - raw.mean(dim=0)
        spread = centered.square().mean(dim=0).sqrt()
        constant = spread <= CONSTANT * raw.abs().amax(dim=0)
        features.append(torch.where(constant, 0.0, centered / spread.where(~constant, 1.0)))
    return features


def _weights(features: Sequence[Tensor], relevance: Sequence[Tensor]) -> Tensor:
    model = LogisticRegression(class_weight="balanced")
    model.fit(torch.cat(list(features)).numpy(), torch.cat(list(relevance)).numpy())
    return torch.from_numpy(model.coef_[0])


def _folds(number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The queries to learn from and those held out, fold by fold."""
    queries = np.arange(number)
    return GroupKFold(min(FOLDS, number)).split(queries, groups=queries)
