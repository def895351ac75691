"""Cost and precision over an epoch, against their definitions."""

import math
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.annealing import annealed_rate, set_stage
from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.networks import RationaleNet
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
    assert annealed_rate(0.3, 0.4, -0.1) == 0.5  # it has not begun


@pytest.mark.parametrize("prices", [{"rate": 0.125}, {"sparsity": 0.1}], ids=["rate", "price"])
def test_the_share_falls_after_the_warm_up(prices: dict[str, float]) -> None:
    config = RationaleModelConfig(
        *("independent", "independent", "texts", 4, 2, 5),
        **{"num_words": 9, "warm_up": 0.2, "anneal": 0.4, **prices},  # type: ignore[arg-type]
    )
    net = RationaleNet(config)
    learner = SimpleNamespace(net=net, trainer=SimpleNamespace(estimated_stepping_batches=10))
    found = []
    for step in range(10):
        learner.global_step = step
        set_stage(learner, config)
        control = net.reader.rationalizer.control
        found.append((net.reader.whole, control.rate if control else None))
    assert [whole for whole, _ in found] == [True] * 2 + [False] * 8
    shares = [annealed_rate(0.125, 0.4, max(0.0, 0.1 * step - 0.2)) for step in range(10)]
    assert [share for _, share in found] == (
        pytest.approx(shares) if "rate" in prices else [None] * 10
    )
