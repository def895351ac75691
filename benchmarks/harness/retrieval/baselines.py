"""Ranking by the words that questions share, and one ranking learned from several."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from benchmarks.corpora.questions import RANKED, BM25Index, QuestionCorpus, Ranking, questions_of
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.retrieval.task import evaluate

RERANKER, TF_IDF, BM25 = "re-ranker", "TF-IDF", "BM25"
NGRAMS = (1, 2, 3)
FOLDS = 5
CONSTANT = 1e-6  # a spread below this share of the largest score is rounding

Ranker = Callable[[Sequence[Ranking]], list[Tensor]]
Scores = Mapping[str, Sequence[Tensor]]  # by part: for each query the scores of its candidates
Measures = dict[str, dict[str, float]]  # by part: the measures of ``evaluate``


class Baselines:
    """Rankings by words alone, of titles, of titles and bodies or of both, and a re-ranker.

    The re-ranker is a logistic regression (scikit-learn) on the scores, standardised within each
    query, with balanced classes of similar and other candidates. It is learned on dev, where its
    own measures are cross-validated over five folds of queries. ``'BM25 of the corpus'`` is the
    search engine that found the candidates, if the corpus has its scores.
    """

    def __init__(self, corpus: QuestionCorpus, fields: Sequence[str]) -> None:
        self.relevance: Scores = {part: corpus.relevance(part) for part in RANKED}
        self.scores: dict[str, Scores] = {}  # of each baseline
        self.notes: list[str] = []  # remarks on some baselines

        def add(name: str, ranker: Ranker) -> None:
            self.scores[name] = {part: ranker(corpus.parts[part]) for part in RANKED}

        if all(ranking.bm25 for part in RANKED for ranking in corpus.parts[part]):
            add(f"{BM25} of the corpus", lambda ranked: [torch.tensor(one.bm25) for one in ranked])
        with as_input_error():
            for field in fields:
                texts, ending = corpus.texts(field), ", title" * (field == "title")
                add(f"{BM25}{ending}", partial(bm25, BM25Index(texts), texts))
                ngrams, pruned = tuned_tf_idf(corpus, texts)
                add(f"{TF_IDF}{ending}", partial(tf_idf, texts, ngrams, pruned))
                settings = f"n-grams up to {ngrams}, {'without' if pruned else 'with'} stop words"
                self.notes.append(f"{TF_IDF}{ending}: {settings}, the best of six on dev")
            assert self.measures  # computed now, so that errors come before hours of training

    @cached_property
    def measures(self) -> dict[str, Measures]:
        """MAP, MRR, P@1 and P@5 of each baseline and, if it can be learned, the re-ranker."""
        reranker = self.reranked_scores()
        every = {**self.scores, RERANKER: reranker} if reranker else self.scores
        return {name: self.measured(scores) for name, scores in every.items()}

    def reranked_scores(self, *others: Scores) -> Scores | None:
        """The scores of the re-ranker over baselines and `others`; on dev each query's are learned
        from other queries. None if a fold would learn from similar or from other candidates alone.
        """
        relevance, rankers = self.relevance["valid"], [*self.scores.values(), *others]
        similar, sizes = torch.cat(list(relevance)).numpy(), [len(each) for each in relevance]
        if len(sizes) < 2:
            return None
        queries = np.arange(len(sizes))
        dealt = GroupKFold(min(FOLDS, len(sizes))).split(queries, groups=queries)
        owner = np.repeat(queries, sizes)
        folds = [[np.flatnonzero(np.isin(owner, part)) for part in parts] for parts in dealt]
        if any(len(np.unique(similar[train])) < 2 for train, _ in folds):
            return None
        valid, test = (standardized([ranker[part] for ranker in rankers]) for part in RANKED)
        model, features = LogisticRegression(class_weight="balanced"), np.concatenate(valid)
        held = cross_val_predict(model, features, similar, cv=folds, method="decision_function")
        model.fit(features, similar)
        return {
            "valid": torch.from_numpy(held).split(sizes),
            "test": [torch.from_numpy(model.decision_function(each)) for each in test],
        }

    def measured(self, scores: Scores) -> Measures:
        return {part: evaluate(scores[part], self.relevance[part]) for part in RANKED}


def bm25(
    index: BM25Index, texts: Sequence[Sequence[str]], rankings: Sequence[Ranking]
) -> list[Tensor]:
    """BM25: the query is searched for among all texts of the corpus."""
    return [index.scores(texts[one.query])[list(one.candidates)] for one in rankings]


def tf_idf(
    texts: Sequence[Sequence[str]], ngrams: int, pruned: bool, rankings: Sequence[Ranking]
) -> list[Tensor]:
    """The cosine of word counts, each times the logarithm of its rarity in all texts (tf-idf)."""
    if pruned:
        texts = [[word for word in text if word not in ENGLISH_STOP_WORDS] for text in texts]
    ranked = questions_of(rankings)
    if not any(texts[place] for place in ranked):  # nothing but stop words
        return [torch.zeros(len(ranking.candidates)) for ranking in rankings]
    words: dict[str, Any] = {"tokenizer": list, "token_pattern": None, "lowercase": False}
    words["ngram_range"] = (1, ngrams)
    # Words of other questions change neither products nor lengths, and with n-grams of three words
    # there are millions of them.
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
    """The first `ngrams` and `pruned` of :func:`tf_idf` with the best mean reciprocal rank on dev,
    among those that Lei et al. 2016 try.
    """
    rankings, relevance = corpus.parts["valid"], corpus.relevance("valid")

    def rate(setting: tuple[int, bool]) -> float:
        return evaluate(tf_idf(texts, *setting, rankings), relevance)["MRR"]

    return max(product(NGRAMS, (False, True)), key=rate)


def standardized(rankers: Sequence[Sequence[Tensor]]) -> list[np.ndarray]:
    """For each query ``(C, R)`` float64: the scores of R rankers, standardised within the query to
    mean 0 and standard deviation 1. They are 0 if a ranker's scores are all the same.
    """
    features = []
    for columns in zip(*rankers, strict=True):
        raw = torch.stack(columns, dim=1).double().numpy()
        differ = raw.std(axis=0) > CONSTANT * np.abs(raw).max(axis=0)
        features.append(np.where(differ, StandardScaler().fit_transform(raw), 0.0))
    return features
