"""Loss, metric, scale and schedules against their definitions."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.learner import SCHEDULES, OptimizerConfig, learning_rate_factor
from benchmarks.harness.molecules.models import ModelConfig
from benchmarks.harness.molecules.regressor import (
    MaskedRMSE,
    MoleculeRegressor,
    TargetScale,
    masked_squared_error,
    root_mean_square,
)

NAN = float("nan")


def regressor(num_targets):
    """The mean predictor, which gives zeros."""
    model = ModelConfig("mean", 65, 7, num_targets, hidden=1)
    scale = TargetScale([f"y{k}" for k in range(num_targets)], [0.0] * num_targets, [2.0] * 2)
    return MoleculeRegressor(asdict(model), asdict(scale), {})


def test_loss_leaves_missing_targets_out_of_value_and_gradient():
    prediction = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    y = torch.tensor([[0.0, NAN], [NAN, NAN], [2.0, 6.5]])
    loss = masked_squared_error(prediction, y)
    assert loss.item() == pytest.approx(1.0 + 9.0 + 0.25)
    loss.backward()
    expected = torch.tensor([[2.0, 0.0], [0.0, 0.0], [6.0, -1.0]])
    torch.testing.assert_close(prediction.grad, expected)


def test_loss_without_any_target_is_zero():
    prediction = torch.ones(2, 1, requires_grad=True)
    loss = masked_squared_error(prediction, torch.full((2, 1), NAN))
    loss.backward()
    assert loss.item() == 0
    assert prediction.grad is not None
    assert not prediction.grad.any()


@pytest.mark.parametrize(("divisor", "expected"), [(None, 3), (1.5, 1.5), (4.0, 4.0)])
def test_a_batchs_loss_is_divided_by_its_divisor_or_its_measured_entries(divisor, expected):
    y = torch.tensor([[0.5, NAN], [NAN, NAN], [2.0, 1.0]])
    batch = Batch(y=y, num_graphs=3)
    batch._num_graphs = 3
    if divisor is not None:
        batch.divisor = torch.tensor(divisor)
    loss = regressor(2).training_step(batch, 0)
    assert loss.item() == pytest.approx((0.25 + 4 + 1) / expected)


def test_rmse_is_the_mean_over_targets_and_does_not_depend_on_batches():
    generator = torch.Generator().manual_seed(0)
    prediction, y = torch.randn(2, 50, 3, generator=generator)
    y[torch.rand(50, 3, generator=generator) < 0.3] = NAN
    y[:, 2] = NAN
    metric = MaskedRMSE(3)
    for rows in torch.arange(50).split(7):
        metric.update(prediction[rows], y[rows])
    each = []
    for k in range(2):
        errors = [(p - t) ** 2 for p, t in zip(prediction[:, k], y[:, k], strict=True) if t == t]
        each.append(math.sqrt(sum(errors) / len(errors)))
    assert metric.compute().item() == pytest.approx(sum(each) / 2, rel=1e-5)


def test_scale_is_that_of_the_measured_values():
    scale = TargetScale.fit(["a", "b"], torch.tensor([[1.0, 5.0], [3.0, 5.0], [NAN, 5.0]]))
    assert scale == TargetScale(["a", "b"], [2.0, 5.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="'b'"):
        TargetScale.fit(["a", "b"], torch.tensor([[1.0, NAN], [3.0, NAN]]))


@pytest.mark.parametrize(("unit", "offset"), [(1.0, -1e8), (1e-30, 0.0), (1e30, 0.0), (1e-200, 0)])
def test_scale_keeps_the_differences_between_targets(unit, offset):
    y = torch.linspace(-1, 1, 9, dtype=torch.float64).unsqueeze(1)
    scale = TargetScale.fit(["a"], y * unit + offset)
    expected = (y / y.std(unbiased=False)).float()
    torch.testing.assert_close(scale.standardize(y * unit + offset), expected)


def test_targets_that_cannot_be_standardized():
    with pytest.raises(ValueError, match="'a' are too large or small"):
        TargetScale.fit(["a"], torch.tensor([[-1.7e308], [1.7e308]], dtype=torch.float64))
    with pytest.raises(ValueError, match="'a' has values too far"):
        TargetScale(["a"], [0.0], [1e-30]).standardize(torch.tensor([[1e20]]))


def test_root_mean_square_of_any_size():
    assert root_mean_square(np.array([3.0, -4.0])) == pytest.approx(math.sqrt(12.5))
    for unit in (1e-200, 1e200):
        assert root_mean_square(np.array([3.0, 4.0]) * unit) / unit == pytest.approx(
            math.sqrt(12.5)
        )


def test_schedules():
    factor = learning_rate_factor(OptimizerConfig(schedule="cosine"), 1000, 100)
    warmup = [factor(step) for step in range(50)]
    assert warmup == pytest.approx([(k + 1) / 50 for k in range(50)])
    assert factor(50) == pytest.approx(1.0)
    assert factor(1000) == pytest.approx(0.01)
    assert factor(525) == pytest.approx(0.505)
    later = [factor(step) for step in range(50, 1001)]
    assert later == sorted(later, reverse=True)

    factor = learning_rate_factor(OptimizerConfig(schedule="exponential", factor=0.9), 1000, 100)
    assert [factor(0), factor(99), factor(100), factor(950)] == pytest.approx(
        [1.0, 1.0, 0.9, 0.9**9]
    )
    factor = learning_rate_factor(OptimizerConfig(schedule="none"), 1000, 100)
    assert factor(0) == factor(999) == 1.0
    assert SCHEDULES == ("cosine", "exponential", "plateau", "none")
