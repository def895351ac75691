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


def slopes(total: Tensor, model: Rationalizer) -> tuple[Tensor, ...]:
    """The gradient of every parameter, zero where it has none."""
    options = {"retain_graph": True, "materialize_grads": True}
    return torch.autograd.grad(total, list(model.parameters()), **options)


def joint(model: Rationalizer, pieces: list[Tensor], y: Tensor) -> tuple[Rationale, Tensor, Tensor]:
    """Every selection of the batch as a sample, its losses and its probability."""
    x, ptr = joined(pieces), pointers(pieces)
    every = every_selection(len(x))
    found = model.given(every, x, ptr=ptr)
    labels = y.repeat(len(every))
    losses = cross_entropy(found.output, labels, reduction="none").view(len(every), len(y))
    return found, losses, found.log_prob.sum(dim=1).exp().detach()


def samples(found: Rationale, numbers: list[int], num_texts: int) -> Rationale:
    """Some of the samples of a rationale."""
    chosen = torch.tensor(numbers)
    rows = (chosen.unsqueeze(1) * num_texts + torch.arange(num_texts)).reshape(-1)
    return Rationale(found.output[rows], *(part[chosen] for part in found[1:]))


@of_both
@pytest.mark.parametrize(
    ("lengths", "count"), [((5,), 1), ((1,), 1), ((2, 0, 3), 1), ((3,), 2), ((2,), 3)], ids=str
)
def test_expectation(selection: str, lengths: tuple[int, ...], count: int) -> None:
    """The estimator's mean over all selections is the exact gradient, whatever the baseline.

    Of several samples, each with the others' mean cost as its baseline: over all their tuples.
    """
    model, pieces = rationalizer(selection), texts(*lengths)
    y = torch.tensor([1, 0, 1])[: len(lengths)]
    costs = [expected_cost(model, x, label) for x, label in zip(pieces, y, strict=True)]
    cost = torch.stack(costs).mean()
    gradients = slopes(cost, model)
    found, losses, p = joint(model, pieces, y)
    for baseline in (0.0, 0.8, -2.5) if count == 1 else (0.0,):
        total, value = losses.new_zeros(()), losses.new_zeros(())
        for drawn in itertools.product(range(len(p)), repeat=count):
            numbers = list(drawn)
            model.baseline.total.fill_(baseline)
            model.baseline.weight.fill_(1.0)
            objective = model.objective(samples(found, numbers, len(y)), losses[numbers])
            weight = p[numbers].prod()
            total, value = total + weight * objective, value + weight * objective.detach()
        close(value, cost.detach())
        close(slopes(total, model), gradients, atol=1e-11)
