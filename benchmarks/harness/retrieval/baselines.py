"""Ranking by the words that questions share, and one ranking learned from several."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pandas
import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from torch import Tensor

from benchmarks.corpora.questions import RANKED, BM25Index, QuestionCorpus, Ranking, relevance_of
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.retrieval.data import ranked_pairs
from benchmarks.harness.retrieval.task import evaluate

RERANKER, TF_IDF, BM25 = "re-ranker", "TF-IDF", "BM25"
NGRAMS = (1, 2, 3)
FOLDS = 5
CONSTANT = 1e-6  # a spread below this share of the largest score is rounding

Ranker = Callable[[Sequence[Ranking]], Tensor]
Scores = Mapping[str, Tensor]  # by part: the scores of all candidates, one list after another
Measures = dict[str, dict[str, float]]  # by part: the measures of ``evaluate``


class Baselines:
    """Rankings by words alone, of titles, of titles and bodies or of both, and a re-ranker.

    The re-ranker is a logistic regression (scikit-learn) on the scores, standardised within each
    query, with balanced classes of similar and other candidates. It is learned on dev, where its
    own measures are cross-validated over five folds of queries. ``'BM25 of the corpus'`` is the
    search engine that found the candidates, if the corpus has its scores.
    """

    def __init__(self, corpus: QuestionCorpus, fields: Sequence[str]) -> None:
        self.relevance = {part: relevance_of(corpus.parts[part]) for part in RANKED}
        self.scores: dict[str, Scores] = {}  # of each baseline
        self.notes: list[str] = []  # remarks on some baselines

        def add(name: str, ranker: Ranker) -> None:
            self.scores[name] = {part: ranker(corpus.parts[part]) for part in RANKED}

        given = {part: [ranking.bm25 or () for ranking in corpus.parts[part]] for part in RANKED}
        if all(all(lists) for lists in given.values()):
            self.scores[f"{BM25} of the corpus"] = {
                part: torch.tensor([score for each in lists for score in each])
                for part, lists in given.items()
            }
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
        queries = np.arange(len(self.relevance["valid"]))
        if len(queries) < 2:
            return None
        owner, similar = owners(self.relevance["valid"]), torch.cat(self.relevance["valid"]).numpy()
        dealt = GroupKFold(min(FOLDS, len(queries))).split(queries, groups=queries)
        folds = [[np.flatnonzero(np.isin(owner, part)) for part in parts] for parts in dealt]
        if any(len(np.unique(similar[train])) < 2 for train, _ in folds):
            return None
        rankers = [*self.scores.values(), *others]
        valid, test = (
            standardized([ranker[part] for ranker in rankers], owners(self.relevance[part]))
            for part in RANKED
        )
        model = LogisticRegression(class_weight="balanced")
        held = cross_val_predict(model, valid, similar, cv=folds, method="decision_function")
        tested = model.fit(valid, similar).decision_function(test)
        return {"valid": torch.from_numpy(held), "test": torch.from_numpy(tested)}

    def measured(self, scores: Scores) -> Measures:
        return {part: evaluate(scores[part], self.relevance[part]) for part in RANKED}


def bm25(index: BM25Index, texts: Sequence[Sequence[str]], rankings: Sequence[Ranking]) -> Tensor:
    """BM25: the query is searched for among all texts of the corpus."""
    return torch.cat([index.scores(texts[one.query])[list(one.candidates)] for one in rankings])


def tf_idf(
    texts: Sequence[Sequence[str]], ngrams: int, pruned: bool, rankings: Sequence[Ranking]
) -> Tensor:
    """The cosine of word counts, each times the logarithm of its rarity in all texts (tf-idf)."""
    if pruned:
        texts = [[word for word in text if word not in ENGLISH_STOP_WORDS] for text in texts]
    distinct, pairs = ranked_pairs(rankings).unique(return_inverse=True)
    ranked, (queries, candidates) = distinct.tolist(), pairs.T.numpy()
    if not any(texts[place] for place in ranked):  # nothing but stop words
        return torch.zeros(len(queries))
    words: dict[str, Any] = {"tokenizer": list, "token_pattern": None, "lowercase": False}
    words["ngram_range"] = (1, ngrams)
    # Words of other questions change neither products nor lengths, and with n-grams of three words
    # there are millions of them.
    counter = CountVectorizer(**words).fit(texts[place] for place in ranked)
    vectorizer = TfidfVectorizer(vocabulary=counter.vocabulary_, **words).fit(texts)
    vectors = vectorizer.transform([texts[place] for place in ranked])
    cosines = vectors[queries].multiply(vectors[candidates]).sum(axis=1)
    return torch.from_numpy(np.asarray(cosines).flatten()).float()


def tuned_tf_idf(corpus: QuestionCorpus, texts: Sequence[Sequence[str]]) -> tuple[int, bool]:
    """The first `ngrams` and `pruned` of :func:`tf_idf` with the best mean reciprocal rank on dev,
    among those that Lei et al. 2016 try.
    """
    rankings = corpus.parts["valid"]

    def rate(setting: tuple[int, bool]) -> float:
        return evaluate(tf_idf(texts, *setting, rankings), relevance_of(rankings))["MRR"]

    return max(product(NGRAMS, (False, True)), key=rate)


def owners(lists: Sequence[Tensor]) -> np.ndarray:
    """(P,) for each candidate the number of its list."""
    return np.repeat(np.arange(len(lists)), [len(each) for each in lists])


def standardized(rankers: Sequence[Tensor], owner: np.ndarray) -> pandas.DataFrame:
    """``(P, R)`` float64: the scores of R rankers, standardised within each query to mean 0 and
    standard deviation 1; 0 if a ranker's scores of a query are all the same.
    """
    raw = pandas.DataFrame(torch.stack(list(rankers), dim=1).double().numpy())
    centred = raw - raw.groupby(owner).transform("mean")
    spread = (centred**2).groupby(owner).transform("mean") ** 0.5
    differ = spread > CONSTANT * raw.abs().groupby(owner).transform("max")
    return (centred / spread).where(differ, 0.0)
