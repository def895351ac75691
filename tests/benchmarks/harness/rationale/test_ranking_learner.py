"""Losses of questions by some words of each, against sums over groups."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("bm25s", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.ranking_learner import (
    RankingCost,
    cosines,
    hinge_losses,
    losses_of_texts,
)
from benchmarks.harness.retrieval.batches import QuestionBatch, question_batch
from benchmarks.harness.retrieval.learner import hinge_loss
from pyg_kernels.datasets.text import EncodedTexts

LENGTHS = torch.tensor([2, 1, 3, 0, 2, 1, 0, 0, 0, 0, 0, 0])  # question 3 has no text
GROUPS = torch.tensor([[0, 1, 2, 3], [4, 1, 0, 5]])


@pytest.fixture
def batch() -> QuestionBatch:
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), LENGTHS.cumsum(0)])
    ids = torch.arange(int(ptr[-1]))
    texts = EncodedTexts(ids, ptr, torch.zeros(len(LENGTHS), dtype=torch.long))
    return question_batch(texts, GROUPS, bodies=False)


def test_cosines_of_each_sample(batch: QuestionBatch) -> None:
    vectors = torch.randn(3, batch.words.num_texts, 4, generator=torch.Generator().manual_seed(0))
    found = cosines(vectors, batch)
    assert batch.question.tolist() == [0, 1, 2, 4, 5]
    for sample, scores in zip(vectors, found, strict=True):
        own = dict(zip(batch.question.tolist(), sample, strict=True))
        for group, row in zip(GROUPS.tolist(), scores, strict=True):
            for other, score in zip(group[1:], row.tolist(), strict=True):
                if 3 in (group[0], other):
                    assert score == 0
                else:
                    expected = torch.cosine_similarity(own[group[0]], own[other], dim=0)
                    assert score == pytest.approx(float(expected), abs=1e-6)


def test_a_text_gets_the_losses_of_its_groups(batch: QuestionBatch) -> None:
    losses = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    found = losses_of_texts(losses, batch)
    assert found.tolist() == [[11, 11, 1, 10, 10], [22, 22, 2, 20, 20]]


def test_losses_are_those_of_the_best_wrong_question() -> None:
    scores = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    losses = hinge_losses(scores, 0.3)
    for sample, found in zip(scores, losses, strict=True):
        torch.testing.assert_close(found.mean(), hinge_loss(sample, 0.3))


def test_selecting_more_than_the_rate_costs() -> None:
    relevance = [torch.tensor([True, False]), torch.tensor([False, True, False])]
    cost = RankingCost(relevance, rate=0.25)
    cost.update(torch.tensor([0.9, 0.1, 0.8]), torch.tensor([1, 1, 0, 0]).bool())
    cost.update(torch.tensor([0.5, 0.3]), torch.tensor([1, 0]).bool())
    assert cost.mean_average_precision() == pytest.approx(75)
    assert float(cost.compute()) == pytest.approx(0.25 + 0.5 * (0.5 / 0.25 - 1))
    cost.reset()
    cost.update(torch.tensor([torch.nan, 0.1, 0.8, 0, 0]), torch.ones(2).bool())
    assert bool(cost.compute().isnan())
