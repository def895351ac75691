"""Rankings by words against the formulas, the re-ranker over them, the measures of a ranking."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.corpora.questions import BM25Index, Question, QuestionCorpus, Ranking, TrainQuery
from benchmarks.harness.retrieval.baselines import Baselines, standardized, tf_idf, tuned_tf_idf
from benchmarks.harness.retrieval.task import METRICS, evaluate

ASKED = {
    "how to boot from usb": "the usb stick is not found",
    "boot from a usb stick": "how",
    "install flash player": "from usb",
    "usb boot not found": "",
    "the how is to": "boot flash",
    "never ranked flash words how how": "stick",
}
QUESTIONS = [
    Question(str(number), title.split(), body.split())
    for number, (title, body) in enumerate(ASKED.items())
]
DEV = [Ranking(0, (1, 2, 3, 4), (True, False, False, False), (4, 3, 2, 1))]
TEST = [
    Ranking(3, (4, 1), (False, True), (0.5, 2.0)),
    Ranking(4, (0, 2, 3), (False,) * 3, (3, 2, 1)),
]


@pytest.fixture
def corpus() -> QuestionCorpus:
    return QuestionCorpus(QUESTIONS, [TrainQuery(0, (1,))], {"dev": DEV, "test": TEST})


@pytest.mark.parametrize("fields", ["title", "title+body"])
def test_baselines_search_all_questions_as_the_settings_say(corpus, fields) -> None:
    texts, found = corpus.texts(fields), Baselines(corpus, [fields])
    ending = ", title" if fields == "title" else ""
    index = BM25Index(texts)
    assert [score.tolist() for score in found.scores[f"BM25{ending}"]["test"]] == [
        index.scores(texts[ranking.query])[list(ranking.candidates)].tolist() for ranking in TEST
    ]
    tuned = tf_idf(texts, *tuned_tf_idf(corpus, texts), TEST)
    torch.testing.assert_close(found.scores[f"TF-IDF{ending}"]["test"], tuned, rtol=0, atol=0)
    published = found.scores["BM25 of the corpus"]["test"]
    assert [scores.tolist() for scores in published] == [[0.5, 2.0], [3, 2, 1]]
    assert not found.has_reranker
    assert set(found.measures) == set(found.scores)
    assert set(found.measures[f"BM25{ending}"]["valid"]) == set(METRICS)


def test_stop_words_go_before_runs_are_formed(corpus) -> None:
    stop_words = {"how", "to", "from", "a", "the", "is", "not", "never", "found"}
    pruned = [[w for w in text if w not in stop_words] for text in corpus.texts("title")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = tf_idf(corpus.texts("title"), 2, True, DEV)
    torch.testing.assert_close(found, tf_idf(pruned, 2, False, DEV)[0])
    # "boot usb" against "boot usb stick": both words are in three of six, the pair in two.
    two, three, once = (math.log(7 / (1 + n)) + 1 for n in (2, 3, 1))
    common = 2 * three**2 + two**2
    expected = common / math.sqrt(common * (common + 2 * once**2))
    assert found[0].item() == pytest.approx(expected) and found[3] == 0
    nothing = [["the"], ["of"], ["and"], ["usb"]]
    (found,) = tf_idf(nothing, 1, True, [Ranking(0, (1, 2), (True, False))])
    assert found.tolist() == [0.0, 0.0]


QUERIES, CANDIDATES = 60, 12
Rankers = list[list[Tensor]]


def rankers(seed: int, *noise: float) -> tuple[Rankers, list[Tensor]]:
    """Rankers that see the same hidden quality, each with its own noise, scale and offset."""
    generator = torch.Generator().manual_seed(seed)
    quality = torch.randn(QUERIES, CANDIDATES, generator=generator)
    offsets = 7 * torch.arange(QUERIES)[:, None]
    scores = []
    for k, level in enumerate(noise):
        seen = quality + level * torch.randn(quality.shape, generator=generator)
        scores.append(list(10.0**k * seen + offsets))
    return scores, list(quality > 1)


class Made(Baselines):
    """Baselines of scores and relevance of two parts in place of a corpus."""

    def __init__(self, valid, test) -> None:
        pairs = enumerate(zip(valid[0], test[0], strict=True))
        self.scores = {str(k): {"valid": one, "test": other} for k, (one, other) in pairs}
        self.relevance = {"valid": valid[1], "test": test[1]}


def test_scores_are_standardized_within_a_query() -> None:
    scores, _ = rankers(3, 0.5, 2.0)
    constant = [torch.full((CANDIDATES,), 0.1 * place) for place in range(QUERIES)]
    scaled = [[place + (2 + place) * s for place, s in enumerate(ranker)] for ranker in scores]
    found = standardized([*scores, constant])
    for query, features in enumerate(found):
        columns = [ranker[query].double().numpy() for ranker in scores]
        expected = np.stack([(s - s.mean()) / s.std() for s in columns], axis=1)
        torch.testing.assert_close(features[:, :2], torch.from_numpy(expected))
        assert not features[:, 2].any()
    for one, other in zip(standardized(scaled), found, strict=True):
        torch.testing.assert_close(one, other[:, :2], rtol=1e-3, atol=1e-3)


def test_cross_validation_does_not_see_the_query_itself() -> None:
    # With every label of a query turned around, a classifier that had seen it would weigh the
    # ranker less.
    scores, relevance = rankers(5, 0.1)
    found = Made((scores, relevance), (scores, relevance)).reranked_scores()
    for query in (3, 40):
        changed = list(relevance)
        changed[query] = ~changed[query]
        other = Made((scores, changed), (scores, relevance)).reranked_scores()
        torch.testing.assert_close(other["valid"][query], found["valid"][query])
        assert not torch.equal(other["test"][query], found["test"][query])
    assert [len(score) for score in found["valid"]] == [CANDIDATES] * QUERIES


def test_there_is_no_reranker_without_enough_to_learn_from() -> None:
    some, none, every = ([True, False], [False, False], [True, True])
    for similar, enough in (
        ([some], False),
        ([some, none], False),
        ([every, every, every], False),
        ([some, some], True),
        ([some, none, none, every], True),
    ):
        both = [[torch.tensor([2.0, 1.0])] * len(similar)], [torch.tensor(row) for row in similar]
        assert set(Made(both, both).measures) == ({"0", "re-ranker"} if enough else {"0"})


def by_definition(scores: list[Tensor], relevance: list[Tensor]) -> dict[str, float]:
    """Each measure of one query at a time, from the ranks of its similar candidates."""
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    for score, similar in zip(scores, relevance, strict=True):
        order = sorted(range(len(score)), key=lambda place: -score[place].item())
        ranks = [rank for rank, place in enumerate(order, start=1) if similar[place]]
        if not ranks:
            continue
        precisions = [found / rank for found, rank in enumerate(ranks, start=1)]
        values["MAP"].append(sum(precisions) / len(ranks))
        values["MRR"].append(1 / ranks[0])
        values["P@1"].append(float(ranks[0] == 1))
        values["P@5"].append(sum(rank <= 5 for rank in ranks) / 5)
    return {name: 100 * sum(found) / len(found) for name, found in values.items()}


def test_equals_the_definitions() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 21, (80,), generator=generator).tolist()
    scores = [torch.randn(size, generator=generator) for size in sizes]
    relevance = [torch.rand(size, generator=generator) < 0.25 for size in sizes]
    assert any(not similar.any() for similar in relevance)
    found = evaluate(scores, relevance)
    assert tuple(found) == METRICS
    assert found == pytest.approx(by_definition(scores, relevance), abs=1e-4)


def test_scores_of_one_value_gain_nothing_from_the_order_of_candidates() -> None:
    number, size = 400, 4
    first = torch.arange(size) == 0
    found = evaluate([torch.zeros(size)] * number, [first] * number)
    # The similar one is at each of the four ranks equally often.
    assert found["MRR"] == pytest.approx(100 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, abs=4)
    assert found["P@1"] == pytest.approx(25, abs=5)
    assert found == evaluate([torch.ones(size)] * number, [first] * number)


def test_scores_that_are_no_numbers() -> None:
    scores = [torch.tensor([-math.inf, 0.0, math.inf], dtype=torch.float64, requires_grad=True)]
    assert evaluate(scores, [torch.tensor([0, 0, 1])])["P@1"] == 100
    found = evaluate([torch.tensor([0.0, math.nan])], [torch.tensor([True, False])])
    assert all(map(math.isnan, found.values()))
    with pytest.raises(ValueError, match="no query has a similar candidate"):
        evaluate([torch.zeros(2)], [torch.zeros(2, dtype=torch.bool)])
