"""How the baselines stand: ranking by shared words, and one ranking out of several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from benchmarks.corpora.questions import QuestionCorpus
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.retrieval.baselines import bm25, published_bm25, tuned_tf_idf
from benchmarks.harness.retrieval.data import RANKED
from benchmarks.harness.retrieval.metrics import evaluate
from benchmarks.harness.retrieval.reranker import Reranker, cross_validated, obstacle

RERANKER = "re-ranker"
TF_IDF = "TF-IDF"

Scores = Mapping[str, Sequence[Tensor]]  # of both parts: for each query those of its candidates
Measures = dict[str, dict[str, float]]  # of both parts: those of ``evaluate``


@dataclass(frozen=True)
class Baselines:
    """The baselines' scores of the candidates.

    Args:
        scores: For each baseline those of both parts. ``'BM25 of the corpus'`` is the search engine
            that found the candidates, where the corpus has its scores.
        relevance: Which candidates are similar, in both parts.
        notes: What is to be said of some of them.
    """

    scores: Mapping[str, Scores]
    relevance: Scores
    notes: Sequence[str]

    @cached_property
    def no_reranker(self) -> str | None:
        """Why the dev part is too small for a re-ranker, ``None`` if it is not."""
        return obstacle(self.relevance["valid"])

    @cached_property
    def measures(self) -> dict[str, Measures]:
        """MAP, MRR, P@1 and P@5 of each baseline and, if there can be one, the re-ranker."""
        rankers = dict(self.scores)
        if not self.no_reranker:
            rankers[RERANKER] = self.reranked(list(self.scores.values()))
        return {name: self.measured(scores) for name, scores in rankers.items()}

    def measured(self, scores: Scores) -> Measures:
        """The measures of both parts."""
        return {part: evaluate(scores[part], self.relevance[part]) for part in RANKED}

    def reranked(self, rankers: Sequence[Scores]) -> Scores:
        """One ranking out of several.

        The weights are those of the dev part; queries of that part itself get those of the others,
        by cross-validation.
        """
        valid, test = ([ranker[part] for ranker in rankers] for part in RANKED)
        similar = self.relevance["valid"]
        return {
            "valid": cross_validated(valid, similar),
            "test": Reranker().fit(valid, similar).scores(test),
        }


def baselines_of(corpus: QuestionCorpus, fields: Iterable[str]) -> Baselines:
    """Ranks by BM25 and by TF-IDF, for each choice of fields; TF-IDF is tuned on the dev part."""
    scores: dict[str, Scores] = {}
    notes = []
    if all(ranking.bm25 for part in RANKED.values() for ranking in corpus.parts[part]):
        scores["BM25 of the corpus"] = {
            part: published_bm25(corpus, name) for part, name in RANKED.items()
        }
    with as_input_error():
        for field in fields:
            tf_idf = tuned_tf_idf(corpus, field)
            for title, ranker in (("BM25", bm25), (TF_IDF, tf_idf)):
                scores[baseline_name(title, field)] = {
                    part: ranker(corpus, name, field) for part, name in RANKED.items()
                }
            pruned = "without" if tf_idf.stop_words else "with"
            notes.append(
                f"{baseline_name(TF_IDF, field)}: n-grams up to {tf_idf.ngrams}, {pruned} stop "
                "words, the best of six on dev"
            )
        relevance = {part: corpus.relevance(name) for part, name in RANKED.items()}
        baselines = Baselines(scores, relevance, notes)
        assert baselines.measures  # found now: an error comes before hours of training
    return baselines


def baseline_name(title: str, field: str) -> str:
    """What a baseline is called that reads a choice of fields."""
    return f"{title}, title" if field == "title" else title
