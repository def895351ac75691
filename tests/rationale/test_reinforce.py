"""REINFORCE against the exact gradient: all selections enumerated, each with its probability."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pyg_kernels.rationale import Rationale, Rationalizer
from tests.rationale.cases import SELECTIONS, changes, every_selection, probabilities, rationalizer
from tests.sequence.texts import F64, close, joined, pointers, texts

of_both = pytest.mark.parametrize("selection", SELECTIONS)
SPARSITY, COHERENCE = 0.05, 0.03


def expected_cost(model: Rationalizer, x: Tensor, y: Tensor) -> Tensor:
    """Of one text: the sum over its selections."""
    every = every_selection(len(x))
    kept = [x[z] for z in every]
    output = model.encoder(joined(kept), ptr=pointers(kept))
    losses = cross_entropy(output, y.repeat(len(every)), reduction="none")
    prices = [SPARSITY * int(z.sum()) + COHERENCE * changes(z) for z in every]
    costs = losses + torch.tensor(prices, dtype=F64)
    return probabilities(model.generator, x) @ costs


def exact(model: Rationalizer, pieces: list[Tensor], y: Tensor) -> tuple[Tensor, list[Tensor]]:
    costs = [expected_cost(model, x, label) for x, label in zip(pieces, y, strict=True)]
    mean = torch.stack(costs).mean()
    return mean.detach(), slopes(mean, model)


def slopes(total: Tensor, model: Rationalizer) -> list[Tensor]:
    """The gradient of every parameter, zero where it has none."""
    found = torch.autograd.grad(
        total, list(model.parameters()), retain_graph=True, materialize_grads=True
    )
    return list(found)


def set_baseline(model: Rationalizer, value: float) -> None:
    model.baseline.total.fill_(value)
    model.baseline.weight.fill_(1.0)


def joint(model: Rationalizer, pieces: list[Tensor], y: Tensor) -> tuple[Rationale, Tensor, Tensor]:
    """Every selection of the batch as a sample, its losses and its probability."""
    x, ptr = joined(pieces), pointers(pieces)
    every = every_selection(len(x))
    found = model.given(every, x, ptr=ptr)
    labels = y.repeat(len(every))
    losses = cross_entropy(found.output, labels, reduction="none").view(len(every), len(y))
    assert found.log_prob is not None
    return found, losses, found.log_prob.sum(dim=1).exp().detach()


def samples(found: Rationale, numbers: list[int], num_texts: int) -> Rationale:
    """Some of the samples of a rationale."""
    chosen = torch.tensor(numbers)
    rows = (chosen.unsqueeze(1) * num_texts + torch.arange(num_texts)).reshape(-1)
    assert found.log_prob is not None
    return Rationale(
        found.output[rows],
        found.selection[chosen],
        found.log_prob[chosen],
        found.size[chosen],
        found.transitions[chosen],
    )


@of_both
@pytest.mark.parametrize("lengths", [(5,), (1,), (2, 0, 3)], ids=str)
def test_expectation(selection: str, lengths: tuple[int, ...]) -> None:
    """The estimator's mean over all selections is the exact gradient, whatever the baseline."""
    model, pieces = rationalizer(selection), texts(*lengths)
    y = torch.tensor([1, 0, 1])[: len(lengths)]
    cost, gradients = exact(model, pieces, y)
    found, losses, p = joint(model, pieces, y)
    for baseline in (0.0, 0.8, -2.5):
        total, value = losses.new_zeros(()), losses.new_zeros(())
        for s in range(len(p)):
            set_baseline(model, baseline)
            objective = model.objective(samples(found, [s], len(y)), losses[s : s + 1])
            total = total + p[s] * objective
            value = value + p[s] * objective.detach()
        close(value, cost)
        for a, b in zip(slopes(total, model), gradients, strict=True):
            close(a, b, atol=1e-11)


@of_both
@pytest.mark.parametrize(("length", "count"), [(3, 2), (2, 3)], ids=["pairs", "triples"])
def test_expectation_over_samples(selection: str, length: int, count: int) -> None:
    """With the other samples' mean cost as the baseline: over all tuples of selections."""
    model, pieces, y = rationalizer(selection), texts(length), torch.tensor([1])
    cost, gradients = exact(model, pieces, y)
    found, losses, p = joint(model, pieces, y)
    total, value = losses.new_zeros(()), losses.new_zeros(())
    for drawn in itertools.product(range(len(p)), repeat=count):
        numbers = list(drawn)
        objective = model.objective(samples(found, numbers, 1), losses[numbers])
        weight = p[numbers].prod()
        total, value = total + weight * objective, value + weight * objective.detach()
    close(value, cost)
    for a, b in zip(slopes(total, model), gradients, strict=True):
        close(a, b, atol=1e-11)


def test_the_baseline_lowers_the_variance() -> None:
    """Another sample's cost beside none: the trace of the gradient's covariance."""
    model, pieces, y = rationalizer(), texts(6), torch.tensor([1])
    found, losses, p = joint(model, pieces, y)
    losses = losses + 2.0  # a constant, which a baseline takes out
    weights = list(model.generator.parameters())
    assert found.log_prob is not None
    scores = [torch.autograd.grad(lp, weights, retain_graph=True) for lp in found.log_prob[:, 0]]
    rows = torch.stack([torch.cat([g.reshape(-1) for g in score]) for score in scores])
    costs = model.cost(found, losses).detach()[:, 0]
    mean = (p * costs).sum()

    def second_moment(weight: Tensor) -> Tensor:
        return (p * weight.square() * rows.square().sum(dim=1)).sum()

    assert second_moment(costs - mean) < 0.1 * second_moment(costs)
    assert p.dtype == F64
