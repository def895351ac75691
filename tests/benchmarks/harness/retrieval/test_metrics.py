"""The measures of a ranking against their definitions."""

import math

import pytest
import torch
from torch import Tensor

from benchmarks.harness.retrieval.metrics import METRICS, evaluate


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
