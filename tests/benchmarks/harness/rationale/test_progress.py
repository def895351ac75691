"""Cost and precision over an epoch, against their definitions."""

import math

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.annealing import annealed_rate
from benchmarks.harness.rationale.progress import SelectionCost, SelectionPrecision

BATCHES = [
    (torch.tensor([0.5, 0.25, 1.0]), torch.tensor([2.0, 0.0, 1.0]), torch.tensor([3.0, 0, 1]), 9),
    (torch.tensor([0.75]), torch.tensor([3.0]), torch.tensor([2.0]), 3),
]


def filled(**prices: float) -> SelectionCost:
    cost = SelectionCost(**prices)
    for batch in BATCHES:
        cost.update(*batch)
    return cost


def test_cost_with_a_price() -> None:
    cost = filled(sparsity=0.1, coherence=0.01)
    assert float(cost.compute()) == pytest.approx((2.5 + 0.1 * 6 + 0.01 * 6) / 4)
    assert float(cost.share()) == 0.5


@pytest.mark.parametrize(("rate", "excess"), [(0.25, 0.5), (0.5, 0.0), (0.8, 0.0)])
def test_more_than_the_rate_is_paid_for(rate: float, excess: float) -> None:
    cost = filled(rate=rate, coherence=0.01)
    assert float(cost.compute()) == pytest.approx((2.5 + 0.01 * 6) / 4 + excess)


def test_without_a_price_the_cost_is_the_loss() -> None:
    assert float(filled().compute()) == pytest.approx(2.5 / 4)


def test_a_loss_that_is_no_number_shows() -> None:
    cost = filled(rate=0.5)
    cost.update(torch.tensor([torch.nan]), torch.zeros(1), torch.zeros(1), 4)
    assert math.isnan(cost.compute())


def test_precision_over_batches() -> None:
    precision = SelectionPrecision(torch.tensor([1, 0, 1, 1, 0, 0]).bool())
    precision.update(torch.tensor([1, 1, 0]).bool())
    precision.update(torch.tensor([1, 0, 0]).bool())
    assert float(precision.compute()) == pytest.approx(2 / 3)
    precision.reset()
    precision.update(torch.zeros(6).bool())
    assert math.isnan(precision.compute())


def test_the_share_falls_by_equal_factors() -> None:
    shares = [annealed_rate(0.125, 0.4, 0.1 * k) for k in range(11)]
    assert shares[:5] == pytest.approx([0.5, 0.25**0.25 / 2, 0.25, 0.25**0.75 / 2, 0.125])
    assert shares[5:] == pytest.approx([0.125] * 6)
    assert annealed_rate(0.3, 0.0, 0.0) == pytest.approx(0.3)
