"""The re-ranker: what it learns, what it has not seen, what it refuses."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

pytest.importorskip("torchmetrics", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.retrieval.metrics import evaluate
from benchmarks.harness.retrieval.reranker import Reranker, cross_validated, obstacle

QUERIES, CANDIDATES = 60, 12


def rankers(seed: int, noise: tuple[float, ...]) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Rankers that see the same hidden quality, each with its own noise, scale and offset."""
    generator = torch.Generator().manual_seed(seed)
    quality = [torch.randn(CANDIDATES, generator=generator) for _ in range(QUERIES)]
    scores = [
        [
            10.0**k * (q + level * torch.randn(CANDIDATES, generator=generator)) + 7 * place
            for place, q in enumerate(quality)
        ]
        for k, level in enumerate(noise)
    ]
    return scores, [q > 1 for q in quality]


def test_is_the_logistic_regression_over_standardized_scores() -> None:
    scores, relevance = rankers(0, (1.0, 0.5))
    features = np.concatenate(
        [
            np.stack(
                [(s - s.mean()) / s.std() for s in (r[q].double().numpy() for r in scores)], axis=1
            )
            for q in range(QUERIES)
        ]
    )
    model = LogisticRegression(C=1 / 3, class_weight="balanced")
    model.fit(features, torch.cat(relevance).numpy())
    reranker = Reranker(strength=3).fit(scores, relevance)
    assert reranker.weights_.tolist() == pytest.approx(model.coef_[0].tolist(), rel=1e-6)
    expected = torch.from_numpy(features @ model.coef_[0]).split(CANDIDATES)
    torch.testing.assert_close(reranker.scores(scores), list(expected), rtol=1e-6, atol=1e-6)


def test_two_rankers_together_are_better_than_either() -> None:
    train, test = rankers(1, (1.0, 1.0)), rankers(2, (1.0, 1.0))
    both = evaluate(Reranker().fit(*train).scores(test[0]), test[1])
    held = evaluate(cross_validated(*test), test[1])
    for ranker in test[0]:
        alone = evaluate(ranker, test[1])
        assert both["MAP"] > alone["MAP"] + 2 and held["MAP"] > alone["MAP"] + 2


def test_scale_and_offset_of_a_query_do_not_matter() -> None:
    scores, relevance = rankers(3, (0.5, 2.0))
    reranker = Reranker().fit(scores, relevance)
    expected = reranker.scores(scores)
    scaled = [[place + (2 + place) * s for place, s in enumerate(ranker)] for ranker in scores]
    torch.testing.assert_close(reranker.scores(scaled), expected, rtol=1e-3, atol=1e-3)


def test_a_ranker_that_says_nothing_gets_no_weight() -> None:
    scores, relevance = rankers(4, (0.5,))
    constant = [torch.full((CANDIDATES,), 0.1 * place) for place in range(QUERIES)]
    with_it = Reranker().fit([*scores, constant], relevance)
    assert with_it.weights_[1] == 0
    alone = Reranker().fit(scores, relevance).weights_[0]
    assert with_it.weights_[0].item() == pytest.approx(alone.item(), rel=1e-4)


def test_cross_validation_does_not_see_the_query_itself() -> None:
    # With every label of a query turned around, a classifier that had seen it would weigh the
    # ranker less.
    scores, relevance = rankers(5, (0.1,))
    found = cross_validated(scores, relevance)
    for query in (3, 40):
        changed = list(relevance)
        changed[query] = ~changed[query]
        torch.testing.assert_close(cross_validated(scores, changed)[query], found[query])
    assert [len(score) for score in found] == [CANDIDATES] * QUERIES


SOME, NONE, ALL = ([True, False], [False, False], [True, True])


@pytest.mark.parametrize(
    ("similar", "reason"),
    [
        ([SOME], "at least two queries"),
        ([SOME, NONE], "similar candidates or others alone"),
        ([ALL, ALL, ALL], "similar candidates or others alone"),
        ([SOME, SOME], None),
        ([SOME, NONE, NONE, ALL], None),
    ],
)
def test_says_beforehand_what_it_cannot_learn_from(similar, reason) -> None:
    relevance = [torch.tensor(row) for row in similar]
    scores = [[torch.tensor([2.0, 1.0])] * len(similar)]
    found = obstacle(relevance)
    if reason:
        assert reason in str(found)
        with pytest.raises(ValueError, match=r"two queries|similar and some that are not"):
            cross_validated(scores, relevance)
    else:
        assert found is None
        cross_validated(scores, relevance)


def test_refuses_what_it_cannot_learn_from() -> None:
    scores, relevance = rankers(6, (1.0, 1.0))
    similar = [torch.ones(CANDIDATES, dtype=torch.bool)] * QUERIES
    with pytest.raises(ValueError, match="candidates that are similar and some that are not"):
        Reranker().fit(scores, similar)
    with pytest.raises(ValueError, match="scores are of 60 queries, relevance of 59"):
        Reranker().fit(scores, relevance[1:])
    with pytest.raises(ValueError, match=r"query 0 has 12 candidates, relevance of shape \(3,\)"):
        Reranker().fit(scores, [relevance[0][:3], *relevance[1:]])
    with pytest.raises(ValueError, match="scores of the same queries"):
        Reranker().fit([scores[0], scores[1][1:]], relevance)
    with pytest.raises(ValueError, match="there must be one"):
        Reranker().fit([], relevance)
    with pytest.raises(ValueError, match=r"scores of query 2 must all be of one shape \(C,\)"):
        Reranker().fit([scores[0], [s[: 12 - (q == 2)] for q, s in enumerate(scores[1])]], similar)
    with pytest.raises(ValueError, match="query 0 has a score that is not finite"):
        Reranker().fit([[torch.tensor([0.0, math.inf])]], [torch.tensor([True, False])])
    with pytest.raises(ValueError, match="there are 1 rankers, not 2"):
        Reranker().fit(scores, relevance).scores(scores[:1])
    with pytest.raises(ValueError, match="at least two queries, got 1"):
        cross_validated([scores[0][:1]], relevance[:1])
